//! Rows kept in the order in which they came: in memory up to a bound, then in a file.

use keel_base::SqlResult;

use super::spill::{BUFFER_BYTES, Reader, Run, append_row};
use crate::memory::{Allowance, Room, Work};

/// Rows being kept, as records of a run without keys.
pub struct RowList {
    /// What is not in the file.
    bytes: Vec<u8>,
    file: Option<Run>,
    memory: Allowance,
}

/// Kept rows being read, as often as wanted.
pub struct RowCursor {
    reader: Reader,
    _memory: Allowance,
}

impl RowList {
    /// A list without rows for so much memory.
    pub fn new(room: impl Into<Room>, work: impl Into<Work>) -> RowList {
        RowList::within(Allowance::new(room, work))
    }

    /// A list without rows within an allowance.
    pub fn within(memory: Allowance) -> RowList {
        RowList { bytes: Vec::new(), file: None, memory }
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.file.is_none()
    }

    /// Whether some are in a file.
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a row that `fill` appends. Waits.
    pub fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> SqlResult<()> {
        self.push_now(fill);
        self.settle()
    }

    /// The same without waiting: the row stays in memory until [`RowList::settle`], which is to follow.
    pub fn push_now(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        append_row(&mut self.bytes, fill);
    }

    /// Writes to a file what memory should not hold. Waits.
    pub fn settle(&mut self) -> SqlResult<()> {
        if self.memory.is_for_files() {
            self.memory.check_file(self.file.as_ref().map_or(0, Run::len) + self.bytes.len() as u64)?;
        }
        let fits = match &self.file {
            Some(_) => self.bytes.len() < BUFFER_BYTES && self.memory.allows(self.bytes.len()),
            None => self.memory.allows(self.bytes.capacity()),
        };
        if fits {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                self.memory.check_session(self.bytes.capacity())?;
                self.file.insert(Run::create(self.memory.host())?)
            }
        };
        self.memory.check_file(file.len() + self.bytes.len() as u64)?;
        file.append(&mut self.bytes)?;
        if self.bytes.capacity() > BUFFER_BYTES * 2 {
            self.bytes = Vec::new();
            self.memory.shrink();
        }
        Ok(())
    }

    /// Ends the keeping; reads from the first row. Waits.
    pub fn finish(mut self) -> SqlResult<RowCursor> {
        let reader = match self.file {
            Some(mut file) => {
                file.append(&mut self.bytes)?;
                Reader::of_run(file, BUFFER_BYTES)
            }
            None => Reader::of_memory(self.bytes),
        };
        Ok(RowCursor { reader, _memory: self.memory })
    }
}

impl RowCursor {
    /// The next row. Waits.
    pub fn next_row(&mut self) -> SqlResult<Option<&[u8]>> {
        if self.reader.advance()? { Ok(Some(self.reader.payload())) } else { Ok(None) }
    }

    /// Starts again.
    pub fn restart(&mut self) {
        self.reader.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;
    use keel_storage::runtime::sim;

    #[test]
    fn files_side_by_side_take_no_more_than_one_operator() {
        const PARTS: usize = 16;
        sim::run(sim::Options::new(7), || {
            let whole = Allowance::new(1 << 30, host());
            let list = |_| RowList::within(whole.of_file(PARTS));
            let mut lists: Vec<RowList> = (0..PARTS).map(list).collect();
            for number in 0..2000_u32 {
                for list in &mut lists {
                    list.push(|out| out.extend_from_slice(&number.to_le_bytes().repeat(25))).unwrap();
                }
                let held: usize = lists.iter().map(|list| list.bytes.len()).sum();
                assert!(held <= 64 << 10, "{held} octets after {number} rows");
            }
            for list in lists {
                assert!(list.is_on_disk());
                let mut rows = list.finish().unwrap();
                for number in 0..2000_u32 {
                    assert_eq!(rows.next_row().unwrap().unwrap(), number.to_le_bytes().repeat(25));
                }
                assert_eq!(rows.next_row().unwrap(), None);
            }
        })
        .done();
    }
}
