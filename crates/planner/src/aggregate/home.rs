//! Which query an aggregate belongs to.
//!
//! An aggregate within a subquery may be one of an enclosing query's groups: `HAVING (SELECT MAX(t1.a) FROM t2) > 1` asks for
//! the greatest `a` of t1. It belongs to the innermost query whose columns it reads, if aggregates may stand where the
//! subquery stands; else to the innermost query around that one's where they may, its own being the last choice.

use keel_base::{SqlResult, errors};
use keel_exec::aggregate::AggregateCall;
use keel_exec::select::local_type;
use keel_expr::{ColumnRef, Expr, Node, walk};
use keel_value::SqlMode;

use crate::bind::Binder;

/// Columns of enclosing queries that the subqueries being bound have read: level, slot, column of each scope.
pub(super) type Reads = Vec<Vec<(u16, u16, u16)>>;

/// What the arguments of an aggregate read, as numbers of queries outwards.
#[derive(Default)]
struct Levels {
    /// The innermost column.
    column: Option<usize>,
    /// The innermost aggregate of an enclosing query.
    aggregate: Option<usize>,
}

fn nearer(known: &mut Option<usize>, level: usize) {
    *known = Some(known.map_or(level, |known| known.min(level)));
}

impl Binder<'_> {
    /// How many queries outwards a bound aggregate belongs; 1111 where it may stand nowhere.
    pub(super) fn home(&self, call: &AggregateCall) -> SqlResult<usize> {
        let depth = self.scopes.len() - 1;
        let own = self.clause.takes_aggregates() && self.scope().takes_aggregates;
        let allowed = |level: &usize| match level {
            0 => own,
            _ => self.scopes[depth - level].subquery_at.takes_aggregates,
        };
        let levels = self.levels(call);
        let home = match levels.column {
            Some(0) => Some(0).filter(allowed),
            None if own => Some(0),
            column => {
                let last = column.unwrap_or(depth);
                let ansi = column.is_some() && self.cx.session.vars.sql_mode.has(SqlMode::ANSI);
                let farthest = column.filter(allowed);
                farthest
                    .or_else(|| (1..=last).find(allowed))
                    .or_else(|| Some(0).filter(allowed).filter(|_| !ansi))
            }
        };
        let within = |level: usize| match level {
            0 => self.in_aggregate,
            _ => self.scopes[depth - level].subquery_at.in_aggregate,
        };
        home.filter(|level| !within(*level) && levels.aggregate.is_none_or(|inner| inner > *level))
            .ok_or_else(errors::invalid_group_func_use)
    }

    fn levels(&self, call: &AggregateCall) -> Levels {
        let mut levels = Levels::default();
        let depth = self.scopes.len() - 1;
        let mut note = |level: usize, slot: u16| {
            // A level beyond all scopes is one of those that a derived table hides; there is none.
            let Some(scope) = depth.checked_sub(level).map(|index| &self.scopes[index]) else { return };
            let is_aggregate = scope.group_slot == Some(slot);
            nearer(if is_aggregate { &mut levels.aggregate } else { &mut levels.column }, level);
        };
        for expr in call.args.iter().chain(call.order.iter().map(|(expr, _)| expr)) {
            walk::visit(expr, &mut |e| match &e.node {
                Node::Column(column) => note(0, column.slot),
                Node::Outer { level, column } => note(usize::from(*level), column.slot),
                Node::Routine(routine) => {
                    routine.reads().iter().for_each(|(level, slot, _)| note(usize::from(*level) - 1, *slot));
                }
                _ => {}
            });
        }
        levels
    }

    /// What was read of enclosing queries so far.
    pub(super) fn reads_so_far(&self) -> Reads {
        match self.scopes.len() {
            1 => Reads::new(),
            _ => self.scopes.iter().map(|scope| scope.reads.clone()).collect(),
        }
    }

    pub(super) fn forget_reads(&mut self, reads: Reads) {
        self.scopes.iter_mut().zip(reads).for_each(|(scope, reads)| scope.reads = reads);
    }

    /// Binds an aggregate of the query that many levels outwards; gives it as seen from here.
    pub(super) fn outwards(
        &mut self,
        level: usize,
        bind: impl FnOnce(&mut Self) -> SqlResult<AggregateCall>,
    ) -> SqlResult<Expr> {
        let home = self.scopes.len() - 1 - level;
        let inner = self.scopes.split_off(home + 1);
        let nested = std::mem::replace(&mut self.in_aggregate, true);
        let bound = bind(self);
        self.in_aggregate = nested;
        let kept = bound.map(|call| self.keep_aggregate(call));
        let slot = self.scope().group_slot;
        self.scopes.extend(inner);
        let kept = kept?;
        let (Node::Aggregate(number), Some(slot)) = (&kept.node, slot) else {
            return Err(errors::invalid_group_func_use());
        };
        let number = *number as u16;
        for (distance, scope) in self.scopes[home + 1..].iter_mut().enumerate() {
            let read = (distance as u16 + 1, slot, number);
            if !scope.reads.contains(&read) {
                scope.reads.push(read);
            }
        }
        let column = ColumnRef { slot, column: number, name: "aggregate".into() };
        let ty = local_type(&kept.ty);
        Ok(Expr { node: Node::Outer { level: level as u16, column }, ty, ..kept })
    }
}
