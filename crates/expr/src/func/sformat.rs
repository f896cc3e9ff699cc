//! SFORMAT: texts with places for values, in the language of the C++ library fmt.
//!
//! `{}` takes the next value, `{2}` the third. Behind a colon: filler and `<`, `>` or `^`; a sign; `#`; `0`; a width; `.` and a
//! precision; `L`; a letter for the form. Whole numbers, doubles and texts have forms of their own.

use std::iter::repeat_n;

use keel_base::{SqlResult, errors};
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, TypeKind, Value};

use super::string::too_long;
use super::{Function, function, given, text_value, unify};
use crate::typing::STRING_DECIMALS;
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[function!("sformat", 1, usize::MAX, sformat_type, sformat)];

/// Characters of a result that MariaDB describes.
const RESULT_CHARS: u32 = 16_777_216;
/// The longest fraction: no double has more digits.
const FRACTION_MAX: usize = 1100;

/// What is wrong with a format.
type Fault = &'static str;

const INVALID: Fault = "invalid format string";
const BAD_TYPE: Fault = "invalid type specifier";
const NO_ARGUMENT: Fault = "argument not found";
const NO_PRECISION: Fault = "precision not allowed for this argument type";
const NOT_NUMERIC: Fault = "format specifier requires numeric argument";

/// A value as formats see it.
enum Arg {
    Int(i64),
    Real(f64),
    Text(String),
}

/// What stands behind the colon.
struct Spec {
    fill: char,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    grouped: bool,
    form: Option<char>,
}

fn sformat_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let count = args.len();
    let collation = unify(cx, args, 0..count, "sformat")?;
    let collation = if args[0].class() == Class::Null { CollationId::BINARY } else { collation };
    let kind = if collation == CollationId::BINARY { TypeKind::LongBlob } else { TypeKind::LongText };
    let ty = SqlType::new(kind).with_length(RESULT_CHARS).with_decimals(STRING_DECIMALS);
    Ok((ty.with_collation(collation), true))
}

fn sformat<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let format = given!(args[0].text(cx)?);
    let mut values = Vec::with_capacity(args.len() - 1);
    for arg in &args[1..] {
        values.push(match arg.class() {
            Class::Int => Arg::Int(given!(arg.integer(cx)?) as i64),
            Class::Real if arg.ty.kind == TypeKind::Float => {
                // As many digits as tell a FLOAT.
                let v = given!(arg.real(cx)?) as f32;
                Arg::Real(v.to_string().parse().unwrap_or(f64::from(v)))
            }
            Class::Decimal | Class::Real => Arg::Real(given!(arg.real(cx)?)),
            _ => Arg::Text(String::from_utf8_lossy(&given!(arg.text(cx)?)).into_owned()),
        });
    }
    let most = cx.env().vars.max_allowed_packet;
    let format = String::from_utf8_lossy(&format);
    let formatted = Formatter::new(&format, &values, most).run();
    match formatted {
        Ok(text) if too_long("sformat", text.len() as u64, cx)? => Ok(Value::Null),
        Ok(text) => Ok(text_value(text)),
        Err(fault) => {
            cx.warn(errors::sformat_error(fault))?;
            Ok(Value::Null)
        }
    }
}

/// One run over a format.
struct Formatter<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    values: &'a [Arg],
    /// The next value of `{}`; none once one was named.
    next: Option<usize>,
    out: String,
    /// Octets after which nothing more is made.
    most: u64,
}

