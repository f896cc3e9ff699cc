//! Workloads: sysbench with its own scripts or the lab's, warmed up until the pool is, then measured.
//!
//! sysbench compiles its script anew in each of its threads, so the first seconds of a run measure the client. They are a warm-up of
//! the same process, after which sysbench begins to count anew (`--report-checkpoints`); the server is looked at in that moment and at the end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::child::{contained, end, interrupted};

use crate::cost::{Look, Watcher, hit_rate};
use crate::parse::{Mark, Report};
use crate::server::Server;

/// The database of everything that the lab makes in a server.
pub const DATABASE: &str = "keel_lab";

/// What was interrupted says this.
pub const INTERRUPTED: &str = "interrupted";

/// The lab's own scripts, so that the program is all that is needed.
const SCRIPTS: &[(&str, &str)] = &[
    ("tpcc.lua", include_str!("../tpcc.lua")),
    ("lab_table.lua", include_str!("../scripts/lab_table.lua")),
    ("our_oltp.lua", include_str!("../scripts/our_oltp.lua")),
    ("oltp_new.lua", include_str!("../scripts/oltp_new.lua")),
    ("select.lua", include_str!("../scripts/select.lua")),
    ("update_non_index.lua", include_str!("../scripts/update_non_index.lua")),
];

/// Errors that a client of TPC-C or sysbench takes as part of the game: deadlock, lock wait, changed record, duplicate key.
const IGNORED_ERRORS: &str = "1213,1205,1020,1062";

/// A sysbench workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// A test of sysbench's (`oltp_point_select`) or a script of the lab's (`tpcc.lua`).
    pub script: &'static str,
    /// Its options.
    pub options: Vec<String>,
    /// Clients at once.
    pub clients: u32,
    /// Transactions that become due each second, whether or not earlier ones have ended; clients that are behind take them as soon as they
    /// can, and latencies count from the moment when each was due. Without it each client goes on when it has its answer.
    pub rate: Option<u32>,
}

impl Workload {
    /// A workload.
    pub fn new(script: &'static str, options: &[&str], clients: u32) -> Workload {
        let options = options.iter().map(|option| option.to_string()).collect();
        Workload { script, options, clients, rate: None }
    }

    /// What a reader can repeat it by, without addresses.
    pub fn words(&self) -> String {
        let rate = self.rate.map(|rate| format!(" --rate={rate}")).unwrap_or_default();
        format!("sysbench {} {} --threads={}{rate}", self.script, self.options.join(" "), self.clients)
    }
}

/// Where the client runs and finds its scripts.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The folder of the lab's scripts.
    pub scripts: PathBuf,
    /// The only cores of the client.
    pub cores: Option<String>,
}

/// What a measured run gave.
pub struct Measured {
    /// What sysbench printed.
    pub report: Report,
    /// The server when counting began.
    pub before: Look,
    /// The server at the end.
    pub after: Look,
    /// New orders of TPC-C between them, and the seconds between them.
    pub orders: Option<(f64, f64)>,
}

impl Bench {
    /// Writes the scripts into `folder`.
    pub fn new(folder: &Path, cores: Option<String>) -> Result<Bench, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (name, text) in SCRIPTS {
            fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(Bench { scripts: folder.to_path_buf(), cores })
    }

