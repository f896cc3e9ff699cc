//! A pull reader over JSON text: one pass, no tree, no allocation.
//!
//! A [`Scanner`] is a place in the text with the nesting above it, a few words that are copied to come back to a place.
//! Whoever reads asks for what may stand there: [`Scanner::value`] where a value must begin, then inside an object
//! [`Scanner::key`] and inside an array [`Scanner::element`] until they say that it has ended.
//!
//! 1. Everything passed over has been checked: [`Scanner::skip`] reads each token of what it skips.
//! 2. Nesting is [`DEPTH_MAX`] levels at most, one bit each, so readers may recurse with it.
//! 3. Text is octets of a character set that extends ASCII; what is not ASCII may stand inside strings only.
//!
//! Where an error is said to lie follows MariaDB, which counts octets, now the last one read and now the one before.

use keel_runtime::fiber;

use super::fault::{Fault, FaultKind};

/// Most levels of objects and arrays within each other.
pub const DEPTH_MAX: u32 = 31;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// A value that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// What it is.
    pub kind: Kind,
    /// Where its first octet lies.
    pub start: usize,
    /// Behind its last octet; of objects and arrays, behind the opening bracket.
    pub end: usize,
    /// Of a string: it has escapes. Of a number: it has a point.
    pub marked: bool,
}

/// The name of an object's member, without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Where its opening quote lies.
    pub start: usize,
    /// Behind its closing quote.
    pub end: usize,
    /// It has escapes.
    pub escaped: bool,
}

/// A place in a text, and what is open there.
#[derive(Debug, Clone, Copy)]
pub struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    depth: u32,
    /// A bit for each open level, the innermost lowest: 1 is an object.
    objects: u32,
    /// The innermost level has had no member yet.
    fresh: bool,
}

impl Value {
    /// Whether nothing can lie in it.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.kind, Kind::Object | Kind::Array)
    }

    /// A scalar as it is written.
    pub fn raw<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start..self.end]
    }

    /// What stands between a string's quotes.
    pub fn inner<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start + 1..self.end - 1]
    }
}

impl Key {
    /// What stands between the quotes.
    pub fn inner<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.start + 1..self.end - 1]
    }
}

/// Octets of the character that begins at `at`, as far as UTF-8 says: other sets' octets count as one.
fn char_len(text: &[u8], at: usize) -> usize {
    let following = text[at + 1..].iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count();
    if text[at] >= 0xc0 { 1 + following } else { 1 }
}

