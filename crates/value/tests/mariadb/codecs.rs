//! Row and key codecs over every column type, with the values that the golden literals leave in it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::support::{literal, parse_type};
use keel_value::convert::{StoreContext, compare, store};
use keel_value::key::{self, KeyPart};
use keel_value::row::{self, Column, Layout, RowRef};
use keel_value::temporal::{Date, Utc};
use keel_value::{SqlMode, SqlType, Value, ValueRef, collation};

/// Every type of `types.txt`.
fn types() -> Vec<SqlType> {
    include_str!("../data/types.txt")
        .lines()
        .map(|line| parse_type(line.split('\t').next().unwrap()))
        .collect()
}

/// What a column of the type holds after each literal of `store.txt`.
fn values(ty: &SqlType) -> Vec<Value> {
    let context =
        StoreContext { mode: SqlMode::EMPTY, strict: false, zone: &Utc, today: Date::new(2024, 5, 6) };
    let literals: BTreeSet<(&str, &str)> = include_str!("../data/store.txt")
        .lines()
        .map(|line| {
            let mut fields = line.split('\t').skip(1);
            (fields.next().unwrap(), fields.next().unwrap())
        })
        .collect();
    let mut found: Vec<Value> = Vec::new();
    for (kind, text) in literals {
        let (from, value) = literal(kind, text);
        let (cell, _) = store(ty, &from, value.as_ref(), &context).expect("not strict");
        let value = cell.into_value();
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// The order of a column: NULL first, ENUM, SET and BIT by number.
fn column_order(ty: &SqlType, a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::UInt(x), Value::UInt(y)) => x.cmp(y),
        _ => compare(a.as_ref(), ty, b.as_ref(), ty, &mut |_| panic!("nothing to report")).unwrap(),
    }
}

fn encoded(part: &KeyPart, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    part.encode(value.as_ref(), &mut out);
    out
}

#[test]
fn keys_order_as_their_columns() {
    for ty in types() {
        let part = KeyPart::new(ty.clone(), true);
        let descending = KeyPart { descending: true, ..part.clone() };
        let values = values(&ty);
        assert!(values.len() > 1, "{}", ty.sql_name());
        for a in &values {
            for b in &values {
                let order = column_order(&ty, a, b);
                let context = || format!("{} {a:?} {b:?}", ty.sql_name());
                assert_eq!(encoded(&part, a).cmp(&encoded(&part, b)), order, "{}", context());
                assert_eq!(encoded(&descending, b).cmp(&encoded(&descending, a)), order, "{}", context());
            }
        }
    }
}

#[test]
fn keys_end_themselves_and_come_back_where_they_can() {
    for ty in types() {
        for (nullable, descending) in [(false, false), (true, false), (true, true), (false, true)] {
            let part = KeyPart { descending, ..KeyPart::new(ty.clone(), nullable) };
            for value in values(&ty).iter().filter(|v| nullable || !v.is_null()) {
                let own = encoded(&part, value);
                let mut followed = own.clone();
                followed.extend_from_slice(&[0, 1, 0x20, 2, 0xFF]);
                let context = || format!("{} {value:?} {part:?}", ty.sql_name());
                assert_eq!(part.skip(&followed), Some(own.len()), "{}", context());
                assert_eq!(part.skip(&own[..own.len() - 1]), None, "{}", context());
                match part.decode(&followed) {
                    Some((decoded, len)) => assert_eq!((&decoded, len), (value, own.len()), "{}", context()),
                    None => assert!(!part.is_lossless(), "{}", context()),
                }
                if part.is_scalar() {
                    assert_eq!(part.scalar(&followed).to_owned(), *value, "{}", context());
                    assert_eq!(part.scalar(&own[..own.len() - 1]), ValueRef::Null, "{}", context());
                    assert!(part.width().is_none_or(|width| width == own.len()), "{}", context());
                }
            }
        }
    }
}

#[test]
fn prefixes_and_successors_bound_their_keys() {
    let ty = parse_type("varchar(10)");
    let part = KeyPart { prefix: Some(3), ..KeyPart::new(ty.clone(), false) };
    assert_eq!(
        encoded(&part, &Value::bytes("héllo".as_bytes())),
        encoded(&part, &Value::bytes("HEL".as_bytes()))
    );
    assert!(!part.is_lossless());
    let mut low = Vec::new();
    collation::prefix_weights(ty.collation, b"ab ", &mut low);
    let mut high = low.clone();
    assert!(key::successor(&mut high));
    for (text, inside) in
        [("ab ", true), ("AB c", true), ("ab\t", true), ("ab", true), ("abz", true), ("ac", false)]
    {
        let own = encoded(&KeyPart::new(ty.clone(), false), &Value::bytes(text.as_bytes()));
        assert_eq!(low <= own && own < high, inside, "{text:?}");
    }
    assert!(!key::successor(&mut vec![0xFF, 0xFF]));
}

