//! Sessions that make a history: random transactions over lists, through any client.

use super::{Element, End, Key, Level, Lists, Op, Recorder, Step, Transaction};
use crate::Random;
use crate::client::{Client, Reply};

/// Why a statement gave no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The server answered with this error.
    Refused(u16),
    /// The connection is lost.
    Lost,
}

/// A session of any server.
pub trait Session {
    /// Runs a statement; its rows as text, none for those that return none.
    fn run(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Failure>;
}

impl Session for Client {
    fn run(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Failure> {
        match self.one(sql) {
            Ok(Reply::Error { code, .. }) => Err(Failure::Refused(code)),
            Ok(reply) => Ok(reply.strings()),
            Err(_) => Err(Failure::Lost),
        }
    }
}

/// Statements that make the table, in the session's database.
pub const TABLE: &str =
    "CREATE TABLE list (k INT PRIMARY KEY, part INT NOT NULL, v MEDIUMTEXT NOT NULL, KEY (part))";

/// Keys in use at a time.
const KEYS: u64 = 8;
/// Elements after which the next key comes into use.
const ELEMENTS_PER_KEY: u64 = 24;
/// Values of `part`.
const PARTS: u32 = 3;

/// What a session does.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Its number.
    pub session: usize,
    /// The level of its transactions.
    pub level: Level,
    /// How many transactions.
    pub transactions: usize,
    /// Decides everything.
    pub seed: u64,
}

/// Why a transaction ends before its time.
enum Stop {
    /// The server refused a statement, so the rest is rolled back.
    Refused,
    Lost,
}

/// One transaction on its way.
struct Running<'r, S> {
    session: &'r mut S,
    recorder: &'r Recorder,
    random: &'r mut Random,
    plan: &'r Plan,
    began: u64,
    /// One statement without BEGIN.
    alone: bool,
    steps: Vec<Step>,
}

/// Runs the plan; false if the connection was lost.
pub fn run<S: Session>(session: &mut S, recorder: &Recorder, plan: Plan) -> bool {
    let mut random = Random::new(plan.seed);
    if session.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", plan.level.sql())).is_err() {
        return false;
    }
    for _ in 0..plan.transactions {
        if !transaction(session, recorder, &plan, &mut random) {
            return false;
        }
    }
    true
}

/// All lists as they are; nobody may write meanwhile.
pub fn last<S: Session>(session: &mut S) -> Result<Lists, Failure> {
    lists_of(session.run("SELECT k, v FROM list")?)
}

fn transaction<S: Session>(session: &mut S, recorder: &Recorder, plan: &Plan, random: &mut Random) -> bool {
    let began = recorder.now();
    let alone = random.below(6) == 0;
    let mut running = Running { session, recorder, random, plan, began, alone, steps: Vec::new() };
    let result = if alone { running.step() } else { running.several() };
    let ending = recorder.now();
    let (end, goes_on) = match result {
        // Whose commit was not asked for is not committed.
        Err(Stop::Lost) => (if alone { End::Unknown } else { End::Aborted }, false),
        // Of a statement alone nothing is left.
        Err(Stop::Refused) if alone => (End::Aborted, true),
        Err(Stop::Refused) => running.finish("ROLLBACK"),
        Ok(()) if alone => (End::Committed, true),
        Ok(()) if running.random.below(8) == 0 => running.finish("ROLLBACK"),
        Ok(()) => running.finish("COMMIT"),
    };
    let steps = running.steps;
    // A statement alone asks for its end with its beginning.
    let ending = if alone { steps.first().map_or(began, |step| step.sent) } else { ending };
    let ended = recorder.now();
    recorder.keep(Transaction { session: plan.session, steps, began, ending, ended, end });
    goes_on
}

