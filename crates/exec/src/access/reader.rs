//! Running an access path: rows of one table, one at a time, into a slot of the frame.
//!
//! A reader is made once per execution and opened for each combination of enclosing rows; its buffers stay. It holds no
//! latch between calls. Rows reached through an index that does not cover the statement are fetched by their clustered
//! key in the same read mode, so that locking reads lock entry and row; where conditions are asked of entries first, the caller
//! has them fetched.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::row_entries::clustered_key;
use keel_catalog::{Holds, KeyRange};
use keel_context::statement_counts::HandlerCounts;
use keel_sql::ast::{LockClause, LockWait};
use keel_storage::{Isolation, LockMode, RangeEnd, Read, Scan, Txn, Wait};
use keel_value::Value;
use keel_value::row::Layout;

use super::bounds::{self, Point, Reading};
use super::sieve::Sieve;
use super::{AccessPath, PartCondition};
use crate::catalog::{IndexDef, TableDef};
use crate::expr::{EvalContext, Expr, Frame, RowSlot, walk};
use crate::series::Rest;
use crate::session::Session;
use crate::sort::{Distinct, RowCursor, RowList};
use crate::{engine_error, sequence};

/// How a statement reads.
pub type ReadMode = Read;

/// How the session's plain or locking SELECT reads.
pub fn read_mode(session: &Session, lock: Option<&LockClause>) -> Read {
    let Some(lock) = lock else { return plain_read(session) };
    let mode = if lock.update { LockMode::Exclusive } else { LockMode::Shared };
    let wait = match &lock.wait {
        None => Wait::Default,
        Some(LockWait::NoWait) => Wait::NoWait,
        Some(LockWait::Wait(seconds)) => Wait::Timeout(std::time::Duration::from_secs(*seconds)),
        Some(LockWait::SkipLocked) => Wait::SkipLocked,
    };
    Read::Lock(mode, wait)
}

/// A SELECT without lock clause: under SERIALIZABLE it locks, unless it is a transaction of its own; as a part of a
/// statement that changes rows it locks where gaps are locked, so that what was written follows from what stays.
pub fn plain_read(session: &Session) -> Read {
    let serializable = session.txn.as_ref().is_some_and(|t| t.isolation() == Isolation::Serializable);
    if session.locks_reads || serializable && session.in_transaction() {
        Read::FOR_SHARE
    } else {
        Read::Snapshot
    }
}

/// Where the next row comes from.
enum ReaderState {
    /// Nothing more.
    End,
    /// The row at `key`, if it is there.
    Point,
    /// The rest of `scan`, then `ranges` from `next`.
    Ranges { scan: Option<Scan>, next: usize, reverse: bool },
    /// The rows of a union that memory did not tell from others, by their clustered keys.
    SetAside(RowCursor),
    /// Rows that the host made, or a sequence's.
    Virtual(std::vec::IntoIter<Vec<Value>>),
    /// Numbers that no table holds: what is left of a range, then the ranges from `next` on.
    Series { rest: Rest, next: usize, reverse: bool },
}

/// One way of a union.
struct Branch {
    /// Position of the index.
    index: usize,
    ranges: Vec<KeyRange>,
}

/// Rows of one table along an access path.
pub struct TableReader {
    table: Arc<TableDef>,
    path: Arc<AccessPath>,
    /// Position of the index, where it is not the clustered key.
    secondary: Option<usize>,
    /// The index's entries hold all that is needed.
    suffices: bool,
    /// They are all that is read.
    covering: bool,
    /// What [`TableReader::next`] gives of an index are its entries; [`TableReader::fetch`] reads their rows.
    by_entry: bool,
    /// The slot holds an entry.
    at_entry: bool,
    /// Entries given since it was opened, and those whose rows were read then.
    entries_given: u64,
    rows_fetched: u64,
    read: Read,
    state: ReaderState,
    ranges: Vec<KeyRange>,
    /// Pages where the next ranges begin.
    ranges_ahead: Ahead,
    /// Pages of the rows that the next entries of an index name.
    rows_ahead: Ahead,
    /// Rows that may be all that will be asked for.
    wanted: u64,
    /// The ways of a union, and which of them is read; its ranges are in `ranges` then.
    branches: Vec<Branch>,
    branch: usize,
    /// The clustered keys that the union gave, where its rows may change meanwhile.
    given: Option<Distinct>,
    /// Key of a point.
    key: Vec<u8>,
    /// Clustered key of the current row.
    primary: Vec<u8>,
    exact: bool,
    /// The rows are to be changed.
    changes: bool,
    /// Rows come with their hidden numbers, behind the columns.
    numbered: bool,
    /// Something is to be done with each row: it gets its number, or counts for LIMIT ROWS EXAMINED.
    watched: bool,
    /// Locked rows are looked at as last committed, where the isolation level lets them be.
    semi_consistent: bool,
    /// A scan that is over, for its buffers.
    spare: Option<Scan>,
    /// The whole of the range a part of which is read from its end.
    turned: Option<KeyRange>,
    /// What rows must pass before they are copied.
    sieve: Option<Sieve>,
    /// Rows that it has kept back.
    passed_over: u64,
    /// Rows to come before it is worth while to ask for one.
    rows_to_sieve: u32,
}

