//! Stored programs: DROP, ALTER and CALL, and where the text of a definition or of a compound statement ends.

use super::{ParseOptions, Parser, TypeFamily, skip_blank};
use crate::ast::{ObjectName, ProgramAction, ProgramKind, ProgramStatement, Statement, Wanted, WantedOf};
use crate::keyword::Kw;
use crate::lexer::{Lexer, Tok};
use keel_base::SqlResult;

impl Parser<'_> {
    /// At PROCEDURE and the other kinds, behind DROP.
    pub(super) fn drop_program(&mut self, kw: Kw) -> SqlResult<Statement> {
        let oracle = self.options.types == TypeFamily::Oracle;
        if kw == Kw::PACKAGE && !oracle {
            return Err(self.unexpected());
        }
        self.advance();
        let kind = match kw {
            Kw::PROCEDURE => ProgramKind::Procedure,
            Kw::FUNCTION => ProgramKind::Function,
            Kw::TRIGGER => ProgramKind::Trigger,
            Kw::EVENT => ProgramKind::Event,
            Kw::SERVER => ProgramKind::Server,
            _ if self.accept_kw(Kw::BODY) => ProgramKind::PackageBody,
            _ => ProgramKind::Package,
        };
        let if_exists = self.if_exists()?;
        let name = match kind {
            ProgramKind::Server => ObjectName { db: None, name: self.ident_or_text()? },
            // It may be one of a library, whose names are not checked.
            ProgramKind::Function => self.qualified_name()?,
            _ => self.program_name()?,
        };
        Ok(program(ProgramAction::Drop { if_exists }, kind, name))
    }

    /// At PROCEDURE, FUNCTION, EVENT or SERVER, behind ALTER. What would change is not read.
    pub(super) fn alter_program(&mut self, kw: Kw) -> SqlResult<Statement> {
        self.advance();
        let kind = match kw {
            Kw::PROCEDURE => ProgramKind::Procedure,
            Kw::FUNCTION => ProgramKind::Function,
            Kw::EVENT => ProgramKind::Event,
            _ => ProgramKind::Server,
        };
        let name = match kind {
            ProgramKind::Server => ObjectName { db: None, name: self.ident_or_text()? },
            _ => self.program_name()?,
        };
        self.compound = true;
        Ok(program(ProgramAction::Alter, kind, name))
    }

    /// At CALL.
    pub(super) fn call_procedure(&mut self) -> SqlResult<Statement> {
        self.advance();
        let mut name = self.program_name()?;
        if name.db.is_some() && self.accept(Tok::Dot) {
            name.name = format!("{}.{}", name.name, self.ident()?);
        }
        let first = self.pos;
        if self.accept(Tok::LParen) && !self.accept(Tok::RParen) {
            self.list(Self::expr)?;
            self.expect(Tok::RParen)?;
        }
        // The tree keeps no argument, so no literal of theirs is a parameter.
        self.fix_literals(first);
        Ok(program(ProgramAction::Call, ProgramKind::Procedure, name))
    }

    /// A definition with a body, or a compound statement: its text ends behind its last block.
    pub(super) fn compound(&mut self, what: String) -> Statement {
        self.compound = true;
        Statement::Unsupported { what, wants: None }
    }

    /// CREATE DEFINER = account of a program; at DEFINER.
    pub(super) fn create_program_for(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.expect(Tok::Eq)?;
        let account = self.account()?;
        let Some(kw) = self.peek().kw else { return Err(self.unexpected()) };
        let mut statement = match kw {
            Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER | Kw::EVENT | Kw::AGGREGATE | Kw::PACKAGE => {
                self.create_program(kw)?
            }
            _ => return Err(self.unexpected()),
        };
        if let Statement::Unsupported { wants: Some(wants), .. } = &mut statement {
            wants.definer = Some(account);
        }
        Ok(statement)
    }

    /// HANDLER, CACHE INDEX and LOAD INDEX INTO CACHE: the names of their tables. The rest of the text is not read.
    pub(super) fn unsupported_of_tables(&mut self, kw: Kw) -> Statement {
        let words = if kw == Kw::LOAD { 2 } else { 1 };
        let mut statement = self.unsupported(words);
        if let Statement::Unsupported { wants, .. } = &mut statement {
            *wants = self.wanted_tables(kw).map(|of| Box::new(Wanted { definer: None, of }));
        }
        statement
    }

    fn wanted_tables(&mut self, kw: Kw) -> Option<WantedOf> {
        self.advance();
        if kw == Kw::HANDLER {
            let name = self.program_name().ok()?;
            return self.at_kw(Kw::OPEN).then_some(WantedOf::Rows(name));
        }
        let words = if kw == Kw::CACHE { "CACHE INDEX" } else { "LOAD INDEX INTO CACHE" };
        self.expect_kw(Kw::INDEX).ok()?;
        if kw == Kw::LOAD {
            self.expect_kw(Kw::INTO).ok()?;
            self.expect_kw(Kw::CACHE).ok()?;
        }
        let mut names = vec![self.program_name().ok()?];
        // Names of indexes may follow each table.
        while !matches!(self.peek().tok, Tok::End | Tok::Bad) {
            if self.accept(Tok::LParen) {
                while !matches!(self.peek().tok, Tok::RParen | Tok::End | Tok::Bad) {
                    self.advance();
                }
            } else if self.accept(Tok::Comma) {
                names.push(self.program_name().ok()?);
            } else {
                self.advance();
            }
        }
        Some(WantedOf::Indexes(words, names))
    }

    /// At PROCEDURE and the other kinds, behind CREATE: reads what stands before the body.
    pub(super) fn create_program(&mut self, kw: Kw) -> SqlResult<Statement> {
        if kw == Kw::PACKAGE && self.options.types != TypeFamily::Oracle {
            return Err(self.unexpected());
        }
        let what = format!("CREATE {}", kw.name());
        self.advance();
        let of = match kw {
            Kw::PROCEDURE => self.routine_head(false)?,
            Kw::FUNCTION => self.routine_head(true)?,
            Kw::AGGREGATE => {
                self.expect_kw(Kw::FUNCTION)?;
                self.routine_head(true)?
            }
            Kw::TRIGGER => {
                self.if_not_exists()?;
                let trigger = self.program_name()?;
                self.expect_any(&[Kw::BEFORE, Kw::AFTER])?;
                self.expect_any(&[Kw::INSERT, Kw::UPDATE, Kw::DELETE])?;
                self.expect_kw(Kw::ON)?;
                let table = self.object_name()?;
                for kw in [Kw::FOR, Kw::EACH, Kw::ROW] {
                    self.expect_kw(kw)?;
                }
                Some(WantedOf::Trigger(trigger, table))
            }
            Kw::EVENT => {
                self.if_not_exists()?;
                let event = self.program_name()?;
                self.expect_kw(Kw::ON)?;
                self.expect_kw(Kw::SCHEDULE)?;
                self.expect_any(&[Kw::EVERY, Kw::AT])?;
                Some(WantedOf::Event(event))
            }
            _ => None,
        };
        // A body follows.
        if self.at(Tok::End) {
            return Err(self.unexpected());
        }
        let mut statement = self.compound(what);
        if let Statement::Unsupported { wants, .. } = &mut statement {
            *wants = of.map(|of| Box::new(Wanted { definer: None, of }));
        }
        Ok(statement)
    }

    /// Name, parameters and RETURNS of a routine. Oracle's need neither parentheses nor this order.
    fn routine_head(&mut self, is_function: bool) -> SqlResult<Option<WantedOf>> {
        self.if_not_exists()?;
        let wanted = Some(WantedOf::Routine(self.program_name()?));
        if self.options.types == TypeFamily::Oracle {
            return Ok(wanted);
        }
        if is_function && self.accept_kw(Kw::RETURNS) {
            // A function of a library: RETURNS type SONAME 'file'.
            self.advance();
            return self.expect_kw(Kw::SONAME).map(|()| Some(WantedOf::Library));
        }
        self.expect(Tok::LParen)?;
        let mut open = 1u32;
        while open > 0 {
            match self.peek().tok {
                Tok::End | Tok::Bad => return Err(self.unexpected()),
                Tok::LParen => open += 1,
                Tok::RParen => open -= 1,
                _ => {}
            }
            self.advance();
        }
        if is_function {
            self.expect_kw(Kw::RETURNS)?;
        }
        Ok(wanted)
    }

    /// At a block without a name: Oracle's DECLARE or BEGIN.
    pub(super) fn anonymous_block(&mut self) -> SqlResult<Statement> {
        let kw = self.advance().kw;
        if self.at(Tok::End) {
            return Err(self.unexpected());
        }
        Ok(self.compound(kw.map_or("BEGIN", Kw::name).to_owned()))
    }

    /// Where the text after a compound statement begins, if any. 1064 if a block is not closed, or closed by other words.
    pub(super) fn rest_of_compound(&self) -> SqlResult<Option<usize>> {
        let mut lexer = Lexer::new(self.text, &self.options);
        let mut scan = Scan::new(&self.options);
        let mut next = lexer.next_token();
        while !matches!(next.tok, Tok::End | Tok::Bad) {
            let token = next;
            next = lexer.next_token();
            if token.tok == Tok::Semicolon && scan.is_closed() {
                if !scan.is_complete() {
                    return Err(self.error_at(token.start));
                }
                let rest = token.end + skip_blank(&self.text[token.end..]);
                return Ok((rest < self.text.len()).then_some(rest));
            }
            let keyword = |tok, start, end| match tok {
                Tok::Word => Kw::lookup(&self.text[start..end]),
                _ => None,
            };
            let kw = keyword(token.tok, token.start, token.end);
            if !scan.take_end(token.tok, kw) {
                return Err(self.error_at(token.start));
            }
            scan.take(token.tok, kw, keyword(next.tok, next.start, next.end));
        }
        match next.tok {
            Tok::Bad => Err(self.error_at(next.start)),
            _ if scan.is_complete() => Ok(None),
            _ => Err(self.error_at(self.text.len())),
        }
    }
}

