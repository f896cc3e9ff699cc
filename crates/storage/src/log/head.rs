//! `redo.head`: where recovery starts. Two slots of one block each, written in turn, each with a checksum; the newer valid
//! one counts, so that a torn write loses nothing but its own step.

use std::path::Path;

use keel_base::checksum::crc32c;
use keel_runtime::fs::{self, AlignedBuf, File, OpenOptions, Sync};
use keel_runtime::wait::WaitEvent;

use super::segments::BLOCK;
use crate::fault::{StoreError, StoreResult};

const MAGIC: &[u8; 8] = b"KeelRedo";
/// Version of the log's format.
pub const FORMAT: u32 = 1;
/// Name of the file.
pub const NAME: &str = "redo.head";
const USED: usize = 40;

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts the writes of the file.
    pub sequence: u64,
    /// Recovery starts here: a group's first byte.
    pub lsn: u64,
    /// Bytes of a segment file, fixed at creation.
    pub segment_bytes: u64,
}

/// A slot as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Never written.
    Empty,
    /// Whole.
    Valid(Checkpoint),
    /// Neither.
    Broken,
}

/// Both slots, read and nothing else.
pub fn read_slots(dir: &Path) -> StoreResult<[SlotState; 2]> {
    let file = File::open(&dir.join(NAME), &OpenOptions::reading()).map_err(fail("open"))?;
    let mut both = AlignedBuf::new(2 * BLOCK);
    let is_whole = file.read_some_at(&mut both, 0).map_err(fail("read"))? == both.len();
    let state = |slot: &[u8]| -> StoreResult<SlotState> {
        Ok(match decode(slot)? {
            Some(checkpoint) => SlotState::Valid(checkpoint),
            None if is_whole && slot.iter().all(|b| *b == 0) => SlotState::Empty,
            None => SlotState::Broken,
        })
    };
    Ok([state(&both[..BLOCK])?, state(&both[BLOCK..])?])
}

/// The open file.
pub struct Head {
    file: File,
    last: Checkpoint,
}

fn fail(op: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |e| StoreError::io(NAME, 0, op, e)
}

fn encode(c: &Checkpoint, out: &mut [u8]) {
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    out[16..24].copy_from_slice(&c.sequence.to_le_bytes());
    out[24..32].copy_from_slice(&c.lsn.to_le_bytes());
    out[32..40].copy_from_slice(&c.segment_bytes.to_le_bytes());
    let crc = crc32c(&out[16..USED]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn decode(slot: &[u8]) -> StoreResult<Option<Checkpoint>> {
    let word = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
    if slot[..8] != *MAGIC || word(8) >> 32 != u64::from(crc32c(&slot[16..USED])) {
        return Ok(None);
    }
    let format = word(8) as u32;
    if format != FORMAT {
        return Err(StoreError::Unusable(format!("{NAME} has format {format}, this program reads {FORMAT}")));
    }
    Ok(Some(Checkpoint { sequence: word(16), lsn: word(24), segment_bytes: word(32) }))
}

impl Head {
    /// Whether `dir` holds a store.
    pub fn exists(dir: &Path) -> StoreResult<bool> {
        fs::try_exists(&dir.join(NAME)).map_err(fail("find"))
    }

    /// Writes the first checkpoint, durably.
    pub fn create(dir: &Path, lsn: u64, segment_bytes: u64) -> StoreResult<()> {
        let mut both = vec![0; 2 * BLOCK];
        encode(&Checkpoint { sequence: 1, lsn, segment_bytes }, &mut both[..BLOCK]);
        fs::write_whole(&dir.join(NAME), &both).map_err(fail("create"))
    }

    /// Opens the file and reads the newer valid slot.
    pub fn open(dir: &Path) -> StoreResult<Head> {
        let options = OpenOptions::writing().with_direct();
        let file =
            File::open(&dir.join(NAME), &options).map_err(fail("open"))?.with_event(WaitEvent::Checkpoint);
        let mut both = AlignedBuf::new(2 * BLOCK);
        // A file that was cut short has lost a slot at most, as a torn write of it has.
        file.read_some_at(&mut both, 0).map_err(fail("read"))?;
        let slots = [decode(&both[..BLOCK])?, decode(&both[BLOCK..])?];
        let last = slots.into_iter().flatten().max_by_key(|c| c.sequence).ok_or_else(|| {
            StoreError::Corrupt { file: NAME.into(), page: 0, what: "no valid checkpoint".into() }
        })?;
        Ok(Head { file, last })
    }

    /// The newest checkpoint.
    pub fn last(&self) -> Checkpoint {
        self.last
    }

    /// Makes `lsn` the checkpoint, durably.
    pub fn advance(&mut self, lsn: u64) -> StoreResult<()> {
        let next = Checkpoint { sequence: self.last.sequence + 1, lsn, ..self.last };
        let mut block = AlignedBuf::new(BLOCK);
        encode(&next, &mut block);
        let slot = (next.sequence + 1) % 2 * BLOCK as u64;
        self.file.write_at(&block, slot, Sync::Data).map_err(fail("write"))?;
        self.last = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_read_back_and_a_torn_one_is_ignored() {
        let c = Checkpoint { sequence: 7, lsn: 1 << 40, segment_bytes: 1 << 26 };
        let mut block = vec![0; BLOCK];
        encode(&c, &mut block);
        assert_eq!(decode(&block).expect("known format"), Some(c));
        block[25] ^= 1;
        assert_eq!(decode(&block).expect("known format"), None);
    }

    #[test]
    fn another_format_is_refused() {
        let mut block = vec![0; BLOCK];
        encode(&Checkpoint { sequence: 1, lsn: 1, segment_bytes: 1 }, &mut block);
        block[8] = 9;
        assert!(matches!(decode(&block), Err(StoreError::Unusable(_))));
    }
}
