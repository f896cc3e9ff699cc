//! Every event of MariaDB's files decodes and encodes to equal bytes, and so does everything within it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use keel_binlog::{
    Checksum, ColumnBytes, Event, FileReader, Format, FormatDescription, Frame, Query, Rows, TableMap,
    append, append_image, compress, kind,
};
use keel_testkit::process::Server;
use keel_value::ValueRef;

use super::{EVENT_MAX, for_each_event, log_files, script, start};

/// The kinds of things that the files contain.
#[derive(Debug, Default)]
pub struct Met {
    /// Kinds of events.
    pub kinds: BTreeSet<u8>,
    /// Numbers of status variables.
    pub variables: BTreeSet<u8>,
    /// Numbers of optional blocks.
    pub blocks: BTreeSet<u8>,
    /// Flags of Gtid events, and their extra flags.
    pub gtid_flags: (u8, u8),
    /// Images of rows.
    pub images: usize,
}

/// A Table_map event that row events refer to.
struct Table {
    body: Vec<u8>,
}

/// Reads a file and compares each event with its encoding.
pub fn check(bytes: &[u8], met: &mut Met) {
    let mut tables: BTreeMap<u64, Table> = BTreeMap::new();
    let mut position = 4;
    for_each_event(bytes, |frame, format| {
        let length = frame.header.length as usize;
        let stored = &bytes[position..position + length];
        position += length;
        met.kinds.insert(frame.header.kind);
        let event = frame.event(format).unwrap_or_else(|error| panic!("kind {}: {error}", frame.header.kind));
        let mut written = Vec::new();
        append(&mut written, frame.header, &event, format.checksum()).expect("has a form");
        assert_eq!(written, stored, "{event:?}");
        check_within(&event, frame, format, &mut tables, met);
    });
}

fn check_within(
    event: &Event<'_>,
    frame: &Frame<'_>,
    format: &Format,
    tables: &mut BTreeMap<u64, Table>,
    met: &mut Met,
) {
    match event {
        Event::Query(query) => check_query(query, met),
        Event::ExecuteLoadQuery(load) => check_query(&load.query, met),
        Event::TableMap(map) => {
            check_map(map, met);
            tables.insert(map.table_id, Table { body: frame.body.to_vec() });
        }
        Event::Rows(rows) => {
            let table = tables.get(&rows.table_id).expect("a Table_map event");
            let header = keel_binlog::Header { kind: kind::TABLE_MAP, ..frame.header };
            let map = Event::decode(&header, &table.body, format).expect("was read before");
            let Event::TableMap(map) = map else { unreachable!("it is one") };
            check_rows(rows, &map, met);
        }
        Event::Gtid(gtid) => {
            met.gtid_flags.0 |= gtid.flags;
            met.gtid_flags.1 |= gtid.extra;
            let padded = gtid.padded();
            assert_eq!(padded.rest.len(), gtid.rest.len());
        }
        Event::FormatDescription(description) => {
            let expected = FormatDescription { created: description.created, ..*description };
            let written = FormatDescription::new(
                expected.server_version,
                expected.created,
                if expected.checksum == Some(1) { Checksum::Crc32 } else { Checksum::None },
            );
            assert_eq!(written, expected);
        }
        Event::Other { kind, .. } => panic!("kind {kind} has no form"),
        _ => {}
    }
}

fn check_query(query: &Query<'_>, met: &mut Met) {
    let mut written = Vec::new();
    for variable in query.variables() {
        let start = written.len();
        variable.expect("a variable").encode(&mut written).expect("has a form");
        met.variables.insert(written[start]);
    }
    assert_eq!(written, query.status);
    let text = query.text(EVENT_MAX as usize).expect("a text");
    std::str::from_utf8(&text).ok().filter(|text| !text.is_empty()).expect("statements are UTF-8 here");
    if query.compressed {
        let mut packed = Vec::new();
        compress::pack(&text, &mut packed).expect("packs");
        assert_eq!(compress::unpack(&packed, text.len()).as_deref(), Ok(&text[..]));
        assert_eq!(packed[..2], query.body[..2], "the head of the compressed text");
    }
}

fn check_map(map: &TableMap<'_>, met: &mut Met) {
    let mut written = Vec::new();
    for block in map.blocks() {
        let start = written.len();
        block.expect("a block").encode(&mut written);
        met.blocks.insert(written[start]);
    }
    assert_eq!(written, map.optional);
    let bytes = ColumnBytes::of(&map.columns().expect("columns"));
    assert_eq!(
        (&bytes.types[..], &bytes.metadata[..], &bytes.nullable[..]),
        (map.types, map.metadata, map.nullable)
    );
}

fn check_rows(rows: &Rows<'_>, map: &TableMap<'_>, met: &mut Met) {
    let columns = map.columns().expect("columns");
    let images = rows.images(EVENT_MAX as usize).expect("images");
    let mut reader = rows.reader(&images, &columns).expect("a reader");
    let (mut written, mut values) = (Vec::new(), Vec::new());
    let mut is_second = false;
    while reader.next_image(&mut values).expect("an image").is_some() {
        let present = if is_second { rows.after } else { rows.columns };
        append_image(&mut written, &columns, present, |index| values[index].unwrap_or(ValueRef::Null))
            .expect("has a form");
        is_second = !is_second && !rows.after.is_empty();
        met.images += 1;
    }
    assert_eq!(written, *images, "{}", map.table.escape_ascii());
}