impl<'a> Formatter<'a> {
    fn new(format: &'a str, values: &'a [Arg], most: u64) -> Formatter<'a> {
        Formatter { rest: format.chars().peekable(), values, next: Some(0), out: String::new(), most }
    }

    fn run(mut self) -> Result<String, Fault> {
        while let Some(c) = self.rest.next() {
            match c {
                '{' if self.rest.next_if_eq(&'{').is_some() => self.out.push('{'),
                '{' => self.field()?,
                '}' if self.rest.next_if_eq(&'}').is_some() => self.out.push('}'),
                '}' => return Err("unmatched '}' in format string"),
                c => self.out.push(c),
            }
            if self.out.len() as u64 > self.most {
                break;
            }
        }
        Ok(self.out)
    }

    /// One field, its brace taken; what it is too wide for is left to the caller to refuse.
    fn field(&mut self) -> Result<(), Fault> {
        let value = self.argument(&['}', ':'])?;
        match self.rest.next() {
            Some('}') => {
                self.out.push_str(&plain(value));
                Ok(())
            }
            Some(':') => {
                let mut spec = self.spec()?;
                spec.width =
                    spec.width.min(usize::try_from(self.most).unwrap_or(usize::MAX).saturating_add(1));
                self.out.push_str(&show(value, &spec)?);
                Ok(())
            }
            _ => Err(INVALID),
        }
    }

    /// The value that stands at a field's beginning or as a width, ended by one of `ends`.
    fn argument(&mut self, ends: &[char]) -> Result<&'a Arg, Fault> {
        let values = self.values;
        match self.rest.peek() {
            Some(c) if ends.contains(c) => {
                let next = self.next.ok_or("cannot switch from manual to automatic argument indexing")?;
                self.next = Some(next + 1);
                values.get(next).ok_or(NO_ARGUMENT)
            }
            Some(c) if c.is_ascii_digit() => {
                if self.next.is_some_and(|next| next > 0) {
                    return Err("cannot switch from automatic to manual argument indexing");
                }
                self.next = None;
                let index = self.number()?;
                match self.rest.peek() {
                    Some(c) if ends.contains(c) => values.get(index).ok_or(NO_ARGUMENT),
                    _ => Err(INVALID),
                }
            }
            Some(c) if c.is_alphabetic() || *c == '_' => Err(NO_ARGUMENT),
            _ => Err(INVALID),
        }
    }

    fn number(&mut self) -> Result<usize, Fault> {
        let mut number = 0usize;
        while let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(digit as usize);
            self.rest.next();
        }
        if number > i32::MAX as usize { Err("number is too big") } else { Ok(number) }
    }

    /// A width or precision, as a number or a value in braces.
    fn size(&mut self) -> Result<usize, Fault> {
        let size = if self.rest.next_if_eq(&'{').is_some() {
            let value = self.argument(&['}'])?;
            self.rest.next();
            match value {
                Arg::Int(v) => usize::try_from(*v).map_err(|_| "negative width")?,
                _ => return Err("width is not integer"),
            }
        } else {
            self.number()?
        };
        Ok(size)
    }

    fn spec(&mut self) -> Result<Spec, Fault> {
        let is_align = |c: &char| matches!(c, '<' | '>' | '^');
        let (mut fill, mut align) = (' ', None);
        let mut ahead = self.rest.clone();
        let (first, second) = (ahead.next(), ahead.next());
        match (first, second) {
            (Some('{'), Some(how)) if is_align(&how) => return Err("invalid fill character '{'"),
            (Some(c), Some(how)) if is_align(&how) && c != '}' => {
                (fill, align) = (c, Some(how));
                self.rest.next();
                self.rest.next();
            }
            (Some(how), _) if is_align(&how) => {
                align = Some(how);
                self.rest.next();
            }
            _ => {}
        }
        let sign = self.rest.next_if(|c| matches!(c, '+' | '-' | ' '));
        let alternate = self.rest.next_if_eq(&'#').is_some();
        let zero = self.rest.next_if_eq(&'0').is_some();
        let is_size = |c: Option<&char>| c.is_some_and(|c| c.is_ascii_digit() || *c == '{');
        let width = if is_size(self.rest.peek()) { self.size()? } else { 0 };
        let mut precision = None;
        if self.rest.next_if_eq(&'.').is_some() {
            if !is_size(self.rest.peek()) {
                return Err("missing precision specifier");
            }
            precision = Some(self.size()?);
        }
        let grouped = self.rest.next_if_eq(&'L').is_some();
        let form = self.rest.next_if(|c| *c != '}');
        match self.rest.next() {
            Some('}') => Ok(Spec { fill, align, sign, alternate, zero, width, precision, grouped, form }),
            None if form.is_none() => Err("missing '}' in format string"),
            _ => Err(BAD_TYPE),
        }
    }
}

/// A value of `{}`.
fn plain(value: &Arg) -> String {
    match value {
        Arg::Int(v) => v.to_string(),
        Arg::Real(v) => signed(*v, None, general(v.abs(), None, false)),
        Arg::Text(text) => text.clone(),
    }
}

fn show(value: &Arg, spec: &Spec) -> Result<String, Fault> {
    let (text, is_number) = match value {
        Arg::Text(text) => (show_text(text, spec)?, false),
        Arg::Int(v) if spec.form == Some('c') => {
            let c = u32::try_from(*v).ok().and_then(char::from_u32).ok_or(BAD_TYPE)?;
            (c.to_string(), false)
        }
        Arg::Int(v) => (show_int(*v, spec)?, true),
        Arg::Real(v) => (show_real(*v, spec)?, true),
    };
    Ok(pad(text, spec, is_number))
}

/// Fills a field; zeros stand behind the sign.
fn pad(text: String, spec: &Spec, is_number: bool) -> String {
    let missing = spec.width.saturating_sub(text.chars().count());
    if missing == 0 {
        return text;
    }
    if spec.zero && spec.align.is_none() && is_number {
        let body = text.find(|c: char| !matches!(c, '+' | '-' | ' ')).unwrap_or(0);
        let body = if spec.alternate && text[body..].starts_with("0x") { body + 2 } else { body };
        return format!("{}{}{}", &text[..body], "0".repeat(missing), &text[body..]);
    }
    let before = match spec.align {
        Some('<') => 0,
        Some('^') => missing / 2,
        Some(_) => missing,
        None => {
            if is_number {
                missing
            } else {
                0
            }
        }
    };
    let mut out: String = repeat_n(spec.fill, before).collect();
    out.push_str(&text);
    out.extend(repeat_n(spec.fill, missing - before));
    out
}

