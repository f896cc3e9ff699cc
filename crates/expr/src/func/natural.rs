//! NATURAL_SORT_KEY: a text whose order by characters is the order of its numbers by size.

use keel_base::SqlResult;
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, Value};

use super::string::too_long;
use super::{Function, function, given};
use crate::typing::{string_type, text_chars};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[function!("natural_sort_key", 1, 1, key_type, key)];

fn key_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let arg = &args[0].ty;
    let collation = match args[0].class() {
        Class::Null => CollationId::BINARY,
        _ if arg.is_string() => arg.collation,
        _ => cx.vars.connection_collation,
    };
    let chars = u64::from(text_chars(&args[0]));
    Ok((string_type(chars + chars.div_ceil(2), collation), true))
}

fn key<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    if too_long("natural_sort_key", text.len() as u64 * 2, cx)? {
        return Ok(Value::Null);
    }
    Ok(Value::Bytes(sort_key(&text).into()))
}

/// Each run of digits, less zeros in front, behind a mark of how many there are.
fn sort_key(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 2);
    let mut rest = text;
    while let Some(first) = rest.first() {
        if !first.is_ascii_digit() {
            out.push(*first);
            rest = &rest[1..];
            continue;
        }
        let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (run, behind) = rest.split_at(count);
        let zeros = run.iter().take_while(|b| **b == b'0').count();
        let digits = &run[zeros.min(count - 1)..];
        push_count(&mut out, digits.len());
        out.extend_from_slice(digits);
        rest = behind;
    }
    out
}

/// Nines for each nine digits, then how many more; from 28 on the number itself, marked in the same way.
fn push_count(out: &mut Vec<u8>, count: usize) {
    const NINE: usize = 9;
    match count - 1 {
        more @ 0..27 => {
            out.resize(out.len() + more / NINE, b'9');
            out.push(b'0' + (more % NINE) as u8);
        }
        more => {
            let number = more.to_string();
            out.extend_from_slice(b"9990");
            out.push(b'0' + (number.len() - 1) as u8);
            out.extend_from_slice(number.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_their_length() {
        let key = |text: &str| String::from_utf8(sort_key(text.as_bytes())).expect("ASCII");
        for (text, expected) in [
            ("v1.10", "v01.110"),
            ("a007", "a07"),
            ("00", "00"),
            ("99999999999", "9199999999999"),
            ("", ""),
            ("a12345678901234567890123456789", "a999012812345678901234567890123456789"),
        ] {
            assert_eq!(key(text), expected, "{text}");
        }
        assert!(key(&"1".repeat(27)).starts_with("9981"));
        assert!(key(&"1".repeat(1000)).starts_with("999029991"));
    }
}
