//! MariaDB's JSON paths: `$`, `.key`, `."key"`, `.*`, `[n]`, `[-n]`, `[last-n]`, `[a to b]`, `[*]` and `**` before a step.
//!
//! A path borrows its keys from the text it was read from, so reading one allocates nothing unless it is long: functions
//! read their paths anew for each row. A key is compared with an object's key either as both are written, or by what they
//! mean (JSON_VALUE and the functions that change do the latter, JSON_EXTRACT the former): [`Step::fits_key`].
//!
//! Positions in messages count the octet that was not expected, from 1. White space has its quirks: one space may stand on
//! either side of an index, where digits go on behind it, and `to` must be followed by exactly one.

use smallvec::SmallVec;

use super::fault::{Fault, FaultKind};
use super::scan::Key;
use super::text;

/// Most steps of a path.
pub const STEPS_MAX: usize = 31;

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'p> {
    /// A member of an object: its key as written, without quotes.
    Key(&'p [u8]),
    /// All members.
    AnyKey,
    /// An element; negative ones count from the end, -1 is the last.
    Index(i32),
    /// Elements from one to another, both included.
    Range(i32, i32),
    /// All elements.
    AnyIndex,
}

/// A step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'p> {
    /// `**` stands before it: it may be taken at any depth.
    pub anywhere: bool,
    /// Where it leads.
    pub target: Target<'p>,
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path<'p> {
    /// Its steps behind `$`.
    pub steps: SmallVec<[Step<'p>; 4]>,
}

impl Step<'_> {
    /// Whether it leads to elements of arrays.
    pub fn is_index(&self) -> bool {
        matches!(self.target, Target::Index(_) | Target::Range(..) | Target::AnyIndex)
    }

    /// Whether it may lead to several values.
    pub fn is_multiple(&self) -> bool {
        self.anywhere || !matches!(self.target, Target::Key(_) | Target::Index(_))
    }

    /// Whether it needs the length of the array that it is taken in.
    pub fn counts_from_end(&self) -> bool {
        matches!(self.target, Target::Index(n) if n < 0)
            || matches!(self.target, Target::Range(a, b) if a.min(b) < 0)
    }

    /// Whether anything but an array is its own element of this step.
    pub fn is_first(&self) -> bool {
        matches!(self.target, Target::Index(0) | Target::Range(0, _))
    }

    /// Whether an object's key fits; `as_written` compares octets, otherwise what escapes mean counts.
    pub fn fits_key(&self, text: &[u8], key: &Key, as_written: bool) -> bool {
        match self.target {
            Target::AnyKey => true,
            Target::Key(wanted) => {
                let found = key.inner(text);
                let plain = as_written || !(key.escaped || wanted.contains(&b'\\'));
                if plain { found == wanted } else { text::same(found, wanted) }
            }
            _ => false,
        }
    }

    /// Whether an array's element fits; `length` is the array's, which only [`Step::counts_from_end`] asks for.
    pub fn fits_index(&self, index: usize, length: usize) -> bool {
        let resolve = |n: i32| if n < 0 { length as i64 + i64::from(n) } else { i64::from(n) };
        let index = index as i64;
        match self.target {
            Target::AnyIndex => true,
            Target::Index(n) => resolve(n) == index,
            Target::Range(from, to) => resolve(from) <= index && index <= resolve(to),
            _ => false,
        }
    }
}

impl<'p> Path<'p> {
    /// Reads a path.
    pub fn parse(text: &'p [u8]) -> Result<Path<'p>, Fault> {
        Reader { text, at: 0 }.path()
    }

    /// Whether it may lead to several values.
    pub fn is_multiple(&self) -> bool {
        self.steps.iter().any(Step::is_multiple)
    }
}

/// A JSON path as text that leads to a value: `$[0].key`, keys as written.
pub fn write_place(place: &[Place<'_>], out: &mut Vec<u8>) {
    out.push(b'$');
    for step in place {
        match step {
            Place::Key(key) => {
                out.push(b'.');
                out.extend_from_slice(key);
            }
            Place::Index(index) => out.extend_from_slice(format!("[{index}]").as_bytes()),
        }
    }
}

/// One step of the way to a value that was found.
#[derive(Debug, Clone, Copy)]
pub enum Place<'t> {
    /// A member, its key as written.
    Key(&'t [u8]),
    /// An element.
    Index(usize),
}

struct Reader<'p> {
    text: &'p [u8],
    at: usize,
}

impl<'p> Reader<'p> {
    fn peek(&self) -> Result<u8, Fault> {
        self.text.get(self.at).copied().ok_or(Fault { kind: FaultKind::End, at: self.at })
    }

    fn unexpected<T>(&self) -> Result<T, Fault> {
        Err(Fault { kind: FaultKind::Syntax, at: self.at + 1 })
    }

