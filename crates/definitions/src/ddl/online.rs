//! Building beside a table that others go on using.
//!
//! A definition owns its table only for moments: at the start, when it takes the snapshot that it builds from and begins to
//! watch which rows others write ([`Watch`]), and at the end, when the definition changes. In between it leaves the table to
//! readers and, where what it builds can follow, to writers. What they write is brought into the new trees in rounds: each
//! takes a later snapshot, compares the rows that were written in both, and takes out and puts in what differs; the last
//! round, with the table owned again, has little left to do.
//!
//! 1. A unique key is held against the rows of a snapshot: rows that are duplicates only until the writer's next statement
//!    end the definition with 1062, as in InnoDB. So does what cannot be converted, with its error.
//! 2. All entries of a round are taken out before others are put in: rows may have exchanged their keys.
//! 3. A row whose newest version a round's snapshot does not see yet is looked at again in the next one.

use std::collections::BTreeSet;
use std::time::Duration;

use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_context::engine_error;
use keel_context::mdl::Owned;
use keel_exec::home::Home;
use keel_exec::session::Session;
use keel_storage::runtime::fiber;
use keel_storage::{Read, Txn, TxnOptions, Watch};

use super::algorithm::{self, Lock};
use super::alter::Alteration;

/// Rows written between two commits while trees are filled.
pub(super) const BATCH_ROWS: u64 = 4096;
/// So few written rows are left to the round for which the table is owned.
const FEW: usize = 500;
/// Rounds after which the rest is left to that round, however much it is: writers outrun the builder.
const ROUNDS_MAX: usize = 20;
/// How long the last round waits for commits that are not durable yet, and how often.
const DURABLE_WAIT: Duration = Duration::from_millis(1);
const DURABLE_WAITS_MAX: usize = 10_000;

/// What others may do with a table while something is built from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Openness {
    Nothing,
    Reads,
    Writes,
}

impl Openness {
    /// What an alteration allows that copies the rows or builds indexes from them, under its words and the locks it has.
    pub fn of(
        session: &Session,
        table: &TableDef,
        alteration: &Alteration,
        copies: bool,
        owned: &Owned,
    ) -> Openness {
        let words = &alteration.words;
        let lock = algorithm::lock_of(&words.actions, words.online);
        let checks_parents = !alteration.new_foreign_keys.is_empty() && session.vars.foreign_key_checks;
        let is_sequence = table.is_sequence() || alteration.record.options.is_sequence();
        if table.is_temporary()
            || owned.len() != 1
            || is_sequence
            || checks_parents
            || lock == Lock::Exclusive
        {
            Openness::Nothing
        } else if lock == Lock::Shared
            || words.told_to_copy
            || words.ignore
            || copies && !can_follow(table, alteration)
        {
            Openness::Reads
        } else {
            Openness::Writes
        }
    }
}

/// Whether the copy of an old row can be found again, by the number that it keeps or by a key that is made of its columns, and
/// may be made again. Rows that are counted get their number once.
fn can_follow(table: &TableDef, alteration: &Alteration) -> bool {
    let record = &alteration.record;
    let mut columns = record.columns.iter().zip(&alteration.column_origin);
    let counts = |place: usize| table.columns[place].auto_increment;
    if columns.any(|(column, origin)| column.auto_increment && !origin.is_some_and(counts)) {
        return false;
    }
    let Some(clustered) = record.clustered() else { return table.clustered.is_none() };
    record.indexes[clustered].parts.iter().all(|part| {
        alteration.column_origin[part.column].is_some() && record.columns[part.column].generated.is_none()
    })
}

/// New trees that follow the rows of a table.
pub(super) trait Follow {
    /// The name of what is built, for errors.
    fn name(&self) -> &str;

    /// Takes out what the row `old` at `key` has brought in. `new` is what the row is now, if it is.
    fn take_out(
        &mut self,
        session: &mut Session,
        txn: &mut Txn,
        key: &[u8],
        old: &[u8],
        new: Option<&[u8]>,
    ) -> SqlResult<()>;

    /// Puts in what the row `new` at `key` brings; `old` is what it was, taken out before.
    fn put_in(
        &mut self,
        session: &mut Session,
        txn: &mut Txn,
        key: &[u8],
        old: Option<&[u8]>,
        new: &[u8],
    ) -> SqlResult<()>;
}

/// The rows of a table that something is built from.
pub(super) struct Building<'b> {
    database: &'b Home,
    source: &'b TableDef,
    owned: &'b Owned,
    openness: Openness,
    /// How long the table is waited for at the end.
    patience: Duration,
    /// The new trees show its snapshot.
    pub reading: Txn,
    watch: Option<Watch>,
    /// Keys of rows with versions that the snapshot of `reading` does not see.
    late: BTreeSet<Box<[u8]>>,
}

