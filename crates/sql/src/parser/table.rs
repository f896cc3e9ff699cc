//! What stands in FROM: tables, derived tables, joins.

use super::Parser;
use crate::ast::{
    IndexHint, IndexHintKind, IndexHintPurpose, JoinCondition, JoinKind, ObjectName, Query, TableRef,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

/// What a parenthesis in FROM held.
enum Parenthesized {
    Query(Box<Query>),
    Tables(TableRef),
}

fn join(kind: JoinKind, natural: bool, left: TableRef, right: TableRef, on: JoinCondition) -> TableRef {
    TableRef::Join { kind, natural, left: Box::new(left), right: Box::new(right), on }
}

/// Tables with the joins read so far.
struct Chain {
    tables: TableRef,
    /// Joins down the left side that did not stand in parentheses.
    joins: usize,
}

impl Chain {
    fn join(self, kind: JoinKind, natural: bool, right: Chain, on: JoinCondition) -> Chain {
        Chain { tables: join(kind, natural, self.tables, right.tables, on), joins: self.joins + 1 }
    }

    /// A join without ON is one with the first factor of what follows: `a JOIN b LEFT JOIN c ON x` is
    /// `(a JOIN b) LEFT JOIN c ON x`.
    fn cross(self, kind: JoinKind, mut right: Chain) -> Chain {
        let mut first = &mut right.tables;
        for _ in 0..right.joins {
            let TableRef::Join { left, .. } = first else { break };
            first = left;
        }
        let name = ObjectName { db: None, name: String::new() };
        let hole = TableRef::Table { name, alias: None, partitions: Vec::new(), hints: Vec::new() };
        let factor = std::mem::replace(first, hole);
        *first = join(kind, false, self.tables, factor, JoinCondition::None);
        right.joins += self.joins + 1;
        right
    }
}

/// Words that a join begins with.
const JOIN_WORDS: [Kw; 7] =
    [Kw::JOIN, Kw::INNER, Kw::LEFT, Kw::RIGHT, Kw::CROSS, Kw::NATURAL, Kw::STRAIGHT_JOIN];

/// Joins while they are read: those without a condition so far, and what stands behind the last of them.
struct Joins {
    open: Vec<(Chain, JoinKind)>,
    last: Option<Chain>,
}

impl Joins {
    fn behind(left: TableRef) -> Box<Joins> {
        Box::new(Joins { open: Vec::new(), last: Some(Chain { tables: left, joins: 0 }) })
    }

    /// Opens a join.
    fn push(&mut self, right: TableRef, kind: JoinKind) {
        let left =
            self.last.replace(Chain { tables: right, joins: 0 }).expect("something stands before a join");
        self.open.push((left, kind));
    }

    /// Closes the latest join.
    fn close(&mut self, natural: bool, on: JoinCondition) {
        let right = self.last.take().expect("something stands behind a join");
        let (left, kind) = self.open.pop().expect("a join is open");
        self.last = Some(left.join(kind, natural, right, on));
    }

    /// All of it; None where an outer join has no condition.
    fn finish(mut self) -> Option<TableRef> {
        let mut last = self.last.take().expect("something was read");
        while let Some((left, kind)) = self.open.pop() {
            if matches!(kind, JoinKind::Left | JoinKind::Right) {
                return None;
            }
            last = left.cross(kind, last);
        }
        Some(last.tables)
    }
}

impl Parser<'_> {
    /// `table, table, ...`.
    pub(super) fn table_refs(&mut self) -> SqlResult<Vec<TableRef>> {
        self.list(Self::table_ref)
    }

    /// A table with its joins.
    #[inline(never)]
    fn table_ref(&mut self) -> SqlResult<TableRef> {
        self.nested(|parser| {
            let first = parser.table_factor()?;
            parser.joins(first)
        })
    }

    /// The joins behind `left`.
    #[inline(never)]
    fn joins(&mut self, left: TableRef) -> SqlResult<TableRef> {
        if self.at_any(&JOIN_WORDS) { self.join_chain(Joins::behind(left)) } else { Ok(left) }
    }

    /// ON and USING close the latest join that is open, as in MariaDB: `a JOIN b JOIN c ON x ON y`. What was read lies on the
    /// heap, so that nested joins need little stack.
    #[inline(never)]
    fn join_chain(&mut self, mut joins: Box<Joins>) -> SqlResult<TableRef> {
        let mut length = 0;
        while self.join_part(&mut joins)? {
            self.chain(&mut length)?;
        }
        joins.finish().ok_or_else(|| self.unexpected())
    }

    /// One more join, or the condition of the latest; false where neither comes.
    #[inline(never)]
    fn join_part(&mut self, joins: &mut Joins) -> SqlResult<bool> {
        if self.accept_kw(Kw::NATURAL) {
            let kind = self.natural_word()?;
            self.join_factor(joins, kind)?;
            joins.close(true, JoinCondition::None);
        } else if let Some(kind) = self.join_word()? {
            self.join_factor(joins, kind)?;
        } else if !joins.open.is_empty() && self.at_any(&[Kw::ON, Kw::USING]) {
            self.close_join(joins)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    #[inline(never)]
    fn join_factor(&mut self, joins: &mut Joins, kind: JoinKind) -> SqlResult<()> {
        let right = self.nested(Self::table_factor)?;
        joins.push(right, kind);
        Ok(())
    }

    #[inline(never)]
    fn close_join(&mut self, joins: &mut Joins) -> SqlResult<()> {
        let condition = self.join_condition()?;
        joins.close(false, condition);
        Ok(())
    }

    fn natural_word(&mut self) -> SqlResult<JoinKind> {
        let kind = match self.accept_any(&[Kw::INNER, Kw::LEFT, Kw::RIGHT, Kw::STRAIGHT_JOIN]) {
            Some(Kw::LEFT) => JoinKind::Left,
            Some(Kw::RIGHT) => JoinKind::Right,
            Some(Kw::STRAIGHT_JOIN) => return Ok(JoinKind::Straight),
            _ => JoinKind::Inner,
        };
        if kind != JoinKind::Inner {
            self.accept_kw(Kw::OUTER);
        }
        self.expect_kw(Kw::JOIN)?;
        Ok(kind)
    }

    fn join_word(&mut self) -> SqlResult<Option<JoinKind>> {
        let Some(kw) =
            self.accept_any(&[Kw::JOIN, Kw::INNER, Kw::CROSS, Kw::STRAIGHT_JOIN, Kw::LEFT, Kw::RIGHT])
        else {
            return Ok(None);
        };
        let kind = match kw {
            Kw::JOIN => return Ok(Some(JoinKind::Inner)),
            Kw::STRAIGHT_JOIN => return Ok(Some(JoinKind::Straight)),
            Kw::LEFT => JoinKind::Left,
            Kw::RIGHT => JoinKind::Right,
            _ => JoinKind::Inner,
        };
        if kind != JoinKind::Inner {
            self.accept_kw(Kw::OUTER);
        }
        self.expect_kw(Kw::JOIN)?;
        Ok(Some(kind))
    }

    #[inline(never)]
    fn join_condition(&mut self) -> SqlResult<JoinCondition> {
        if self.accept_kw(Kw::ON) {
            return Ok(JoinCondition::On(Box::new(self.expr()?)));
        }
        self.expect_kw(Kw::USING)?;
        Ok(JoinCondition::Using(self.parens(Self::ident)?))
    }

    #[inline(never)]
    fn table_factor(&mut self) -> SqlResult<TableRef> {
        match self.peek().tok {
            Tok::LParen => match self.nested(Self::parenthesized_tables)? {
                Parenthesized::Query(query) => self.derived(query),
                Parenthesized::Tables(tables) => Ok(tables),
            },
            Tok::LBrace => self.odbc_join(),
            _ => self.named_table(),
        }
    }

    /// `( ... )`: a query or tables, decided without reading anything twice.
    #[inline(never)]
    fn parenthesized_tables(&mut self) -> SqlResult<Parenthesized> {
        self.expect(Tok::LParen)?;
        if self.at_query_word() {
            let query = self.query()?;
            self.expect(Tok::RParen)?;
            return Ok(Parenthesized::Query(query));
        }
        let first = if self.at(Tok::LParen) {
            match self.nested(Self::parenthesized_tables)? {
                Parenthesized::Query(query) if self.at_query_continuation() => {
                    let query = self.query_after(query)?;
                    self.expect(Tok::RParen)?;
                    return Ok(Parenthesized::Query(query));
                }
                Parenthesized::Query(query) if self.accept(Tok::RParen) => {
                    return Ok(Parenthesized::Query(query));
                }
                Parenthesized::Query(query) => self.derived(query)?,
                Parenthesized::Tables(tables) => tables,
            }
        } else {
            self.table_factor()?
        };
        let mut tables = self.joins(first)?;
        let mut length = 0;
        while self.accept(Tok::Comma) {
            self.chain(&mut length)?;
            let right = self.table_ref()?;
            tables = join(JoinKind::Inner, false, tables, right, JoinCondition::None);
        }
        self.expect(Tok::RParen)?;
        Ok(Parenthesized::Tables(tables))
    }

    #[inline(never)]
    fn derived(&mut self, query: Box<Query>) -> SqlResult<TableRef> {
        match self.table_alias()? {
            alias @ Some(_) => Ok(TableRef::Derived { query, alias }),
            None => Err(self.unexpected()),
        }
    }

    /// `{oj a LEFT JOIN b ON x}`.
    fn odbc_join(&mut self) -> SqlResult<TableRef> {
        self.advance();
        self.ident()?;
        let tables = self.table_ref()?;
        self.expect(Tok::RBrace)?;
        Ok(tables)
    }

    #[inline(never)]
    fn named_table(&mut self) -> SqlResult<TableRef> {
        if self.at_kw(Kw::JSON_TABLE) && self.peek_at(1).tok == Tok::LParen {
            return self.json_table();
        }
        let name = self.object_name()?;
        let partitions = self.partitions()?;
        if self.at_kws(&[Kw::FOR, Kw::SYSTEM_TIME]) {
            return Err(errors::not_supported_yet("FOR SYSTEM_TIME"));
        }
        let alias = self.table_alias()?;
        let hints = self.index_hints()?;
        Ok(TableRef::Table { name, alias, partitions, hints })
    }

    /// PARTITION (...).
    pub(super) fn partitions(&mut self) -> SqlResult<Vec<String>> {
        if self.accept_kw(Kw::PARTITION) { self.parens(Self::ident) } else { Ok(Vec::new()) }
    }

    pub(super) fn table_alias(&mut self) -> SqlResult<Option<String>> {
        let said = self.accept_kw(Kw::AS);
        if self.at_ident() && !self.at_kw(Kw::WINDOW) {
            return Ok(Some(self.ident()?));
        }
        if said { Err(self.unexpected()) } else { Ok(None) }
    }

    fn index_hints(&mut self) -> SqlResult<Vec<IndexHint>> {
        let mut hints = Vec::new();
        while let Some(kw) = self.accept_any(&[Kw::USE, Kw::FORCE, Kw::IGNORE]) {
            let kind = match kw {
                Kw::USE => IndexHintKind::Use,
                Kw::FORCE => IndexHintKind::Force,
                _ => IndexHintKind::Ignore,
            };
            self.expect_any(&[Kw::INDEX, Kw::KEY])?;
            let purpose = if self.accept_kw(Kw::FOR) { Some(self.hint_purpose()?) } else { None };
            self.expect(Tok::LParen)?;
            let empty = kind == IndexHintKind::Use && self.at(Tok::RParen);
            let indexes = if empty { Vec::new() } else { self.list(Self::hinted_index)? };
            self.expect(Tok::RParen)?;
            hints.push(IndexHint { kind, purpose, indexes });
        }
        Ok(hints)
    }

    fn hint_purpose(&mut self) -> SqlResult<IndexHintPurpose> {
        Ok(match self.expect_any(&[Kw::JOIN, Kw::ORDER, Kw::GROUP])? {
            Kw::JOIN => IndexHintPurpose::Join,
            Kw::ORDER => {
                self.expect_kw(Kw::BY)?;
                IndexHintPurpose::OrderBy
            }
            _ => {
                self.expect_kw(Kw::BY)?;
                IndexHintPurpose::GroupBy
            }
        })
    }

    fn hinted_index(&mut self) -> SqlResult<String> {
        if self.accept_kw(Kw::PRIMARY) { Ok("PRIMARY".to_owned()) } else { self.ident() }
    }
}
