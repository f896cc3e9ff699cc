//! One of each event: read again, cut at every byte, put into a file.

use keel_binlog::control::{
    BinlogCheckpoint, Heartbeat, Incident, Rotate, StartEncryption, StartV3, XaPrepare, Xid,
};
use keel_binlog::gtid::event::{self, GtidEvent, GtidListEvent};
use keel_binlog::load::{Block, ExecuteLoadQuery};
use keel_binlog::query::Query;
use keel_binlog::rows::{Change, Rows, Shape};
use keel_binlog::session::{Intvar, Rand, UserValue, UserVar};
use keel_binlog::table_map::TableMap;
use keel_binlog::{
    CLOSED_MARK, Checksum, Event, FileReader, FileWriter, Format, FormatDescription, Frame, Gtid,
    HEADER_BYTES, Header, IN_USE_OFFSET, MAGIC, Problem, append, flags, kind, server_version,
};

const XID: Xid<'static> = Xid { format_id: 1, global: b"global", branch: b"branch" };

/// Events of the session and of statements.
fn statements() -> Vec<Event<'static>> {
    let query = Query {
        thread_id: 7,
        seconds: 1,
        error: 1062,
        status: b"\x00\x01\x02\x03\x04",
        database: b"db",
        body: b"insert into t values (1)",
        compressed: false,
    };
    let string = UserValue { result_type: UserValue::STRING, collation: 45, bytes: b"text", flags: Some(0) };
    let integer = UserValue { result_type: UserValue::INTEGER, collation: 63, bytes: &[1; 8], flags: None };
    vec![
        Event::Query(query),
        Event::Query(Query { compressed: true, body: b"\x81\x01x", ..query }),
        Event::Query(Query::default()),
        Event::Intvar(Intvar { which: Intvar::INSERT_ID, value: u64::MAX }),
        Event::Rand(Rand(1, 2)),
        Event::UserVar(UserVar { name: b"a", value: Some(string) }),
        Event::UserVar(UserVar { name: b"b", value: Some(integer) }),
        Event::UserVar(UserVar { name: b"c", value: None }),
        Event::BeginLoadQuery(Block { file_id: 3, bytes: b"1\n2\n" }),
        Event::AppendBlock(Block { file_id: 3, bytes: b"" }),
        Event::ExecuteLoadQuery(ExecuteLoadQuery {
            query,
            file_id: 3,
            name_start: 9,
            name_end: 20,
            duplicates: 2,
        }),
        Event::DeleteFile(3),
        Event::ExecLoad(4),
    ]
}

/// Events about the log and its groups.
fn groups() -> Vec<Event<'static>> {
    let gtid = GtidEvent { seq: 9, domain: 1, flags: event::flags::TRANSACTIONAL, ..GtidEvent::default() };
    let committed = GtidEvent { flags: event::flags::GROUP_COMMIT_ID, commit_id: Some(5), ..gtid };
    let prepared = GtidEvent { flags: event::flags::PREPARED_XA, xid: Some(XID), ..gtid };
    let engines = GtidEvent { extra: event::extra::MULTI_ENGINE, engines: Some(1), ..gtid };
    let altered = GtidEvent { extra: event::extra::COMMIT_ALTER, start_alter: Some(8), ..gtid };
    let list = GtidListEvent { flags: 1, gtids: vec![Gtid::new(0, 1, 5), Gtid::new(1, 2, u64::MAX)] };
    vec![
        Event::Stop,
        Event::Rotate(Rotate { position: 4, file: b"log.000002" }),
        Event::Xid(77),
        Event::XaPrepare(XaPrepare { one_phase: false, xid: XID }),
        Event::XaPrepare(XaPrepare { one_phase: true, xid: XID }),
        Event::BinlogCheckpoint(BinlogCheckpoint { file: b"log.000001" }),
        Event::Gtid(gtid.padded()),
        Event::Gtid(committed.padded()),
        Event::Gtid(prepared.padded()),
        Event::Gtid(engines.padded()),
        Event::Gtid(altered.padded()),
        Event::Gtid(GtidEvent { rest: &[0; 3000], ..altered }),
        Event::GtidList(list),
        Event::GtidList(GtidListEvent::default()),
        Event::Heartbeat(Heartbeat { position: None, file: b"log.000001" }),
        Event::Incident(Incident { incident: 1, message: b"lost" }),
        Event::Other { kind: kind::LOAD, body: b"anything" },
        Event::Other { kind: kind::IGNORABLE, body: b"" },
        Event::Other { kind: kind::ROWS_QUERY, body: b"\x03abc" },
        Event::Other { kind: 33, body: b"a GTID of MySQL" },
        Event::Other { kind: 200, body: b"unknown" },
        Event::Other { kind: 0, body: b"" },
    ]
}