    fn command(
        &self,
        server: &Server,
        workload: &Workload,
        more: &[String],
        word: &str,
    ) -> Result<Command, String> {
        let mut command = match &self.cores {
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores, "sysbench"]);
                command
            }
            None => Command::new("sysbench"),
        };
        if workload.script.ends_with(".lua") {
            command.arg(self.scripts.join(workload.script));
        } else {
            command.arg(workload.script);
        }
        // The scripts include each other from their folder.
        command.env("LUA_PATH", format!("{}/?.lua;;", self.scripts.display()));
        command
            .args(server.sysbench_options())
            .args(["--db-driver=mysql", &format!("--mysql-db={DATABASE}")]);
        command.args(&workload.options).args(more).arg(word);
        let input = server.sysbench_input().map_err(|error| format!("sysbench's input: {error}"))?;
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        contained(&mut command);
        Ok(command)
    }

    /// Runs `prepare` or `check` to its end; the error is what sysbench said.
    pub fn whole(
        &self,
        server: &mut Server,
        workload: &Workload,
        threads: u32,
        word: &str,
    ) -> Result<(), String> {
        let mut run =
            Running::start(self.command(server, workload, &[format!("--threads={threads}")], word)?)?;
        let mut last = Vec::new();
        while let Some(line) = run.next(server)? {
            last.push(line.unwrap_or_default());
            let surplus = last.len().saturating_sub(8);
            last.drain(..surplus);
        }
        match run.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("{} {word}: {}", workload.script, last.join(" | "))),
        }
    }

    /// Lets the clients work until the share of page requests that need no device stays the same, at most so long.
    pub fn warm_up(
        &self,
        server: &mut Server,
        workload: &Workload,
        max: Duration,
        seed: u64,
    ) -> Result<(), String> {
        if max.is_zero() {
            return Ok(());
        }
        let more = run_options(workload, max.as_secs() as u32, &[], seed);
        let mut run = Running::start(self.command(server, workload, &more, "run")?)?;
        let mut client = server.client()?;
        let mut watcher = Watcher::new(None);
        let mut rates: Vec<f64> = Vec::new();
        let mut before = watcher.look(&mut client);
        let mut at = Instant::now();
        while run.next(server)?.is_some() {
            if at.elapsed() < SAMPLE {
                continue;
            }
            at = Instant::now();
            let now = watcher.look(&mut client);
            rates.extend(hit_rate(&before, &now));
            before = now;
            if is_flat(&rates) {
                break;
            }
        }
        run.child.kill().ok();
        drop(run);
        wait_for_clients(&mut client);
        Ok(())
    }

    /// Runs the workload: some seconds to come up, then those that count. `orders` asks for TPC-C's orders.
    pub fn measure(
        &self,
        server: &mut Server,
        watcher: &mut Watcher,
        workload: &Workload,
        seconds: u32,
        seed: u64,
    ) -> Result<Measured, String> {
        let come_up = come_up(workload.clients);
        let mut more = vec![
            format!("--report-checkpoints={come_up}"),
            "--report-interval=1".into(),
            "--histogram".into(),
        ];
        more.extend(workload.rate.map(|rate| format!("--rate={rate}")));
        let more = run_options(workload, come_up + seconds, &more, seed);
        let mut client = server.client()?;
        let mut run = Running::start(self.command(server, workload, &more, "run")?)?;
        let mut report = Report::default();
        let (mut before, mut after) = (None, None);
        // Many clients take their time to connect and to end.
        let patience = Duration::from_secs(u64::from(come_up + seconds + 120 + workload.clients / 20));
        let deadline = Instant::now() + patience;
        while let Some(line) = run.next(server)? {
            let mark = line.and_then(|line| report.line(&line));
            match mark {
                Some(Mark::Started | Mark::Checkpoint) => {
                    watcher.reset_peak();
                    before = Some((orders(&mut client, workload), Instant::now(), watcher.look(&mut client)));
                }
                Some(Mark::Over) => {
                    let look = watcher.look(&mut client);
                    after = Some((orders(&mut client, workload), Instant::now(), look));
                }
                Some(Mark::Second(_)) => watcher.second(),
                None => {}
            }
            if Instant::now() > deadline {
                run.child.kill().ok();
                return Err(format!("the clients did not end within {} s", patience.as_secs()));
            }
        }
        run.child.wait().ok();
        let (Some(before), Some(after), true) = (before, after, report.is_whole()) else {
            let why = report.complaints.join("; ");
            return Err(if why.is_empty() { "the clients ended without a report".into() } else { why });
        };
        let placed = after.0.zip(before.0).map(|(after, before)| after - before);
        let orders = placed.map(|placed| (placed, (after.1 - before.1).as_secs_f64()));
        Ok(Measured { report, before: before.2, after: after.2, orders })
    }
}

