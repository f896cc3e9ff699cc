//! CREATE and DROP of databases, tables, indexes, views; keys and table options.

use super::Parser;
use crate::ast::*;
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

impl Parser<'_> {
    /// At CREATE.
    pub(super) fn create(&mut self) -> SqlResult<Statement> {
        self.advance();
        let or_replace = self.accept_then(Kw::OR, &[Kw::REPLACE])?;
        let Some(kw) = self.peek().kw else { return Err(self.unexpected()) };
        match kw {
            Kw::DATABASE | Kw::SCHEMA => self.create_database(or_replace),
            Kw::TEMPORARY if self.peek_at(1).kw == Some(Kw::TABLE) => {
                self.pos += 2;
                self.create_table(or_replace, true)
            }
            Kw::TABLE => {
                self.advance();
                self.create_table(or_replace, false)
            }
            Kw::UNIQUE | Kw::FULLTEXT | Kw::SPATIAL | Kw::INDEX => self.create_index(or_replace),
            Kw::USER => self.create_user(or_replace),
            Kw::ROLE => self.create_role(or_replace),
            Kw::VIEW => self.create_view(false, or_replace),
            Kw::ALGORITHM => self.create_view(false, or_replace),
            Kw::DEFINER | Kw::SQL if self.leads_to_view() => self.create_view(false, or_replace),
            Kw::TEMPORARY => {
                self.advance();
                self.expect_kw(Kw::SEQUENCE)?;
                self.create_sequence(or_replace, true)
            }
            Kw::SEQUENCE => {
                self.advance();
                self.create_sequence(or_replace, false)
            }
            Kw::PROCEDURE
            | Kw::FUNCTION
            | Kw::TRIGGER
            | Kw::EVENT
            | Kw::SERVER
            | Kw::AGGREGATE
            | Kw::PACKAGE => self.create_program(kw),
            Kw::DEFINER => self.create_program_for(),
            _ => Err(self.unexpected()),
        }
    }

    /// Whether VIEW comes among the next words: DEFINER may stand before other kinds as well.
    pub(super) fn leads_to_view(&self) -> bool {
        const WORDS_MAX: usize = 16;
        let kinds = [Kw::VIEW, Kw::PROCEDURE, Kw::FUNCTION, Kw::TRIGGER, Kw::EVENT, Kw::PACKAGE, Kw::AS];
        let kind = (0..WORDS_MAX).find_map(|ahead| self.peek_at(ahead).kw.filter(|kw| kinds.contains(kw)));
        kind == Some(Kw::VIEW)
    }

    fn create_database(&mut self, or_replace: bool) -> SqlResult<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.ident()?;
        let options = self.database_options()?;
        Ok(Statement::CreateDatabase(CreateDatabase { or_replace, if_not_exists, name, options }))
    }

    pub(super) fn database_options(&mut self) -> SqlResult<DatabaseOptions> {
        let mut options = DatabaseOptions::default();
        loop {
            if self.accept_kw(Kw::COMMENT) {
                self.accept(Tok::Eq);
                options.comment = Some(self.string()?);
                continue;
            }
            let said = self.accept_kw(Kw::DEFAULT);
            if self.accept_charset_words()? {
                self.accept(Tok::Eq);
                let name = self.charset_or_default()?;
                once("CHARACTER SET", &mut options.charset, name)?;
            } else if self.accept_kw(Kw::COLLATE) {
                self.accept(Tok::Eq);
                let name = self.charset_or_default()?;
                once("COLLATE", &mut options.collation, name)?;
            } else if said {
                return Err(self.unexpected());
            } else {
                return Ok(options);
            }
        }
    }

    pub(super) fn charset_or_default(&mut self) -> SqlResult<String> {
        if self.accept_kw(Kw::DEFAULT) { Ok("default".to_owned()) } else { self.charset_or_collation() }
    }

    /// Behind TABLE.
    /// A new table or sequence of which the name is read.
    pub(super) fn new_table(&mut self, or_replace: bool, temporary: bool) -> SqlResult<CreateTable> {
        let if_not_exists = self.if_not_exists()?;
        if or_replace && if_not_exists {
            return Err(errors::wrong_usage("OR REPLACE", "IF NOT EXISTS"));
        }
        Ok(CreateTable {
            or_replace,
            temporary,
            if_not_exists,
            name: self.object_name()?,
            like: None,
            columns: Vec::new(),
            keys: Vec::new(),
            checks: Vec::new(),
            options: Vec::new(),
            select: None,
            sequence: None,
        })
    }

    fn create_table(&mut self, or_replace: bool, temporary: bool) -> SqlResult<Statement> {
        let mut table = self.new_table(or_replace, temporary)?;
        if self.accept_kw(Kw::LIKE) {
            table.like = Some(self.object_name()?);
            return Ok(Statement::CreateTable(Box::new(table)));
        }
        if self.at(Tok::LParen) && self.peek_at(1).kw == Some(Kw::LIKE) {
            self.pos += 2;
            table.like = Some(self.object_name()?);
            self.expect(Tok::RParen)?;
            return Ok(Statement::CreateTable(Box::new(table)));
        }
        if self.at(Tok::LParen) && !self.at_create_select() {
            self.advance();
            self.defined = Some(table.name.clone());
            self.table_elements(&mut table)?;
            self.expect(Tok::RParen)?;
        }
        table.options = self.table_options()?;
        if self.at_kws(&[Kw::PARTITION, Kw::BY]) {
            return Err(errors::not_supported_yet("PARTITION BY"));
        }
        table.select = self.create_select()?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    /// At a parenthesis: whether a query stands in it.
    fn at_create_select(&self) -> bool {
        let inside = self.tokens[self.pos..].iter().find(|token| token.tok != Tok::LParen);
        inside.is_some_and(|token| matches!(token.kw, Some(Kw::SELECT | Kw::WITH | Kw::VALUES)))
    }

    fn create_select(&mut self) -> SqlResult<Option<CreateSelect>> {
        let duplicates = self.accept_any(&[Kw::IGNORE, Kw::REPLACE]).map(|kw| match kw {
            Kw::IGNORE => OnDuplicate::Ignore,
            _ => OnDuplicate::Replace,
        });
        let said = self.accept_kw(Kw::AS);
        if !self.at_query_word() && !self.at(Tok::LParen) {
            return if said || duplicates.is_some() { Err(self.unexpected()) } else { Ok(None) };
        }
        Ok(Some(CreateSelect { duplicates, query: self.first_query()? }))
    }

    fn table_elements(&mut self, table: &mut CreateTable) -> SqlResult<()> {
        loop {
            if self.at_kws(&[Kw::PERIOD, Kw::FOR]) {
                return Err(errors::not_supported_yet("PERIOD"));
            }
            if self.at_key() {
                match self.key_or_check()? {
                    KeyOrCheck::Key(key) => table.keys.push(*key),
                    KeyOrCheck::Check(check) => table.checks.push(*check),
                }
            } else {
                table.columns.push(self.column_def()?);
            }
            if !self.accept(Tok::Comma) {
                return Ok(());
            }
        }
    }

    /// Whether a key or constraint begins here.
    pub(super) fn at_key(&self) -> bool {
        self.at_any(&[
            Kw::PRIMARY,
            Kw::UNIQUE,
            Kw::KEY,
            Kw::INDEX,
            Kw::FULLTEXT,
            Kw::SPATIAL,
            Kw::FOREIGN,
            Kw::CONSTRAINT,
            Kw::CHECK,
        ])
    }

    /// A key or constraint written as an element.
    pub(super) fn key_or_check(&mut self) -> SqlResult<KeyOrCheck> {
        let mut constraint = None;
        let mut if_not_exists = false;
        if self.accept_kw(Kw::CONSTRAINT) {
            if_not_exists = self.if_not_exists()?;
            if self.at_ident() {
                constraint = Some(self.ident()?);
            }
            if !self.at_any(&[Kw::PRIMARY, Kw::UNIQUE, Kw::FOREIGN, Kw::CHECK]) {
                return Err(self.unexpected());
            }
        }
        let Some(kw) = self.peek().kw else { return Err(self.unexpected()) };
        self.advance();
        if kw == Kw::CHECK {
            self.expect(Tok::LParen)?;
            let expr = self.expr()?;
            self.expect(Tok::RParen)?;
            return Ok(KeyOrCheck::Check(Box::new(CheckDef { name: constraint, if_not_exists, expr })));
        }
        let kind = match kw {
            Kw::PRIMARY => KeyKind::Primary,
            Kw::UNIQUE => KeyKind::Unique,
            Kw::FULLTEXT => KeyKind::FullText,
            Kw::SPATIAL => KeyKind::Spatial,
            Kw::FOREIGN => KeyKind::Foreign,
            _ => KeyKind::Index,
        };
        match kind {
            KeyKind::Primary | KeyKind::Foreign => self.expect_kw(Kw::KEY)?,
            KeyKind::Unique | KeyKind::FullText | KeyKind::Spatial => {
                self.accept_any(&[Kw::KEY, Kw::INDEX]);
            }
            KeyKind::Index => {}
        }
        if_not_exists |= self.if_not_exists()?;
        let name = if self.at_ident() { Some(self.ident()?) } else { None };
        let mut key = KeyDef {
            kind,
            constraint,
            name,
            if_not_exists,
            columns: Vec::new(),
            options: KeyOptions::default(),
            references: None,
        };
        self.key_body(&mut key)?;
        Ok(KeyOrCheck::Key(Box::new(key)))
    }

    /// Algorithm, columns, options, references.
    fn key_body(&mut self, key: &mut KeyDef) -> SqlResult<()> {
        if key.kind != KeyKind::Foreign {
            key.options.algorithm = self.index_algorithm()?;
        }
        self.expect(Tok::LParen)?;
        key.columns = self.list(Self::key_part)?;
        self.expect(Tok::RParen)?;
        if key.kind == KeyKind::Foreign {
            key.references = Some(Box::new(self.references()?));
            return Ok(());
        }
        let fulltext = key.kind == KeyKind::FullText;
        self.key_options(&mut key.options, fulltext)
    }

    fn index_algorithm(&mut self) -> SqlResult<Option<IndexAlgorithm>> {
        if self.accept_any(&[Kw::USING, Kw::TYPE]).is_none() {
            return Ok(None);
        }
        Ok(Some(match self.expect_any(&[Kw::BTREE, Kw::HASH, Kw::RTREE])? {
            Kw::BTREE => IndexAlgorithm::BTree,
            Kw::HASH => IndexAlgorithm::Hash,
            _ => IndexAlgorithm::RTree,
        }))
    }

    pub(super) fn key_part(&mut self) -> SqlResult<KeyPart> {
        let column = self.ident()?;
        let mut part = KeyPart { column, length: None, desc: false };
        if self.accept(Tok::LParen) {
            part.length = Some(self.integer()?);
            self.expect(Tok::RParen)?;
        }
        if let Some(kw) = self.accept_any(&[Kw::ASC, Kw::DESC]) {
            part.desc = kw == Kw::DESC;
        }
        Ok(part)
    }

    fn key_options(&mut self, options: &mut KeyOptions, fulltext: bool) -> SqlResult<()> {
        loop {
            if let Some(algorithm) = self.index_algorithm()? {
                options.algorithm = Some(algorithm);
            } else if self.accept_kw(Kw::COMMENT) {
                options.comment = Some(self.string()?);
            } else if self.accept_kw(Kw::KEY_BLOCK_SIZE) {
                self.accept(Tok::Eq);
                options.block_size = Some(self.integer()?);
            } else if self.accept_kw(Kw::IGNORED) {
                options.ignored = true;
            } else if self.accept_then(Kw::NOT, &[Kw::IGNORED])? {
                options.ignored = false;
            } else if fulltext && self.accept_then(Kw::WITH, &[Kw::PARSER])? {
                options.parser = Some(self.ident()?);
            } else if self.accept_kw(Kw::VISIBLE) {
                // That is all that an index can be.
            } else if self.at_unknown_word() {
                let name = self.ident()?;
                self.expect(Tok::Eq)?;
                options.other.push((name, self.option_value()?));
            } else {
                return Ok(());
            }
        }
    }

    /// Options of a table, commas between them or not.
    pub(super) fn table_options(&mut self) -> SqlResult<Vec<TableOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.table_option()? {
            options.push(option);
            if self.accept(Tok::Comma) && !self.at_table_option() {
                return Err(self.unexpected());
            }
        }
        Ok(options)
    }

    fn at_table_option(&self) -> bool {
        self.at_ident()
            || self.at_any(&[
                Kw::DEFAULT,
                Kw::CHARACTER,
                Kw::CHAR,
                Kw::COLLATE,
                Kw::UNION,
                Kw::INDEX,
                Kw::WITH,
            ])
            || self.at_any(STATS_WORDS)
    }

    /// One option; none where no option follows.
    pub(super) fn table_option(&mut self) -> SqlResult<Option<TableOption>> {
        let token = self.peek();
        let said = self.at_kw(Kw::DEFAULT);
        if said {
            self.advance();
        }
        if self.accept_charset_words()? {
            self.accept(Tok::Eq);
            return Ok(Some(TableOption::Charset(self.charset_or_default()?)));
        }
        if self.accept_kw(Kw::COLLATE) {
            self.accept(Tok::Eq);
            return Ok(Some(TableOption::Collate(self.charset_or_default()?)));
        }
        if said {
            return Err(self.unexpected());
        }
        let Some(kw) = token.kw else { return self.engine_option() };
        self.known_option(kw)
    }

    fn known_option(&mut self, kw: Kw) -> SqlResult<Option<TableOption>> {
        if !STATS_WORDS.contains(&kw) && !PLAIN_OPTIONS.contains(&kw) {
            return self.special_option(kw);
        }
        self.advance();
        self.accept(Tok::Eq);
        let value = self.option_value()?;
        Ok(Some(TableOption::Other(kw.name().to_owned(), value)))
    }

    fn special_option(&mut self, kw: Kw) -> SqlResult<Option<TableOption>> {
        let start = self.pos;
        self.advance();
        Ok(Some(match kw {
            Kw::ENGINE | Kw::TYPE => {
                self.accept(Tok::Eq);
                TableOption::Engine(self.name_or_text()?)
            }
            Kw::AUTO_INCREMENT => {
                self.accept(Tok::Eq);
                TableOption::AutoIncrement(self.integer()?)
            }
            Kw::COMMENT => {
                self.accept(Tok::Eq);
                TableOption::Comment(self.string()?)
            }
            Kw::ROW_FORMAT => {
                self.accept(Tok::Eq);
                let words = [
                    Kw::DEFAULT,
                    Kw::FIXED,
                    Kw::DYNAMIC,
                    Kw::COMPRESSED,
                    Kw::REDUNDANT,
                    Kw::COMPACT,
                    Kw::PAGE,
                ];
                TableOption::RowFormat(self.expect_any(&words)?.name().to_owned())
            }
            Kw::DATA | Kw::INDEX => {
                self.expect_kw(Kw::DIRECTORY)?;
                self.accept(Tok::Eq);
                TableOption::Other(format!("{} DIRECTORY", kw.name()), self.string()?)
            }
            Kw::UNION => {
                self.accept(Tok::Eq);
                self.expect(Tok::LParen)?;
                if !self.at(Tok::RParen) {
                    self.list(Self::object_name)?;
                }
                self.expect(Tok::RParen)?;
                TableOption::Other("UNION".to_owned(), ByteStr::default())
            }
            Kw::WITH if self.accept_kw(Kw::SYSTEM) => {
                self.expect_kw(Kw::VERSIONING)?;
                TableOption::SystemVersioning
            }
            _ => {
                self.pos = start;
                return self.engine_option();
            }
        }))
    }

    /// `name = value`, which only engines know.
    fn engine_option(&mut self) -> SqlResult<Option<TableOption>> {
        if !self.at_unknown_word() {
            return Ok(None);
        }
        let name = self.ident()?;
        self.expect(Tok::Eq)?;
        Ok(Some(TableOption::Named(name, self.option_value()?)))
    }

    /// A number, word, string or DEFAULT.
    pub(super) fn option_value(&mut self) -> SqlResult<ByteStr> {
        match self.peek().tok {
            Tok::Int | Tok::Decimal | Tok::Float | Tok::Hex => {
                let token = self.advance();
                Ok(ByteStr(self.text_of(token).into()))
            }
            Tok::String => self.string(),
            _ if self.at_any(&[Kw::DEFAULT, Kw::ON]) => {
                let token = self.advance();
                Ok(ByteStr(self.text_of(token).to_ascii_uppercase().into()))
            }
            _ => Ok(ByteStr::from(self.ident()?.as_str())),
        }
    }

    fn create_index(&mut self, or_replace: bool) -> SqlResult<Statement> {
        let kind = match self.accept_any(&[Kw::UNIQUE, Kw::FULLTEXT, Kw::SPATIAL]) {
            Some(Kw::UNIQUE) => KeyKind::Unique,
            Some(Kw::FULLTEXT) => KeyKind::FullText,
            Some(_) => KeyKind::Spatial,
            None => KeyKind::Index,
        };
        self.expect_kw(Kw::INDEX)?;
        let if_not_exists = self.if_not_exists()?;
        let name = Some(self.ident()?);
        let mut options = KeyOptions { algorithm: self.index_algorithm()?, ..KeyOptions::default() };
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        let columns = self.parens(Self::key_part)?;
        let wait = self.lock_wait()?;
        self.key_options(&mut options, kind == KeyKind::FullText)?;
        let alter = self.alter_lock_options()?;
        let key = KeyDef { kind, constraint: None, name, if_not_exists, columns, options, references: None };
        Ok(Statement::CreateIndex(Box::new(CreateIndex { or_replace, table, key, wait, options: alter })))
    }

    /// ALGORITHM= and LOCK=.
    fn alter_lock_options(&mut self) -> SqlResult<Vec<AlterAction>> {
        let mut options = Vec::new();
        while let Some(option) = self.algorithm_or_lock()? {
            options.push(option);
        }
        Ok(options)
    }

    pub(super) fn algorithm_or_lock(&mut self) -> SqlResult<Option<AlterAction>> {
        const WORDS: [&str; 7] = ["COPY", "INPLACE", "NOCOPY", "INSTANT", "NONE", "SHARED", "EXCLUSIVE"];
        let Some(kw) = self.accept_any(&[Kw::ALGORITHM, Kw::LOCK]) else { return Ok(None) };
        self.accept(Tok::Eq);
        let value = if self.accept_kw(Kw::DEFAULT) {
            "DEFAULT".to_owned()
        } else {
            // Words that are none are named in an error as they were written.
            let word = self.ident()?;
            let known = WORDS.iter().find(|known| known.eq_ignore_ascii_case(&word));
            known.map_or(word, |known| (*known).to_owned())
        };
        Ok(Some(if kw == Kw::LOCK { AlterAction::Lock(value) } else { AlterAction::Algorithm(value) }))
    }

    /// CREATE VIEW, ALTER VIEW; at what follows CREATE OR REPLACE.
    pub(super) fn create_view(&mut self, alter: bool, or_replace: bool) -> SqlResult<Statement> {
        let mut algorithm = None;
        if self.accept_kw(Kw::ALGORITHM) {
            self.expect(Tok::Eq)?;
            algorithm = Some(self.expect_any(&[Kw::UNDEFINED, Kw::MERGE, Kw::TEMPTABLE])?.name().to_owned());
        }
        let mut definer = None;
        if self.accept_kw(Kw::DEFINER) {
            self.expect(Tok::Eq)?;
            definer = Some(self.account()?);
        }
        let mut invoker = None;
        if self.accept_then(Kw::SQL, &[Kw::SECURITY])? {
            invoker = Some(self.expect_any(&[Kw::DEFINER, Kw::INVOKER])? == Kw::INVOKER);
        }
        self.expect_kw(Kw::VIEW)?;
        let if_not_exists = !alter && self.if_not_exists()?;
        let name = self.object_name()?;
        let columns = if self.at(Tok::LParen) { self.parens(Self::ident)? } else { Vec::new() };
        self.expect_kw(Kw::AS)?;
        self.in_view = true;
        let query = self.first_query()?;
        self.in_view = false;
        let mut check_option = None;
        if self.accept_kw(Kw::WITH) {
            let local = self.accept_any(&[Kw::LOCAL, Kw::CASCADED]) == Some(Kw::LOCAL);
            self.expect_kw(Kw::CHECK)?;
            self.expect_kw(Kw::OPTION)?;
            check_option = Some(local);
        }
        Ok(Statement::CreateView(Box::new(CreateView {
            alter,
            or_replace,
            if_not_exists,
            algorithm,
            definer,
            invoker,
            name,
            columns,
            query,
            check_option,
        })))
    }

    /// At DROP.
    pub(super) fn drop_statement(&mut self) -> SqlResult<Statement> {
        self.advance();
        let Some(kw) = self.peek().kw else { return Err(self.unexpected()) };
        match kw {
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropDatabase { name: self.ident()?, if_exists })
            }
            Kw::TEMPORARY if self.peek_at(1).kw == Some(Kw::SEQUENCE) => {
                self.pos += 2;
                self.drop_sequence(true)
            }
            Kw::SEQUENCE => {
                self.advance();
                self.drop_sequence(false)
            }
            Kw::TEMPORARY | Kw::TABLE | Kw::TABLES => self.drop_table(),
            Kw::INDEX => self.drop_index(),
            Kw::VIEW => {
                self.advance();
                let if_exists = self.if_exists()?;
                let names = self.list(Self::object_name)?;
                self.accept_any(&[Kw::RESTRICT, Kw::CASCADE]);
                Ok(Statement::DropView { names, if_exists })
            }
            Kw::USER => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropUser { users: self.list(Self::account)?, if_exists })
            }
            Kw::ROLE => {
                self.advance();
                let if_exists = self.if_exists()?;
                Ok(Statement::DropRole { roles: self.list(Self::role_name)?, if_exists })
            }
            Kw::PREPARE => {
                self.advance();
                Ok(Statement::Deallocate(self.ident()?))
            }
            Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER | Kw::EVENT | Kw::SERVER | Kw::PACKAGE => {
                self.drop_program(kw)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn drop_table(&mut self) -> SqlResult<Statement> {
        let temporary = self.accept_kw(Kw::TEMPORARY);
        self.expect_any(&[Kw::TABLE, Kw::TABLES])?;
        let if_exists = self.if_exists()?;
        let tables = self.list(Self::object_name)?;
        let wait = self.lock_wait()?;
        self.accept_any(&[Kw::RESTRICT, Kw::CASCADE]);
        Ok(Statement::DropTable(DropTable { temporary, sequence: false, if_exists, tables, wait }))
    }

    fn drop_index(&mut self) -> SqlResult<Statement> {
        self.advance();
        let if_exists = self.if_exists()?;
        let name = self.ident()?;
        self.expect_kw(Kw::ON)?;
        let table = self.object_name()?;
        let wait = self.lock_wait()?;
        Ok(Statement::DropIndex(DropIndex { if_exists, name, table, wait }))
    }
}

