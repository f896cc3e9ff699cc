//! Reading the declarations and literals of the golden files.

use keel_value::collation::{self, Charset};
use keel_value::convert::{StoreContext, store};
use keel_value::temporal::{Date, Utc};
use keel_value::{CollationId, Decimal, SqlMode, SqlType, TypeKind, Value, ValueRef};

/// Reads a column type as `CREATE TABLE` has it, in a table of utf8mb4.
pub fn parse_type(text: &str) -> SqlType {
    let (head, rest) = match text.split_once('(') {
        Some((head, rest)) => (head, rest),
        None => text.split_once(' ').unwrap_or((text, "")),
    };
    let (arguments, attributes) = if text.contains('(') { rest.split_once(')').unwrap() } else { ("", rest) };
    let mut ty = SqlType::new(kind_of(head));
    if ty.has_members() {
        let members = arguments.split(',').map(|m| m.trim_matches('\'').to_string()).collect();
        ty = SqlType::members_of(ty.kind, members, ty.collation);
    }
    let words: Vec<&str> = attributes.split_whitespace().collect();
    if words.contains(&"unsigned") || words.contains(&"zerofill") {
        ty = ty.with_unsigned();
    }
    if words.contains(&"zerofill") {
        ty = ty.with_zerofill();
    }
    if let Some(at) = words.iter().position(|w| *w == "charset") {
        ty.collation = Charset::by_name(words[at + 1]).unwrap().default_collation();
    }
    if let Some(at) = words.iter().position(|w| *w == "collate") {
        ty.collation = collation::by_name(words[at + 1]).unwrap();
    }
    if !ty.has_members() && !arguments.is_empty() {
        let numbers: Vec<u32> = arguments.split(',').map(|n| n.parse().unwrap()).collect();
        if ty.is_temporal() {
            ty.decimals = numbers[0] as u8;
        } else {
            ty.length = numbers[0];
        }
        if let Some(decimals) = numbers.get(1) {
            ty.decimals = *decimals as u8;
        }
    }
    ty
}

fn kind_of(name: &str) -> TypeKind {
    use TypeKind::*;
    match name {
        "tinyint" => TinyInt,
        "smallint" => SmallInt,
        "mediumint" => MediumInt,
        "int" => Int,
        "bigint" => BigInt,
        "decimal" => Decimal,
        "float" => Float,
        "double" => Double,
        "bit" => Bit,
        "year" => Year,
        "date" => Date,
        "time" => Time,
        "datetime" => DateTime,
        "timestamp" => Timestamp,
        "char" => Char,
        "varchar" => VarChar,
        "binary" => Binary,
        "varbinary" => VarBinary,
        "tinytext" => TinyText,
        "text" => Text,
        "mediumtext" => MediumText,
        "longtext" => LongText,
        "tinyblob" => TinyBlob,
        "blob" => Blob,
        "mediumblob" => MediumBlob,
        "longblob" => LongBlob,
        "enum" => Enum,
        "set" => Set,
        _ => panic!("{name} is no type"),
    }
}

/// A literal of one of the kinds `int`, `dec`, `dbl`, `str` and `lit`, with the type that a binder gives it.
pub fn literal(kind: &str, text: &str) -> (SqlType, Value) {
    match kind {
        "int" => integer(text),
        "dec" => {
            let value = Decimal::parse(text.as_bytes()).unwrap();
            (SqlType::decimal(value.precision(), value.scale()), Value::Decimal(value))
        }
        "dbl" => (SqlType::double(), Value::Double(text.parse().unwrap())),
        "str" => string(text, CollationId::UTF8MB4_GENERAL_CI),
        _ => special(text),
    }
}

fn integer(text: &str) -> (SqlType, Value) {
    match text.parse::<i64>() {
        Ok(v) => (SqlType::bigint(), Value::Int(v)),
        Err(_) => (SqlType::bigint_unsigned(), Value::UInt(text.parse().unwrap())),
    }
}

fn string(text: &str, id: CollationId) -> (SqlType, Value) {
    (SqlType::varchar(text.chars().count() as u32, id), Value::bytes(text.as_bytes()))
}

fn special(text: &str) -> (SqlType, Value) {
    let quoted = text.split('\'').nth(1).unwrap_or("");
    let octets = |id: CollationId| {
        let bytes: Vec<u8> = (0..quoted.len() / 2)
            .map(|i| u8::from_str_radix(&quoted[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        (SqlType { collation: id, ..SqlType::varbinary(bytes.len() as u32) }, Value::Bytes(bytes.into()))
    };
    match text.split('\'').next().unwrap() {
        "date" => temporal(TypeKind::Date, quoted),
        "time" => temporal(TypeKind::Time, quoted),
        "timestamp" => temporal(TypeKind::DateTime, quoted),
        "x" => octets(CollationId::BINARY),
        "_latin1 x" => {
            let (ty, value) = octets(CollationId::LATIN1_SWEDISH_CI);
            (SqlType { kind: TypeKind::VarChar, ..ty }, value)
        }
        "_latin1 " => string(quoted, CollationId::LATIN1_SWEDISH_CI),
        "true" => integer("1"),
        "null" => (SqlType::null(), Value::Null),
        _ => panic!("{text} is no literal"),
    }
}

fn temporal(kind: TypeKind, text: &str) -> (SqlType, Value) {
    let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len() as u8);
    let ty = SqlType::temporal(kind, digits);
    let context =
        StoreContext { mode: SqlMode::EMPTY, strict: true, zone: &Utc, today: Date::new(2024, 5, 6) };
    let from = SqlType::varchar(30, CollationId::ASCII_GENERAL_CI);
    let (cell, _) = store(&ty, &from, ValueRef::Bytes(text.as_bytes()), &context).unwrap();
    (ty, cell.into_value())
}
