//! GET_LOCK() and its family; see [`keel_context::user_locks`].

use std::borrow::Cow;
use std::time::Duration;

use keel_base::{SqlResult, errors};
use keel_context::interrupt::InterruptState;
use keel_context::user_locks::Tried;
use keel_value::convert::type_name;
use keel_value::types::Class;
use keel_value::{SqlType, Value};

use super::{Function, function, given, int};
use crate::{EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(volatile "get_lock", 2, 2, |_, a| named(a, "get_lock", 1), get_lock),
    function!(volatile "release_lock", 1, 1, |_, a| named(a, "release_lock", 1), release_lock),
    function!(volatile "release_all_locks", 0, 0, |_, _| Ok((int(11).with_unsigned(), false)), |_, _, cx| {
        Ok(Value::UInt(cx.env_mut().user_locks.release_all()))
    }),
    function!(volatile "is_free_lock", 1, 1, |_, a| named(a, "is_free_lock", 1), |_, a, cx| {
        let name = given!(name(a, cx)?);
        let owner = cx.env().user_locks.registry().owner(&name);
        Ok(Value::Int(i64::from(owner.is_none())))
    }),
    function!(volatile "is_used_lock", 1, 1, |_, a| named(a, "is_used_lock", 10), |_, a, cx| {
        let name = given!(name(a, cx)?);
        Ok(cx.env().user_locks.registry().owner(&name).map_or(Value::Null, |id| Value::Int(id as i64)))
    }),
];

/// 4079 where what names a lock is no text.
fn named(args: &[Expr], function: &str, length: u32) -> SqlResult<(SqlType, bool)> {
    match args[0].class() {
        Class::String | Class::Null => Ok((int(length), true)),
        _ => Err(errors::illegal_parameter_data_type_for_operation(type_name(&args[0].ty), function)),
    }
}

/// Most bytes of a name.
const NAME_MAX: usize = 192;
/// The longest wait, a year as in MariaDB.
const TIMEOUT_MAX: f64 = 31_536_000.0;

/// The name in the first argument; none for NULL and for the empty one.
fn name<'f>(args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Cow<'f, [u8]>>> {
    let Some(name) = args[0].text(cx)?.filter(|name| !name.is_empty()) else { return Ok(None) };
    if name.len() > NAME_MAX {
        return Err(errors::too_long_ident(String::from_utf8_lossy(&name)));
    }
    Ok(Some(name))
}

fn get_lock<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let name = name(args, cx)?;
    let Some(seconds) = args[1].real(cx)? else {
        cx.warn(errors::wrong_value_for_type("timeout", "NULL", "get_lock"))?;
        return Ok(Value::Null);
    };
    let name = given!(name);
    if seconds < 0.0 {
        cx.warn(errors::wrong_value_for_type("timeout", seconds, "get_lock"))?;
        return Ok(Value::Null);
    }
    let timeout = Duration::from_secs_f64(seconds.min(TIMEOUT_MAX));
    let (id, interrupt) = (cx.env().id, cx.env().interrupt.clone());
    let had = match cx.env_mut().user_locks.try_get(id, &name)? {
        Tried::Had => Some(true),
        Tried::Taken(wanted) => {
            let stake = cx.executor.stake();
            cx.env_mut().user_locks.wait(id, &name, wanted, timeout, &interrupt, stake)?
        }
    };
    match had {
        Some(had) => Ok(Value::Int(i64::from(had))),
        None => {
            if interrupt.state() == InterruptState::Query {
                interrupt.clear_query();
            }
            Ok(Value::Null)
        }
    }
}

fn release_lock<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let name = given!(name(args, cx)?);
    Ok(cx.env_mut().user_locks.release(&name).map_or(Value::Null, |own| Value::Int(i64::from(own))))
}
