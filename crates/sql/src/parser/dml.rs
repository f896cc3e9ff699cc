//! INSERT, REPLACE, UPDATE, DELETE.

use super::Parser;
use crate::ast::{
    Assignment, ColumnName, Delete, Expr, Insert, InsertSource, Limit, ObjectName, Priority, QueryBody,
    SelectItem, Statement, Update, With,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use crate::rows::LiteralRows;
use keel_base::SqlResult;

impl Parser<'_> {
    /// INSERT and REPLACE; behind the word.
    pub(super) fn insert(&mut self, replace: bool) -> SqlResult<Statement> {
        let allowed: &[Kw] = if replace {
            &[Kw::LOW_PRIORITY, Kw::DELAYED]
        } else {
            &[Kw::LOW_PRIORITY, Kw::DELAYED, Kw::HIGH_PRIORITY]
        };
        let priority = self.accept_any(allowed).map(|kw| match kw {
            Kw::LOW_PRIORITY => Priority::Low,
            Kw::DELAYED => Priority::Delayed,
            _ => Priority::High,
        });
        let ignore = !replace && self.accept_kw(Kw::IGNORE);
        self.accept_kw(Kw::INTO);
        let table = self.object_name()?;
        let partitions = self.partitions()?;
        let mut insert = Insert {
            replace,
            priority,
            ignore,
            table,
            partitions,
            columns: Vec::new(),
            has_column_list: false,
            source: InsertSource::Values(Vec::new()),
            on_duplicate: Vec::new(),
            returning: Vec::new(),
        };
        self.insert_source(&mut insert)?;
        if !replace && self.accept_then(Kw::ON, &[Kw::DUPLICATE, Kw::KEY, Kw::UPDATE])? {
            self.in_on_duplicate = true;
            insert.on_duplicate = self.assignments()?;
            self.in_on_duplicate = false;
        }
        insert.returning = self.returning()?;
        Ok(Statement::Insert(Box::new(insert)))
    }

    fn insert_source(&mut self, insert: &mut Insert) -> SqlResult<()> {
        if self.accept_kw(Kw::SET) {
            let (columns, values) = self
                .assignments()?
                .into_iter()
                .map(|assignment| (assignment.column, assignment.value))
                .unzip();
            insert.columns = columns;
            insert.has_column_list = true;
            insert.source = InsertSource::Values(vec![values]);
            return Ok(());
        }
        if self.at(Tok::LParen) && !self.at_parenthesized_query() {
            self.advance();
            insert.has_column_list = true;
            if !self.at(Tok::RParen) {
                insert.columns = self.list(Self::insert_column)?;
            }
            self.expect(Tok::RParen)?;
        }
        insert.source = if self.accept_any(&[Kw::VALUES, Kw::VALUE]).is_some() {
            match self.rows.filter(|_| self.accept(Tok::Rows)) {
                Some(span) => InsertSource::Literals(LiteralRows::new(self.text, span, &self.options)),
                None => InsertSource::Values(self.list(Self::insert_row)?),
            }
        } else if self.at_query_word() || self.at(Tok::LParen) {
            let query = self.first_query()?;
            let is_bare = query.is_bare();
            match query.body {
                // `INSERT INTO t (VALUES ...)`: rows like any other.
                QueryBody::Values(rows, _) if is_bare => InsertSource::Values(rows),
                _ => InsertSource::Query(query),
            }
        } else {
            return Err(self.unexpected());
        };
        Ok(())
    }

    /// At a parenthesis: whether a query stands in it, or in those inside it.
    fn at_parenthesized_query(&self) -> bool {
        let inside = self.tokens[self.pos..].iter().find(|token| token.tok != Tok::LParen);
        inside.is_some_and(|token| matches!(token.kw, Some(Kw::SELECT | Kw::WITH | Kw::VALUES)))
    }

    fn insert_column(&mut self) -> SqlResult<ColumnName> {
        self.column_name()
    }

    fn insert_row(&mut self) -> SqlResult<Vec<Expr>> {
        self.expect(Tok::LParen)?;
        if self.accept(Tok::RParen) {
            return Ok(Vec::new());
        }
        let row = self.list(Self::expr_or_default)?;
        self.expect(Tok::RParen)?;
        Ok(row)
    }

    /// A value that may also be DEFAULT or IGNORE.
    pub(super) fn expr_or_default(&mut self) -> SqlResult<Expr> {
        if self.at_kw(Kw::DEFAULT) && self.peek_at(1).tok != Tok::LParen {
            self.advance();
            return Ok(Expr::Default(None));
        }
        if self.accept_kw(Kw::IGNORE) {
            return Ok(Expr::Ignore);
        }
        self.expr()
    }

    pub(super) fn assignments(&mut self) -> SqlResult<Vec<Assignment>> {
        self.list(|parser| {
            let column = parser.column_name()?;
            if !parser.accept(Tok::Assign) {
                parser.expect(Tok::Eq)?;
            }
            Ok(Assignment { column, value: parser.expr_or_default()? })
        })
    }

    fn returning(&mut self) -> SqlResult<Vec<SelectItem>> {
        if self.accept_kw(Kw::RETURNING) { self.select_items() } else { Ok(Vec::new()) }
    }

    /// Behind UPDATE.
    pub(super) fn update(&mut self, with: Option<With>) -> SqlResult<Statement> {
        let low_priority = self.accept_kw(Kw::LOW_PRIORITY);
        let ignore = self.accept_kw(Kw::IGNORE);
        let tables = self.table_refs()?;
        self.expect_kw(Kw::SET)?;
        let assignments = self.assignments()?;
        let filter = self.filter()?;
        let order_by = if self.accept_then(Kw::ORDER, &[Kw::BY])? { self.order_items()? } else { Vec::new() };
        let limit = self.row_limit()?;
        let update = Update { with, low_priority, ignore, tables, assignments, filter, order_by, limit };
        Ok(Statement::Update(Box::new(update)))
    }

    /// Behind DELETE.
    pub(super) fn delete(&mut self, with: Option<With>) -> SqlResult<Statement> {
        let mut delete = Delete {
            with,
            low_priority: false,
            quick: false,
            ignore: false,
            targets: Vec::new(),
            from: Vec::new(),
            filter: None,
            order_by: Vec::new(),
            limit: None,
            returning: Vec::new(),
        };
        while let Some(kw) = self.delete_option() {
            match kw {
                Kw::LOW_PRIORITY => delete.low_priority = true,
                Kw::QUICK => delete.quick = true,
                _ => delete.ignore = true,
            }
        }
        if !self.accept_kw(Kw::FROM) {
            delete.targets = self.list(Self::delete_target)?;
            self.expect_kw(Kw::FROM)?;
            delete.from = self.table_refs()?;
            delete.filter = self.filter()?;
            return Ok(Statement::Delete(Box::new(delete)));
        }
        if self.at_delete_using() {
            delete.targets = self.list(Self::delete_target)?;
            self.expect_kw(Kw::USING)?;
            delete.from = self.table_refs()?;
            delete.filter = self.filter()?;
            return Ok(Statement::Delete(Box::new(delete)));
        }
        self.delete_from_one(&mut delete)?;
        Ok(Statement::Delete(Box::new(delete)))
    }

    /// LOW_PRIORITY, IGNORE, and QUICK where it is no table's name.
    fn delete_option(&mut self) -> Option<Kw> {
        if self.at_kw(Kw::QUICK) && matches!(self.peek_at(1).tok, Tok::Dot | Tok::Comma) {
            return None;
        }
        self.accept_any(&[Kw::LOW_PRIORITY, Kw::QUICK, Kw::IGNORE])
    }

    /// `DELETE FROM table WHERE ...`; at the table.
    fn delete_from_one(&mut self, delete: &mut Delete) -> SqlResult<()> {
        let name = self.object_name()?;
        let partitions = self.partitions()?;
        delete.from = vec![crate::ast::TableRef::Table { name, alias: None, partitions, hints: Vec::new() }];
        delete.filter = self.filter()?;
        if self.accept_then(Kw::ORDER, &[Kw::BY])? {
            delete.order_by = self.order_items()?;
        }
        delete.limit = self.row_limit()?;
        delete.returning = self.returning()?;
        Ok(())
    }

    /// Behind FROM: whether `a, b USING` follows: the first name is not the only one.
    fn at_delete_using(&self) -> bool {
        let qualified = self.peek_at(1).tok == Tok::Dot;
        let behind = self.peek_at(if qualified { 3 } else { 1 });
        let starred = qualified && self.peek_at(2).tok == Tok::Star;
        starred || matches!(behind.tok, Tok::Comma | Tok::Dot) || behind.kw == Some(Kw::USING)
    }

    /// LIMIT n, which UPDATE and DELETE have.
    fn row_limit(&mut self) -> SqlResult<Option<Limit>> {
        if !self.accept_kw(Kw::LIMIT) {
            return Ok(None);
        }
        let mut limit = Limit { count: None, offset: None, rows_examined: None, with_ties: false };
        if !self.at_kw(Kw::ROWS) {
            limit.count = Some(self.limit_option()?);
        }
        // ROWS EXAMINED bounds queries alone.
        if self.accept_kw(Kw::ROWS) {
            return Err(self.unexpected());
        }
        Ok(Some(limit))
    }

    /// `t`, `db.t`, `t.*`.
    fn delete_target(&mut self) -> SqlResult<ObjectName> {
        let first = self.ident()?;
        if !self.accept(Tok::Dot) {
            return Ok(ObjectName { db: None, name: first });
        }
        if self.accept(Tok::Star) {
            return Ok(ObjectName { db: None, name: first });
        }
        let name = self.ident()?;
        if self.accept(Tok::Dot) {
            self.expect(Tok::Star)?;
        }
        Ok(ObjectName { db: Some(first), name })
    }
}
