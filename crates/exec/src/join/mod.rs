//! Where a query block's rows come from: tables read along access paths, derived tables, and their joins.
//!
//! A [`Source`] is the plan; a [`Runner`] runs it, filling the slots of the frame and giving `true` per joined row. Joins
//! are nested loops: the right side is opened again for each left row, its access path taking values from the slots that
//! are filled already. Where that would read a whole table each time, the right side is read once into a hash table by
//! its join columns. Conditions stand at the first place where all their tables have a row.
//!
//! A subquery that became a semi-join or anti-join is the right side of a join that ends at its first match; a semi-join's
//! may also be read first, each of its keys once (`distinct`).

mod distinct;
mod estimate;
pub mod hash;
mod stored;

use std::sync::Arc;

use keel_base::SqlResult;
use keel_storage::runtime::fiber;
use keel_storage::{LockMode, Read};
use keel_value::row::Layout;

use crate::access::{AccessChoice, AccessPath, TableReader};
use crate::catalog::TableDef;
use crate::counts::Counts;
use crate::expr::{EvalContext, Expr, RowSlot};
use crate::json_table::{JsonRun, JsonTable};
use crate::select::{FrameBuffer, SelectPlan};
use crate::session::Session;
use distinct::DistinctRun;
use hash::HashRun;
use stored::StoredRun;

pub use distinct::DistinctSource;
pub use hash::{HashPlan, encode_in_domain};
pub use stored::{Keeper, new_kept_name};

/// Rows expected of JSON_TABLE.
pub const FUNCTION_ROWS: f64 = 40.0;

/// A table read along an access path.
pub struct TableSource {
    /// Its slot.
    pub slot: u16,
    /// Its definition.
    pub table: Arc<TableDef>,
    /// Whether its rows carry their hidden numbers, behind the columns.
    pub numbered: bool,
    /// The name it has in the query.
    pub alias: Arc<str>,
    /// The way to its rows.
    pub path: Arc<AccessPath>,
    /// Whether the index's entries hold all that is needed.
    pub covering: bool,
    /// Where the query locks rows exclusively, this table's are locked shared: they do not change.
    pub shares: bool,
    /// Conditions that each row must fulfil.
    pub filter: Vec<Expr>,
    /// How many of them, from the first on, are asked of the entries of an index before rows are read; none where rows are
    /// read at once.
    pub of_entry: Option<usize>,
    /// Conditions that rows fulfil where the reader's ranges are exact.
    pub implied: Vec<Expr>,
    /// What EXPLAIN tells of the choice.
    pub choice: AccessChoice,
    /// What it did, for ANALYZE.
    pub counts: Option<Arc<Counts>>,
}

impl TableSource {
    /// How its rows are read where the query's are so.
    fn read(&self, read: Read) -> Read {
        match read {
            Read::Lock(LockMode::Exclusive, wait) if self.shares => Read::Lock(LockMode::Shared, wait),
            read => read,
        }
    }
}

/// A derived table.
pub struct DerivedSource {
    /// Its slot.
    pub slot: u16,
    /// The name it has in the query.
    pub alias: Arc<str>,
    /// Its rows.
    pub plan: Arc<SelectPlan>,
    /// How its rows are kept.
    pub layout: Arc<Layout>,
    /// Where the session keeps its rows from one run of the subquery around it to the next; None for one in no subquery, and for
    /// one whose rows may change meanwhile.
    pub kept_as: Option<u64>,
    /// Conditions that each row must fulfil.
    pub filter: Vec<Expr>,
    /// What it did, for ANALYZE.
    pub counts: Option<Arc<Counts>>,
}

/// JSON_TABLE.
pub struct FunctionSource {
    /// Its slot.
    pub slot: u16,
    /// The name it has in the query.
    pub alias: Arc<str>,
    /// What makes its rows.
    pub table: Arc<JsonTable>,
    /// Which of its columns anybody reads.
    pub needed: Vec<bool>,
    /// Conditions that each row must fulfil.
    pub filter: Vec<Expr>,
    /// What it did, for ANALYZE.
    pub counts: Option<Arc<Counts>>,
}

