//! Column types on the wire, and what columns take of every kind of literal.

use crate::support::{literal, parse_type};
use keel_value::convert::{Problem, StoreContext, Target, store};
use keel_value::temporal::{Date, FixedOffset};
use keel_value::{CollationId, SqlMode, SqlType, TypeKind, ValueRef, collation, text};

/// The columns of `types.txt`: declaration, its line in SHOW CREATE TABLE, and the column definition on the wire (type,
/// length, decimals, flags, character set) for results in utf8mb4.
#[test]
fn types_look_as_they_do_on_the_wire() {
    for line in include_str!("../data/types.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let ty = parse_type(fields[0]);
        let results = CollationId::UTF8MB4_GENERAL_CI;
        let shown = fields[1].trim_start_matches("`c` ");
        assert!(shown.starts_with(&ty.sql_name()), "{line}\n{}", ty.sql_name());
        let wire = format!(
            "{}\t{}\t{}\t{}\t{}",
            ty.wire_type(),
            ty.wire_length(results),
            ty.wire_decimals(),
            ty.wire_flags(),
            ty.wire_charset(results)
        );
        assert_eq!(wire, fields[2..].join("\t"), "{}", fields[0]);
    }
}

/// The columns of `store.txt`: column type, kind of literal, literal, what the column held without strict mode, the warning
/// then, whether strict mode let it in, and the error or warning then (`=`: the same).
#[test]
fn columns_take_values_as_mariadb_does() {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in include_str!("../data/store.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [ty, kind, name, shown, warning, outcome, strict] = fields[..] else {
            panic!("seven fields: {line}")
        };
        let to = parse_type(ty);
        let (from, value) = literal(kind, name);
        let got = store_lenient(&to, &from, value.as_ref());
        let warnings: Vec<&str> = warning.split(" / ").collect();
        let expected = (shown.to_string(), warnings[0].to_string());
        let got_strict = store_strict(&to, &from, value.as_ref());
        let expected_strict = match (outcome, strict) {
            ("ok", "=") => format!("ok {}", warnings[0]),
            ("ok", other) => format!("ok {other}"),
            (_, other) => other.to_string(),
        };
        count += 1;
        if got != expected || got_strict != expected_strict {
            failures.push(format!("{line}\n    got {} | {} | {got_strict}", got.0, got.1));
        }
    }
    assert!(count > 1000, "the golden file is there");
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}

const TARGET: Target<'_> = Target { db: "value", table: "t", column: "c", row: 1 };

fn context(mode: SqlMode) -> StoreContext<'static> {
    StoreContext { mode, strict: mode.is_strict(), zone: &FixedOffset(3600), today: Date::new(2024, 5, 6) }
}

fn store_lenient(to: &SqlType, from: &SqlType, value: ValueRef<'_>) -> (String, String) {
    let (cell, problem) =
        store(to, from, value, &context(SqlMode::EMPTY)).expect("nothing is an error without strict");
    (shown(to, cell.as_ref()), problem.map_or(String::new(), |p| short_warning(&p)))
}

fn store_strict(to: &SqlType, from: &SqlType, value: ValueRef<'_>) -> String {
    match store(to, from, value, &context(SqlMode::STRICT_TRANS_TABLES)) {
        Ok((_, problem)) => format!("ok {}", problem.map_or(String::new(), |p| short_warning(&p))),
        Err(problem) => {
            let error = problem.to_error(TARGET);
            format!("{} {}", error.code, short(&error.message))
        }
    }
}

fn short_warning(problem: &Problem) -> String {
    let warning = problem.to_warning(TARGET);
    format!("{}{} {}", &warning.level.name()[..1], warning.code, short(&warning.message))
}

fn short(message: &str) -> String {
    message
        .replace("Out of range value for column 'c' at row 1", "OOR")
        .replace("Data truncated for column 'c' at row 1", "DT")
        .replace("Data too long for column 'c' at row 1", "DTL")
        .replace(" for column `value`.`t`.`c` at row 1", " FOR")
}

fn shown(to: &SqlType, value: ValueRef<'_>) -> String {
    if value.is_null() {
        return "NULL".to_string();
    }
    if to.kind == TypeKind::Bit {
        let ValueRef::UInt(bits) = value else { panic!("a BIT is a number") };
        return format!("0x{bits:X}");
    }
    let value = match (value, to.kind) {
        (ValueRef::DateTime(v), TypeKind::Timestamp) => {
            ValueRef::DateTime(keel_value::convert::timestamp_to_local(v, &FixedOffset(3600)))
        }
        (value, _) => value,
    };
    let mut out = Vec::new();
    text::append(&mut out, to, value);
    if to.is_string() && to.collation == CollationId::BINARY {
        return format!("0x{}", out.iter().map(|b| format!("{b:02X}")).collect::<String>());
    }
    let (utf8, _) = collation::convert(to.collation.charset(), collation::Charset::Utf8mb4, &out);
    String::from_utf8_lossy(&utf8).into_owned()
}
