//! What can be wrong with a JSON text or path, and the warning that says so.

use keel_base::{SqlError, errors};

/// Which rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A surrogate without its other half.
    BadChar,
    /// A control character.
    NotJson,
    /// The text ends too early.
    End,
    /// Something else was expected.
    Syntax,
    /// Too many levels.
    Depth,
}

/// A broken rule and where, in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub kind: FaultKind,
    /// Where.
    pub at: usize,
}

/// Levels of a text or steps of a path, as messages count them.
const DEPTH_SHOWN: u32 = 32;

impl Fault {
    /// The warning about an argument, counted from 1, that holds a text.
    pub fn of_text(&self, argument: usize, function: &str) -> SqlError {
        match self.kind {
            FaultKind::BadChar => errors::json_bad_chr(argument, function, self.at),
            FaultKind::NotJson => errors::json_not_json_chr(argument, function, self.at),
            FaultKind::End => errors::json_eos(argument, function),
            FaultKind::Syntax => errors::json_syntax(argument, function, self.at),
            FaultKind::Depth => errors::json_depth(DEPTH_SHOWN, argument, function, self.at),
        }
    }

    /// The warning about an argument, counted from 1, that holds a path.
    pub fn of_path(&self, argument: usize, function: &str) -> SqlError {
        match self.kind {
            FaultKind::End => errors::json_path_eos(argument, function),
            FaultKind::Depth => errors::json_path_depth(DEPTH_SHOWN, argument, function, self.at),
            _ => errors::json_path_syntax(argument, function, self.at),
        }
    }
}
