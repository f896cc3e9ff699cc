//! Any bytes as a log file, as one event, as a table with its rows, as compressed bytes and as a list of
//! GTIDs. A reader may refuse them. Otherwise the result can be encoded, and its encoding decodes to the same
//! result.

use keel_binlog::control::{BinlogCheckpoint, Heartbeat, Incident, Rotate, StartEncryption, XaPrepare, Xid};
use keel_binlog::gtid::event::{self, GtidEvent, GtidListEvent};
use keel_binlog::gtid::parse_list;
use keel_binlog::load::{Block, ExecuteLoadQuery};
use keel_binlog::rows::all_columns;
use keel_binlog::session::{Intvar, Rand, UserValue, UserVar};
use keel_binlog::{
    BinlogState, Change, Checksum, Column, ColumnBytes, ColumnKind, DefaultCharset, Event, FileReader,
    FileWriter, Format, FormatDescription, Gtid, Header, OptionalBlock, Query, Rows, Shape, SlavePosition,
    StatusVar, TableMap, append_image, compress, kind, server_version,
};
use keel_value::{Date, DateTime, Decimal, Time, ValueRef};

/// Limit for the length of events, compressed or not.
const EVENT_MAX: u32 = 1 << 20;

/// Passes bytes to every reader.
pub fn run(bytes: &[u8]) {
    file(bytes);
    one_event(bytes);
    table_and_rows(bytes);
    lists(bytes);
    compressed(bytes);
}

/// A whole file, in pieces.
fn file(bytes: &[u8]) {
    let size = usize::from(bytes.last().copied().unwrap_or(0)) + 1;
    let mut reader = FileReader::new(EVENT_MAX);
    for piece in bytes.chunks(size) {
        reader.push(piece);
        loop {
            let format = reader.format().cloned().unwrap_or_else(|| Format::current(Checksum::None));
            match reader.next_frame() {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if let Ok(event) = frame.event(&format) {
                        check(&frame.header, &event);
                    }
                }
            }
        }
        assert!(reader.position() <= bytes.len() as u64);
    }
    let _ = reader.finish();
}

fn header(number: u8, end_position: u32) -> Header {
    Header { kind: number, end_position, ..Header::default() }
}

/// The number of a kind, a byte for the position in the header, and a body.
fn one_event(bytes: &[u8]) {
    let [number, position, body @ ..] = bytes else { return };
    let header = header(*number, (*position).into());
    if let Ok(event) = Event::decode(&header, body, &Format::current(Checksum::None)) {
        check(&header, &event);
    }
}

/// Encodes and decodes a decoded event; the result must be equal.
fn check(header: &Header, event: &Event<'_>) {
    let mut body = Vec::new();
    event.encode(&mut body).expect("decoded events can be encoded");
    let again = Event::decode(header, &body, &Format::current(Checksum::None))
        .expect("encoded events can be decoded");
    let mut second = Vec::new();
    again.encode(&mut second).expect("written twice");
    assert_eq!(body, second);
    assert_eq!(format!("{again:?}"), format!("{event:?}"));
    match event {
        Event::Query(query) => check_query(query),
        Event::ExecuteLoadQuery(load) => check_query(&load.query),
        Event::TableMap(map) => check_map(map),
        Event::Gtid(gtid) => _ = gtid.padded(),
        Event::FormatDescription(description) => _ = Format::of(description),
        Event::GtidList(list) => check_state(&list.gtids),
        _ => {}
    }
}

fn check_query(query: &Query<'_>) {
    let _ = query.text(EVENT_MAX as usize);
    let mut written = Vec::new();
    for variable in query.variables() {
        let Ok(variable) = variable else { return };
        variable.encode(&mut written).expect("decoded events can be encoded");
    }
    assert_eq!(written, query.status);
}

fn check_map(map: &TableMap<'_>) {
    let mut written = Vec::new();
    let blocks: Vec<_> = map.blocks().filter_map(Result::ok).collect();
    blocks.iter().for_each(|block| block.encode(&mut written));
    let again = TableMap { optional: &written, ..*map };
    assert_eq!(again.blocks().collect::<Result<Vec<_>, _>>().as_deref(), Ok(&blocks[..]));
    let Ok(columns) = map.columns() else { return };
    let bytes = ColumnBytes::of(&columns);
    let again =
        TableMap { types: &bytes.types, metadata: &bytes.metadata, nullable: &bytes.nullable, ..*map };
    assert_eq!(again.columns().as_ref(), Ok(&columns));
}

