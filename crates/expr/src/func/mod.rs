//! Built-in functions: name, argument counts, type and code of each, in tables by subject.
//!
//! A [`Function`] is static; a call of one is [`Node::Call`] with its bound arguments. `typing`
//! runs once when the call is bound: it may convert arguments and gives type and nullability. `eval` runs per row and
//! gets the call's own type. Functions that MariaDB has and Keel has not are unknown names here, except for those listed
//! in [`KNOWN_MISSING`], which give 1235.

mod away;
pub(crate) mod calendar;
mod cipher;
mod compress;
pub mod crypt;
pub mod dateformat;
pub mod dateparts;
pub mod datetime;
mod des;
pub mod info;
pub mod json;
pub mod locale;
mod locks;
pub mod misc;
mod natural;
pub mod numeric;
mod oracle;
pub mod pattern;
pub mod search;
mod sformat;
pub mod string;
mod sys;
mod tochar;
mod unix;
mod weight;
mod xml;

pub use sys::SYS_CONFIG;

use std::cell::OnceCell;

use keel_base::SqlResult;
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, Value};

use crate::frame::Kept;
use crate::typing;
use crate::{Derivation, Env, EvalContext, Expr, Node};

/// What a call's type is, and whether it may be NULL.
pub type Typing = fn(&Env, &mut [Expr]) -> SqlResult<(SqlType, bool)>;

/// Computes a call: its type, its arguments, the context.
pub type Eval = for<'f> fn(&'f SqlType, &'f [Expr], &mut EvalContext<'_, 'f>) -> SqlResult<Value>;

/// A built-in function.
pub struct Function {
    /// Its name in lower case.
    pub name: &'static str,
    /// Fewest arguments.
    pub min: usize,
    /// Most arguments.
    pub max: usize,
    /// Whether equal arguments give equal results within one statement, without effects.
    pub pure: bool,
    /// Whether outside strict mode a call is described as NULL only where an argument is: functions of text, most of them.
    pub null_by_arguments: bool,
    /// Type of a call.
    pub typing: Typing,
    /// Value of a call.
    pub eval: Eval,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Functions of MariaDB that give 1235 rather than 1305.
pub const KNOWN_MISSING: &[&str] = &[
    "master_gtid_wait",
    "decode_histogram",
    "rownum",
    "wsrep_last_seen_gtid",
    "wsrep_last_written_gtid",
    "wsrep_sync_wait_upto_gtid",
    "column_create",
    "column_add",
    "column_delete",
    "column_exists",
    "column_list",
    "column_check",
    "column_json",
    "row_number",
    "rank",
    "dense_rank",
    "median",
    "area",
    "asbinary",
    "astext",
    "aswkb",
    "aswkt",
    "boundary",
    "buffer",
    "centroid",
    "convexhull",
    "crosses",
    "dimension",
    "disjoint",
    "endpoint",
    "envelope",
    "equals",
    "exteriorring",
    "geometryn",
    "geometrytype",
    "glength",
    "interiorringn",
    "intersects",
    "isclosed",
    "isempty",
    "isring",
    "issimple",
    "numgeometries",
    "numinteriorrings",
    "numpoints",
    "overlaps",
    "pointn",
    "pointonsurface",
    "srid",
    "startpoint",
    "touches",
    "within",
];

/// What the names of spatial functions begin with, or end with.
const SPATIAL_BEGINNINGS: &[&str] = &["st_", "mbr"];
const SPATIAL_ENDS: &[&str] = &["fromtext", "fromwkb"];

/// Whether MariaDB has a function that is not here.
pub fn is_missing(name: &str) -> bool {
    KNOWN_MISSING.contains(&name)
        || SPATIAL_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || SPATIAL_ENDS.iter().any(|end| name.ends_with(end))
}

const TABLES: &[&[Function]] = &[
    sys::FUNCTIONS,
    string::FUNCTIONS,
    search::FUNCTIONS,
    numeric::FUNCTIONS,
    datetime::FUNCTIONS,
    dateparts::FUNCTIONS,
    dateformat::FUNCTIONS,
    crypt::FUNCTIONS,
    cipher::FUNCTIONS,
    compress::FUNCTIONS,
    des::FUNCTIONS,
    unix::FUNCTIONS,
    natural::FUNCTIONS,
    oracle::FUNCTIONS,
    sformat::FUNCTIONS,
    tochar::FUNCTIONS,
    info::FUNCTIONS,
    locks::FUNCTIONS,
    misc::FUNCTIONS,
    pattern::FUNCTIONS,
    weight::FUNCTIONS,
    xml::FUNCTIONS,
    json::READING,
    json::SEARCHING,
    json::MAKING,
    json::CHANGING,
];

/// The function of a name in lower case.
pub fn lookup(name: &str) -> Option<&'static Function> {
    TABLES.iter().flat_map(|table| table.iter()).find(|f| f.name == name)
}