fn program(action: ProgramAction, kind: ProgramKind, name: ObjectName) -> Statement {
    Statement::Program(Box::new(ProgramStatement { action, kind, name }))
}

/// An open block of a compound statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Closed by END: BEGIN, IF, LOOP, WHILE, FOR, the statement CASE.
    Statements,
    /// Closed by END REPEAT behind a condition.
    Repeat,
    /// The expression CASE.
    Expression,
    /// Oracle's declarations, whose BEGIN opens no further block.
    Declarations,
}

/// Follows the blocks of a compound statement token by token.
#[derive(Debug)]
struct Scan {
    oracle: bool,
    blocks: Vec<Block>,
    /// No statement of the body has begun.
    header: bool,
    /// A statement may begin here.
    at_start: bool,
    /// In DECLARE ... HANDLER FOR, whose statement follows the conditions.
    handler: bool,
    /// In the head of a routine inside an Oracle package.
    routine: bool,
    parens: u32,
    last: Option<Kw>,
    /// The last token was a point, `@` or `:`, behind which words are names.
    qualified: bool,
    /// The word that began the outermost block.
    outermost: Kw,
    /// What may follow the END of the outermost block.
    tail: Tail,
}

/// What follows the END of the outermost block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// It is still open, or there is none.
    Open,
    /// The word that began it: END IF.
    Word(Kw),
    /// Its label, or nothing.
    Label,
    /// Nothing.
    Nothing,
}