/// When a reader that knows where in a tree it will go reads pages of its next places together: behind those for which it has
/// done so; where the first of them was in memory, after 1, 2, 4 and up to [`PLACES_AHEAD`] others.
#[derive(Default)]
struct Ahead {
    /// Places it came to.
    come: usize,
    /// The place where it looks.
    due: usize,
    step: usize,
}

/// Places for which pages are read together.
const PLACES_AHEAD: usize = 16;

impl Ahead {
    /// It comes to the next place; whether it is to look from there on.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.come += 1;
        self.come > self.due
    }

    /// Places from this one on for which pages may be read, where so many may be all: as many as are left, or more once it is known
    /// that these were not all.
    fn places(&self, wanted: u64) -> usize {
        let left = wanted.saturating_sub(self.come as u64 - 1);
        if left == 0 { PLACES_AHEAD } else { left.min(PLACES_AHEAD as u64) as usize }
    }

    /// It has looked, and read the pages of so many places.
    fn looked(&mut self, places: usize) {
        self.step = if places > 0 { 1 } else { (2 * self.step).clamp(1, PLACES_AHEAD) };
        self.due = self.come - 1 + places.max(self.step);
    }
}

/// A range of fewer rows takes no sieve: making it costs more than it saves.
const ROWS_TO_SIEVE: u32 = 8;

impl TableReader {
    /// A reader that is not open yet.
    pub fn new(table: &Arc<TableDef>, path: &Arc<AccessPath>, covering: bool, read: Read) -> TableReader {
        let secondary = super::path_index(path).filter(|i| table.clustered != Some(*i));
        TableReader {
            table: table.clone(),
            path: path.clone(),
            secondary,
            suffices: covering && secondary.is_some(),
            covering: covering && secondary.is_some() && !is_exclusive(read),
            by_entry: false,
            at_entry: false,
            entries_given: 0,
            rows_fetched: 0,
            read,
            state: ReaderState::End,
            ranges: Vec::new(),
            ranges_ahead: Ahead::default(),
            rows_ahead: Ahead::default(),
            wanted: u64::MAX,
            branches: Vec::new(),
            branch: 0,
            given: None,
            key: Vec::new(),
            primary: Vec::new(),
            exact: true,
            changes: false,
            numbered: false,
            watched: false,
            semi_consistent: false,
            spare: None,
            turned: None,
            sieve: None,
            passed_over: 0,
            rows_to_sieve: 0,
        }
    }

    /// The same for one that gives entries of the index first ([`TableReader::is_at_entry`]), so that their rows need not be
    /// read, nor locked, where a condition on the entry does not hold. Not where a locking read goes down: InnoDB reads the
    /// rows then, and locks them.
    pub fn by_entry(mut self, by_entry: bool) -> TableReader {
        let locks_downwards =
            self.read != Read::Snapshot && matches!(&*self.path, AccessPath::Ranges { reverse: true, .. });
        self.by_entry = by_entry && self.secondary.is_some() && !self.covering && !locks_downwards;
        self
    }

    /// The same for rows that are to be changed.
    pub fn for_change(mut self) -> TableReader {
        self.changes = true;
        self
    }

    /// The same with the hidden row numbers behind the columns, where they are asked for.
    pub fn numbered(mut self, numbered: bool) -> TableReader {
        self.numbered = numbered;
        self
    }

    /// Says that so many rows may be all that will be asked for: no pages are read for more.
    pub fn want(&mut self, rows: u64) {
        self.wanted = rows;
    }

