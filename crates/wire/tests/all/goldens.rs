//! The bytes of handshakes and answers, as a MariaDB 10.11 server and its clients exchange them.

use keel_base::error::errors;
use keel_wire::capability::{Capabilities, Status, type_code};
use keel_wire::handshake::{
    ChangeUser, Greeting, Response, ResponseError, asks_for_tls, decode_auth_switch, encode_auth_switch,
};
use keel_wire::reply::{self, Column, Ok, OkReply, PrepareOk, StateChange};

#[test]
fn greeting_has_the_bytes_of_a_mariadb_server() {
    let captured =
        b"\n5.5.5-10.11.19-MariaDB-0+deb12u1\x00\x12\x00\x00\x00W:X.y;V#\x00\xfe\xf7\x08\x02\x00\xff\x81\
        \x15\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00H$wN\\gq\"PMsy\x00mysql_native_password\x00";
    let greeting = Greeting::decode(captured).unwrap();
    assert_eq!(greeting.version, "5.5.5-10.11.19-MariaDB-0+deb12u1");
    assert_eq!((greeting.connection_id, greeting.collation), (0x12, 8));
    assert_eq!(&greeting.scramble, b"W:X.y;V#H$wN\\gq\"PMsy");
    assert_eq!(greeting.plugin, "mysql_native_password");
    let mut out = Vec::new();
    greeting.encode(&mut out);
    assert_eq!(out, captured);
}

#[test]
fn server_offers_what_mariadb_offers_less_one() {
    let mariadb = Capabilities::from_halves(0x81ff_f7fe, 0x1d);
    let absent = mariadb.without(Capabilities::SERVER);
    assert_eq!(absent, Capabilities::PROGRESS);
    assert_eq!(Capabilities::SERVER.without(mariadb), Capabilities::default());
}

#[test]
fn response_of_the_mariadb_client_is_understood() {
    let captured = b"\x8c\xa2\xbf\x00\x00\x00\x10\x00-\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
        \x00\x00\x1d\x00\x00\x00root\x00\x00server_t\x00mysql_native_password\x00\x16\x03_os\x05Linux\x04_pid\x048660\x00\x00";
    let response = Response::decode(captured).unwrap();
    assert_eq!(response.user, b"root");
    assert_eq!(response.database, b"server_t");
    assert_eq!((response.collation, response.packet_max), (45, 1 << 20));
    assert_eq!(response.auth, b"");
    assert!(response.capabilities.has(Capabilities::CACHE_METADATA.with(Capabilities::SESSION_TRACK)));
    assert_eq!(response.attributes[0], ("_os".to_string(), "Linux".to_string()));
    assert_eq!(response.attributes.len(), 3);
    let mut out = Vec::new();
    response.encode(&mut out);
    assert_eq!(out, captured);
}

#[test]
fn a_mysql_client_has_no_extended_capabilities() {
    let mut payload = (Capabilities::MYSQL.with(Capabilities::PROTOCOL_41).low()).to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 33]);
    payload.extend_from_slice(&[0xff; 23]);
    payload.extend_from_slice(b"joe\0secret\0");
    let response = Response::decode(&payload).unwrap();
    assert_eq!(response.capabilities.high(), 0);
    assert_eq!((response.user.as_slice(), response.auth.as_slice()), (&b"joe"[..], &b"secret"[..]));
}

#[test]
fn what_is_not_spoken_is_named() {
    let old = Response::decode(b"\x05\x00\x00\x00\x01joe\0").expect("a response before 4.1");
    assert_eq!((old.user.as_slice(), old.auth.as_slice()), (&b"joe"[..], &b""[..]));
    assert_eq!(Response::decode(b"\x00\x80\x00\x00\x01joe\0"), Err(ResponseError::OldProtocol));
    assert_eq!(Response::decode(b"\x00\x80\x00\x00\x01joe"), Err(ResponseError::OldProtocol));
    let mut tls = Capabilities::SSL.with(Capabilities::PROTOCOL_41).low().to_le_bytes().to_vec();
    tls.extend_from_slice(&[0; 28]);
    assert!(asks_for_tls(&tls) && !asks_for_tls(&tls[..3]));
    assert_eq!(Response::decode(b"\x00\x02"), Err(ResponseError::Malformed));
}

#[test]
fn change_user_comes_back() {
    let change = ChangeUser {
        user: b"ann".to_vec(),
        auth: vec![1; 20],
        database: b"shop".to_vec(),
        collation: Some(45),
        plugin: "mysql_native_password".into(),
        attributes: vec![("a".into(), "b".into())],
    };
    let mut out = Vec::new();
    change.encode(&mut out, Capabilities::SERVER);
    assert_eq!(ChangeUser::decode(&out, Capabilities::SERVER), Ok(change));
}

#[test]
fn auth_switch_comes_back() {
    let mut out = Vec::new();
    encode_auth_switch(&mut out, "mysql_native_password", b"abcdefghijklmnopqrst");
    assert_eq!(out, b"\xfemysql_native_password\0abcdefghijklmnopqrst\0");
    assert_eq!(
        decode_auth_switch(&out),
        Ok(("mysql_native_password".into(), b"abcdefghijklmnopqrst".to_vec()))
    );
}