    fn skip_spaces(&mut self) {
        while self.text.get(self.at).is_some_and(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes letters of a word; the first may be upper case, since MariaDB sorts characters into classes there.
    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        for (place, expected) in word.iter().enumerate() {
            let next = self.peek()?;
            if next != *expected && !(place == 0 && next.eq_ignore_ascii_case(expected)) {
                return self.unexpected();
            }
            self.at += 1;
        }
        Ok(())
    }

    fn path(mut self) -> Result<Path<'p>, Fault> {
        self.skip_spaces();
        if matches!(self.peek()?, b'l' | b'L') {
            self.word(b"lax")?;
            if self.peek()? != b' ' {
                return self.unexpected();
            }
            self.skip_spaces();
        }
        if self.peek()? != b'$' {
            return self.unexpected();
        }
        self.at += 1;
        let mut steps = SmallVec::new();
        while self.at < self.text.len() {
            let anywhere = self.asterisks()?;
            let opening = self.text.get(self.at).copied();
            if !matches!(opening, Some(b'.' | b'[')) {
                return self.unexpected();
            }
            self.at += 1;
            if steps.len() == STEPS_MAX {
                return Err(Fault { kind: FaultKind::Depth, at: self.at + 1 });
            }
            let target = if opening == Some(b'.') { self.key()? } else { self.index()? };
            steps.push(Step { anywhere, target });
        }
        Ok(Path { steps })
    }

    /// Pairs of asterisks before a step; whether there are any.
    fn asterisks(&mut self) -> Result<bool, Fault> {
        let mut any = false;
        while self.text.get(self.at) == Some(&b'*') {
            self.at += 1;
            if self.text.get(self.at) != Some(&b'*') {
                return self.unexpected();
            }
            self.at += 1;
            any = true;
        }
        Ok(any)
    }

    /// Behind a point: a key, in quotes or not, or `*`.
    fn key(&mut self) -> Result<Target<'p>, Fault> {
        match self.peek()? {
            b'*' => {
                self.at += 1;
                return Ok(Target::AnyKey);
            }
            b'"' => {
                self.at += 1;
                let start = self.at;
                while self.peek()? != b'"' {
                    self.at += if self.peek()? == b'\\' { 2 } else { 1 };
                }
                self.at += 1;
                return Ok(Target::Key(&self.text[start..self.at - 1]));
            }
            b'.' | b'[' | b'\\' => return self.unexpected(),
            _ => {}
        }
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| !matches!(byte, b'.' | b'[' | b'*')) {
            self.at += 1;
        }
        Ok(Target::Key(&self.text[start..self.at]))
    }

    /// Behind a bracket: what it holds, and the closing one. Of a range with several ends the last one counts.
    fn index(&mut self) -> Result<Target<'p>, Fault> {
        self.skip_spaces();
        let from = match self.peek()? {
            b'*' => {
                self.at += 1;
                None
            }
            _ => Some(self.number()?),
        };
        let mut to = None;
        while let Some(end) = self.behind_index()? {
            to = Some(end);
        }
        Ok(match (from, to) {
            // A range behind an asterisk changes nothing.
            (None, _) => Target::AnyIndex,
            (Some(from), Some(to)) => Target::Range(from, to),
            (Some(from), None) => Target::Index(from),
        })
    }

    /// An index. Numbers wrap around at 32 bits.
    fn number(&mut self) -> Result<i32, Fault> {
        match self.peek()? {
            b'l' | b'L' => {
                self.word(b"last")?;
                if self.peek()? == b' ' && matches!(self.text.get(self.at + 1), Some(b'-')) {
                    self.at += 1;
                }
                let mut back = 1i32;
                if self.peek()? == b'-' {
                    self.at += 1;
                    back = self.digits()?.wrapping_add(1);
                }
                Ok(back.wrapping_neg())
            }
            b'-' => {
                self.at += 1;
                Ok(self.digits()?.wrapping_neg())
            }
            b'0' => {
                self.at += 1;
                Ok(0)
            }
            b'1'..=b'9' => self.digits(),
            _ => self.unexpected(),
        }
    }

    /// Digits; one space may lie among them.
    fn digits(&mut self) -> Result<i32, Fault> {
        if !self.peek()?.is_ascii_digit() {
            return self.unexpected();
        }
        let mut value = 0i32;
        let mut spaced = false;
        loop {
            match self.peek()? {
                digit @ b'0'..=b'9' => {
                    value = value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'));
                }
                b' ' if !spaced && self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit) => {
                    spaced = true
                }
                _ => return Ok(value),
            }
            self.at += 1;
        }
    }

    /// One space and `to` with the end of a range, which is given; or the closing bracket.
    fn behind_index(&mut self) -> Result<Option<i32>, Fault> {
        if self.peek()? == b' ' {
            self.at += 1;
            if self.peek()? == b't' {
                self.word(b"to")?;
                return match self.peek()? {
                    b' ' => {
                        self.at += 1;
                        self.number().map(Some)
                    }
                    // No end is the first element.
                    b']' => Ok(Some(0)),
                    _ => self.unexpected(),
                };
            }
        }
        if self.peek()? != b']' {
            return self.unexpected();
        }
        self.at += 1;
        Ok(None)
    }
}
