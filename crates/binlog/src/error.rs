//! Errors of readers and writers.

use std::fmt;

/// Invalid input of a reader, or a value that a writer cannot encode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Offset in bytes from the start of the event; from the start of the file after [`Error::in_file`].
    /// Writers count from the start of the output buffer.
    pub offset: u64,
    /// The problem.
    pub problem: Problem,
}

/// A kind of error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The input ends within a field.
    Truncated {
        /// Bytes of the field.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// Bytes are left behind the last field.
    Trailing(u64),
    /// The checksum in the event is not that of its bytes.
    Checksum {
        /// The checksum in the event.
        stored: u32,
        /// The checksum of the event's bytes.
        computed: u32,
    },
    /// The event is longer than the reader allows.
    TooLong {
        /// Its length, compressed or not.
        length: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// The Format_description event declares a length of this kind's fixed part that 10.11 does not use.
    PostHeader {
        /// The kind.
        kind: u8,
        /// The length.
        length: u8,
    },
    /// The rest of the file is encrypted.
    Encrypted,
    /// A field has an invalid value.
    Invalid(&'static str),
    /// A value is too large for its field.
    NoRoom(&'static str),
}

/// The result of readers and writers.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(offset: usize, problem: Problem) -> Error {
        Error { offset: offset as u64, problem }
    }

    pub(crate) fn invalid(offset: usize, what: &'static str) -> Error {
        Error::new(offset, Problem::Invalid(what))
    }

    pub(crate) fn no_room(offset: usize, what: &'static str) -> Error {
        Error::new(offset, Problem::NoRoom(what))
    }

    /// This error with an offset in the file; the event starts at `position`.
    pub fn in_file(self, position: u64) -> Error {
        Error { offset: self.offset.saturating_add(position), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Truncated { needed, left } => write!(f, "{needed} bytes expected, {left} left"),
            Problem::Trailing(count) => write!(f, "{count} bytes behind the last field"),
            Problem::Checksum { stored, computed } => {
                write!(f, "the checksum is {stored:08x}, that of the bytes {computed:08x}")
            }
            Problem::TooLong { length, max } => write!(f, "{length} bytes where {max} are allowed"),
            Problem::PostHeader { kind, length } => {
                write!(f, "events of type {kind} have a fixed part of {length} bytes, which is not supported")
            }
            Problem::Encrypted => f.write_str("the log is encrypted"),
            Problem::Invalid(what) => write!(f, "invalid {what}"),
            Problem::NoRoom(what) => write!(f, "{what} does not fit its field"),
        }
    }
}

impl std::error::Error for Error {}
