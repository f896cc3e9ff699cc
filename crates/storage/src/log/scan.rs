//! Reads the log at recovery: every whole group from the checkpoint on, until the chain of checksums breaks.
//!
//! Groups stay where the device put them. A block of the log is read behind a [`LEAD`], which takes the part of a group that the
//! block before ends with, and then the whole is handed on.

use std::sync::Arc;

use keel_runtime::fiber;
use keel_runtime::fs::{AlignedBuf, HUGE_PAGE};
use keel_runtime::sync::{Receiver, Sender, channel};

use super::record::{GROUP_HEAD, check_group, group_len};
use super::segments::{BLOCK, Segments};
use crate::core::Core;
use crate::fault::StoreResult;

/// Bytes before a block, whole blocks of the device. A longer part of a group costs a copy of the block.
const LEAD: usize = 64 << 10;
const _: () = assert!(LEAD.is_multiple_of(BLOCK));
/// Blocks that wait for the scan.
const AHEAD_COUNT: usize = 1;

/// Memory for a block and what is left of the one before.
fn memory_for(block: usize) -> AlignedBuf {
    let len = LEAD + block;
    // Whoever applies what a block says comes here and there in it.
    if len >= HUGE_PAGE { AlignedBuf::in_huge_pages(len) } else { AlignedBuf::new(len) }
}

/// Where the bytes of the log come from.
enum Source<'s> {
    Files(&'s Segments),
    Ahead(Ahead),
}

/// Memory with a block behind its lead, and how long the block is.
type Block = (AlignedBuf, usize);

/// Blocks that a service reads ahead.
pub struct Ahead {
    blocks: Receiver<StoreResult<Block>>,
    /// Takes memory back.
    empty: Sender<AlignedBuf>,
    /// Bytes of a block.
    bytes: usize,
}

/// Starts reading the log from the block of the device at `lsn` on, as many bytes at a time, until nobody wants more.
pub fn read_ahead(core: &Arc<Core>, lsn: u64, bytes: usize) -> Ahead {
    let (full, blocks) = channel(AHEAD_COUNT);
    let (empty, again) = channel(AHEAD_COUNT + 1);
    let core = core.clone();
    fiber::spawn_service("redo reader", move || {
        let mut at = device_block(lsn);
        loop {
            let memory = again.try_recv().unwrap_or_else(|| memory_for(bytes));
            let block = read_block(&core.log.segments, at, memory);
            let got = block.as_ref().map_or(0, |(_, got)| *got);
            at += got as u64;
            if full.send(block).is_err() || got == 0 {
                return;
            }
        }
    });
    Ahead { blocks, empty, bytes }
}

fn device_block(lsn: u64) -> u64 {
    lsn / BLOCK as u64 * BLOCK as u64
}

/// Reads a block behind the lead; nothing at the end of the files.
fn read_block(segments: &Segments, at: u64, mut memory: AlignedBuf) -> StoreResult<Block> {
    // A file that was cut short within a block of the device is the last.
    let ended = !at.is_multiple_of(BLOCK as u64);
    let got = if ended { 0 } else { segments.read(at, &mut memory[LEAD..])? };
    Ok((memory, got))
}

/// A reader of groups.
pub struct Scan<'s> {
    source: Source<'s>,
    /// Bytes that are read together.
    block: usize,
    /// What was read last; its groups from `at` on were not given yet, and it ends at `end`.
    memory: AlignedBuf,
    at: usize,
    end: usize,
    /// What is left of the memory that was handed out last, while no block has come since: no whole group.
    rest: Vec<u8>,
    /// Stream position of the next group.
    position: u64,
    /// Stream position up to which blocks were read.
    loaded: u64,
    last_crc: Option<u32>,
    last_start: u64,
}

/// Groups, one behind the other.
pub struct Batch {
    memory: AlignedBuf,
    /// Where the first group begins in the memory.
    from: usize,
    /// Stream position of the first byte.
    start: u64,
    /// Where each group begins behind the first byte, and where the last ends.
    bounds: Vec<usize>,
}

impl Batch {
    /// Number of groups.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Where the first group begins in the stream.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The memory of the groups, for [`Scan::give_back`].
    pub fn into_memory(self) -> AlignedBuf {
        self.memory
    }

    /// All groups.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.from..][..self.bounds[self.len()]]
    }

    /// Start in the stream and bytes of a group.
    pub fn group(&self, index: usize) -> (u64, &[u8]) {
        let (from, to) = (self.bounds[index], self.bounds[index + 1]);
        (self.start + from as u64, &self.memory[self.from + from..self.from + to])
    }
}

