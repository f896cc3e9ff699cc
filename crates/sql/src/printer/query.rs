//! Queries and what stands in FROM.

use super::Printer;
use crate::ast::{
    Expr, IndexHint, IndexHintKind, IndexHintPurpose, IntoTarget, JoinCondition, JoinKind, Limit, LockClause,
    LockWait, OrderItem, Query, QueryBody, Select, SelectInto, SelectItem, SelectOptions, SetOp, TableRef,
    With,
};

impl Printer {
    pub(super) fn query(&mut self, query: &Query) {
        if let Some(with) = &query.with {
            self.with(with);
        }
        self.body(&query.body);
        self.order_by(&query.order_by);
        if let Some(limit) = &query.limit {
            self.limit(limit);
        }
        if let Some(into) = &query.into {
            self.select_into(into);
        }
        if let Some(lock) = &query.lock {
            self.lock(lock);
        }
    }

    pub(super) fn with(&mut self, with: &With) {
        self.word("with ");
        self.flag(with.recursive, "recursive ");
        let mut first = true;
        self.list(&with.tables, |printer, table| {
            let after = !std::mem::replace(&mut first, false);
            printer.flag(printer.view && after, " ");
            let is_plain = table.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && crate::keyword::Kw::lookup(table.name.as_bytes()).is_none()
                && !table.name.starts_with(|c: char| c.is_ascii_digit());
            if printer.view && is_plain {
                printer.word(&table.name)
            } else {
                printer.ident(&table.name)
            }
            if !table.columns.is_empty() {
                printer.parens(|printer| printer.idents(&table.columns));
            }
            printer.word(" as ");
            printer.parens(|printer| printer.query(&table.query));
            if !table.cycle.is_empty() {
                printer.word(if printer.view { " CYCLE " } else { " cycle " });
                printer.idents(&table.cycle);
                printer.word(if printer.view { " RESTRICT " } else { " restrict" });
            }
        });
        self.flag(!self.view, " ");
    }

