//! Values of every type of column, in images of rows.

use keel_binlog::rows::{Rows, all_columns};
use keel_binlog::{
    Change, Column, ColumnBytes, ColumnKind, Image, Shape, TableMap, append_image, without_padding,
};
use keel_value::collation::CollationId;
use keel_value::fixed::{Fixed, FixedKind};
use keel_value::{Date, DateTime, Decimal, SqlType, Time, TypeKind, ValueRef};

fn column(kind: ColumnKind) -> Column {
    Column { kind, nullable: true, unsigned: false }
}

/// Reads a body of row images.
fn read(
    change: Change,
    columns: &[Column],
    present: &[u8],
    after: &[u8],
    body: &[u8],
) -> Vec<(Image, Vec<String>)> {
    let rows = Rows {
        shape: Shape::plain(change),
        table_id: 1,
        flags: 0,
        extra: &[],
        width: columns.len() as u32,
        columns: present,
        after,
        body,
    };
    let images = rows.images(0).unwrap();
    let mut reader = rows.reader(&images, columns).unwrap();
    let (mut list, mut values) = (Vec::new(), Vec::new());
    while let Some(image) = reader.next_image(&mut values).unwrap() {
        list.push((image, values.iter().map(|value| format!("{value:?}")).collect()));
    }
    list
}

fn encode(column: Column, value: ValueRef<'_>) -> keel_binlog::Result<Vec<u8>> {
    let mut out = Vec::new();
    append_image(&mut out, &[column], &[1], |_| value)?;
    Ok(out)
}

fn decode(column: Column, bytes: &[u8]) -> Option<String> {
    let rows = Rows {
        shape: Shape::plain(Change::Write),
        table_id: 1,
        flags: 0,
        extra: &[],
        width: 1,
        columns: &[1],
        after: &[],
        body: bytes,
    };
    let (columns, mut values) = ([column], Vec::new());
    let mut reader = rows.reader(bytes, &columns).unwrap();
    reader.next_image(&mut values).ok()??;
    Some(format!("{:?}", values[0]))
}

fn clock(micros: u32) -> DateTime {
    DateTime { date: Date::new(2024, 2, 29), hour: 23, minute: 59, second: 58, micros, repeated: false }
}

/// Types and values of them.
fn values() -> Vec<(Column, ValueRef<'static>)> {
    let mut list = Vec::new();
    for (bytes, min, max) in [
        (1, i64::from(i8::MIN), i64::from(i8::MAX)),
        (2, i64::from(i16::MIN), i64::from(i16::MAX)),
        (3, -(1 << 23), (1 << 23) - 1),
        (4, i64::from(i32::MIN), i64::from(i32::MAX)),
        (8, i64::MIN, i64::MAX),
    ] {
        let signed = column(ColumnKind::Int { bytes });
        list.extend([min, -1, 0, 1, max].map(|v| (signed, ValueRef::Int(v))));
        let unsigned = Column { unsigned: true, ..signed };
        list.extend([0, max as u64, max as u64 * 2 + 1].map(|v| (unsigned, ValueRef::UInt(v))));
    }
    for text in ["0.00", "-0.01", "999.99", "-999.99", "12.30"] {
        let value = Decimal::parse(text.as_bytes()).unwrap();
        list.push((column(ColumnKind::Decimal { precision: 5, scale: 2 }), ValueRef::Decimal(value)));
    }
    let nines = Decimal::max_value(65, 30);
    let wide = column(ColumnKind::Decimal { precision: 65, scale: 30 });
    list.extend([nines, nines.neg()].map(|v| (wide, ValueRef::Decimal(v))));
    let [float, double, year] = [ColumnKind::Float, ColumnKind::Double, ColumnKind::Year].map(column);
    list.extend([0.0, -1.5, f32::MAX].map(|v| (float, ValueRef::Float(v))));
    list.extend([0.0, -1.5, f64::MIN_POSITIVE].map(|v| (double, ValueRef::Double(v))));
    list.extend([0, 1901, 2024, 2155].map(|v| (year, ValueRef::UInt(v))));
    list.push((column(ColumnKind::Bit { bits: 1 }), ValueRef::UInt(1)));
    list.push((column(ColumnKind::Bit { bits: 11 }), ValueRef::UInt(0x401)));
    list.push((column(ColumnKind::Bit { bits: 64 }), ValueRef::UInt(u64::MAX)));
    for bytes in [1, 2] {
        list.push((column(ColumnKind::Enum { bytes }), ValueRef::UInt(255)));
    }
    for bytes in [1, 2, 3, 4, 8] {
        list.push((
            column(ColumnKind::Set { bytes }),
            ValueRef::UInt(u64::MAX >> (64 - 8 * u32::from(bytes))),
        ));
    }
    for date in [Date::ZERO, Date::new(2024, 0, 0), Date::new(9999, 12, 31)] {
        list.push((column(ColumnKind::Date), ValueRef::Date(date)));
    }
    list.extend(temporal_values());
    list
}

