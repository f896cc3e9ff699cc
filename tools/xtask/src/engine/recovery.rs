//! The start after `kill -9` with much redo since the checkpoint, against MariaDB on the same load, and the speed of `keel check`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use keel_testkit::Random;
use keel_testkit::process::{Engine, Server, keel_binary};

use super::Options;
use super::figures::table;

/// Rows changed by one statement.
const CHANGED: u64 = 100;
const CLIENTS: u64 = 4;
/// Rows inserted by one statement.
const INSERTED: u64 = 1000;

/// Rounds of changes at most.
const ROUNDS_MAX: u64 = 1000;
/// How many times the changes of the first server a second one gets, until it has as much redo.
const MORE_ROUNDS: u64 = 4;
/// Statements of each client between two looks at the redo.
const ROUND: u64 = 250;

/// Sizes of a run.
struct Sizes {
    /// Rows of the table that changes, and of one that does not.
    hot: u64,
    cold: u64,
    pool_mib: u32,
    /// Redo that a server is to have.
    redo_mib: u64,
}

impl Sizes {
    fn of(options: &Options, pool_mib: u32) -> Sizes {
        match options.quick {
            true => Sizes { hot: 50_000, cold: 50_000, pool_mib: 64, redo_mib: 100 },
            // Rows that change fill about half of the pool.
            false => {
                let hot = u64::from(pool_mib) * 2400;
                Sizes { hot, cold: hot, pool_mib, redo_mib: 2048 }
            }
        }
    }
}

/// What one server needed.
struct Took {
    redo_mib: u64,
    /// Of changes.
    rounds: u64,
    /// Seconds.
    first_query: f64,
    checked: Option<String>,
}

/// Measures; gives the section.
pub fn run(options: &Options) -> Result<String, String> {
    let pools: &[u32] = if options.quick { &[64] } else { &[1024, 256] };
    let mut rows = Vec::new();
    let mut checks = String::new();
    for pool in pools {
        let engines: &[Engine] =
            if options.alone { &[Engine::Keel] } else { &[Engine::Keel, Engine::MariaDb] };
        let mut first = None;
        for &engine in engines {
            let took = measure(engine, &Sizes::of(options, *pool), first)?;
            first = first.or(Some(took.rounds));
            rows.push(vec![
                format!("{pool} MiB"),
                engine.name().to_string(),
                took.redo_mib.to_string(),
                format!("{:.1}", took.first_query),
                format!("{:.0}", took.redo_mib as f64 / took.first_query),
            ]);
            checks += &took.checked.map_or(String::new(), |text| format!("- {pool} MiB: {text}\n"));
        }
    }
    let head = ["pool", "server", "redo since the checkpoint, MiB", "first query, s", "MiB/s"];
    Ok(format!(
        "## Recovery\n\n`kill -9` under updates, with redo capacity for all of them, then a start; both apply their log before they \
         answer, so the first query is also the end of redo. Both have had the same statements, as many as give Keel 2 GiB of \
         redo; MariaDB, which logs less and moves its checkpoint now and then, gets up to {MORE_ROUNDS} times as many until it has as much.\n\n{}\n`keel check` of what the kill left, read-only:\n\n{checks}",
        table(&head, &rows)
    ))
}

/// Fills, changes, kills and starts a server. Changes go on until there is redo enough; a second server has at least as many
/// as the first, and at most [`MORE_ROUNDS`] times as many.
fn measure(engine: Engine, sizes: &Sizes, first: Option<u64>) -> Result<Took, String> {
    let pool = format!("--innodb-buffer-pool-size={}M", sizes.pool_mib);
    let mut words = vec![pool.as_str(), "--innodb-log-file-size=8G", "--innodb-flush-log-at-trx-commit=2"];
    if engine == Engine::MariaDb {
        words.extend(["--innodb-max-dirty-pages-pct=99", "--innodb-flush-method=O_DIRECT", "--skip-log-bin"]);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", engine.name());
    let mut server = Server::start(engine, &words).map_err(failed)?;
    fill(&server, sizes).map_err(failed)?;
    let mut done = 0;
    loop {
        let redo_mib = redo_bytes(&server).map_err(failed)? >> 20;
        let (least, most) = first.map_or((0, ROUNDS_MAX), |rounds| (rounds, MORE_ROUNDS * rounds));
        if done >= most || done >= least && redo_mib >= sizes.redo_mib {
            break;
        }
        change(&server, sizes, done)?;
        done += 1;
    }
    let redo_mib = redo_bytes(&server).map_err(failed)? >> 20;
    server.kill();
    let checked = (engine == Engine::Keel).then(|| check(&server.dir.join("data"))).transpose()?;
    // Without the right to drop caches both start with what the kernel kept.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    let began = Instant::now();
    server.launch().map_err(failed)?;
    let mut client = server.client_in("recovery").map_err(failed)?;
    client.run("SELECT c FROM hot WHERE id = 4711").map_err(failed)?;
    Ok(Took { redo_mib, rounds: done, first_query: began.elapsed().as_secs_f64(), checked })
}

fn fill(server: &Server, sizes: &Sizes) -> std::io::Result<()> {
    let mut client = server.client()?;
    client.run("CREATE DATABASE recovery")?;
    client.run("USE recovery")?;
    for (name, rows) in [("cold", sizes.cold), ("hot", sizes.hot)] {
        client.run(&format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL, KEY (k))"
        ))?;
        for first in (0..rows).step_by(INSERTED as usize) {
            let values: Vec<String> = (first..(first + INSERTED).min(rows))
                .map(|id| format!("({id},{},'{id:0120}','{id:060}')", id * 7919 % 1_000_003))
                .collect();
            client.run(&format!("INSERT INTO {name} VALUES {}", values.join(",")))?;
        }
    }
    Ok(())
}

/// One round of changes.
fn change(server: &Server, sizes: &Sizes, round: u64) -> Result<(), String> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || -> std::io::Result<()> {
                    let mut client = server.client_in("recovery")?;
                    let mut random = Random::new(round * CLIENTS + number);
                    for _ in 0..ROUND {
                        let (first, value) = (random.below(sizes.hot - CHANGED), random.below(1 << 30));
                        client.run(&format!(
                            "UPDATE hot SET c = '{value:0120}', pad = '{value:060}' WHERE id BETWEEN {first} AND {}",
                            first + CHANGED - 1
                        ))?;
                    }
                    Ok(())
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| {
            client.join().map_err(|_| "a client panicked".to_string())?.map_err(|error| error.to_string())
        })
    })
}

/// Bytes of redo since the checkpoint.
fn redo_bytes(server: &Server) -> std::io::Result<u64> {
    let rows = server.client()?.run("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_age'")?.strings();
    Ok(rows.first().and_then(|row| row[1].parse().ok()).unwrap_or(0))
}

/// Runs `keel check`; gives its last line.
fn check(data: &Path) -> Result<String, String> {
    let output =
        Command::new(keel_binary()).arg("check").arg(data).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text.lines().last().unwrap_or_default().to_string()),
        false => Err(format!("keel check found damage: {text}")),
    }
}
