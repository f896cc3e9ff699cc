//! Files of this crate, read by `mariadb-binlog` and replayed by a server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use keel_binlog::control::{BinlogCheckpoint, Rotate};
use keel_binlog::gtid::event::{GtidEvent, GtidListEvent, flags as gtid_flags};
use keel_binlog::rows::{all_columns, flags};
use keel_binlog::session::{Intvar, UserValue, UserVar};
use keel_binlog::{
    CLOSED_MARK, Change, Checksum, Column, ColumnBytes, Event, FileWriter, FormatDescription, Gtid, Header,
    IN_USE_OFFSET, OptionalBlock, Query, Rows, Shape, StatusVar, TableMap, append_image, compress,
    server_version,
};
use keel_testkit::process::{Engine, Server};
use keel_value::{CollationId, Date, Decimal, SqlType, TypeKind, Value};

use super::{files, for_each_event, log_files, script, start};

/// A log that is being written.
struct Log {
    bytes: Vec<u8>,
    writer: FileWriter,
    seq: u64,
    compressed: bool,
}

const HEAD: Header =
    Header { timestamp: 1_700_000_000, kind: 0, server_id: 9, length: 0, end_position: 0, flags: 0 };

impl Log {
    fn begin(checksum: Checksum, compressed: bool) -> Log {
        let version = server_version("10.11.19-MariaDB-keel");
        let mut bytes = Vec::new();
        let description = FormatDescription::new(&version, HEAD.timestamp, checksum);
        let writer = FileWriter::begin(&mut bytes, HEAD.timestamp, 9, &description).expect("begins");
        let mut log = Log { bytes, writer, seq: 0, compressed };
        log.put(&Event::GtidList(GtidListEvent { flags: 0, gtids: vec![Gtid::new(5, 9, 0)] }));
        log.put(&Event::BinlogCheckpoint(BinlogCheckpoint { file: b"log.000001" }));
        log
    }

    fn put(&mut self, event: &Event<'_>) {
        self.writer.event(&mut self.bytes, HEAD, event).expect("has a form");
    }

    fn gtid(&mut self, flags: u8) {
        self.seq += 1;
        let gtid = GtidEvent { seq: self.seq, domain: 5, flags, ..GtidEvent::default() };
        self.put(&Event::Gtid(gtid.padded()));
    }

    fn query(&mut self, database: &str, text: &str) {
        let mut status = Vec::new();
        for variable in [
            StatusVar::Flags2(0),
            StatusVar::SqlMode(0),
            StatusVar::Charset { client: 45, connection: 45, server: 45 },
            StatusVar::Catalog(b"std"),
        ] {
            variable.encode(&mut status).expect("has a form");
        }
        let mut packed = Vec::new();
        compress::pack(text.as_bytes(), &mut packed).expect("packs");
        let body = if self.compressed { &packed[..] } else { text.as_bytes() };
        let query = Query {
            thread_id: 3,
            seconds: 0,
            error: 0,
            status: &status,
            database: database.as_bytes(),
            body,
            compressed: self.compressed,
        };
        self.put(&Event::Query(query));
    }

    /// A DDL statement as a group of its own.
    fn definition(&mut self, text: &str) {
        self.gtid(gtid_flags::STANDALONE | gtid_flags::DDL);
        self.query("", text);
    }