/// Words with which a body of one statement begins.
const SIMPLE: &[Kw] = &[
    Kw::SELECT,
    Kw::SET,
    Kw::INSERT,
    Kw::REPLACE,
    Kw::UPDATE,
    Kw::DELETE,
    Kw::RETURN,
    Kw::CALL,
    Kw::WITH,
    Kw::VALUES,
    Kw::SIGNAL,
    Kw::TRUNCATE,
];

impl Scan {
    fn new(options: &ParseOptions) -> Self {
        Scan {
            oracle: options.types == TypeFamily::Oracle,
            blocks: Vec::new(),
            header: true,
            at_start: false,
            handler: false,
            routine: false,
            parens: 0,
            last: None,
            qualified: false,
            outermost: Kw::BEGIN,
            tail: Tail::Open,
        }
    }

    /// Whether the text may end here.
    fn is_complete(&self) -> bool {
        self.blocks.is_empty() && !matches!(self.tail, Tail::Word(_))
    }

    /// Whether a token fits behind the END of the outermost block.
    fn take_end(&mut self, tok: Tok, kw: Option<Kw>) -> bool {
        let (fits, tail) = match self.tail {
            Tail::Open => return true,
            Tail::Word(word) => (kw == Some(word), Tail::Label),
            Tail::Label => {
                let is_name = tok == Tok::Quoted
                    || tok == Tok::Word && kw.is_none_or(|kw| kw != Kw::END && !kw.is_reserved());
                (is_name, Tail::Nothing)
            }
            Tail::Nothing => (false, Tail::Nothing),
        };
        self.tail = tail;
        fits
    }