/// Functions whose time grows with the length of what they are given, and not slowly: they are kept from rows on latched pages,
/// beside those of JSON.
pub const MAY_TAKE_LONG: &[&str] =
    &["aes_decrypt", "aes_encrypt", "compress", "decode", "encode", "sformat", "uncompress"];

/// Which arguments of a call, if all constant, make it keep something per execution: what a pattern was compiled to, or where a
/// seed has led. Such a call gets a cell as one more argument, which is negative where there is nothing to keep.
pub fn kept_by(function: &Function, args: &[Expr]) -> Option<usize> {
    match function.name {
        "rand" if args.is_empty() => None,
        "rand" => Some(0),
        name => name.starts_with("regexp").then_some(1),
    }
}

/// The arguments of a call that were written.
pub(crate) fn written_args<'e>(function: &Function, args: &'e [Expr]) -> &'e [Expr] {
    match kept_by(function, args) {
        Some(_) => &args[..args.len() - 1],
        None => args,
    }
}

/// The cell of a call that keeps something.
pub(crate) fn cell_of<'f>(args: &[Expr], cx: &EvalContext<'_, 'f>) -> Option<&'f OnceCell<Kept>> {
    let cell = args.last().and_then(known_integer)?;
    usize::try_from(cell).ok().and_then(|cell| cx.frame.once.get(cell))
}

/// Whether addresses and UUIDs are no arguments of it: functions of numbers and dates.
pub fn refuses_fixed(function: &Function) -> bool {
    // The last three report it in their own way.
    const TEXT_TOO: &[&str] = &[
        "greatest", "least", "crc32", "crc32c", "interval", "format", "length", "char", "extract", "addtime",
        "subtime",
    ];
    let of_numbers = [numeric::FUNCTIONS, datetime::FUNCTIONS, dateparts::FUNCTIONS];
    function.name == "bit_count"
        || of_numbers.iter().any(|table| table.iter().any(|f| f.name == function.name))
            && !TEXT_TOO.contains(&function.name)
}

/// Whether any argument may be NULL.
pub fn any_nullable(args: &[Expr]) -> bool {
    args.iter().any(|a| a.nullable)
}

/// A number as one of 64 bits, of whichever sign, or the greatest or least of those that have one.
pub(crate) fn as_64_bits(v: i128) -> u64 {
    u64::try_from(v).unwrap_or_else(|_| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as u64)
}

/// The 64 bits of a number; of one with a fraction, those of the nearest integer that has a sign.
pub fn bits<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<u64>> {
    Ok(match arg.class() {
        Class::Real => arg.int64(cx)?.map(|v| v as u64),
        _ => arg.integer(cx)?.map(|v| v as u64),
    })
}

/// INT of a display length.
pub(crate) fn int(length: u32) -> SqlType {
    SqlType::int().with_length(length)
}

/// Converts the arguments in a range to one character set; gives their collation.
pub fn unify(cx: &Env, args: &mut [Expr], range: std::ops::Range<usize>, op: &str) -> SqlResult<CollationId> {
    let chosen: Vec<&Expr> = args[range.clone()].iter().collect();
    let connection = cx.vars.connection_collation;
    let (collation, _) = match COMPARING.contains(&op) {
        true => typing::compared_collation(&chosen, connection, op)?,
        false => typing::text_collation(&chosen, connection, op)?,
    };
    for arg in &mut args[range] {
        let taken = std::mem::replace(arg, Expr::null());
        *arg = typing::to_charset(taken, collation);
    }
    Ok(collation)
}