    /// A transaction with one row event.
    fn rows(&mut self, change: Change, images: &[&[Value]]) {
        self.gtid(gtid_flags::TRANSACTIONAL | gtid_flags::ALLOW_PARALLEL);
        self.put(&Event::AnnotateRows(b"written by hand"));
        let columns = columns();
        let bytes = ColumnBytes::of(&columns);
        let mut optional = Vec::new();
        for block in [
            OptionalBlock::Signedness(&[0b0100_0000]),
            OptionalBlock::Names(vec![b"id", b"u", b"d", b"s", b"at"]),
            OptionalBlock::SimplePrimaryKey(vec![0]),
        ] {
            block.encode(&mut optional);
        }
        let map = TableMap {
            table_id: 1 << 40,
            flags: 1,
            database: b"made",
            table: b"t",
            types: &bytes.types,
            metadata: &bytes.metadata,
            nullable: &bytes.nullable,
            optional: &optional,
        };
        self.put(&Event::TableMap(map));
        let all = all_columns(columns.len());
        let mut body = Vec::new();
        for image in images {
            append_image(&mut body, &columns, &all, |index| image[index].as_ref()).expect("has a form");
        }
        let mut packed = Vec::new();
        compress::pack(&body, &mut packed).expect("packs");
        let rows = Rows {
            shape: Shape { compressed: self.compressed, ..Shape::plain(change) },
            table_id: 1 << 40,
            flags: flags::STMT_END,
            extra: &[],
            width: columns.len() as u32,
            columns: &all,
            after: if change == Change::Update { &all } else { &[] },
            body: if self.compressed { &packed } else { &body },
        };
        self.put(&Event::Rows(rows));
        self.put(&Event::Xid(self.seq));
    }

    /// Closes the file.
    fn end(mut self) -> Vec<u8> {
        self.put(&Event::Rotate(Rotate { position: 4, file: b"log.000002" }));
        let at = IN_USE_OFFSET as usize;
        self.bytes[at..at + CLOSED_MARK.len()].copy_from_slice(&CLOSED_MARK);
        self.bytes
    }
}

fn columns() -> Vec<Column> {
    let types = [
        SqlType::int(),
        SqlType::bigint_unsigned(),
        SqlType::decimal(10, 2),
        SqlType::varchar(100, CollationId::UTF8MB4_GENERAL_CI),
        SqlType::new(TypeKind::Date),
    ];
    types.iter().enumerate().map(|(index, ty)| Column::of(ty, index > 0)).collect()
}

fn row(id: i64, text: &str) -> Vec<Value> {
    let decimal = Decimal::parse(b"-12.50").expect("a number");
    vec![
        Value::Int(id),
        Value::UInt(u64::MAX - id as u64),
        Value::Decimal(decimal),
        Value::bytes(text.as_bytes()),
        if id % 2 == 0 { Value::Null } else { Value::Date(Date::new(2024, 2, 29)) },
    ]
}

/// The output of `mariadb-binlog` for a file.
fn printed(file: &Path, options: &[&str]) -> String {
    let output = Command::new("mariadb-binlog")
        .args(["--no-defaults", "--verify-binlog-checksum"])
        .args(options)
        .arg(file)
        .output()
        .expect("mariadb-binlog runs");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {errors}", file.display());
    assert!(!errors.to_lowercase().contains("error"), "{errors}");
    text.into_owned()
}

/// Runs statements through the `mariadb` client.
fn feed(server: &Server, statements: &str) {
    let mut client = Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "--binary-mode"])
        .arg(format!("--socket={}", server.socket().display()))
        .stdin(Stdio::piped())
        .spawn()
        .expect("the client runs");
    keel_testkit::process::feed(&mut client, statements.as_bytes());
    assert!(client.wait().expect("ends").success());
}

fn write_log(checksum: Checksum, compressed: bool) -> Vec<u8> {
    let mut log = Log::begin(checksum, compressed);
    log.definition("create database made");
    log.definition(
        "create table made.t (id int primary key, u bigint unsigned, d decimal(10,2), s varchar(100) character set utf8mb4, at date)",
    );
    let long = "ü".repeat(100);
    let [first, second, changed] = [row(1, "one"), row(2, &long), row(3, "changed")];
    log.rows(Change::Write, &[&first, &second]);
    log.rows(Change::Update, &[&first, &changed]);
    log.rows(Change::Write, &[&first]);
    log.rows(Change::Delete, &[&second]);
    log.gtid(gtid_flags::TRANSACTIONAL);
    let value = UserValue { result_type: UserValue::STRING, collation: 45, bytes: b"user's", flags: Some(0) };
    log.put(&Event::UserVar(UserVar { name: b"v", value: Some(value) }));
    log.put(&Event::Intvar(Intvar { which: Intvar::LAST_INSERT_ID, value: 77 }));
    log.query("made", "insert into t (id, u, s) values (10, last_insert_id(), @v)");
    log.query("made", "COMMIT");
    log.end()
}

