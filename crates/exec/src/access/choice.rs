//! What was chosen for a table, as EXPLAIN and the operators see it.

use super::AccessPath;

/// A column and whether descending.
pub type KeyOrder = (u16, bool);

/// How EXPLAIN calls a way to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AccessKind {
    /// No row.
    Empty,
    Const,
    EqRef,
    Ref,
    Range,
    IndexMerge,
    Index,
    All,
}

impl AccessKind {
    /// EXPLAIN's word; none where it prints NULL.
    pub fn name(self) -> Option<&'static str> {
        match self {
            AccessKind::Empty => None,
            AccessKind::Const => Some("const"),
            AccessKind::EqRef => Some("eq_ref"),
            AccessKind::Ref => Some("ref"),
            AccessKind::Range => Some("range"),
            AccessKind::IndexMerge => Some("index_merge"),
            AccessKind::Index => Some("index"),
            AccessKind::All => Some("ALL"),
        }
    }
}

/// The way chosen.
#[derive(Debug, Clone)]
pub struct AccessChoice {
    /// The way.
    pub path: AccessPath,
    /// Whether the index's entries hold every needed column.
    pub covering: bool,
    /// Rows expected each time it is opened.
    pub rows: f64,
    /// Its price each time it is opened.
    pub cost: f64,
    /// Predicates that its rows fulfil for certain where the reader says that its ranges are exact.
    pub exact: Vec<usize>,
    /// Whether rows come in the wished order.
    pub ordered: bool,
    /// EXPLAIN's type.
    pub kind: AccessKind,
    /// Indexes that some predicate restricts.
    pub possible_keys: Vec<usize>,
    /// Parts of the index that conditions use.
    pub key_parts: usize,
    /// EXPLAIN's key_len.
    pub key_len: usize,
}
