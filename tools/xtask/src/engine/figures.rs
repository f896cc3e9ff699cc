//! What the parts measure with: sysbench second by second, the bytes a process moves, tables of Markdown.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use keel_testkit::process::Server;

/// Median, of an even number the mean of the two in the middle; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    match (values.len() / 2, values.len() % 2) {
        (0, 0) => 0.0,
        (middle, 0) => (values[middle - 1] + values[middle]) / 2.0,
        (middle, _) => values[middle],
    }
}

/// A table of Markdown.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        out += &format!("| {} |\n", row.join(" | "));
    }
    out
}

/// Bytes that a process moved from and to the device so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Moved {
    /// What the server moved since its start.
    pub fn of(server: &Server) -> Moved {
        let pid = server.pid().unwrap_or_default();
        let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let field = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
        };
        Moved { read: field("read_bytes:"), written: field("write_bytes:") }
    }

    /// What was moved since `before`.
    pub fn since(self, before: Moved) -> Moved {
        Moved { read: self.read - before.read, written: self.written - before.written }
    }
}

/// Waits until a server has done what its last clients left it to do: it purges and cleans pages, which the other would be
/// measured beside. One that goes on for half a minute is not waited for.
pub fn settle(server: &Server) {
    const LOOK: Duration = Duration::from_millis(500);
    let pid = server.pid().unwrap_or_default();
    let ticks = || -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    };
    for _ in 0..60 {
        let (moved, worked) = (Moved::of(server), ticks());
        thread::sleep(LOOK);
        // A tenth of a processor; a tick is a hundredth of a second.
        if Moved::of(server).since(moved).written < 1 << 20 && ticks() - worked < 5 {
            return;
        }
    }
}

/// A run of sysbench.
#[derive(Debug, Clone)]
pub struct Sysbench {
    /// The test's name, such as `oltp_write_only`.
    pub test: &'static str,
    /// Tables.
    pub tables: u32,
    /// Rows of each.
    pub rows: u32,
    /// Clients.
    pub clients: u32,
    /// Seconds.
    pub seconds: u32,
    /// Further options.
    pub more: Vec<String>,
}

/// What a run gave.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// Transactions in all.
    pub transactions: f64,
    /// Transactions per second.
    pub per_second: f64,
    /// 99th percentile of a transaction's time.
    pub p99_ms: f64,
    /// Transactions of each second.
    pub seconds: Vec<f64>,
}

impl Sysbench {
    fn command(&self, server: &Server, word: &str) -> Command {
        let mut command = Command::new("sysbench");
        command
            .arg(self.test)
            .arg(format!("--mysql-socket={}", server.socket().display()))
            .args(["--mysql-db=sbtest", "--mysql-user=root", "--db-driver=mysql", "--percentile=99"])
            .args(["--mysql-ignore-errors=1213,1020,1205,1062", "--max-requests=0", "--report-interval=1"])
            .arg(format!("--tables={}", self.tables))
            .arg(format!("--table-size={}", self.rows))
            .arg(format!("--time={}", self.seconds))
            .arg(format!("--threads={}", self.clients))
            .args(&self.more)
            .arg(word);
        command
    }

    /// Makes the database and its tables.
    pub fn prepare(&self, server: &Server) -> Result<(), String> {
        let mut client = server.client().map_err(|error| error.to_string())?;
        client.run("CREATE DATABASE sbtest").map_err(|error| error.to_string())?;
        let two = Sysbench { clients: self.tables.min(2), ..self.clone() };
        output(two.command(server, "prepare"), server).map(drop)
    }

    /// Runs the test.
    pub fn run(&self, server: &Server) -> Result<Ran, String> {
        let text = output(self.command(server, "run"), server)?;
        let words = |label: &str| -> Vec<f64> {
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label));
            let words = line.unwrap_or_default().split_whitespace();
            words.filter_map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()).collect()
        };
        let transactions = words("transactions:");
        Ok(Ran {
            transactions: transactions.first().copied().unwrap_or(0.0),
            per_second: transactions.get(1).copied().unwrap_or(0.0),
            p99_ms: words("99th percentile:").first().copied().unwrap_or(0.0),
            seconds: text.lines().filter_map(second).collect(),
        })
    }
}

/// The throughput of one of the lines that sysbench writes each second.
fn second(line: &str) -> Option<f64> {
    let rest = line.split_once(" tps: ")?.1;
    rest.split_whitespace().next()?.parse().ok()
}

/// The processors' time since the machine started, in ticks (proc_stat(5), the line `cpu`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Ticks {
    all: u64,
    /// What the host of a virtual machine gave to others while this one had work.
    stolen: u64,
}

impl Ticks {
    /// As it stands.
    pub fn now() -> Ticks {
        Ticks::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn read(text: &str) -> Ticks {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests' time, which follows, is counted in user.
        let each: Vec<u64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        Ticks { all: each.iter().sum(), stolen: each.get(7).copied().unwrap_or(0) }
    }

    /// The share stolen of what went by since.
    pub fn stolen_since(&self, earlier: &Ticks) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        self.stolen.saturating_sub(earlier.stolen) as f64 / all.max(1) as f64
    }
}

/// Runs a client; on failure the ends of its output and of the server's log.
pub fn output(mut command: Command, server: &Server) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(12)..];
    Err(format!("{}:\n{}\n{}", server.engine.name(), tail.join("\n"), server.log_tail()))
}

/// A status variable of the server as a number.
pub fn status(server: &Server, name: &str) -> Result<f64, String> {
    let mut client = server.client().map_err(|error| error.to_string())?;
    let sql =
        format!("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '{name}'");
    let value = client.one(&sql).map_err(|error| error.to_string())?.scalar();
    value.and_then(|text| text.parse().ok()).ok_or_else(|| format!("no status variable {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throughput_of_a_second_is_read() {
        let line = "[ 3s ] thds: 64 tps: 1234.56 qps: 1234.56 (r/w/o: 0/1234.56/0.00) lat (ms,99%): 9.9";
        assert_eq!(second(line), Some(1234.56));
        assert_eq!(second("transactions: 5"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let earlier = Ticks::read("cpu  100 0 50 850 0 0 0 10 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        let later = Ticks::read("cpu  150 0 80 860 0 0 0 20 9 0\n");
        assert_eq!(later.stolen_since(&earlier), 0.1);
        assert_eq!(Ticks::read("").stolen_since(&earlier), 0.0);
    }

    #[test]
    fn a_table_is_markdown() {
        assert_eq!(table(&["a", "b"], &[vec!["1".into(), "2".into()]]), "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
