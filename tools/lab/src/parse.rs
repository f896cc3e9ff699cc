//! What sysbench prints, line by line: its seconds, its checkpoint, its histogram and its report.

/// A line that somebody acts upon while the run goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark {
    /// The clients have begun.
    Started,
    /// The warm-up is over; what follows counts.
    Checkpoint,
    /// A second is over, with so many transactions.
    Second(f64),
    /// The clients have stopped; the report follows.
    Over,
}

/// What a run printed, as far as it has come.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Transactions since the checkpoint.
    pub transactions: f64,
    /// The same each second.
    pub tps: f64,
    /// Queries since the checkpoint.
    pub queries: f64,
    /// The same each second.
    pub qps: f64,
    /// Errors that were ignored, and connections made anew.
    pub errors: u64,
    /// The longest transaction, in milliseconds.
    pub max_ms: f64,
    /// Milliseconds, and how many transactions took about that long.
    pub histogram: Vec<(f64, u64)>,
    /// Transactions of each second since the checkpoint.
    pub series: Vec<f64>,
    /// Words of sysbench about what went wrong, the first few.
    pub complaints: Vec<String>,
    in_histogram: bool,
    /// The second of the checkpoint; sysbench tells what happened in it behind the checkpoint's report.
    counts_from: u32,
}

const COMPLAINTS_MAX: usize = 5;

impl Report {
    /// Takes the next line.
    pub fn line(&mut self, line: &str) -> Option<Mark> {
        let text = line.trim();
        if text.contains("FATAL:") || text.contains("ALERT:") {
            self.complain(text);
            return None;
        }
        if text == "Threads started!" {
            return Some(Mark::Started);
        }
        if text.ends_with("Checkpoint report:") {
            let complaints = std::mem::take(&mut self.complaints);
            *self = Report { complaints, counts_from: second(text).unwrap_or(0), ..Report::default() };
            return Some(Mark::Checkpoint);
        }
        if text.starts_with("[ ") {
            let tps = text.split_once(" tps: ")?.1.split_whitespace().next()?.parse().ok()?;
            if second(text).is_some_and(|second| second > self.counts_from) {
                self.series.push(tps);
            }
            return Some(Mark::Second(tps));
        }
        if text.starts_with("Latency histogram") {
            // What has been read so far was the checkpoint's report, of the warm-up.
            let (complaints, series) =
                (std::mem::take(&mut self.complaints), std::mem::take(&mut self.series));
            *self = Report { complaints, series, in_histogram: true, ..Report::default() };
            return Some(Mark::Over);
        }
        if self.in_histogram {
            self.bucket(text);
        }
        self.figure(text);
        None
    }

    fn complain(&mut self, text: &str) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(text.chars().take(200).collect());
        }
    }

    /// `1.250 |****    15`
    fn bucket(&mut self, text: &str) {
        let Some((value, rest)) = text.split_once('|') else { return };
        let count = rest.trim().trim_start_matches('*').trim();
        if let (Ok(value), Ok(count)) = (value.trim().parse(), count.parse()) {
            self.histogram.push((value, count));
        }
    }

    fn figure(&mut self, text: &str) {
        let Some((label, rest)) = text.split_once(':') else { return };
        let number = |index: usize| -> f64 {
            let word = rest.split_whitespace().nth(index).unwrap_or_default();
            word.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0.0)
        };
        match label {
            "transactions" => (self.transactions, self.tps) = (number(0), number(1)),
            "queries" => (self.queries, self.qps) = (number(0), number(1)),
            "ignored errors" | "errors taken back" | "reconnects" => self.errors += number(0) as u64,
            "max" => self.max_ms = number(0),
            // The one line of tpcc.lua: `latency (ms): min 0.10, avg 8.20, max 43.88, 95th percentile 18.28`.
            "latency (ms)" => self.max_ms = number(5),
            _ => {}
        }
    }

    /// Whether the run came to its end, with something done.
    pub fn is_whole(&self) -> bool {
        self.in_histogram && self.transactions > 0.0
    }

    /// The time within which this share of the transactions ended, in milliseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        let all: u64 = self.histogram.iter().map(|(_, count)| count).sum();
        let wanted = (all as f64 * share).ceil();
        let mut seen = 0;
        for (value, count) in &self.histogram {
            seen += count;
            if seen as f64 >= wanted {
                return *value;
            }
        }
        0.0
    }

    /// Milliseconds, and the share that took no longer; at most some 200 points.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let all: u64 = self.histogram.iter().map(|(_, count)| count).sum();
        let step = self.histogram.len().div_ceil(200).max(1);
        let mut seen = 0;
        let mut points = Vec::new();
        for (index, (value, count)) in self.histogram.iter().enumerate() {
            seen += count;
            // The tail is what one looks for: of its thin buckets none is left out.
            let in_tail = all - seen < all / 20;
            if (index + 1) % step == 0 || in_tail || seen == all {
                points.push((*value, seen as f64 / all as f64));
            }
        }
        points.truncate(2000);
        points
    }
}