impl<S: Session> Running<'_, S> {
    fn several(&mut self) -> Result<(), Stop> {
        if self.plan.level == Level::RepeatableRead && self.random.below(5) == 0 {
            self.note(Op::Snapshot, "START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        } else {
            self.rows("BEGIN")?;
        }
        for _ in 0..1 + self.random.below(5) {
            match self.random.below(12) {
                // To return to where nothing was done is to begin anew, with another snapshot.
                0 if !self.steps.is_empty() => self.undone()?,
                _ => self.step()?,
            }
        }
        Ok(())
    }

    /// Ends the transaction; how, and whether the session goes on. An error of COMMIT leaves its outcome open.
    fn finish(&mut self, sql: &str) -> (End, bool) {
        self.tell(if sql == "COMMIT" { End::Unknown } else { End::Aborted });
        match (self.session.run(sql), sql) {
            (Ok(_), "COMMIT") => (End::Committed, true),
            (Ok(_), _) => (End::Aborted, true),
            (Err(failure), "COMMIT") => (End::Unknown, failure != Failure::Lost),
            (Err(failure), _) => (End::Aborted, failure != Failure::Lost),
        }
    }

    /// Tells the recorder what to think of this if nothing more is heard of it.
    fn tell(&self, end: End) {
        let ending = if self.alone { self.began } else { self.recorder.now() };
        self.recorder.note(Transaction {
            session: self.plan.session,
            steps: self.steps.clone(),
            began: self.began,
            ending,
            ended: u64::MAX,
            end,
        });
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, Stop> {
        self.session.run(sql).map_err(|failure| match failure {
            Failure::Refused(_) => Stop::Refused,
            Failure::Lost => Stop::Lost,
        })
    }

    fn note(&mut self, op: Op, sql: &str) -> Result<(), Stop> {
        let sent = self.recorder.now();
        // Appends of a statement whose answer is lost may be there: they are kept before it is known.
        let appends = matches!(op, Op::Append(..));
        if appends {
            self.steps.push(Step { op: op.clone(), sent, answered: u64::MAX });
            self.tell(if self.alone { End::Unknown } else { End::Aborted });
        }
        let result = self.rows(sql);
        let answered = self.recorder.now();
        if appends {
            match &result {
                Err(Stop::Refused) => drop(self.steps.pop()),
                _ => self.steps.last_mut().expect("just pushed").answered = answered,
            }
        } else if result.is_ok() {
            self.steps.push(Step { op, sent, answered });
        }
        result.map(drop)
    }

    /// A key in use: they change in the course of time, so that lists stay short.
    fn key(&mut self) -> Key {
        let first = self.recorder.element_count() / ELEMENTS_PER_KEY;
        (first + self.random.below(KEYS)) as Key
    }

    fn step(&mut self) -> Result<(), Stop> {
        match self.random.below(10) {
            0..4 => self.append().map(drop),
            4..7 => self.read(),
            7 => self.read_part(),
            _ => self.lock(),
        }
    }

    fn append(&mut self) -> Result<(Vec<Key>, Element), Stop> {
        let mut keys = vec![self.key()];
        if self.random.below(4) == 0 {
            let other = self.key();
            if other != keys[0] {
                keys.push(other);
            }
        }
        let element = self.recorder.element();
        // Long values now and then, which the row does not hold itself.
        let values: Vec<String> =
            keys.iter().map(|key| format!("({key}, {}, '{element},')", key % PARTS)).collect();
        let sql = format!(
            "INSERT INTO list VALUES {} ON DUPLICATE KEY UPDATE v = CONCAT(v, '{element},')",
            values.join(", ")
        );
        self.note(Op::Append(keys.clone(), element), &sql)?;
        Ok((keys, element))
    }

    /// Appends and takes it back.
    fn undone(&mut self) -> Result<(), Stop> {
        self.rows("SAVEPOINT s")?;
        let (keys, element) = self.append()?;
        if self.random.below(2) == 0 {
            self.read()?;
        }
        let undone = keys.into_iter().map(|key| (key, element)).collect();
        self.note(Op::Undo(undone), "ROLLBACK TO SAVEPOINT s")
    }

    /// A key, or a range of them; the condition and what it asks for.
    fn range(&mut self) -> (String, Vec<Key>) {
        let low = self.key();
        match self.random.below(3) {
            0 => (format!("k = {low}"), vec![low]),
            _ => {
                let high = low + self.random.below(4) as Key;
                (format!("k BETWEEN {low} AND {high}"), (low..=high).collect())
            }
        }
    }

    fn select(&mut self, sql: &str, keys: &[Key]) -> Result<(Lists, u64, u64), Stop> {
        let sent = self.recorder.now();
        let rows = self.rows(sql)?;
        let answered = self.recorder.now();
        let mut lists: Lists = keys.iter().map(|key| (*key, Vec::new())).collect();
        lists.extend(lists_of(rows).map_err(|_| Stop::Refused)?);
        Ok((lists, sent, answered))
    }

    fn read(&mut self) -> Result<(), Stop> {
        let (condition, keys) = self.range();
        let (lists, sent, answered) =
            self.select(&format!("SELECT k, v FROM list WHERE {condition}"), &keys)?;
        self.steps.push(Step { op: Op::Read(lists), sent, answered });
        Ok(())
    }

    /// All keys of a part, by the other index.
    fn read_part(&mut self) -> Result<(), Stop> {
        let part = self.random.below(u64::from(PARTS)) as u32;
        let first = (self.recorder.element_count() / ELEMENTS_PER_KEY) as Key;
        let keys: Vec<Key> = (0..first + KEYS as Key).filter(|key| key % PARTS == part).collect();
        let sql = format!("SELECT k, v FROM list FORCE INDEX (part) WHERE part = {part}");
        let (lists, sent, answered) = self.select(&sql, &keys)?;
        self.steps.push(Step { op: Op::Read(lists), sent, answered });
        Ok(())
    }

    fn lock(&mut self) -> Result<(), Stop> {
        let (condition, keys) = self.range();
        let how = if self.random.below(2) == 0 { "FOR UPDATE" } else { "LOCK IN SHARE MODE" };
        let sql = format!("SELECT k, v FROM list WHERE {condition} {how}");
        let (lists, sent, answered) = self.select(&sql, &keys)?;
        let gaps = matches!(self.plan.level, Level::RepeatableRead | Level::Serializable);
        self.steps.push(Step { op: Op::Lock { lists, gaps }, sent, answered });
        Ok(())
    }
}

fn lists_of(rows: Vec<Vec<String>>) -> Result<Lists, Failure> {
    let list = |row: &Vec<String>| {
        let [key, text] = &row[..] else { return None };
        let elements = text.split_terminator(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some((key.parse().ok()?, elements))
    };
    rows.iter().map(list).collect::<Option<_>>().ok_or(Failure::Lost)
}