impl<'t> Scanner<'t> {
    /// Before the first value of a text.
    pub fn new(text: &'t [u8]) -> Scanner<'t> {
        Scanner { text, at: 0, depth: 0, objects: 0, fresh: false }
    }

    /// Before a value that begins at `at`, apart from what it lies in.
    pub fn at(text: &'t [u8], at: usize) -> Scanner<'t> {
        Scanner { at, ..Scanner::new(text) }
    }

    /// The text read.
    pub fn text(&self) -> &'t [u8] {
        self.text
    }

    /// How many octets were read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// How many levels are open.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether the innermost open level is an object.
    pub fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    /// The next octet that is no white space, not taken.
    fn peek(&mut self) -> Result<u8, Fault> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(self.end_of_text()),
            }
        }
    }

    fn end_of_text(&self) -> Fault {
        Fault { kind: FaultKind::End, at: self.text.len() }
    }

    /// What stands here may not: the place behind it is told.
    #[cold]
    fn unexpected(&self) -> Fault {
        let kind = if self.text[self.at] < b' ' { FaultKind::NotJson } else { FaultKind::Syntax };
        Fault { kind, at: self.at + char_len(self.text, self.at) }
    }

    #[cold]
    fn syntax_at(&self, at: usize) -> Fault {
        if at < self.text.len() { Fault { kind: FaultKind::Syntax, at } } else { self.end_of_text() }
    }

    /// Begins the value that must stand here; an object or array is then open.
    pub fn value(&mut self) -> Result<Value, Fault> {
        fiber::tick();
        let first = self.peek()?;
        let start = self.at;
        let (kind, marked) = match first {
            b'"' => (Kind::String, self.string(false)?),
            b'{' | b'[' => {
                self.at += 1;
                if self.depth == DEPTH_MAX {
                    return Err(Fault { kind: FaultKind::Depth, at: self.at });
                }
                self.depth += 1;
                self.objects = self.objects << 1 | u32::from(first == b'{');
                self.fresh = true;
                let kind = if first == b'{' { Kind::Object } else { Kind::Array };
                return Ok(Value { kind, start, end: self.at, marked: false });
            }
            b'-' | b'0'..=b'9' => (Kind::Number, self.number()?),
            b't' => (Kind::True, self.word(b"true")?),
            b'f' => (Kind::False, self.word(b"false")?),
            b'n' => (Kind::Null, self.word(b"null")?),
            _ => return Err(self.unexpected()),
        };
        self.fresh = false;
        Ok(Value { kind, start, end: self.at, marked })
    }

    fn word(&mut self, word: &[u8]) -> Result<bool, Fault> {
        for expected in word {
            match self.text.get(self.at) {
                Some(byte) if byte == expected => self.at += 1,
                Some(_) => return Err(self.syntax_at(self.at)),
                None => return Err(self.end_of_text()),
            }
        }
        Ok(false)
    }

    /// A number; whether it has a point. One that a bracket or comma cuts short passes, as it does in MariaDB.
    fn number(&mut self) -> Result<bool, Fault> {
        let mut has_point = false;
        let digits = |scanner: &mut Self| {
            let from = scanner.at;
            while matches!(scanner.text.get(scanner.at), Some(b'0'..=b'9')) {
                scanner.at += 1;
            }
            scanner.at > from
        };
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        let mut complete = if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
            true
        } else {
            digits(self)
        };
        if complete && self.text.get(self.at) == Some(&b'.') {
            has_point = true;
            self.at += 1;
            digits(self);
        }
        if complete && matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            complete = digits(self);
        }
        match self.text.get(self.at) {
            None if complete => Ok(has_point),
            None => Err(Fault { kind: FaultKind::Syntax, at: self.at }),
            Some(b',' | b']' | b'}' | b' ' | b'\n' | b'\t' | b'\r') => Ok(has_point),
            Some(_) => Err(self.unexpected()),
        }
    }

    /// A string with its quotes, or a key with them; whether it has escapes.
    fn string(&mut self, is_key: bool) -> Result<bool, Fault> {
        let mut escaped = false;
        self.at += 1;
        loop {
            let plain = self.text[self.at..].iter().position(|b| *b < b' ' || *b == b'"' || *b == b'\\');
            let Some(plain) = plain else { return Err(self.end_of_text()) };
            self.at += plain;
            match self.text[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                _ if is_key => return Err(Fault { kind: FaultKind::Syntax, at: self.at }),
                _ => return Err(Fault { kind: FaultKind::NotJson, at: self.at + 1 }),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<(), Fault> {
        match self.text.get(self.at) {
            None => return Err(self.end_of_text()),
            Some(b'u') => self.at += 1,
            Some(_) => {
                self.at += char_len(self.text, self.at);
                return Ok(());
            }
        }
        let high = self.hex4()?;
        match high {
            0xd800..=0xdbff => {
                for expected in *b"\\u" {
                    if self.text.get(self.at) != Some(&expected) {
                        return Err(self.syntax_at(self.at));
                    }
                    self.at += 1;
                }
                match self.hex4()? {
                    0xdc00..=0xdfff => Ok(()),
                    _ => Err(Fault { kind: FaultKind::BadChar, at: self.at }),
                }
            }
            0xdc00..=0xdfff => Err(Fault { kind: FaultKind::BadChar, at: self.at }),
            _ => Ok(()),
        }
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.text.get(self.at).and_then(|b| (*b as char).to_digit(16));
            code = code << 4 | digit.ok_or_else(|| self.syntax_at(self.at))?;
            self.at += 1;
        }
        Ok(code)
    }

    /// Inside an object: the next member's key, behind which its value stands; none where the object ends.
    pub fn key(&mut self) -> Result<Option<Key>, Fault> {
        if self.ends(b'}')? {
            return Ok(None);
        }
        if self.peek()? != b'"' {
            return Err(self.unexpected());
        }
        let start = self.at;
        let escaped = self.string(true)?;
        let end = self.at;
        if self.peek()? != b':' {
            return Err(self.syntax_at(self.at));
        }
        self.at += 1;
        Ok(Some(Key { start, end, escaped }))
    }

    /// Inside an array: whether another element stands here; otherwise the array has ended.
    pub fn element(&mut self) -> Result<bool, Fault> {
        Ok(!self.ends(b']')?)
    }

    /// Takes the closing bracket, or the comma before another member.
    fn ends(&mut self, bracket: u8) -> Result<bool, Fault> {
        let next = self.peek()?;
        if next == bracket {
            self.at += 1;
            self.depth -= 1;
            self.objects >>= 1;
            self.fresh = false;
            return Ok(true);
        }
        if !self.fresh {
            if next != b',' {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        self.fresh = false;
        Ok(false)
    }

    /// Reads to the end of a value just begun; gives the place behind it.
    pub fn skip(&mut self, value: &Value) -> Result<usize, Fault> {
        if value.is_scalar() {
            return Ok(value.end);
        }
        self.leave()?;
        Ok(self.at)
    }

    /// Reads to the end of the innermost open level.
    pub fn leave(&mut self) -> Result<(), Fault> {
        let outside = self.depth - 1;
        while self.depth > outside {
            let another = if self.in_object() { self.key()?.is_some() } else { self.element()? };
            if another {
                self.value()?;
            }
        }
        Ok(())
    }

    /// Reads whatever is left of the text: all open levels, then nothing but white space.
    pub fn finish(&mut self) -> Result<(), Fault> {
        while self.depth > 0 {
            self.leave()?;
        }
        match self.peek() {
            Ok(_) => Err(self.unexpected()),
            Err(_) => Ok(()),
        }
    }
}

/// Checks a whole text; gives its value.
pub fn check(text: &[u8]) -> Result<Value, Fault> {
    let mut scanner = Scanner::new(text);
    let value = scanner.value()?;
    scanner.finish()?;
    Ok(value)
}