#[test]
fn rows_give_back_their_columns() {
    let types = types();
    let layout = Layout::new(&types.iter().map(|ty| (ty.clone(), true)).collect::<Vec<_>>());
    let pools: Vec<Vec<Value>> = types.iter().map(values).collect();
    for round in 0..400 {
        let row: Vec<Value> =
            pools.iter().enumerate().map(|(i, pool)| pool[(round * (i + 3)) % pool.len()].clone()).collect();
        let mut bytes = Vec::new();
        row::encode_values(&layout, &row, &mut bytes);
        let read = RowRef::new(&layout, &bytes);
        for (i, value) in row.iter().enumerate() {
            assert_eq!(read.get(i), value.as_ref(), "{}", types[i].sql_name());
            assert_eq!(read.is_null(i), value.is_null());
        }
        for len in 0..bytes.len() {
            let cut = RowRef::new(&layout, &bytes[..len]);
            for i in 0..types.len() {
                cut.get(i);
            }
        }
    }
}

#[test]
fn long_rows_widen_their_directory() {
    let layout = Layout::new(&[
        (parse_type("longblob"), false),
        (parse_type("int"), false),
        (parse_type("blob"), true),
    ]);
    let long = vec![7u8; 70_000];
    let row = [ValueRef::Bytes(&long), ValueRef::Int(-5), ValueRef::Bytes(b"tail")];
    let mut bytes = Vec::new();
    row::encode(&layout, &row, &mut bytes);
    let read = RowRef::new(&layout, &bytes);
    assert!((0..3).all(|i| read.get(i) == row[i]));
}

#[test]
fn old_rows_show_defaults_of_added_columns() {
    let old: Vec<(SqlType, bool)> = vec![(parse_type("int"), false), (parse_type("varchar(10)"), true)];
    let mut bytes = Vec::new();
    row::encode(&Layout::new(&old), &[ValueRef::Int(7), ValueRef::Bytes(b"old")], &mut bytes);
    let mut columns: Vec<Column> =
        old.into_iter().map(|(ty, nullable)| Column { ty, nullable, default: Value::Null }).collect();
    columns.push(Column { ty: parse_type("bigint"), nullable: true, default: Value::Int(42) });
    columns.push(Column { ty: parse_type("varchar(5)"), nullable: true, default: Value::Null });
    let layout = Layout::with_defaults(columns);
    let read = RowRef::new(&layout, &bytes);
    assert_eq!(read.get(0), ValueRef::Int(7));
    assert_eq!(read.get(1), ValueRef::Bytes(b"old"));
    assert_eq!(read.get(2), ValueRef::Int(42));
    assert!(read.is_null(3) && !read.is_null(2));
}

/// The row's bytes are what data files hold: this changes only with the format's version.
#[test]
fn row_format_is_frozen() {
    let layout = Layout::new(&[
        (parse_type("int"), false),
        (parse_type("varchar(10)"), true),
        (parse_type("decimal(5,2)"), true),
        (parse_type("char(4)"), false),
        (parse_type("mediumint unsigned"), true),
    ]);
    let amount = keel_value::Decimal::parse(b"-1.25").unwrap();
    let row = [
        ValueRef::Int(-2),
        ValueRef::Bytes(b"abc"),
        ValueRef::Decimal(amount),
        ValueRef::Bytes(b"x"),
        ValueRef::Null,
    ];
    let mut bytes = Vec::new();
    row::encode(&layout, &row, &mut bytes);
    let expected: &[u8] = &[
        5, 0,     // columns
        0b100, // the third of the nullable ones is NULL
        0xFE, 0xFF, 0xFF, 0xFF, // -2
        0x7F, 0xFE, 0xE6, // -1.25
        0, 0, 0, // NULL
        3, 0, 4, 0, // ends
        b'a', b'b', b'c', b'x',
    ];
    assert_eq!(bytes, expected);
}

/// So are the keys'.
#[test]
fn key_format_is_frozen() {
    let key = |ty: &str, value: ValueRef<'_>| {
        let mut out = Vec::new();
        key::encode(&mut out, &parse_type(ty), value, true);
        out
    };
    assert_eq!(key("int", ValueRef::Null), [0]);
    assert_eq!(key("int", ValueRef::Int(1)), [1, 0x80, 0, 0, 1]);
    assert_eq!(key("bigint unsigned", ValueRef::UInt(1)), [1, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(
        key("varchar(9)", ValueRef::Bytes("a bé".as_bytes())),
        [1, 0x41, 0x20, 3, 0x42, 0x45, 0x20, 2]
    );
    assert_eq!(key("varbinary(9)", ValueRef::Bytes(&[7, 0])), [1, 7, 0, 0xFF, 0, 1]);
    assert_eq!(key("date", ValueRef::Date(Date::new(2024, 2, 29))), [1, 0x0F, 0xD0, 0x5D]);
    assert_eq!(key("double", ValueRef::Double(-0.0)), key("double", ValueRef::Double(0.0)));
}
