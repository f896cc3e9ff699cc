//! A query, bound and planned: what EXPLAIN shows and operators run.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_sql::ast::LockClause;
use keel_storage::Read;
use keel_value::{SqlType, Value};

use super::block::Block;
use super::carry::result_layout;
use super::export;
use super::frame::FrameBuffer;
use super::recursive::{RecursivePlan, WorkingPlan};
use super::setop::SetPlan;
use crate::catalog::TableDef;
use crate::counts::Counts;
use crate::expr::{Derivation, Node, typing, walk};
use crate::join::TableSource;
use crate::result::{ResultColumns, RowView};
use crate::session::Session;

/// What bounds one run of a query block from outside.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// How tables are read.
    pub read: Read,
    /// `sql_select_limit`, for a block without LIMIT.
    pub default_count: u64,
    /// Rows that the consumer takes at most.
    pub most: u64,
}

/// What EXPLAIN says beyond the source's tables.
#[derive(Debug, Clone, Default)]
pub struct ExplainFacts {
    /// Rows are sorted.
    pub sorts: bool,
    /// Rows are grouped by something.
    pub groups: bool,
    /// DISTINCT.
    pub distinct: bool,
    /// Window functions.
    pub windows: bool,
}

/// A query, bound and planned.
pub struct SelectPlan {
    /// One block, or a UNION of several.
    pub body: Body,
    /// The columns of the result.
    pub columns: Arc<ResultColumns>,
    /// Types of the result's columns, and whether each may be NULL.
    pub types: Vec<(SqlType, bool)>,
    /// How strongly the collation of each column binds.
    pub derivations: Vec<Derivation>,
    /// Every real table read, once.
    pub tables: Vec<Arc<TableDef>>,
    /// How the rows are locked; none for plain reads.
    pub lock: Option<LockClause>,
    /// INTO @a, @b.
    pub into: Vec<Arc<str>>,
    /// INTO OUTFILE, INTO DUMPFILE.
    pub export: Option<Box<export::Export>>,
    /// What it did, for ANALYZE.
    pub counts: Option<Arc<Counts>>,
}

/// What produces a query's rows.
pub enum Body {
    /// One SELECT.
    Block(Box<Block>),
    /// UNION, EXCEPT, INTERSECT.
    Set(Box<SetPlan>),
    /// A table of WITH RECURSIVE.
    Recursive(Box<RecursivePlan>),
    /// That table within its own query.
    Working(WorkingPlan),
}

/// Where the values of a query's column come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A column of a table or of another query, or the least or greatest value of one.
    Column,
    /// The results of several queries.
    Merged,
    /// An assignment to a user variable.
    Assigned,
    /// Any other expression.
    Computed,
}

impl SelectPlan {
    /// The result's columns.
    pub fn columns(&self) -> &Arc<ResultColumns> {
        &self.columns
    }

    /// Every real or virtual table that it reads, once.
    pub fn tables(&self) -> &[Arc<TableDef>] {
        &self.tables
    }

    /// Whether its rows go into variables or a file, so that the client gets an OK packet.
    pub fn is_into(&self) -> bool {
        !self.into.is_empty() || self.export.is_some()
    }

    /// How it locks what it reads; none for plain reads.
    pub fn lock(&self) -> Option<&LockClause> {
        self.lock.as_ref()
    }

    /// Whether its rows stand for several rows of its tables, or for none.
    pub fn is_grouped(&self) -> bool {
        !matches!(&self.body, Body::Block(block) if block.group.is_none() && !block.distinct)
    }

