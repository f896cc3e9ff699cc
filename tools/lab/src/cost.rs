//! What a server takes of the machine, between two looks at it.
//!
//! From `/proc`: processor time, bytes moved to and from the device, context switches of all its threads, threads, peak of memory. From its
//! status: page requests and how many of them needed the device (`Innodb_buffer_pool_read_requests`, `Innodb_buffer_pool_reads`), and
//! syncs: `Innodb_data_fsyncs`, in Keel syncs of files and writes of the log, each of which is durable when it returns. MariaDB and
//! MySQL do not count the syncs of their binary log there: one for each group is added where `sync_binlog` is 1.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Duration;

use keel_testkit::child::cpu_time;
use keel_testkit::client::Client;

use crate::record::Cost;

/// A look at a server.
#[derive(Debug, Clone, Default)]
pub struct Look {
    cpu: Option<Duration>,
    read: Option<u64>,
    written: Option<u64>,
    switches: Option<u64>,
    syncs: Option<f64>,
    requests: Option<f64>,
    reads: Option<f64>,
}

/// Watches a process; threads that end between two looks are counted up to the last look.
#[derive(Debug, Default)]
pub struct Watcher {
    pid: Option<u32>,
    switches: HashMap<u32, u64>,
    gone: u64,
    seconds: usize,
}

impl Watcher {
    /// Of a process, or of nothing where the server runs elsewhere.
    pub fn new(pid: Option<u32>) -> Watcher {
        Watcher { pid, ..Watcher::default() }
    }

    /// A second is over. Threads are looked at so that little is missed of those that end; of very many not each second, or the watcher
    /// would take a share of the machine.
    pub fn second(&mut self) {
        self.seconds += 1;
        if self.seconds.is_multiple_of(1 + self.switches.len() / 200) {
            self.tick();
        }
    }

    /// Counts the context switches of all threads anew.
    fn tick(&mut self) {
        let Some(pid) = self.pid else { return };
        let mut now = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let text = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            let lines = text.lines().filter_map(|line| line.split_once("_ctxt_switches:"));
            now.insert(thread, lines.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum());
        }
        let ended = self.switches.iter().filter(|&(thread, _)| !now.contains_key(thread));
        self.gone += ended.map(|(_, count)| count).sum::<u64>();
        self.switches = now;
    }

    /// Makes the peak of memory begin anew.
    pub fn reset_peak(&self) {
        if let Some(pid) = self.pid {
            // 5 resets the peak of resident memory (proc(5)).
            fs::write(format!("/proc/{pid}/clear_refs"), "5").ok();
        }
    }

    /// All counters as they are now.
    pub fn look(&mut self, client: &mut Client) -> Look {
        self.tick();
        let status = status(client);
        let counter = |name: &str| status.get(name).and_then(|value| value.parse::<f64>().ok());
        let field = |name: &str| self.pid.and_then(|pid| proc_field(&format!("/proc/{pid}/io"), name));
        Look {
            cpu: self.pid.and_then(cpu_time),
            read: field("read_bytes"),
            written: field("write_bytes"),
            switches: self.pid.map(|_| self.gone + self.switches.values().sum::<u64>()),
            syncs: counter("innodb_data_fsyncs").map(|syncs| syncs + binlog_syncs(client, &status)),
            requests: counter("innodb_buffer_pool_read_requests"),
            reads: counter("innodb_buffer_pool_reads"),
        }
    }

    /// What was taken between two looks, for so many transactions and queries.
    pub fn cost(&self, before: &Look, after: &Look, transactions: f64, queries: f64) -> Cost {
        let each = |difference: Option<f64>, of: f64| {
            difference.filter(|_| of > 0.0).map(|value| value.max(0.0) / of)
        };
        let counted = |a: Option<u64>, b: Option<u64>| Some(b?.saturating_sub(a?) as f64);
        let cpu = before.cpu.zip(after.cpu).map(|(a, b)| b.saturating_sub(a).as_secs_f64() * 1e6);
        let field = |name: &str| self.pid.and_then(|pid| proc_field(&format!("/proc/{pid}/status"), name));
        Cost {
            cpu_us_per_query: each(cpu, queries),
            switches_per_transaction: each(counted(before.switches, after.switches), transactions),
            syncs_per_transaction: each(before.syncs.zip(after.syncs).map(|(a, b)| b - a), transactions),
            bytes_written_per_transaction: each(counted(before.written, after.written), transactions),
            bytes_read_per_transaction: each(counted(before.read, after.read), transactions),
            hit_rate: hit_rate(before, after),
            threads: field("Threads"),
            resident_bytes: field("VmHWM").map(|kib| kib << 10),
        }
    }
}

/// Share of page requests between two looks that needed no device.
pub fn hit_rate(before: &Look, after: &Look) -> Option<f64> {
    let requests = after.requests? - before.requests?;
    let reads = after.reads? - before.reads?;
    (requests > 0.0).then(|| (1.0 - reads / requests).clamp(0.0, 1.0))
}

/// A number behind `name:` in a file of `/proc`.
fn proc_field(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// All status counters, names in small letters.
pub fn status(client: &mut Client) -> BTreeMap<String, String> {
    pairs(client, "SHOW GLOBAL STATUS")
        .into_iter()
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect()
}

/// The rows of a statement whose rows are a name and a value.
pub fn pairs(client: &mut Client, sql: &str) -> BTreeMap<String, String> {
    let rows = client.one(sql).map(|reply| reply.strings()).unwrap_or_default();
    rows.into_iter().filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone()))).collect()
}

/// Syncs of the binary log so far, where each group of commits has one.
fn binlog_syncs(client: &mut Client, status: &BTreeMap<String, String>) -> f64 {
    let Some(groups) = status.get("binlog_group_commits").and_then(|value| value.parse().ok()) else {
        return 0.0;
    };
    let synced = client.one("SELECT @@log_bin AND @@sync_binlog = 1").ok().and_then(|reply| reply.scalar());
    if synced.as_deref() == Some("1") { groups } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched() {
        let mut watcher = Watcher::new(Some(std::process::id()));
        watcher.tick();
        assert!(!watcher.switches.is_empty());
        let cost = watcher.cost(&Look::default(), &Look::default(), 1.0, 1.0);
        assert!(cost.threads.is_some_and(|threads| threads > 0));
        assert!(cost.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(cost.cpu_us_per_query, None);
    }

    #[test]
    fn what_a_ratio_needs_must_be_there() {
        let look = |requests: f64, reads: f64| Look {
            requests: Some(requests),
            reads: Some(reads),
            ..Look::default()
        };
        assert_eq!(hit_rate(&look(100.0, 10.0), &look(200.0, 35.0)), Some(0.75));
        assert_eq!(hit_rate(&look(100.0, 10.0), &look(100.0, 10.0)), None);
        assert_eq!(hit_rate(&Look::default(), &look(100.0, 10.0)), None);
    }
}
