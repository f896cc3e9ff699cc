//! Digests: MD5, SHA-1, SHA-2, PASSWORD.

use keel_base::{SqlResult, errors};
use keel_value::{CollationId, SqlType, Value};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::away::{Pace, long};
use super::{Function, function, given, known_integer, text_value};
use crate::typing::string_type;
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(text "md5", 1, 1, |cx, _| hex_type(cx, 32), |_, a, cx| digest::<Md5>(&a[0], cx)),
    function!(text "sha", 1, 1, |cx, _| hex_type(cx, 40), |_, a, cx| digest::<Sha1>(&a[0], cx)),
    function!(text "sha1", 1, 1, |cx, _| hex_type(cx, 40), |_, a, cx| digest::<Sha1>(&a[0], cx)),
    function!(text "sha2", 2, 2, sha2_type, sha2),
    function!(text "password", 1, 1, |cx, _| hex_type(cx, 41), password),
];

fn hex_type(cx: &Env, digits: u64) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(digits, cx.vars.connection_collation), true))
}

fn hex(bytes: &[u8]) -> Value {
    let mut text = super::search::hex_text(bytes);
    text.make_ascii_lowercase();
    Value::Bytes(text.into())
}

fn digest<'f, D: Digest>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(arg.text(cx)?);
    Ok(hex(&long(Pace::Digest, text.len(), || D::digest(&*text).to_vec())))
}

fn sha2_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let bits = match known_integer(&args[1]) {
        Some(0) => 256,
        Some(bits @ (224 | 256 | 384 | 512)) => bits,
        // No digest at all.
        Some(_) => return Ok((string_type(0, CollationId::BINARY), true)),
        None => 512,
    };
    hex_type(cx, bits as u64 / 4)
}

fn sha2<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    // NULL asks for the default as 0 does.
    let bits = args[1].int64(cx)?.unwrap_or(0);
    if !matches!(bits, 0 | 224 | 256 | 384 | 512) {
        cx.warn(errors::wrong_parameters_to_native_fct("sha2"))?;
        return Ok(Value::Null);
    }
    let text = given!(args[0].text(cx)?);
    let sum = long(Pace::Digest, text.len(), || match bits {
        224 => Sha224::digest(&*text).to_vec(),
        384 => Sha384::digest(&*text).to_vec(),
        512 => Sha512::digest(&*text).to_vec(),
        _ => Sha256::digest(&*text).to_vec(),
    });
    Ok(hex(&sum))
}

fn password<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    // NULL is no password, as an empty one is.
    let text = args[0].text(cx)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(text_value(""));
    }
    let twice = long(Pace::Digest, text.len(), || Sha1::digest(Sha1::digest(&*text)));
    let mut out = vec![b'*'];
    out.extend_from_slice(&super::search::hex_text(&twice));
    Ok(Value::Bytes(out.into()))
}