/// Table_map and row events of all twelve kinds.
fn rows() -> Vec<Event<'static>> {
    let mut events = vec![Event::TableMap(TableMap {
        table_id: (1 << 48) - 1,
        flags: 1,
        database: b"db",
        table: b"t",
        types: &[3, 15],
        metadata: &[44, 1],
        nullable: &[2],
        optional: &[1, 1, 0x80],
    })];
    for change in [Change::Write, Change::Update, Change::Delete] {
        for (version2, compressed) in [(false, false), (true, false), (false, true), (true, true)] {
            events.push(Event::Rows(Rows {
                shape: Shape { change, version2, compressed },
                table_id: 0x0102_0304_0506,
                flags: 1,
                extra: if version2 { b"extra" } else { b"" },
                width: 9,
                columns: &[0xff, 1],
                after: if change == Change::Update { &[1, 1] } else { &[] },
                body: b"images",
            }));
        }
    }
    events
}

fn samples() -> Vec<Event<'static>> {
    static VERSION: std::sync::LazyLock<[u8; 50]> =
        std::sync::LazyLock::new(|| server_version("10.11.19-MariaDB"));
    let mut events = vec![
        Event::FormatDescription(FormatDescription::new(&VERSION, 1, Checksum::Crc32)),
        Event::StartV3(StartV3 { log_version: 3, server_version: &VERSION, created: 9 }),
    ];
    events.extend(statements());
    events.extend(groups());
    events.extend(rows());
    events.push(Event::StartEncryption(StartEncryption { scheme: 1, key_version: 2, nonce: [3; 12] }));
    events
}

fn head() -> Header {
    Header { timestamp: 5, server_id: 6, end_position: 7, flags: 8, ..Header::default() }
}

#[test]
fn every_event_survives_a_round_trip() {
    for checksum in [Checksum::None, Checksum::Crc32] {
        let format = Format::current(checksum);
        for event in samples() {
            let mut bytes = b"before".to_vec();
            append(&mut bytes, head(), &event, checksum).unwrap();
            let bytes = &bytes[6..];
            let frame = Frame::decode(bytes, &format).unwrap();
            let header = Header { kind: event.kind(), length: bytes.len() as u32, ..head() };
            assert_eq!(frame.header, header);
            assert_eq!(frame.event(&format).as_ref(), Ok(&event));
        }
    }
}

#[test]
fn every_prefix_of_an_event_is_an_error() {
    for checksum in [Checksum::None, Checksum::Crc32] {
        let format = Format::current(checksum);
        for event in samples() {
            let mut bytes = Vec::new();
            append(&mut bytes, head(), &event, checksum).unwrap();
            for end in 0..bytes.len() {
                assert!(Frame::decode(&bytes[..end], &format).is_err(), "{event:?} cut to {end}");
            }
            bytes.push(0);
            assert!(Frame::decode(&bytes, &format).is_err(), "{event:?} and a byte");
        }
    }
}

/// A body that is cut, with a header that agrees: an error, or an event that is shorter by what was cut.
#[test]
fn every_prefix_of_a_body_is_an_error_or_a_shorter_event() {
    let format = Format::current(Checksum::None);
    for event in samples() {
        let mut body = Vec::new();
        event.encode(&mut body).unwrap();
        let header = Header { kind: event.kind(), end_position: 1, ..Header::default() };
        for end in 0..body.len() {
            let Ok(read) = Event::decode(&header, &body[..end], &format) else { continue };
            let mut again = Vec::new();
            read.encode(&mut again).unwrap();
            assert_eq!(again, body[..end], "{event:?} cut to {end}");
        }
    }
}

#[test]
fn bodies_of_a_fixed_shape_are_refused_when_cut_or_longer() {
    let format = Format::current(Checksum::None);
    for number in
        [kind::INTVAR, kind::RAND, kind::XID, kind::XA_PREPARE, kind::START_ENCRYPTION, kind::INCIDENT]
    {
        let event = samples().into_iter().find(|event| event.kind() == number).unwrap();
        let mut body = Vec::new();
        event.encode(&mut body).unwrap();
        let header = Header { kind: number, ..Header::default() };
        for end in 0..body.len() {
            assert!(Event::decode(&header, &body[..end], &format).is_err(), "{event:?} cut to {end}");
        }
        body.push(0);
        let error = Event::decode(&header, &body, &format).unwrap_err();
        assert_eq!(error.problem, Problem::Trailing(1));
        assert_eq!(error.offset, (HEADER_BYTES + body.len() - 1) as u64);
    }
}