    /// Begins again with the values that the frame holds now.
    pub fn open(&mut self, session: &mut Session, frame: Frame<'_>) -> SqlResult<()> {
        self.exact = true;
        session.current_row = 0;
        self.ranges_ahead = Ahead::default();
        self.rows_ahead = Ahead::default();
        (self.entries_given, self.rows_fetched) = (0, 0);
        self.sieve = None;
        self.turned = None;
        self.rows_to_sieve = 0;
        if let ReaderState::Ranges { scan: scan @ Some(_), .. } = &mut self.state {
            self.spare = scan.take();
        }
        if self.read != Read::Snapshot {
            self.check_current(session)?;
        }
        let locking = self.read != Read::Snapshot;
        self.watched = self.numbered || session.examined.most.is_some();
        self.state = match &*self.path {
            AccessPath::Empty => ReaderState::End,
            AccessPath::Virtual(sought, read) => {
                session.no_index_used = true;
                if self.table.is_sequence() {
                    let row = sequence::values(session, &self.table)?.row();
                    self.state = ReaderState::Virtual(vec![row].into_iter());
                    return Ok(());
                }
                let host = session.host.clone();
                let mut wanted = Vec::with_capacity(sought.len());
                for (column, value) in sought {
                    let value = value.eval(&mut EvalContext::new(session, frame))?.into_value();
                    wanted.push((*column, value));
                }
                let rows = host.virtual_rows(session, &self.table, &wanted, read.as_deref())?;
                session.examined.add(rows.len() as u64)?;
                ReaderState::Virtual(rows.into_iter())
            }
            AccessPath::Scan { reverse, .. } => {
                session.no_index_used = true;
                self.ranges.clear();
                self.ranges.push(KeyRange::default());
                ReaderState::Ranges { scan: None, next: 0, reverse: *reverse }
            }
            AccessPath::Ranges { index, alternatives, reverse } => {
                let index = &self.table.indexes[*index];
                // Upwards nothing lies between neighbouring rows of the clustered index.
                let apart = locking && (self.secondary.is_some() || *reverse);
                let reading = Reading { locking, apart };
                self.exact = bounds::ranges(index, alternatives, reading, session, frame, &mut self.ranges)?;
                if *reverse {
                    self.ranges.reverse();
                }
                ReaderState::Ranges { scan: None, next: 0, reverse: *reverse }
            }
            AccessPath::Union(branches) => {
                self.branches.clear();
                for (position, alternatives) in branches {
                    let mut ranges = Vec::new();
                    let index = &self.table.indexes[*position];
                    let reading = Reading { locking, apart: locking };
                    bounds::ranges(index, alternatives, reading, session, frame, &mut ranges)?;
                    self.branches.push(Branch { index: *position, ranges });
                }
                self.enter_branch(0);
                self.given = rows_may_change(self.read, session)
                    .then(|| Distinct::new(session.vars.tmp_room(), session.work()));
                ReaderState::Ranges { scan: None, next: 0, reverse: false }
            }
            AccessPath::Point { index, key } => {
                let index = &self.table.indexes[*index];
                let point = bounds::encode_point(index, key, session, frame, &mut self.key)?;
                self.exact = point != Point::Near;
                match point {
                    Point::Nothing => ReaderState::End,
                    Point::At | Point::Near if self.secondary.is_none() => ReaderState::Point,
                    Point::At | Point::Near => {
                        self.ranges.clear();
                        self.ranges.push(KeyRange { holds: Holds::Row, ..bounds::whole(self.key.clone()) });
                        ReaderState::Ranges { scan: None, next: 0, reverse: false }
                    }
                    Point::Unknown => {
                        self.exact = false;
                        self.ranges.clear();
                        self.ranges.push(KeyRange::default());
                        ReaderState::Ranges { scan: None, next: 0, reverse: false }
                    }
                }
            }
        };
        if self.table.series.is_some() {
            self.open_series();
        } else if matches!(self.state, ReaderState::Ranges { .. }) && self.branches.is_empty() {
            let sifts = self.secondary.is_none() && self.read == Read::Snapshot && !self.watched;
            self.rows_to_sieve = if sifts { ROWS_TO_SIEVE } else { 0 };
        }
        Ok(())
    }

    /// Whether it has given so many rows that conditions should be asked before they are copied; once.
    #[inline]
    pub(crate) fn wants_sieve(&mut self) -> bool {
        if self.rows_to_sieve == 0 {
            return false;
        }
        self.rows_to_sieve -= 1;
        self.rows_to_sieve == 0
    }

