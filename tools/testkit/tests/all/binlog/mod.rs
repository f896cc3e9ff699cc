//! The crate `binlog` compared with MariaDB: log files of a real server under all settings that change their
//! bytes, row values compared with SELECT, files of this crate read by `mariadb-binlog`, and GTID texts.

mod files;
mod gtid;
mod relay;
mod script;
mod values;
mod written;

use std::fs;
use std::path::PathBuf;

use keel_binlog::{FileReader, Format, Frame};
use keel_testkit::process::{Engine, Server};

/// Limit for the length of events.
const EVENT_MAX: u32 = 64 << 20;

/// Starts a MariaDB with a binary log `log.*` in its data folder.
fn start(options: &[&str]) -> Server {
    let base = [
        "--log-bin=log",
        "--server-id=7",
        "--innodb-buffer-pool-size=16M",
        "--innodb-flush-log-at-trx-commit=0",
        "--local-infile=1",
    ];
    let options: Vec<&str> = base.iter().chain(options).copied().collect();
    Server::start(Engine::MariaDb, &options).expect("mariadb starts")
}

/// The log files of a server in order: `name` followed by a number.
fn log_files(server: &Server, name: &str) -> Vec<PathBuf> {
    let is_log = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        file.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    let entries = fs::read_dir(server.dir.join("data")).expect("a data folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).filter(is_log).collect();
    files.sort();
    files
}

/// Calls `each` with each event of a file and the format at that point.
fn for_each_event(bytes: &[u8], mut each: impl FnMut(&Frame<'_>, &Format)) {
    let mut reader = FileReader::new(EVENT_MAX);
    for piece in bytes.chunks(4093) {
        reader.push(piece);
        loop {
            let format = reader.format().cloned();
            let Some(frame) = reader.next_frame().expect("a sound file") else { break };
            let format = match format {
                Some(format) if frame.header.kind != keel_binlog::kind::FORMAT_DESCRIPTION => format,
                _ => Format::current(keel_binlog::Checksum::None),
            };
            each(&frame, &format);
        }
    }
    reader.finish().expect("a whole file");
    assert_eq!(reader.position(), bytes.len() as u64);
}