/// The length of a Table_map event's body, that body, the number of a kind, and the body of a row event.
fn table_and_rows(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (map, rest) = rest.split_at(rest.len().min((*length).into()));
    let Some((number, body)) = rest.split_first() else { return };
    let format = Format::current(Checksum::None);
    let Ok(Event::TableMap(map)) = Event::decode(&header(kind::TABLE_MAP, 0), map, &format) else { return };
    let Ok(Event::Rows(rows)) = Event::decode(&header(*number, 0), body, &format) else { return };
    let (Ok(columns), Ok(images)) = (map.columns(), rows.images(EVENT_MAX as usize)) else { return };
    let columns: Vec<Column> = columns.iter().map(|column| column.with_digits(map.flags as u8 % 7)).collect();
    let Ok(mut reader) = rows.reader(&images, &columns) else { return };
    let mut values = Vec::new();
    let mut written = Vec::new();
    while let Ok(Some(_)) = reader.next_image(&mut values) {
        assert_eq!(values.len(), columns.len());
        let mut present = all_columns(columns.len());
        for (index, value) in values.iter().enumerate() {
            if value.is_none() {
                present[index / 8] &= !(1 << (index % 8));
            }
        }
        written.clear();
        let value = |index: usize| values[index].expect("only present columns are asked for");
        // The reader accepts strings beyond their column's length and fractions beyond its digits; the writer
        // does not.
        if append_image(&mut written, &columns, &present, value).is_ok() {
            check_image(&written, &columns, &present, &values);
        }
    }
}

fn check_image(image: &[u8], columns: &[Column], present: &[u8], values: &[Option<ValueRef<'_>>]) {
    let rows = Rows {
        shape: Shape::plain(Change::Write),
        table_id: 0,
        flags: 0,
        extra: &[],
        width: columns.len() as u32,
        columns: present,
        after: &[],
        body: image,
    };
    let mut again = Vec::new();
    let mut reader = rows.reader(image, columns).expect("as many columns");
    reader.next_image(&mut again).expect("encoded events can be decoded");
    assert_eq!(format!("{again:?}"), format!("{values:?}"));
    assert_eq!(reader.next_image(&mut again), Ok(None));
}

fn lists(bytes: &[u8]) {
    if let Some(list) = parse_list(bytes) {
        check_state(&list);
        let one = Gtid::parse(bytes);
        assert_eq!(one, (list.len() == 1).then(|| list[0]));
    }
    if let Ok(position) = SlavePosition::parse(bytes) {
        assert_eq!(SlavePosition::parse(position.to_string().as_bytes()), Ok(position));
    }
}

fn check_state(list: &[Gtid]) {
    let state = BinlogState::from_list(list);
    let printed = state.to_string();
    let again = BinlogState::from_list(&parse_list(printed.as_bytes()).expect("its own text"));
    assert_eq!(again.to_string(), printed);
    assert!(state.iter().all(|gtid| state.contains(gtid)));
}

fn compressed(bytes: &[u8]) {
    for plain in
        [compress::unpack(bytes, EVENT_MAX as usize), compress::unpack_column(bytes, EVENT_MAX as usize)]
    {
        assert!(plain.is_err() || plain.is_ok_and(|plain| plain.len() <= EVENT_MAX as usize));
    }
}

/// Files with one of each event, single events, tables with rows, lists.
pub fn samples() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    let status = status();
    let optional = optional();
    let events = events(&status, &optional);
    for checksum in [Checksum::None, Checksum::Crc32] {
        let version = server_version("10.11.19-MariaDB");
        let mut bytes = Vec::new();
        let description = FormatDescription::new(&version, 1, checksum);
        let mut writer = FileWriter::begin(&mut bytes, 1, 1, &description).expect("begins");
        for event in &events {
            writer.event(&mut bytes, Header::default(), event).expect("has a form");
        }
        samples.push(bytes);
    }
    for event in &events {
        let mut sample = vec![event.kind(), 1];
        event.encode(&mut sample).expect("has a form");
        samples.push(sample);
    }
    samples.extend(tables());
    samples.extend(
        ["0-1-5,1-2-7", " 3-4-18446744073709551615", "0-1-5,0-2-6"].map(|text| text.as_bytes().to_vec()),
    );
    let mut packed = Vec::new();
    compress::pack(&b"insert ".repeat(30), &mut packed).expect("packs");
    samples.push(packed);
    samples
}

