//! ALTER.

use super::Parser;
use super::ddl::KeyOrCheck;
use crate::ast::{AlterAction, AlterTable, ColumnName, ColumnPosition, Statement};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

impl Parser<'_> {
    /// A column of ORDER BY; its direction says nothing of a table, which has no order.
    fn alter_order(&mut self) -> SqlResult<ColumnName> {
        let column = self.column_name()?;
        self.accept_any(&[Kw::ASC, Kw::DESC]);
        Ok(column)
    }

    /// At ALTER.
    pub(super) fn alter(&mut self) -> SqlResult<Statement> {
        self.advance();
        let Some(kw) = self.peek().kw else { return Err(self.unexpected()) };
        match kw {
            Kw::TABLE | Kw::ONLINE | Kw::IGNORE => self.alter_table(),
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                let options_follow = self.at_any(&[Kw::DEFAULT, Kw::CHARACTER, Kw::CHAR, Kw::COLLATE]);
                let name = if options_follow || self.at_kw(Kw::CHARSET) || self.at_kw(Kw::COMMENT) {
                    None
                } else {
                    Some(self.database_name()?)
                };
                let options = self.database_options()?;
                if options == crate::ast::DatabaseOptions::default() {
                    return Err(self.unexpected());
                }
                Ok(Statement::AlterDatabase { name, options })
            }
            Kw::USER => self.create_user(false),
            Kw::VIEW | Kw::ALGORITHM => self.create_view(true, false),
            Kw::DEFINER | Kw::SQL if self.leads_to_view() => self.create_view(true, false),
            Kw::SEQUENCE => {
                self.advance();
                self.alter_sequence()
            }
            Kw::PROCEDURE | Kw::FUNCTION | Kw::EVENT | Kw::SERVER => self.alter_program(kw),
            Kw::DEFINER | Kw::SQL if self.peek_at(1).tok == Tok::Eq => {
                Ok(self.compound("ALTER DEFINER".to_owned()))
            }
            Kw::DEFINER | Kw::SQL | Kw::TABLESPACE => {
                Ok(Statement::Unsupported { what: format!("ALTER {}", kw.name()), wants: None })
            }
            _ => Err(self.unexpected()),
        }
    }

    fn alter_table(&mut self) -> SqlResult<Statement> {
        let online = self.accept_kw(Kw::ONLINE);
        let ignore = self.accept_kw(Kw::IGNORE);
        self.expect_kw(Kw::TABLE)?;
        let if_exists = self.if_exists()?;
        let table = self.object_name()?;
        let wait = self.lock_wait()?;
        self.defined = Some(table.clone());
        let mut alter = AlterTable { online, ignore, if_exists, table, wait, actions: Vec::new() };
        if self.at(Tok::End) {
            return Ok(Statement::AlterTable(Box::new(alter)));
        }
        loop {
            self.alter_action(&mut alter.actions)?;
            let comma = self.accept(Tok::Comma);
            if !comma && self.at(Tok::End) {
                return Ok(Statement::AlterTable(Box::new(alter)));
            }
            if !comma && !matches!(alter.actions.last(), Some(AlterAction::Option(_))) {
                return Err(self.unexpected());
            }
        }
    }

    fn alter_action(&mut self, actions: &mut Vec<AlterAction>) -> SqlResult<()> {
        let Some(kw) = self.peek().kw else { return self.alter_option(actions) };
        let start = self.pos;
        self.advance();
        let action = match kw {
            Kw::ADD => return self.alter_add(actions),
            Kw::DROP => self.alter_drop()?,
            Kw::MODIFY | Kw::CHANGE => self.alter_change(kw == Kw::CHANGE)?,
            Kw::ALTER => self.alter_column()?,
            Kw::RENAME => self.alter_rename()?,
            Kw::ENABLE | Kw::DISABLE => {
                self.expect_kw(Kw::KEYS)?;
                AlterAction::EnableKeys(kw == Kw::ENABLE)
            }
            Kw::FORCE => AlterAction::Force,
            Kw::CONVERT => self.alter_convert()?,
            Kw::ORDER => {
                self.expect_kw(Kw::BY)?;
                AlterAction::OrderBy(self.list(Self::alter_order)?)
            }
            Kw::ALGORITHM | Kw::LOCK => {
                self.pos = start;
                match self.algorithm_or_lock()? {
                    Some(action) => action,
                    None => return Err(self.unexpected()),
                }
            }
            Kw::DISCARD
            | Kw::IMPORT
            | Kw::PARTITION
            | Kw::REMOVE
            | Kw::EXCHANGE
            | Kw::REORGANIZE
            | Kw::COALESCE
            | Kw::TRUNCATE
            | Kw::REBUILD => return self.alter_unsupported(kw.name(), actions),
            _ => {
                self.pos = start;
                return self.alter_option(actions);
            }
        };
        actions.push(action);
        Ok(())
    }

    /// The rest of the statement is not read.
    fn alter_unsupported(&mut self, what: &str, actions: &mut Vec<AlterAction>) -> SqlResult<()> {
        actions.push(AlterAction::Unsupported(what.to_owned()));
        self.pos = self.tokens.len() - 1;
        Ok(())
    }

    fn alter_option(&mut self, actions: &mut Vec<AlterAction>) -> SqlResult<()> {
        match self.table_option()? {
            Some(option) => {
                actions.push(AlterAction::Option(option));
                Ok(())
            }
            None => Err(self.unexpected()),
        }
    }

    /// Behind ADD.
    fn alter_add(&mut self, actions: &mut Vec<AlterAction>) -> SqlResult<()> {
        if self.at_any(&[Kw::PARTITION]) {
            return self.alter_unsupported("ADD PARTITION", actions);
        }
        if self.at_kws(&[Kw::SYSTEM, Kw::VERSIONING]) || self.at_kws(&[Kw::PERIOD, Kw::FOR]) {
            return self.alter_unsupported("SYSTEM VERSIONING", actions);
        }
        if self.at_key() {
            actions.push(match self.key_or_check()? {
                KeyOrCheck::Key(key) => AlterAction::AddKey(key),
                KeyOrCheck::Check(check) => AlterAction::AddCheck(check),
            });
            return Ok(());
        }
        self.accept_kw(Kw::COLUMN);
        let if_not_exists = self.if_not_exists()?;
        if self.accept(Tok::LParen) {
            loop {
                if self.at_key() {
                    actions.push(match self.key_or_check()? {
                        KeyOrCheck::Key(key) => AlterAction::AddKey(key),
                        KeyOrCheck::Check(check) => AlterAction::AddCheck(check),
                    });
                } else {
                    let column = Box::new(self.column_def()?);
                    actions.push(AlterAction::AddColumn { if_not_exists, column, position: None });
                }
                if !self.accept(Tok::Comma) {
                    break;
                }
            }
            self.expect(Tok::RParen)?;
            return Ok(());
        }
        let column = Box::new(self.column_def()?);
        let position = self.column_position()?;
        actions.push(AlterAction::AddColumn { if_not_exists, column, position });
        Ok(())
    }

    fn column_position(&mut self) -> SqlResult<Option<ColumnPosition>> {
        if self.accept_kw(Kw::FIRST) {
            return Ok(Some(ColumnPosition::First));
        }
        if self.accept_kw(Kw::AFTER) {
            return Ok(Some(ColumnPosition::After(self.ident()?)));
        }
        Ok(None)
    }

    /// Behind DROP.
    fn alter_drop(&mut self) -> SqlResult<AlterAction> {
        match self.peek().kw {
            Some(Kw::PRIMARY) => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                Ok(AlterAction::DropPrimaryKey { if_exists: false })
            }
            Some(Kw::FOREIGN) => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                let if_exists = self.if_exists()?;
                Ok(AlterAction::DropForeignKey { if_exists, name: self.ident()? })
            }
            Some(Kw::CONSTRAINT) => {
                self.advance();
                if self.accept_kw(Kw::PRIMARY) {
                    self.expect_kw(Kw::KEY)?;
                    return Ok(AlterAction::DropPrimaryKey { if_exists: false });
                }
                let if_exists = self.if_exists()?;
                Ok(AlterAction::DropConstraint { if_exists, name: self.ident()? })
            }
            Some(Kw::INDEX | Kw::KEY) => {
                self.advance();
                let if_exists = self.if_exists()?;
                let name = if self.accept_kw(Kw::PRIMARY) { "PRIMARY".to_owned() } else { self.ident()? };
                Ok(AlterAction::DropKey { if_exists, name })
            }
            Some(Kw::PARTITION) => {
                self.pos = self.tokens.len() - 1;
                Ok(AlterAction::Unsupported("DROP PARTITION".to_owned()))
            }
            _ => {
                self.accept_kw(Kw::COLUMN);
                let if_exists = self.if_exists()?;
                let name = self.defined_column()?;
                self.accept_any(&[Kw::RESTRICT, Kw::CASCADE]);
                Ok(AlterAction::DropColumn { if_exists, name })
            }
        }
    }

    /// MODIFY and CHANGE.
    fn alter_change(&mut self, change: bool) -> SqlResult<AlterAction> {
        self.accept_kw(Kw::COLUMN);
        let if_exists = self.if_exists()?;
        let old = self.defined_column()?;
        self.no_references = true;
        let column = if change { self.column_def() } else { self.column_after(old.clone()) };
        self.no_references = false;
        let column = Box::new(column?);
        let position = self.column_position()?;
        Ok(AlterAction::ChangeColumn { if_exists, old, column, position })
    }

    /// Behind ALTER: a column's default, or an index's use.
    fn alter_column(&mut self) -> SqlResult<AlterAction> {
        if self.accept_any(&[Kw::INDEX, Kw::KEY]).is_some() {
            let if_exists = self.if_exists()?;
            let name = self.ident()?;
            let ignored = !self.accept_kw(Kw::NOT);
            self.expect_kw(Kw::IGNORED)?;
            return Ok(AlterAction::IgnoreKey { if_exists, name, ignored });
        }
        self.accept_kw(Kw::COLUMN);
        let if_exists = self.if_exists()?;
        let name = self.defined_column()?;
        let set = self.expect_any(&[Kw::SET, Kw::DROP])? == Kw::SET;
        self.expect_kw(Kw::DEFAULT)?;
        let default = if set { Some(self.default_value()?) } else { None };
        Ok(AlterAction::SetDefault { if_exists, name, default })
    }

    /// Behind RENAME.
    fn alter_rename(&mut self) -> SqlResult<AlterAction> {
        if let Some(kw) = self.accept_any(&[Kw::COLUMN, Kw::INDEX, Kw::KEY]) {
            let if_exists = self.if_exists()?;
            let old = self.ident()?;
            self.expect_kw(Kw::TO)?;
            let new = self.ident()?;
            return Ok(if kw == Kw::COLUMN {
                AlterAction::RenameColumn { if_exists, old, new }
            } else {
                AlterAction::RenameKey { if_exists, old, new }
            });
        }
        if self.accept_any(&[Kw::TO, Kw::AS]).is_none() {
            self.accept(Tok::Eq);
        }
        Ok(AlterAction::Rename(self.object_name()?))
    }

    /// Behind CONVERT.
    fn alter_convert(&mut self) -> SqlResult<AlterAction> {
        if self.at_any(&[Kw::PARTITION, Kw::TABLE]) {
            self.pos = self.tokens.len() - 1;
            return Ok(AlterAction::Unsupported("CONVERT PARTITION".to_owned()));
        }
        self.expect_kw(Kw::TO)?;
        if !self.accept_charset_words()? {
            return Err(self.unexpected());
        }
        let charset =
            if self.accept_kw(Kw::DEFAULT) { "default".to_owned() } else { self.charset_or_collation()? };
        let collation = if self.accept_kw(Kw::COLLATE) { Some(self.charset_or_default()?) } else { None };
        Ok(AlterAction::ConvertTo { charset, collation })
    }
}
