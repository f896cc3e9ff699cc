//! Very many clients who come at once: how fast they are let in, and how fast all of them are served then.
//!
//! Some threads share the connections. Each opens its own one behind the other as fast as the server lets it; when all are in, each sends a
//! query on all of its connections and then reads all the answers, so that as many queries are under way as there are clients. The time of
//! an answer is from its sending to its reading.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::Random;
use keel_testkit::child::{interrupted, raise_file_limit};
use keel_testkit::client::{Client, Login};

use crate::clients::{DATABASE, INTERRUPTED};
use crate::cost::{Look, Watcher};
use crate::record::Outcome;
use crate::server::Server;

/// Threads of the client.
const THREADS: usize = 16;
/// The longest that a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The table that is read.
pub struct Rows {
    /// Tables `sbtest1` and so on.
    pub tables: u32,
    /// Rows of each.
    pub size: u32,
}

/// What one thread saw.
#[derive(Default)]
struct Seen {
    connect_ms: Vec<f64>,
    answer_ms: Vec<f64>,
    failed: u64,
    first_failure: Option<String>,
    /// Answers of each second.
    series: Vec<f64>,
}

/// What came of it: what clients saw, and the server when all were in and at the end.
pub struct Stormed {
    /// What clients saw.
    pub outcome: Outcome,
    /// The server when all were in.
    pub before: Look,
    /// The server at the end.
    pub after: Look,
}

/// Runs it.
pub fn run(
    server: &Server,
    watcher: &mut Watcher,
    clients: u32,
    seconds: u32,
    rows: &Rows,
    seed: u64,
) -> Result<Stormed, String> {
    let files = raise_file_limit();
    if files < u64::from(clients) + 100 {
        return Err(format!("{clients} connections need as many open files, and ulimit -n is {files}"));
    }
    let mut admin = server.client()?;
    watcher.reset_peak();
    let began = Instant::now();
    // Met four times: all are in, they may read, all have read, they may leave.
    let meet = Barrier::new(THREADS + 1);
    let (seen, connected, before, after) = thread::scope(|scope| {
        let meet = &meet;
        let start = |index: usize| {
            let share = clients as usize / THREADS + usize::from(index < clients as usize % THREADS);
            move || one_thread(server, share, seconds, rows, seed + index as u64, meet)
        };
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(start(index))).collect();
        meet.wait();
        let connected = began.elapsed();
        let before = watcher.look(&mut admin);
        meet.wait();
        meet.wait();
        let after = watcher.look(&mut admin);
        meet.wait();
        let seen: Vec<Seen> = threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect();
        (seen, connected, before, after)
    });
    if interrupted() {
        return Err(INTERRUPTED.into());
    }
    let outcome = outcome(&seen, connected, seconds)?;
    Ok(Stormed { outcome, before, after })
}

fn one_thread(server: &Server, share: usize, seconds: u32, rows: &Rows, seed: u64, meet: &Barrier) -> Seen {
    let mut seen = Seen::default();
    let login = Login { database: Some(DATABASE.into()), ..server.login().clone() };
    let mut clients = Vec::with_capacity(share);
    for _ in 0..share {
        if interrupted() {
            break;
        }
        let at = Instant::now();
        match Client::connect(server.address(), &login) {
            Ok(client) => {
                client.set_timeout(Some(PATIENCE)).ok();
                seen.connect_ms.push(at.elapsed().as_secs_f64() * 1e3);
                clients.push(client);
            }
            Err(error) => seen.fail(error.to_string()),
        }
    }
    meet.wait();
    meet.wait();
    let mut random = Random::new(seed);
    let began = Instant::now();
    let end = began + Duration::from_secs(u64::from(seconds));
    while Instant::now() < end && !interrupted() && !clients.is_empty() {
        round(&mut clients, &mut seen, rows, &mut random, began);
    }
    // The server is looked at while its connections are there.
    meet.wait();
    meet.wait();
    seen
}