#[test]
fn ok_packets_have_mariadbs_bytes() {
    let plain = Ok { status: Status::AUTOCOMMIT, ..Ok::default() };
    let mut out = Vec::new();
    reply::encode_ok(&mut out, reply::mark::OK, &plain, Capabilities::SERVER);
    assert_eq!(out, b"\x00\x00\x00\x02\x00\x00\x00");

    let tracked = Ok { changes: &[StateChange::Schema("server_t".into())], ..plain.clone() };
    out.clear();
    reply::encode_ok(&mut out, reply::mark::OK, &tracked, Capabilities::SERVER);
    assert_eq!(out, b"\x00\x00\x00\x02\x40\x00\x00\x00\x0b\x01\x09\x08server_t");
    let read = reply::decode_ok(&out, Capabilities::SERVER).unwrap();
    assert_eq!(read.changes, tracked.changes);

    // SET NAMES latin1, and USE with session_track_state_change.
    let variable = |name: &str| StateChange::Variable(name.into(), "latin1".into());
    let names = ["character_set_client", "character_set_connection", "character_set_results"].map(variable);
    out.clear();
    reply::encode_ok(
        &mut out,
        reply::mark::OK,
        &Ok { changes: &names, ..plain.clone() },
        Capabilities::SERVER,
    );
    assert_eq!(
        out,
        b"\x00\x00\x00\x02\x40\x00\x00\x00\x5f\x00\x1c\x14character_set_client\x06latin1\
          \x00\x20\x18character_set_connection\x06latin1\x00\x1d\x15character_set_results\x06latin1"
    );
    let moved = [StateChange::Schema("test".into()), StateChange::Changed];
    out.clear();
    reply::encode_ok(
        &mut out,
        reply::mark::OK,
        &Ok { changes: &moved, ..plain.clone() },
        Capabilities::SERVER,
    );
    assert_eq!(out, b"\x00\x00\x00\x02\x40\x00\x00\x00\x0a\x01\x05\x04test\x02\x01\x31");

    out.clear();
    let untracked = Capabilities::SERVER.without(Capabilities::SESSION_TRACK);
    reply::encode_ok(&mut out, reply::mark::OK, &tracked, untracked);
    assert_eq!(out, b"\x00\x00\x00\x02\x00\x00\x00");

    out.clear();
    let info = Ok { affected_rows: 300, last_insert_id: 7, warnings: 2, info: "Records: 3", ..plain };
    reply::encode_ok(&mut out, reply::mark::OK, &info, untracked);
    assert_eq!(out, b"\x00\xfc\x2c\x01\x07\x02\x00\x02\x00\x0aRecords: 3");
    let expected = OkReply {
        affected_rows: 300,
        last_insert_id: 7,
        status: Status::AUTOCOMMIT,
        warnings: 2,
        info: "Records: 3".into(),
        changes: vec![],
    };
    assert_eq!(reply::decode_ok(&out, untracked), std::result::Result::Ok(expected));
}

#[test]
fn errors_carry_a_state_once_the_protocol_is_known() {
    let mut out = Vec::new();
    reply::encode_err(&mut out, &errors::con_count_error(), Capabilities::default());
    assert_eq!(out, b"\xff\x10\x04Too many connections");
    assert_eq!(reply::decode_err(&out).unwrap().message, "Too many connections");
    out.clear();
    reply::encode_err(&mut out, &errors::no_db(), Capabilities::SERVER);
    assert_eq!(out, b"\xff\x16\x04#3D000No database selected");
    assert_eq!(reply::decode_err(&out).unwrap().sqlstate, "3D000");
}

#[test]
fn long_error_texts_end_at_a_character() {
    let mut out = Vec::new();
    reply::encode_err(&mut out, &errors::unknown_error("ä".repeat(400)), Capabilities::SERVER);
    let read = reply::decode_err(&out).unwrap();
    assert_eq!(read.message, "ä".repeat(255));
}

#[test]
fn column_definitions_have_mariadbs_bytes() {
    let column = Column {
        name: "USER()".into(),
        charset: 33,
        length: 1152,
        type_code: type_code::VAR_STRING,
        decimals: 39,
        ..Column::default()
    };
    let captured = b"\x03def\x00\x00\x00\x06USER()\x00\x0c!\x00\x80\x04\x00\x00\xfd\x00\x00'\x00\x00";
    let mut out = Vec::new();
    column.encode(&mut out);
    assert_eq!(out, captured);
    assert_eq!(Column::decode(captured), std::result::Result::Ok(column));
}

#[test]
fn known_columns_are_left_out_where_the_client_caches_them() {
    let columns = [Column { name: "c".into(), ..Column::default() }];
    let (mut out, mut sequence) = (Vec::new(), 1);
    reply::append_columns(&mut out, columns.iter(), true, Capabilities::SERVER, &mut sequence);
    reply::append_eof(&mut out, 0, Status::AUTOCOMMIT, &mut sequence);
    assert_eq!(out, b"\x02\x00\x00\x01\x01\x00\x05\x00\x00\x02\xfe\x00\x00\x02\x00"); // captured from MariaDB
    let without = Capabilities::SERVER.without(Capabilities::CACHE_METADATA);
    (out, sequence) = (Vec::new(), 1);
    reply::append_columns(&mut out, columns.iter(), true, without, &mut sequence);
    assert_eq!((sequence, out[4]), (3, 1));
}

#[test]
fn prepare_ok_has_mariadbs_bytes() {
    let ok = PrepareOk { statement: 1, columns: 1, params: 1, warnings: 0 };
    let mut out = Vec::new();
    ok.encode(&mut out);
    assert_eq!(out, b"\x00\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00");
    assert_eq!(PrepareOk::decode(&out), std::result::Result::Ok(ok));
}