/// How firmly the text of a call has its collation: as the arguments that the text is made of have theirs.
pub fn derivation(function: &Function, args: &[Expr]) -> Derivation {
    let is_text = |arg: &&Expr| arg.ty.is_string() || arg.ty.has_members();
    let joined = |args: &[Expr]| typing::joined_derivation(args.iter().filter(is_text));
    let firmest = |args: &[Expr]| {
        let texts = args.iter().filter(is_text);
        texts.map(|arg| arg.derivation).min().unwrap_or(Derivation::Coercible)
    };
    match function.name {
        // The server's own, which any other collation overrules.
        "user" | "current_user" | "database" | "version" | "current_role" => Derivation::System,
        // A new text yields to others as a literal does.
        name if WRITTEN.contains(&name) => Derivation::Coercible,
        "concat" | "concat_ws" => joined(args),
        "lpad" | "rpad" => typing::joined_derivation(args.iter().step_by(2).filter(is_text)),
        "insert" => typing::joined_derivation(args.iter().step_by(3).filter(is_text)),
        "elt" | "make_set" => joined(&args[1..]),
        "export_set" => joined(&args[1..args.len().min(4)]),
        "date_format" | "time_format" | "from_unixtime" => firmest(&args[1..]),
        name if OF_FIRST.contains(&name) => firmest(&args[..1]),
        _ => firmest(args),
    }
}

/// Functions that write a new text, which takes nothing of their arguments' collations.
const WRITTEN: &[&str] = &[
    "hex",
    "md5",
    "sha",
    "sha1",
    "sha2",
    "to_base64",
    "from_base64",
    "unhex",
    "password",
    "format",
    "conv",
    "bin",
    "oct",
    "char",
    "inet_ntoa",
    "inet6_ntoa",
    "compress",
    "uncompress",
    "aes_encrypt",
    "des_encrypt",
    "encode",
    "load_file",
    "dayname",
    "monthname",
    "addtime",
    "subtime",
    "json_quote",
    "json_unquote",
    "json_normalize",
    "space",
];

/// Functions whose text is made of that of their first argument alone.
const OF_FIRST: &[&str] = &[
    "left",
    "right",
    "substring",
    "repeat",
    "json_extract",
    "json_query",
    "json_value",
    "json_keys",
    "json_search",
    "json_set",
    "json_insert",
    "json_replace",
    "json_remove",
    "json_array_append",
    "json_array_insert",
];

/// Functions that compare their operands.
const COMPARING: &[&str] = &[
    "locate",
    "strcmp",
    "field",
    "find_in_set",
    "regexp",
    "regexp_instr",
    "regexp_substr",
    "regexp_replace",
    "replace",
    "substring_index",
    "trim",
    "json_equals",
];

/// The integer that an argument is known to be when bound.
pub(crate) fn known_integer(arg: &Expr) -> Option<i64> {
    match &arg.node {
        Node::Constant(Value::Int(v)) => Some(*v),
        Node::Constant(Value::UInt(v)) => Some(i64::try_from(*v).unwrap_or(i64::MAX)),
        Node::Constant(Value::Decimal(d)) => d.to_i64().ok(),
        _ => None,
    }
}

/// The text that an argument is known to be when bound.
pub(crate) fn known_text(arg: &Expr) -> Option<&[u8]> {
    match &arg.node {
        Node::Constant(Value::Bytes(text)) => Some(text),
        _ => None,
    }
}

/// Text as a value.
pub(crate) fn text_value(text: impl AsRef<[u8]>) -> Value {
    Value::bytes(text.as_ref())
}

/// The value of an optional result.
pub(crate) fn or_null<T>(value: Option<T>, make: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, make)
}

/// Takes a value out of an argument's evaluation, or makes the call NULL.
macro_rules! given {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(::keel_value::Value::Null),
        }
    };
}
pub(crate) use given;

/// One row of a table of functions: `text` is [`Function::null_by_arguments`], `volatile` is not [`Function::pure`].
#[macro_export]
macro_rules! function {
    (text $($row:tt)*) => {
        $crate::func::Function { null_by_arguments: true, ..$crate::func::function!($($row)*) }
    };
    (volatile $($row:tt)*) => {
        $crate::func::Function { pure: false, ..$crate::func::function!($($row)*) }
    };
    ($name:literal, $min:expr, $max:expr, $typing:expr, $eval:expr) => {
        $crate::func::Function {
            name: $name,
            min: $min,
            max: $max,
            pure: true,
            null_by_arguments: false,
            typing: $typing,
            eval: $eval,
        }
    };
}
pub use function;
