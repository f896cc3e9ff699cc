//! Damaged packets: every reader refuses them or takes them, none panics or reads beyond.

use keel_value::Value;
use keel_wire::capability::Capabilities;
use keel_wire::codec::Malformed;
use keel_wire::command::Command;
use keel_wire::handshake::{ChangeUser, Greeting, Response, decode_auth_switch};
use keel_wire::params::{Execute, ParamType, encode_execute};
use keel_wire::reply::{self, Column, PrepareOk};
use keel_wire::{packet, rows};

/// A small generator, so that a failing seed can be run again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Gives bytes to every reader of the crate.
fn read_all(bytes: &[u8]) {
    let capabilities = Capabilities::SERVER;
    let _ = Greeting::decode(bytes);
    let _ = Response::decode(bytes);
    let _ = ChangeUser::decode(bytes, capabilities);
    let _ = ChangeUser::decode(bytes, Capabilities::default());
    let _ = decode_auth_switch(bytes);
    let _ = Command::decode(bytes);
    let _ = reply::decode_ok(bytes, capabilities);
    let _ = reply::decode_err(bytes);
    let _ = PrepareOk::decode(bytes);
    let _ = rows::decode_text(bytes, 3);
    if let Ok(column) = Column::decode(bytes) {
        let _ = rows::decode_binary(bytes, &[column.clone(), column]);
    }
    if let Ok(execute) = Execute::decode(bytes) {
        for count in [0, 1, 3, 9] {
            let mut types = vec![ParamType { code: 12, unsigned: false }; count];
            let _ = execute.params(count, &mut types, &mut [], &mut Vec::new());
        }
    }
    if let Ok(packet::Framed::Whole(frame)) = packet::frame(bytes, 0, 1 << 24) {
        assert!(frame.consumed() <= bytes.len());
        assert!(frame.payload(bytes).len() <= bytes.len());
    }
}

fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    let mut out = Vec::new();
    let greeting = Greeting {
        version: "5.5.5-10.11.19-MariaDB".into(),
        connection_id: 9,
        scramble: *b"abcdefghijklmnopqrst",
        capabilities: Capabilities::SERVER,
        collation: 8,
        status: Default::default(),
        plugin: "mysql_native_password".into(),
    };
    greeting.encode(&mut out);
    samples.push(std::mem::take(&mut out));
    let response = Response {
        capabilities: Capabilities::SERVER,
        user: b"root".to_vec(),
        auth: vec![5; 20],
        database: b"db".to_vec(),
        plugin: "mysql_native_password".into(),
        attributes: vec![("_os".into(), "Linux".into())],
        ..Response::default()
    };
    response.encode(&mut out);
    samples.push(std::mem::take(&mut out));
    let change = ChangeUser { user: b"u".to_vec(), collation: Some(45), ..ChangeUser::default() };
    change.encode(&mut out, Capabilities::SERVER);
    samples.push(std::mem::take(&mut out));
    let changes = [reply::StateChange::Variable("autocommit".into(), "OFF".into())];
    let ok = reply::Ok { changes: &changes, info: "info", ..reply::Ok::default() };
    reply::encode_ok(&mut out, 0, &ok, Capabilities::SERVER);
    samples.push(std::mem::take(&mut out));
    Column { name: "c".into(), type_code: 253, ..Column::default() }.encode(&mut out);
    samples.push(std::mem::take(&mut out));
    let values = [Value::Int(-1), Value::bytes(b"text"), Value::Null, Value::Double(1.5)];
    encode_execute(&mut out, 1, 0, &values);
    samples.push(std::mem::take(&mut out));
    packet::append(&mut out, b"\x03SELECT 1", &mut 0);
    samples.push(out);
    samples
}

#[test]
fn damaged_packets_never_panic() {
    let samples = samples();
    for seed in 1..=20_000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut bytes = samples[random.below(samples.len())].clone();
        for _ in 0..=random.below(4) {
            match random.below(4) {
                0 if !bytes.is_empty() => bytes.truncate(random.below(bytes.len())),
                1 if !bytes.is_empty() => {
                    let at = random.below(bytes.len());
                    bytes[at] = [0, 1, 250, 251, 252, 253, 254, 255][random.below(8)];
                }
                2 => {
                    let at = random.below(bytes.len() + 1);
                    bytes.insert(at, random.next() as u8);
                }
                _ => bytes.extend_from_slice(&random.next().to_le_bytes()),
            }
        }
        let outcome = std::panic::catch_unwind(|| read_all(&bytes));
        assert!(outcome.is_ok(), "seed {seed}: {bytes:?}");
    }
}

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
