//! Data sets: loaded once for each engine into a cache, copied for each run, so that all runs of an arm start from equal bytes.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clients::{Bench, DATABASE, Workload};
use crate::engines::{Engine, Kind};
use crate::server::{Server, Setup, install};

/// What a server holds before a run.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// A name of the file system's: `tpcc-6w`.
    pub name: String,
    /// What loads it; none for an empty database.
    pub load: Option<Workload>,
    /// About how many bytes it takes in a server.
    pub bytes: u64,
}

/// Bytes of a warehouse of TPC-C, as MariaDB keeps it.
pub const WAREHOUSE_BYTES: u64 = 100 << 20;
/// Bytes of a row of sysbench's table with its index entries.
pub const ROW_BYTES: u64 = 235;

impl DataSet {
    /// TPC-C.
    pub fn tpcc(warehouses: u32) -> DataSet {
        let load = Workload::new("tpcc.lua", &[&format!("--warehouses={warehouses}")], 2);
        DataSet {
            name: format!("tpcc-{warehouses}w"),
            load: Some(load),
            bytes: u64::from(warehouses) * WAREHOUSE_BYTES,
        }
    }

    /// Tables of sysbench 0.5's shape.
    pub fn tables(tables: u32, rows: u32) -> DataSet {
        let options = [format!("--tables={tables}"), format!("--table_size={rows}")];
        let load = Workload::new("select.lua", &[&options[0], &options[1]], tables.min(2));
        DataSet {
            name: format!("rows-{tables}x{rows}"),
            load: Some(load),
            bytes: u64::from(tables) * u64::from(rows) * ROW_BYTES,
        }
    }
}

/// The cache, and what has been loaded elsewhere.
pub struct Store<'a> {
    cache: PathBuf,
    bench: &'a Bench,
    /// Of servers at an address: the data set that each holds.
    remote: HashMap<String, String>,
}

/// Beside a loaded folder: it is whole.
const WHOLE: &str = "whole";

