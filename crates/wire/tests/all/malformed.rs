//! Packets come back as they went, and short ones are malformed. Damaged ones: `tools/fuzz`.

use keel_value::Value;
use keel_wire::codec::Malformed;
use keel_wire::params::{Execute, encode_execute};
use keel_wire::reply::Column;
use keel_wire::rows;

#[test]
fn parameters_come_back_and_short_ones_are_malformed() {
    let values = [
        Value::Int(-7),
        Value::UInt(u64::MAX),
        Value::Double(2.5),
        Value::Float(0.5),
        Value::bytes(b"text"),
        Value::Null,
        Value::Date(keel_value::Date { year: 2024, month: 2, day: 29 }),
        Value::Time(keel_value::Time { micros: -90_061_000_001 }),
        Value::DateTime(keel_value::DateTime {
            date: keel_value::Date { year: 1999, month: 12, day: 31 },
            hour: 23,
            minute: 59,
            second: 58,
            micros: 5,
            repeated: false,
        }),
    ];
    let mut out = Vec::new();
    encode_execute(&mut out, 3, 0, &values);
    let execute = Execute::decode(&out[1..]).unwrap();
    assert_eq!(execute.statement, 3);
    let (mut types, mut read) = (Vec::new(), Vec::new());
    execute.params(values.len(), &mut types, &mut [], &mut read).unwrap();
    assert_eq!(read, values);
    for end in 10..out.len() {
        let cut = Execute::decode(&out[1..end]).unwrap();
        assert_eq!(cut.params(values.len(), &mut Vec::new(), &mut [], &mut read), Err(Malformed), "{end}");
    }
}

#[test]
fn types_hold_until_others_are_declared_and_long_data_replaces_values() {
    let mut out = Vec::new();
    encode_execute(&mut out, 1, 0, &[Value::Int(5), Value::bytes(b"x")]);
    let (mut types, mut read) = (Vec::new(), Vec::new());
    Execute::decode(&out[1..]).unwrap().params(2, &mut types, &mut [], &mut read).unwrap();
    let mut again = out[1..10].to_vec();
    again.extend_from_slice(&[0, 0]);
    again.extend_from_slice(&9u64.to_le_bytes());
    let mut long = [None, Some(b"long".to_vec())];
    Execute::decode(&again).unwrap().params(2, &mut types, &mut long, &mut read).unwrap();
    assert_eq!(read, [Value::Int(9), Value::bytes(b"long")]);
    assert_eq!(long, [None, None]);
    assert_eq!(
        Execute::decode(&again).unwrap().params(2, &mut Vec::new(), &mut [], &mut read),
        Err(Malformed)
    );
}

#[test]
fn binary_rows_come_back() {
    use keel_value::{SqlType, TypeKind, ValueRef};
    let time = keel_value::Time { micros: 3_600_000_000 };
    let cells = [
        (TypeKind::TinyInt, ValueRef::Int(-3), 1, Value::Int(-3)),
        (TypeKind::BigInt, ValueRef::Null, 8, Value::Null),
        (TypeKind::MediumInt, ValueRef::Int(-70_000), 9, Value::Int(-70_000)),
        (TypeKind::Double, ValueRef::Double(0.25), 5, Value::Double(0.25)),
        (TypeKind::VarChar, ValueRef::Bytes(b"abc"), 253, Value::bytes(b"abc")),
        (TypeKind::Time, ValueRef::Time(time), 11, Value::Time(time)),
        (TypeKind::Date, ValueRef::Date(Default::default()), 10, Value::Date(Default::default())),
    ];
    let mut out = Vec::new();
    let bitmap = rows::begin_binary(&mut out, cells.len());
    for (index, (kind, value, ..)) in cells.iter().enumerate() {
        rows::put_binary(&mut out, bitmap, index, &SqlType::new(*kind), *value);
    }
    let columns: Vec<Column> =
        cells.iter().map(|(_, _, code, _)| Column { type_code: *code, ..Column::default() }).collect();
    let expected: Vec<Value> = cells.into_iter().map(|(.., value)| value).collect();
    assert_eq!(rows::decode_binary(&out, &columns), Ok(expected));
}
