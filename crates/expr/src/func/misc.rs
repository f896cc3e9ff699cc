//! UUIDs and addresses.

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_base::SqlResult;
use keel_storage::runtime;
use keel_value::{CollationId, Fixed, FixedKind, SqlType, TypeKind, Value, ValueRef, fixed};

use super::{Function, any_nullable, function, given, known_integer, or_null, text_value};
use crate::typing::{STRING_DECIMALS, bits_type, string_type};
use crate::{Env, EvalContext, Expr, boolean_type};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(volatile "uuid", 0, 0, uuid_type, |_, _, _| Ok(Value::Fixed(uuid()))),
    function!(volatile "sys_guid", 0, 0, guid_type, |_, _, _| {
        Ok(text_value(super::search::hex_text(uuid().octets())))
    }),
    function!(volatile "uuid_short", 0, 0, |_, _| Ok((bits_type(), false)), |_, _, _| {
        Ok(Value::UInt(uuid_short()))
    }),
    // There is no replication to wait for.
    function!(volatile "master_pos_wait", 2, 4, |_, _| Ok((SqlType::bigint().with_length(21), true)), |_, _, _| Ok(Value::Null)),
    function!(volatile "random_bytes", 1, 1, random_bytes_type, random_bytes),
    function!("inet_aton", 1, 1, |_, _| Ok((bits_type(), true)), inet_aton),
    function!("inet_ntoa", 1, 1, |cx, _| address_type(cx, 31), inet_ntoa),
    function!("inet6_aton", 1, 1, |_, _| Ok((SqlType::varbinary(16), true)), inet6_aton),
    function!("inet6_ntoa", 1, 1, |cx, _| address_type(cx, 39), inet6_ntoa),
    function!("is_ipv4", 1, 1, |_, a| Ok((boolean_type(), any_nullable(a))), |_, a, cx| {
        let text = a[0].text(cx)?.unwrap_or_default();
        Ok(Value::Int(i64::from(fixed::parse_inet4(&text).is_some())))
    }),
    function!("is_ipv6", 1, 1, |_, a| Ok((boolean_type(), any_nullable(a))), |_, a, cx| {
        let text = a[0].text(cx)?.unwrap_or_default();
        Ok(Value::Int(i64::from(fixed::parse_inet6(&text).is_some())))
    }),
    function!("is_ipv4_compat", 1, 1, |_, a| Ok((boolean_type(), any_nullable(a))), |_, a, cx| {
        // The all-zero address and ::1 are addresses of their own.
        is_such_address(&a[0], cx, |v6| v6[..12] == [0; 12] && v6[12..] > [0, 0, 0, 1][..])
    }),
    function!("is_ipv4_mapped", 1, 1, |_, a| Ok((boolean_type(), any_nullable(a))), |_, a, cx| {
        is_such_address(&a[0], cx, |v6| v6[..12] == MAPPED)
    }),
];

/// The first 96 bits of an IPv4-mapped address.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Whether an argument is an IPv6 address in bytes that a test holds for.
fn is_such_address<'f>(
    arg: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
    test: impl FnOnce(&[u8; 16]) -> bool,
) -> SqlResult<Value> {
    let octets = match arg.eval(cx)?.as_ref() {
        ValueRef::Fixed(v) => Cow::Owned(v.octets().to_vec()),
        _ => arg.text(cx)?.unwrap_or_default(),
    };
    let is_address = octets.as_ref().try_into().is_ok_and(test);
    Ok(Value::Int(i64::from(is_address)))
}

fn uuid_type(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let ty = SqlType::new(TypeKind::Uuid).with_decimals(STRING_DECIMALS);
    Ok((SqlType { unsigned: false, ..ty }, true))
}

fn guid_type(cx: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(32, cx.vars.connection_collation), true))
}

/// 100 ns steps from the start of the Gregorian calendar, where version 1 counts from, to 1970.
const GREGORIAN_TO_UNIX: u64 = 0x01b2_1dd2_1381_4000;

