//! Values of system variables: what SET may say, and what SHOW and `@@x` answer.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, error::errors};
use keel_value::{SqlType, Value, convert};

use super::{Kind, Variable};

/// The value of a system variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    /// No value.
    Null,
    /// ON or OFF.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A number.
    Double(f64),
    /// Text, a word, or a list of words.
    Text(Arc<str>),
}

impl Setting {
    /// Text.
    pub fn text(text: &str) -> Setting {
        Setting::Text(text.into())
    }

    /// As SHOW VARIABLES prints it.
    pub fn show(&self) -> String {
        match self {
            Setting::Null => String::new(),
            Setting::Bool(true) => "ON".into(),
            Setting::Bool(false) => "OFF".into(),
            Setting::Int(v) => v.to_string(),
            Setting::UInt(v) => v.to_string(),
            Setting::Double(v) => format!("{v:.6}"),
            Setting::Text(text) => text.to_string(),
        }
    }

    /// As `@@x` gives it.
    pub fn value(&self) -> Value {
        match self {
            Setting::Null => Value::Null,
            Setting::Bool(v) => Value::Int(i64::from(*v)),
            Setting::Int(v) => Value::Int(*v),
            Setting::UInt(v) => Value::UInt(*v),
            Setting::Double(v) => Value::Double(*v),
            Setting::Text(text) => Value::bytes(text.as_bytes()),
        }
    }

    /// The number of an integer or ON/OFF; 0 for others.
    pub fn as_u64(&self) -> u64 {
        match self {
            Setting::Bool(v) => u64::from(*v),
            Setting::Int(v) => u64::try_from(*v).unwrap_or(0),
            Setting::UInt(v) => *v,
            Setting::Double(v) => *v as u64,
            Setting::Null | Setting::Text(_) => 0,
        }
    }

    /// The number; 0 for text.
    pub fn as_f64(&self) -> f64 {
        match self {
            Setting::Double(v) => *v,
            Setting::Int(v) => *v as f64,
            other => other.as_u64() as f64,
        }
    }

    /// Whether it is ON.
    pub fn is_on(&self) -> bool {
        self.as_u64() != 0
    }

    /// The text; empty for others.
    pub fn as_text(&self) -> &str {
        match self {
            Setting::Text(text) => text,
            _ => "",
        }
    }
}

/// A value that SET accepted, and whether it had to be moved into the variable's range.
#[derive(Debug, PartialEq)]
pub struct Accepted {
    /// What the variable becomes.
    pub setting: Setting,
    /// The value as written, where it was out of range.
    pub truncated_from: Option<String>,
}

impl Accepted {
    /// Taken as it is.
    pub fn exactly(setting: Setting) -> Accepted {
        Accepted { setting, truncated_from: None }
    }
}

