//! Little memory: a thousand clients in a container of 512 and of 256 MiB, and how long a client waits while the pool and the
//! redo log change their sizes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::container::Container;
use keel_testkit::process::{Engine, Server};

use super::Options;
use super::figures::{Sysbench, table};

/// Runs the part.
pub fn run(options: &Options) -> Result<String, String> {
    let (rows, clients, seconds) = if options.quick { (20_000, 200, 5) } else { (1_000_000, 1000, 30) };
    let work = |test, clients| Sysbench { test, tables: 8, rows, clients, seconds, more: Vec::new() };
    let mut out =
        format!("## Little memory\n\n{clients} clients on 8 tables of {rows} rows, in a control group:\n\n");
    let mut server = Server::start(Engine::Keel, &[]).map_err(text)?;
    work("oltp_read_write", 2).prepare(&server)?;
    let mut lines = Vec::new();
    for mib in [512, 256] {
        let Some(container) = Container::new(mib << 20) else {
            out += "no control group can be made here.\n\n";
            break;
        };
        server.stop().map_err(text)?;
        server.set_wrapper(container.wrapper());
        server.launch().map_err(text)?;
        for test in ["oltp_read_write", "oltp_read_only"] {
            let ran = work(test, clients).run(&server)?;
            let most = number(
                &server,
                "SELECT BYTES_MOST FROM information_schema.KEEL_MEMORY WHERE CONSUMER = 'process'",
            )?;
            let pool = number(&server, "SELECT @@innodb_buffer_pool_size")?;
            lines.push(vec![
                format!("{mib} MiB"),
                test.to_string(),
                format!("{:.0}", ran.per_second),
                format!("{} MiB", most >> 20),
                format!("{} MiB", pool >> 20),
                container.kills().to_string(),
            ]);
        }
        server.stop().map_err(text)?;
        server.set_wrapper(Vec::new());
        server.launch().map_err(text)?;
    }
    out +=
        &table(&["container", "test", "transactions/s", "most memory", "pool at the end", "kills"], &lines);
    out += &stalls(&server, &work("oltp_read_write", 64))?;
    server.stop().map_err(text)?;
    Ok(out)
}

/// The longest waits of clients while sizes change every two seconds.
fn stalls(server: &Server, work: &Sysbench) -> Result<String, String> {
    const POOL_MIB: [u64; 6] = [64, 1024, 128, 512, 6, 256];
    const REDO_MIB: [u64; 3] = [64, 1024, 256];
    let stop = AtomicBool::new(false);
    let (reads, writes, changes, resize) = thread::scope(|scope| -> Result<_, String> {
        let reads = scope.spawn(|| longest(server, "SELECT c FROM sbtest.sbtest1 WHERE id = ", &stop));
        let writes =
            scope.spawn(|| longest(server, "UPDATE sbtest.sbtest2 SET k = k + 1 WHERE id = ", &stop));
        let running = scope.spawn(|| work.run(server));
        let mut client = server.client().map_err(text)?;
        let (mut changes, mut longest_resize) = (0, Duration::ZERO);
        while !running.is_finished() {
            let (pool, redo) = (POOL_MIB[changes % 6] << 20, REDO_MIB[changes % 3] << 20);
            let start = Instant::now();
            client.run(&format!("SET GLOBAL innodb_buffer_pool_size = {pool}")).map_err(text)?;
            client.run(&format!("SET GLOBAL innodb_log_file_size = {redo}")).map_err(text)?;
            longest_resize = longest_resize.max(start.elapsed());
            changes += 1;
            thread::sleep(Duration::from_secs(2));
        }
        stop.store(true, Ordering::SeqCst);
        running.join().map_err(|_| "sysbench")??;
        let join = |probe: thread::ScopedJoinHandle<'_, Result<Duration, String>>| {
            probe.join().map_err(|_| "a probe")?
        };
        Ok((join(reads)?, join(writes)?, changes, longest_resize))
    })?;
    Ok(format!(
        "\nWhile {} clients of oltp_read_write work and the pool changes {changes} times between 6 MiB and 1 GiB, the redo log \
         between 64 MiB and 1 GiB: the longest read of a row took {} ms, the longest update {} ms, the longest change of both \
         sizes {} ms.\n",
        work.clients,
        reads.as_millis(),
        writes.as_millis(),
        resize.as_millis()
    ))
}

/// One row after the other until `stop`; the longest that one took.
fn longest(server: &Server, sql: &str, stop: &AtomicBool) -> Result<Duration, String> {
    let mut client = server.client().map_err(text)?;
    let (mut longest, mut id) = (Duration::ZERO, 1u64);
    while !stop.load(Ordering::SeqCst) {
        id = (id * 7919 + 13) % 20_000 + 1;
        let start = Instant::now();
        client.run(&format!("{sql}{id}")).map_err(text)?;
        longest = longest.max(start.elapsed());
        thread::sleep(Duration::from_millis(2));
    }
    Ok(longest)
}

fn number(server: &Server, sql: &str) -> Result<u64, String> {
    let mut client = server.client().map_err(text)?;
    let value = client.one(sql).map_err(text)?.scalar();
    value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("no number: {sql}"))
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}
