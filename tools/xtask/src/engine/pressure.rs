//! Data ten times the buffer pool under 64 clients: how full the device's queue is, the speed against MariaDB with the same
//! pool, the bytes written for each transaction, and how steady a write-heavy run is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::process::{Engine, Server};

use super::Options;
use super::figures::{Moved, Ran, Sysbench, Ticks, median, output, settle, status, table};

const CLIENTS: u32 = 64;
const TABLES: u32 = 4;
/// Redo capacities of the steady runs, in MiB, and the share of [`Sizes::steady`] that each takes: the least has least slack.
const REDO_MIB: [(u32, u32); 3] = [(64, 1), (256, 3), (1024, 3)];

/// The share of the processors' time that the host may take from a second that still counts as the server's own.
const STOLEN_MAX: f64 = 0.05;

/// Reads of ten rows by one statement.
const RANDOM_ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/random_rows.lua");

/// A row read and a row changed in turn, each committed by itself: options of `oltp_read_write` that leave just these.
const READ_AND_UPDATE: &[&str] = &[
    "--skip-trx=on",
    "--point-selects=1",
    "--range-selects=off",
    "--index-updates=0",
    "--non-index-updates=1",
    "--delete-inserts=0",
];

/// What both servers run: the name in the table, sysbench's test and its options.
const COMPARED: [(&str, &str, &[&str]); 6] = [
    ("oltp_point_select", "oltp_point_select", &[]),
    ("one read, one update", "oltp_read_write", READ_AND_UPDATE),
    ("oltp_update_non_index", "oltp_update_non_index", &[]),
    ("oltp_update_index", "oltp_update_index", &[]),
    ("oltp_write_only", "oltp_write_only", &[]),
    ("oltp_read_write", "oltp_read_write", &[]),
];

/// Sizes of a run.
struct Sizes {
    /// Rows of each table.
    rows: u32,
    pool_mib: u32,
    /// Seconds of one measurement, and of what goes before it: a pool that was cleaned meanwhile takes writes for a while, and
    /// a server that purges later has not begun to.
    seconds: u32,
    warm: u32,
    /// Measurements of each test and server.
    pairs: usize,
    /// Seconds of a steady run.
    steady: u32,
}

impl Sizes {
    fn of(options: &Options) -> Sizes {
        match options.quick {
            true => Sizes { rows: 100_000, pool_mib: 10, seconds: 4, warm: 1, pairs: 1, steady: 21 },
            false => Sizes { rows: 1_000_000, pool_mib: 96, seconds: 30, warm: 15, pairs: 2, steady: 600 },
        }
    }

    fn sysbench(&self, test: &'static str) -> Sysbench {
        Sysbench {
            test,
            tables: TABLES,
            rows: self.rows,
            clients: CLIENTS,
            seconds: self.seconds,
            more: if test == RANDOM_ROWS { Vec::new() } else { vec!["--rand-type=uniform".into()] },
        }
    }
}

/// Compares both servers, and Keel's reads with what the device gives.
pub fn run(options: &Options) -> Result<String, String> {
    let sizes = Sizes::of(options);
    let keel = loaded(Engine::Keel, &sizes)?;
    let maria = loaded(Engine::MariaDb, &sizes)?;
    let mut out = format!(
        "## Larger than memory\n\n{TABLES} tables of {} rows, a pool of {} MiB, {CLIENTS} clients, keys chosen evenly; Keel : \
         MariaDB with the same pool, 1 GiB of redo, both durable and around the page cache; {} seconds after {} of the same, medians \
         of {}.\n\n",
        sizes.rows, sizes.pool_mib, sizes.seconds, sizes.warm, sizes.pairs
    );
    out += &compare(&keel, &maria, &sizes)?;
    out += &device(&keel, &sizes)?;
    Ok(out)
}

