//! The grammar of MariaDB 10.11: recursive descent, binding powers for expressions.
//!
//! The text is cut into tokens up to the first semicolon, then read from left to right; nothing is read twice but where a
//! parenthesis may begin a query, a row or a join, and there each token is still read once. A syntax error is raised at
//! the first token that no statement could have there, as MariaDB's own (LALR) parser does, so that its `near` text agrees.
//!
//! Nesting is bounded by [`ParseOptions::depth_max`], chains of operators by [`CHAIN_MAX`] and [`SET_OPERATIONS_MAX`], chains of
//! chains by [`LINKS_MAX`], so that neither the parser nor code that walks the tree later runs out of stack. AND and OR are unbounded: their chains become balanced trees.

mod account;
mod admin;
mod alter;
mod column;
mod cursor;
mod ddl;
mod dml;
mod expr;
mod function;
mod json_table;
mod literal;
mod load;
mod predicate;
mod program;
mod query;
mod sequence;
mod set;
mod show;
mod statement;
mod table;
mod weight;

pub(crate) use literal::unquoted;
pub use literal::value_of;

use crate::ast::{ByteStr, LiteralValue, Span, Statement};
use crate::keyword::Kw;
use crate::lexer::{Lexer, RawToken, Tok, is_space};
use crate::rows::RowsSpan;
use keel_base::{SqlError, SqlResult, errors};

/// Operators of one level in a row: `a + b + c ...`, joins.
pub const CHAIN_MAX: u32 = 128;

/// Operators of chains on one path from the root of a tree to a leaf. A chain whose operand is a chain, as in
/// `(a + b + ...) + c + ...`, makes a tree as high as both together, although neither the nesting nor a chain is long.
pub const LINKS_MAX: u32 = CHAIN_MAX;

/// UNIONs in a row: each has a plan of its own, which takes more memory than its text.
pub const SET_OPERATIONS_MAX: u32 = 20_000;

/// EXCEPT and INTERSECT in a row, or UNION in turn with them: each runs inside of the next.
pub const NESTED_OPERATIONS_MAX: u32 = 50;

/// From UTF-8 to the octets that a client sent.
#[derive(Debug, Clone, Copy)]
pub struct AsSent {
    /// The number of the client's collation.
    pub collation: u16,
    /// Converts from UTF-8 to that collation's character set.
    pub convert: fn(&[u8], u16) -> Vec<u8>,
}

/// The kinds of temporal literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TemporalLiteral {
    Date,
    Time,
    Timestamp,
}

impl TemporalLiteral {
    pub(crate) fn value(self, text: ByteStr) -> LiteralValue {
        match self {
            TemporalLiteral::Date => LiteralValue::Date(text),
            TemporalLiteral::Time => LiteralValue::Time(text),
            TemporalLiteral::Timestamp => LiteralValue::Timestamp(text),
        }
    }
}

/// Decides which strings in ODBC's braces are temporal literals.
#[derive(Debug, Clone, Copy)]
pub struct TemporalCheck {
    /// The bits of the session's sql_mode.
    pub sql_mode: u64,
    /// Whether the text is a valid literal of that kind under a sql_mode.
    pub accepts: fn(TemporalLiteral, &ByteStr, u64) -> bool,
}

/// Whose names of types are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeFamily {
    /// MariaDB's own.
    MariaDb,
    /// Oracle's: DATE has a time, BLOB and CLOB are long, NUMBER, RAW and VARCHAR2 are types.
    Oracle,
    /// MaxDB's: TIMESTAMP is DATETIME.
    MaxDb,
}

/// What the session says about how text is read.
#[derive(Debug, Clone, Copy)]
pub struct ParseOptions {
    /// sql_mode ANSI_QUOTES: "x" is an identifier.
    pub ansi_quotes: bool,
    /// sql_mode PIPES_AS_CONCAT: `||` joins strings.
    pub pipes_as_concat: bool,
    /// sql_mode NO_BACKSLASH_ESCAPES.
    pub no_backslash_escapes: bool,
    /// sql_mode IGNORE_SPACE: blanks may stand between a built-in function's name and its parenthesis.
    pub ignore_space: bool,
    /// sql_mode HIGH_NOT_PRECEDENCE: NOT binds like `!`.
    pub high_not_precedence: bool,
    /// sql_mode REAL_AS_FLOAT: REAL is FLOAT.
    pub real_as_float: bool,
    /// sql_mode ORACLE and MAXDB: what some names of types mean.
    pub types: TypeFamily,
    /// sql_mode EMPTY_STRING_IS_NULL: `''` is NULL.
    pub empty_string_is_null: bool,
    /// The client asked for CLIENT_MULTI_STATEMENTS: more may follow a semicolon.
    pub multi_statements: bool,
    /// The text is being prepared: `?` is allowed.
    pub prepare: bool,
    /// The client's character set, for messages.
    pub client_charset: &'static str,
    /// Gives back the octets that the client sent where the text was converted to UTF-8: they are what an introducer names
    /// the character set of.
    pub as_sent: Option<AsSent>,
    /// Checks strings in ODBC's braces. Without it all of them are temporal literals.
    pub temporal: Option<TemporalCheck>,
    /// Code in `/*!NNNNNN */` is read up to this version.
    pub version: u32,
    /// Levels of nesting after which error 1436 is raised. A level is a parenthesis, a call or a clause's expression and costs about
    /// 1.3 KiB of stack: 100 of them hold 33 subqueries or 50 calls inside each other.
    pub depth_max: u32,
}