/// A query on each connection, then all the answers; a connection that fails is given up.
fn round(clients: &mut Vec<Client>, seen: &mut Seen, rows: &Rows, random: &mut Random, began: Instant) {
    let mut sent = Vec::with_capacity(clients.len());
    clients.retain_mut(|client| {
        let table = random.below(u64::from(rows.tables)) + 1;
        let id = random.below(u64::from(rows.size)) + 1;
        let at = Instant::now();
        match client.post(&format!("SELECT pad FROM sbtest{table} WHERE id={id}")) {
            Ok(()) => sent.push(at),
            Err(error) => {
                seen.fail(error.to_string());
                return false;
            }
        }
        true
    });
    let mut sent = sent.into_iter();
    clients.retain_mut(|client| {
        let at = sent.next().expect("each connection that is left has sent");
        match client.receive() {
            Ok(replies) if replies.iter().all(|reply| reply.error_code().is_none()) => {
                seen.answer_ms.push(at.elapsed().as_secs_f64() * 1e3);
                let second = began.elapsed().as_secs() as usize;
                if seen.series.len() <= second {
                    seen.series.resize(second + 1, 0.0);
                }
                seen.series[second] += 1.0;
                true
            }
            Ok(replies) => {
                seen.fail(format!("{:?}", replies.first()));
                true
            }
            Err(error) => {
                seen.fail(error.to_string());
                false
            }
        }
    });
}

impl Seen {
    fn fail(&mut self, why: String) {
        self.failed += 1;
        self.first_failure.get_or_insert(why);
    }
}

fn outcome(seen: &[Seen], connected: Duration, seconds: u32) -> Result<Outcome, String> {
    let sorted = |field: fn(&Seen) -> &Vec<f64>| {
        let mut all: Vec<f64> = seen.iter().flat_map(|seen| field(seen).iter().copied()).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let (connects, answers) = (sorted(|seen| &seen.connect_ms), sorted(|seen| &seen.answer_ms));
    if answers.is_empty() {
        let why = seen.iter().find_map(|seen| seen.first_failure.clone());
        return Err(format!("nobody was answered: {}", why.unwrap_or_default()));
    }
    let share =
        |all: &[f64], share: f64| all.get((all.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    let longest = seen.iter().map(|seen| seen.series.len()).max().unwrap_or(0);
    let second = |index: usize| seen.iter().filter_map(|seen| seen.series.get(index)).sum();
    let rate = answers.len() as f64 / f64::from(seconds.max(1));
    let shares = (0..=100).map(|percent| f64::from(percent) / 100.0).chain([0.995, 0.999, 0.9999]);
    let mut latencies: Vec<(f64, f64)> =
        shares.filter(|of| *of > 0.0).map(|of| (share(&answers, of), of)).collect();
    latencies.retain(|(ms, _)| *ms > 0.0);
    latencies.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut outcome = Outcome {
        seconds: f64::from(seconds),
        tps: rate,
        qps: rate,
        p50_ms: share(&answers, 0.5),
        p95_ms: share(&answers, 0.95),
        p99_ms: share(&answers, 0.99),
        max_ms: answers.last().copied().unwrap_or(0.0),
        errors: seen.iter().map(|seen| seen.failed).sum(),
        series: (0..longest.min(seconds as usize)).map(second).collect(),
        latencies,
        ..Outcome::default()
    };
    let more = [
        ("connections", connects.len() as f64),
        ("connections_per_second", connects.len() as f64 / connected.as_secs_f64().max(1e-9)),
        ("connect_p50_ms", share(&connects, 0.5)),
        ("connect_p99_ms", share(&connects, 0.99)),
        ("all_connected_seconds", connected.as_secs_f64()),
    ];
    outcome.more.extend(more.map(|(name, value)| (name.to_string(), value)));
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_saw_is_put_together() {
        let seen = |answers: &[f64]| Seen {
            connect_ms: vec![1.0],
            answer_ms: answers.to_vec(),
            series: vec![answers.len() as f64],
            ..Seen::default()
        };
        let outcome = outcome(&[seen(&[1.0, 3.0]), seen(&[2.0, 4.0])], Duration::from_secs(2), 1).unwrap();
        assert_eq!((outcome.tps, outcome.max_ms, outcome.p50_ms), (4.0, 4.0, 3.0));
        assert_eq!((outcome.series, outcome.more["connections_per_second"]), (vec![4.0], 1.0));
    }

    #[test]
    fn nobody_answered_is_an_error() {
        let refused = Seen { failed: 1, first_failure: Some("1040".into()), ..Seen::default() };
        assert!(outcome(&[refused], Duration::from_secs(1), 1).unwrap_err().contains("1040"));
    }
}
