//! Tables and steps of a seed.

use crate::Random;
use crate::queries::world::pick;

/// Keys are below this; rows far away have greater ones.
const KEYS: u64 = 21;
/// Rows far away.
const FAR_ROWS: u64 = 200;
/// A key that no row has, for columns that do not matter.
const ELSEWHERE: u64 = 500;

/// One statement of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The session's number.
    pub session: usize,
    /// Its statement.
    pub sql: String,
}

/// A table, sessions and what they do.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Definition of the table.
    pub table: String,
    /// Its rows near each other, as they stand in an INSERT.
    pub rows: Vec<String>,
    /// Definition of a table whose rows refer to those; empty without one.
    pub child: String,
    /// Its rows near each other.
    pub child_rows: Vec<String>,
    /// Isolation levels of the sessions.
    pub levels: Vec<&'static str>,
    /// What they do, in order.
    pub steps: Vec<Step>,
    /// Statements of which each is tried in a transaction of its own after each step.
    pub probes: Vec<String>,
}

const LEVELS: [&str; 6] = [
    "REPEATABLE READ",
    "REPEATABLE READ",
    "REPEATABLE READ",
    "READ COMMITTED",
    "READ COMMITTED",
    "SERIALIZABLE",
];

/// How a SELECT locks.
const LOCKS: [&str; 7] = [
    "FOR UPDATE",
    "FOR UPDATE",
    "LOCK IN SHARE MODE",
    "LOCK IN SHARE MODE",
    "FOR UPDATE SKIP LOCKED",
    "LOCK IN SHARE MODE SKIP LOCKED",
    "FOR UPDATE NOWAIT",
];

/// What becomes of rows that refer to one that goes or changes.
const ACTIONS: [&str; 5] = [
    "",
    "",
    " ON DELETE CASCADE",
    " ON DELETE SET NULL ON UPDATE SET NULL",
    " ON DELETE CASCADE ON UPDATE CASCADE",
];

/// A column with an index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Id,
    K,
    U,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Id => "id",
            Column::K => "k",
            Column::U => "u",
        }
    }
}

struct Generator {
    random: Random,
    /// Indexes by their first column.
    indexes: Vec<(Column, &'static str)>,
    /// The clustered key is (k, id).
    by_k: bool,
    /// There is a table whose rows refer to these.
    has_child: bool,
    /// Values of each column that rows have.
    values: [Vec<u64>; 3],
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Schedule {
        let mut random = Random::of_neighbours(seed);
        let by_k = random.below(5) == 0;
        let mut keys = vec![if by_k { "PRIMARY KEY (k, id), UNIQUE ii (id)" } else { "PRIMARY KEY (id)" }];
        let mut indexes = vec![(Column::Id, if by_k { "ii" } else { "PRIMARY" })];
        if by_k {
            indexes.push((Column::K, "PRIMARY"));
        }
        // No two that begin alike: DELETE takes no hint.
        let of_k = [None, Some(("kk", "KEY kk (k)")), Some(("kv", "KEY kv (k, v)"))];
        let of_u = [None, Some(("uu", "UNIQUE uu (u)")), Some(("uk", "UNIQUE uk (u, k)"))];
        for (column, choices) in [(Column::K, of_k), (Column::U, of_u)] {
            if let Some((name, key)) = pick(&mut random, &choices).filter(|_| column == Column::U || !by_k) {
                keys.push(key);
                indexes.push((column, name));
            }
        }
        let table =
            format!("CREATE TABLE t (id INT NOT NULL, k INT NOT NULL, u INT, v INT, {})", keys.join(", "));
        let has_child = random.below(3) == 0;
        let mut generator = Generator { random, indexes, by_k, has_child, values: Default::default() };
        let rows = generator.rows();
        let (child, child_rows) = if has_child { generator.child() } else { Default::default() };
        let levels: Vec<_> =
            (0..2 + generator.random.below(2)).map(|_| pick(&mut generator.random, &LEVELS)).collect();
        let steps = generator.steps(levels.len());
        Schedule { table, rows, child, child_rows, levels, steps, probes: generator.probes() }
    }

    /// What makes the tables.
    pub fn setup(&self) -> Vec<String> {
        let far = |row: fn(u64) -> String| -> String {
            (1000..1000 + FAR_ROWS).map(row).collect::<Vec<_>>().join(", ")
        };
        let mut setup = vec![
            self.table.clone(),
            format!("INSERT INTO t VALUES {}", self.rows.join(", ")),
            format!("INSERT INTO t VALUES {}", far(|n| format!("({n}, {n}, {n}, {n})"))),
            "ANALYZE TABLE t".into(),
        ];
        if !self.child.is_empty() {
            setup.extend([
                self.child.clone(),
                // A schedule made smaller may lack the rows that are referred to.
                "SET foreign_key_checks = 0".into(),
                format!("INSERT INTO c VALUES {}", self.child_rows.join(", ")),
                format!("INSERT INTO c VALUES {}", far(|n| format!("({n}, {n})"))),
                "SET foreign_key_checks = 1".into(),
                "ANALYZE TABLE c".into(),
            ]);
        }
        setup
    }
}

impl Generator {
    fn rows(&mut self) -> Vec<String> {
        let mut free: [Vec<u64>; 2] = [(1..KEYS - 1).collect(), (1..KEYS - 1).collect()];
        let mut take = |random: &mut Random, place: usize| {
            let at = random.below(free[place].len() as u64) as usize;
            free[place].swap_remove(at)
        };
        let count = pick(&mut self.random, &[3, 5, 7]);
        let mut rows = Vec::new();
        for _ in 0..count {
            let id = take(&mut self.random, 0);
            let k = pick(&mut self.random, &[2, 4, 4, 6, 8, 10, 14]);
            let u = take(&mut self.random, 1);
            let has_u = self.random.below(10) > 0;
            let v = self.random.below(5);
            self.values[Column::Id as usize].push(id);
            self.values[Column::K as usize].push(k);
            if has_u {
                self.values[Column::U as usize].push(u);
            }
            let u = if has_u { u.to_string() } else { "NULL".into() };
            rows.push(format!("({id}, {k}, {u}, {v})"));
        }
        rows
    }

