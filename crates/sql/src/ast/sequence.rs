//! Sequences: their definitions and the calls that take values from them.

use super::ObjectName;

/// What CREATE SEQUENCE and ALTER SEQUENCE say; what they do not say is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// INCREMENT BY.
    pub increment: Option<i64>,
    /// MINVALUE; `Some(None)` is NO MINVALUE.
    pub minimum: Option<Option<i64>>,
    /// MAXVALUE; `Some(None)` is NO MAXVALUE.
    pub maximum: Option<Option<i64>>,
    /// START WITH.
    pub start: Option<i64>,
    /// RESTART; `Some(None)` is without a value.
    pub restart: Option<Option<i64>>,
    /// CACHE; NOCACHE is 0.
    pub cache: Option<i64>,
    /// CYCLE or NOCYCLE.
    pub cycle: Option<bool>,
}

/// ALTER SEQUENCE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterSequence {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The sequence.
    pub name: ObjectName,
    /// What changes.
    pub options: SequenceOptions,
}

/// A call that names a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceCall {
    /// The sequence.
    pub name: ObjectName,
    /// What is asked of it.
    pub op: SequenceOp,
}

/// What a call asks of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceOp {
    /// NEXTVAL(), NEXT VALUE FOR: a value that nobody else gets.
    Next,
    /// LASTVAL(), PREVIOUS VALUE FOR: what the session got last.
    Last,
    /// SETVAL().
    Set {
        /// The value.
        value: i64,
        /// Whether it counts as given.
        used: bool,
        /// In which round of a sequence that cycles.
        round: u64,
    },
}