    /// Rows in `slot` that do not fulfil the first of `conditions` are passed over from now on, if those can be asked of
    /// stored rows ([`TableReader::fulfilled`]).
    #[cold]
    pub(crate) fn sift(&mut self, conditions: &[Expr], slot: u16, frame: &Frame<'_>) {
        self.sieve = Sieve::new(conditions, slot, &self.table.layout, frame);
    }

    /// How many of the conditions the row that `next` gave is known to fulfil.
    #[inline]
    pub(crate) fn fulfilled(&self) -> usize {
        match (&self.sieve, &self.state) {
            (Some(sieve), ReaderState::Ranges { scan: Some(scan), .. }) if scan.is_sifted() => {
                sieve.conditions
            }
            _ => 0,
        }
    }

    /// 1412 where rows are to be locked of a table or by an index that is younger than the transaction's snapshot.
    fn check_current(&self, session: &Session) -> SqlResult<()> {
        let (Some(txn), Some(rows)) = (&session.txn, &self.table.tree) else { return Ok(()) };
        let index = self.secondary.map(|index| self.table.indexes[index].entries());
        [Some(rows), index]
            .into_iter()
            .flatten()
            .try_for_each(|tree| txn.check_current(tree))
            .map_err(engine_error)
    }

    /// Reads numbers where a table would be read.
    fn open_series(&mut self) {
        let reverse = match &self.state {
            ReaderState::Point => {
                self.ranges.clear();
                self.ranges.push(bounds::whole(self.key.clone()));
                false
            }
            ReaderState::Ranges { reverse, .. } => *reverse,
            _ => return,
        };
        self.state = ReaderState::Series { rest: Rest::default(), next: 0, reverse };
    }

    /// The next number of the ranges.
    fn next_number(&mut self) -> Option<u64> {
        let ReaderState::Series { rest, next, reverse } = &mut self.state else { return None };
        let series = self.table.series.as_ref()?;
        loop {
            if let Some(number) = rest.next() {
                return Some(number);
            }
            *rest = series.within(self.ranges.get(*next)?, *reverse);
            *next += 1;
        }
    }

    /// Whether every row fulfils the predicates that the choice called exact.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Whether its keys, or what is left of them, find nothing: no range that could hold a row.
    pub fn is_over(&self) -> bool {
        match &self.state {
            ReaderState::End => true,
            ReaderState::Ranges { scan: None, next, .. } => {
                self.branches.is_empty() && *next >= self.ranges.len()
            }
            _ => false,
        }
    }

    /// The table read.
    pub fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    /// The clustered key of the row that `next` gave; not kept for covering and virtual reads.
    pub fn primary_key(&self) -> &[u8] {
        &self.primary
    }

    /// Whether the slot holds an entry of the index instead of its row.
    #[inline]
    pub fn is_at_entry(&self) -> bool {
        self.at_entry
    }

    /// Reads the row of the entry that [`TableReader::next`] gave; false if it is gone.
    pub fn fetch(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        self.at_entry = false;
        self.rows_fetched += 1;
        // Where most entries fulfil the conditions the rows of the next ones will be wanted too.
        if self.rows_ahead.is_due()
            && self.rows_fetched * 2 > self.entries_given
            && let ReaderState::Ranges { scan: Some(open), .. } = &self.state
            && let Some(index) = self.secondary.map(|i| &self.table.indexes[i])
        {
            look_at_rows(&mut self.rows_ahead, self.wanted, &self.table, index, (open, &self.primary));
        }
        fetch(&self.table, &self.primary, self.read, transaction(session), slot)
    }

    /// The next row, into `slot`; false at the end.
    pub fn next(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        if self.watched {
            return self.next_watched(session, slot);
        }
        self.next_row(session, slot)
    }

    /// The next row, which counts or is numbered.
    #[cold]
    fn next_watched(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        let before = session.handler.reads();
        // A row by constants is read before the statement runs, to MariaDB.
        let counts = !matches!(&*self.path, AccessPath::Point { key, .. } if key.iter().all(is_constant));
        let made = matches!(self.state, ReaderState::Virtual(_) | ReaderState::Series { .. });
        let found = match self.numbered {
            true => self.next_numbered(session, slot)?,
            false => self.next_row(session, slot)?,
        };
        if counts {
            session.examined.add(session.handler.reads() - before + u64::from(made))?;
        }
        Ok(found)
    }

