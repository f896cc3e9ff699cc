//! The data of a report of the engine: its counters now and at the last report, and the open transactions.

use std::sync::Arc;

use keel_runtime::time::{self, Instant};
use keel_storage::EngineStatus;

use super::deadlocks::Deadlock;
use super::transactions::{self, Open};
use crate::Served;

/// The counters at the last report.
#[derive(Default)]
pub struct LastReport {
    at: Option<Instant>,
    status: EngineStatus,
}

/// The data of a report.
pub struct Figures {
    /// Microseconds since 1970.
    pub now: i64,
    /// Seconds since the last report, or the start; rates are over these.
    pub seconds: f64,
    /// Counters.
    pub status: EngineStatus,
    /// The counters at the last report.
    pub before: EngineStatus,
    /// Open transactions.
    pub open: Vec<Open>,
    /// The last deadlock.
    pub deadlock: Option<Arc<Deadlock>>,
}

impl Figures {
    /// Collects the data, and keeps the counters for the next report.
    pub fn take(state: &Served) -> Figures {
        let status = state.engine.status();
        let at = time::now();
        let last = LastReport { at: Some(at), status: status.clone() };
        let last = std::mem::replace(&mut *state.last_report.lock(), last);
        let seconds = at.since(last.at.unwrap_or(state.started)).as_secs_f64();
        Figures {
            now: time::unix_micros(),
            seconds: seconds.max(0.001),
            status,
            before: last.status,
            open: transactions::open(state),
            deadlock: state.deadlocks.last(),
        }
    }

    /// A counter's growth a second.
    pub fn rate(&self, counter: impl Fn(&EngineStatus) -> u64) -> f64 {
        counter(&self.status).saturating_sub(counter(&self.before)) as f64 / self.seconds
    }

    /// Page accesses since the last report, and how many of a thousand needed no read.
    pub fn hit_rate(&self) -> (u64, u64) {
        let (now, before) = (&self.status.store, &self.before.store);
        let requests = now.read_requests.saturating_sub(before.read_requests);
        let misses = now.misses().saturating_sub(before.misses());
        (requests, (requests.saturating_sub(misses) * 1000).checked_div(requests).unwrap_or(0))
    }
}

/// Writes and syncs of files, those of the log included.
pub fn file_writes(status: &EngineStatus) -> u64 {
    status.store.writes + status.store.log_writes
}

/// Syncs of files, those of the log included.
pub fn file_syncs(status: &EngineStatus) -> u64 {
    status.store.data_syncs + status.store.log_writes
}