fn show_text(text: &str, spec: &Spec) -> Result<String, Fault> {
    if !matches!(spec.form, None | Some('s')) {
        return Err(BAD_TYPE);
    }
    if spec.sign.is_some() || spec.alternate || spec.zero {
        return Err(NOT_NUMERIC);
    }
    Ok(match spec.precision {
        Some(chars) => text.chars().take(chars).collect(),
        None => text.to_string(),
    })
}

fn show_int(v: i64, spec: &Spec) -> Result<String, Fault> {
    if spec.precision.is_some() {
        return Err(NO_PRECISION);
    }
    let size = v.unsigned_abs();
    let (prefix, digits) = match spec.form {
        None | Some('d') => ("", size.to_string()),
        Some('x') => ("0x", format!("{size:x}")),
        Some('X') => ("0X", format!("{size:X}")),
        Some('o') => (if size == 0 { "" } else { "0" }, format!("{size:o}")),
        Some('b') => ("0b", format!("{size:b}")),
        Some('B') => ("0B", format!("{size:b}")),
        _ => return Err(BAD_TYPE),
    };
    let digits = if spec.grouped { by_thousands(&digits) } else { digits };
    let prefix = if spec.alternate { prefix } else { "" };
    Ok(format!("{}{prefix}{digits}", sign_of(v < 0, spec.sign)))
}

fn by_thousands(digits: &str) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn sign_of(negative: bool, sign: Option<char>) -> &'static str {
    match (negative, sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    }
}

fn signed(v: f64, sign: Option<char>, size: String) -> String {
    format!("{}{size}", sign_of(v.is_sign_negative(), sign))
}

/// Digits behind the point where a form asks for none in particular.
const DIGITS: usize = 6;

fn show_real(v: f64, spec: &Spec) -> Result<String, Fault> {
    let size = v.abs();
    let precision = spec.precision.map(|digits| digits.min(FRACTION_MAX));
    let digits = precision.unwrap_or(DIGITS);
    let text = match spec.form {
        None => general(size, precision, spec.alternate),
        Some('g' | 'G') => general(size, Some(digits), spec.alternate),
        Some('f' | 'F') => format!("{size:.digits$}"),
        Some('e' | 'E') => with_exponent(&format!("{size:.digits$e}")),
        _ => return Err(BAD_TYPE),
    };
    let text = if matches!(spec.form, Some('E' | 'G' | 'F')) { text.to_uppercase() } else { text };
    Ok(signed(v, spec.sign, text))
}

/// `1.5e7` as `1.5e+07`.
fn with_exponent(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// From this size on numbers are shown with an exponent where no digits are asked for.
const EXPONENT_MAX: i32 = 16;

/// The shorter of both forms, with so many digits in all, or as many as tell the number.
fn general(size: f64, digits: Option<usize>, keeps_zeros: bool) -> String {
    let digits = digits.map(|digits| digits.max(1));
    let scientific = match digits {
        Some(digits) => format!("{size:.*e}", digits - 1),
        None => format!("{size:e}"),
    };
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let most = digits.map_or(EXPONENT_MAX, |digits| digits as i32);
    if exponent < -4 || exponent >= most {
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return with_exponent(&format!("{}e{exponent}", trimmed(mantissa, keeps_zeros)));
    }
    let plain = match digits {
        Some(digits) => format!("{size:.*}", (digits as i32 - 1 - exponent).max(0) as usize),
        None => format!("{size}"),
    };
    trimmed(&plain, keeps_zeros).to_string()
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str, keeps_zeros: bool) -> &str {
    if keeps_zeros || !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(format: &str, values: &[Arg]) -> Result<String, Fault> {
        Formatter::new(format, values, 1 << 20).run()
    }

    #[test]
    fn forms_are_those_of_the_library() {
        let values = [Arg::Int(42), Arg::Real(2.71), Arg::Text("hi".into())];
        for (format, expected) in [
            ("{} {} {}", Ok("42 2.71 hi")),
            ("{0:5}|{0:<5}|{0:^5}|{0:05}", Ok("   42|42   | 42  |00042")),
            ("{0:#x} {0:+} {0:o}", Ok("0x2a +42 52")),
            ("{1:.1f} {1:e} {1:.2}", Ok("2.7 2.710000e+00 2.7")),
            ("{2:*^6}{{}}", Ok("**hi**{}")),
            ("{2:d}", Err(BAD_TYPE)),
            ("{0:.2}", Err(NO_PRECISION)),
            ("{3}", Err(NO_ARGUMENT)),
            ("{", Err(INVALID)),
            ("{0:5", Err("missing '}' in format string")),
        ] {
            assert_eq!(formatted(format, &values), expected.map(String::from), "{format}");
        }
        let plain = |v: f64| plain(&Arg::Real(v));
        assert_eq!(plain(1e15), "1000000000000000");
        assert_eq!(plain(1e16), "1e+16");
        assert_eq!(plain(1.5e-5), "1.5e-05");
        assert_eq!(plain(-0.0001), "-0.0001");
    }
}
