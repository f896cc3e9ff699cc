//! The grammar: recursive descent, binding powers for expressions.

use crate::ast::{Span, Statement};
use keel_base::{SqlResult, errors};

/// What the session says about how text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The client asked for CLIENT_MULTI_STATEMENTS: more may follow a semicolon.
    pub multi_statements: bool,
    /// The text is being prepared: `?` is allowed.
    pub prepare: bool,
    /// Code in `/*!NNNNNN */` is read up to this version.
    pub version: u32,
    /// Levels of nesting after which error 1436 is raised.
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
            multi_statements: false,
            prepare: false,
            version: 101_100,
            depth_max: 200,
        }
    }
}

/// A statement and what stands around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The tree.
    pub statement: Statement,
    /// Where the text after the semicolon begins; none where nothing but blanks and comments follows.
    pub rest_offset: Option<usize>,
    /// How many `?` it has.
    pub param_count: u32,
    /// Its number and string tokens in order; [`crate::ast::Literal::index`] points here.
    pub literals: Vec<Literal>,
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

/// Parses the first statement of `sql`, which is UTF-8 but for what stands in string literals.
pub fn parse(_sql: &[u8], _options: &ParseOptions) -> SqlResult<Parsed> {
    Err(errors::not_supported_yet("SQL"))
}