    /// Whether a semicolon here ends the whole text.
    fn is_closed(&self) -> bool {
        self.blocks.is_empty()
    }

    fn take(&mut self, tok: Tok, kw: Option<Kw>, next: Option<Kw>) {
        let qualified = std::mem::replace(&mut self.qualified, matches!(tok, Tok::Dot | Tok::At | Tok::AtAt));
        match tok {
            Tok::LParen => self.parens += 1,
            Tok::RParen => self.parens = self.parens.saturating_sub(1),
            Tok::Semicolon => (self.handler, self.routine, self.parens) = (false, false, 0),
            _ => {}
        }
        let start = std::mem::replace(&mut self.at_start, matches!(tok, Tok::Semicolon | Tok::Colon));
        let last = std::mem::replace(&mut self.last, kw);
        let Some(kw) = kw.filter(|_| !qualified) else { return };
        match kw {
            Kw::END => self.end(start, last, next),
            Kw::CASE if last != Some(Kw::END) && !(start || self.may_begin()) => {
                self.blocks.push(Block::Expression);
            }
            Kw::BEGIN if self.blocks.last() == Some(&Block::Declarations) && start => {
                self.blocks.pop();
                self.open(Kw::BEGIN, Block::Statements);
                self.at_start = true;
            }
            Kw::IF | Kw::FOR if matches!(next, Some(Kw::NOT | Kw::EXISTS | Kw::EACH)) && self.header => {}
            Kw::BEGIN | Kw::IF | Kw::CASE | Kw::WHILE | Kw::FOR | Kw::LOOP | Kw::REPEAT
                if last != Some(Kw::END) && (start || self.may_begin()) =>
            {
                let handler_for = kw == Kw::FOR && self.handler;
                if !handler_for {
                    self.open(kw, if kw == Kw::REPEAT { Block::Repeat } else { Block::Statements });
                    self.at_start = matches!(kw, Kw::BEGIN | Kw::LOOP | Kw::REPEAT);
                }
            }
            Kw::THEN | Kw::ELSE if self.blocks.last() != Some(&Block::Expression) => self.at_start = true,
            Kw::DO | Kw::LOOP => self.at_start = true,
            Kw::HANDLER => self.handler = !self.blocks.is_empty(),
            Kw::IS | Kw::AS if self.oracle && (self.header || self.routine) && self.parens == 0 => {
                self.open(Kw::BEGIN, Block::Declarations);
                (self.routine, self.at_start) = (false, true);
            }
            Kw::DECLARE if self.oracle && (start || self.header) => {
                self.open(Kw::BEGIN, Block::Declarations);
                self.at_start = true;
            }
            Kw::PROCEDURE | Kw::FUNCTION if self.oracle && start => self.routine = true,
            Kw::RETURN if self.oracle => {}
            _ if self.parens == 0 && SIMPLE.contains(&kw) && !is_part_of_head(last) => self.header = false,
            _ => {}
        }
    }

    /// Whether a block may begin although no semicolon or THEN precedes it.
    fn may_begin(&self) -> bool {
        self.parens == 0 && (self.header || self.handler)
    }

    fn open(&mut self, kw: Kw, block: Block) {
        if self.blocks.is_empty() {
            self.outermost = match kw {
                Kw::WHILE | Kw::FOR if self.oracle => Kw::LOOP,
                kw => kw,
            };
        }
        self.blocks.push(block);
        (self.header, self.handler) = (false, false);
    }

