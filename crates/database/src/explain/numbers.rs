//! The numbers of a statement's SELECTs, in the order in which they stand, and notes that name them.

use keel_base::{SqlError, errors};
use keel_planner::bind::Resolved;
use keel_sql::ast::walk::Part;
use keel_sql::ast::{Expr, JoinCondition, Query, QueryBody, Select, SelectItem, TableRef};

/// SELECTs by their addresses; the place of each is its number less one.
#[derive(Default)]
pub(super) struct Numbers {
    selects: Vec<usize>,
}

impl Numbers {
    /// Counts the SELECTs of a query.
    pub fn count(&mut self, query: &Query) {
        for table in query.with.iter().flat_map(|with| &with.tables) {
            self.count(&table.query);
        }
        self.body(&query.body);
        query.order_by.iter().for_each(|item| self.expr(&item.expr));
    }

    /// What EXPLAIN EXTENDED says of names and aggregates that belong to enclosing queries.
    pub fn notes(&self, resolved: &[Resolved]) -> Vec<SqlError> {
        let number = |select: usize| self.selects.iter().position(|known| *known == select).map(|n| n + 1);
        let note = |one: &Resolved| {
            let (from, to) = (number(one.selects.0)?, number(one.selects.1)?);
            Some(match one.is_aggregate {
                true => errors::warn_aggfunc_dependence(&one.name, from, to),
                false => errors::warn_field_resolved(&one.name, from, to),
            })
        };
        resolved.iter().filter_map(note).collect()
    }

    /// The notes on SELECTs whose only item stands for them.
    pub fn reduced(&self, selects: &[usize]) -> Vec<SqlError> {
        let numbers =
            selects.iter().filter_map(|select| self.selects.iter().position(|known| known == select));
        numbers.map(|place| errors::select_reduced(place + 1)).collect()
    }

    fn body(&mut self, body: &QueryBody) {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::SetOps { first, rest } => {
                self.body(first);
                rest.iter().for_each(|operand| self.body(&operand.body));
            }
            QueryBody::Nested(query) => self.count(query),
            QueryBody::Values(rows, _) => {
                // It has a number, which no name leads to.
                self.selects.push(0);
                rows.iter().flatten().for_each(|expr| self.expr(expr));
            }
        }
    }

    fn select(&mut self, select: &Select) {
        self.selects.push(std::ptr::from_ref(select) as usize);
        for item in &select.items {
            if let SelectItem::Expr { expr, .. } = item {
                self.expr(expr);
            }
        }
        select.from.iter().for_each(|table| self.table(table));
        select.filter.iter().for_each(|expr| self.expr(expr));
        select.group_by.iter().for_each(|item| self.expr(&item.expr));
        select.having.iter().for_each(|expr| self.expr(expr));
    }

    fn table(&mut self, table: &TableRef) {
        match table {
            TableRef::Table { .. } => {}
            TableRef::Derived { query, .. } => self.count(query),
            TableRef::JsonTable(table) => self.expr(&table.document),
            TableRef::Join { left, right, on, .. } => {
                self.table(left);
                self.table(right);
                if let JoinCondition::On(expr) = on {
                    self.expr(expr);
                }
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        expr.each_part(&mut |part| match part {
            Part::Expr(expr) => self.expr(expr),
            Part::Query(query) => self.count(query),
        });
    }
}