impl Default for ParseOptions {
    fn default() -> Self {
        ParseOptions {
            ansi_quotes: false,
            pipes_as_concat: false,
            no_backslash_escapes: false,
            ignore_space: false,
            high_not_precedence: false,
            real_as_float: false,
            types: TypeFamily::MariaDb,
            empty_string_is_null: false,
            multi_statements: false,
            prepare: false,
            client_charset: "utf8mb4",
            as_sent: None,
            temporal: None,
            version: 101_100,
            depth_max: 100,
        }
    }
}

/// A statement and what stands around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The tree.
    pub statement: Statement,
    /// Where the text after the semicolon begins; none where nothing but blanks and semicolons follows.
    pub rest_offset: Option<usize>,
    /// How many `?` it has.
    pub param_count: u32,
    /// Its number and string tokens in order; [`crate::ast::Literal::index`] points here.
    pub literals: Vec<Literal>,
    /// Names of select items with blanks in front, as they are written: MariaDB warns of them (1466, 1474).
    pub trimmed: Vec<String>,
}

/// A number or string token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Literal {
    /// Where it stands, quotes and prefix included; adjacent strings are one.
    pub span: Span,
    /// How it is written.
    pub kind: LiteralKind,
    /// The tree depends on it: a type's length, an unaliased select item (its text is the column's name), an ordinal in ORDER BY,
    /// an alias. A cached plan fits only a statement whose fixed literals have the same text. Digest never sets it.
    pub fixed: bool,
}

/// How a literal is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// Digits.
    Int,
    /// Digits with a point, or more digits than 64 bits hold.
    Decimal,
    /// With an exponent.
    Float,
    /// A string in quotes.
    String,
    /// N'..'
    National,
    /// x'..'
    QuotedHex,
    /// 0x..
    Hex,
    /// b'..', 0b..
    Bit,
}

/// A token with what the grammar wants to know of it.
#[derive(Debug, Clone, Copy)]
struct Token {
    tok: Tok,
    /// Of a word.
    kw: Option<Kw>,
    start: usize,
    end: usize,
    /// Index of a literal or of a parameter.
    index: u32,
}

/// The parser of one statement.
struct Parser<'a> {
    text: &'a [u8],
    options: ParseOptions,
    tokens: Vec<Token>,
    pos: usize,
    literals: Vec<Literal>,
    param_count: u32,
    depth: u32,
    /// Operators of chains on the longest path of the trees that were read in the current scope: an expression with its
    /// operators, or a nested part.
    links: u32,
    /// The table that CREATE TABLE or ALTER TABLE is about: its name may stand before its columns' names.
    defined: Option<crate::ast::ObjectName>,
    /// The query that begins next may have INTO.
    into_next: bool,
    /// So may the one being read.
    into_here: bool,
    /// The SELECT that begins next is the first of its statement.
    first_next: bool,
    /// INTO stood behind more than the select list.
    into_late: bool,
    /// See [`Parsed::trimmed`].
    trimmed: Vec<String>,
    /// Within the query of CREATE VIEW, whose names are checked.
    in_view: bool,
    /// The last query of the set operations that were read stood in parentheses: behind it there is no lock clause.
    last_in_brackets: bool,
    /// Inside MODIFY or CHANGE, whose columns take no REFERENCES.
    no_references: bool,
    /// Inside ON DUPLICATE KEY UPDATE, where VALUES is a function.
    in_on_duplicate: bool,
    /// An expression already read, with which the next primary begins: what followed an opening parenthesis turned out to be
    /// an operand.
    seed: Option<crate::ast::Expr>,
    /// The operators of chains on its longest path.
    seed_links: u32,
    /// The statement has a body, which may contain semicolons.
    compound: bool,
    /// The VALUES list that one token stands for.
    rows: Option<RowsSpan>,
}

