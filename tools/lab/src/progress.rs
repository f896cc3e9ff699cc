//! How far a scenario has come, and how long the rest takes: what each run should take by its plan, corrected by how long those took that
//! have been made.

use std::time::Duration;

use crate::clients::come_up;
use crate::plan::{Arm, Cell, Work};

/// Seconds of a warm-up that stays flat from its beginning.
const WARM_UP_MIN: u32 = 8;
/// Bytes of data that are copied, and bytes that are loaded, in a second.
const COPIED: f64 = 400e6;
const LOADED: f64 = 12e6;
/// Seconds that a plan is trusted for before the runs are.
const PRIOR: f64 = 60.0;

/// How long runs of a plan are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Seconds measured.
    pub seconds: u32,
    /// Seconds of a warm-up at most.
    pub warm_up_max: u32,
}

/// About how many seconds a run takes.
pub fn run_seconds(cell: &Cell, lengths: Lengths) -> f64 {
    let copy = if cell.writes { cell.data.bytes as f64 / COPIED } else { 0.0 };
    let clients = match &cell.work {
        Work::Sysbench(workload) | Work::Open { workload, .. } => {
            // Some are flat at once, some never.
            let warm_up = lengths.warm_up_max.min(WARM_UP_MIN.max(lengths.warm_up_max * 2 / 3));
            f64::from(warm_up + come_up(workload.clients)) + f64::from(workload.clients) / 300.0
        }
        Work::Storm { clients } => f64::from(*clients) / 1000.0,
    };
    // The server's start and end, the copy's way to the disk.
    3.0 + copy + clients + f64::from(lengths.seconds)
}

/// About how many seconds it takes until an engine holds a data set.
pub fn load_seconds(cell: &Cell) -> f64 {
    5.0 + cell.data.bytes as f64 / LOADED
}

/// About how many seconds the search for an arm's settings takes in a cell, and how many runs it has.
pub fn search_seconds(cell: &Cell, arm: &Arm) -> (f64, u32) {
    let Some(search) = &arm.search else { return (0.0, 0) };
    let runs = search.trials + search.finalists;
    (f64::from(runs) * run_seconds(cell, search.lengths), runs)
}

/// How far it has come.
#[derive(Debug, Default)]
pub struct Progress {
    made: u32,
    left: u32,
    took: f64,
    /// What those made should have taken.
    planned: f64,
    /// What those that are left should take.
    to_come: f64,
}

impl Progress {
    /// So many runs are to come, and so many seconds.
    pub fn expect(&mut self, runs: u32, seconds: f64) {
        self.left += runs;
        self.to_come += seconds;
    }

    /// So many of them will not be made after all.
    pub fn forget(&mut self, runs: u32, seconds: f64) {
        self.left = self.left.saturating_sub(runs);
        self.to_come = (self.to_come - seconds).max(0.0);
    }

    /// A run that should take so many seconds has been made.
    pub fn done(&mut self, planned: f64, took: Duration) {
        self.forget(1, planned);
        self.made += 1;
        self.planned += planned;
        self.took += took.as_secs_f64();
    }

    /// Runs that are still to be made.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// `3/20`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.made, self.made + self.left)
    }

    /// Seconds that are left.
    pub fn seconds(&self) -> f64 {
        self.to_come * (self.took + PRIOR) / (self.planned + PRIOR)
    }

    /// How long is left, in words.
    pub fn rest(&self) -> String {
        let seconds = self.seconds().round() as u64;
        match seconds {
            _ if self.left == 0 => "done".into(),
            0..90 => format!("{seconds} s left"),
            90..7200 => format!("{} min left", seconds.div_ceil(60)),
            _ => format!("{:.1} h left", seconds as f64 / 3600.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_the_plans_and_then_the_runs() {
        let mut progress = Progress::default();
        progress.expect(4, 120.0);
        assert_eq!((progress.place(), progress.rest()), ("0/4".into(), "2 min left".into()));
        progress.done(30.0, Duration::from_secs(120));
        // A run took four times as long: the others will take about twice as long as planned, as far as one run tells.
        assert_eq!((progress.place(), progress.seconds()), ("1/4".into(), 180.0));
        progress.forget(3, 90.0);
        assert_eq!(progress.rest(), "done");
    }
}