    /// The next row with its number.
    fn next_numbered(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        if let RowSlot::Numbered { layout, bytes, .. } = slot {
            // The buffer is used again.
            let (layout, bytes) = (layout.clone(), std::mem::take(bytes));
            *slot = RowSlot::Stored { layout, map: None, bytes };
        }
        if !self.next_row(session, slot)? {
            return Ok(false);
        }
        let number = self.primary.as_slice().try_into().map(u64::from_be_bytes);
        match (number, std::mem::replace(slot, RowSlot::Null)) {
            (Ok(number), RowSlot::Stored { layout, map: None, bytes }) => {
                *slot = RowSlot::Numbered { layout, bytes, number };
                Ok(true)
            }
            _ => Err(errors::unknown_error(format!("a row of table '{}' has no number", self.table.name))),
        }
    }

    fn next_row(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        // Warnings about the row's values say which row it was.
        session.current_row += 1;
        self.at_entry = false;
        match &mut self.state {
            ReaderState::End => Ok(false),
            ReaderState::Virtual(rows) => match rows.next() {
                Some(row) => {
                    *slot = RowSlot::Values(row);
                    Ok(true)
                }
                None => Ok(false),
            },
            ReaderState::Series { .. } => match self.next_number() {
                Some(number) => {
                    session.let_others_run()?;
                    session.handler.rows_read += 1;
                    *slot = RowSlot::Values(vec![Value::UInt(number)]);
                    Ok(true)
                }
                None => Ok(false),
            },
            ReaderState::Point => {
                session.handler.read_key += 1;
                self.state = ReaderState::End;
                self.primary.clear();
                self.primary.extend_from_slice(&self.key);
                let found = fetch(&self.table, &self.key, self.read, transaction(session), slot)?;
                session.handler.rows_read += u64::from(found);
                Ok(found)
            }
            ReaderState::Ranges { .. } if self.branches.is_empty() => self.next_in_ranges(session, slot),
            ReaderState::Ranges { .. } => self.next_in_branches(session, slot),
            ReaderState::SetAside(_) => self.next_set_aside(session, slot),
        }
    }

    fn enter_branch(&mut self, number: usize) {
        self.branch = number;
        let branch = &mut self.branches[number];
        self.secondary = Some(branch.index).filter(|i| self.table.clustered != Some(*i));
        std::mem::swap(&mut self.ranges, &mut branch.ranges);
        self.ranges_ahead = Ahead::default();
    }

    fn next_in_branches(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        loop {
            while self.next_in_ranges(session, slot)? {
                if self.is_new(slot)? {
                    return Ok(true);
                }
            }
            std::mem::swap(&mut self.ranges, &mut self.branches[self.branch].ranges);
            if self.branch + 1 == self.branches.len() {
                return self.end_branches(session, slot);
            }
            self.enter_branch(self.branch + 1);
            self.state = ReaderState::Ranges { scan: None, next: 0, reverse: false };
        }
    }

    /// Whether no branch gave the row that was found, nor this one.
    fn is_new(&mut self, slot: &RowSlot) -> SqlResult<bool> {
        if self.is_unlocked() {
            // It comes again if it is wanted.
            return Ok(true);
        }
        let primary = &self.primary;
        match &mut self.given {
            Some(given) => given.is_new(primary, |out| out.extend_from_slice(primary)),
            None => Ok(!self.came_before(slot)),
        }
    }

    /// All branches are read: what is left are the rows that were set aside.
    fn end_branches(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        self.state = ReaderState::End;
        let Some(given) = self.given.take().filter(Distinct::has_rest) else { return Ok(false) };
        let mut kept = RowList::new(session.vars.tmp_room(), session.work());
        given.rest(&mut |primary| {
            kept.push(|out| out.extend_from_slice(primary))?;
            Ok(true)
        })?;
        self.state = ReaderState::SetAside(kept.finish()?);
        self.next_set_aside(session, slot)
    }

    fn next_set_aside(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        let ReaderState::SetAside(kept) = &mut self.state else { return Ok(false) };
        while let Some(primary) = kept.next_row()? {
            self.primary.clear();
            self.primary.extend_from_slice(primary);
            if fetch(&self.table, &self.primary, self.read, transaction(session), slot)? {
                return Ok(true);
            }
        }
        self.state = ReaderState::End;
        Ok(false)
    }

