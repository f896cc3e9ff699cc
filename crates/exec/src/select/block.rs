//! One SELECT: its plan, and how it runs.
//!
//! The stages, each optional but the first: rows of the source, constants and row filters, groups, HAVING, window
//! functions, projection, order, limit. Without groups and order a row goes out as soon as it is read, as a slice of its slot where only columns
//! are selected.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_storage::Read;
use keel_value::row::{Layout, RowRef};
use keel_value::{Cell, SqlType, TypeKind, Value, key};
use smallvec::SmallVec;

use super::carry::{Carry, stored_type};
use super::frame::{FrameBuffer, RowPacker, SortPart, encode_key_part, encode_sort_part};
use super::loose::{Loose, ROWS_BEFORE_JUMP};
use super::nothing::Nothing;
use super::{Limits, RowOutput};
use crate::aggregate::AggregateCall;
use crate::expr::{EvalContext, Expr, Frame, RowSlot, walk};
use crate::group::{GroupPlan, Grouper, Rollup};
use crate::join::{Runner, Source, all_hold};
use crate::result::RowView;
use crate::session::{OfSession, Session};
use crate::sort::{Distinct, Sorted, Sorter};
use crate::window::{WindowPlan, WindowRun};

/// Stack that a query of no table may take.
const STACK_BYTES: usize = 96 << 10;
/// What each of its tables adds where joins lie within joins.
const TABLE_STACK_BYTES: usize = 6 << 10;

/// One key of ORDER BY.
pub struct SortKey {
    /// The key.
    pub expr: Expr,
    /// The select item that it is, where that assigns user variables: it is worked out once.
    pub item: Option<usize>,
    /// How it is encoded.
    pub part: SortPart,
}

/// One SELECT, planned.
pub struct Block {
    /// Slots of the frame: one per table, one for aggregates.
    pub slot_count: usize,
    /// Cells kept per execution.
    pub once: u32,
    /// Conditions that name no table: if one does not hold there are no rows.
    pub constants: Vec<Expr>,
    /// Conditions that name no table but change from row to row.
    pub row_filter: Vec<Expr>,
    /// The tables and how they are joined.
    pub source: Source,
    /// GROUP BY, or aggregates without it.
    pub group: Option<GroupPlan>,
    /// What is needed of groups that need not be read whole.
    pub loose: Option<Loose>,
    /// The group needs its first row only: MIN or MAX over an index's order. The argument must not be NULL.
    pub first_row_of: Option<Expr>,
    /// For each of the aggregates, all MIN or MAX, the rows in an order that has its value first.
    pub extremes: Vec<Source>,
    /// HAVING, part by part.
    pub having: Vec<Expr>,
    /// Window functions over rows or groups.
    pub windows: Option<WindowPlan>,
    /// The select list.
    pub project: Vec<Expr>,
    /// What the one group gives where no row can match, if that differs: see [`super::nothing`].
    pub nothing: Option<Nothing>,
    /// All selected are columns of this slot, of types that go out as they are stored.
    pub direct: Option<(u16, Vec<usize>)>,
    /// DISTINCT over grouped rows.
    pub distinct: bool,
    /// ORDER BY, unless rows come in order anyway.
    pub order: Vec<SortKey>,
    /// What sorted rows keep where user variables count them: the select list is worked out in their order.
    pub unprojected: Option<Carry>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// FETCH ... WITH TIES: rows that are equal by the order to the last one go out too.
    pub ties: bool,
    /// How sorted results are kept.
    pub layout: Arc<Layout>,
    /// SQL_CALC_FOUND_ROWS.
    pub calc_found_rows: bool,
    /// What EXPLAIN says of it.
    pub explain: super::ExplainFacts,
}

/// Bounds of LIMIT for one execution, and the rows counted so far.
struct Window {
    offset: u64,
    count: u64,
    seen: u64,
    /// SQL_CALC_FOUND_ROWS: rows are counted beyond the limit.
    counts_all: bool,
    /// The key of the last row within the bounds, for WITH TIES.
    last: Option<Vec<u8>>,
}