/// A server with the tables, started again with the small pool.
fn loaded(engine: Engine, sizes: &Sizes) -> Result<Server, String> {
    let large = settings(engine, 1024, 1024);
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    let server = Server::start(engine, &large).map_err(|error| format!("{}: {error}", engine.name()))?;
    sizes.sysbench("oltp_read_write").prepare(&server)?;
    let mut server = server;
    restart(&mut server, sizes.pool_mib, 1024)?;
    Ok(server)
}

fn restart(server: &mut Server, pool_mib: u32, redo_mib: u32) -> Result<(), String> {
    server.stop().map_err(|error| error.to_string())?;
    let settings = settings(server.engine, pool_mib, redo_mib);
    server.set_options(&settings.iter().map(String::as_str).collect::<Vec<_>>());
    server.launch().map_err(|error| error.to_string())
}

fn settings(engine: Engine, pool_mib: u32, redo_mib: u32) -> Vec<String> {
    let mut all =
        vec![format!("--innodb-buffer-pool-size={pool_mib}M"), format!("--innodb-log-file-size={redo_mib}M")];
    if engine == Engine::MariaDb {
        let expert = [
            "--innodb-flush-method=O_DIRECT",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-log-buffer-size=64M",
            "--innodb-io-capacity=10000",
            "--innodb-io-capacity-max=20000",
            "--innodb-flush-neighbors=0",
            "--innodb-buffer-pool-load-at-startup=0",
            "--innodb-buffer-pool-dump-at-shutdown=0",
            "--query-cache-type=0",
            "--skip-log-bin",
        ];
        all.extend(expert.map(str::to_string));
    }
    all
}

/// What one run of a test moved.
struct Measured {
    ran: Ran,
    moved: Moved,
}

fn measure(server: &Server, run: &Sysbench, sizes: &Sizes) -> Result<Measured, String> {
    Sysbench { seconds: sizes.warm, ..run.clone() }.run(server)?;
    let before = Moved::of(server);
    let ran = run.run(server)?;
    let moved = Moved::of(server).since(before);
    settle(server);
    Ok(Measured { ran, moved })
}

/// The tests on both, in turns.
fn compare(keel: &Server, maria: &Server, sizes: &Sizes) -> Result<String, String> {
    let mut rows = Vec::new();
    for (name, test, options) in COMPARED {
        let mut run = sizes.sysbench(test);
        run.more.extend(options.iter().map(|option| option.to_string()));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for pair in 0..sizes.pairs {
            let order = if pair % 2 == 0 { [keel, maria] } else { [maria, keel] };
            for server in order {
                let measured = measure(server, &run, sizes)?;
                if server.engine == Engine::Keel { ours.push(measured) } else { theirs.push(measured) }
            }
        }
        rows.push(compared(name, &ours, &theirs));
    }
    let head = ["test", "transactions/s", "ratio", "p99 ms", "KiB read each", "KiB written each", "ratio"];
    Ok(table(&head, &rows))
}

fn compared(name: &str, ours: &[Measured], theirs: &[Measured]) -> Vec<String> {
    let pair = |f: fn(&Measured) -> f64| {
        let of = |all: &[Measured]| median(&all.iter().map(f).collect::<Vec<_>>());
        (of(ours), of(theirs))
    };
    let (speed, their_speed) = pair(|m| m.ran.per_second);
    let (p99, their_p99) = pair(|m| m.ran.p99_ms);
    let (read, their_read) = pair(|m| m.moved.read as f64 / 1024.0 / m.ran.transactions.max(1.0));
    let (written, their_written) = pair(|m| m.moved.written as f64 / 1024.0 / m.ran.transactions.max(1.0));
    // Reading alone writes next to nothing: a ratio of that says nothing.
    let share = if their_written < 1.0 { "".into() } else { format!("**{:.2}**", written / their_written) };
    vec![
        name.into(),
        format!("{speed:.0} : {their_speed:.0}"),
        format!("**{:.2}**", speed / their_speed.max(1e-9)),
        format!("{p99:.1} : {their_p99:.1}"),
        format!("{read:.1} : {their_read:.1}"),
        format!("{written:.1} : {their_written:.1}"),
        share,
    ]
}