fn temporal_values() -> Vec<(Column, ValueRef<'static>)> {
    let mut list = Vec::new();
    for digits in 0..=6 {
        for kind in [ColumnKind::Time { digits }, ColumnKind::OldTime { digits }] {
            for micros in [0, Time::MAX.micros, -Time::MAX.micros, -1_234_567, 987_654] {
                list.push((column(kind), ValueRef::Time(Time { micros }.cut(digits))));
            }
        }
        for kind in [ColumnKind::DateTime { digits }, ColumnKind::OldDateTime { digits }] {
            for value in [DateTime::ZERO, clock(0), clock(999_999)] {
                list.push((column(kind), ValueRef::DateTime(value.cut(digits))));
            }
        }
        for kind in [ColumnKind::Timestamp { digits }, ColumnKind::OldTimestamp { digits }] {
            for value in [DateTime::ZERO, clock(0), clock(999_999), DateTime::from_unix(1, 0)] {
                list.push((column(kind), ValueRef::DateTime(value.cut(digits))));
            }
        }
    }
    list
}

fn strings() -> Vec<(Column, usize)> {
    vec![
        (column(ColumnKind::Char { bytes: 0 }), 0),
        (column(ColumnKind::Char { bytes: 255 }), 255),
        (column(ColumnKind::Char { bytes: 1020 }), 1020),
        (column(ColumnKind::VarChar { bytes: 255, compressed: false }), 255),
        (column(ColumnKind::VarChar { bytes: 256, compressed: false }), 256),
        (column(ColumnKind::VarChar { bytes: 65_535, compressed: false }), 65_535),
        (column(ColumnKind::Blob { length_bytes: 1, compressed: false }), 255),
        (column(ColumnKind::Blob { length_bytes: 2, compressed: true }), 65_535),
        (column(ColumnKind::Blob { length_bytes: 3, compressed: false }), 70_000),
        (column(ColumnKind::Blob { length_bytes: 4, compressed: false }), 70_000),
        (column(ColumnKind::Geometry { length_bytes: 4 }), 25),
        (column(ColumnKind::MysqlJson { length_bytes: 4 }), 25),
    ]
}