/// An element of a table that is no column.
pub(super) enum KeyOrCheck {
    Key(Box<KeyDef>),
    Check(Box<CheckDef>),
}

const STATS_WORDS: &[Kw] =
    &[Kw::STATS_AUTO_RECALC, Kw::STATS_PERSISTENT, Kw::STATS_SAMPLE_PAGES, Kw::PAGE_CHECKSUM];

/// Options of a number, word or string that mean nothing to Keel, with or without `=`.
const PLAIN_OPTIONS: &[Kw] = &[
    Kw::MAX_ROWS,
    Kw::MIN_ROWS,
    Kw::AVG_ROW_LENGTH,
    Kw::CHECKSUM,
    Kw::TABLE_CHECKSUM,
    Kw::PACK_KEYS,
    Kw::DELAY_KEY_WRITE,
    Kw::KEY_BLOCK_SIZE,
    Kw::CONNECTION,
    Kw::PASSWORD,
    Kw::INSERT_METHOD,
    Kw::TRANSACTIONAL,
    Kw::TABLESPACE,
    Kw::STORAGE,
    Kw::SEQUENCE,
];

/// Takes what is declared, which may be said again but not otherwise.
fn once(word: &str, known: &mut Option<String>, name: String) -> SqlResult<()> {
    match known.replace(name.clone()) {
        Some(before) if !before.eq_ignore_ascii_case(&name) => Err(errors::conflicting_declarations(
            format_args!("{word} {before}"),
            format_args!("{word} {name}"),
        )),
        _ => Ok(()),
    }
}