/// Which rows a join gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// Every pair that matches.
    Inner,
    /// The same, and left rows without a match with NULLs: LEFT JOIN.
    Outer,
    /// Left rows that have a match, once: IN and EXISTS.
    Semi,
    /// Left rows that have none: NOT EXISTS.
    Anti,
}

impl Matching {
    /// Whether only the left side's rows come out.
    pub fn is_test(self) -> bool {
        matches!(self, Matching::Semi | Matching::Anti)
    }
}

/// A join of two sources.
pub struct JoinSource {
    /// Which rows it gives.
    pub kind: Matching,
    /// What is read first.
    pub left: Source,
    /// What is read for each left row.
    pub right: Source,
    /// Slots of the right side.
    pub right_slots: Vec<u16>,
    /// For all but inner joins: what makes a match, beyond the right side's own conditions.
    pub on: Vec<Expr>,
    /// Conditions on joined rows.
    pub filter: Vec<Expr>,
    /// The right side is read once, by these keys.
    pub hash: Option<HashPlan>,
    /// What it did, for ANALYZE.
    pub counts: Option<Arc<Counts>>,
}

/// Where rows come from.
pub enum Source {
    /// No table: one row.
    One,
    /// A table.
    Table(Box<TableSource>),
    /// A derived table.
    Derived(Box<DerivedSource>),
    /// JSON_TABLE.
    Function(Box<FunctionSource>),
    /// A join.
    Join(Box<JoinSource>),
    /// One row for each key of another source.
    Distinct(Box<DistinctSource>),
}

impl Source {
    /// Has the rows of tables locked shared that `changes` does not name.
    pub fn share_unless(&mut self, changes: &dyn Fn(&TableSource) -> bool) {
        match self {
            Source::Table(table) => table.shares = !changes(table),
            Source::Join(join) => {
                join.left.share_unless(changes);
                join.right.share_unless(changes);
            }
            Source::Distinct(distinct) => distinct.source.share_unless(changes),
            Source::One | Source::Derived(_) | Source::Function(_) => {}
        }
    }

    /// Shows its tables in the order in which they are read, behind `base` others. With each comes the place before which all
    /// tables must be read earlier, at least `after`: the left side of an outer join ends there.
    pub fn each_table(&self, base: usize, after: usize, show: &mut dyn FnMut(&TableSource, usize)) -> usize {
        match self {
            Source::Table(table) => {
                show(table, after);
                1
            }
            Source::Join(join) => {
                let left = join.left.each_table(base, after, show);
                let after = if join.kind == Matching::Inner { after } else { base + left };
                left + join.right.each_table(base + left, after, show)
            }
            Source::Distinct(distinct) => distinct.source.each_table(base, after, show),
            Source::One | Source::Derived(_) | Source::Function(_) => 0,
        }
    }

    /// Rows expected of it; a rough guess.
    pub fn expected_rows(&self) -> f64 {
        match self {
            Source::One => 1.0,
            Source::Table(table) => table.choice.rows.max(1.0),
            Source::Derived(derived) => derived.plan.expected_rows(),
            Source::Function(_) => FUNCTION_ROWS,
            Source::Join(join) if join.kind.is_test() => join.left.expected_rows(),
            Source::Join(join) => join.left.expected_rows() * join.right.expected_rows().max(1.0),
            Source::Distinct(distinct) => distinct.source.expected_rows(),
        }
    }

    /// What it did, for ANALYZE.
    pub fn counts(&self) -> Option<&Arc<Counts>> {
        match self {
            Source::One => None,
            Source::Table(table) => table.counts.as_ref(),
            Source::Derived(derived) => derived.counts.as_ref(),
            Source::Function(function) => function.counts.as_ref(),
            Source::Join(join) => join.counts.as_ref(),
            Source::Distinct(_) => None,
        }
    }

    /// Whether a table, or what a derived table gives, is read from start to end without an index.
    pub fn reads_whole_table(&self) -> bool {
        match self {
            Source::One | Source::Function(_) => false,
            Source::Derived(derived) => !derived.plan.has_one_row(),
            Source::Table(table) => matches!(*table.path, AccessPath::Scan { index: None, .. }),
            Source::Join(join) => join.left.reads_whole_table() || join.right.reads_whole_table(),
            Source::Distinct(distinct) => distinct.source.reads_whole_table(),
        }
    }

