//! The rows of one partition, by number: in memory up to a bound, then in a file.
//!
//! Rows stand in blocks. The first blocks stay in memory, those that it does not hold go to a file as they fill up; of
//! these the ones read last are kept, so that each of a few places that move forward finds its block there.

use keel_base::SqlResult;

use crate::memory::{Allowance, Work};
use crate::temp_file::TempFile;

/// Octets after which a block ends.
const BLOCK_BYTES: usize = 32 << 10;
/// Blocks of the file that are kept at least and at most.
const KEPT_BLOCKS: std::ops::RangeInclusive<usize> = 4..=32;
/// Bytes of these blocks, but that one is kept however long its rows are.
const KEPT_BYTES_MAX: usize = 2 << 20;
/// Bytes of a row's length before it.
const LENGTH_BYTES: usize = 4;

/// Rows, one behind the other: `[length u32][row]`.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// Where each row begins, without its length.
    starts: Vec<u32>,
}

impl Block {
    fn push(&mut self, row: &[&[u8]]) {
        let length: usize = row.iter().map(|part| part.len()).sum();
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
        self.starts.push(self.bytes.len() as u32);
        row.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    fn row(&self, index: usize) -> &[u8] {
        let start = self.starts[index] as usize;
        let head = &self.bytes[start - LENGTH_BYTES..start];
        let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
        &self.bytes[start..start + length]
    }

    /// Finds the rows of bytes that were read.
    fn find_rows(&mut self) {
        self.starts.clear();
        let mut at = 0;
        while at < self.bytes.len() {
            let head = &self.bytes[at..at + LENGTH_BYTES];
            let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
            at += LENGTH_BYTES;
            self.starts.push(at as u32);
            at += length;
        }
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * size_of::<u32>()
    }
}

enum RowPlace {
    Memory(Block),
    File { offset: u64, length: usize },
}

struct Placed {
    first: u64,
    place: RowPlace,
}

/// A block of the file that was read.
struct ReadBlock {
    index: usize,
    used: u64,
    block: Block,
}

/// The rows of a partition.
pub(super) struct Partition {
    blocks: Vec<Placed>,
    last: Block,
    rows: u64,
    memory: Allowance,
    held_bytes: usize,
    file: Option<TempFile>,
    kept: Vec<ReadBlock>,
    kept_max: usize,
    reads: u64,
}

impl Partition {
    /// No rows, and `bytes_max` of memory for them; `places` are read in turn.
    pub fn new(places: usize, bytes_max: u64, work: impl Into<Work>) -> Partition {
        Partition {
            blocks: Vec::new(),
            last: Block::default(),
            rows: 0,
            memory: Allowance::new(bytes_max, work),
            held_bytes: 0,
            file: None,
            kept: Vec::new(),
            kept_max: places.clamp(*KEPT_BLOCKS.start(), *KEPT_BLOCKS.end()),
            reads: 0,
        }
    }

    /// Bytes of rows in the file.
    fn file_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, TempFile::byte_count)
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.kept.clear();
        self.last.bytes.clear();
        self.last.starts.clear();
        (self.rows, self.held_bytes) = (0, 0);
        self.file.iter_mut().for_each(TempFile::clear);
    }

    /// How many rows there are.
    pub fn len(&self) -> u64 {
        self.rows
    }

    /// Adds a row made of parts. Waits.
    pub fn push(&mut self, row: &[&[u8]]) -> SqlResult<()> {
        self.last.push(row);
        self.rows += 1;
        if self.last.bytes.len() < BLOCK_BYTES {
            return Ok(());
        }
        let block = std::mem::take(&mut self.last);
        let first = self.rows - block.starts.len() as u64;
        let held_bytes = self.held_bytes + block.held_bytes();
        let place = if self.file_bytes() == 0 && self.memory.allows(held_bytes) {
            self.held_bytes = held_bytes;
            RowPlace::Memory(block)
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(TempFile::create(self.memory.host())?),
            };
            let (offset, length) = (file.byte_count(), block.bytes.len());
            file.append(&block.bytes)?;
            RowPlace::File { offset, length }
        };
        self.blocks.push(Placed { first, place });
        Ok(())
    }

    /// A row by its number, which is less than their count. Waits.
    pub fn row(&mut self, number: u64) -> SqlResult<&[u8]> {
        let index = self.blocks.partition_point(|block| block.first <= number);
        let last_first = self.rows - self.last.starts.len() as u64;
        if number >= last_first {
            return Ok(self.last.row((number - last_first) as usize));
        }
        let index = index - 1;
        let within = (number - self.blocks[index].first) as usize;
        match self.blocks[index].place {
            RowPlace::Memory(_) => {}
            RowPlace::File { offset, length } => {
                let kept = self.keep(index, offset, length)?;
                return Ok(self.kept[kept].block.row(within));
            }
        }
        match &self.blocks[index].place {
            RowPlace::Memory(block) => Ok(block.row(within)),
            RowPlace::File { .. } => unreachable!("looked at above"),
        }
    }

    /// The place among those kept of a block of the file, which is read if it is not there.
    fn keep(&mut self, index: usize, offset: u64, length: usize) -> SqlResult<usize> {
        self.reads += 1;
        if let Some(place) = self.kept.iter().position(|kept| kept.index == index) {
            self.kept[place].used = self.reads;
            return Ok(place);
        }
        let oldest = |kept: &[ReadBlock]| (0..kept.len()).min_by_key(|place| kept[*place].used);
        let mut bytes: usize = self.kept.iter().map(|kept| kept.block.held_bytes()).sum();
        while bytes + length > KEPT_BYTES_MAX
            && let Some(place) = oldest(&self.kept)
        {
            bytes -= self.kept.swap_remove(place).block.held_bytes();
        }
        let place = if self.kept.len() < self.kept_max {
            self.kept.push(ReadBlock { index, used: 0, block: Block::default() });
            self.kept.len() - 1
        } else {
            oldest(&self.kept).expect("some are kept")
        };
        let kept = &mut self.kept[place];
        kept.index = usize::MAX;
        kept.block.bytes.resize(length, 0);
        let file = self.file.as_ref().expect("a block was written to it");
        file.read(&mut kept.block.bytes, offset)?;
        kept.block.find_rows();
        (kept.index, kept.used) = (index, self.reads);
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use keel_context::Place;
    use keel_runtime::sim::{self, Options};

    use super::*;
    use crate::testing::host;

    fn row(number: u64) -> Vec<u8> {
        let length = if number % 97 == 5 { 70_000 } else { number as usize % 120 };
        vec![(number % 251) as u8; length]
    }

    #[test]
    fn rows_are_found_by_number_in_memory_and_in_the_file() {
        sim::run(Options::new(1), || {
            let mut partition = Partition::new(1, 1, host() as Arc<dyn Place>);
            for count in [3, 8000, 4] {
                partition.clear();
                for number in 0..count {
                    let row = row(number);
                    let (a, b) = row.split_at(row.len() / 2);
                    partition.push(&[a, b]).expect("takes");
                }
                assert_eq!(partition.len(), count);
                assert_eq!(partition.file_bytes() > 0, count == 8000);
                for number in (0..count).chain((0..count).rev().step_by(13)) {
                    assert_eq!(partition.row(number).expect("reads"), row(number), "{number} of {count}");
                }
            }
        })
        .done();
    }
}