fn status() -> Vec<u8> {
    let mut status = Vec::new();
    for variable in [
        StatusVar::Flags2(1),
        StatusVar::SqlMode(2),
        StatusVar::AutoIncrement { increment: 1, offset: 2 },
        StatusVar::Charset { client: 45, connection: 45, server: 8 },
        StatusVar::TimeZone(b"SYSTEM"),
        StatusVar::Catalog(b"std"),
        StatusVar::LcTimeNames(1),
        StatusVar::TablesForUpdate(3),
        StatusVar::Invoker { user: b"u", host: b"h" },
        StatusVar::Microseconds(5),
        StatusVar::Xid(6),
        StatusVar::GtidFlags { flags: 4, start_alter: Some(7) },
    ] {
        variable.encode(&mut status).expect("has a form");
    }
    status
}

fn optional() -> Vec<u8> {
    let mut optional = Vec::new();
    let charset = || DefaultCharset { default: 45, others: vec![(1, 63)] };
    for block in [
        OptionalBlock::Signedness(&[0x80]),
        OptionalBlock::DefaultCharset(charset()),
        OptionalBlock::ColumnCharset(vec![8, 300]),
        OptionalBlock::Names(vec![b"a", b"b"]),
        OptionalBlock::SetMembers(vec![vec![b"x", b"y"]]),
        OptionalBlock::EnumMembers(vec![vec![b"z"], vec![]]),
        OptionalBlock::GeometryTypes(vec![1]),
        OptionalBlock::SimplePrimaryKey(vec![0]),
        OptionalBlock::PrimaryKeyWithPrefix(vec![(0, 10)]),
        OptionalBlock::EnumSetDefaultCharset(charset()),
        OptionalBlock::EnumSetColumnCharset(vec![8]),
    ] {
        block.encode(&mut optional);
    }
    optional
}

fn events<'a>(status: &'a [u8], optional: &'a [u8]) -> Vec<Event<'a>> {
    let query = Query { thread_id: 1, status, database: b"db", body: b"select 1", ..Query::default() };
    let xid = Xid { format_id: 1, global: b"g", branch: b"b" };
    let value = UserValue { result_type: 0, collation: 45, bytes: b"v", flags: Some(0) };
    let gtid = GtidEvent { seq: 1, domain: 2, flags: event::flags::DDL, ..GtidEvent::default() };
    let altered = GtidEvent { extra: event::extra::COMMIT_ALTER, start_alter: Some(1), ..gtid };
    let prepared = GtidEvent { flags: event::flags::PREPARED_XA, xid: Some(xid), ..gtid };
    vec![
        Event::GtidList(GtidListEvent { flags: 0, gtids: vec![Gtid::new(0, 1, 2), Gtid::new(1, 1, 9)] }),
        Event::BinlogCheckpoint(BinlogCheckpoint { file: b"log.1" }),
        Event::Gtid(gtid.padded()),
        Event::Gtid(altered.padded()),
        Event::Gtid(prepared.padded()),
        Event::Query(query),
        Event::Query(Query { compressed: true, body: b"\x81\x01x\x9c\x4b\x04\x00\x00\x62\x00\x62", ..query }),
        Event::Intvar(Intvar { which: 1, value: 5 }),
        Event::Rand(Rand(1, 2)),
        Event::UserVar(UserVar { name: b"a", value: Some(value) }),
        Event::BeginLoadQuery(Block { file_id: 1, bytes: b"1,2" }),
        Event::ExecuteLoadQuery(ExecuteLoadQuery {
            query,
            file_id: 1,
            name_start: 2,
            name_end: 3,
            duplicates: 0,
        }),
        Event::TableMap(TableMap { types: &[3], nullable: &[1], optional, ..TableMap::default() }),
        Event::AnnotateRows(b"insert"),
        Event::Xid(1),
        Event::XaPrepare(XaPrepare { one_phase: true, xid }),
        Event::Heartbeat(Heartbeat { position: None, file: b"log.1" }),
        Event::Incident(Incident { incident: 1, message: b"lost" }),
        Event::Other { kind: 200, body: b"unknown" },
        Event::Rotate(Rotate { position: 4, file: b"log.2" }),
        Event::StartEncryption(StartEncryption { scheme: 1, key_version: 1, nonce: [0; 12] }),
    ]
}

