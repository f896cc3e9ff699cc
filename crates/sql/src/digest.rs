//! The fingerprint of a statement, from one scan of its text.

use crate::parser::{Literal, ParseOptions};

/// 128 bits that name a statement up to its literals, comments and white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub u128);

/// Fingerprints the first statement of `sql`; `literals` receives its literals in order of appearance (`fixed` is not set: the
/// plan knows). None where only the parser can tell: the text does not scan, or more statements follow.
pub fn digest(_sql: &[u8], _options: &ParseOptions, literals: &mut Vec<Literal>) -> Option<Digest> {
    literals.clear();
    None
}