#[test]
fn mariadb_binlog_reads_files_of_this_crate() {
    let folder = keel_testkit::process::scratch_dir("written");
    for checksum in [Checksum::None, Checksum::Crc32] {
        for compressed in [false, true] {
            let bytes = write_log(checksum, compressed);
            let mut met = files::Met::default();
            files::check(&bytes, &mut met);
            let file = folder.join("log.000001");
            fs::write(&file, &bytes).expect("written");
            let text = printed(&file, &["-vv"]);
            for expected in [
                "GTID 5-9-1 ddl",
                "GTID 5-9-3 trans",
                "### INSERT INTO `made`.`t`",
                "### UPDATE `made`.`t`",
                "### DELETE FROM `made`.`t`",
                "###   @3=-12.50 /* DECIMAL(10,2)",
                "Gtid list [5-9-0]",
                "written by hand",
                "Rotate to log.000002",
            ] {
                assert!(text.contains(expected), "{expected}\n{text}");
            }
            assert!(!text.contains("in use or wasn't closed"), "{text}");
            let server =
                Server::start(Engine::MariaDb, &["--server-id=9", "--log-bin=log"]).expect("mariadb starts");
            feed(&server, &printed(&file, &[]));
            let mut client = server.client().expect("connects");
            let rows = client.run("select id, u, d, s, at from made.t order by id").expect("rows").strings();
            let expected = [
                ["1", "18446744073709551614", "-12.50", "one", "2024-02-29"],
                ["3", "18446744073709551612", "-12.50", "changed", "2024-02-29"],
                ["10", "77", "NULL", "user's", "NULL"],
            ];
            assert_eq!(rows, expected.map(|row| row.map(str::to_string).to_vec()));
            let position = client.run("select @@gtid_binlog_pos").expect("shows").scalar();
            assert_eq!(position.as_deref(), Some("5-9-7"));
        }
    }
    fs::remove_dir_all(folder).expect("removed");
}

/// `mariadb-binlog` prints the same for a file of MariaDB after its checksums were removed.
#[test]
fn rewritten_files_of_mariadb_print_the_same() {
    let mut server = start(&[
        "--binlog-format=MIXED",
        "--log-bin-trust-function-creators=1",
        "--binlog-row-metadata=FULL",
    ]);
    script::run(&mut server.client().expect("connects"), &server.dir);
    server.stop().expect("stops");
    let file = log_files(&server, "log.").remove(0);
    let bytes = fs::read(&file).expect("readable");
    let rewrite = |checksum: Checksum| {
        let (mut out, mut writer) = (Vec::new(), None);
        for_each_event(&bytes, |frame, format| match (frame.event(format).expect("an event"), &mut writer) {
            (Event::FormatDescription(description), None) => {
                let description = FormatDescription { checksum: Some(checksum.code()), ..description };
                let head = frame.header;
                writer = FileWriter::begin(&mut out, head.timestamp, head.server_id, &description).ok();
            }
            (event, Some(writer)) => {
                // As in a commit record: without position and checksum.
                let mut finished = Vec::new();
                keel_binlog::append(&mut finished, frame.header, &event, Checksum::None).expect("has a form");
                writer.finished(&mut out, &finished).expect("is placed");
            }
            (event, None) => panic!("{event:?} comes first"),
        });
        let at = IN_USE_OFFSET as usize;
        out[at..at + CLOSED_MARK.len()].copy_from_slice(&CLOSED_MARK);
        out
    };
    assert_eq!(rewrite(Checksum::Crc32), bytes);
    let copy = server.dir.join("copy.000001");
    fs::write(&copy, rewrite(Checksum::None)).expect("written");
    let texts = [&file, &copy].map(|file| {
        let text = printed(file, &["--base64-output=never", "-v"]);
        let lines = text.lines().filter(|line| !line.starts_with("# at ") && !line.contains("end_log_pos"));
        lines.map(str::to_string).collect::<Vec<_>>()
    });
    assert!(texts[0].len() > 300, "{}", texts[0].len());
    let differing = texts[0].iter().zip(&texts[1]).find(|(a, b)| a != b);
    assert!(differing.is_none(), "{differing:?}");
}
