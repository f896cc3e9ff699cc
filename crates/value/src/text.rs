//! Values as text: the text protocol's cells, CAST to CHAR, and the form in which comparisons see numbers as strings.
//!
//! All functions append to a buffer, so that a row goes from its page into the outgoing packet without a copy between.

use std::io::Write;

use crate::collation::{self, Charset};
use crate::types::{NOT_FIXED, NOT_SPECIFIED};
use crate::{Date, DateTime, SqlType, Time, TypeKind, ValueRef};

const PAIRS: [[u8; 2]; 100] = {
    let mut table = [[b'0'; 2]; 100];
    let mut i = 0;
    while i < 100 {
        table[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    table
};

/// Exponents between which doubles print without one: MariaDB's MAX_DECPT_FOR_F_FORMAT.
const PLAIN_POINT_MAX: i32 = 15;

/// Appends a value as the text protocol sends it, without length; NULL appends nothing. ENUM and SET names come in the
/// collation's character set; a BIT is its octets.
pub fn append(out: &mut Vec<u8>, ty: &SqlType, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Int(v) if ty.unsigned && v < 0 => append_unsigned(out, ty, v as u64),
        ValueRef::Int(v) => {
            let start = out.len();
            append_i64(out, v);
            zerofill(out, start, ty);
        }
        ValueRef::UInt(v) => append_unsigned(out, ty, v),
        ValueRef::Double(v) => append_real(out, ty, v, append_f64),
        ValueRef::Float(v) => append_real(out, ty, f64::from(v), |out, v| append_f32(out, v as f32)),
        ValueRef::Decimal(v) => {
            let start = out.len();
            let is_rounded =
                ty.kind != TypeKind::Decimal || v.scale() == ty.decimals || ty.decimals == NOT_SPECIFIED;
            if is_rounded { v } else { v.round(i32::from(ty.decimals)) }.append_to(out);
            zerofill(out, start, ty);
        }
        ValueRef::Bytes(v) => out.extend_from_slice(v),
        ValueRef::Date(v) => append_date(out, v),
        ValueRef::Time(v) => append_time(out, v, ty.fraction_digits()),
        ValueRef::DateTime(v) if ty.kind == TypeKind::Date => append_date(out, v.date),
        ValueRef::DateTime(v) => append_datetime(out, v, ty.fraction_digits()),
        ValueRef::Fixed(v) => v.append_to(out),
    }
}

impl SqlType {
    /// Fraction digits of a temporal type; 6 for other types, which show what there is.
    fn fraction_digits(&self) -> u8 {
        if self.is_temporal() { self.decimals.min(6) } else { 6 }
    }
}

fn append_unsigned(out: &mut Vec<u8>, ty: &SqlType, v: u64) {
    match ty.kind {
        TypeKind::Enum => append_member(out, ty, v),
        TypeKind::Set => append_set(out, ty, v),
        TypeKind::Bit if ty.is_octets_of_bits() => {
            let octets = ty.length.div_ceil(8).clamp(1, 8) as usize;
            out.extend_from_slice(&v.to_be_bytes()[8 - octets..]);
        }
        TypeKind::Year => append_padded(out, v as u32, 4),
        _ => {
            let start = out.len();
            append_u64(out, v);
            zerofill(out, start, ty);
        }
    }
}

/// Appends member `index` of an ENUM, from 1; 0 is the error value and empty.
fn append_member(out: &mut Vec<u8>, ty: &SqlType, index: u64) {
    if let Some(name) = index.checked_sub(1).and_then(|i| ty.members().get(i as usize)) {
        append_name(out, ty, name);
    }
}

fn append_set(out: &mut Vec<u8>, ty: &SqlType, mask: u64) {
    let start = out.len();
    for (i, name) in ty.members().iter().enumerate().take(64) {
        if mask >> i & 1 == 1 {
            if out.len() > start {
                out.push(b',');
            }
            append_name(out, ty, name);
        }
    }
}

fn append_name(out: &mut Vec<u8>, ty: &SqlType, name: &str) {
    let (name, _) = collation::convert(Charset::Utf8mb4, ty.collation.charset(), name.as_bytes());
    out.extend_from_slice(&name);
}

/// Fills up with zeros to the display width.
fn zerofill(out: &mut Vec<u8>, start: usize, ty: &SqlType) {
    if ty.zerofill {
        let width = (ty.display_length() as usize).min(255);
        let missing = width.saturating_sub(out.len() - start);
        out.splice(start..start, std::iter::repeat_n(b'0', missing));
    }
}

fn append_real(out: &mut Vec<u8>, ty: &SqlType, v: f64, shortest: fn(&mut Vec<u8>, f64)) {
    let start = out.len();
    if ty.decimals >= NOT_FIXED || !matches!(ty.kind, TypeKind::Float | TypeKind::Double) {
        shortest(out, v);
    } else {
        append_fixed(out, v, ty.decimals);
    }
    zerofill(out, start, ty);
}

/// Appends octets as a literal of SQL, in quotes and escaped as MariaDB's tools do.
pub fn append_literal(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'\'');
    for byte in bytes {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x1a => out.extend_from_slice(b"\\Z"),
            b'\\' | b'\'' => out.extend_from_slice(&[b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

/// Appends decimal digits.
pub fn append_i64(out: &mut Vec<u8>, v: i64) {
    if v < 0 {
        out.push(b'-');
    }
    append_u64(out, v.unsigned_abs());
}

/// Appends decimal digits.
pub fn append_u64(out: &mut Vec<u8>, mut v: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while v >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(v % 100) as usize]);
        v /= 100;
    }
    if v >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[v as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + v as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends at least `width` digits.
fn append_padded(out: &mut Vec<u8>, v: u32, width: usize) {
    let start = out.len();
    append_u64(out, u64::from(v));
    let missing = width.saturating_sub(out.len() - start);
    out.splice(start..start, std::iter::repeat_n(b'0', missing));
}

/// Appends a double with as many digits as tell it from its neighbours.
pub fn append_f64(out: &mut Vec<u8>, v: f64) {
    append_f64_within(out, v, UNBOUNDED);
}

/// Appends a double with at most `width` characters, as MariaDB stores one in a CHAR of that length: digits are given up
/// for room, and the form with exponent is taken where it keeps more of them. False if not even one digit fits; one is
/// written all the same.
pub fn append_f64_within(out: &mut Vec<u8>, v: f64, width: usize) -> bool {
    let width = if v < 0.0 { width.saturating_sub(1) } else { width };
    Digits::shortest(v, width.max(1)).lay_out(out, v, width as i32)
}

/// Appends a float with at most six digits, as MariaDB does.
pub fn append_f32(out: &mut Vec<u8>, v: f32) {
    append_f32_within(out, v, UNBOUNDED);
}

/// Appends a float within `width` characters, otherwise as [`append_f64_within`].
pub fn append_f32_within(out: &mut Vec<u8>, v: f32, width: usize) -> bool {
    let v = f64::from(v);
    let width = if v < 0.0 { width.saturating_sub(1) } else { width };
    Digits::shortest(v, width.clamp(1, FLOAT_DIGITS)).lay_out(out, v, width as i32)
}

/// Wider than any double.
const UNBOUNDED: usize = 400;
/// Significant digits of FLOAT.
const FLOAT_DIGITS: usize = 6;
/// Doubles of fewer shortest digits are not halfway between two texts.
const TIE_DIGITS_MIN: usize = 15;
/// Digits that every double has at most when printed shortest.
const DOUBLE_DIGITS: usize = 17;

/// Appends a double with a fixed number of digits after the point.
pub fn append_fixed(out: &mut Vec<u8>, v: f64, decimals: u8) {
    let start = out.len();
    // The shortest digits that tell the number, zeros behind: what lies between two doubles is not shown.
    write!(out, "{v}").expect("a Vec takes all bytes");
    let point = out[start..].iter().position(|b| *b == b'.');
    let written = point.map_or(0, |at| out.len() - start - at - 1);
    if written > usize::from(decimals) {
        out.truncate(start);
        write!(out, "{:.*}", usize::from(decimals), v).expect("a Vec takes all bytes");
    } else if decimals > 0 {
        if point.is_none() {
            out.push(b'.');
        }
        out.resize(out.len() + usize::from(decimals) - written, b'0');
    }
    if v == 0.0 && out[start] == b'-' {
        out.remove(start);
    }
}

/// Significant digits of a number and where its point stands: `0.d1d2d3... * 10^point`.
struct Digits {
    digits: [u8; 40],
    len: usize,
    point: i32,
}

impl Digits {
    /// The shortest digits that tell a double from its neighbours, rounded to at most `max`.
    fn shortest(v: f64, max: usize) -> Digits {
        let shortest = Digits::scan(format_args!("{v:e}")).tie_to_even(v);
        if shortest.len <= max {
            shortest
        } else {
            Digits::scan(format_args!("{:.*e}", max.min(DOUBLE_DIGITS) - 1, v))
        }
    }

    /// Where two shortest texts are equally near, MariaDB takes the even digit. Only numbers of many digits can be halfway.
    fn tie_to_even(self, v: f64) -> Digits {
        if self.len < TIE_DIGITS_MIN {
            return self;
        }
        let nearest = Digits::scan(format_args!("{:.*e}", self.len - 1, v));
        let is_same = nearest.digits[..nearest.len] == self.digits[..self.len];
        if is_same || format!("{:.*e}", self.len - 1, v).parse() != Ok(v) { self } else { nearest }
    }

    /// Digits down to `decimals` after the point.
    fn fixed(v: f64, decimals: usize) -> Digits {
        let mut text = [0u8; 48];
        let mut cursor = std::io::Cursor::new(&mut text[..]);
        // A number of more than 40 characters has no fraction to round: its digits stay as they are.
        if write!(cursor, "{:.*}", decimals, v.abs()).is_err() {
            return Digits::scan(format_args!("{v:e}"));
        }
        let len = cursor.position() as usize;
        let text = &text[..len];
        let whole = text.iter().position(|b| *b == b'.').unwrap_or(len);
        let mut out = Digits { digits: [0; 40], len: 0, point: whole as i32 };
        for &b in text.iter().filter(|b| b.is_ascii_digit()) {
            if out.len == 0 && b == b'0' {
                out.point -= 1;
            } else if out.len < out.digits.len() {
                out.digits[out.len] = b;
                out.len += 1;
            }
        }
        out.trim();
        out
    }

    fn scan(scientific: std::fmt::Arguments<'_>) -> Digits {
        let mut text = [0u8; 40];
        let mut cursor = std::io::Cursor::new(&mut text[..]);
        cursor.write_fmt(scientific).expect("17 digits and an exponent take 24 octets");
        let len = cursor.position() as usize;
        let text = &text[..len];
        let e = text.iter().position(|b| *b == b'e').unwrap_or(len);
        let exponent =
            std::str::from_utf8(&text[(e + 1).min(len)..]).ok().and_then(|t| t.parse::<i32>().ok());
        let mut out = Digits { digits: [0; 40], len: 0, point: exponent.unwrap_or(0) + 1 };
        for &b in text[..e].iter().filter(|b| b.is_ascii_digit()) {
            out.digits[out.len] = b;
            out.len += 1;
        }
        out.trim();
        out
    }

    fn trim(&mut self) {
        while self.len > 1 && self.digits[self.len - 1] == b'0' {
            self.len -= 1;
        }
    }

    /// Chooses between plain digits and an exponent by MariaDB's rules (its my_gcvt).
    fn lay_out(self, out: &mut Vec<u8>, v: f64, width: i32) -> bool {
        if v == 0.0 || !v.is_finite() {
            // MariaDB stores no infinities; expressions turn them into NULL or an error before they get here.
            out.push(b'0');
            return true;
        }
        let (len, point) = (self.len as i32, self.point);
        let exponent_digits =
            1 + i32::from(point >= 101 || point <= -99) + i32::from(point >= 11 || point <= -9);
        let plain = if point <= 0 { len - point + 2 } else { point.max(len + i32::from(point < len)) };
        let fits = width >= plain;
        let only_zeros = point <= 0 && width <= 2 - point && width >= 3 + exponent_digits;
        let worth_cutting = point <= width && (point >= -1 || point == -2 && len > 1) && !only_zeros;
        let is_plain = point > -PLAIN_POINT_MAX && (point <= PLAIN_POINT_MAX || len > point);
        let is_negative = v < 0.0;
        if fits && is_plain {
            self.write_plain(is_negative, out);
        } else if !fits && worth_cutting {
            let room = width - i32::from(point < len) - if point <= 0 { 1 - point } else { 0 };
            Digits::fixed(v, (room.max(point) - point).max(0) as usize).write_plain(is_negative, out);
        } else {
            let sign = i32::from(point < 1);
            let room = width - 1 - exponent_digits - sign - i32::from(len > 1);
            let cut = if room < len { Digits::shortest(v, room.max(1) as usize) } else { self };
            cut.write_scientific(is_negative, out);
            return room > 0;
        }
        true
    }

    fn write_plain(&self, is_negative: bool, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.len];
        if is_negative && !matches!(digits, [] | b"0") {
            out.push(b'-');
        }
        match usize::try_from(self.point) {
            _ if digits.is_empty() || digits == b"0" => out.push(b'0'),
            Err(_) | Ok(0) => {
                out.extend_from_slice(b"0.");
                out.extend(std::iter::repeat_n(b'0', self.point.unsigned_abs() as usize));
                out.extend_from_slice(digits);
            }
            Ok(point) if point >= digits.len() => {
                out.extend_from_slice(digits);
                out.extend(std::iter::repeat_n(b'0', point - digits.len()));
            }
            Ok(point) => {
                out.extend_from_slice(&digits[..point]);
                out.push(b'.');
                out.extend_from_slice(&digits[point..]);
            }
        }
    }

    fn write_scientific(&self, is_negative: bool, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.len];
        if is_negative {
            out.push(b'-');
        }
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        append_i64(out, i64::from(self.point - 1));
    }
}

fn pair(v: u8) -> [u8; 2] {
    PAIRS[usize::from(v % 100)]
}

/// Appends `YYYY-MM-DD`.
pub fn append_date(out: &mut Vec<u8>, date: Date) {
    let [a, b] = pair((date.year / 100) as u8);
    let [c, d] = pair((date.year % 100) as u8);
    let [e, f] = pair(date.month);
    let [g, h] = pair(date.day);
    out.extend_from_slice(&[a, b, c, d, b'-', e, f, b'-', g, h]);
}

/// Appends `[-]HH:MM:SS[.ffffff]`.
pub fn append_time(out: &mut Vec<u8>, time: Time, fraction_digits: u8) {
    if time.micros < 0 {
        out.push(b'-');
    }
    let hours = time.hours();
    if hours >= 100 {
        append_u64(out, u64::from(hours));
    } else {
        out.extend_from_slice(&pair(hours as u8));
    }
    let [a, b] = pair(time.minutes());
    let [c, d] = pair(time.seconds());
    out.extend_from_slice(&[b':', a, b, b':', c, d]);
    append_fraction(out, time.fraction(), fraction_digits);
}

/// Appends `YYYY-MM-DD HH:MM:SS[.ffffff]`.
pub fn append_datetime(out: &mut Vec<u8>, v: DateTime, fraction_digits: u8) {
    append_date(out, v.date);
    let ([a, b], [c, d], [e, f]) = (pair(v.hour), pair(v.minute), pair(v.second));
    out.extend_from_slice(&[b' ', a, b, b':', c, d, b':', e, f]);
    append_fraction(out, v.micros, fraction_digits);
}

fn append_fraction(out: &mut Vec<u8>, micros: u32, digits: u8) {
    if digits > 0 {
        out.push(b'.');
        append_padded(out, micros / 10u32.pow(6 - u32::from(digits.min(6))), usize::from(digits.min(6)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CollationId, Decimal};

    fn shown(ty: &SqlType, value: ValueRef<'_>) -> String {
        let mut out = Vec::new();
        append(&mut out, ty, value);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn integers_print_as_the_standard_library_prints_them() {
        for v in [0, 7, 10, 99, 100, 101, 12345, i64::MAX, i64::MIN, -1, -10] {
            assert_eq!(shown(&SqlType::bigint(), ValueRef::Int(v)), v.to_string());
        }
        assert_eq!(shown(&SqlType::bigint_unsigned(), ValueRef::UInt(u64::MAX)), u64::MAX.to_string());
        assert_eq!(shown(&SqlType::int().with_length(5).with_zerofill(), ValueRef::UInt(42)), "00042");
    }

    #[test]
    fn members_bits_and_years_take_their_type() {
        let names = vec!["red".to_string(), "grün".to_string()];
        let ty = SqlType::members_of(TypeKind::Enum, names.clone(), CollationId::UTF8MB4_GENERAL_CI);
        assert_eq!(shown(&ty, ValueRef::UInt(2)), "grün");
        assert_eq!(shown(&ty, ValueRef::UInt(0)), "");
        let ty = SqlType::members_of(TypeKind::Set, names, CollationId::LATIN1_SWEDISH_CI);
        let mut out = Vec::new();
        append(&mut out, &ty, ValueRef::UInt(3));
        assert_eq!(out, b"red,gr\xFCn");
        out.clear();
        append(&mut out, &SqlType::new(TypeKind::Bit).with_length(10), ValueRef::UInt(0x2FF));
        assert_eq!(out, [2, 0xFF]);
        assert_eq!(shown(&SqlType::new(TypeKind::Year), ValueRef::UInt(0)), "0000");
    }

    #[test]
    fn temporals_show_their_fraction_digits() {
        let date = Date { year: 2024, month: 2, day: 9 };
        let v = DateTime { date, hour: 3, minute: 4, second: 5, micros: 60_700, ..DateTime::default() };
        assert_eq!(shown(&SqlType::new(TypeKind::Date), ValueRef::Date(date)), "2024-02-09");
        assert_eq!(shown(&SqlType::new(TypeKind::DateTime), ValueRef::DateTime(v)), "2024-02-09 03:04:05");
        assert_eq!(
            shown(&SqlType::temporal(TypeKind::DateTime, 4), ValueRef::DateTime(v)),
            "2024-02-09 03:04:05.0607"
        );
        let time = Time::from_parts(true, 123, 4, 5, 6);
        assert_eq!(shown(&SqlType::temporal(TypeKind::Time, 6), ValueRef::Time(time)), "-123:04:05.000006");
    }

    #[test]
    fn decimals_are_rounded_to_their_type() {
        let v = Decimal::parse(b"1.2345").unwrap();
        assert_eq!(shown(&SqlType::decimal(10, 2), ValueRef::Decimal(v)), "1.23");
        assert_eq!(shown(&SqlType::decimal(6, 2).with_zerofill(), ValueRef::Decimal(v)), "0001.23");
    }
}
