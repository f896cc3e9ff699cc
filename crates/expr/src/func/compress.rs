//! COMPRESS and its inverse: the length of the text in four bytes, then zlib's format.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use keel_base::{SqlResult, errors};
use keel_value::{CollationId, SqlType, Value};

use super::away::{Pace, long};
use super::{Function, function, given, int, text_value};
use crate::typing::{string_type, text_octets};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("compress", 1, 1, compress_type, compress),
    function!("uncompress", 1, 1, uncompress_type, uncompress),
    function!("uncompressed_length", 1, 1, |_, _| Ok((int(10), true)), uncompressed_length),
];

/// Bytes of the length in front.
const HEAD: usize = 4;
/// The upper two bits of the length mean nothing.
const LENGTH_BITS: u32 = 0x3FFF_FFFF;
/// Most bytes that MariaDB describes for a text that was compressed.
const BLOB_BYTES_MAX: u64 = 16_777_216;

fn compress_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let octets = text_octets(&args[0]);
    Ok((string_type(octets * 120 / 100 + 12, CollationId::BINARY), true))
}

fn uncompress_type(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(BLOB_BYTES_MAX, CollationId::BINARY), true))
}

fn compress<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    if text.is_empty() {
        return Ok(text_value(""));
    }
    let mut out = (text.len() as u32 & LENGTH_BITS).to_le_bytes().to_vec();
    let written = long(Pace::Search, text.len(), || {
        let mut encoder = ZlibEncoder::new(&mut out, Compression::default());
        encoder.write_all(&text).and_then(|()| encoder.finish().map(|_| ()))
    });
    if written.is_err() {
        return Ok(Value::Null);
    }
    // So that a CHAR column, which drops blanks at the end, keeps it whole.
    if out.last() == Some(&b' ') {
        out.push(b'.');
    }
    Ok(Value::Bytes(out.into()))
}

/// The length that stands in front, of what is longer than that.
fn length_of(secret: &[u8]) -> Option<usize> {
    if secret.len() <= HEAD {
        return None;
    }
    secret.first_chunk().map(|head| (u32::from_le_bytes(*head) & LENGTH_BITS) as usize)
}

fn uncompressed_length<'f>(
    _: &'f SqlType,
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Value> {
    let secret = given!(args[0].text(cx)?);
    if secret.is_empty() {
        return Ok(Value::Int(0));
    }
    match length_of(&secret) {
        Some(length) => Ok(Value::Int(length as i64)),
        None => {
            cx.warn(errors::zlib_data_error())?;
            Ok(Value::Null)
        }
    }
}

fn uncompress<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let secret = given!(args[0].text(cx)?);
    if secret.is_empty() {
        return Ok(text_value(""));
    }
    let Some(length) = length_of(&secret) else {
        cx.warn(errors::zlib_data_error())?;
        return Ok(Value::Null);
    };
    let most = cx.env().vars.max_allowed_packet;
    if length as u64 > most {
        cx.warn(errors::too_big_for_uncompress(most))?;
        return Ok(Value::Null);
    }
    // Memory grows with what comes out, whatever the length says.
    let mut out = Vec::new();
    let mut decoder = ZlibDecoder::new(&secret[HEAD..]).take(length as u64 + 1);
    match long(Pace::Digest, secret.len().max(length), || decoder.read_to_end(&mut out)) {
        Ok(_) if out.len() > length => cx.warn(errors::zlib_buffer_error())?,
        Ok(_) => return Ok(Value::Bytes(out.into())),
        Err(_) => cx.warn(errors::zlib_data_error())?,
    }
    Ok(Value::Null)
}
