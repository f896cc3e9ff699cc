//! Every reader of the protocol refuses damaged bytes or takes them; none reads beyond.

use keel_tls::certificate::{self, one_line, print_time};
use keel_value::Value;
use keel_wire::capability::Capabilities;
use keel_wire::command::Command;
use keel_wire::compress::Compressed;
use keel_wire::handshake::{
    ChangeUser, Greeting, Response, asks_for_tls, decode_auth_switch, encode_tls_request,
};
use keel_wire::params::{Execute, ParamType, encode_execute};
use keel_wire::reply::{self, Column, PrepareOk};
use keel_wire::{packet, rows};

/// Gives bytes to every reader.
pub fn run(bytes: &[u8]) {
    let capabilities = Capabilities::SERVER;
    let _ = Greeting::decode(bytes);
    let _ = Response::decode(bytes);
    let _ = ChangeUser::decode(bytes, capabilities);
    let _ = ChangeUser::decode(bytes, Capabilities::default());
    let _ = asks_for_tls(bytes);
    let _ = decode_auth_switch(bytes);
    if let Some(certificate) = certificate::read(bytes) {
        let _ = (one_line(certificate.issuer()), one_line(certificate.subject()));
        let _ = print_time(certificate.validity().not_after);
    }
    unpack(bytes);
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

/// Compressed packets make no more than there is room for, and lead somewhere as long as there is more.
fn unpack(bytes: &[u8]) {
    let (mut side, mut out, mut at) = (Compressed::new(), Vec::new(), 0);
    while let Ok((taken, more)) = side.unpack(&bytes[at..], &mut out, 4096) {
        assert!(out.len() <= 4096 && (taken > 0 || !out.is_empty() || !more));
        at += taken;
        if !more {
            return;
        }
        out.clear();
    }
}

/// One of each kind that has a writer.
pub fn samples() -> Vec<Vec<u8>> {
    let greeting = Greeting {
        version: "5.5.5-10.11.19-MariaDB".into(),
        connection_id: 9,
        scramble: *b"abcdefghijklmnopqrst",
        capabilities: Capabilities::SERVER,
        collation: 8,
        status: Default::default(),
        plugin: "mysql_native_password".into(),
    };
    let response = Response {
        capabilities: Capabilities::SERVER,
        user: b"root".to_vec(),
        auth: vec![5; 20],
        database: b"db".to_vec(),
        plugin: "mysql_native_password".into(),
        attributes: vec![("_os".into(), "Linux".into())],
        ..Response::default()
    };
    let change = ChangeUser { user: b"u".to_vec(), collation: Some(45), ..ChangeUser::default() };
    let changes = [reply::StateChange::Variable("autocommit".into(), "OFF".into())];
    let ok = reply::Ok { changes: &changes, info: "info", ..reply::Ok::default() };
    let values = [Value::Int(-1), Value::bytes(b"text"), Value::Null, Value::Double(1.5)];
    let sample = |encode: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        encode(&mut out);
        out
    };
    vec![
        sample(&|out| greeting.encode(out)),
        sample(&|out| response.encode(out)),
        sample(&|out| change.encode(out, Capabilities::SERVER)),
        sample(&|out| reply::encode_ok(out, 0, &ok, Capabilities::SERVER)),
        sample(&|out| Column { name: "c".into(), type_code: 253, ..Column::default() }.encode(out)),
        sample(&|out| encode_execute(out, 1, 0, &values)),
        sample(&|out| packet::append(out, b"\x03SELECT 1", &mut 0)),
        sample(&|out| encode_tls_request(out, Capabilities::SERVER, 45)),
        sample(&|out| Compressed::new().pack(b"\x03SELECT 1", out)),
        sample(&|out| Compressed::new().pack(&b"SELECT 1, 2, 3; ".repeat(900), out)),
    ]
}