#[test]
fn a_heartbeat_without_position_in_the_header_has_one_in_the_body() {
    let event = Event::Heartbeat(Heartbeat { position: Some(1 << 40), file: b"log.000009" });
    let mut bytes = Vec::new();
    append(&mut bytes, Header { end_position: 0, ..head() }, &event, Checksum::None).unwrap();
    let format = Format::current(Checksum::None);
    assert_eq!(Frame::decode(&bytes, &format).unwrap().event(&format), Ok(event));
}

#[test]
fn a_changed_byte_is_found_by_the_checksum() {
    let format = Format::current(Checksum::Crc32);
    let mut bytes = Vec::new();
    append(&mut bytes, head(), &Event::Xid(1), Checksum::Crc32).unwrap();
    for at in (0..9).chain(13..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let error = Frame::decode(&damaged, &format);
        // As a Format_description event it would have another checksum rule; its version is missing here.
        assert!(error.is_err() || at == 4, "byte {at}");
    }
}

#[test]
fn fixed_parts_of_other_lengths_are_refused() {
    let version = server_version("10.11.19-MariaDB");
    let mut lengths = keel_binlog::POST_HEADER_LENGTHS;
    lengths[usize::from(kind::TABLE_MAP) - 1] = 6;
    let description = FormatDescription {
        post_header_lengths: &lengths,
        ..FormatDescription::new(&version, 0, Checksum::None)
    };
    let format = Format::of(&description).unwrap();
    let mut bytes = Vec::new();
    append(&mut bytes, head(), &rows()[0], Checksum::None).unwrap();
    let error = Frame::decode(&bytes, &format).unwrap().event(&format).unwrap_err();
    assert_eq!(error.problem, Problem::PostHeader { kind: kind::TABLE_MAP, length: 6 });
    let unknown = FormatDescription { checksum: Some(2), ..description };
    assert!(Format::of(&unknown).is_err());
}

#[test]
fn old_servers_have_no_checksum_field() {
    let version = server_version("5.5.40-log");
    let description = FormatDescription {
        server_version: &version,
        created: 3,
        post_header_lengths: &keel_binlog::POST_HEADER_LENGTHS[..27],
        checksum: None,
    };
    let event = Event::FormatDescription(description);
    let mut bytes = Vec::new();
    append(&mut bytes, head(), &event, Checksum::None).unwrap();
    let format = Format::current(Checksum::Crc32);
    assert_eq!(Frame::decode(&bytes, &format).unwrap().event(&format), Ok(event));
    assert_eq!(Format::of(&description).unwrap().checksum(), Checksum::None);
}

fn file(checksum: Checksum, events: &[Event<'_>]) -> Vec<u8> {
    let version = server_version("10.11.19-MariaDB");
    let mut bytes = Vec::new();
    let description = FormatDescription::new(&version, 1, checksum);
    let mut writer = FileWriter::begin(&mut bytes, 100, 6, &description).unwrap();
    for event in events {
        let end = writer.event(&mut bytes, head(), event).unwrap();
        assert_eq!(end, bytes.len() as u64);
    }
    bytes
}

/// Events that stand in files: a Format_description event begins them, and a Start_encryption event ends what
/// can be read.
fn in_files() -> Vec<Event<'static>> {
    let keep = |event: &Event<'_>| !matches!(event.kind(), kind::FORMAT_DESCRIPTION | kind::START_ENCRYPTION);
    samples().into_iter().filter(keep).collect()
}

#[test]
fn files_are_read_in_pieces_of_any_size() {
    for checksum in [Checksum::None, Checksum::Crc32] {
        let events = in_files();
        let bytes = file(checksum, &events);
        for size in [1, 7, 100, bytes.len()] {
            let mut reader = FileReader::new(1 << 20);
            let mut read = 0;
            for piece in bytes.chunks(size) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    let length = frame.header.length;
                    if read > 0 {
                        let event = frame.event(&Format::current(checksum)).unwrap();
                        assert_eq!(event, events[read - 1]);
                    }
                    assert!(frame.header.end_position >= length);
                    read += 1;
                }
            }
            assert_eq!(read, events.len() + 1);
            assert_eq!(reader.position(), bytes.len() as u64);
            assert!(reader.in_use() && reader.finish().is_ok());
        }
    }
}

