//! What statements did: figures of the server's status, and the bound of `LIMIT ROWS EXAMINED`.

use keel_base::{SqlError, SqlResult, code, errors};

use crate::sort;

/// What statements did with rows since the server last took the counts, under MariaDB's names (`Handler_...`).
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandlerCounts {
    pub commit: u64,
    pub rollback: u64,
    pub read_first: u64,
    pub read_key: u64,
    pub read_last: u64,
    pub read_next: u64,
    pub read_prev: u64,
    /// `Handler_icp_attempts`: entries of an index of which conditions were asked.
    pub icp_attempts: u64,
    /// `Handler_icp_match`: those that fulfilled them.
    pub icp_match: u64,
    pub read_rnd_next: u64,
    pub write: u64,
    pub update: u64,
    pub delete: u64,
    /// Rows that tables gave (`Rows_read`).
    pub rows_read: u64,
}

impl HandlerCounts {
    /// Steps of readers: of rows that were found, and of ends that were met.
    pub fn reads(&self) -> u64 {
        let by_key = self.read_first + self.read_key + self.read_last;
        by_key + self.read_next + self.read_prev + self.read_rnd_next
    }
}

/// How statements went about their rows since the server last took the counts, under MariaDB's names.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Whether there is anything but zeros: most statements find one row by its key.
    pub any: bool,
    pub select_scan: u64,
    pub select_full_join: u64,
    pub select_range: u64,
    pub select_full_range_join: u64,
    pub sort_scan: u64,
    pub sort_range: u64,
    pub sort_rows: u64,
    pub sort_merge_passes: u64,
    pub sort_priority_queue_sorts: u64,
    /// `Created_tmp_tables`.
    pub tmp_tables: u64,
    /// `Created_tmp_disk_tables`: those of them that did not fit into memory.
    pub tmp_disk_tables: u64,
    /// `Handler_tmp_write`.
    pub tmp_write: u64,
}

impl PlanCounts {
    /// Counts something.
    #[inline]
    pub fn add(&mut self, count: impl FnOnce(&mut PlanCounts)) {
        self.any = true;
        count(self);
    }

    /// Counts a temporary table, the rows written into it, and whether it went to disk.
    pub fn table(&mut self, rows: u64, is_on_disk: bool) {
        self.add(|counts| {
            counts.tmp_tables += 1;
            counts.tmp_disk_tables += u64::from(is_on_disk);
            counts.tmp_write += rows;
        });
    }

    /// Counts the rows of a sort, and how it was done.
    pub fn sort(&mut self, done: sort::Done) {
        self.add(|counts| {
            counts.sort_rows += done.rows;
            counts.sort_merge_passes += done.merges;
            counts.sort_priority_queue_sorts += u64::from(done.kept_best);
        });
    }
}

/// Bounds what a statement examines (LIMIT ROWS EXAMINED).
#[derive(Debug, Clone, Copy, Default)]
pub struct Examined {
    /// The most; none where nothing is said.
    pub most: Option<u64>,
    count: u64,
}

impl Examined {
    /// Counts what was examined, for the next look at it.
    pub fn count(&mut self, count: u64) {
        self.count = self.count.saturating_add(count);
    }

    /// Counts what was examined; 1931 where that is too much.
    pub fn add(&mut self, count: u64) -> SqlResult<()> {
        self.count(count);
        match self.most {
            Some(most) if self.count > most => {
                Err(errors::query_result_incomplete(format_args!("LIMIT ROWS EXAMINED {most}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether the statement ends because of that, which is none of its errors.
    pub fn ends(&self, error: &SqlError) -> bool {
        self.most.is_some() && error.code == code::QUERY_RESULT_INCOMPLETE
    }
}