/// Kinds of columns with a value of each.
fn columns() -> Vec<(ColumnKind, ValueRef<'static>)> {
    let clock =
        DateTime { date: Date::new(2024, 2, 29), hour: 1, minute: 2, second: 3, micros: 0, repeated: false };
    let decimal = Decimal::parse(b"-12.34").expect("a number");
    vec![
        (ColumnKind::Int { bytes: 3 }, ValueRef::Int(-5)),
        (ColumnKind::Decimal { precision: 20, scale: 2 }, ValueRef::Decimal(decimal)),
        (ColumnKind::Float, ValueRef::Float(1.5)),
        (ColumnKind::Double, ValueRef::Double(-1.5)),
        (ColumnKind::Bit { bits: 11 }, ValueRef::UInt(5)),
        (ColumnKind::Year, ValueRef::UInt(2024)),
        (ColumnKind::Date, ValueRef::Date(clock.date)),
        (ColumnKind::Time { digits: 3 }, ValueRef::Time(Time { micros: -1_001_000 })),
        (ColumnKind::DateTime { digits: 6 }, ValueRef::DateTime(clock)),
        (ColumnKind::Timestamp { digits: 2 }, ValueRef::DateTime(clock)),
        (ColumnKind::OldTime { digits: 0 }, ValueRef::Time(Time { micros: 3_000_000 })),
        (ColumnKind::OldDateTime { digits: 0 }, ValueRef::DateTime(clock)),
        (ColumnKind::OldTimestamp { digits: 0 }, ValueRef::DateTime(clock)),
        (ColumnKind::Char { bytes: 300 }, ValueRef::Bytes(b"char")),
        (ColumnKind::VarChar { bytes: 20, compressed: true }, ValueRef::Bytes(b"\0text")),
        (ColumnKind::Blob { length_bytes: 2, compressed: false }, ValueRef::Bytes(b"blob")),
        (ColumnKind::Enum { bytes: 1 }, ValueRef::UInt(1)),
        (ColumnKind::Set { bytes: 8 }, ValueRef::UInt(9)),
    ]
}

/// Tables of four columns each with rows.
fn tables() -> Vec<Vec<u8>> {
    let mut samples = Vec::new();
    for part in columns().chunks(4) {
        for change in [Change::Write, Change::Update, Change::Delete] {
            let columns: Vec<Column> = part
                .iter()
                .map(|(kind, _)| Column { kind: *kind, nullable: true, unsigned: false })
                .collect();
            let bytes = ColumnBytes::of(&columns);
            let all = all_columns(columns.len());
            let mut images = Vec::new();
            append_image(&mut images, &columns, &all, |index| part[index].1).expect("has a form");
            append_image(&mut images, &columns, &all, |_| ValueRef::Null).expect("has a form");
            let map = Event::TableMap(TableMap {
                types: &bytes.types,
                metadata: &bytes.metadata,
                nullable: &bytes.nullable,
                ..TableMap::default()
            });
            let rows = Event::Rows(Rows {
                shape: Shape::plain(change),
                table_id: 0,
                flags: 1,
                extra: &[],
                width: columns.len() as u32,
                columns: &all,
                after: if change == Change::Update { &all } else { &[] },
                body: &images,
            });
            let mut sample = vec![0];
            map.encode(&mut sample).expect("has a form");
            sample[0] = (sample.len() - 1) as u8;
            sample.push(rows.kind());
            rows.encode(&mut sample).expect("has a form");
            samples.push(sample);
        }
    }
    samples
}