#[test]
fn a_closed_file_is_not_in_use() {
    let mut bytes = file(Checksum::Crc32, &[Event::Stop]);
    let at = IN_USE_OFFSET as usize;
    assert_eq!(bytes[at..at + 2], flags::IN_USE.to_le_bytes());
    bytes[at..at + 2].copy_from_slice(&CLOSED_MARK);
    let mut reader = FileReader::new(1 << 20);
    reader.push(&bytes);
    while reader.next_frame().unwrap().is_some() {}
    assert!(!reader.in_use());
}

#[test]
fn a_file_that_is_cut_ends_within_an_event() {
    let bytes = file(Checksum::Crc32, &[Event::Xid(1), Event::Stop]);
    let mut whole = Vec::new();
    for end in 0..=bytes.len() {
        let mut reader = FileReader::new(1 << 20);
        reader.push(&bytes[..end]);
        while reader.next_frame().unwrap().is_some() {}
        assert!(reader.position() <= end as u64);
        if reader.finish().is_ok() {
            whole.push(end);
        }
    }
    let description = MAGIC.len() + 252;
    assert_eq!(whole[1..], [description, description + 31, description + 31 + 23]);
}

#[test]
fn errors_of_files_tell_their_position() {
    let bytes = file(Checksum::Crc32, &[Event::Xid(1), Event::Xid(2)]);
    let second = bytes.len() - 31;
    let mut damaged = bytes.clone();
    damaged[second + 20] ^= 1;
    let mut reader = FileReader::new(1 << 20);
    reader.push(&damaged);
    assert!(reader.next_frame().unwrap().is_some() && reader.next_frame().unwrap().is_some());
    let error = reader.next_frame().unwrap_err();
    assert_eq!(error.offset, bytes.len() as u64 - 4);
    assert!(matches!(error.problem, Problem::Checksum { .. }));

    let mut long = bytes.clone();
    long[second + 9..second + 13].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut reader = FileReader::new(1 << 20);
    reader.push(&long);
    assert!(reader.next_frame().unwrap().is_some() && reader.next_frame().unwrap().is_some());
    let error = reader.next_frame().unwrap_err();
    assert_eq!(error.problem, Problem::TooLong { length: u32::MAX.into(), max: 1 << 20 });

    for start in [&b"\xfebim"[..], &b"\0\0\0\0\0"[..]] {
        let mut reader = FileReader::new(1 << 20);
        reader.push(start);
        assert!(reader.next_frame().is_err());
    }
    let mut headless = MAGIC.to_vec();
    headless.extend_from_slice(&bytes[second..]);
    let mut reader = FileReader::new(1 << 20);
    reader.push(&headless);
    assert!(reader.next_frame().is_err(), "no Format_description event");
}

#[test]
fn nothing_is_read_behind_the_start_of_encryption() {
    let encrypted = StartEncryption { scheme: 1, key_version: 1, nonce: [0; 12] };
    let bytes = file(Checksum::Crc32, &[Event::StartEncryption(encrypted), Event::Xid(1)]);
    let mut reader = FileReader::new(1 << 20);
    reader.push(&bytes);
    assert!(reader.next_frame().unwrap().is_some() && reader.next_frame().unwrap().is_some());
    assert_eq!(reader.next_frame().unwrap_err().problem, Problem::Encrypted);
}

#[test]
fn finished_events_get_their_place() {
    let mut event = Vec::new();
    append(&mut event, head(), &Event::Xid(9), Checksum::None).unwrap();
    let mut expected = file(Checksum::Crc32, &[Event::Xid(9)]);
    let mut bytes = file(Checksum::Crc32, &[]);
    let mut writer = FileWriter::resume(bytes.len() as u64, Checksum::Crc32);
    let end = writer.finished(&mut bytes, &event).unwrap();
    assert_eq!(bytes, expected);
    assert_eq!((end, writer.position()), (bytes.len() as u64, bytes.len() as u64));
    assert!(writer.finished(&mut bytes, &event[..18]).is_err());
    assert_eq!(bytes, expected, "nothing was appended");
    // Positions wrap at 32 bits.
    let mut writer = FileWriter::resume(u64::from(u32::MAX), Checksum::None);
    expected.clear();
    writer.event(&mut expected, head(), &Event::Xid(9)).unwrap();
    assert_eq!(Header::decode(&expected).unwrap().end_position, 26);
}