impl<'a> Store<'a> {
    /// A cache in `folder`.
    pub fn new(folder: &Path, bench: &'a Bench) -> Store<'a> {
        Store { cache: folder.to_path_buf(), bench, remote: HashMap::new() }
    }

    fn folder(&self, engine: &Engine, set: &DataSet) -> PathBuf {
        // Data of MariaDB from before the servers' character sets were named is in latin1.
        let version = format!("{} {}", engine.version, crate::server::CHARSET);
        let build = format!("{}-{:08x}", engine.name, hash(&version) as u32);
        self.cache.join(build).join(&set.name)
    }

    /// Whether the set is there for this engine; one at an address is always loaded anew.
    pub fn has(&self, engine: &Engine, set: &DataSet) -> bool {
        self.folder(engine, set).join(WHOLE).exists()
    }

    /// The folder that holds the set for this engine, loaded now if it is not there yet; `say` is told of that.
    pub fn loaded(&self, engine: &Engine, set: &DataSet, say: &dyn Fn(&str)) -> Result<PathBuf, String> {
        let folder = self.folder(engine, set);
        if folder.join(WHOLE).exists() {
            return Ok(folder);
        }
        fs::remove_dir_all(&folder).ok();
        // The load itself needs room for its redo log.
        need_space(&self.cache, set.bytes * 2 + (1 << 30))?;
        say(&format!("{}: loading {}", engine.name, set.name));
        let loaded = self.load(engine, set, &folder);
        if loaded.is_err() {
            fs::remove_dir_all(&folder).ok();
        }
        loaded.map(|()| folder)
    }

    fn load(&self, engine: &Engine, set: &DataSet, folder: &Path) -> Result<(), String> {
        install(engine, folder)?;
        let mut server = Server::start(
            engine,
            folder,
            &Setup { overrides: load_settings(engine.kind), ..Setup::default() },
        )?;
        run_sql(&server, &format!("CREATE DATABASE {DATABASE}"))?;
        if let Some(load) = &set.load {
            self.bench.whole(&mut server, load, load.clients, "prepare")?;
        }
        server.stop()?;
        File::create(folder.join(WHOLE)).and_then(|file| file.sync_all()).map_err(|error| error.to_string())
    }

    /// Makes `folder` a fresh copy of the set.
    pub fn copy(&self, from: &Path, to: &Path, set: &DataSet) -> Result<(), String> {
        fs::remove_dir_all(to).ok();
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        need_space(parent, set.bytes * 3 / 2)?;
        let copied = Command::new("cp").args(["-r", "--reflink=auto"]).arg(from).arg(to).output();
        let copied = copied.map_err(|error| format!("cp: {error}"))?;
        if !copied.status.success() {
            let why = String::from_utf8_lossy(&copied.stderr).trim().to_string();
            fs::remove_dir_all(to).ok();
            return Err(format!("the data cannot be copied: {why}"));
        }
        // What is still to be written would be written in the measured time.
        Command::new("sync").arg("-f").arg(to).status().map_err(|error| format!("sync: {error}"))?;
        forget_cached(to)
    }

    /// Loads the set into a server at an address, into a database of the lab's own that must not be there before.
    pub fn load_remote(&mut self, server: &mut Server, set: &DataSet) -> Result<(), String> {
        let name = server.engine.name.clone();
        if self.remote.get(&name) == Some(&set.name) {
            return Ok(());
        }
        if self.remote.contains_key(&name) {
            run_sql(server, &format!("DROP DATABASE {DATABASE}"))?;
            self.remote.remove(&name);
        }
        run_sql(server, &format!("CREATE DATABASE {DATABASE}")).map_err(|error| {
            format!("{error}; a database {DATABASE} that is left from before must be dropped by hand")
        })?;
        self.remote.insert(name, set.name.clone());
        match &set.load {
            Some(load) => self.bench.whole(server, load, load.clients, "prepare"),
            None => Ok(()),
        }
    }

    /// Takes the lab's database away from a server at an address.
    pub fn clear_remote(&mut self, server: &Server) {
        if self.remote.remove(&server.engine.name).is_some() {
            run_sql(server, &format!("DROP DATABASE IF EXISTS {DATABASE}")).ok();
        }
    }
}

/// Fast loading: nothing is durable before the clean end. A small redo log is less to copy.
fn load_settings(kind: Kind) -> Vec<String> {
    let redo =
        if kind == Kind::MySql { "innodb_redo_log_capacity=256M" } else { "innodb_log_file_size=256M" };
    let mut settings = vec!["innodb_flush_log_at_trx_commit=0".to_string(), redo.to_string()];
    if kind != Kind::Keel {
        let more = ["innodb_buffer_pool_size=1G", "innodb_buffer_pool_dump_at_shutdown=0", "skip_log_bin"];
        settings.extend(more.map(str::to_string));
    }
    settings
}

/// Runs a statement; the error is the server's.
pub fn run_sql(server: &Server, sql: &str) -> Result<(), String> {
    server.client()?.run(sql).map(drop).map_err(|error| format!("{sql}: {error}"))
}

/// An error where the file system of the folder has less room.
fn need_space(folder: &Path, bytes: u64) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output();
    let output = output.map_err(|error| format!("df: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().nth(1).and_then(|line| line.trim().parse::<u64>().ok()) {
        Some(free) if free < bytes => Err(format!(
            "the disk of {} has {} MiB free, {} are needed",
            folder.display(),
            free >> 20,
            bytes >> 20
        )),
        _ => Ok(()),
    }
}

/// FNV-1a, 64 bits: tells settings and versions apart, hides nothing.
pub fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Drops what the kernel caches of the files below `folder`: a server that reads through the page cache would begin with all
/// its data in memory, and in memory that its own bound does not count.
fn forget_cached(folder: &Path) -> Result<(), String> {
    let tell = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(tell)? {
        let entry = entry.map_err(tell)?;
        let kind = entry.file_type().map_err(tell)?;
        if kind.is_dir() {
            forget_cached(&entry.path())?;
        } else if kind.is_file() {
            let mut from = std::ffi::OsString::from("if=");
            from.push(entry.path());
            let dropped =
                Command::new("dd").arg(from).args(["iflag=nocache", "count=0", "status=none"]).status();
            dropped.map_err(|error| format!("dd: {error}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_small_a_disk_is_said() {
        let error = need_space(&std::env::temp_dir(), u64::MAX).unwrap_err();
        assert!(error.contains("are needed"), "{error}");
        assert_eq!(need_space(&std::env::temp_dir(), 1), Ok(()));
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
