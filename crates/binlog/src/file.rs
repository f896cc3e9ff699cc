//! Streaming reader and writer of log files.
//!
//! A file begins with four magic bytes and a Format_description event. While a server writes the file, that
//! event has the flag [`flags::IN_USE`]. To close the file, write [`CLOSED_MARK`] at [`IN_USE_OFFSET`].

use crate::error::{Error, Problem, Result};
use crate::event::Event;
use crate::format::{Checksum, Format, FormatDescription};
use crate::header::{self, End, Frame, HEADER_BYTES, Header, flags, kind};

/// The first bytes of a log file.
pub const MAGIC: [u8; 4] = *b"\xfebin";

/// Offset of the first event's flags in the file.
pub const IN_USE_OFFSET: u64 = MAGIC.len() as u64 + HEADER_BYTES as u64 - 2;

/// The flags of the first event of a closed file.
pub const CLOSED_MARK: [u8; 2] = [0, 0];

/// Reads the events of a file. The caller pushes bytes and takes frames. The reader buffers only bytes that
/// were pushed and not yet read, and refuses events that are longer than its limit.
#[derive(Debug)]
pub struct FileReader {
    buffer: Vec<u8>,
    /// Number of bytes in the buffer that are already read.
    used: usize,
    /// Position of the next event.
    position: u64,
    /// The format given by the last Format_description event.
    format: Option<Format>,
    in_use: bool,
    encrypted: bool,
    event_max: u32,
}

/// The unread bytes move to the front of the buffer after so many read bytes.
const MOVE_MIN: usize = 64 * 1024;

impl FileReader {
    /// A reader at the start of a file. `event_max` limits the length of an event.
    pub fn new(event_max: u32) -> FileReader {
        FileReader {
            buffer: Vec::new(),
            used: 0,
            position: 0,
            format: None,
            in_use: false,
            encrypted: false,
            event_max,
        }
    }

    /// A reader at the start of an event in the middle of a file. `format` is that of the file's first event.
    pub fn resume(event_max: u32, format: Format, position: u64) -> FileReader {
        FileReader { position, format: Some(format), ..FileReader::new(event_max) }
    }

    /// Adds the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used == self.buffer.len() || self.used >= MOVE_MIN {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Position of the next event in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The format given by the last Format_description event.
    pub fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// Whether the file is not closed: a server is writing it, or the server crashed.
    pub fn in_use(&self) -> bool {
        self.in_use
    }

    /// The next event with its checksum verified. `None` if more bytes are needed. Offsets of errors are
    /// those of the file.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>> {
        if self.position == 0 && !self.take_magic()? {
            return Ok(None);
        }
        let bytes = &self.buffer[self.used..];
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        if self.encrypted {
            return Err(Error { offset: self.position, problem: Problem::Encrypted });
        }
        let position = self.position;
        let head = Header::decode(bytes).map_err(|error| error.in_file(position))?;
        if head.length > self.event_max {
            let problem = Problem::TooLong { length: head.length.into(), max: self.event_max.into() };
            return Err(Error { offset: position + 9, problem });
        }
        let length = head.length as usize;
        if length < HEADER_BYTES {
            return Err(Error { offset: position + 9, problem: Problem::Invalid("event length") });
        }
        if bytes.len() < length {
            return Ok(None);
        }
        let start = self.used;
        self.learn(head.kind, start, length).map_err(|error| error.in_file(position))?;
        let Some(format) = &self.format else {
            let problem = Problem::Invalid("start of a log: no Format_description event");
            return Err(Error { offset: position, problem });
        };
        let frame = Frame::decode(&self.buffer[start..start + length], format);
        let frame = frame.map_err(|error| error.in_file(position))?;
        self.used += length;
        self.position += length as u64;
        self.encrypted = head.kind == kind::START_ENCRYPTION;
        Ok(Some(frame))
    }

    /// Fails if the file ends within an event.
    pub fn finish(&self) -> Result<()> {
        match self.buffer.len() - self.used {
            0 if self.position > 0 => Ok(()),
            left => {
                let head = Header::decode(&self.buffer[self.used..]);
                let needed = match head {
                    _ if self.position == 0 => MAGIC.len() as u64,
                    Ok(head) => head.length.into(),
                    Err(_) => HEADER_BYTES as u64,
                };
                Err(Error {
                    offset: self.position,
                    problem: Problem::Truncated { needed, left: left as u64 },
                })
            }
        }
    }

    fn take_magic(&mut self) -> Result<bool> {
        let Some(magic) = self.buffer[self.used..].first_chunk() else { return Ok(false) };
        if *magic != MAGIC {
            return Err(Error::invalid(0, "start of a log"));
        }
        self.used += MAGIC.len();
        self.position = MAGIC.len() as u64;
        Ok(true)
    }

    /// Takes the format of a Format_description event.
    fn learn(&mut self, event_kind: u8, start: usize, length: usize) -> Result<()> {
        if event_kind != kind::FORMAT_DESCRIPTION {
            return Ok(());
        }
        let any = Format::current(Checksum::None);
        let frame = Frame::decode(&self.buffer[start..start + length], &any)?;
        if let Event::FormatDescription(description) = frame.event(&any)? {
            self.in_use = frame.header.flags & flags::IN_USE != 0;
            self.format = Some(Format::of(&description)?);
        }
        Ok(())
    }
}

/// Appends events to a file and computes their positions and checksums.
#[derive(Debug, Clone)]
pub struct FileWriter {
    position: u64,
    checksum: Checksum,
}

impl FileWriter {
    /// Begins a file: appends the magic bytes and the first event, with the in-use flag.
    pub fn begin(
        out: &mut Vec<u8>,
        timestamp: u32,
        server_id: u32,
        description: &FormatDescription<'_>,
    ) -> Result<FileWriter> {
        let checksum = Format::of(description)?.checksum();
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        let mut writer = FileWriter { position: MAGIC.len() as u64, checksum };
        let head = Header { timestamp, server_id, flags: flags::IN_USE, ..Header::default() };
        let written = writer.event(out, head, &Event::FormatDescription(*description));
        if written.is_err() {
            out.truncate(start);
        }
        written.map(|_| writer)
    }

    /// A writer at the end of an existing file.
    pub fn resume(position: u64, checksum: Checksum) -> FileWriter {
        FileWriter { position, checksum }
    }

    /// Position of the next event.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends an event. Timestamp, server id and flags come from `head`. Returns the event's end position.
    pub fn event(&mut self, out: &mut Vec<u8>, head: Header, event: &Event<'_>) -> Result<u64> {
        let length = header::append_ending(out, head, event, self.checksum, End::From(self.position))?;
        self.position += u64::from(length);
        Ok(self.position)
    }

    /// Appends an encoded event, header and body without checksum. This sets its length, position and
    /// checksum. Returns the event's end position.
    pub fn finished(&mut self, out: &mut Vec<u8>, event: &[u8]) -> Result<u64> {
        let length = header::append_finished(out, event, self.checksum, End::From(self.position))?;
        self.position += u64::from(length);
        Ok(self.position)
    }
}