#[test]
fn every_value_survives_a_round_trip_and_no_prefix_is_read() {
    let mut list = values();
    let text = vec![b'x'; 70_000].leak();
    list.extend(strings().into_iter().map(|(column, length)| (column, ValueRef::Bytes(&text[..length]))));
    for (column, value) in list {
        let bytes = encode(column, value).unwrap_or_else(|error| panic!("{column:?} {value:?}: {error}"));
        assert_eq!(decode(column, &bytes), Some(format!("{:?}", Some(value))), "{column:?}");
        let step = (bytes.len() / 100).max(1);
        for end in (0..bytes.len()).step_by(step) {
            assert_eq!(decode(column, &bytes[..end]), None, "{column:?} {value:?} cut to {end}");
        }
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let time = ValueRef::Time(Time { micros: 1 });
    let decimal = |text: &str| ValueRef::Decimal(Decimal::parse(text.as_bytes()).unwrap());
    let unsigned = Column { unsigned: true, ..column(ColumnKind::Int { bytes: 1 }) };
    let year = column(ColumnKind::Year);
    let at = |date, hour| ValueRef::DateTime(DateTime { date, hour, ..DateTime::ZERO });
    for (column, value) in [
        (column(ColumnKind::Int { bytes: 1 }), ValueRef::Int(128)),
        (column(ColumnKind::Int { bytes: 1 }), ValueRef::Int(-129)),
        (column(ColumnKind::Int { bytes: 8 }), ValueRef::UInt(u64::MAX)),
        (unsigned, ValueRef::Int(-1)),
        (unsigned, ValueRef::UInt(256)),
        (column(ColumnKind::Decimal { precision: 5, scale: 2 }), decimal("1000")),
        (column(ColumnKind::Decimal { precision: 5, scale: 2 }), decimal("1.005")),
        (column(ColumnKind::Bit { bits: 8 }), ValueRef::UInt(256)),
        (year, ValueRef::UInt(1900)),
        (year, ValueRef::UInt(2156)),
        (column(ColumnKind::Enum { bytes: 1 }), ValueRef::UInt(256)),
        (column(ColumnKind::Time { digits: 5 }), time),
        (column(ColumnKind::Time { digits: 6 }), ValueRef::Time(Time { micros: i64::MIN })),
        (column(ColumnKind::DateTime { digits: 0 }), at(Date::new(2024, 13, 1), 0)),
        (column(ColumnKind::DateTime { digits: 0 }), at(Date::new(2024, 1, 1), 24)),
        (column(ColumnKind::Timestamp { digits: 0 }), at(Date::new(1969, 12, 31), 0)),
        (column(ColumnKind::Timestamp { digits: 0 }), at(Date::new(2024, 2, 30), 0)),
        (column(ColumnKind::Date), time),
        (column(ColumnKind::Int { bytes: 4 }), ValueRef::Bytes(b"1")),
        (column(ColumnKind::Char { bytes: 3 }), ValueRef::Bytes(b"long")),
        (column(ColumnKind::Blob { length_bytes: 1, compressed: false }), ValueRef::Bytes(&[0; 256])),
        (column(ColumnKind::Null), ValueRef::Int(0)),
    ] {
        assert!(encode(column, value).is_err(), "{column:?} {value:?}");
    }
}

#[test]
fn damaged_values_are_refused() {
    for (kind, bytes) in [
        (ColumnKind::Decimal { precision: 9, scale: 0 }, &[0xff, 0xff, 0xff, 0xff][..]),
        (ColumnKind::Decimal { precision: 1, scale: 0 }, &[0x8a]),
        (ColumnKind::Date, &[0xff, 0xff, 0xff]),
        (ColumnKind::Time { digits: 0 }, &[0xff, 0xff, 0xff]),
        (ColumnKind::Time { digits: 0 }, &[0, 0, 0]),
        (ColumnKind::Time { digits: 2 }, &[0x80, 0, 0, 100]),
        (ColumnKind::DateTime { digits: 0 }, &[0xff, 0xff, 0xff, 0xff, 0xff]),
        (ColumnKind::DateTime { digits: 0 }, &[0, 0, 0, 0, 0]),
        (ColumnKind::DateTime { digits: 2 }, &[0x80, 0, 0, 0, 0, 200]),
        (ColumnKind::Timestamp { digits: 6 }, &[0, 0, 0, 1, 0xff, 0xff, 0xff]),
        (ColumnKind::Null, &[0]),
    ] {
        let mut image = vec![0xfe];
        image.extend_from_slice(bytes);
        assert_eq!(decode(column(kind), &image), None, "{kind:?} {bytes:x?}");
    }
}

#[test]
fn fixed_values_lose_the_zeros_at_their_end() {
    let uuid = Fixed::parse(FixedKind::Uuid, b"123e4567-e89b-12d3-a456-426614174000").unwrap();
    let bytes = encode(column(ColumnKind::Char { bytes: 16 }), ValueRef::Fixed(uuid)).unwrap();
    // As a Write_rows event of MariaDB 10.11 had it.
    let stored = b"\xfe\x0f\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40";
    assert_eq!(bytes, stored);
    let zero = ValueRef::Fixed(Fixed::zero(FixedKind::Inet6));
    assert_eq!(encode(column(ColumnKind::Char { bytes: 16 }), zero).unwrap(), b"\xfe\0");
}

#[test]
fn padding_is_removed_from_the_end() {
    for (value, padding, expected) in [
        (&b"a  b  "[..], &b" "[..], &b"a  b"[..]),
        (b"\0\x01\0\0", b"\0", b"\0\x01"),
        (b"\0a\0 \0 ", b"\0 ", b"\0a"),
        (b"a \0 ", b"\0 ", b"a "),
        (b"   ", b" ", b""),
        (b"a ", b"", b"a "),
    ] {
        assert_eq!(without_padding(value, padding), expected);
    }
}

#[test]
fn images_have_the_columns_of_their_bitmap() {
    let columns: Vec<Column> = (0..10).map(|_| column(ColumnKind::Int { bytes: 1 })).collect();
    let (before, after) = ([0b0000_0101, 0b10], [0b1000_0000, 0b01]);
    let mut body = Vec::new();
    for row in 0..2 {
        let value =
            |index: usize| if index == 2 { ValueRef::Null } else { ValueRef::Int(row * 10 + index as i64) };
        append_image(&mut body, &columns, &before, value).unwrap();
        append_image(&mut body, &columns, &after, value).unwrap();
    }
    assert_eq!(body[..6], [0b1111_1010, 0, 9, 0b1111_1100, 7, 8]);
    let images = read(Change::Update, &columns, &before, &after, &body);
    let kinds: Vec<Image> = images.iter().map(|(image, _)| *image).collect();
    assert_eq!(kinds, [Image::Before, Image::After, Image::Before, Image::After]);
    let (_, first) = &images[2];
    assert_eq!((&first[0][..], &first[1][..], &first[2][..]), ("Some(Int(10))", "None", "Some(Null)"));
    assert_eq!(images[3].1[7], "Some(Int(17))");
    for change in [Change::Write, Change::Delete] {
        let expected = if change == Change::Write { Image::After } else { Image::Before };
        let images = read(change, &columns, &before, &[], &[0b1111_1000, 1, 2, 3]);
        assert!(images.len() == 1 && images[0].0 == expected);
    }
}

#[test]
fn an_event_without_columns_has_one_row() {
    let columns = [column(ColumnKind::Year)];
    // INSERT INTO t VALUES () of MariaDB 10.11 under binlog_row_image=MINIMAL.
    assert_eq!(read(Change::Write, &columns, &[0], &[], &[]), [(Image::After, vec!["None".to_string()])]);
    let rows = Rows {
        shape: Shape::plain(Change::Write),
        table_id: 1,
        flags: 0,
        extra: &[],
        width: 1,
        columns: &[0],
        after: &[],
        body: b"bytes",
    };
    assert!(rows.reader(rows.body, &columns).is_err(), "bytes of no column");
    assert!(rows.reader(rows.body, &[]).is_err(), "another number of columns");
}

#[test]
fn bitmaps_of_all_columns_have_no_other_bits() {
    assert_eq!(all_columns(0), []);
    assert_eq!(all_columns(8), [0xff]);
    assert_eq!(all_columns(17), [0xff, 0xff, 1]);
}

#[test]
fn types_of_keel_have_their_form() {
    let utf8 = CollationId::UTF8MB4_GENERAL_CI;
    let columns: Vec<Column> = [
        SqlType::int().with_unsigned(),
        SqlType::char(100, utf8),
        SqlType::varchar(300, utf8),
        SqlType::varbinary(10),
        SqlType::new(TypeKind::LongText),
        SqlType::decimal(10, 2),
        SqlType::temporal(TypeKind::DateTime, 3),
        SqlType::members_of(TypeKind::Set, vec![String::new(); 40], utf8),
        SqlType::new(TypeKind::Uuid),
    ]
    .iter()
    .map(|ty| Column::of(ty, true))
    .collect();
    let bytes = ColumnBytes::of(&columns);
    assert_eq!(bytes.types, [3, 254, 15, 15, 252, 246, 18, 254, 254]);
    let metadata = [0xee, 0x90, 0xb0, 0x04, 10, 0, 4, 10, 2, 3, 0xf8, 8, 0xfe, 16];
    assert_eq!(bytes.metadata, metadata);
    let map = TableMap {
        types: &bytes.types,
        metadata: &bytes.metadata,
        nullable: &bytes.nullable,
        // Signs of the INT and the DECIMAL.
        optional: &[1, 1, 0x80],
        ..TableMap::default()
    };
    let read = map.columns().unwrap();
    for (read, column) in read.iter().zip(&columns) {
        assert_eq!((read.kind, read.nullable), (column.kind, true));
    }
    assert!(read[0].unsigned && !read[5].unsigned);
    for end in 0..metadata.len() {
        assert!(TableMap { metadata: &metadata[..end], ..map }.columns().is_err(), "cut to {end}");
    }
}
