//! Going through a tree: the parts of expressions and queries, and what can be told of them without binding.
//!
//! Recursion follows the tree, whose depth the parser bounds.

use super::{
    ColumnName, Expr, JoinCondition, JsonColumn, JsonTable, Query, QueryBody, Select, SelectItem, TableRef,
};

/// A part of a tree.
#[derive(Debug, Clone, Copy)]
pub enum Part<'t> {
    /// An expression.
    Expr(&'t Expr),
    /// A query.
    Query(&'t Query),
}

impl Expr {
    /// Gives `f` the expressions and queries right below this one.
    pub fn each_part<'t>(&'t self, f: &mut dyn FnMut(Part<'t>)) {
        let mut all = |list: &[&'t Expr]| list.iter().for_each(|expr| f(Part::Expr(expr)));
        match self {
            Expr::Literal(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::UserVar(_)
            | Expr::SysVar(_)
            | Expr::Default(_)
            | Expr::Sequence(_)
            | Expr::Values(_)
            | Expr::Ignore => {}
            Expr::AssignUserVar { value: expr, .. }
            | Expr::Unary { expr, .. }
            | Expr::Is { expr, .. }
            | Expr::Cast { expr, .. }
            | Expr::ConvertUsing { expr, .. }
            | Expr::Collate { expr, .. }
            | Expr::Extract { expr, .. }
            | Expr::Match { against: expr, .. } => all(&[expr]),
            Expr::Binary { left, right, .. } => all(&[left, right]),
            Expr::Between { expr, low, high, .. } => all(&[expr, low, high]),
            Expr::Like { expr, pattern, escape, .. } => {
                all(&[expr, pattern]);
                escape.iter().for_each(|expr| f(Part::Expr(expr)));
            }
            Expr::Regexp { expr, pattern, .. } => all(&[expr, pattern]),
            Expr::DateArithmetic { expr, amount, .. } | Expr::TimestampAdd { expr, amount, .. } => {
                all(&[expr, amount])
            }
            Expr::TimestampDiff { from, to, .. } => all(&[from, to]),
            Expr::Trim { what, expr, .. } => {
                what.iter().for_each(|expr| f(Part::Expr(expr)));
                f(Part::Expr(expr));
            }
            Expr::Char { args: list, .. } | Expr::Row(list) => {
                list.iter().for_each(|expr| f(Part::Expr(expr)))
            }
            Expr::InList { expr, list, .. } => {
                f(Part::Expr(expr));
                list.iter().for_each(|expr| f(Part::Expr(expr)));
            }
            Expr::Case { operand, whens, otherwise } => {
                operand.iter().for_each(|expr| f(Part::Expr(expr)));
                whens.iter().for_each(|(when, then)| {
                    f(Part::Expr(when));
                    f(Part::Expr(then));
                });
                otherwise.iter().for_each(|expr| f(Part::Expr(expr)));
            }
            Expr::InSubquery { expr, query, .. } | Expr::Quantified { left: expr, query, .. } => {
                f(Part::Expr(expr));
                f(Part::Query(query));
            }
            Expr::Exists(query) | Expr::Subquery(query) => f(Part::Query(query)),
            Expr::Function(call) => {
                call.args.iter().for_each(|expr| f(Part::Expr(expr)));
                call.order_by.iter().for_each(|item| f(Part::Expr(&item.expr)));
                if let Some(window) = &call.over {
                    window.partition_by.iter().for_each(|expr| f(Part::Expr(expr)));
                    window.order_by.iter().for_each(|item| f(Part::Expr(&item.expr)));
                }
            }
        }
    }

    /// Whether a query stands within.
    pub fn has_query(&self) -> bool {
        let mut found = false;
        self.each_part(&mut |part| {
            found = found
                || match part {
                    Part::Expr(expr) => expr.has_query(),
                    Part::Query(_) => true,
                }
        });
        found
    }

    /// The first column that is named with its table, outside the queries within.
    pub fn first_qualified_column(&self) -> Option<&ColumnName> {
        if let Expr::Column(name) | Expr::Default(Some(name)) = self
            && name.table.is_some()
        {
            return Some(name);
        }
        let mut found = None;
        self.each_part(&mut |part| {
            if let (None, Part::Expr(expr)) = (found, part) {
                found = expr.first_qualified_column();
            }
        });
        found
    }

    /// Whether it has a window function, outside the queries within.
    pub fn has_window_function(&self) -> bool {
        let mut found = matches!(self, Expr::Function(call) if call.over.is_some());
        self.each_part(&mut |part| {
            found = found || matches!(part, Part::Expr(expr) if expr.has_window_function());
        });
        found
    }

    /// Whether it asks a sequence for a value, outside the queries within.
    pub fn has_sequence(&self) -> bool {
        let mut found = matches!(self, Expr::Sequence(..));
        self.each_part(&mut |part| {
            found = found || matches!(part, Part::Expr(expr) if expr.has_sequence());
        });
        found
    }

    /// Whether a query within reads any table.
    pub fn reads_tables(&self) -> bool {
        self.reads(&|_| true)
    }

    /// Whether a query within reads the table: see [`Query::reads`].
    fn reads(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        let mut found = false;
        self.each_part(&mut |part| {
            found = found
                || match part {
                    Part::Expr(expr) => expr.reads(is_it),
                    Part::Query(query) => query.reads(is_it),
                }
        });
        found
    }
}

impl Query {
    /// Whether it names a table by a name alone that `is_it` accepts, which no WITH within it takes for another.
    pub fn reads(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        if let Some(with) = &self.with {
            for table in &with.tables {
                let hides = is_it(&table.name);
                // A table of WITH RECURSIVE means itself.
                if !(hides && with.recursive) && table.query.reads(is_it) {
                    return true;
                }
                if hides {
                    return false;
                }
            }
        }
        self.body.reads(is_it) || self.order_by.iter().any(|item| item.expr.reads(is_it))
    }
}

impl QueryBody {
    /// See [`Query::reads`].
    pub fn reads(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        match self {
            QueryBody::SetOps { first, rest } => {
                first.reads(is_it) || rest.iter().any(|operand| operand.body.reads(is_it))
            }
            QueryBody::Select(select) => select.reads(is_it),
            QueryBody::Values(rows, _) => rows.iter().flatten().any(|expr| expr.reads(is_it)),
            QueryBody::Nested(query) => query.reads(is_it),
        }
    }
}

impl Select {
    fn reads(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        let item = |item: &SelectItem| matches!(item, SelectItem::Expr { expr, .. } if expr.reads(is_it));
        let windows = self.windows.iter().map(|(_, window)| window);
        let ordered = |window: &super::WindowSpec| {
            window.partition_by.iter().any(|expr| expr.reads(is_it))
                || window.order_by.iter().any(|item| item.expr.reads(is_it))
        };
        self.from.iter().any(|table| table.reads(is_it))
            || self.items.iter().any(item)
            || self.filter.iter().chain(&self.having).any(|expr| expr.reads(is_it))
            || self.group_by.iter().any(|item| item.expr.reads(is_it))
            || windows.into_iter().any(ordered)
    }
}

impl JsonTable {
    /// Whether it has a column of that name.
    pub fn has_column(&self, name: &str) -> bool {
        fn among(columns: &[JsonColumn], name: &str) -> bool {
            columns.iter().any(|column| match column {
                JsonColumn::Ordinality(own) => own.eq_ignore_ascii_case(name),
                JsonColumn::Value { column, .. } | JsonColumn::Exists { column, .. } => {
                    column.name.eq_ignore_ascii_case(name)
                }
                JsonColumn::Nested { columns, .. } => among(columns, name),
            })
        }
        among(&self.columns, name)
    }
}

impl TableRef {
    fn reads(&self, is_it: &dyn Fn(&str) -> bool) -> bool {
        match self {
            TableRef::Table { name, .. } => name.db.is_none() && is_it(&name.name),
            TableRef::Derived { query, .. } => query.reads(is_it),
            TableRef::JsonTable(table) => table.document.reads(is_it),
            TableRef::Join { left, right, on, .. } => {
                let on = matches!(on, JoinCondition::On(expr) if expr.reads(is_it));
                on || left.reads(is_it) || right.reads(is_it)
            }
        }
    }
}