    fn body(&mut self, body: &QueryBody) {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::Values(rows, _) => {
                if std::mem::take(&mut self.values_in_parens) {
                    self.parens(|printer| printer.values(rows));
                } else {
                    self.values(rows);
                }
            }
            QueryBody::Nested(query) => self.parens(|printer| printer.query(query)),
            QueryBody::SetOps { first, rest } => {
                self.body(first);
                for operand in rest {
                    self.word(match operand.op {
                        SetOp::Union => " union ",
                        SetOp::Except => " except ",
                        SetOp::Intersect => " intersect ",
                    });
                    self.flag(operand.all, "all ");
                    self.body(&operand.body);
                }
            }
        }
    }

    pub(super) fn values(&mut self, rows: &[Vec<Expr>]) {
        self.word("values ");
        self.list(rows, |printer, row| printer.parens(|printer| printer.exprs(row)));
    }

    fn select(&mut self, select: &Select) {
        self.word("select ");
        self.options(&select.options);
        self.items(&select.items);
        if !select.from.is_empty() {
            self.word(" from ");
            self.tables(&select.from);
        } else if select.filter.is_some() || !select.group_by.is_empty() || select.having.is_some() {
            self.word(if self.view { " from DUAL " } else { " from dual" });
        }
        if let Some(filter) = &select.filter {
            self.word(" where ");
            self.expr(filter, 0);
        }
        if !select.group_by.is_empty() {
            self.word(" group by ");
            self.order_items(&select.group_by);
            self.flag(select.rollup, " with rollup");
        }
        if let Some(having) = &select.having {
            self.word(" having ");
            self.expr(having, 0);
        }
        if !select.windows.is_empty() {
            self.word(" window ");
            self.list(&select.windows, |printer, (name, window)| {
                printer.ident(name);
                printer.word(" as ");
                printer.window(window);
            });
        }
    }

    fn options(&mut self, options: &SelectOptions) {
        self.flag(options.all, "all ");
        self.flag(options.straight_join && self.view, "straight_join ");
        self.flag(options.high_priority && self.view, "high_priority ");
        self.flag(options.distinct, "distinct ");
        self.flag(options.high_priority && !self.view, "high_priority ");
        self.flag(options.straight_join && !self.view, "straight_join ");
        self.flag(options.small_result, "sql_small_result ");
        self.flag(options.big_result, "sql_big_result ");
        self.flag(options.buffer_result, "sql_buffer_result ");
        self.flag(options.calc_found_rows && self.view, "sql_calc_found_rows ");
        self.flag(options.cache == Some(true), "sql_cache ");
        self.flag(options.cache == Some(false), "sql_no_cache ");
        self.flag(options.calc_found_rows && !self.view, "sql_calc_found_rows ");
    }

    pub(super) fn items(&mut self, items: &[SelectItem]) {
        self.list(items, |printer, item| match item {
            SelectItem::Wildcard { db, table } => {
                for part in [db, table].into_iter().flatten() {
                    printer.ident(part);
                    printer.out.push('.');
                }
                printer.out.push('*');
            }
            SelectItem::Expr { expr, alias, .. } => {
                printer.expr(expr, 0);
                if let Some(alias) = alias {
                    printer.word(" AS ");
                    printer.ident(alias);
                }
            }
        });
    }

    pub(super) fn order_by(&mut self, items: &[OrderItem]) {
        if !items.is_empty() {
            self.word(" order by ");
            self.order_items(items);
        }
    }

    fn order_items(&mut self, items: &[OrderItem]) {
        self.list(items, |printer, item| {
            printer.expr(&item.expr, 0);
            printer.flag(item.desc, " desc");
        });
    }

    pub(super) fn limit(&mut self, limit: &Limit) {
        if limit.with_ties {
            if let Some(offset) = &limit.offset {
                self.word(" offset ");
                self.expr(offset, 0);
                self.word(" rows");
            }
            if let Some(count) = &limit.count {
                self.word(" fetch first ");
                self.expr(count, 0);
                self.word(" rows with ties");
            }
            return;
        }
        match (&limit.count, &limit.offset) {
            (Some(count), offset) => {
                self.word(" limit ");
                if let Some(offset) = offset {
                    self.expr(offset, 0);
                    self.word(",");
                }
                self.expr(count, 0);
            }
            (None, Some(offset)) => {
                self.word(" offset ");
                self.expr(offset, 0);
                self.word(" rows");
            }
            (None, None) => self.word(" limit"),
        }
        if let Some(rows) = &limit.rows_examined {
            self.word(" rows examined ");
            self.expr(rows, 0);
        }
    }

    fn select_into(&mut self, into: &SelectInto) {
        self.word(" into ");
        match into {
            SelectInto::Variables(targets) => self.list(targets, |printer, target| match target {
                IntoTarget::UserVar(name) => printer.user_var(name),
                IntoTarget::Local(name) => printer.ident(name),
            }),
            SelectInto::Dumpfile(file) => {
                self.word("dumpfile ");
                self.text(file);
            }
            SelectInto::Outfile { file, charset, format } => {
                self.word("outfile ");
                self.text(file);
                if let Some(charset) = charset {
                    self.word(" character set ");
                    self.ident(charset);
                }
                self.file_format(format);
            }
        }
    }

    fn lock(&mut self, lock: &LockClause) {
        self.word(if lock.update { " for update" } else { " lock in share mode" });
        match lock.wait {
            Some(LockWait::NoWait) => self.word(" nowait"),
            Some(LockWait::SkipLocked) => self.word(" skip locked"),
            Some(LockWait::Wait(seconds)) => self.word(&format!(" wait {seconds}")),
            None => {}
        }
    }

    pub(super) fn tables(&mut self, tables: &[TableRef]) {
        self.list(tables, |printer, table| printer.table(table));
    }

    fn table(&mut self, table: &TableRef) {
        match table {
            TableRef::Table { name, alias, partitions, hints } => {
                self.object(name);
                if !partitions.is_empty() {
                    self.word(" partition ");
                    self.parens(|printer| printer.idents(partitions));
                }
                self.alias(alias);
                for hint in hints {
                    self.hint(hint);
                }
            }
            TableRef::Derived { query, alias } => {
                self.parens(|printer| printer.query(query));
                self.alias(alias);
            }
            TableRef::JsonTable(table) => self.json_table(table),
            TableRef::Join { kind, left, right, on, .. } if self.view => {
                self.parens(|printer| printer.view_join(*kind, left, right, on));
            }
            TableRef::Join { kind, natural, left, right, on } => {
                // Behind a join without condition, the next join would go to its right side.
                let open = matches!(**left, TableRef::Join { natural: false, on: JoinCondition::None, .. });
                if open {
                    self.parens(|printer| printer.table(left));
                } else {
                    self.table(left);
                }
                self.flag(*natural, " natural");
                self.word(match kind {
                    JoinKind::Inner => " join ",
                    JoinKind::Straight => " straight_join ",
                    JoinKind::Left => " left join ",
                    JoinKind::Right => " right join ",
                });
                if matches!(**right, TableRef::Join { .. }) {
                    self.parens(|printer| printer.table(right));
                } else {
                    self.table(right);
                }
                self.condition(on);
            }
        }
    }

    /// A join of a view, which stands in parentheses of its own.
    fn view_join(&mut self, kind: JoinKind, left: &TableRef, right: &TableRef, on: &JoinCondition) {
        self.table(left);
        self.word(match kind {
            JoinKind::Inner => " join ",
            JoinKind::Straight => " straight_join ",
            JoinKind::Left => " left join ",
            JoinKind::Right => " right join ",
        });
        self.table(right);
        match on {
            JoinCondition::None => {}
            JoinCondition::On(expr) => {
                self.word(" on");
                self.parens(|printer| printer.expr(expr, 0));
            }
            JoinCondition::Using(columns) => {
                self.word(" using ");
                self.parens(|printer| printer.idents(columns));
            }
        }
    }

    fn alias(&mut self, alias: &Option<String>) {
        if let Some(alias) = alias {
            self.out.push(' ');
            self.ident(alias);
        }
    }

    fn condition(&mut self, on: &JoinCondition) {
        match on {
            JoinCondition::None => {}
            JoinCondition::On(expr) => {
                self.word(" on ");
                self.expr(expr, 0);
            }
            JoinCondition::Using(columns) => {
                self.word(" using ");
                self.parens(|printer| printer.idents(columns));
            }
        }
    }

    fn hint(&mut self, hint: &IndexHint) {
        if self.view {
            self.word(match hint.kind {
                IndexHintKind::Use => " USE INDEX ",
                IndexHintKind::Force => " FORCE INDEX ",
                IndexHintKind::Ignore => " IGNORE INDEX ",
            });
            self.parens(|printer| {
                printer.list(&hint.indexes, |printer, name| match name.eq_ignore_ascii_case("primary") {
                    true => printer.word("PRIMARY"),
                    false => printer.ident(name),
                });
            });
            return;
        }
        self.word(match hint.kind {
            IndexHintKind::Use => " use index ",
            IndexHintKind::Force => " force index ",
            IndexHintKind::Ignore => " ignore index ",
        });
        self.word(match hint.purpose {
            None => "",
            Some(IndexHintPurpose::Join) => "for join ",
            Some(IndexHintPurpose::OrderBy) => "for order by ",
            Some(IndexHintPurpose::GroupBy) => "for group by ",
        });
        self.parens(|printer| printer.idents(&hint.indexes));
    }
}
