//! The functions of the database `sys` that say something without instruments; they are called by that name.

use keel_base::SqlResult;
use keel_sql::ast::VarScope;
use keel_value::{CollationId, SqlType, TypeKind, Value};

use super::{Function, function, given, text_value};
use crate::{Env, EvalContext, Expr};

/// Settings of `sys` and their values.
pub const SYS_CONFIG: &[(&str, Option<&str>)] = &[
    ("diagnostics.allow_i_s_tables", Some("OFF")),
    ("diagnostics.include_raw", Some("OFF")),
    ("ps_thread_trx_info.max_length", Some("65535")),
    ("statement_performance_analyzer.limit", Some("100")),
    ("statement_performance_analyzer.view", None),
    ("statement_truncate_len", Some("64")),
];

/// Characters of a statement that are shown.
const STATEMENT_CHARS: usize = 64;

const TEXT: CollationId = CollationId::UTF8MB3_GENERAL_CI;

fn long(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::new(TypeKind::Text).with_collation(TEXT), true))
}

fn varchar<const N: u32>(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType::varchar(N, TEXT), true))
}

fn small(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((SqlType { unsigned: true, ..SqlType::new(TypeKind::TinyInt) }, true))
}

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("sys.format_bytes", 1, 1, long, |_, a, cx| {
        Ok(text_value(scaled(given!(a[0].real(cx)?), BYTES, "bytes")))
    }),
    function!("sys.format_time", 1, 1, long, |_, a, cx| {
        Ok(text_value(scaled(given!(a[0].real(cx)?), PICOSECONDS, "ps")))
    }),
    function!("sys.format_statement", 1, 1, long, |_, a, cx| {
        Ok(text_value(shortened(&String::from_utf8_lossy(&given!(a[0].text(cx)?)))))
    }),
    function!("sys.format_path", 1, 1, varchar::<512>, path),
    function!("sys.quote_identifier", 1, 1, long, |_, a, cx| {
        let name = given!(a[0].text(cx)?);
        Ok(text_value(format!("`{}`", String::from_utf8_lossy(&name).replace('`', "``"))))
    }),
    function!("sys.extract_schema_from_file_name", 1, 1, varchar::<64>, |_, a, cx| {
        let path = String::from_utf8_lossy(&given!(a[0].text(cx)?)).replace('\\', "/");
        let mut parts = path.rsplit('/');
        let file = parts.next().unwrap_or_default();
        Ok(text_value(parts.next().unwrap_or(file)))
    }),
    function!("sys.extract_table_from_file_name", 1, 1, varchar::<64>, |_, a, cx| {
        let path = String::from_utf8_lossy(&given!(a[0].text(cx)?)).replace('\\', "/").replace("@0024", "$");
        let file = path.rsplit('/').next().unwrap_or_default();
        Ok(text_value(file.split('.').next().unwrap_or_default()))
    }),
    function!("sys.list_add", 2, 2, long, |_, a, cx| list(a, cx, true)),
    function!("sys.list_drop", 2, 2, long, |_, a, cx| list(a, cx, false)),
    function!(volatile "sys.sys_get_config", 2, 2, varchar::<128>, config),
    function!("sys.version_major", 0, 0, small, |_, _, cx| Ok(version(cx, 0))),
    function!("sys.version_minor", 0, 0, small, |_, _, cx| Ok(version(cx, 1))),
    function!("sys.version_patch", 0, 0, small, |_, _, cx| Ok(version(cx, 2))),
    // Nothing is instrumented.
    function!("sys.ps_thread_id", 1, 1, |_, _| Ok((SqlType::bigint_unsigned(), true)), |_, _, _| Ok(
        Value::Null
    )),
    function!("sys.ps_is_consumer_enabled", 1, 1, varchar::<3>, |_, _, _| Ok(Value::Null)),
    function!("sys.ps_is_account_enabled", 2, 2, varchar::<3>, |_, _, _| Ok(text_value("NO"))),
];