/// The number in `[ 12s ] ...`.
fn second(text: &str) -> Option<u32> {
    text.strip_prefix("[ ")?.split_once("s ]")?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Threads started!

[ 1s ] thds: 4 tps: 10.00 qps: 10.00 (r/w/o: 10.00/0.00/0.00) lat (ms,99%): 1.93 err/s: 0.00 reconn/s: 0.00
[ 2s ] Checkpoint report:
SQL statistics:
    transactions:                        90    (45.00 per sec.)
    ignored errors:                      7      (0.00 per sec.)
[ 2s ] thds: 4 tps: 80.00 qps: 80.00 (r/w/o: 80.00/0.00/0.00) lat (ms,99%): 1.93 err/s: 0.00 reconn/s: 0.00
[ 3s ] thds: 4 tps: 60.5 qps: 60.5 (r/w/o: 60.5/0.00/0.00) lat (ms,99%): 1.37 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
        0.500 |****************************************  98
       14.207 |                                         2

SQL statistics:
    queries performed:
        read:                            189
        total:                           189
    transactions:                        100    (50.00 per sec.)
    queries:                             200    (100.00 per sec.)
    ignored errors:                      1      (0.00 per sec.)
    reconnects:                          2      (0.00 per sec.)
Latency (ms):
         min:                                    0.01
         max:                                   14.31
         99th percentile:                        0.86
";

    fn parsed(text: &str) -> (Report, Vec<Mark>) {
        let mut report = Report::default();
        let marks = text.lines().filter_map(|line| report.line(line)).collect();
        (report, marks)
    }

    #[test]
    fn only_what_follows_the_checkpoint_counts() {
        let (report, marks) = parsed(OUTPUT);
        assert_eq!(
            marks,
            [
                Mark::Started,
                Mark::Second(10.0),
                Mark::Checkpoint,
                Mark::Second(80.0),
                Mark::Second(60.5),
                Mark::Over
            ]
        );
        assert_eq!(
            (report.transactions, report.tps, report.queries, report.qps),
            (100.0, 50.0, 200.0, 100.0)
        );
        assert_eq!((report.errors, report.max_ms, report.series.clone()), (3, 14.31, vec![60.5]));
        assert!(report.is_whole());
    }

    #[test]
    fn percentiles_are_of_the_histogram() {
        let (report, _) = parsed(OUTPUT);
        let (median, almost, p99) =
            (report.percentile(0.5), report.percentile(0.98), report.percentile(0.99));
        assert_eq!((median, almost, p99), (0.5, 0.5, 14.207));
        assert_eq!(report.distribution(), [(0.5, 0.98), (14.207, 1.0)]);
        assert_eq!(Report::default().percentile(0.5), 0.0);
    }

    #[test]
    fn the_report_of_tpcc_is_read_too() {
        let text = "TPC-C:\n    transactions:   1962 (488.75 per sec.)\n    errors taken back: 4 (1.0 per sec.)\n    \
                    latency (ms): min 0.10, avg 8.20, max 43.88, 95th percentile 18.28\n";
        let (report, _) = parsed(text);
        assert_eq!((report.transactions, report.errors, report.max_ms), (1962.0, 4, 43.88));
        assert!(!report.is_whole(), "there was no histogram");
    }

    #[test]
    fn a_run_that_was_cut_off_is_not_whole() {
        let (report, _) = parsed(OUTPUT.split("Latency histogram").next().unwrap());
        assert!(!report.is_whole());
    }

    #[test]
    fn complaints_are_kept() {
        let (report, _) = parsed("FATAL: mysql_stmt_execute() returned error 1146 (no such table)\n");
        assert!(!report.is_whole() && report.complaints[0].contains("1146"));
    }
}
