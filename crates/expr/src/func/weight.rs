//! WEIGHT_STRING(). The parser turns `AS CHAR(n)` and `LEVEL ...` into numbers: octets of the result, weights on each level, flags.

use keel_base::SqlResult;
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, Value, collation};

use super::string::too_long;
use super::{Function, function, given, known_integer};
use crate::typing::bytes_as_number;
use crate::typing::{is_hex, string_type, text_chars};
use crate::{Env, EvalContext, Expr, Node};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[function!("weight_string", 1, 4, weight_type, weight_string)];

/// The flag that pads.
const PAD: u32 = 0x40;
/// The flag that pads up to the length of the result.
const PAD_TO_LENGTH: u32 = 0x80;
/// The flags that name levels.
const LEVELS: u32 = 0x3F;

/// A number behind the first argument; 0 if it is not there.
fn option(args: &[Expr], index: usize) -> u64 {
    match args.get(index).map(|arg| &arg.node) {
        Some(Node::Constant(Value::Bytes(bytes))) if is_hex(&args[index]) => bytes_as_number(bytes),
        _ => args.get(index).and_then(known_integer).map_or(0, |number| u64::try_from(number).unwrap_or(0)),
    }
}

/// Text weighs by its collation, what is printed by its bytes.
fn collation_of(arg: &Expr) -> CollationId {
    if arg.ty.is_string() { arg.ty.collation } else { CollationId::BINARY }
}

fn weight_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let octets = match option(args, 1) {
        0 => {
            let chars = text_chars(&args[0]);
            collation::weight_string_max(collation_of(&args[0]), u64::from(chars), option(args, 2))
        }
        octets => octets,
    };
    Ok((string_type(octets, CollationId::BINARY), true))
}

fn weight_string<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    if !matches!(args[0].class(), Class::String) && !args[0].ty.is_temporal() {
        return Ok(Value::Null);
    }
    let text = given!(args[0].text(cx)?);
    let by = collation_of(&args[0]);
    let (most, count) = (option(args, 1), option(args, 2));
    let flags = option(args, 3) as u32;
    let padded = if flags & PAD != 0 { count } else { count.min(text.len() as u64) };
    let weights = collation::weight_string_max(by, (text.len() as u64).min(padded.max(1)), padded);
    let expected = if flags & PAD != 0 || most == 0 { weights.max(most) } else { most };
    if padded > 0 && too_long("weight_string", expected, cx)? {
        return Ok(Value::Null);
    }
    let mut out = Vec::new();
    let length = if most == 0 { collation::weight_string_max(by, count, count) } else { most };
    if flags & PAD_TO_LENGTH != 0 && too_long("weight_string", length, cx)? {
        return Ok(Value::Null);
    }
    // What is to be done with a level counts for nothing where no level is named.
    let flags = if flags & LEVELS == 0 { flags & (PAD | PAD_TO_LENGTH) } else { flags };
    collation::weight_string(by, &text, count as usize, length as usize, flags, &mut out);
    if most > 0 {
        out.truncate(most as usize);
    }
    if too_long("weight_string", out.len() as u64, cx)? {
        return Ok(Value::Null);
    }
    Ok(Value::Bytes(out.into()))
}