    /// Whether a whole table, or a part of it that is always the same, of more than a few rows is read.
    pub fn scans(&self) -> bool {
        const FEW_ROWS: f64 = 20.0;
        match self {
            Source::One | Source::Derived(_) | Source::Function(_) => false,
            Source::Table(table) => table.path.is_constant() && table.choice.rows > FEW_ROWS,
            Source::Join(join) => join.left.scans() || join.right.scans(),
            Source::Distinct(distinct) => distinct.source.scans(),
        }
    }
}

/// Whether all conditions hold for the current rows.
#[inline]
pub fn all_hold(conditions: &[Expr], session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<bool> {
    if conditions.is_empty() {
        return Ok(true);
    }
    let mut cx = EvalContext::new(session, frame.view());
    for condition in conditions {
        if !condition.holds(&mut cx)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A source while it runs.
#[expect(clippy::large_enum_variant, reason = "a plain table is the common case and takes no allocation")]
pub enum Runner<'p> {
    /// One row without columns.
    One {
        /// It has been given.
        given: bool,
    },
    /// A table.
    Table {
        /// Its part of the plan.
        source: &'p TableSource,
        /// Reads its rows.
        reader: TableReader,
    },
    /// A derived table.
    Derived {
        /// Its part of the plan.
        source: &'p DerivedSource,
        /// Its rows.
        rows: StoredRun<'p>,
    },
    /// JSON_TABLE.
    Function {
        /// Its part of the plan.
        source: &'p FunctionSource,
        /// Its rows.
        run: Box<JsonRun<'p>>,
    },
    /// A join.
    Join(Box<JoinRun<'p>>),
    /// Rows of which each comes once.
    Distinct(Box<DistinctRun<'p>>),
    /// Any of the others in a plan for ANALYZE.
    Counted {
        /// What it counts.
        counts: &'p Counts,
        /// The other.
        inner: Box<Runner<'p>>,
    },
}

/// A join while it runs.
pub struct JoinRun<'p> {
    plan: &'p JoinSource,
    left: Runner<'p>,
    right: Inner<'p>,
    /// A left row is there, and the right side open for it.
    has_left: bool,
    matched: bool,
}

/// The right side of a join.
#[expect(clippy::large_enum_variant, reason = "a nested loop is the common case")]
enum Inner<'p> {
    Loop(Runner<'p>),
    Hash(Box<HashRun<'p>>),
}

impl<'p> Runner<'p> {
    /// A runner of a source, not open yet. `read` says how tables are read.
    pub fn new(source: &'p Source, read: Read) -> Runner<'p> {
        // Joins lie as deep on their left sides as there are tables: those are gone down without calls within calls.
        let mut around = Vec::new();
        let mut innermost = source;
        while let Source::Join(join) = innermost {
            around.push((innermost, join));
            innermost = &join.left;
        }
        let mut runner = Runner::leaf(innermost, read).counted(innermost);
        for (source, join) in around.into_iter().rev() {
            runner = Runner::Join(JoinRun::new(join, runner, read)).counted(source);
        }
        runner
    }

    /// The same, counted where the plan is one for ANALYZE.
    fn counted(self, source: &'p Source) -> Runner<'p> {
        match source.counts() {
            None => self,
            Some(counts) => Runner::Counted { counts, inner: Box::new(self) },
        }
    }

    fn leaf(source: &'p Source, read: Read) -> Runner<'p> {
        match source {
            Source::One => Runner::One { given: true },
            Source::Table(table) => Runner::Table {
                source: table,
                reader: TableReader::new(&table.table, &table.path, table.covering, table.read(read))
                    .numbered(table.numbered)
                    .by_entry(table.of_entry.is_some_and(|count| count > 0)),
            },
            Source::Derived(derived) => Runner::Derived { source: derived, rows: StoredRun::new(derived) },
            Source::Function(function) => Runner::Function {
                source: function,
                run: Box::new(JsonRun::new(&function.table, &function.needed)),
            },
            Source::Distinct(plan) => {
                Runner::Distinct(Box::new(DistinctRun::new(plan, Runner::new(&plan.source, read))))
            }
            Source::Join(join) => Runner::Join(JoinRun::new(join, Runner::new(&join.left, read), read)),
        }
    }

    /// Says that so many rows may be all that will be asked for.
    pub fn want(&mut self, rows: u64) {
        match self {
            Runner::Table { reader, .. } => reader.want(rows),
            Runner::Counted { inner, .. } => inner.want(rows),
            _ => {}
        }
    }

    /// Begins again with the rows that the frame holds now.
    pub fn open(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        match self {
            Runner::One { given } => *given = false,
            Runner::Table { reader, .. } => reader.open(session, frame.view())?,
            Runner::Derived { rows, .. } => rows.open(session, frame)?,
            Runner::Function { run, .. } => run.open(session, frame)?,
            Runner::Counted { counts, inner } => {
                let timed = counts.begin_timed();
                inner.open(session, frame)?;
                counts.end(timed);
            }
            Runner::Distinct(distinct) => distinct.open(session, frame)?,
            Runner::Join(join) => {
                join.has_left = false;
                join.left.open(session, frame)?;
            }
        }
        Ok(())
    }

    /// Whether rows of the one table that it reads may be left unread ([`Runner::jump_behind`]).
    pub fn may_jump(&self, session: &Session) -> bool {
        match self {
            Runner::Table { reader, .. } => reader.may_jump(session),
            Runner::Counted { inner, .. } => inner.may_jump(session),
            _ => false,
        }
    }

    /// The next row will be the first that differs from the current one in the first `parts` columns of the index.
    pub fn jump_behind(&mut self, parts: usize, frame: &FrameBuffer<'_>) {
        match self {
            Runner::Table { source, reader } => {
                reader.jump_behind(parts, &frame.slots[source.slot as usize]);
            }
            Runner::Counted { inner, .. } => inner.jump_behind(parts, frame),
            _ => {}
        }
    }

    /// Makes the last row that is equal to the current one in the first `parts` columns of the index the current one.
    pub fn jump_to_last(
        &mut self,
        parts: usize,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
    ) -> SqlResult<bool> {
        match self {
            Runner::Table { source, reader } => {
                reader.turn_at_last(parts, &frame.slots[source.slot as usize]);
            }
            Runner::Counted { inner, .. } => return inner.jump_to_last(parts, session, frame),
            _ => return Ok(false),
        }
        self.next(session, frame)
    }

    /// The next row, into the frame's slots; false at the end.
    #[inline]
    pub fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        self.advance(session, frame, ())
    }

    /// The same, and tells of each row that is read, also of those that do not fulfil all conditions.
    #[inline]
    fn advance<R: OnRead>(
        &mut self,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        on: R,
    ) -> SqlResult<bool> {
        match self {
            Runner::One { given } => Ok(!std::mem::replace(given, true)),
            Runner::Table { source, reader } => loop {
                if reader.wants_sieve() {
                    reader.sift(&source.filter, source.slot, &frame.view());
                }
                let found = reader.next(session, &mut frame.slots[source.slot as usize])?;
                let mut fulfilled = reader.fulfilled();
                if reader.is_at_entry() {
                    fulfilled = source.of_entry.unwrap_or(0);
                    if !fetch_row(&source.filter[..fulfilled], source.slot, reader, session, frame)? {
                        continue;
                    }
                }
                on.read(u64::from(found) + reader.take_passed_over());
                if !found {
                    return Ok(false);
                }
                fiber::tick();
                let holds = all_hold(&source.filter[fulfilled..], session, frame)?
                    && (reader.is_exact() || all_hold(&source.implied, session, frame)?);
                if holds {
                    return Ok(true);
                }
                reader.unlock(session);
            },
            Runner::Derived { source, rows } => loop {
                session.check_interrupt()?;
                if !rows.next(&mut frame.slots[source.slot as usize])? {
                    return Ok(false);
                }
                on.read(1);
                fiber::tick();
                if all_hold(&source.filter, session, frame)? {
                    return Ok(true);
                }
            },
            Runner::Function { source, run } => loop {
                session.check_interrupt()?;
                if !run.next(session, &mut frame.slots[source.slot as usize])? {
                    return Ok(false);
                }
                on.read(1);
                fiber::tick();
                if all_hold(&source.filter, session, frame)? {
                    return Ok(true);
                }
            },
            Runner::Join(join) => {
                let found = join.next(session, frame)?;
                if found {
                    on.read(1);
                }
                Ok(found)
            }
            Runner::Distinct(distinct) => distinct.next(session, frame),
            Runner::Counted { counts, inner } => counted(counts, inner, session, frame),
        }
    }
}

/// Reads the row of the index's entry that the slot holds, if the entry fulfils conditions; false if it does not, or the row
/// is gone.
#[inline(never)]
fn fetch_row(
    conditions: &[Expr],
    slot: u16,
    reader: &mut TableReader,
    session: &mut Session,
    frame: &mut FrameBuffer<'_>,
) -> SqlResult<bool> {
    session.handler.icp_attempts += 1;
    if !all_hold(conditions, session, frame)? {
        fiber::tick();
        // No row was read.
        session.handler.rows_read -= 1;
        session.current_row -= 1;
        return Ok(false);
    }
    session.handler.icp_match += 1;
    reader.fetch(session, &mut frame.slots[slot as usize])
}

/// Told of rows that are read: by plans for ANALYZE alone.
trait OnRead: Copy {
    fn read(self, rows: u64);
}

impl OnRead for () {
    #[inline]
    fn read(self, _: u64) {}
}

impl OnRead for &Counts {
    fn read(self, rows: u64) {
        self.read_all(rows);
    }
}

/// The next row of a runner that is counted.
#[cold]
fn counted(
    counts: &Counts,
    inner: &mut Runner<'_>,
    session: &mut Session,
    frame: &mut FrameBuffer<'_>,
) -> SqlResult<bool> {
    let timed = counts.call();
    let found = inner.advance(session, frame, counts)?;
    counts.end(timed);
    if found {
        counts.pass();
    }
    Ok(found)
}

impl<'p> JoinRun<'p> {
    #[inline(never)]
    fn new(plan: &'p JoinSource, left: Runner<'p>, read: Read) -> Box<JoinRun<'p>> {
        let right = Runner::new(&plan.right, read);
        let right = match &plan.hash {
            Some(hash) => Inner::Hash(Box::new(HashRun::new(hash, right))),
            None => Inner::Loop(right),
        };
        Box::new(JoinRun { plan, left, right, has_left: false, matched: false })
    }

    fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        loop {
            if !self.has_left {
                session.check_interrupt()?;
                if !self.left.next(session, frame)? {
                    return Ok(false);
                }
                self.has_left = true;
                self.matched = false;
                match &mut self.right {
                    Inner::Loop(runner) => runner.open(session, frame)?,
                    Inner::Hash(hash) => hash.open(session, frame)?,
                }
            }
            let found = match &mut self.right {
                Inner::Loop(runner) => runner.next(session, frame)?,
                Inner::Hash(hash) => {
                    // Many rows may have one key, and none of them match.
                    session.let_others_run()?;
                    hash.next(frame)?
                }
            };
            if found {
                if !all_hold(&self.plan.on, session, frame)? {
                    continue;
                }
                match self.plan.kind {
                    Matching::Inner | Matching::Outer => self.matched = true,
                    // One match says all.
                    Matching::Semi => self.has_left = false,
                    Matching::Anti => {
                        self.has_left = false;
                        continue;
                    }
                }
                if all_hold(&self.plan.filter, session, frame)? {
                    return Ok(true);
                }
                continue;
            }
            self.has_left = false;
            let alone = match self.plan.kind {
                Matching::Inner | Matching::Semi => false,
                Matching::Outer => !self.matched,
                Matching::Anti => true,
            };
            if alone {
                for slot in &self.plan.right_slots {
                    frame.slots[*slot as usize] = RowSlot::Null;
                }
                if all_hold(&self.plan.filter, session, frame)? {
                    return Ok(true);
                }
            }
        }
    }
}