    /// Whether an earlier branch gave the row: its entry there lies in one of that branch's ranges, and did when that
    /// branch was read.
    fn came_before(&mut self, slot: &RowSlot) -> bool {
        let TableReader { table, branches, branch, key, primary, .. } = self;
        branches[..*branch].iter().any(|earlier| {
            key.clear();
            if table.clustered != Some(earlier.index) {
                table.indexes[earlier.index].encode_parts(|column| slot.get(column as u16), key);
            }
            key.extend_from_slice(primary);
            let after = earlier.ranges.partition_point(|range| range.lower <= *key);
            after > 0 && earlier.ranges[after - 1].upper.as_ref().is_none_or(|upper| *key < *upper)
        })
    }

    fn next_in_ranges(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        let whole = matches!(&*self.path, AccessPath::Scan { .. });
        let by_rows = whole && self.secondary.is_none();
        let counts = &mut session.handler;
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        let mut passed_over = 0;
        let found = self.advance(txn, slot, &mut |reverse, begins, steps| {
            passed_over += steps - 1;
            count(counts, (whole, by_rows), reverse, begins, steps);
        })?;
        session.handler.rows_read += u64::from(found) + passed_over;
        session.current_row += passed_over;
        self.passed_over += passed_over;
        Ok(found)
    }

    /// Rows that were passed over since this was asked last.
    #[inline]
    pub(crate) fn take_passed_over(&mut self) -> u64 {
        std::mem::take(&mut self.passed_over)
    }

    /// The next row; tells `asked` of the steps in a range, whether they go down, and whether they are the first there.
    fn advance(
        &mut self,
        txn: &mut Txn,
        slot: &mut RowSlot,
        asked: &mut impl FnMut(bool, bool, u64),
    ) -> SqlResult<bool> {
        let ReaderState::Ranges { scan, next, reverse } = &mut self.state else { return Ok(false) };
        let index = self.secondary.map(|i| &self.table.indexes[i]);
        let tree = index.map_or_else(|| self.table.rows(), IndexDef::entries);
        // Without a snapshot a row may have changed since its entry was read, or be about to lose it.
        let uncommitted = self.read == Read::Snapshot && txn.isolation() == Isolation::ReadUncommitted;
        loop {
            let begins = scan.is_none();
            if scan.is_none() {
                let Some(wanted) = self.ranges.get(*next) else { return Ok(false) };
                if self.ranges_ahead.is_due() && *next + 1 < self.ranges.len() {
                    let coming = self.ranges[*next..].iter().take(self.ranges_ahead.places(self.wanted));
                    let places = tree.read_ahead(coming.map(|range| range.lower.as_slice()));
                    self.ranges_ahead.looked(places);
                }
                *next += 1;
                // A single row is looked for in the same way from either side.
                let downwards = *reverse && wanted.holds != Holds::Row;
                let (range, read) = (wanted.as_scan(downwards), self.read);
                let opened = match self.spare.take() {
                    Some(spare) => txn.scan_again(spare, tree, range, read),
                    None => txn.scan(tree, range, read),
                };
                let mut opened = opened.map_err(engine_error)?;
                opened.set_end(range_end(wanted, downwards, &self.path));
                opened.set_behind(wanted.behind);
                opened.want(self.wanted);
                if self.semi_consistent && self.secondary.is_none() {
                    opened.set_semi_consistent();
                }
                *scan = Some(opened);
            }
            let open = scan.as_mut().expect("opened above");
            let Some(index) = index else {
                let layout = &self.table.layout;
                let next = match &self.sieve {
                    Some(sieve) => open.next_sifted(txn, &|row| sieve.passes(layout, row)),
                    None => open.next(txn),
                };
                let found = match next.map_err(engine_error)? {
                    Some((key, row)) => {
                        self.primary.clear();
                        self.primary.extend_from_slice(key);
                        fill(slot, layout, row);
                        true
                    }
                    None => false,
                };
                asked(*reverse, begins, 1 + open.take_passed_over());
                if found {
                    return Ok(true);
                }
                self.spare = scan.take();
                continue;
            };
            asked(*reverse, begins, 1);
            let Some((key, row, undecided)) = open.next_of_index(txn).map_err(engine_error)? else {
                if let Some(beyond) = open.take_beyond()
                    && reads_row_beyond(self.read, self.changes, self.suffices, *reverse)
                {
                    let primary = clustered_key(index, &beyond);
                    fetch(&self.table, primary, self.read, txn, &mut RowSlot::Null)?;
                }
                self.spare = scan.take();
                continue;
            };
            if undecided || uncommitted && !self.covering {
                self.primary.clear();
                self.primary.extend_from_slice(clustered_key(index, key));
                let found = fetch(&self.table, &self.primary, self.read, txn, slot)?;
                if found && has_entry(index, slot, key) {
                    return Ok(true);
                }
                continue;
            }
            if self.covering {
                slot.set_entry(&index.entry, key, row);
                return Ok(true);
            }
            self.primary.clear();
            self.primary.extend_from_slice(clustered_key(index, key));
            if self.by_entry {
                slot.set_entry(&index.entry, key, row);
                self.at_entry = true;
                self.entries_given += 1;
                return Ok(true);
            }
            if self.rows_ahead.is_due() {
                look_at_rows(&mut self.rows_ahead, self.wanted, &self.table, index, (open, &self.primary));
            }
            if fetch(&self.table, &self.primary, self.read, txn, slot)? {
                return Ok(true);
            }
        }
    }

