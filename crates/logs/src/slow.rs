//! Records of the slow log, in the form that `mysqldumpslow` and similar tools read.

use keel_base::Warning;
use keel_context::PlanCounts;

use crate::tables::{self, SlowRow};
use crate::writer::Stamp;
use crate::{Who, short_time};

/// The measurements of a slow statement.
pub struct SlowRecord<'a> {
    /// Start of the statement, or the value of SET timestamp, in microseconds since 1970.
    pub time: i64,
    /// How long it took.
    pub nanos: u64,
    /// How long it waited for locks.
    pub lock_nanos: u64,
    /// Rows of its result.
    pub rows_sent: u64,
    /// Rows that it read.
    pub rows_examined: u64,
    /// Rows that it changed.
    pub rows_affected: u64,
    /// Bytes of its answer.
    pub bytes_sent: u64,
    /// The default database.
    pub database: &'a str,
    /// Its text, without passwords.
    pub text: &'a [u8],
    /// The counts of its plan, if `log_slow_verbosity` asks for them.
    pub plan: Option<PlanCounts>,
    /// Its warnings, if `log_slow_verbosity` asks for them.
    pub warnings: &'a [Warning],
}

impl SlowRecord<'_> {
    /// The record as text for the log file.
    pub fn text(&self, who: &Who<'_>, stamp: &mut Stamp) -> Vec<u8> {
        let mut out = String::new();
        let second = self.time.div_euclid(1_000_000);
        if stamp.second != second {
            stamp.second = second;
            out.push_str(&format!("# Time: {}\n", short_time(self.time)));
        }
        out.push_str(&format!(
            "# User@Host: {}\n# Thread_id: {}  Schema: {}  QC_hit: No\n\
             # Query_time: {}  Lock_time: {}  Rows_sent: {}  Rows_examined: {}\n\
             # Rows_affected: {}  Bytes_sent: {}\n",
            who.user_host,
            who.id,
            self.database,
            seconds(self.nanos),
            seconds(self.lock_nanos),
            self.rows_sent,
            self.rows_examined,
            self.rows_affected,
            self.bytes_sent,
        ));
        if let Some(plan) = &self.plan {
            out.push_str(&plan_lines(plan));
        }
        if !self.warnings.is_empty() {
            out.push_str("# Warnings\n");
        }
        for warning in self.warnings {
            let message = warning.message.replace('\n', " ");
            out.push_str(&format!("# {} {} {message}\n", warning.level.name(), warning.code));
        }
        if !self.database.is_empty() && stamp.database != self.database {
            stamp.database = self.database.to_string();
            out.push_str(&format!("use `{}`;\n", self.database.replace('`', "``")));
        }
        out.push_str(&format!("SET timestamp={second};\n"));
        let mut bytes = out.into_bytes();
        bytes.extend_from_slice(self.text);
        bytes.extend_from_slice(b";\n");
        bytes
    }

    /// The record as a row of `mysql.slow_log`.
    pub fn row(&self, who: &Who<'_>) -> SlowRow {
        SlowRow {
            time: self.time,
            user_host: who.user_host.into(),
            query_micros: (self.nanos / 1000) as i64,
            lock_micros: (self.lock_nanos / 1000) as i64,
            rows_sent: self.rows_sent,
            rows_examined: self.rows_examined,
            database: self.database.into(),
            text: tables::kept(self.text),
            thread: who.id,
            rows_affected: self.rows_affected,
        }
    }
}

/// The lines about the plan; empty for a plan without full scans, sorts and temporary tables.
fn plan_lines(plan: &PlanCounts) -> String {
    let yes = |counted: bool| if counted { "Yes" } else { "No" };
    let joins = plan.select_full_join + plan.select_full_range_join;
    let sorts = plan.sort_scan + plan.sort_range;
    if plan.select_scan + joins + sorts + plan.tmp_tables == 0 {
        return String::new();
    }
    let tables = match plan.tmp_tables {
        0 => String::new(),
        count => format!("# Tmp_tables: {count}  Tmp_disk_tables: {}\n", plan.tmp_disk_tables),
    };
    format!(
        "{tables}# Full_scan: {}  Full_join: {}  Tmp_table: {}  Tmp_table_on_disk: {}\n\
         # Filesort: {}  Filesort_on_disk: {}  Merge_passes: {}  Priority_queue: {}\n",
        yes(plan.select_scan + plan.select_full_join > 0),
        yes(plan.select_full_join > 0),
        yes(plan.tmp_tables > 0),
        yes(plan.tmp_disk_tables > 0),
        yes(sorts > 0),
        yes(plan.sort_merge_passes > 0),
        plan.sort_merge_passes,
        yes(plan.sort_priority_queue_sorts > 0),
    )
}

fn seconds(nanos: u64) -> String {
    let micros = nanos / 1000;
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_mariadbs_form() {
        let who = Who { id: 4, user_host: "root[root] @ localhost []" };
        let record = SlowRecord {
            time: 1_795_406_616_000_001,
            nanos: 211_500,
            lock_nanos: 67_000,
            rows_sent: 1,
            rows_examined: 3,
            rows_affected: 0,
            bytes_sent: 96,
            database: "t",
            text: b"select * from a where j='x'",
            plan: None,
            warnings: &[],
        };
        let mut stamp = Stamp::default();
        let first = String::from_utf8(record.text(&who, &mut stamp)).unwrap();
        assert_eq!(
            first,
            "# Time: 261123  4:03:36\n# User@Host: root[root] @ localhost []\n\
             # Thread_id: 4  Schema: t  QC_hit: No\n\
             # Query_time: 0.000211  Lock_time: 0.000067  Rows_sent: 1  Rows_examined: 3\n\
             # Rows_affected: 0  Bytes_sent: 96\nuse `t`;\nSET timestamp=1795406616;\n\
             select * from a where j='x';\n"
        );
        let second = String::from_utf8(record.text(&who, &mut stamp)).unwrap();
        assert!(second.starts_with("# User@Host") && !second.contains("use `t`"), "{second}");
    }
}