    fn end(&mut self, start: bool, last: Option<Kw>, next: Option<Kw>) {
        let closes = match self.blocks.last() {
            Some(Block::Expression) => true,
            Some(Block::Repeat) => next == Some(Kw::REPEAT),
            Some(_) => start && last != Some(Kw::XA),
            None => false,
        };
        if closes {
            let closed = self.blocks.pop();
            if self.blocks.is_empty() && closed != Some(Block::Expression) {
                self.tail = match self.outermost {
                    Kw::BEGIN => Tail::Label,
                    kw => Tail::Word(kw),
                };
            }
        }
    }
}

/// Whether the word before another says that it belongs to the head: BEFORE INSERT, OR REPLACE, CHARACTER SET.
fn is_part_of_head(last: Option<Kw>) -> bool {
    matches!(last, Some(Kw::BEFORE | Kw::AFTER | Kw::OR | Kw::CHARACTER | Kw::CHAR))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn rest(text: &str, types: TypeFamily) -> String {
        let options = ParseOptions { multi_statements: true, types, ..ParseOptions::default() };
        let whole = format!("{text}; select 'next'");
        let parsed = parse(whole.as_bytes(), &options).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert!(matches!(parsed.statement, Statement::Unsupported { .. }), "{text}: {:?}", parsed.statement);
        let single = ParseOptions { multi_statements: false, ..options };
        assert!(parse(text.as_bytes(), &single).is_ok(), "{text}");
        parsed.rest_offset.map_or(String::new(), |at| whole[at..].to_owned())
    }

    #[test]
    fn bodies_are_read_to_their_end() {
        let texts = [
            "create procedure p() select 1",
            "create procedure p() begin select 1; select 2; end",
            "create procedure if not exists p(in a int) comment 'x' begin end",
            "create definer=`root`@`localhost` procedure p() begin if a then set b = 1; else set b = 2; end if; end",
            "create procedure p() begin declare x int default 0; declare continue handler for not found begin set x = 1; \
             end; declare exit handler for sqlexception set x = 2; select 1; end",
            "create procedure p() l: while x < 3 do set x = if(x, 1, 2); end while l",
            "create procedure p() begin l: loop if x then leave l; end if; end loop; select repeat('a', 2); end",
            "create procedure p() begin repeat set x = x + 1; until case x when 1 then 2 else 3 end end repeat; select 1; end",
            "create procedure p() case x when 1 then select 1; else begin end; end case",
            "create procedure p() begin for i in 1 to 3 do select i; end for; end",
            "create procedure p() begin select case when a then 1 else 2 end as x, t.end from t; select 1 for update; end",
            "create function f(a int) returns int deterministic return case a when 1 then 2 end",
            "create or replace function f() returns varchar(9) character set utf8mb4 begin return 1; end",
            "create trigger t before insert on x for each row begin set new.a = 1; set @a = 2; end",
            "create trigger t after update on x for each row follows s if new.a then set @a = 1; end if",
            "create event e on schedule every 1 day do begin delete from t; end",
            "begin not atomic select 1; select 2; end",
            "if 1 then select 1; end if",
            "while @a do set @a = 0; end while",
            "create procedure p() begin /* end; */ select 'end;'; -- end;\n select `end`; end",
        ];
        for text in texts {
            assert_eq!(rest(text, TypeFamily::MariaDb), "select 'next'", "{text}");
        }
    }

    #[test]
    fn bodies_of_oracle_are_read_to_their_end() {
        let texts = [
            "create procedure p as begin select 1; end",
            "create function f return int as begin return 1; end",
            "create or replace procedure p(a int) is x int; y int; begin if x then null; end if; end p",
            "create package k as procedure p; function f return int; end",
            "create package body k as procedure p as x int; begin select 1; end; function f return int is begin return 1; \
             end; begin set @a = 1; end",
        ];
        for text in texts {
            assert_eq!(rest(text, TypeFamily::Oracle), "select 'next'", "{text}");
        }
    }
}
