//! The fingerprint of a statement, from one scan of its text.
//!
//! What remains of the text is kept byte for byte, since the columns' names are made of it: only literals become marks that say
//! their kind, and comments and blanks before and after the statement go. `IN (1,2)` and `IN (1,2,3)` differ. `sql_mode`'s
//! bits that change how text is read are part of the fingerprint.
//!
//! Literals are counted exactly as [`crate::parse`] counts them, so that literal `n` of a cached plan is literal `n` here. A plan
//! made from one statement fits another of the same fingerprint if the literals that the parser called fixed have equal
//! text. Fingerprints have 128 bits and are not secret; who must not be fooled by a forged one compares [`Scratch::text`] too.

use crate::ast::Span;
use crate::keyword::Kw;
use crate::lexer::{Lexer, RawToken, Tok, is_space};
use crate::parser::{Literal, LiteralKind, ParseOptions};
use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};

/// 128 bits that name a statement up to its literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub u128);

/// What a scan leaves; kept by a session, so that no statement allocates.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// The literals in order of appearance; `fixed` is not set: the plan knows.
    pub literals: Vec<Literal>,
    /// The fingerprinted text: reading modes, then the statement with marks for literals.
    pub text: Vec<u8>,
}

/// Seeds of the two halves of a fingerprint.
const SEED_HIGH: u64 = 0x6b65_656c_2d73_716c;
const SEED_LOW: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bytes that are hashed between two pauses.
const HASHED_AT_ONCE: usize = 256 << 10;

fn mark(kind: LiteralKind) -> u8 {
    kind as u8 + 1
}

fn modes(options: &ParseOptions) -> u8 {
    u8::from(options.ansi_quotes)
        | u8::from(options.pipes_as_concat) << 1
        | u8::from(options.no_backslash_escapes) << 2
        | u8::from(options.ignore_space) << 3
        | u8::from(options.high_not_precedence) << 4
        | u8::from(options.real_as_float) << 5
        | (options.types as u8) << 6
}

/// Fingerprints the statement in `sql`. None where only the parser can tell: the text does not scan, or more statements follow.
pub fn digest(sql: &[u8], options: &ParseOptions, scratch: &mut Scratch) -> Option<Digest> {
    let Scratch { literals, text } = scratch;
    literals.clear();
    text.clear();
    text.push(modes(options));
    let mut lexer = Lexer::new(sql, options);
    let mut token = lexer.next_token();
    // What is not yet in `text` begins at `from`; the last token ended at `end`.
    let mut from = token.start;
    let mut end = token.start;
    let mut after_string = false;
    loop {
        if token.tok.is_literal() {
            let kind = LiteralKind::of(token.tok, &sql[token.start..token.end])?;
            if after_string && kind == LiteralKind::String {
                literals.last_mut()?.span.end = token.end as u32;
            } else {
                text.extend_from_slice(&sql[from..token.start]);
                text.push(mark(kind));
                let span = Span { start: token.start as u32, end: token.end as u32 };
                literals.push(Literal { span, kind, fixed: false });
            }
            after_string = matches!(kind, LiteralKind::String | LiteralKind::National);
            from = token.end;
        } else {
            match token.tok {
                Tok::End => break,
                Tok::Bad => return None,
                Tok::Semicolon if ends(&sql[token.end..]) => break,
                Tok::Semicolon => return None,
                _ => after_string = false,
            }
        }
        end = token.end;
        if let Some(plain) = lexer.skip_plain() {
            end = plain;
            after_string = false;
        }
        token = lexer.next_token();
    }
    text.extend_from_slice(&sql[from..end.max(from)]);
    let high = hash(SEED_HIGH, text);
    let low = hash(SEED_LOW, text);
    Some(Digest(u128::from(high) << 64 | u128::from(low)))
}

fn hash(seed: u64, text: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(seed).build_hasher();
    for part in text.chunks(HASHED_AT_ONCE) {
        hasher.write(part);
        if text.len() > HASHED_AT_ONCE {
            crate::pause::pause();
        }
    }
    hasher.finish()
}