/// How MariaDB's messages quote a value.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) => v.to_string(),
        Value::Double(_) | Value::Float(_) => {
            let mut out = Vec::new();
            convert::to_text(value.as_ref(), &SqlType::double(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
        Value::Decimal(v) => {
            let mut out = Vec::new();
            v.append_to(&mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
        Value::Bytes(bytes) => shown_bytes(bytes),
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) => "temporal".into(),
        Value::Fixed(v) => v.kind().name().into(),
    }
}

fn wrong_value(variable: &Variable, value: &Value) -> SqlError {
    errors::wrong_value_for_var(variable.name, shown(value))
}

fn wrong_type(variable: &Variable) -> SqlError {
    errors::wrong_type_for_var(variable.name)
}

/// Turns the value of an expression into a value of the variable, by MariaDB's rules for its type.
pub fn accept(variable: &Variable, value: &Value) -> SqlResult<Accepted> {
    match variable.kind {
        Kind::Bool => accept_bool(variable, value).map(Accepted::exactly),
        Kind::Int | Kind::UInt => accept_integer(variable, value),
        Kind::Double => accept_double(variable, value),
        Kind::Enum => accept_enum(variable, value).map(Accepted::exactly),
        Kind::Set => accept_set(variable, value).map(Accepted::exactly),
        Kind::Flags => accept_flags(variable, value).map(Accepted::exactly),
        Kind::Text => match value {
            Value::Null if matches!(variable.name, "init_connect" | "init_slave") => {
                Ok(Accepted::exactly(Setting::text("")))
            }
            Value::Null => Ok(Accepted::exactly(Setting::Null)),
            _ => Ok(Accepted::exactly(Setting::Text(text_of(variable, value)?.into()))),
        },
    }
}

fn accept_bool(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    match value {
        Value::Int(0) | Value::UInt(0) => Ok(Setting::Bool(false)),
        Value::Int(1) | Value::UInt(1) => Ok(Setting::Bool(true)),
        Value::Bytes(bytes) => match bytes.to_ascii_uppercase().as_slice() {
            b"ON" | b"TRUE" => Ok(Setting::Bool(true)),
            b"OFF" | b"FALSE" => Ok(Setting::Bool(false)),
            _ => Err(wrong_value(variable, value)),
        },
        Value::Int(_) | Value::UInt(_) | Value::Null => Err(wrong_value(variable, value)),
        _ => Err(wrong_type(variable)),
    }
}

fn accept_integer(variable: &Variable, value: &Value) -> SqlResult<Accepted> {
    let wanted = match value {
        Value::Int(v) => i128::from(*v),
        Value::UInt(v) => i128::from(*v),
        _ => return Err(wrong_type(variable)),
    };
    let low = if variable.kind == Kind::UInt { variable.min.max(0) } else { variable.min };
    let high = i128::from(variable.max);
    let clamped = wanted.clamp(i128::from(low), high.max(i128::from(low)));
    let rounded = clamped - clamped.rem_euclid(i128::from(variable.block.max(1)));
    // What is no number of 64 bits with a sign is the greatest of them.
    let said = if variable.kind == Kind::Int { wanted.min(i128::from(i64::MAX)) } else { wanted };
    let truncated_from = (rounded != wanted).then(|| said.to_string());
    let setting = match variable.kind {
        Kind::Int => Setting::Int(i64::try_from(rounded).unwrap_or(i64::MAX)),
        _ => Setting::UInt(u64::try_from(rounded).unwrap_or(u64::MAX)),
    };
    Ok(Accepted { setting, truncated_from })
}

fn accept_double(variable: &Variable, value: &Value) -> SqlResult<Accepted> {
    let wanted = match value {
        Value::Int(v) => *v as f64,
        Value::UInt(v) => *v as f64,
        Value::Double(v) => *v,
        Value::Float(v) => f64::from(*v),
        Value::Decimal(v) => v.to_f64(),
        _ => return Err(wrong_type(variable)),
    };
    let clamped = wanted.clamp(variable.range.0, variable.range.1);
    let truncated_from = (clamped != wanted).then(|| shown(&Value::Double(wanted)));
    Ok(Accepted { setting: Setting::Double(clamped), truncated_from })
}

fn accept_enum(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let word = match value {
        Value::Bytes(bytes) => variable.words.iter().find(|w| w.as_bytes().eq_ignore_ascii_case(bytes)),
        Value::Int(index) => usize::try_from(*index).ok().and_then(|i| variable.words.get(i)),
        Value::UInt(index) => usize::try_from(*index).ok().and_then(|i| variable.words.get(i)),
        Value::Null => None,
        _ => return Err(wrong_type(variable)),
    };
    word.map(|w| Setting::text(w)).ok_or_else(|| wrong_value(variable, value))
}

fn accept_set(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let mut bits: u64 = match value {
        Value::Int(v) if *v >= 0 => *v as u64,
        Value::UInt(v) => *v,
        Value::Bytes(_) => 0,
        Value::Int(_) | Value::Null => return Err(wrong_value(variable, value)),
        _ => return Err(wrong_type(variable)),
    };
    if let Value::Bytes(bytes) = value {
        for word in shown_bytes(bytes).split(',').map(str::trim_end).filter(|w| !w.is_empty()) {
            let place = variable.words.iter().position(|w| w.eq_ignore_ascii_case(word));
            bits |= 1 << place.ok_or_else(|| errors::wrong_value_for_var(variable.name, word))?;
        }
    }
    if variable.words.len() < 64 && bits >> variable.words.len() != 0 {
        return Err(wrong_value(variable, value));
    }
    let words: Vec<&str> =
        variable.words.iter().enumerate().filter(|(i, _)| bits & 1 << i != 0).map(|(_, w)| *w).collect();
    Ok(Setting::Text(words.join(",").into()))
}

/// Changes of flags as words; a number says of each flag whether it is on.
fn accept_flags(variable: &Variable, value: &Value) -> SqlResult<Setting> {
    let bits = match value {
        Value::Int(v) => u64::try_from(*v).map_err(|_| wrong_value(variable, value))?,
        Value::UInt(v) => *v,
        _ => return Ok(Setting::Text(text_of(variable, value)?.into())),
    };
    let names: Vec<&str> =
        variable.default.as_text().split(',').filter_map(|flag| Some(flag.split_once('=')?.0)).collect();
    if names.len() < 64 && bits >> names.len() != 0 {
        return Err(wrong_value(variable, value));
    }
    let state = |place: usize| if bits >> place & 1 != 0 { "on" } else { "off" };
    let flags: Vec<String> =
        names.iter().enumerate().map(|(place, name)| format!("{name}={}", state(place))).collect();
    Ok(Setting::Text(flags.join(",").into()))
}

/// Merges `a=on,b=off,c=default` into what the flags were.
pub fn merge_flags(variable: &Variable, old: &str, changes: &str) -> SqlResult<Setting> {
    let wrong = || errors::wrong_value_for_var(variable.name, changes);
    let Setting::Text(defaults) = &variable.default else { return Err(wrong()) };
    let mut flags: Vec<(&str, &str)> = old.split(',').filter_map(|pair| pair.split_once('=')).collect();
    for change in changes.split(',').map(str::trim).filter(|c| !c.is_empty()) {
        if change.eq_ignore_ascii_case("default") {
            flags = defaults.split(',').filter_map(|pair| pair.split_once('=')).collect();
            continue;
        }
        let (name, state) = change.split_once('=').ok_or_else(wrong)?;
        let flag = flags.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name)).ok_or_else(wrong)?;
        flag.1 = match state.to_ascii_lowercase().as_str() {
            "on" => "on",
            "off" => "off",
            "default" => defaults
                .split(',')
                .filter_map(|pair| pair.split_once('='))
                .find(|(n, _)| n.eq_ignore_ascii_case(name))
                .map_or("off", |(_, state)| state),
            _ => return Err(wrong()),
        };
    }
    let joined: Vec<String> = flags.iter().map(|(name, state)| format!("{name}={state}")).collect();
    Ok(Setting::Text(joined.join(",").into()))
}

