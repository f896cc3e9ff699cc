//! Records of the slow log, as `mysqldumpslow` and its like read them.

use keel_base::Warning;

use super::tables::{self, SlowRow};
use super::{Who, short_time};

/// What the last record said; the next one leaves it out where it is the same.
#[derive(Debug)]
pub struct Stamp {
    second: i64,
    database: String,
}

impl Default for Stamp {
    fn default() -> Self {
        Stamp { second: -1, database: String::new() }
    }
}

/// A statement that was slow.
pub struct SlowRecord<'a> {
    /// When it began, or what SET timestamp said, in microseconds since 1970.
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
    /// Octets of its answer.
    pub bytes_sent: u64,
    /// The default database.
    pub database: &'a str,
    /// LAST_INSERT_ID() of the statement, or 0.
    pub last_insert_id: u64,
    /// Its text.
    pub text: &'a [u8],
    /// `log_slow_verbosity` asks for the plan: whether a table was read without an index.
    pub full_scan: Option<bool>,
    /// It asks for warnings.
    pub warnings: &'a [Warning],
}

impl SlowRecord<'_> {
    /// The record as the file has it.
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
        if let Some(full_scan) = self.full_scan {
            out.push_str(&format!("# Full_scan: {}\n", if full_scan { "Yes" } else { "No" }));
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
        out.push_str("SET ");
        if self.last_insert_id != 0 {
            out.push_str(&format!("last_insert_id={},", self.last_insert_id));
        }
        out.push_str(&format!("timestamp={second};\n"));
        let mut bytes = out.into_bytes();
        bytes.extend_from_slice(&crate::secrets::hidden(self.text));
        bytes.extend_from_slice(b";\n");
        bytes
    }

    /// The record as the table has it.
    pub fn row(&self, who: &Who<'_>) -> SlowRow {
        SlowRow {
            time: self.time,
            user_host: who.user_host.into(),
            query_micros: (self.nanos / 1000) as i64,
            lock_micros: (self.lock_nanos / 1000) as i64,
            rows_sent: self.rows_sent,
            rows_examined: self.rows_examined,
            database: self.database.into(),
            last_insert_id: self.last_insert_id,
            text: tables::kept(&crate::secrets::hidden(self.text)),
            thread: who.id,
            rows_affected: self.rows_affected,
        }
    }
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
            last_insert_id: 0,
            text: b"select * from a where j='x'",
            full_scan: None,
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