/// Whether nothing stands in `rest` that the parser would not strip.
fn ends(rest: &[u8]) -> bool {
    rest.iter().all(|&byte| is_space(byte) || byte == b';' || byte == 0)
}

/// The statement as status tables show it: keywords in upper case, `?` for literals, one blank between tokens, comments dropped; at
/// most `max` bytes.
pub fn normalized(sql: &[u8], options: &ParseOptions, max: usize) -> String {
    let mut lexer = Lexer::new(sql, options);
    let mut out = String::new();
    let mut after_string = false;
    loop {
        let token = lexer.next_token();
        if matches!(token.tok, Tok::End | Tok::Bad | Tok::Semicolon) || out.len() >= max {
            break;
        }
        let joins = after_string && token.tok == Tok::String;
        after_string = matches!(token.tok, Tok::String | Tok::National);
        if joins {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        push_normalized(&mut out, token, &sql[token.start..token.end]);
    }
    let cut = (0..=max.min(out.len())).rev().find(|&at| out.is_char_boundary(at)).unwrap_or(0);
    out.truncate(cut);
    out
}

fn push_normalized(out: &mut String, token: RawToken, text: &[u8]) {
    if token.tok.is_literal() {
        out.push('?');
        return;
    }
    match Kw::lookup(text).filter(|_| token.tok == Tok::Word) {
        Some(kw) => out.push_str(kw.name()),
        None => out.push_str(&String::from_utf8_lossy(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> (Option<Digest>, Vec<String>) {
        let mut scratch = Scratch::default();
        let digest = digest(sql.as_bytes(), &ParseOptions::default(), &mut scratch);
        let text = |literal: &Literal| String::from_utf8_lossy(literal.span.of(sql.as_bytes())).into_owned();
        (digest, scratch.literals.iter().map(text).collect())
    }

    #[test]
    fn literals_do_not_count_but_their_kinds_do() {
        let (first, literals) = of("SELECT c FROM sbtest1 WHERE id=5005");
        assert_eq!(literals, ["5005"]);
        assert_eq!(first, of("SELECT c FROM sbtest1 WHERE id=17").0);
        assert_eq!(first, of(" /* trace 7 */ SELECT c FROM sbtest1 WHERE id=17 -- x\n;").0);
        assert_ne!(first, of("SELECT c FROM sbtest1 WHERE id='17'").0);
        assert_ne!(first, of("SELECT c FROM sbtest1 WHERE id=1.7").0);
        assert_ne!(first, of("SELECT c FROM sbtest2 WHERE id=17").0);
        assert_ne!(of("select a  + 1 from t").0, of("select a + 1 from t").0, "the text names the column");
    }

    #[test]
    fn lists_differ_by_length_and_adjacent_strings_are_one() {
        assert_ne!(of("select 1 in (1,2)").0, of("select 1 in (1,2,3)").0);
        let (digest, literals) = of("select 'a' 'b'  'c', 2");
        assert_eq!(literals, ["'a' 'b'  'c'", "2"]);
        assert_eq!(digest, of("select 'abc', 9").0);
    }

    #[test]
    fn what_only_the_parser_can_tell_has_none() {
        assert_eq!(of("select 1; select 2").0, None);
        assert_eq!(of("select 'a").0, None);
        assert!(of("select 1;").0.is_some());
    }

    #[test]
    fn modes_are_part_of_it() {
        let mut scratch = Scratch::default();
        let ansi = ParseOptions { ansi_quotes: true, ..ParseOptions::default() };
        let quoted = digest(b"select a", &ansi, &mut scratch);
        assert_ne!(quoted, of("select a").0);
    }

    #[test]
    fn status_tables_show_question_marks() {
        let options = ParseOptions::default();
        let text = normalized(b"select  a, 'x' 'y' from t -- c\n where `b`=5 and c in (1,2)", &options, 1024);
        assert_eq!(text, "SELECT a , ? FROM t WHERE `b` = ? AND c IN ( ? , ? )");
        assert_eq!(normalized("select é".as_bytes(), &options, 8), "SELECT ");
    }
}