    /// Whether entries may be left unread: of a snapshot, whose rows stay as they are, in an index's order.
    pub fn may_jump(&self, session: &Session) -> bool {
        let in_order =
            matches!(&self.state, ReaderState::Ranges { reverse: false, .. }) && self.branches.is_empty();
        in_order && self.read == Read::Snapshot && !rows_may_change(self.read, session)
    }

    /// Goes on behind all entries that are equal to the row in `slot`, the current one, in the first `parts` columns.
    pub fn jump_behind(&mut self, parts: usize, slot: &RowSlot) {
        let equal = self.equal_entries(parts, slot);
        let ReaderState::Ranges { scan, next, reverse } = &mut self.state else { return };
        self.spare = scan.take();
        *reverse = false;
        let range = &mut self.ranges[*next - 1];
        if let Some(whole) = self.turned.take() {
            *range = whole;
        }
        let within = |key: &Vec<u8>| range.upper.as_ref().is_none_or(|upper| key < upper);
        if let Some(behind) = equal.upper.filter(within) {
            range.lower = behind;
            *next -= 1;
        }
    }

    /// Turns round at the last of the entries that are equal to the row in `slot`, the current one, in the first `parts`
    /// columns: that will be the next row, and [`TableReader::jump_behind`] turns back.
    pub fn turn_at_last(&mut self, parts: usize, slot: &RowSlot) {
        let mut equal = self.equal_entries(parts, slot);
        let ReaderState::Ranges { scan, next, reverse } = &mut self.state else { return };
        self.spare = scan.take();
        *reverse = true;
        *next -= 1;
        let range = &mut self.ranges[*next];
        if equal.lower < range.lower {
            equal.lower.clone_from(&range.lower);
        }
        equal.upper = match (equal.upper, &range.upper) {
            (Some(own), Some(upper)) => Some(own.min(upper.clone())),
            (own, upper) => own.or_else(|| upper.clone()),
        };
        self.turned = Some(std::mem::replace(range, equal));
    }

    /// The range of the entries that are equal to the row in `slot` in the first `parts` columns.
    fn equal_entries(&self, parts: usize, slot: &RowSlot) -> KeyRange {
        let index = self.secondary.map(|i| &self.table.indexes[i]).or_else(|| self.table.clustered_index());
        let mut prefix = Vec::new();
        for (encoder, part) in
            index.iter().flat_map(|index| index.encoders.iter().zip(&index.parts)).take(parts)
        {
            encoder.encode(slot.get(part.column as u16), &mut prefix);
        }
        bounds::whole(prefix)
    }

    /// The same for UPDATE under READ COMMITTED: rows that others have locked come as last committed
    /// ([`TableReader::is_unlocked`]).
    pub fn semi_consistent(mut self) -> TableReader {
        self.semi_consistent = true;
        self
    }

    /// Whether the row that `next` gave is the committed version of one that others have locked.
    pub fn is_unlocked(&self) -> bool {
        matches!(&self.state, ReaderState::Ranges { scan: Some(scan), .. } if scan.is_unlocked())
    }

    /// The row that `next` gave is wanted, but unlocked: the next call waits for it and gives its newest version.
    pub fn insist(&mut self) {
        if let ReaderState::Ranges { scan: Some(scan), .. } = &mut self.state {
            scan.insist();
        }
    }

    /// Gives back the lock on the last row: it did not match. As in InnoDB one that was found by a secondary index stays.
    pub fn unlock(&mut self, session: &mut Session) {
        if let ReaderState::Ranges { scan: Some(scan), .. } = &mut self.state
            && self.read != Read::Snapshot
            && self.secondary.is_none()
        {
            scan.unlock_current(transaction(session));
        }
    }
}