/// Units, the greatest first.
const BYTES: &[(f64, &str)] = &[
    ((1_u64 << 50) as f64, "PiB"),
    ((1_u64 << 40) as f64, "TiB"),
    ((1_u64 << 30) as f64, "GiB"),
    ((1_u64 << 20) as f64, "MiB"),
    ((1_u64 << 10) as f64, "KiB"),
];
const PICOSECONDS: &[(f64, &str)] = &[
    (604.8e15, "w"),
    (86.4e15, "d"),
    (3.6e15, "h"),
    (60e12, "m"),
    (1e12, "s"),
    (1e9, "ms"),
    (1e6, "us"),
    (1e3, "ns"),
];

/// A quantity in the greatest unit of which it has one.
fn scaled(value: f64, units: &[(f64, &str)], least: &str) -> String {
    match units.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.2} {unit}", value / size),
        None => format!("{value} {least}"),
    }
}

fn shortened(statement: &str) -> String {
    let statement = statement.replace('\n', " ");
    let chars: Vec<char> = statement.chars().collect();
    if chars.len() <= STATEMENT_CHARS {
        return statement;
    }
    let side = STATEMENT_CHARS / 2 - 2;
    let (begin, end) = (&chars[..side], &chars[chars.len() - side..]);
    begin.iter().copied().chain(" ... ".chars()).chain(end.iter().copied()).collect()
}

/// A path with the names of variables that hold its beginning.
fn path<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let path = String::from_utf8_lossy(&given!(args[0].text(cx)?)).into_owned();
    for name in ["datadir", "tmpdir"] {
        let value = cx.env().server.system_variable(cx.executor, VarScope::Global, name);
        let Ok(Value::Bytes(folder)) = value else { continue };
        let folder = String::from_utf8_lossy(&folder).trim_end_matches('/').to_string();
        let rest = path.strip_prefix(&folder).filter(|rest| !folder.is_empty() && rest.starts_with('/'));
        if let Some(rest) = rest {
            return Ok(text_value(format!("@@{name}{rest}")));
        }
    }
    Ok(text_value(path))
}

/// A list with commas, with or without a value.
fn list<'f>(args: &'f [Expr], cx: &mut EvalContext<'_, 'f>, adds: bool) -> SqlResult<Value> {
    let given = args[0].text(cx)?.map(|text| String::from_utf8_lossy(&text).into_owned());
    let Some(value) = args[1].text(cx)?.map(|text| String::from_utf8_lossy(&text).into_owned()) else {
        let (name, which) = if adds { ("list_add", "in_add_value") } else { ("list_drop", "in_drop_value") };
        return Err(keel_base::errors::null_not_allowed(name, which));
    };
    let Some(given) = given.filter(|list| adds || !list.is_empty()) else {
        return Ok(if adds { text_value(value) } else { Value::Null });
    };
    let parts = given.split(',').filter(|part| !part.is_empty() && (adds || part.trim() != value.trim()));
    let mut kept: Vec<&str> = parts.collect();
    if adds && !kept.contains(&value.as_str()) {
        kept.push(&value);
    }
    Ok(text_value(kept.join(",")))
}

/// A setting of `sys`: the user variable of that name, or what is set, or what is said instead.
fn config<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let name = String::from_utf8_lossy(&given!(args[0].text(cx)?)).to_lowercase();
    if let Some(variable) = cx.env().user_variables.get(&format!("sys.{name}")) {
        let mut text = Vec::new();
        if !variable.value.is_null() {
            keel_value::convert::to_text(variable.value.as_ref(), &variable.ty, &mut text);
            return Ok(text_value(text));
        }
    }
    match SYS_CONFIG.iter().find(|(known, _)| *known == name) {
        Some((_, Some(value))) => Ok(text_value(value)),
        _ => Ok(args[1].text(cx)?.map_or(Value::Null, text_value)),
    }
}

/// A number of the server's version.
fn version(cx: &EvalContext<'_, '_>, place: usize) -> Value {
    let version = cx.env().server.version();
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    let number = version.split('.').nth(place).and_then(|part| digits(part).parse().ok());
    number.map_or(Value::Null, Value::UInt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_mariadbs_words() {
        assert_eq!(scaled(1.0, BYTES, "bytes"), "1 bytes");
        assert_eq!(scaled(1e10, BYTES, "bytes"), "9.31 GiB");
        assert_eq!(scaled(1e15, PICOSECONDS, "ps"), "16.67 m");
        assert_eq!(shortened(&"abc ".repeat(40)).len(), 65);
    }
}