/// Parses the first statement of `sql`, which is UTF-8 but for what stands in string literals.
pub fn parse(sql: &[u8], options: &ParseOptions) -> SqlResult<Parsed> {
    parse_text(sql, options, None)
}

/// Parses a statement whose VALUES list was found to be of plain literals: it becomes
/// [`crate::ast::InsertSource::Literals`] and is not counted among [`Parsed::literals`].
pub fn parse_with_rows(sql: &[u8], options: &ParseOptions, rows: RowsSpan) -> SqlResult<Parsed> {
    // Without a list taken as a whole errors have their right place.
    parse_text(sql, options, Some(rows)).or_else(|_| parse(sql, options))
}

fn parse_text(sql: &[u8], options: &ParseOptions, rows: Option<RowsSpan>) -> SqlResult<Parsed> {
    let text = trim_end(sql);
    let (mut parser, rest, saw_comment) = Parser::tokenize(text, options, rows);
    if let [only] = parser.tokens.as_slice()
        && only.tok == Tok::End
    {
        if only.start < text.len() {
            // No statement stands before a semicolon, be it alone or behind a comment.
            return Err(parser.error_at(only.start));
        }
        if !saw_comment {
            return Err(errors::empty_query());
        }
        return Ok(Parsed {
            statement: Statement::Empty,
            rest_offset: None,
            param_count: 0,
            literals: Vec::new(),
            trimmed: Vec::new(),
        });
    }
    let statement = parser.statement()?;
    parser.expect_end(&statement)?;
    let rest = if parser.compound { parser.rest_of_compound()? } else { rest };
    if let Some(offset) = rest.filter(|_| !options.multi_statements) {
        return Err(parser.error_at(offset));
    }
    Ok(Parsed {
        statement,
        rest_offset: rest,
        param_count: parser.param_count,
        literals: parser.literals,
        trimmed: parser.trimmed,
    })
}

/// As MariaDB strips a command: blanks, semicolons and a closing NUL are no part of it.
fn trim_end(sql: &[u8]) -> &[u8] {
    let end =
        sql.iter().rposition(|&byte| !is_space(byte) && byte != b';' && byte != 0).map_or(0, |at| at + 1);
    &sql[..end]
}

impl<'a> Parser<'a> {
    /// Cuts `text` up to the first semicolon; says where the text after it begins, if any, and whether a comment was passed.
    fn tokenize(
        text: &'a [u8],
        options: &ParseOptions,
        rows: Option<RowsSpan>,
    ) -> (Self, Option<usize>, bool) {
        let mut lexer = Lexer::new(text, options);
        let taken = rows.map_or(0, |rows| rows.end - rows.start);
        let mut parser = Parser {
            text,
            options: *options,
            tokens: Vec::with_capacity(16 + (text.len() - taken) / 6),
            pos: 0,
            literals: Vec::new(),
            param_count: 0,
            depth: 0,
            links: 0,
            in_on_duplicate: false,
            defined: None,
            into_next: false,
            into_here: false,
            first_next: false,
            into_late: false,
            trimmed: Vec::new(),
            in_view: false,
            no_references: false,
            last_in_brackets: false,
            seed: None,
            seed_links: 0,
            compound: false,
            rows,
        };
        loop {
            let mut raw = lexer.next_token();
            if let Some(rows) = rows.filter(|rows| rows.start == raw.start && raw.tok == Tok::LParen) {
                lexer.skip_to(rows.end);
                raw = RawToken { tok: Tok::Rows, start: rows.start, end: rows.end };
            }
            let tok = if raw.tok == Tok::Semicolon { Tok::End } else { raw.tok };
            let index = parser.count(tok, raw.start, raw.end);
            let kw = if tok == Tok::Word { Kw::lookup(&text[raw.start..raw.end]) } else { None };
            parser.tokens.push(Token { tok, kw, start: raw.start, end: raw.end, index });
            if matches!(tok, Tok::End | Tok::Bad) {
                let rest = (raw.tok == Tok::Semicolon).then(|| match options.multi_statements {
                    true => skip_blank(&text[raw.end..]) + raw.end,
                    // Only comments may follow.
                    false => lexer.next_token().start,
                });
                return (parser, rest.filter(|&rest| rest < text.len()), lexer.saw_comment);
            }
        }
    }