/// Whether an expression has the same value for all rows.
fn is_constant(expr: &Expr) -> bool {
    walk::facts(expr).is_constant()
}

/// Whether a row that was read may be another one by the time it is read again: not in a snapshot.
fn rows_may_change(read: Read, session: &Session) -> bool {
    let uncommitted = session.txn.as_ref().is_some_and(|t| t.isolation() == Isolation::ReadUncommitted);
    read != Read::Snapshot || uncommitted
}

/// Whether the row in `slot` has an entry of these parts in the index.
fn has_entry(index: &IndexDef, slot: &RowSlot, entry: &[u8]) -> bool {
    let mut parts = Vec::new();
    index.encode_parts(|column| slot.get(column as u16), &mut parts);
    entry.starts_with(&parts)
}

/// Counts one step of a reader as MariaDB's handler does: by rows, by an index from its end, by a key's range.
#[inline]
fn count(
    counts: &mut HandlerCounts,
    (whole, by_rows): (bool, bool),
    reverse: bool,
    begins: bool,
    steps: u64,
) {
    let counter = match (begins, reverse) {
        (_, false) if by_rows => &mut counts.read_rnd_next,
        (true, false) if whole => &mut counts.read_first,
        (true, true) if whole => &mut counts.read_last,
        (true, _) => &mut counts.read_key,
        (false, false) => &mut counts.read_next,
        (false, true) => &mut counts.read_prev,
    };
    *counter += steps;
}

/// Reads the pages of the row at `primary` and of those that the next entries of the index name together.
fn look_at_rows(
    ahead: &mut Ahead,
    wanted: u64,
    table: &TableDef,
    index: &IndexDef,
    (open, primary): (&Scan, &[u8]),
) {
    let mut upcoming = open.upcoming().take(ahead.places(wanted) - 1).peekable();
    if upcoming.peek().is_some() {
        let rows = upcoming.map(|key| clustered_key(index, key));
        ahead.looked(table.rows().read_ahead(std::iter::once(primary).chain(rows)));
    }
}

/// Whether the row behind the entry beyond a range is locked as well, as in InnoDB. There the index's condition keeps it from rows
/// beyond a range that it reads upwards, but not for changes, nor where the entry alone is wanted: that needs no row only
/// for a shared lock.
fn reads_row_beyond(read: Read, changes: bool, suffices: bool, reverse: bool) -> bool {
    changes || if suffices { is_exclusive(read) } else { reverse }
}

fn is_exclusive(read: Read) -> bool {
    matches!(read, Read::Lock(LockMode::Exclusive, _))
}

/// Whether a path reads the rows of one key, or of its beginning.
fn is_of_one_key(path: &AccessPath) -> bool {
    let AccessPath::Ranges { alternatives, .. } = path else { return false };
    matches!(&alternatives[..], [key] if key.iter().all(PartCondition::is_equality))
}

/// What a locking scan of `range` locks behind it.
fn range_end(range: &KeyRange, downwards: bool, path: &AccessPath) -> RangeEnd {
    match range.holds {
        Holds::Row => RangeEnd::Unique,
        Holds::Between => RangeEnd::NextKey,
        Holds::Points | Holds::Prefixes if !downwards => RangeEnd::Gap,
        // Downwards MariaDB compares each row with one key, finds the end of prefixes by the row before, and looks for whole keys
        // as it does upwards.
        Holds::Points | Holds::Prefixes if is_of_one_key(path) => RangeEnd::NextKeyIfFound,
        Holds::Prefixes => RangeEnd::NextKey,
        Holds::Points => RangeEnd::Gap,
    }
}

fn transaction(session: &mut Session) -> &mut Txn {
    session.txn.as_mut().expect("a plan runs within a transaction of the engine")
}

fn fetch(table: &TableDef, key: &[u8], read: Read, txn: &mut Txn, slot: &mut RowSlot) -> SqlResult<bool> {
    let found = txn.get(table.rows(), key, read, |row| fill(slot, &table.layout, row));
    Ok(found.map_err(engine_error)?.is_some())
}

/// Copies a row into a slot, whose buffer is reused.
fn fill(slot: &mut RowSlot, layout: &Arc<Layout>, row: &[u8]) {
    if let RowSlot::Stored { layout: before, map: None, bytes } = slot
        && Arc::ptr_eq(before, layout)
    {
        bytes.clear();
        bytes.extend_from_slice(row);
        return;
    }
    *slot = RowSlot::Stored { layout: layout.clone(), map: None, bytes: row.to_vec() };
}