    /// A table whose rows refer to those of `t`, and its rows near each other.
    fn child(&mut self) -> (String, Vec<String>) {
        let action = pick(&mut self.random, &ACTIONS);
        let columns = "id INT NOT NULL PRIMARY KEY, p INT, KEY pp (p)";
        let table = format!("CREATE TABLE c ({columns}, FOREIGN KEY (p) REFERENCES t (id){action})");
        let rows = (0..4).map(|n| format!("({}, {})", 3 + 4 * n, self.value(Column::Id))).collect();
        (table, rows)
    }

    /// A statement that reads or changes the other table, or both.
    fn statement_of_child(&mut self) -> String {
        let (id, parent) = (self.any(), self.value(Column::Id));
        let lock = pick(&mut self.random, &LOCKS);
        match self.random.below(10) {
            0..3 => format!("INSERT INTO c VALUES ({id}, {parent})"),
            3 => format!("UPDATE c SET p = {parent} WHERE id = {}", 3 + 4 * self.random.below(4)),
            4 => format!("DELETE FROM c WHERE p = {parent}"),
            5 => format!("DELETE FROM t WHERE id = {parent}"),
            6 => format!("SELECT * FROM c FORCE INDEX (pp) WHERE p = {parent} {lock}"),
            7 => {
                format!(
                    "SELECT * FROM c FORCE INDEX (PRIMARY) STRAIGHT_JOIN t ON t.id = c.p WHERE c.id < {id} {lock}"
                )
            }
            8 => format!("UPDATE c STRAIGHT_JOIN t ON t.id = c.p SET t.v = t.v + 1 WHERE c.id = {id}"),
            _ => format!("DELETE c FROM c STRAIGHT_JOIN t ON t.id = c.p WHERE c.p = {parent}"),
        }
    }

    fn any(&mut self) -> u64 {
        self.random.below(KEYS)
    }

    /// A value of the column, most often one that a row had at first.
    fn value(&mut self, column: Column) -> u64 {
        match self.values[column as usize].as_slice() {
            [] => self.any(),
            _ if self.random.below(10) < 3 => self.any(),
            known => pick(&mut self.random, known),
        }
    }

    /// An index, to be forced, with its first column.
    fn index(&mut self) -> (Column, &'static str) {
        pick(&mut self.random, &self.indexes)
    }

    fn condition(&mut self, column: Column) -> String {
        let (name, value) = (column.name(), self.value(column));
        let mut text = match self.random.below(16) {
            0..8 => format!("{name} = {value}"),
            8..10 => format!("{name} IN ({value}, {})", self.value(column)),
            10..12 => format!("{name} BETWEEN {value} AND {}", value + self.random.below(6)),
            12 => format!("{name} > {value} AND {name} < {}", value + 1 + self.random.below(6)),
            13 => format!("{name} >= {value} AND {name} < {}", value + 1 + self.random.below(6)),
            14 => format!("{name} < {value}"),
            _ => format!("{name} <= {value}"),
        };
        if self.random.below(6) == 0 {
            text.push_str(&format!(" AND v < {}", self.random.below(5)));
        }
        text
    }

    fn order(&mut self, column: Column) -> String {
        if self.random.below(4) > 0 {
            return String::new();
        }
        let direction = pick(&mut self.random, &["", " DESC", " DESC"]);
        let limit = pick(&mut self.random, &["", "", " LIMIT 1", " LIMIT 2"]);
        format!(" ORDER BY {}{direction}{limit}", column.name())
    }

    fn row(&mut self) -> String {
        let id = if self.random.below(3) == 0 { self.value(Column::Id) } else { self.any() };
        let u = match self.random.below(3) {
            0 => "NULL".into(),
            1 => self.value(Column::U).to_string(),
            _ => self.any().to_string(),
        };
        format!("({id}, {}, {u}, {})", self.value(Column::K), self.random.below(5))
    }