/// What Keel reads at random, against fio on the files of the tables' rows, from which these reads come.
fn device(keel: &Server, sizes: &Sizes) -> Result<String, String> {
    let files = largest(&keel.dir.join("data/trees"), TABLES as usize)?;
    let rows = [("one row", "oltp_point_select"), ("ten rows", RANDOM_ROWS)]
        .into_iter()
        .map(|(what, test)| Ok([vec![what.into()], beside_fio(keel, sizes, test, &files)?].concat()))
        .collect::<Result<Vec<_>, String>>()?;
    Ok(format!(
        "\nPages that {CLIENTS} clients read per second, by statements that ask for one row or for ten, and what `fio` reads at depth \
         32 from the same files before and after each run; medians of {} runs.\n\n{}",
        3 * sizes.pairs,
        table(&["each statement", "keel", "fio", "share", "from ... to"], &rows)
    ))
}

/// A test's reads per second, fio's, and the share. A device that others share gives twice as much in one minute as in the next:
/// each run is judged by fio right before and right after it.
fn beside_fio(
    keel: &Server,
    sizes: &Sizes,
    test: &'static str,
    files: &[PathBuf],
) -> Result<Vec<String>, String> {
    let seconds = sizes.seconds.div_ceil(6);
    let run = Sysbench { seconds: 2 * seconds, ..sizes.sysbench(test) };
    let mut fio = vec![fio_reads(files, seconds, keel)?];
    let (mut ours, mut shares) = (Vec::new(), Vec::new());
    for round in 0..3 * sizes.pairs {
        let before = status(keel, "Innodb_buffer_pool_reads")?;
        run.run(keel)?;
        ours.push((status(keel, "Innodb_buffer_pool_reads")? - before) / f64::from(run.seconds));
        fio.push(fio_reads(files, seconds, keel)?);
        let beside = (fio[round] + fio[round + 1]) / 2.0;
        shares.push(100.0 * ours[round] / beside.max(1.0));
    }
    let (least, most) = shares.iter().fold((f64::MAX, 0.0_f64), |(l, m), s| (l.min(*s), m.max(*s)));
    Ok(vec![
        format!("{:.0}", median(&ours)),
        format!("{:.0}", median(&fio)),
        format!("**{:.0} %**", median(&shares)),
        format!("{least:.0} ... {most:.0} %"),
    ])
}

/// The largest files of a folder.
fn largest(trees: &Path, count: usize) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(trees).map_err(|error| error.to_string())?;
    let mut files: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| Some((entry.as_ref().ok()?.metadata().ok()?.len(), entry.ok()?.path())))
        .collect();
    files.sort();
    Ok(files.into_iter().rev().take(count).map(|(_, path)| path).collect())
}

/// Random reads of pages per second.
fn fio_reads(files: &[PathBuf], seconds: u32, server: &Server) -> Result<f64, String> {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let mut command = Command::new("fio");
    command
        .args([
            "--name=reads",
            "--readonly",
            "--rw=randread",
            "--bs=16k",
            "--iodepth=32",
            "--ioengine=io_uring",
        ])
        .args(["--direct=1", "--time_based", "--output-format=terse"])
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--filename={}", files.join(":")));
    let text = output(command, server)?;
    // Field 8 of fio's terse format: read IOPS.
    text.split(';').nth(7).and_then(|field| field.parse().ok()).ok_or_else(|| "fio gave no figure".into())
}