fn text_of(variable: &Variable, value: &Value) -> SqlResult<String> {
    match value {
        Value::Bytes(bytes) => Ok(shown_bytes(bytes)),
        Value::Null => Err(wrong_value(variable, value)),
        _ => Err(wrong_type(variable)),
    }
}

/// Reads the text of a command line or option file as a value of the variable: numbers may end in K, M, G, T, P or E.
pub fn from_option(variable: &Variable, text: &str) -> Option<Setting> {
    match variable.kind {
        Kind::Bool => match text.to_ascii_uppercase().as_str() {
            "" | "1" | "ON" | "TRUE" | "YES" => Some(Setting::Bool(true)),
            "0" | "OFF" | "FALSE" | "NO" => Some(Setting::Bool(false)),
            _ => None,
        },
        Kind::Int | Kind::UInt => {
            let number = parse_size(text)?;
            accept_integer(variable, &number).ok().map(|accepted| accepted.setting)
        }
        Kind::Double => {
            Some(Setting::Double(text.trim().parse::<f64>().ok()?.clamp(variable.range.0, variable.range.1)))
        }
        Kind::Enum | Kind::Set => {
            let value = match text.parse::<u64>() {
                Ok(number) => Value::UInt(number),
                Err(_) => Value::bytes(text.as_bytes()),
            };
            if variable.kind == Kind::Enum {
                accept_enum(variable, &value).ok()
            } else {
                accept_set(variable, &value).ok()
            }
        }
        Kind::Flags => merge_flags(variable, variable.default.as_text(), text).ok(),
        Kind::Text => Some(Setting::text(text)),
    }
}

