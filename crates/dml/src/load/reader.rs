//! Cuts a file of rows into lines and fields.
//!
//! The input comes in blocks, of which only what is not read yet is kept; a field is put together in a buffer of its own, whose
//! growth is charged to the memory that sessions share. Lines and fields are MariaDB's:
//!
//! 1. What a field is not enclosed in has no meaning in it; within an enclosed field only its own end mark ends it, if the
//!    end of a field or of a line follows, and two of them stand for one.
//! 2. An escape takes the next octet's meaning away, or gives it one: `\n`, `\N`. Where the same octet escapes and encloses,
//!    it only doubles itself.
//! 3. At the end of the file a field ends wherever it stands.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_context::interrupt::{Interrupt, InterruptState, interrupted};
use keel_context::memory::{Allowance, Work};
use keel_context::result::RowSink;
use keel_exec::session::Session;
use keel_expr::files::InputFile;
use keel_value::{CollationId, collation};

/// Octets read from a file at once.
const READ_BYTES: usize = 32 << 10;

/// What ends and surrounds fields and lines.
pub(super) struct Marks {
    pub field_end: Box<[u8]>,
    pub line_end: Box<[u8]>,
    pub line_start: Box<[u8]>,
    pub enclosed: Option<u8>,
    pub escape: Option<u8>,
    /// The character set, where an octet of a mark may be a part of a longer character.
    wide: Option<CollationId>,
    /// Octets at which a plain field is looked at more closely, and the same for an enclosed one and for the rest of a line.
    plain: Box<[bool; 256]>,
    inside: Box<[bool; 256]>,
    rest: Box<[bool; 256]>,
}

impl Marks {
    /// Of clauses as they are in force, for text of a collation.
    pub fn new(
        [field_end, line_end, line_start]: [Box<[u8]>; 3],
        enclosed: Option<u8>,
        escape: Option<u8>,
        collation: CollationId,
    ) -> Marks {
        // A line that ends as its fields do has no end of its own.
        let line_end = if line_end == field_end { Box::default() } else { line_end };
        let all = [&field_end, &line_end, &line_start];
        let is_ascii = all.iter().all(|mark| mark.is_ascii())
            && enclosed.is_none_or(|octet| octet.is_ascii())
            && escape.is_none_or(|octet| octet.is_ascii());
        let wide = (!is_ascii && collation.charset().max_bytes() > 1).then_some(collation);
        let set = |stops: &[Option<u8>]| {
            let mut set = Box::new([false; 256]);
            stops.iter().flatten().for_each(|octet| set[usize::from(*octet)] = true);
            if wide.is_some() {
                set[0x80..].fill(true);
            }
            set
        };
        let (field, line) = (field_end.first().copied(), line_end.first().copied());
        Marks {
            plain: set(&[escape, field, line]),
            inside: set(&[escape, enclosed]),
            rest: set(&[escape, line]),
            field_end,
            line_end,
            line_start,
            enclosed,
            escape,
            wide,
        }
    }
}

/// Where the input comes from.
pub(super) enum Input<'s> {
    /// A file of the server.
    File(InputFile),
    /// A file that the client sends.
    Client(&'s mut dyn RowSink),
}

/// Reads fields.
pub(super) struct FieldReader<'s> {
    marks: &'s Marks,
    input: Input<'s>,
    interrupt: Arc<Interrupt>,
    memory: Allowance,
    buffer: Vec<u8>,
    /// The next octet in `buffer`.
    at: usize,
    /// The input has no more.
    ended: bool,
    data: Vec<u8>,
    /// Where the field begins in `data`.
    start: usize,
    /// Whether the field was enclosed.
    pub enclosed: bool,
    /// Whether `\N` stood in the field.
    pub found_null: bool,
    /// The last field was the last one of its line.
    line_ended: bool,
    /// All was read.
    pub at_end: bool,
    /// The start of the next line is to be looked for.
    seeks_start: bool,
    /// [`FieldReader::next_line`] left something out.
    pub line_cut: bool,
}