/// A long write-heavy run for each capacity of the redo log, second by second.
pub fn steady(options: &Options) -> Result<String, String> {
    let sizes = Sizes::of(options);
    let mut keel = loaded(Engine::Keel, &sizes)?;
    let mut rows = Vec::new();
    for (redo_mib, part) in REDO_MIB {
        restart(&mut keel, sizes.pool_mib, redo_mib)?;
        let seconds = sizes.steady / part;
        let run = Sysbench { seconds, ..sizes.sysbench("oltp_write_only") };
        let waits = status(&keel, "Innodb_log_waits")?;
        let (ran, watched) = watched(&keel, || run.run(&keel))?;
        let waits = status(&keel, "Innodb_log_waits")? - waits;
        // The first seconds fill the pool.
        let ramp = (seconds / 20).clamp(2, 10) as usize;
        // Each second's throughput, and the share of the processors that the host took.
        let each: Vec<(f64, f64)> = ran
            .seconds
            .iter()
            .enumerate()
            .skip(ramp)
            .map(|(at, speed)| (*speed, watched.stolen_beside(at)))
            .collect();
        let mean = each.iter().map(|(speed, _)| speed).sum::<f64>() / each.len().max(1) as f64;
        let slowest = |stolen_max: f64| {
            let few = each.iter().filter(|(_, stolen)| *stolen <= stolen_max);
            few.copied().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::NAN, f64::NAN))
        };
        let (least, stolen) = slowest(f64::INFINITY);
        let (least_alone, _) = slowest(STOLEN_MAX);
        let robbed = each.iter().filter(|(_, stolen)| *stolen > STOLEN_MAX).count();
        rows.push(vec![
            format!("{redo_mib} MiB"),
            seconds.to_string(),
            format!("{mean:.0}"),
            format!("{:.2}", least / mean.max(1e-9)),
            format!("{:.0} %", 100.0 * stolen),
            robbed.to_string(),
            format!("**{:.2}**", least_alone / mean.max(1e-9)),
            format!("{:.0} %", 100.0 * watched.age),
            format!("{waits:.0}"),
        ]);
    }
    let head = [
        "redo",
        "seconds",
        "transactions/s",
        "slowest second, of the mean",
        "stolen in it",
        "seconds with theft",
        "slowest of the others, of the mean",
        "greatest age",
        "waits for log space",
    ];
    Ok(format!(
        "## A steady pace\n\n`oltp_write_only` on the same tables with a pool of {} MiB and {CLIENTS} clients, second by second, \
         Keel alone. Stolen is the share of the processors' time that the host of this virtual machine gave to others; a second \
         with theft is one in or beside which it is above {:.0} %.\n\n{}",
        sizes.pool_mib,
        100.0 * STOLEN_MAX,
        table(&head, &rows)
    ))
}

/// What a watcher saw beside a run.
struct Watched {
    /// The greatest share of the redo capacity that the checkpoint's age took.
    age: f64,
    /// The share of the processors' time that the host gave to others, for each second of the run.
    stolen: Vec<f64>,
}

impl Watched {
    /// The greatest share stolen while second `at` of the client may have run: its seconds begin within the watcher's.
    fn stolen_beside(&self, at: usize) -> f64 {
        self.stolen.iter().skip(at).take(2).copied().fold(0.0, f64::max)
    }
}

/// Runs `f` and watches the server and the machine meanwhile.
fn watched<T>(server: &Server, f: impl FnOnce() -> Result<T, String>) -> Result<(T, Watched), String> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| -> Result<Watched, String> {
            let mut watched = Watched { age: 0.0, stolen: Vec::new() };
            let (mut second, mut ticks) = (Instant::now(), Ticks::now());
            while !done.load(Ordering::Relaxed) {
                let age = status(server, "Innodb_checkpoint_age")?;
                watched.age = watched.age.max(age / status(server, "Innodb_checkpoint_max_age")?.max(1.0));
                if second.elapsed() >= Duration::from_secs(1) {
                    let now = Ticks::now();
                    watched.stolen.push(now.stolen_since(&ticks));
                    second += Duration::from_secs(1);
                    ticks = now;
                }
                thread::sleep(Duration::from_millis(100));
            }
            Ok(watched)
        });
        let result = f();
        done.store(true, Ordering::Relaxed);
        let watched = watcher.join().map_err(|_| "the watcher panicked".to_string())??;
        Ok((result?, watched))
    })
}