impl<'s> Scan<'s> {
    /// Starts at `lsn`, a group's first byte (or the end of the stream); reads blocks of so many bytes.
    pub fn new(segments: &'s Segments, lsn: u64, block: usize) -> Scan<'s> {
        Self::from(Source::Files(segments), lsn, block.next_multiple_of(BLOCK))
    }

    /// The same from blocks that [`read_ahead`] reads from there on.
    pub fn ahead(lsn: u64, ahead: Ahead) -> Scan<'static> {
        let block = ahead.bytes;
        Scan::from(Source::Ahead(ahead), lsn, block)
    }

    fn from(source: Source<'s>, lsn: u64, block: usize) -> Scan<'s> {
        Scan {
            source,
            block,
            memory: AlignedBuf::new(0),
            at: 0,
            end: 0,
            rest: Vec::new(),
            position: lsn,
            loaded: device_block(lsn),
            last_crc: None,
            last_start: lsn,
        }
    }

    /// Position of the next group: the end of the stream once [`Scan::batch`] gave nothing.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Checksum of the last group.
    pub fn last_crc(&self) -> u32 {
        self.last_crc.unwrap_or(0)
    }

    /// Start of the last group.
    pub fn last_start(&self) -> u64 {
        self.last_start
    }

    /// Takes memory of a batch for a block to come. It would be given back to the system and faulted in again.
    pub fn give_back(&self, memory: AlignedBuf) {
        if let Source::Ahead(ahead) = &self.source
            && memory.len() == LEAD + self.block
        {
            // Where there is enough, it is freed.
            let _ = ahead.empty.try_send(memory);
        }
    }

    fn next_block(&mut self) -> StoreResult<Option<Block>> {
        let (memory, got) = match &self.source {
            Source::Files(segments) => read_block(segments, self.loaded, memory_for(self.block))?,
            Source::Ahead(ahead) => match ahead.blocks.recv() {
                Some(block) => block?,
                None => return Ok(None),
            },
        };
        self.loaded += got as u64;
        Ok((got > 0).then_some((memory, got)))
    }

    /// Puts the next block behind what is left; false at the end of the files.
    fn load(&mut self) -> StoreResult<bool> {
        // The first block may begin before the first group.
        let skipped = (self.position.saturating_sub(self.loaded)) as usize;
        let Some((mut memory, got)) = self.next_block()? else { return Ok(false) };
        self.rest.extend_from_slice(&self.memory[self.at..self.end]);
        let rest = self.rest.len();
        if rest <= LEAD {
            memory[LEAD - rest..LEAD].copy_from_slice(&self.rest);
            self.at = LEAD - rest;
        } else {
            let mut longer = AlignedBuf::new(rest + got);
            longer[..rest].copy_from_slice(&self.rest);
            longer[rest..].copy_from_slice(&memory[LEAD..][..got]);
            self.give_back(std::mem::replace(&mut memory, longer));
            self.at = 0;
        }
        self.end = self.at + rest + got;
        self.at = (self.at + skipped).min(self.end);
        self.rest.clear();
        let before = std::mem::replace(&mut self.memory, memory);
        self.give_back(before);
        Ok(true)
    }

    /// What was read and not given yet.
    fn here(&self) -> &[u8] {
        if self.rest.is_empty() { &self.memory[self.at..self.end] } else { &self.rest }
    }

    /// Whether the next group may be a whole one, and not all of it is here.
    fn is_cut(&self) -> bool {
        let here = self.here();
        here.len() < GROUP_HEAD || group_len(here).is_some_and(|len| here.len() < len)
    }

    /// Goes past one group; false where no whole one is here that follows the one before.
    fn pass(&mut self) -> bool {
        if self.is_cut() {
            return false;
        }
        let here = self.here();
        let Some(len) = group_len(here) else { return false };
        let Some((crc, before)) = check_group(&here[..len], self.position) else { return false };
        if self.last_crc.is_some_and(|last| last != before) {
            return false;
        }
        self.last_crc = Some(crc);
        self.last_start = self.position;
        self.position += len as u64;
        self.at += len;
        true
    }

    /// The next groups, about a block of them; none at the end of the stream.
    pub fn batch(&mut self) -> StoreResult<Batch> {
        loop {
            let (from, start) = (self.at, self.position);
            let mut bounds = vec![0];
            while self.pass() {
                bounds.push(self.at - from);
            }
            if bounds.len() > 1 || !self.is_cut() || !self.load()? {
                self.rest.extend_from_slice(&self.memory[self.at..self.end]);
                (self.at, self.end) = (0, 0);
                let memory = std::mem::replace(&mut self.memory, AlignedBuf::new(0));
                return Ok(Batch { memory, from, start, bounds });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use keel_runtime::fs::{self, Sync};
    use keel_runtime::sim::{self, Op, Options};

    use super::*;
    use crate::log::record::{Group, records_crc, seal_group};

    const FILE: u64 = 1 << 20;
    const BYTES: usize = 4 << 20;

    /// Groups of these sizes from position 0 on, chained; their bytes as they stand in the log.
    fn groups(payloads: &[usize]) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut before = 0;
        for (number, len) in payloads.iter().enumerate() {
            let mut group = Group::default();
            group.reset();
            group.user(number as u8, &vec![number as u8; *len]);
            let bytes = group.bytes_mut();
            let crc = records_crc(bytes);
            before = seal_group(bytes, crc, stream.len() as u64, before);
            stream.extend_from_slice(bytes);
        }
        stream
    }

    /// Runs `f` with a log of these bytes, and zeros behind them.
    fn with_log(stream: &[u8], f: impl FnOnce(&Segments) + Send) {
        sim::run(Options::new(1), || {
            fs::create_dir_all(Path::new("/data")).unwrap();
            let segments = Segments::open(Path::new("/data"), FILE, false).unwrap();
            segments.provide(0, BYTES as u64 / FILE).unwrap();
            for (number, piece) in stream.chunks(FILE as usize).enumerate() {
                segments.file(number as u64 * FILE).unwrap().write_at(piece, 0, Sync::None).unwrap();
            }
            f(&segments);
        })
        .done();
    }

    /// All groups of a scan from `lsn` on, in blocks of so many bytes, and how it ended.
    fn read(segments: &Segments, lsn: u64, block: usize) -> (Vec<u8>, StoreResult<u64>) {
        let mut scan = Scan::new(segments, lsn, block);
        let mut bytes = Vec::new();
        loop {
            match scan.batch() {
                Err(e) => return (bytes, Err(e)),
                Ok(batch) if batch.len() == 0 => return (bytes, Ok(scan.position())),
                Ok(batch) => {
                    assert_eq!(batch.start(), lsn + bytes.len() as u64);
                    (0..batch.len()).for_each(|index| bytes.extend_from_slice(batch.group(index).1));
                    assert!(bytes.ends_with(batch.bytes()));
                }
            }
        }
    }

    #[test]
    fn groups_are_whole_wherever_blocks_end() {
        // Some lie across blocks, some are longer than a lead, one is longer than most blocks.
        let mut payloads = vec![10, 5000, 2 * LEAD, 0, 300_000, 70, LEAD, 1, 900_000];
        payloads.extend((0..3000).map(|n| n * 37 % 400));
        let stream = groups(&payloads);
        assert!(stream.len() < BYTES);
        with_log(&stream, |segments| {
            let second = groups(&payloads[..1]).len();
            for block in [BLOCK, 3 * BLOCK, LEAD, 100_000, 1 << 20, 3 << 20, 2 * BYTES] {
                for start in [0, second] {
                    let (bytes, end) = read(segments, start as u64, block);
                    assert!(
                        bytes == stream[start..],
                        "blocks of {block}, from {start}: {} bytes",
                        bytes.len()
                    );
                    assert_eq!(end.unwrap(), stream.len() as u64);
                }
            }
        });
    }

    #[test]
    fn groups_before_an_unreadable_file_are_given_then_the_error() {
        let stream = groups(&[100_000; 35]);
        let group = stream.len() / 35;
        with_log(&stream, |segments| {
            // What stands behind the end of the log is not needed.
            for block in [100_000, 1 << 20, 2 << 20, 4 << 20] {
                sim::fail_times(Op::Read, "redo.4", 5, 0, u64::MAX);
                let (bytes, end) = read(segments, 0, block);
                assert_eq!((bytes.len(), end.unwrap()), (stream.len(), stream.len() as u64));
                sim::clear_faults();
            }
            for (unreadable, block) in [(0, 1 << 20), (1, 1 << 20), (1, 2 << 20), (2, 4 << 20), (3, 4 << 20)]
            {
                sim::fail_times(Op::Read, &format!("redo.{unreadable}"), 5, 0, u64::MAX);
                let (bytes, end) = read(segments, 0, block);
                let whole = unreadable * FILE as usize / group * group;
                assert_eq!(bytes.len(), whole, "file {unreadable}, blocks of {block}");
                assert!(end.is_err());
                sim::clear_faults();
            }
        });
    }
}