impl<'b> Building<'b> {
    /// Takes the snapshot and leaves the table, which is owned, to others.
    pub fn begin(
        database: &'b Home,
        session: &Session,
        source: &'b TableDef,
        owned: &'b Owned,
        openness: Openness,
        patience: Duration,
    ) -> Building<'b> {
        let mut reading = database.engine().begin(quiet(session));
        reading.take_snapshot();
        let limit = usize::try_from(database.online_log_max()).unwrap_or(usize::MAX);
        let watch = (openness == Openness::Writes).then(|| Watch::new(source.rows(), limit));
        if openness != Openness::Nothing {
            owned.lower(openness == Openness::Writes);
        }
        Building { database, source, owned, openness, patience, reading, watch, late: BTreeSet::new() }
    }

    /// Brings what was built up to now, and keeps the table from others again. Waits for all who use it.
    pub fn finish(mut self, session: &mut Session, follower: &mut dyn Follow) -> SqlResult<()> {
        let backlog = |building: &Building<'_>| building.watch.as_ref().map_or(0, Watch::len);
        for _ in 0..ROUNDS_MAX {
            if backlog(&self) <= FEW {
                break;
            }
            self.catch_up(session, follower)?;
        }
        if self.openness != Openness::Nothing {
            self.owned.regain(session, self.patience)?;
        }
        // Whoever has left the table has committed, but a snapshot sees only what is durable.
        for _ in 0..DURABLE_WAITS_MAX {
            self.catch_up(session, follower)?;
            if self.late.is_empty() {
                return self.reading.rollback().map_err(engine_error);
            }
            fiber::sleep(DURABLE_WAIT);
        }
        Err(errors::lock_wait_timeout())
    }

    /// One round: from the snapshot of `reading` to a new one.
    fn catch_up(&mut self, session: &mut Session, follower: &mut dyn Follow) -> SqlResult<()> {
        let Some(watch) = self.watch.take() else { return Ok(()) };
        let caught_up = self.follow_watched(session, follower, &watch);
        self.watch = Some(watch);
        caught_up
    }

    fn follow_watched(
        &mut self,
        session: &mut Session,
        follower: &mut dyn Follow,
        watch: &Watch,
    ) -> SqlResult<()> {
        let mut now = self.database.engine().begin(quiet(session));
        // First the snapshot, then the keys: what it sees is named by them.
        now.take_snapshot();
        let taken = watch.take().ok_or_else(|| errors::innodb_online_log_too_big(follower.name()))?;
        let mut keys = std::mem::take(&mut self.late);
        keys.extend(taken);
        if keys.is_empty() {
            return Ok(());
        }
        let mut writing = Writing::begin(self.database, session);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut changed = Vec::new();
        for key in keys {
            session.let_others_run()?;
            let was = self.read(&key, &mut old)?;
            let is = read_row(&mut now, self.source, &key, &mut new)?;
            if !watch.is_seen(&mut now, &key).map_err(engine_error)? {
                self.late.insert(key.clone());
            }
            if (was, &old) == (is, &new) {
                continue;
            }
            if was {
                follower.take_out(session, &mut writing.txn, &key, &old, is.then_some(&new))?;
            }
            changed.push(key);
            writing.count(session)?;
        }
        // A transaction that writes on and on leaves more of them each round.
        if !watch.bears(self.late.iter().map(|key| &**key)) {
            return Err(errors::innodb_online_log_too_big(follower.name()));
        }
        for key in changed {
            session.let_others_run()?;
            let was = self.read(&key, &mut old)?;
            if read_row(&mut now, self.source, &key, &mut new)? {
                follower.put_in(session, &mut writing.txn, &key, was.then_some(&old), &new)?;
            }
            writing.count(session)?;
        }
        writing.txn.commit().map_err(engine_error)?;
        std::mem::replace(&mut self.reading, now).rollback().map_err(engine_error)
    }

    fn read(&mut self, key: &[u8], out: &mut Vec<u8>) -> SqlResult<bool> {
        read_row(&mut self.reading, self.source, key, out)
    }
}

/// Reads a row as `txn` sees it; `out` is empty where it is not there.
fn read_row(txn: &mut Txn, table: &TableDef, key: &[u8], out: &mut Vec<u8>) -> SqlResult<bool> {
    out.clear();
    let found = txn.get(table.rows(), key, Read::Snapshot, |row| out.extend_from_slice(row));
    Ok(found.map_err(engine_error)?.is_some())
}

/// A transaction that fills new trees, and is committed every so many rows: the undo log stays short.
pub(super) struct Writing<'d> {
    database: &'d Home,
    pub txn: Txn,
    rows: u64,
}

impl Writing<'_> {
    pub fn begin<'d>(database: &'d Home, session: &Session) -> Writing<'d> {
        Writing { database, txn: database.engine().begin(quiet(session)), rows: 0 }
    }

    /// A row more was written.
    pub fn count(&mut self, session: &Session) -> SqlResult<()> {
        self.rows += 1;
        if self.rows.is_multiple_of(BATCH_ROWS) {
            session.check_interrupt()?;
            self.txn.commit().map_err(engine_error)?;
            self.txn = self.database.engine().begin(quiet(session));
        }
        Ok(())
    }
}

/// A transaction that ends when its session is told to.
pub(super) fn quiet(session: &Session) -> TxnOptions {
    TxnOptions { interrupt: Some(session.interrupt.engine().clone()), ..TxnOptions::default() }
}