/// Random bits in place of a network address, and the clock sequence: the same for a server's life, so that its UUIDs grow
/// where they are sorted and go to the end of an index.
static ORIGIN: OnceLock<(u64, u64)> = OnceLock::new();
/// The time of the last UUID: each has a later one.
static LAST_UUID: AtomicU64 = AtomicU64::new(0);

/// A version 1 UUID (RFC 4122).
fn uuid() -> Fixed {
    let (node, sequence) = *ORIGIN.get_or_init(|| {
        let random = runtime::rand::u64();
        // The multicast bit says that the node is no real address.
        (runtime::rand::u64() & 0xffff_ffff_ffff | 1 << 40, (random & 0x3fff) | 0x8000)
    });
    let now = runtime::time::unix_micros() as u64 * 10 + GREGORIAN_TO_UNIX;
    let after = |last: u64| Some(now.max(last + 1));
    let last = LAST_UUID.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
    let time = now.max(last + 1);
    let high = (time & 0xffff_ffff) << 32 | (time >> 32 & 0xffff) << 16 | time >> 48 & 0xfff | 0x1000;
    let low = sequence << 48 | node;
    let octets = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    Fixed::from_octets(FixedKind::Uuid, &octets).expect("version 1 is one that UUIDs have")
}

/// A number that no other call gives: the server's, the second of its first such call, and a count (MariaDB's manual, "UUID_SHORT").
fn uuid_short() -> u64 {
    const SERVER: u64 = 1;
    static FIRST: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let seconds = *FIRST.get_or_init(|| runtime::time::unix_micros() as u64 / 1_000_000);
    (SERVER << 56).wrapping_add(seconds << 24).wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed))
}

fn random_bytes_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let length = known_integer(&args[0]).unwrap_or(1024).clamp(0, 1024);
    Ok((SqlType::varbinary(length as u32).with_decimals(STRING_DECIMALS), true))
}

fn random_bytes<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let count = given!(args[0].int64(cx)?);
    if !(0..=1024).contains(&count) {
        return Ok(Value::Null);
    }
    let mut bytes = vec![0; count as usize];
    runtime::rand::fill(&mut bytes);
    Ok(Value::Bytes(bytes.into()))
}

fn address_type(cx: &Env, chars: u64) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(chars, cx.vars.connection_collation).with_decimals(0), true))
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// One to four groups; missing ones are zero before the last, as in MariaDB: `127.1` is 127.0.0.1.
fn inet_aton<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let groups: Vec<&[u8]> = text.split(|b| *b == b'.').collect();
    if groups.len() > 4 {
        return Ok(Value::Null);
    }
    let numbers: Option<Vec<u64>> = groups.iter().map(|g| parse::<u8>(g).map(u64::from)).collect();
    let numbers = given!(numbers);
    let (last, first) = numbers.split_last().expect("split gives at least one group");
    let high = first.iter().enumerate().fold(0, |n, (i, g)| n | g << (24 - 8 * i));
    Ok(Value::UInt(high | last))
}

fn inet_ntoa<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let number = given!(args[0].integer(cx)?);
    Ok(or_null(u32::try_from(number).ok(), |n| text_value(Ipv4Addr::from(n).to_string())))
}

fn inet6_aton<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    if let Some(v4) = fixed::parse_inet4(&text) {
        return Ok(text_value(v4));
    }
    Ok(or_null(fixed::parse_inet6(&text), text_value))
}

fn inet6_ntoa<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    // Characters are no bytes of an address.
    let is_octets =
        args[0].ty.is_fixed() || args[0].ty.is_string() && args[0].ty.collation == CollationId::BINARY;
    let bytes = given!(args[0].text(cx)?);
    Ok(match bytes.len() {
        _ if !is_octets => Value::Null,
        4 => {
            let mut text = Vec::new();
            fixed::append_inet4(&mut text, (*bytes).try_into().expect("four octets"));
            text_value(text)
        }
        16 => {
            let mut text = Vec::new();
            fixed::append_inet6(&mut text, &(*bytes).try_into().expect("sixteen octets"));
            text_value(text)
        }
        _ => Value::Null,
    })
}