/// Parses an integer with an optional suffix, as MariaDB's options do.
fn parse_size(text: &str) -> Option<Value> {
    let size = keel_base::parse_size(text)?;
    Some(match i64::try_from(size) {
        Ok(negative) if negative < 0 => Value::Int(negative),
        _ => Value::UInt(u64::try_from(size).unwrap_or(u64::MAX)),
    })
}

/// A value as text. Bytes that are not UTF-8 are written as `\xNN`, as messages show them.
fn shown_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => keel_value::convert::printable_text(keel_value::CollationId::BINARY, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    fn set(name: &str, value: Value) -> Result<String, (u16, String)> {
        let variable = table().get(table().id(name));
        accept(variable, &value).map(|a| a.setting.show()).map_err(|e| (e.code, e.message.into_owned()))
    }

    #[test]
    fn values_are_taken_and_refused_as_mariadb_does() {
        let wrong_type = |name: &str| Err((1232, format!("Incorrect argument type to variable '{name}'")));
        let wrong_value = |name: &str, value: &str| {
            Err((1231, format!("Variable '{name}' can't be set to the value of '{value}'")))
        };
        assert_eq!(set("max_connections", Value::Int(0)), Ok("10".into()));
        assert_eq!(set("max_connections", Value::bytes(b"abc")), wrong_type("max_connections"));
        assert_eq!(set("max_connections", Value::Null), wrong_type("max_connections"));
        assert_eq!(set("autocommit", Value::Int(2)), wrong_value("autocommit", "2"));
        assert_eq!(set("autocommit", Value::bytes(b"maybe")), wrong_value("autocommit", "maybe"));
        assert_eq!(set("autocommit", Value::Null), wrong_value("autocommit", "NULL"));
        assert_eq!(set("autocommit", Value::Double(1.0)), wrong_type("autocommit"));
        assert_eq!(set("autocommit", Value::bytes(b"on")), Ok("ON".into()));
        assert_eq!(set("tx_isolation", Value::bytes(b"read-committed")), Ok("READ-COMMITTED".into()));
        assert_eq!(set("tx_isolation", Value::Int(9)), wrong_value("tx_isolation", "9"));
        assert_eq!(set("sql_mode", Value::Int(4)), Ok("ANSI_QUOTES".into()));
        assert_eq!(set("sql_mode", Value::bytes(b"foo")), wrong_value("sql_mode", "foo"));
        assert_eq!(set("join_buffer_size", Value::Int(1000)), Ok("896".into()));
        assert_eq!(set("long_query_time", Value::Double(0.5)), Ok("0.500000".into()));
        assert_eq!(set("long_query_time", Value::bytes(b"a")), wrong_type("long_query_time"));
    }

    #[test]
    fn out_of_range_is_told() {
        let variable = table().get(table().id("wait_timeout"));
        let accepted = accept(variable, &Value::Int(99_999_999_999)).unwrap();
        assert_eq!(accepted.truncated_from.as_deref(), Some("99999999999"));
        assert_eq!(accept(variable, &Value::Int(-1)).unwrap().truncated_from.as_deref(), Some("-1"));
        assert_eq!(accept(variable, &Value::Int(5)).unwrap().truncated_from, None);
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse_size("2560M"), Some(Value::UInt(2560 << 20)));
        assert_eq!(parse_size("32g"), Some(Value::UInt(32 << 30)));
        assert_eq!(parse_size("-1"), Some(Value::Int(-1)));
        assert_eq!(parse_size("12x"), None);
        assert_eq!(parse_size(""), None);
    }

    #[test]
    fn flags_are_merged() {
        let variable = table().get(table().id("optimizer_switch"));
        let merged = merge_flags(variable, variable.default.as_text(), "mrr=on").unwrap();
        assert!(merged.as_text().contains(",mrr=on,"));
        let back = merge_flags(variable, merged.as_text(), "default").unwrap();
        assert_eq!(back, variable.default);
        assert_eq!(merge_flags(variable, "mrr=on", "foo=on").unwrap_err().code, 1231);
    }
}