/// Runs the script under each combination of format, image and metadata, with and without checksums and
/// compression.
fn write_files(server: &Server) {
    let mut client = server.client().expect("connects");
    let mut set = |sql: String| client.run(&sql).expect("is set");
    let formats =
        [("ROW", "FULL"), ("ROW", "MINIMAL"), ("ROW", "NOBLOB"), ("MIXED", "FULL"), ("STATEMENT", "FULL")];
    let tables = ["NO_LOG", "MINIMAL", "FULL"]
        .into_iter()
        .flat_map(|metadata| formats.map(|format| (metadata, format)));
    for (metadata, (format, image)) in tables {
        // Statements do not depend on the metadata of tables.
        if format == "STATEMENT" && metadata != "FULL" {
            continue;
        }
        let compress = if metadata == "MINIMAL" { ["OFF", "ON"] } else { ["ON", "OFF"] };
        for (checksum, compress) in ["NONE", "CRC32"].into_iter().zip(compress) {
            set(format!("set global binlog_checksum = {checksum}"));
            set(format!("set global log_bin_compress = {compress}, global log_bin_compress_min_len = 10"));
            set(format!("set global binlog_row_metadata = {metadata}"));
            set(format!("set global binlog_format = {format}, global binlog_row_image = {image}"));
            set("flush binary logs".into());
            script::run(&mut server.client().expect("connects"), &server.dir);
        }
    }
}

/// Two transactions that commit together.
fn commit_together(server: &Server) {
    let mut client = server.client().expect("connects");
    for sql in [
        "set global binlog_commit_wait_count = 2, global binlog_commit_wait_usec = 5000000",
        "create database pair",
        "create table pair.t (a int primary key)",
        "set global log_bin_compress = off",
    ] {
        client.run(sql).expect(sql);
    }
    let sessions: Vec<_> = (0..2)
        .map(|number| {
            let mut client = server.client().expect("connects");
            std::thread::spawn(move || {
                client.run(&format!("insert into pair.t values ({number})")).expect("inserts")
            })
        })
        .collect();
    sessions.into_iter().for_each(|session| drop(session.join().expect("ends")));
    client.run("set global binlog_commit_wait_count = 0").expect("is set");
}

#[test]
fn files_of_mariadb_decode_and_encode_to_equal_bytes() {
    let mut server =
        start(&["--skip-log-bin-trust-function-creators", "--log-bin-trust-function-creators=1"]);
    write_files(&server);
    commit_together(&server);
    server.stop().expect("stops");
    let files = log_files(&server, "log.");
    assert!(files.len() > 40, "{files:?}");
    let mut met = Met::default();
    for file in &files {
        let bytes = fs::read(file).expect("readable");
        check(&bytes, &mut met);
        let mut reader = FileReader::new(EVENT_MAX);
        reader.push(&bytes[..400.min(bytes.len())]);
        reader.next_frame().expect("a first event");
        assert!(!reader.in_use(), "{} was closed", file.display());
    }
    use kind::*;
    let expected = [
        QUERY,
        STOP,
        ROTATE,
        INTVAR,
        RAND,
        USER_VAR,
        FORMAT_DESCRIPTION,
        XID,
        BEGIN_LOAD_QUERY,
        APPEND_BLOCK,
        EXECUTE_LOAD_QUERY,
        TABLE_MAP,
        WRITE_ROWS_V1,
        UPDATE_ROWS_V1,
        DELETE_ROWS_V1,
        XA_PREPARE,
        ANNOTATE_ROWS,
        BINLOG_CHECKPOINT,
        GTID,
        GTID_LIST,
        QUERY_COMPRESSED,
        WRITE_ROWS_COMPRESSED_V1,
        UPDATE_ROWS_COMPRESSED_V1,
        DELETE_ROWS_COMPRESSED_V1,
    ];
    let missing: Vec<u8> = expected.into_iter().filter(|number| !met.kinds.contains(number)).collect();
    assert!(missing.is_empty(), "kinds {missing:?} were not written");
    let variables: BTreeSet<u8> = [0, 1, 3, 4, 5, 6, 7, 9, 11, 128, 129, 130].into();
    let missing: Vec<&u8> = variables.difference(&met.variables).collect();
    assert!(missing.is_empty(), "status variables {missing:?} were not written, {:?} were", met.variables);
    assert_eq!(met.blocks, (1..=11).collect(), "optional blocks");
    assert_eq!(met.gtid_flags, (0xef, 0x0f), "flags of Gtid events, bit by bit");
    assert!(met.images > 100_000, "{}", met.images);
}

/// An encrypted file: the events before the mark are read, the rest is an error.
#[test]
fn encrypted_files_are_refused_after_their_mark() {
    let keys = keel_testkit::process::scratch_dir("keys");
    let file = keys.join("keys.txt");
    fs::write(&file, "1;a7addd9adea9978fda19f21e6be987880e68ac92632ca052e5bb42b1a506939a\n")
        .expect("written");
    let plugin = format!("--file-key-management-filename={}", file.display());
    let mut server = start(&["--plugin-load-add=file_key_management", &plugin, "--encrypt-binlog=1"]);
    server.client().expect("connects").run("create database hidden").expect("created");
    server.stop().expect("stops");
    fs::remove_dir_all(keys).expect("removed");
    let bytes = fs::read(&log_files(&server, "log.")[0]).expect("readable");
    let mut reader = FileReader::new(EVENT_MAX);
    reader.push(&bytes);
    let mut kinds = Vec::new();
    let error = loop {
        match reader.next_frame() {
            Ok(frame) => kinds.push(frame.expect("more bytes").header.kind),
            Err(error) => break error,
        }
    };
    assert_eq!(kinds, [kind::FORMAT_DESCRIPTION, kind::START_ENCRYPTION]);
    assert_eq!(error.problem, keel_binlog::Problem::Encrypted);
}