/// Seconds in which so many clients compile their scripts.
pub fn come_up(clients: u32) -> u32 {
    (clients / 25).clamp(1, 10)
}

/// Between two samples of the hit rate.
const SAMPLE: Duration = Duration::from_secs(2);

/// Whether the last three rates are the same but for noise.
fn is_flat(rates: &[f64]) -> bool {
    let Some(last) = rates.last_chunk::<3>() else { return false };
    let (least, most) =
        last.iter().fold((1f64, 0f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    most - least < 0.004
}

fn run_options(workload: &Workload, seconds: u32, more: &[String], seed: u64) -> Vec<String> {
    let mut options = vec![
        format!("--threads={}", workload.clients),
        format!("--time={seconds}"),
        "--events=0".into(),
        format!("--mysql-ignore-errors={IGNORED_ERRORS}"),
        // sysbench takes 31 bits.
        format!("--rand-seed={}", (seed & 0x7fff_ffff).max(1)),
    ];
    options.extend_from_slice(more);
    options
}

/// Orders placed so far, of TPC-C.
fn orders(client: &mut keel_testkit::client::Client, workload: &Workload) -> Option<f64> {
    if workload.script != "tpcc.lua" {
        return None;
    }
    let sum = client.one(&format!("SELECT SUM(d_next_o_id) FROM {DATABASE}.district")).ok()?;
    sum.scalar()?.parse().ok()
}

/// Waits until killed clients are gone from the server, for some seconds at most.
fn wait_for_clients(client: &mut keel_testkit::client::Client) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline && !interrupted() {
        let sql = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";
        let row = client.one(sql).map(|reply| reply.strings()).unwrap_or_default();
        let connected: u32 = row.first().and_then(|row| row.get(1)?.parse().ok()).unwrap_or(0);
        if connected <= 2 {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A sysbench at work; killed when dropped.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Result<Running, String> {
        let mut child = command.spawn().map_err(|error| format!("sysbench cannot be started: {error}"))?;
        let (sender, lines) = sync_channel(4096);
        if let Some(output) = child.stdout.take() {
            read_lines(output, sender.clone());
        }
        if let Some(output) = child.stderr.take() {
            read_lines(output, sender);
        }
        Ok(Running { child, lines })
    }

    /// The next line, or none for a while without one; `None` at the end. An error where the server is gone or somebody asked for the end.
    fn next(&mut self, server: &mut Server) -> Result<Option<Option<String>>, String> {
        if interrupted() {
            return Err(INTERRUPTED.into());
        }
        match self.lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => return Ok(Some(Some(line))),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // A client may wait for ever for a server that is gone.
        if server.has_ended() {
            return Err(format!("the server ended in the run: {}", server.log_tail()));
        }
        Ok(Some(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child, Duration::from_secs(2)).ok();
        self.child.wait().ok();
    }
}

fn read_lines(output: impl Read + Send + 'static, sender: SyncSender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_ends_when_the_rate_stays() {
        assert!(!is_flat(&[0.99, 0.99]));
        assert!(!is_flat(&[0.90, 0.95, 0.97]));
        assert!(is_flat(&[0.5, 0.951, 0.953, 0.952]));
    }

    #[test]
    fn a_workload_can_be_repeated_by_its_words() {
        let workload = Workload::new("oltp_point_select", &["--tables=2"], 16);
        assert_eq!(workload.words(), "sysbench oltp_point_select --tables=2 --threads=16");
        let open = Workload { rate: Some(500), ..workload };
        assert!(open.words().ends_with("--threads=16 --rate=500"));
    }
}
