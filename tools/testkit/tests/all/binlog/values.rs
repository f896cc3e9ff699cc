//! Row events of every type of column, compared with the result of SELECT.

use std::collections::BTreeMap;
use std::fs;

use keel_binlog::{Change, Column, ColumnKind, Event, Format, Header, Image, Rows, TableMap, compress, kind};
use keel_testkit::Random;
use keel_testkit::client::{Cell, Client, Reply};
use keel_testkit::process::Server;
use keel_value::fixed::FixedKind;
use keel_value::{CollationId, Fixed, SqlType, TypeKind, ValueRef, text};

use super::{EVENT_MAX, for_each_event, log_files, start};

/// A column of the table.
struct Field {
    /// Its definition in CREATE TABLE; empty for the ENUM of 300 members.
    declared: &'static str,
    ty: SqlType,
    /// Literals of its values except NULL.
    literals: &'static [&'static str],
}

fn field(declared: &'static str, ty: SqlType, literals: &'static [&'static str]) -> Field {
    Field { declared, ty, literals }
}

const UTF8: CollationId = CollationId::UTF8MB4_GENERAL_CI;
const LATIN1: CollationId = CollationId::LATIN1_SWEDISH_CI;

fn numbers() -> Vec<Field> {
    use TypeKind::*;
    let of = SqlType::new;
    vec![
        field("tinyint", of(TinyInt), &["-128", "127", "0"]),
        field("tinyint unsigned", of(TinyInt).with_unsigned(), &["255", "0", "128"]),
        field("smallint", of(SmallInt), &["-32768", "32767", "-1"]),
        field("smallint unsigned", of(SmallInt).with_unsigned(), &["65535", "1"]),
        field("mediumint", of(MediumInt), &["-8388608", "8388607", "-1"]),
        field("mediumint unsigned", of(MediumInt).with_unsigned(), &["16777215", "0"]),
        field("int", of(Int), &["-2147483648", "2147483647", "-1"]),
        field("int unsigned", of(Int).with_unsigned(), &["4294967295", "0"]),
        field("bigint", of(BigInt), &["-9223372036854775808", "9223372036854775807"]),
        field(
            "bigint unsigned",
            of(BigInt).with_unsigned(),
            &["18446744073709551615", "9223372036854775808", "0"],
        ),
        field("decimal(10,2)", SqlType::decimal(10, 2), &["-12345678.91", "0", "99999999.99", "-0.01"]),
        field(
            "decimal(65,30)",
            SqlType::decimal(65, 30),
            &[
                "-99999999999999999999999999999999999.999999999999999999999999999999",
                "12345678901234567890.000000000000000000000000000001",
                "0",
            ],
        ),
        field(
            "decimal(20,0) unsigned",
            SqlType::decimal(20, 0).with_unsigned(),
            &["99999999999999999999", "1"],
        ),
        field("decimal(9,9)", SqlType::decimal(9, 9), &["-0.999999999", "0.000000001"]),
        field("float", of(Float), &["-1.25", "3.40282e38", "0", "0.1"]),
        field("float unsigned", of(Float).with_unsigned(), &["1.5"]),
        field("double", of(Double), &["-1.7976931348623157e308", "2.2250738585072014e-308", "0.1", "0"]),
        field("bit(1)", of(Bit).with_length(1), &["0", "1"]),
        field("bit(11)", of(Bit).with_length(11), &["1025", "2047", "0"]),
        field("bit(64)", of(Bit).with_length(64), &["18446744073709551615", "1"]),
        field("year", of(Year), &["0", "1901", "2155", "2024"]),
        field("bool", of(TinyInt).with_length(1), &["true", "false"]),
    ]
}

fn times() -> Vec<Field> {
    use TypeKind::*;
    let dates =
        &["'0000-00-00'", "'2024-02-29'", "'9999-12-31'", "'2024-00-00'", "'2024-02-31'", "'0001-01-01'"];
    let times =
        &["'-838:59:59.999999'", "'838:59:59.999999'", "'-00:00:00.999999'", "0", "'12:34:56.789012'"];
    let moments = &[
        "'0000-00-00'",
        "'2024-02-29 23:59:59.999999'",
        "'9999-12-31 23:59:59.999999'",
        "'1000-01-01 00:00:00.000001'",
    ];
    let instants =
        &["'0000-00-00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'", "'2024-02-29 12:00:00.5'"];
    vec![
        field("date", SqlType::new(Date), dates),
        field("time", SqlType::temporal(Time, 0), times),
        field("time(1)", SqlType::temporal(Time, 1), times),
        field("time(4)", SqlType::temporal(Time, 4), times),
        field("time(6)", SqlType::temporal(Time, 6), times),
        field("datetime", SqlType::temporal(DateTime, 0), moments),
        field("datetime(2)", SqlType::temporal(DateTime, 2), moments),
        field("datetime(3)", SqlType::temporal(DateTime, 3), moments),
        field("datetime(6)", SqlType::temporal(DateTime, 6), moments),
        field("timestamp", SqlType::temporal(Timestamp, 0), instants),
        field("timestamp(3)", SqlType::temporal(Timestamp, 3), instants),
        field("timestamp(6)", SqlType::temporal(Timestamp, 6), instants),
    ]
}

fn strings() -> Vec<Field> {
    use TypeKind::*;
    let of = SqlType::new;
    let words = &["''", "'a'", "'  b  '", "'äöü €'", "repeat('x', 5)"];
    let long = &["''", "'a'", "repeat('long ', 40)", "repeat('ü', 250)"];
    let bytes = &["''", "'a'", "x'00ff00'", "x'ff20'", "x'2000'"];
    let members = || vec!["x".to_string(), "yy".to_string(), "z".to_string()];
    let many = || (0..300).map(|n| format!("m{n}")).collect::<Vec<_>>();
    let json = SqlType { collation: CollationId::UTF8MB4_BIN, ..of(LongText) };
    vec![
        field("char(10)", SqlType::char(10, UTF8), words),
        field("char(10) character set latin1", SqlType::char(10, LATIN1), words),
        field("char(250)", SqlType::char(250, UTF8), long),
        field("char(255) character set latin1", SqlType::char(255, LATIN1), long),
        field("varchar(10)", SqlType::varchar(10, UTF8), words),
        field("varchar(255) character set latin1", SqlType::varchar(255, LATIN1), long),
        field("varchar(256) character set latin1", SqlType::varchar(256, LATIN1), long),
        field("varchar(300)", SqlType::varchar(300, UTF8), long),
        field("binary(6)", of(Binary).with_length(6), bytes),
        field("varbinary(6)", SqlType::varbinary(6), bytes),
        field("varbinary(600)", SqlType::varbinary(600), long),
        field("tinytext", of(TinyText), words),
        field("text", of(Text), long),
        field("mediumtext", of(MediumText), &["repeat('m', 70000)", "''"]),
        field(
            "longtext character set latin1",
            of(LongText).with_collation(LATIN1),
            &["repeat('ä', 70000)", "'l'"],
        ),
        field("tinyblob", of(TinyBlob), bytes),
        field("blob", of(Blob), bytes),
        field("mediumblob", of(MediumBlob), bytes),
        field("longblob", of(LongBlob), bytes),
        field("json", json, &["'{\"a\": [1, 2]}'", "'null'"]),
        field("enum('x','yy','z')", SqlType::members_of(Enum, members(), UTF8), &["'yy'", "'z'", "1", "''"]),
        field("set('x','yy','z')", SqlType::members_of(Set, members(), UTF8), &["'x,z'", "''", "7"]),
        field("", SqlType::members_of(Enum, many(), LATIN1), &["300", "1", "'m256'"]),
        field("inet4", of(Inet4), &["'1.2.3.4'", "'0.0.0.0'", "'255.255.0.0'"]),
        field("inet6", of(Inet6), &["'::'", "'::1'", "'ff02::'", "'2001:db8::1.2.3.4'"]),
        field(
            "uuid",
            of(Uuid),
            &[
                "'123e4567-e89b-12d3-a456-426614174000'",
                "'123e4567-e89b-42d3-a456-426614174000'",
                "'01890a5d-ac96-774b-bcce-b302099a8057'",
                "'00000000-0000-0000-0000-000000000000'",
            ],
        ),
    ]
}

fn fields() -> Vec<Field> {
    numbers().into_iter().chain(times()).chain(strings()).collect()
}

/// The text that a client receives for a value of an image.
fn shown(ty: &SqlType, column: &Column, value: Option<ValueRef<'_>>) -> Cell {
    let value = match value? {
        ValueRef::Null => return None,
        value => value,
    };
    let mut out = Vec::new();
    match (value, FixedKind::of(ty.kind)) {
        (ValueRef::Bytes(bytes), Some(kind)) => {
            let ColumnKind::Char { bytes: length } = column.kind else { panic!("{column:?}") };
            let mut whole = bytes.to_vec();
            whole.resize(length.into(), 0);
            Fixed::from_octets(kind, &whole).expect("a value").append_to(&mut out);
        }
        (ValueRef::Bytes(bytes), None) => {
            out.extend_from_slice(bytes);
            if ty.kind == TypeKind::Binary {
                out.resize(ty.length as usize, 0);
            }
        }
        (value, _) => text::append(&mut out, ty, value),
    }
    Some(out)
}

/// Rows by the value of their first column.
type Table = BTreeMap<Vec<u8>, Vec<Cell>>;

/// Applies a row event.
fn apply(table: &mut Table, rows: &Rows<'_>, columns: &[Column], types: &[SqlType]) {
    let images = rows.images(EVENT_MAX as usize).expect("images");
    let mut reader = rows.reader(&images, columns).expect("a reader");
    let (mut values, mut before) = (Vec::new(), None);
    while let Some(image) = reader.next_image(&mut values).expect("an image") {
        let cells: Vec<Cell> = (0..columns.len()).map(|i| shown(&types[i], &columns[i], values[i])).collect();
        let key = || cells[0].clone().expect("a key");
        match (image, rows.shape.change) {
            (Image::Before, Change::Update) => before = Some(key()),
            (Image::Before, _) => drop(table.remove(&key()).expect("a row to delete")),
            (Image::After, Change::Update) => {
                let mut row = table.remove(&before.take().expect("a before-image")).expect("a row to change");
                for (index, cell) in cells.into_iter().enumerate() {
                    if keel_binlog::bit(rows.after, index) {
                        row[index] = cell;
                    }
                }
                assert!(table.insert(row[0].clone().expect("a key"), row).is_none(), "a row twice");
            }
            (Image::After, _) => assert!(table.insert(key(), cells).is_none(), "a row twice"),
        }
    }
}

/// The table's contents according to the row events of the log files.
fn replay(server: &Server, types: &[SqlType]) -> Table {
    let mut table = Table::new();
    let mut map_body = Vec::new();
    let format = Format::current(keel_binlog::Checksum::None);
    for file in log_files(server, "log.") {
        let bytes = fs::read(&file).expect("readable");
        for_each_event(&bytes, |frame, now| match frame.event(now).expect("an event") {
            Event::TableMap(map) if map.table == b"everything" => map_body = frame.body.to_vec(),
            Event::TableMap(_) => map_body.clear(),
            Event::Rows(rows) if !map_body.is_empty() => {
                let header = Header { kind: kind::TABLE_MAP, ..Header::default() };
                let Ok(Event::TableMap(map)) = Event::decode(&header, &map_body, &format) else {
                    panic!("no map")
                };
                apply(&mut table, &rows, &columns_of(&map, types), types);
            }
            _ => {}
        });
    }
    table
}

/// The columns of a map, which must match the types. Signedness comes from the types if the map does not have
/// it.
fn columns_of(map: &TableMap<'_>, types: &[SqlType]) -> Vec<Column> {
    let mut columns = map.columns().expect("columns");
    let has_metadata = !map.optional.is_empty();
    for (index, (column, ty)) in columns.iter_mut().zip(types).enumerate() {
        let expected = Column::of(ty, index > 0);
        let has_sign = matches!(
            column.kind,
            ColumnKind::Int { .. }
                | ColumnKind::Decimal { .. }
                | ColumnKind::Float
                | ColumnKind::Double
                | ColumnKind::Year
        );
        if !(has_metadata && has_sign) {
            column.unsigned = expected.unsigned;
        }
        assert_eq!(*column, expected, "column {index}: {ty:?}");
    }
    columns
}

fn literal(random: &mut Random, field: &Field) -> String {
    if random.below(8) == 0 {
        return "null".into();
    }
    field.literals[random.below(field.literals.len() as u64) as usize].into()
}

fn change(client: &mut Client, fields: &[Field], random: &mut Random, id: u64) {
    let values: Vec<String> = fields.iter().map(|field| literal(random, field)).collect();
    client.run(&format!("insert into everything values ({id}, {})", values.join(", "))).expect("inserts");
    let some: Vec<String> = (0..5)
        .map(|_| {
            let index = random.below(fields.len() as u64) as usize;
            format!("c{index} = {}", literal(random, &fields[index]))
        })
        .collect();
    let row = random.below(id) + 1;
    client.run(&format!("update everything set {} where id = {row}", some.join(", "))).expect("updates");
    if id.is_multiple_of(5) {
        client.run(&format!("delete from everything where id = {row}")).expect("deletes");
    }
    if id.is_multiple_of(7) {
        client
            .run(&format!("update everything set id = id + 1000 where id > {row} limit 2"))
            .expect("updates");
    }
}

#[test]
fn rows_decode_to_the_result_of_select() {
    let mut server = start(&["--binlog-format=ROW", "--default-time-zone=+00:00"]);
    let fields = fields();
    let many = (0..300).map(|n| format!("'m{n}'")).collect::<Vec<_>>().join(",");
    let declared: Vec<String> = fields
        .iter()
        .enumerate()
        .map(|(index, field)| match field.declared {
            "" => format!("c{index} enum({many}) character set latin1"),
            declared => format!("c{index} {declared} null"),
        })
        .collect();
    let types: Vec<SqlType> =
        std::iter::once(SqlType::int()).chain(fields.iter().map(|field| field.ty.clone())).collect();
    let mut client = server.client().expect("connects");
    client.run("create database v").expect("created");
    client.run("use v").expect("used");
    client.run("set sql_mode = 'allow_invalid_dates', character_set_results = null").expect("is set");
    client
        .run(&format!("create table everything (id int primary key, {})", declared.join(", ")))
        .expect("created");
    let mut random = Random::new(1);
    let settings = [
        ("FULL", "FULL", "OFF"),
        ("MINIMAL", "MINIMAL", "ON"),
        ("NOBLOB", "NO_LOG", "OFF"),
        ("FULL", "NO_LOG", "ON"),
    ];
    for (part, (image, metadata, compress)) in settings.into_iter().enumerate() {
        client.run(&format!("set binlog_row_image = {image}")).expect("is set");
        client
            .run(&format!(
                "set global binlog_row_metadata = {metadata}, global log_bin_compress = {compress}"
            ))
            .expect("is set");
        for id in part as u64 * 40 + 1..=part as u64 * 40 + 40 {
            change(&mut client, &fields, &mut random, id);
        }
    }
    let Reply::Rows { rows, .. } = client.run("select * from everything").expect("rows") else {
        panic!("rows")
    };
    server.stop().expect("stops");
    let table = replay(&server, &types);
    assert!(rows.len() > 100 && rows.len() == table.len(), "{} rows, {} read", rows.len(), table.len());
    for row in rows {
        let read = table.get(row[0].as_ref().expect("a key")).expect("the row");
        for (index, (theirs, ours)) in row.iter().zip(read).enumerate() {
            let text = |cell: &Cell| cell.as_ref().map(|bytes| bytes.escape_ascii().to_string());
            let declared = index.checked_sub(1).map_or("", |index| fields[index].declared);
            assert_eq!(text(ours), text(theirs), "{declared}");
        }
    }
}

/// Columns that Keel does not have: compressed ones, geometries, temporal ones of the old format.
#[test]
fn columns_of_mariadb_alone_decode_to_the_result_of_select() {
    let mut server =
        start(&["--binlog-format=ROW", "--default-time-zone=+00:00", "--mysql56-temporal-format=0"]);
    let mut client = server.client().expect("connects");
    for sql in [
        "create database v",
        "use v",
        "set sql_mode = ''",
        "create table everything (a int primary key, b varchar(300) compressed character set latin1, c text compressed, \
         d blob compressed, g point, h time, i time(1), j time(4), k time(6), l datetime, m datetime(1), n datetime(3), o datetime(6), \
         p timestamp null, q timestamp(1) null, r timestamp(3) null, s timestamp(6) null)",
        "insert into everything values (1, 'short', repeat('abc', 500), repeat('x', 5000), point(1, 2), '-838:59:59', '-00:00:00.9', \
         '12:34:56.7891', '838:59:59.999999', '9999-12-31 23:59:59', '2024-02-29 01:02:03.4', '2024-00-00 00:00:00.123', \
         '1000-01-01 00:00:00.000001', '2038-01-19 03:14:07', '1970-01-01 00:00:01.9', '2024-02-29 12:00:00.123', '2024-02-29 12:00:00.123456')",
        "insert into everything values (2, repeat('long', 75), '', '', null, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
    ] {
        client.run(sql).expect(sql);
    }
    let Reply::Rows { rows, .. } = client.run("select * from everything").expect("rows") else {
        panic!("rows")
    };
    server.stop().expect("stops");
    let digits = [0, 0, 0, 0, 0, 0, 1, 4, 6, 0, 1, 3, 6, 0, 1, 3, 6];
    let mut read = 0;
    for file in log_files(&server, "log.") {
        let bytes = fs::read(&file).expect("readable");
        let mut columns = Vec::new();
        for_each_event(&bytes, |frame, format| match frame.event(format).expect("an event") {
            Event::TableMap(map) => {
                let all = map.columns().expect("columns");
                columns = all.iter().zip(digits).map(|(column, digits)| column.with_digits(digits)).collect();
            }
            Event::Rows(event) => {
                let mut reader = event.reader(event.body, &columns).expect("a reader");
                let mut values = Vec::new();
                while reader.next_image(&mut values).expect("an image").is_some() {
                    compare(&rows[read], &values, &columns, &digits);
                    read += 1;
                }
                check_written(&event, &columns);
            }
            _ => {}
        });
    }
    assert_eq!(read, 2);
}

fn compare(row: &[Cell], values: &[Option<ValueRef<'_>>], columns: &[Column], digits: &[u8]) {
    for (index, (cell, value)) in row.iter().zip(values).enumerate() {
        let kind = match columns[index].kind {
            ColumnKind::OldTime { .. } => TypeKind::Time,
            ColumnKind::OldDateTime { .. } | ColumnKind::OldTimestamp { .. } => TypeKind::DateTime,
            _ => TypeKind::Int,
        };
        let mut text = Vec::new();
        let ours = match value.expect("a full image") {
            ValueRef::Null => None,
            ValueRef::Bytes(bytes) => {
                let is_compressed = matches!(
                    columns[index].kind,
                    ColumnKind::Blob { compressed: true, .. } | ColumnKind::VarChar { compressed: true, .. }
                );
                Some(if is_compressed {
                    compress::unpack_column(bytes, 1 << 20).expect("unpacks")
                } else {
                    bytes.to_vec()
                })
            }
            value => {
                text::append(&mut text, &SqlType::temporal(kind, digits[index]), value);
                Some(text)
            }
        };
        let show = |cell: &Cell| cell.as_ref().map(|bytes| bytes.escape_ascii().to_string());
        assert_eq!(show(&ours), show(cell), "column {index}");
    }
}

/// Encodes the images of the event again.
fn check_written(event: &Rows<'_>, columns: &[Column]) {
    let mut reader = event.reader(event.body, columns).expect("a reader");
    let (mut written, mut values) = (Vec::new(), Vec::new());
    while reader.next_image(&mut values).expect("an image").is_some() {
        keel_binlog::append_image(&mut written, columns, event.columns, |index| {
            values[index].expect("a full image")
        })
        .expect("has a form");
    }
    assert_eq!(written, event.body);
}
