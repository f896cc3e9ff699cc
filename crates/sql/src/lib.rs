//! Text to tree: lexer, digest, parser, printer of MariaDB 10.11's SQL. Knows no catalog.
//!
//! A statement that was seen before passes [`digest::digest`] only: one scan that gives its fingerprint and its literals. One that
//! was not passes [`parse`], which gives the tree and, for each literal, whether a plan may take it as a parameter. Both
//! count literals alike: the n-th number or string token of the text, adjacent strings being one.
#![forbid(unsafe_code)]

pub mod ast;
pub mod digest;
pub mod keyword;
pub mod lexer;
pub mod parser;
pub mod pause;
pub mod printer;
pub mod rows;

pub use parser::{
    AsSent, Literal, LiteralKind, ParseOptions, Parsed, TemporalCheck, TemporalLiteral, TypeFamily, parse,
    parse_with_rows, value_of,
};
pub use rows::{LiteralCell, LiteralRows};