    /// Numbers a literal or a parameter.
    fn count(&mut self, tok: Tok, start: usize, end: usize) -> u32 {
        if tok == Tok::Param {
            self.param_count += 1;
            return self.param_count - 1;
        }
        let Some(kind) = LiteralKind::of(tok, &self.text[start..end]) else { return 0 };
        let joins = kind == LiteralKind::String
            && self.tokens.last().is_some_and(|last| matches!(last.tok, Tok::String | Tok::National));
        if joins {
            if let Some(literal) = self.literals.last_mut() {
                literal.span.end = end as u32;
            }
        } else {
            let span = Span { start: start as u32, end: end as u32 };
            self.literals.push(Literal { span, kind, fixed: true });
        }
        self.literals.len() as u32 - 1
    }

    /// Nothing may follow the statement.
    fn expect_end(&self, statement: &Statement) -> SqlResult<()> {
        if self.compound || matches!(statement, Statement::Unsupported { .. }) || self.peek().tok == Tok::End
        {
            return Ok(());
        }
        Err(self.unexpected())
    }
}

fn skip_blank(text: &[u8]) -> usize {
    text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len())
}

impl LiteralKind {
    /// The kind of a token that is a literal.
    pub(crate) fn of(tok: Tok, text: &[u8]) -> Option<LiteralKind> {
        // Digits that always fit into 64 bits.
        const SAFE_DIGITS: usize = 19;
        Some(match tok {
            Tok::Int if text.len() <= SAFE_DIGITS || literal::fits_u64(text) => LiteralKind::Int,
            Tok::Int => LiteralKind::Decimal,
            Tok::Decimal => LiteralKind::Decimal,
            Tok::Float => LiteralKind::Float,
            Tok::String => LiteralKind::String,
            Tok::National => LiteralKind::National,
            Tok::QuotedHex => LiteralKind::QuotedHex,
            Tok::Hex => LiteralKind::Hex,
            Tok::QuotedBit | Tok::Bit => LiteralKind::Bit,
            _ => return None,
        })
    }
}

/// The longest `near` text, in bytes.
const NEAR_MAX: usize = 80;

impl Parser<'_> {
    /// Error 1064 at byte `offset`.
    #[cold]
    fn error_at(&self, offset: usize) -> SqlError {
        let near = &self.text[offset..];
        let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
        // Line ends inside strings and quoted names are not counted.
        let before = self.tokens.iter().filter(|token| token.end <= offset);
        let inside: usize = before.map(|&token| lines(self.text_of(token))).sum();
        // Nor are those before the statement.
        let line = 1 + lines(&self.text[skip_blank(self.text)..offset]) - inside;
        errors::parse_error(errors::syntax_error().message, shorten(near), line)
    }
}

/// At most [`NEAR_MAX`] bytes, with points where cut, whole characters; control characters as MariaDB prints them.
fn shorten(near: &[u8]) -> String {
    let text = String::from_utf8_lossy(near);
    let mut out = String::with_capacity(NEAR_MAX);
    let cut = near.len() > NEAR_MAX;
    let room = if cut { NEAR_MAX - 3 } else { NEAR_MAX };
    for ch in text.chars() {
        if out.len() + ch.len_utf8() > room {
            break;
        }
        out.push(ch);
    }
    if cut {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use keel_base::code;

    use crate::{ParseOptions, parse};

    /// `depth` chains of `length` operators, each the first operand of the next one.
    fn chains(open: &str, chain: &str, length: usize, depth: usize) -> String {
        format!("select {}1{}", open.repeat(depth), format!("{})", chain.repeat(length)).repeat(depth))
    }

    #[test]
    fn chains_within_chains_count_together() {
        for chain in [" + 1", " = 1", " is null", " collate utf8mb4_bin"] {
            for open in ["(", "abs(", "(select "] {
                let text = chains(open, chain, 20, 6);
                assert!(parse(text.as_bytes(), &ParseOptions::default()).is_ok(), "{text}");
                let text = chains(open, chain, 50, 20);
                let error = parse(text.as_bytes(), &ParseOptions::default()).expect_err("too high");
                assert_eq!(error.code, code::STACK_OVERRUN_NEED_MORE, "{text}");
            }
        }
        // Chains beside each other do not add up, nor do the operands of AND and OR.
        let beside = vec![chains("(", " + 1", 60, 2).split_off(7); 50];
        for joint in [", ", " and ", " or "] {
            let text = format!("select {}", beside.join(joint));
            assert!(parse(text.as_bytes(), &ParseOptions::default()).is_ok(), "{joint}");
        }
    }
}