impl Window {
    /// Tells the key of the row that is asked for next: one like the last within the bounds moves them.
    fn meet(&mut self, key: &[u8]) {
        let end = self.offset.saturating_add(self.count);
        let Some(last) = &mut self.last else { return };
        if self.seen + 1 == end {
            last.clear();
            last.extend_from_slice(key);
        } else if self.seen == end && self.count > 0 && last == key {
            self.count += 1;
        }
    }

    /// How many rows are asked for, if all of them go out.
    fn wanted(&self) -> u64 {
        if self.counts_all { u64::MAX } else { self.offset.saturating_add(self.count) }
    }

    /// Whether the next row goes out; None when no further row needs to be made.
    fn admit(&mut self) -> Option<bool> {
        let end = self.offset.saturating_add(self.count);
        if self.seen >= end && !self.counts_all {
            return None;
        }
        self.seen += 1;
        Some(self.seen > self.offset && self.seen <= end)
    }

    fn is_full(&self) -> bool {
        !self.counts_all && self.seen >= self.offset.saturating_add(self.count)
    }
}

impl Block {
    /// Stack that a run may take, without those of queries within it.
    pub fn stack_bytes(&self) -> usize {
        STACK_BYTES + self.slot_count * TABLE_STACK_BYTES
    }

    /// Runs it; gives the rows counted (those sent, or all under SQL_CALC_FOUND_ROWS).
    pub(crate) fn run(
        &self,
        session: &mut Session,
        params: &[Value],
        outer: Option<&Frame<'_>>,
        limits: Limits,
        output: &mut dyn RowOutput,
    ) -> SqlResult<u64> {
        let mut frame = FrameBuffer::new(self.slot_count, self.once, params, outer);
        let mut window = self.window(session, &frame, limits)?;
        if window.is_full() {
            let asks = |c: &&Expr| !walk::facts(c).sequences;
            let mut cx = EvalContext::new(session, frame.view());
            for condition in self.constants.iter().filter(asks) {
                if !condition.holds(&mut cx)? {
                    break;
                }
            }
            return Ok(0);
        }
        let empty = !all_hold(&self.constants, session, &frame)?;
        if !session.vars.big_selects && !empty {
            self.check_size(session)?;
        }
        if !empty {
            self.tally(session);
        }
        if self.group.is_none() && self.windows.is_none() && self.order.is_empty() {
            if !empty {
                self.stream(session, &mut frame, limits.read, &mut window, output)?;
            }
            // Without a table a row that OFFSET passes over does not count.
            let passed =
                matches!(self.source, Source::One) && !window.counts_all && window.seen <= window.offset;
            return Ok(if passed { 0 } else { window.counted() });
        }
        let mut rows = Rows { block: self, runner: Runner::new(&self.source, limits.read), empty };
        match &self.group {
            Some(plan) if plan.streams => {
                self.stream_groups(plan, session, &mut frame, rows, &mut window, output)?;
            }
            Some(plan) if plan.rollup => {
                let mut rollup = Rollup::new(plan, session);
                rows.open(session, &mut frame)?;
                while rows.next(session, &mut frame)? {
                    rollup.add(session, &frame)?;
                }
                rollup.finish()?;
                self.finish(session, &mut frame, &mut window, output, |session, frame| {
                    while rollup.next(session, frame)? {
                        if all_hold(&self.having, session, frame)? {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                })?;
            }
            Some(plan) => {
                let mut grouper = Grouper::new(plan, session);
                if self.extremes.is_empty() {
                    rows.gather(session, &mut frame, &mut grouper)?;
                } else if !empty {
                    self.gather_extremes(plan, session, &mut frame, limits.read, &mut grouper)?;
                }
                let nothing = match &self.nothing {
                    Some(nothing) if empty || grouper.is_empty() => {
                        let by_index = self.first_row_of.is_some() || !self.extremes.is_empty();
                        let is_known = empty
                            || by_index
                            || nothing.is_known(&self.source, session, &mut frame, limits.read)?;
                        is_known.then_some(nothing)
                    }
                    _ => None,
                };
                grouper.finish(session, &mut frame);
                if let Some(project) = nothing.map(|nothing| &nothing.project) {
                    if grouper.next(session, &mut frame)?
                        && all_hold(&self.having, session, &frame)?
                        && window.admit() == Some(true)
                    {
                        let mut cx = EvalContext::new(session, frame.view());
                        let row: SqlResult<Vec<Value>> =
                            project.iter().map(|e| Ok(e.eval(&mut cx)?.into_value())).collect();
                        output.row(session, RowView::Values(&row?))?;
                    }
                    return Ok(window.counted());
                }
                self.finish(session, &mut frame, &mut window, output, |session, frame| {
                    while grouper.next(session, frame)? {
                        if all_hold(&self.having, session, frame)? {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                })?;
            }
            None => {
                rows.open(session, &mut frame)?;
                self.finish(session, &mut frame, &mut window, output, |session, frame| {
                    rows.next(session, frame)
                })?;
            }
        }
        Ok(window.counted())
    }

    /// 1104 where it would examine more than `max_join_size` allows.
    #[cold]
    fn check_size(&self, session: &Session) -> SqlResult<()> {
        // The first or the last entry of an index is no search.
        let is_search = self.first_row_of.is_none() && self.extremes.is_empty();
        match is_search && self.source.examined() > session.vars.max_join_size as f64 {
            true => Err(errors::too_big_select()),
            false => Ok(()),
        }
    }

    /// Groups of rows that come in their order: each goes out as soon as it is whole.
    fn stream_groups(
        &self,
        plan: &GroupPlan,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        mut rows: Rows<'_>,
        window: &mut Window,
        output: &mut dyn RowOutput,
    ) -> SqlResult<()> {
        let mut grouper = Grouper::new(plan, session);
        rows.open(session, frame)?;
        // The first row of the group after the one that went out, while that one stands in the frame.
        let mut ahead = vec![RowSlot::Null; frame.slots.len()];
        let mut is_ahead = false;
        let mut more = rows.next(session, frame)?;
        let loose = self.loose.as_ref().filter(|_| rows.runner.may_jump(session));
        self.finish(session, frame, window, output, |session, frame| {
            while more {
                if std::mem::take(&mut is_ahead) {
                    std::mem::swap(&mut frame.slots, &mut ahead);
                }
                let mut taken = 0;
                while more && grouper.add_if_same(session, frame)? {
                    taken += 1;
                    if let Some(loose) = loose.filter(|_| taken >= ROWS_BEFORE_JUMP)
                        && loose.has_first(session, frame)?
                    {
                        if loose.last && rows.runner.jump_to_last(plan.keys.len(), session, frame)? {
                            grouper.add_if_same(session, frame)?;
                        }
                        rows.runner.jump_behind(plan.keys.len(), frame);
                    }
                    more = rows.next(session, frame)?;
                }
                if more {
                    std::mem::swap(&mut frame.slots, &mut ahead);
                    is_ahead = true;
                }
                grouper.give(session, frame)?;
                if all_hold(&self.having, session, frame)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// The first row that is not NULL, for each MIN and MAX.
    fn gather_extremes(
        &self,
        plan: &GroupPlan,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        read: Read,
        grouper: &mut Grouper<'_>,
    ) -> SqlResult<()> {
        for (number, source) in self.extremes.iter().enumerate() {
            let mut runner = Runner::new(source, read);
            runner.want(1);
            runner.open(session, frame)?;
            while runner.next(session, frame)? {
                let mut cx = EvalContext::new(session, frame.view());
                if !plan.aggregates[number].args[0].eval(&mut cx)?.as_ref().is_null() {
                    grouper.add_to(number, session, frame)?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn window(&self, session: &mut Session, frame: &FrameBuffer<'_>, limits: Limits) -> SqlResult<Window> {
        let mut cx = EvalContext::new(session, frame.view());
        let number = |expr: &Option<Expr>, cx: &mut EvalContext<'_, '_>| -> SqlResult<Option<u64>> {
            let Some(expr) = expr else { return Ok(None) };
            let mut own = EvalContext::new(cx.session(), frame.view());
            expr.row_number(&mut own).map(Some)
        };
        let count = number(&self.limit, &mut cx)?;
        let offset = number(&self.offset, &mut cx)?.unwrap_or(0);
        let count = count.unwrap_or(limits.default_count).min(limits.most);
        // Where nothing orders them, all rows are alike.
        let count = if self.ties && self.order.is_empty() && count > 0 { limits.most } else { count };
        let last = self.ties.then(Vec::new);
        Ok(Window { offset, count, seen: 0, counts_all: self.calc_found_rows, last })
    }

    /// Rows straight from the source to the output.
    fn stream(
        &self,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        read: Read,
        window: &mut Window,
        output: &mut dyn RowOutput,
    ) -> SqlResult<()> {
        let mut runner = Runner::new(&self.source, read);
        runner.want(window.wanted());
        runner.open(session, frame)?;
        let mut projector = Projector::new(self);
        while runner.next(session, frame)? {
            if !all_hold(&self.row_filter, session, frame)? || !all_hold(&self.having, session, frame)? {
                continue;
            }
            match window.admit() {
                None => return Ok(()),
                Some(false) => {}
                Some(true) => {
                    if !projector.emit(session, frame, output)? {
                        return Ok(());
                    }
                }
            }
            if window.is_full() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Groups or rows that are there one by one: to the output, behind the window functions where there are any.
    fn finish<'f>(
        &self,
        session: &mut Session,
        frame: &mut FrameBuffer<'f>,
        window: &mut Window,
        output: &mut dyn RowOutput,
        mut next: impl FnMut(&mut Session, &mut FrameBuffer<'f>) -> SqlResult<bool>,
    ) -> SqlResult<()> {
        let Some(plan) = &self.windows else { return self.send(session, frame, window, output, next) };
        let mut windows = WindowRun::new(plan, session);
        while next(session, frame)? {
            windows.add(session, frame)?;
        }
        windows.finish(session, frame)?;
        self.send(session, frame, window, output, |session, frame| windows.next(session, frame))
    }

    /// The same to the output, sorted where an order is asked for.
    fn send<'f>(
        &self,
        session: &mut Session,
        frame: &mut FrameBuffer<'f>,
        window: &mut Window,
        output: &mut dyn RowOutput,
        mut next: impl FnMut(&mut Session, &mut FrameBuffer<'f>) -> SqlResult<bool>,
    ) -> SqlResult<()> {
        let mut unique = self.distinct.then(|| Unique::new(self, session));
        if self.order.is_empty() {
            let mut projector = Projector::new(self);
            while next(session, frame)? {
                if let Some(unique) = &mut unique
                    && !unique.is_new(session, frame)?
                {
                    continue;
                }
                match window.admit() {
                    None => return Ok(()),
                    Some(true) if !projector.emit(session, frame, output)? => return Ok(()),
                    _ => {}
                }
                // The next group may be long.
                if window.is_full() {
                    return Ok(());
                }
            }
            let mut packed = PackedRows::new(self);
            if unique.as_ref().is_some_and(|unique| unique.seen.is_full()) {
                session.plan_counts.add(|counts| counts.tmp_disk_tables += 1);
            }
            return match unique {
                Some(unique) => unique.rest(|_, row| packed.emit(row, session, window, output)),
                None => Ok(()),
            };
        }
        let most = (!window.counts_all && !self.ties).then(|| window.offset.saturating_add(window.count));
        let mut sorter = Sorter::new(most, session.vars.sort_room(), session.work());
        let mut packer = RowPacker::new(&self.layout);
        let mut next = |session: &mut Session, frame: &mut FrameBuffer<'f>| match next(session, frame) {
            Err(error) if session.examined.ends(&error) => Err(sort_ended(session, error)),
            found => found,
        };
        while next(session, frame)? {
            if let Some(unique) = &mut unique
                && !unique.is_new(session, frame)?
            {
                continue;
            }
            if self.order.iter().any(|key| key.item.is_some()) {
                self.sort_projected(session, frame, &mut packer, &mut sorter)?;
            } else if sorter.push_key(|out| self.sort_key(session, frame, out))? {
                sorter.push_payload(|out| self.sort_payload(session, frame, &mut packer, out))?;
            }
        }
        if let Some(unique) = unique {
            unique.rest(|key, row| {
                session.check_interrupt()?;
                sorter.push_bytes(key, row).map(|()| true)
            })?;
        }
        session.plan_counts.sort(sorter.done());
        let mut sorted = sorter.finish()?;
        if let Some(carry) = &self.unprojected {
            return self.project_sorted(sorted, carry, session, frame, window, output);
        }
        let mut packed = PackedRows::new(self);
        while let Some((key, row)) = sorted.next_entry()? {
            window.meet(key);
            if !packed.emit(row, session, window, output)? {
                break;
            }
        }
        Ok(())
    }

    /// The parts of the sort key.
    fn sort_parts(&self) -> impl Iterator<Item = &SortPart> {
        self.order.iter().map(|key| &key.part)
    }

    /// Appends a row's sort key.
    fn sort_key(&self, session: &mut Session, frame: &FrameBuffer<'_>, out: &mut Vec<u8>) -> SqlResult<()> {
        let most = session.vars.max_sort_length;
        let mut cx = EvalContext::new(session, frame.view());
        for sort_key in &self.order {
            let cell = sort_key.expr.eval(&mut cx)?;
            encode_sort_part(&sort_key.part, cell.as_ref(), most, self.sort_parts(), out);
        }
        Ok(())
    }

    /// Gives the sorter a row whose results are worked out before its key.
    fn sort_projected(
        &self,
        session: &mut Session,
        frame: &FrameBuffer<'_>,
        packer: &mut RowPacker<'_>,
        sorter: &mut Sorter,
    ) -> SqlResult<()> {
        let most = session.vars.max_sort_length;
        let mut cx = EvalContext::new(session, frame.view());
        let mut values: Vec<Value> = Vec::with_capacity(self.project.len());
        for expr in &self.project {
            values.push(expr.eval(&mut cx)?.into_value());
        }
        let fill_key = |out: &mut Vec<u8>| {
            for key in &self.order {
                match key.item {
                    Some(item) => {
                        encode_sort_part(&key.part, values[item].as_ref(), most, self.sort_parts(), out);
                    }
                    None => {
                        let cell = key.expr.eval(&mut cx)?;
                        encode_sort_part(&key.part, cell.as_ref(), most, self.sort_parts(), out);
                    }
                }
            }
            Ok(())
        };
        sorter.push(fill_key, |out| {
            packer.pack(RowView::Values(&values), out);
            Ok(())
        })
    }

    /// Appends a row's results, or what they are worked out from.
    fn sort_payload(
        &self,
        session: &mut Session,
        frame: &FrameBuffer<'_>,
        packer: &mut RowPacker<'_>,
        out: &mut Vec<u8>,
    ) -> SqlResult<()> {
        if let Some(carry) = &self.unprojected {
            carry.save(&frame.slots, out);
            return Ok(());
        }
        let mut cx = EvalContext::new(session, frame.view());
        let mut cells: SmallVec<[Cell<'_>; 8]> = SmallVec::new();
        for expr in &self.project {
            cells.push(expr.eval(&mut cx)?);
        }
        packer.pack_cells(&cells, out);
        Ok(())
    }

    /// Works out the results of rows that come in order.
    fn project_sorted(
        &self,
        mut sorted: Sorted,
        carry: &Carry,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        window: &mut Window,
        output: &mut dyn RowOutput,
    ) -> SqlResult<()> {
        let mut projector = Projector::new(self);
        while let Some((key, row)) = sorted.next_entry()? {
            window.meet(key);
            carry.load(row, &mut frame.slots);
            match window.admit() {
                None => return Ok(()),
                Some(true) if !projector.emit(session, frame, output)? => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The types of the results. The least and the greatest text of a column are as long as the column itself.
    pub fn types(&self) -> Vec<(SqlType, bool)> {
        let of_item = |item: &Expr| {
            let column = self.aggregate(item).and_then(AggregateCall::column);
            let ty = match column {
                Some(column) if item.ty.is_string() => item.ty.clone().with_decimals(column.ty.decimals),
                _ => item.ty.clone(),
            };
            (ty, item.nullable)
        };
        self.project.iter().map(of_item).collect()
    }

    /// The aggregate of this block that an expression gives.
    pub fn aggregate(&self, expr: &Expr) -> Option<&AggregateCall> {
        let (group, column) = (self.group.as_ref()?, expr.as_any_column()?);
        if group.slot != column.slot {
            return None;
        }
        group.aggregates.get(column.column as usize)
    }
}

impl Window {
    /// What FOUND_ROWS() says: the rows sent and those before them, or all under SQL_CALC_FOUND_ROWS.
    fn counted(&self) -> u64 {
        self.seen
    }
}

/// LIMIT ROWS EXAMINED ends a sort with an error, behind which SHOW WARNINGS says why.
#[cold]
fn sort_ended(session: &mut Session, reason: SqlError) -> SqlError {
    let error = errors::filsort_abort("LIMIT ROWS EXAMINED");
    session.push_error(&error);
    session.warn(reason);
    error
}

/// The source's rows that fulfil all conditions.
struct Rows<'p> {
    block: &'p Block,
    runner: Runner<'p>,
    empty: bool,
}

impl<'p> Rows<'p> {
    fn open(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<()> {
        if self.empty { Ok(()) } else { self.runner.open(session, frame) }
    }

    fn next(&mut self, session: &mut Session, frame: &mut FrameBuffer<'_>) -> SqlResult<bool> {
        if self.empty {
            return Ok(false);
        }
        loop {
            if !self.runner.next(session, frame)? {
                return Ok(false);
            }
            let grouped = self.block.group.is_some();
            let holds = all_hold(&self.block.row_filter, session, frame)?
                && (grouped || all_hold(&self.block.having, session, frame)?);
            if holds {
                return Ok(true);
            }
        }
    }

    fn gather(
        &mut self,
        session: &mut Session,
        frame: &mut FrameBuffer<'_>,
        grouper: &mut Grouper<'_>,
    ) -> SqlResult<()> {
        self.open(session, frame)?;
        while self.next(session, frame)? {
            if let Some(argument) = &self.block.first_row_of {
                let mut cx = EvalContext::new(session, frame.view());
                if argument.eval(&mut cx)?.as_ref().is_null() {
                    continue;
                }
                return grouper.add(session, frame);
            }
            grouper.add(session, frame)?;
        }
        Ok(())
    }
}

/// Makes result rows of the frame.
struct Projector<'p> {
    block: &'p Block,
    values: Vec<Value>,
    /// Places of the selected columns in the slot's layout, and whether the slot was read through an index.
    places: Vec<usize>,
    mapped: Option<bool>,
}

impl<'p> Projector<'p> {
    fn new(block: &'p Block) -> Projector<'p> {
        Projector { block, values: Vec::new(), places: Vec::new(), mapped: None }
    }

    fn emit(
        &mut self,
        session: &mut Session,
        frame: &FrameBuffer<'_>,
        output: &mut dyn RowOutput,
    ) -> SqlResult<bool> {
        if let Some((slot, columns)) = &self.block.direct
            && let RowSlot::Stored { layout, map, bytes } = &frame.slots[*slot as usize]
        {
            if self.mapped != Some(map.is_some()) {
                self.mapped = Some(map.is_some());
                self.places = match map {
                    Some(map) => columns.iter().map(|c| map[*c] as usize).collect(),
                    None => columns.clone(),
                };
            }
            return output.row(session, RowView::Stored { layout, bytes, projection: &self.places });
        }
        self.values.clear();
        let mut cx = EvalContext::new(session, frame.view());
        for expr in &self.block.project {
            self.values.push(expr.eval(&mut cx)?.into_value());
        }
        output.row(session, RowView::Values(&self.values))
    }
}

/// Sends result rows that [`Block::sort_payload`] has packed.
struct PackedRows<'p> {
    block: &'p Block,
    projection: Vec<usize>,
    /// A stored timestamp means UTC to the output, but these are local times already: they go out as values.
    as_values: bool,
    values: Vec<Value>,
}

impl<'p> PackedRows<'p> {
    fn new(block: &'p Block) -> PackedRows<'p> {
        let as_values = block.project.iter().any(|e| e.ty.kind == TypeKind::Timestamp);
        let projection = (0..block.project.len()).collect();
        PackedRows { block, projection, as_values, values: Vec::new() }
    }

    /// Sends the row if the window has it; false where no further row is wanted.
    fn emit(
        &mut self,
        bytes: &[u8],
        session: &mut Session,
        window: &mut Window,
        output: &mut dyn RowOutput,
    ) -> SqlResult<bool> {
        session.check_interrupt()?;
        match window.admit() {
            None => return Ok(false),
            Some(false) => return Ok(true),
            Some(true) => {}
        }
        let layout = &*self.block.layout;
        if !self.as_values {
            return output.row(session, RowView::Stored { layout, bytes, projection: &self.projection });
        }
        let row = RowRef::new(layout, bytes);
        self.values.clear();
        self.values.extend(self.projection.iter().map(|place| row.get(*place).to_owned()));
        output.row(session, RowView::Values(&self.values))
    }
}

/// DISTINCT over groups. A row that cannot be told yet is set aside as `[length u32][sort key][row]`.
struct Unique<'p> {
    block: &'p Block,
    seen: Distinct,
    parts: Vec<key::KeyPart>,
    packer: RowPacker<'p>,
    key: Vec<u8>,
    record: Vec<u8>,
}

impl<'p> Unique<'p> {
    fn new(block: &'p Block, session: &Session) -> Unique<'p> {
        Unique {
            block,
            seen: Distinct::new(session.vars.tmp_room(), session.work()),
            parts: block.project.iter().map(|e| key::KeyPart::new(stored_type(&e.ty), true)).collect(),
            packer: RowPacker::new(&block.layout),
            key: Vec::new(),
            record: Vec::new(),
        }
    }

    fn is_new(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<bool> {
        let Unique { block, key, record, .. } = self;
        key.clear();
        let mut cx = EvalContext::new(session, frame.view());
        for (expr, part) in block.project.iter().zip(&self.parts) {
            let cell = expr.eval(&mut cx)?;
            encode_key_part(part, cell.as_ref(), key);
        }
        record.clear();
        if self.seen.is_full() {
            record.extend_from_slice(&[0; LENGTH_BYTES]);
            block.sort_key(session, frame, record)?;
            let length = (record.len() - LENGTH_BYTES) as u32;
            record[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
            block.sort_payload(session, frame, &mut self.packer, record)?;
        }
        self.seen.is_new(key, |out| out.extend_from_slice(record))
    }

    /// Calls `f` with sort key and row of each that was set aside and is new, until it says no.
    fn rest(self, mut f: impl FnMut(&[u8], &[u8]) -> SqlResult<bool>) -> SqlResult<()> {
        let each = &mut |record: &[u8]| {
            let (head, rest) = record.split_at(LENGTH_BYTES);
            let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
            let (key, row) = rest.split_at(length);
            f(key, row)
        };
        self.seen.rest(each).map(drop)
    }
}

/// Bytes of a sort key's length before it.
const LENGTH_BYTES: usize = 4;