impl<'s> FieldReader<'s> {
    /// A reader that stands at the first line.
    pub fn new(marks: &'s Marks, input: Input<'s>, session: &Session) -> FieldReader<'s> {
        FieldReader {
            marks,
            input,
            interrupt: session.interrupt.clone(),
            // Of no operator: who sends slowly would keep it for long.
            memory: Allowance::new(u64::MAX, Work::new(session.host.clone(), None)),
            buffer: Vec::new(),
            at: 0,
            ended: false,
            data: Vec::new(),
            start: 0,
            enclosed: false,
            found_null: false,
            line_ended: false,
            at_end: false,
            seeks_start: !marks.line_start.is_empty(),
            line_cut: false,
        }
    }

    /// The field that was read.
    pub fn field(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// Whether so many bytes are ahead. Waits.
    #[cold]
    fn more(&mut self, count: usize) -> SqlResult<bool> {
        while self.buffer.len() - self.at < count {
            if self.ended {
                return Ok(false);
            }
            match self.interrupt.state() {
                InterruptState::None => {}
                state => return Err(interrupted(state)),
            }
            // The octet that was read last stays: it may be given back.
            let passed = self.at.saturating_sub(1);
            self.buffer.drain(..passed);
            self.at -= passed;
            let read = match &mut self.input {
                Input::File(file) => file.read(&mut self.buffer, READ_BYTES)?,
                Input::Client(sink) => sink.read_file(&mut self.buffer)?,
            };
            self.ended = !read;
        }
        Ok(true)
    }

    #[inline]
    fn next(&mut self) -> SqlResult<Option<u8>> {
        if self.at == self.buffer.len() && !self.more(1)? {
            return Ok(None);
        }
        let octet = self.buffer[self.at];
        self.at += 1;
        Ok(Some(octet))
    }

    /// Whether `octet`, just read, begins a mark that stands here; then it is passed.
    #[inline]
    fn passes(&mut self, octet: u8, mark: &[u8]) -> SqlResult<bool> {
        let Some((first, rest)) = mark.split_first() else { return Ok(false) };
        if octet != *first {
            return Ok(false);
        }
        if rest.is_empty() {
            return Ok(true);
        }
        if self.buffer.len() - self.at < rest.len() && !self.more(rest.len())? {
            return Ok(false);
        }
        let found = self.buffer[self.at..].starts_with(rest);
        if found {
            self.at += rest.len();
        }
        Ok(found)
    }

    /// Appends to the field.
    #[inline]
    fn put(&mut self, octet: u8) -> SqlResult<()> {
        self.data.push(octet);
        self.charge()
    }

    #[inline]
    fn charge(&mut self) -> SqlResult<()> {
        let bytes = self.data.capacity();
        if self.memory.allows(bytes) { Ok(()) } else { Err(errors::outofmemory(bytes)) }
    }

    /// Appends to the field what comes before the next of `stops`.
    #[inline]
    fn put_run(&mut self, stops: &[bool; 256]) -> SqlResult<()> {
        let rest = &self.buffer[self.at..];
        let run = rest.iter().position(|octet| stops[usize::from(*octet)]).unwrap_or(rest.len());
        if run == 0 {
            return Ok(());
        }
        self.data.extend_from_slice(&rest[..run]);
        self.at += run;
        self.charge()
    }

    /// Appends an octet, and what belongs to the same character.
    fn put_char(&mut self, octet: u8) -> SqlResult<()> {
        self.put(octet)?;
        let Some(collation) = self.marks.wide.filter(|_| !octet.is_ascii()) else { return Ok(()) };
        let longest = collation.charset().max_bytes() as usize;
        self.more(longest - 1)?;
        let ahead = &self.buffer[self.at - 1..];
        let ahead = &ahead[..ahead.len().min(longest)];
        let whole = collation::substring(collation, ahead, 0, 1);
        if whole.len() > 1 && collation::well_formed_len(collation, whole) == whole.len() {
            let tail = whole.len() - 1;
            self.data.extend_from_slice(&self.buffer[self.at..self.at + tail]);
            self.at += tail;
        }
        Ok(())
    }

    /// Looks for the start of a line; false where there is none.
    fn find_start(&mut self) -> SqlResult<bool> {
        self.seeks_start = false;
        let marks = self.marks;
        while let Some(octet) = self.next()? {
            if self.passes(octet, &marks.line_start)? {
                return Ok(true);
            }
        }
        Ok(self.end())
    }

    /// The file has ended, and the line with it.
    fn end(&mut self) -> bool {
        self.line_ended = true;
        self.at_end = true;
        false
    }

    /// Reads the next field of the line; false where the line has no more.
    pub fn next_field(&mut self) -> SqlResult<bool> {
        self.found_null = false;
        self.enclosed = false;
        self.start = 0;
        if self.line_ended || self.seeks_start && !self.find_start()? {
            return Ok(false);
        }
        let marks = self.marks;
        let Some(first) = self.next()? else { return Ok(self.end()) };
        self.data.clear();
        let opened = marks.enclosed == Some(first);
        if opened {
            self.put(first)?;
        } else {
            self.at -= 1;
        }
        let stops = if opened { &marks.inside } else { &marks.plain };
        loop {
            self.put_run(stops)?;
            let Some(octet) = self.next()? else { break };
            if Some(octet) == marks.escape {
                match self.escaped(octet)? {
                    Escaped::Put => continue,
                    Escaped::AtEnd => break,
                    Escaped::Nothing => {}
                }
            }
            if opened && Some(octet) == marks.enclosed {
                match self.enclosing(octet)? {
                    Enclosing::Ends => {
                        (self.enclosed, self.start) = (true, 1);
                        return Ok(true);
                    }
                    Enclosing::Doubled => continue,
                    Enclosing::Content => {}
                }
            } else if !opened {
                if self.passes(octet, &marks.line_end)? {
                    self.line_ended = true;
                    return Ok(true);
                }
                if self.passes(octet, &marks.field_end)? {
                    return Ok(true);
                }
            }
            self.put_char(octet)?;
        }
        self.end();
        Ok(true)
    }

    /// Behind the octet that escapes.
    fn escaped(&mut self, escape: u8) -> SqlResult<Escaped> {
        let Some(octet) = self.next()? else {
            self.put(escape)?;
            return Ok(Escaped::AtEnd);
        };
        if Some(escape) == self.marks.enclosed && octet != escape {
            self.at -= 1;
            return Ok(Escaped::Nothing);
        }
        match octet.is_ascii() {
            true => {
                let meant = self.unescape(octet);
                self.put(meant)?;
            }
            false => self.put_char(octet)?,
        }
        Ok(Escaped::Put)
    }

    fn unescape(&mut self, octet: u8) -> u8 {
        match octet {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'0' => 0,
            b'Z' => 26,
            b'N' => {
                self.found_null = true;
                octet
            }
            other => other,
        }
    }

    /// Behind the octet that encloses the field.
    fn enclosing(&mut self, mark: u8) -> SqlResult<Enclosing> {
        let marks = self.marks;
        let Some(octet) = self.next()? else {
            self.line_ended = true;
            return Ok(Enclosing::Ends);
        };
        if octet == mark {
            self.put(mark)?;
            return Ok(Enclosing::Doubled);
        }
        if self.passes(octet, &marks.line_end)? {
            self.line_ended = true;
            return Ok(Enclosing::Ends);
        }
        if self.passes(octet, &marks.field_end)? {
            return Ok(Enclosing::Ends);
        }
        self.at -= 1;
        Ok(Enclosing::Content)
    }

    /// Reads a row of fixed size, or what there is of it; false at the end.
    pub fn next_fixed(&mut self, width: usize) -> SqlResult<bool> {
        self.start = 0;
        if self.line_ended || self.seeks_start && !self.find_start()? {
            return Ok(false);
        }
        let marks = self.marks;
        self.data.clear();
        while self.data.len() < width {
            let Some(octet) = self.next()? else {
                self.end();
                return Ok(!self.data.is_empty());
            };
            if Some(octet) == marks.escape {
                match self.next()? {
                    Some(octet) => {
                        let meant = self.unescape(octet);
                        self.put(meant)?;
                        continue;
                    }
                    None => {
                        self.put(octet)?;
                        self.end();
                        return Ok(true);
                    }
                }
            }
            if self.passes(octet, &marks.line_end)? {
                self.line_ended = true;
                return Ok(true);
            }
            self.put_char(octet)?;
        }
        Ok(true)
    }

    /// Goes to the next line; false where there is none.
    pub fn next_line(&mut self) -> SqlResult<bool> {
        self.line_cut = false;
        let marks = self.marks;
        self.seeks_start = !marks.line_start.is_empty();
        if self.line_ended || self.at_end {
            self.line_ended = false;
            return Ok(!self.at_end);
        }
        if marks.line_end.is_empty() {
            return Ok(true);
        }
        loop {
            let rest = &self.buffer[self.at..];
            let run = rest.iter().position(|octet| marks.rest[usize::from(*octet)]).unwrap_or(rest.len());
            self.line_cut |= run > 0;
            self.at += run;
            let Some(octet) = self.next()? else { break };
            if Some(octet) == marks.escape {
                self.line_cut = true;
                if self.next()?.is_none() {
                    break;
                }
                continue;
            }
            if self.passes(octet, &marks.line_end)? {
                return Ok(true);
            }
            self.line_cut = true;
        }
        self.at_end = true;
        Ok(false)
    }
}

enum Escaped {
    /// It was put into the field.
    Put,
    /// The file ends behind the escape.
    AtEnd,
    /// The octet does not escape here.
    Nothing,
}

enum Enclosing {
    /// The field ends here.
    Ends,
    /// It was one of two.
    Doubled,
    /// It is a part of the field.
    Content,
}