    /// Makes the plan's quotients keep the digits that were computed, where rows go into a table as they are made. Of rows
    /// that are kept meanwhile (`packed`) only constants do, as far as there is room.
    pub fn keep_digits(&mut self, packed: bool) {
        let Body::Block(block) = &mut self.body else { return };
        if block.group.is_some() || block.windows.is_some() || block.distinct {
            return;
        }
        let sorted = !block.order.is_empty();
        for (expr, (ty, _)) in block.project.iter_mut().zip(&mut self.types) {
            match packed || sorted {
                false => typing::keep_digits(expr),
                true if packed && walk::slots_read(expr) != 0 => {}
                true => typing::keep_fitting_digits(expr),
            }
            *ty = expr.ty.clone();
        }
        block.layout = result_layout(block.project.iter().map(|e| &e.ty));
    }

    /// The same of values that are kept until rows of several tables change: as many digits as there is room for.
    pub fn keep_assigned_digits(&mut self) {
        let Body::Block(block) = &mut self.body else { return };
        for (expr, (ty, _)) in block.project.iter_mut().zip(&mut self.types) {
            typing::keep_fitting_digits(expr);
            *ty = expr.ty.clone();
        }
        block.layout = result_layout(block.project.iter().map(|e| &e.ty));
    }

    /// Rows expected of it; a rough guess.
    pub fn expected_rows(&self) -> f64 {
        match &self.body {
            Body::Block(block) if block.group.as_ref().is_some_and(|g| g.keys.is_empty()) => 1.0,
            Body::Block(block) => block.source.expected_rows(),
            Body::Set(set) => set.queries().iter().map(|part| part.expected_rows()).sum(),
            Body::Recursive(recursive) => recursive.queries().iter().map(|part| part.expected_rows()).sum(),
            Body::Working(_) => 2.0,
        }
    }

    /// Has the rows of tables locked shared that `changes` does not name, where it locks its rows exclusively.
    pub fn share_unless(&mut self, changes: &dyn Fn(&TableSource) -> bool) {
        if let Body::Block(block) = &mut self.body {
            block.source.share_unless(changes);
        }
    }

    /// Whether it is a SELECT without tables.
    pub(crate) fn has_one_row(&self) -> bool {
        matches!(&self.body, Body::Block(block) if matches!(block.source, crate::join::Source::One))
    }

    /// 1175 where it reads a table from start to end without an index, unless a constant condition leaves out all rows.
    pub fn check_safe(&self, session: &mut Session, params: &[Value]) -> SqlResult<()> {
        let Body::Block(block) = &self.body else { return Ok(()) };
        if !session.vars.safe_updates || !block.source.reads_whole_table() {
            return Ok(());
        }
        let frame = FrameBuffer::new(block.slot_count, block.once, params, None);
        match crate::join::all_hold(&block.constants, session, &frame)? {
            true => Err(errors::update_without_key_in_safe_mode()),
            false => Ok(()),
        }
    }

    /// Shows the tables of its join: [`crate::join::Source::each_table`].
    pub fn each_table(&self, show: &mut dyn FnMut(&TableSource, usize)) {
        if let Body::Block(block) = &self.body {
            block.source.each_table(0, 0, show);
        }
    }

    /// Whether it reads whole tables, or parts that are always the same, of more than a few rows, each time it runs.
    pub fn scans(&self) -> bool {
        matches!(&self.body, Body::Block(block) if block.source.scans())
    }

    /// Types of the result's columns, and whether each may be NULL.
    pub fn types(&self) -> &[(SqlType, bool)] {
        &self.types
    }
}

/// Takes the rows of a query inside the server. The session is lent along, so that INSERT ... SELECT can write.
pub trait RowOutput {
    /// One row; `false` ends the query early without an error.
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool>;
}

impl SelectPlan {
    /// Where the values of an item come from.
    pub fn origin(&self, item: usize) -> Origin {
        let Body::Block(block) = &self.body else { return Origin::Merged };
        let expr = &block.project[item];
        match (block.aggregate(expr), &expr.node) {
            (Some(call), _) if call.column().is_none() => Origin::Computed,
            (_, Node::AssignUserVar(..)) => Origin::Assigned,
            _ if expr.as_any_column().is_none() => Origin::Computed,
            _ => Origin::Column,
        }
    }
}
