//! JSON in a form that is the same for equal values: keys sorted, no spaces, numbers as `d.dE±x`.
//!
//! Strings and keys are compared as they are written; members with one key all stay.

use super::fault::Fault;
use super::scan::{Kind, Scanner, Value};

/// Appends a whole text's normal form.
pub fn normalize(text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    let value = scanner.value()?;
    write(&mut scanner, value, out)?;
    scanner.finish()
}

/// Appends the normal form of a value just begun.
pub fn write(scanner: &mut Scanner<'_>, value: Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    match value.kind {
        Kind::Object => write_object(scanner, out),
        Kind::Array => {
            out.push(b'[');
            let mut first = true;
            while scanner.element()? {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                let element = scanner.value()?;
                write(scanner, element, out)?;
            }
            out.push(b']');
            Ok(())
        }
        Kind::Number => {
            write_number(value.raw(scanner.text()), out);
            Ok(())
        }
        _ => {
            out.extend_from_slice(value.raw(scanner.text()));
            Ok(())
        }
    }
}

/// Members are written behind each other and then put in order.
fn write_object(scanner: &mut Scanner<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let text = scanner.text();
    let mut written = Vec::new();
    let mut members: Vec<(&[u8], usize, usize)> = Vec::new();
    while let Some(key) = scanner.key()? {
        let start = written.len();
        written.extend_from_slice(&text[key.start..key.end]);
        written.push(b':');
        let value = scanner.value()?;
        write(scanner, value, &mut written)?;
        members.push((key.inner(text), start, written.len()));
    }
    members.sort_by(|a, b| a.0.cmp(b.0));
    for twins in members.chunk_by_mut(|a, b| a.0 == b.0).filter(|twins| twins.len() > 1) {
        let of_value = |(key, start, end): &(&[u8], usize, usize)| {
            // A key is as long as its text and two quotes; a colon follows.
            let text = &written[start + key.len() + 3..*end];
            let mut rank = Vec::new();
            let mut scanner = Scanner::new(text);
            scanner.value().and_then(|value| write_rank(&mut scanner, value, &mut rank)).map(|()| rank)
        };
        let mut ranked = Vec::with_capacity(twins.len());
        for twin in &*twins {
            ranked.push((of_value(twin)?, *twin));
        }
        ranked.sort_by(|a, b| a.0.cmp(&b.0));
        twins.iter_mut().zip(ranked).for_each(|(place, (_, twin))| *place = twin);
    }
    out.push(b'{');
    for (place, (_, start, end)) in members.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&written[start..end]);
    }
    out.push(b'}');
    Ok(())
}

/// Appends bytes that order normal forms as MariaDB does: objects, arrays, strings, numbers, true, false, null, and of one kind
/// the shorter ones first.
fn write_rank(scanner: &mut Scanner<'_>, value: Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    let kind = match value.kind {
        Kind::Object => 0,
        Kind::Array => 1,
        Kind::String => 2,
        Kind::Number => 3,
        Kind::True => 4,
        Kind::False => 5,
        Kind::Null => 6,
    };
    out.push(kind);
    let place = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0u32;
    match value.kind {
        Kind::Object => {
            while let Some(key) = scanner.key()? {
                out.extend_from_slice(key.inner(scanner.text()));
                out.push(0);
                let member = scanner.value()?;
                write_rank(scanner, member, out)?;
                count += 1;
            }
        }
        Kind::Array => {
            while scanner.element()? {
                let element = scanner.value()?;
                write_rank(scanner, element, out)?;
                count += 1;
            }
        }
        _ => {
            let raw = value.raw(scanner.text());
            out.extend_from_slice(raw);
            count = raw.len() as u32;
        }
    }
    out[place..place + 4].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

/// A number's digits and exponent, exactly: `-12.50e1` is `-1.25E2`; zero has no sign.
fn write_number(raw: &[u8], out: &mut Vec<u8>) {
    let (sign, rest) = match raw.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, raw),
    };
    let split = rest.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(rest.len());
    let (mantissa, exponent) = rest.split_at(split);
    let exponent = std::str::from_utf8(exponent.get(1..).unwrap_or_default()).unwrap_or_default();
    let exponent: i64 = exponent.parse().unwrap_or(if exponent.starts_with('-') {
        i64::from(i32::MIN)
    } else if exponent.len() > 1 {
        i64::from(i32::MAX)
    } else {
        0
    });
    let point = mantissa.iter().position(|b| *b == b'.').unwrap_or(mantissa.len());
    let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
    let Some(leading) = digits.iter().position(|b| *b != b'0') else {
        out.extend_from_slice(b"0.0E0");
        return;
    };
    let last = digits.iter().rposition(|b| *b != b'0').unwrap_or(leading);
    if sign {
        out.push(b'-');
    }
    out.extend_from_slice(&[digits[leading], b'.']);
    match &digits[leading + 1..=last] {
        [] => out.push(b'0'),
        fraction => out.extend_from_slice(fraction),
    }
    let exponent = exponent.saturating_add(point as i64 - leading as i64 - 1);
    out.extend_from_slice(format!("E{exponent}").as_bytes());
}