    fn assignment(&mut self) -> String {
        match self.random.below(10) {
            0..4 => "v = v + 1".into(),
            4 => "v = v".into(),
            5 => "k = k + 2".into(),
            6 => format!("k = {}", self.value(Column::K)),
            7 => format!("u = {}", self.value(Column::U)),
            8 => "u = NULL".into(),
            _ => format!("id = {}", self.any()),
        }
    }

    fn statement(&mut self) -> String {
        let statement = self.any_statement();
        // Without any patience MariaDB answers with an error of its own where a row is skipped.
        match statement.ends_with("SKIP LOCKED") {
            true => format!("SET STATEMENT innodb_lock_wait_timeout = 50 FOR {statement}"),
            false => statement,
        }
    }

    fn any_statement(&mut self) -> String {
        if self.has_child && self.random.below(3) == 0 {
            return self.statement_of_child();
        }
        let (column, index) = self.index();
        let forced = format!("t FORCE INDEX ({index})");
        match self.random.below(100) {
            0..9 => "BEGIN".into(),
            9..16 => "COMMIT".into(),
            16..20 => "ROLLBACK".into(),
            20..22 => "SAVEPOINT s".into(),
            22..24 => "ROLLBACK TO s".into(),
            24..48 => {
                let items = pick(&mut self.random, &["*", "*", column.name()]);
                let lock = pick(&mut self.random, &LOCKS);
                let condition = self.condition(column);
                format!("SELECT {items} FROM {forced} WHERE {condition}{} {lock}", self.order(column))
            }
            48..60 => format!("INSERT INTO t VALUES {}", self.row()),
            60..63 => format!("INSERT IGNORE INTO t VALUES {}", self.row()),
            63..66 => format!("REPLACE INTO t VALUES {}", self.row()),
            66..69 => {
                format!("INSERT INTO t VALUES {} ON DUPLICATE KEY UPDATE {}", self.row(), self.assignment())
            }
            69..72 => {
                format!(
                    "INSERT INTO t SELECT id + 1, k, NULL, v FROM {forced} WHERE {}",
                    self.condition(column)
                )
            }
            72..87 => {
                let (set, condition) = (self.assignment(), self.condition(column));
                let order = if self.random.below(2) == 0 { self.order(column) } else { String::new() };
                format!("UPDATE {forced} SET {set} WHERE {condition}{order}")
            }
            _ => format!("DELETE FROM t WHERE {}", self.condition(column)),
        }
    }

    fn steps(&mut self, sessions: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        for session in 0..sessions {
            if self.random.below(10) > 0 {
                steps.push(Step { session, sql: "BEGIN".into() });
            }
        }
        for _ in 0..pick(&mut self.random, &[4, 6, 8, 12]) {
            let session = self.random.below(sessions as u64) as usize;
            steps.push(Step { session, sql: self.statement() });
        }
        steps
    }

    fn probes(&self) -> Vec<String> {
        let by_id = if self.by_k { "ii" } else { "PRIMARY" };
        let mut probes = Vec::new();
        for n in 0..KEYS {
            probes.push(format!("SELECT v FROM t FORCE INDEX ({by_id}) WHERE id = {n} FOR UPDATE"));
            probes.push(format!("SELECT v FROM t FORCE INDEX ({by_id}) WHERE id = {n} LOCK IN SHARE MODE"));
            probes.push(format!("INSERT INTO t VALUES ({n}, {ELSEWHERE}, NULL, 0)"));
            // Below and above all entries that are there.
            probes.push(format!("INSERT INTO t VALUES ({}, {n}, NULL, 0)", 700 + n));
            probes.push(format!("INSERT INTO t VALUES (-{}, {n}, NULL, 0)", 700 + n));
        }
        for n in (0..KEYS).filter(|_| self.has_child) {
            probes.push(format!("SELECT id FROM c WHERE id = {n} FOR UPDATE"));
            probes.push(format!("SELECT id FROM c WHERE id = {n} LOCK IN SHARE MODE"));
            probes.push(format!("SELECT p FROM c FORCE INDEX (pp) WHERE p = {n} LOCK IN SHARE MODE"));
            probes.push(format!("INSERT INTO c VALUES ({n}, NULL)"));
            probes.push(format!("INSERT INTO c VALUES ({}, {n})", 700 + n));
            probes.push(format!("INSERT INTO c VALUES (-{}, {n})", 700 + n));
        }
        for (column, index) in &self.indexes {
            let name = column.name();
            for n in 0..KEYS {
                if *column != Column::Id {
                    let entry = format!("SELECT {name} FROM t FORCE INDEX ({index}) WHERE {name} = {n}");
                    probes.push(format!("{entry} LOCK IN SHARE MODE"));
                }
                if *column == Column::U {
                    probes.push(format!("INSERT INTO t VALUES ({}, {ELSEWHERE}, {n}, 0)", 700 + n));
                }
            }
        }
        probes
    }
}
