//! A file that MariaDB 10.11.19 wrote, compared with a reviewed dump. `KEEL_UPDATE_GOLDENS` rewrites the
//! dump.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use keel_binlog::{Column, Event, FileReader, Format, Query, Rows, TableMap, append, kind};

const LIMIT: u32 = 1 << 20;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn dump_query(query: &Query<'_>) -> String {
    let mut out = format!("thread {} in {:?}: ", query.thread_id, text(query.database));
    let body = query.text(LIMIT as usize).expect("a text");
    writeln!(out, "{}", text(&body)).unwrap();
    for variable in query.variables() {
        writeln!(out, "    {:?}", variable.expect("a variable")).unwrap();
    }
    out
}

fn dump_map(map: &TableMap<'_>) -> String {
    let mut out = format!("table {} is {}.{}\n", map.table_id, text(map.database), text(map.table));
    for column in map.columns().expect("columns") {
        writeln!(out, "    {column:?}").unwrap();
    }
    for block in map.blocks() {
        writeln!(out, "    {:?}", block.expect("a block")).unwrap();
    }
    out
}

fn dump_rows(rows: &Rows<'_>, columns: &[Column]) -> String {
    let mut out = format!("{:?} of table {}, flags {}\n", rows.shape, rows.table_id, rows.flags);
    let images = rows.images(LIMIT as usize).expect("images");
    let mut reader = rows.reader(&images, columns).expect("a reader");
    let mut values = Vec::new();
    while let Some(image) = reader.next_image(&mut values).expect("an image") {
        writeln!(out, "    {image:?}").unwrap();
        for (index, value) in values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?)))
        {
            writeln!(out, "        {index}: {value:?}").unwrap();
        }
    }
    out
}

/// A line or more for each event, after a check that its encoding is equal to its bytes.
fn dump(bytes: &[u8]) -> String {
    let mut reader = FileReader::new(LIMIT);
    reader.push(bytes);
    let (mut out, mut columns, mut start) = (String::new(), Vec::new(), 4);
    let mut format = Format::current(keel_binlog::Checksum::None);
    while let Some(frame) = reader.next_frame().expect("a sound file") {
        let event = frame.event(&format).expect("an event");
        let mut written = Vec::new();
        append(&mut written, frame.header, &event, format.checksum()).expect("can be encoded");
        assert_eq!(written, bytes[start..start + written.len()], "{event:?}");
        write!(out, "{start} kind {}, flags {}: ", event.kind(), frame.header.flags).unwrap();
        start += written.len();
        match &event {
            Event::Query(query) => out.push_str(&dump_query(query)),
            Event::ExecuteLoadQuery(load) => {
                write!(out, "file {} at {}..{}, ", load.file_id, load.name_start, load.name_end).unwrap();
                out.push_str(&dump_query(&load.query));
            }
            Event::AnnotateRows(statement) => writeln!(out, "{}", text(statement)).unwrap(),
            Event::TableMap(map) => {
                columns = map.columns().expect("columns");
                out.push_str(&dump_map(map));
            }
            Event::Rows(rows) => out.push_str(&dump_rows(rows, &columns)),
            Event::FormatDescription(description) => {
                format = Format::of(description).expect("a format");
                writeln!(
                    out,
                    "{}, {:?}",
                    text(description.server_version).trim_end_matches('\0'),
                    format.checksum()
                )
                .unwrap();
            }
            event => writeln!(out, "{event:?}").unwrap(),
        }
        assert!(event.kind() == kind::FORMAT_DESCRIPTION || frame.checksum.is_some());
    }
    reader.finish().expect("a whole file");
    out
}

#[test]
fn a_file_of_mariadb_has_its_dump() {
    let bytes = fs::read(data("mariadb-10.11.19.bin")).expect("the file");
    let dump = dump(&bytes);
    let path = data("mariadb-10.11.19.txt");
    if std::env::var_os("KEEL_UPDATE_GOLDENS").is_some() {
        fs::write(&path, &dump).expect("writable");
    }
    let golden = fs::read_to_string(&path).expect("the dump");
    for (line, (ours, theirs)) in dump.lines().zip(golden.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {}", line + 1);
    }
    assert_eq!(dump.lines().count(), golden.lines().count());
}
