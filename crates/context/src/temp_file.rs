//! Temporary files: what sorts, groups, joins, windows and cursors keep beyond their memory.
//!
//! They are pieces of a few files of the operating system without names, which all statements share. So there may be any
//! number of them, whatever a process may have open, and making one touches no folder.
//!
//! 1. A piece belongs to one temporary file from its first write on until that is dropped. Then the file system gets its
//!    blocks back, and after that others may have it.
//! 2. The lowest free piece is taken first; the system's files have holes where nothing is.
//! 3. What is read is what was written: the checksums of its blocks stay in memory, 4 octets for 4 KiB. A device that returns
//!    anything else ends the statement; an index or a table made of it would stay.
//! 4. Nothing of this survives the process, nor need it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_base::checksum::{crc32c, crc32c_append};
use keel_base::{SqlError, SqlResult, errors};
use keel_storage::runtime::fs::{self, File, OpenOptions, Sync};
use keel_storage::runtime::rand;
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::place::Place;

/// Octets of a piece: several times what is written at once.
const PIECE: u64 = 256 << 10;
/// Octets of a temporary file that have a checksum; a part of a piece.
const BLOCK: u64 = 4 << 10;
/// Files of the operating system: writes to one wait for each other.
const SPACES: usize = 4;

/// The space of all temporary files of a server.
#[derive(Default)]
pub struct TempSpace {
    spaces: Mutex<[Option<Arc<Space>>; SPACES]>,
    /// Temporary files that there have been.
    made: AtomicU64,
}

/// A file of the operating system without a name.
struct Space {
    file: File,
    /// The name it had, for messages.
    path: PathBuf,
    pieces: Mutex<Pieces>,
}

/// Which pieces are in use, a bit each.
#[derive(Default)]
struct Pieces {
    words: Vec<u64>,
    /// The words before have no free piece.
    full: usize,
}

/// A temporary file, which grows at its end; gives its space back when dropped.
pub struct TempFile {
    space: Arc<Space>,
    /// Where its pieces are.
    pieces: Vec<u32>,
    /// CRC32C of each block; of the last one, of what there is of it.
    sums: Vec<u32>,
    length: u64,
}

impl TempSpace {
    /// Temporary files that there have been.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// The system's file for the next temporary file. Waits where it is the first there.
    fn next(&self, host: &dyn Place) -> SqlResult<Arc<Space>> {
        let number = self.made.fetch_add(1, Ordering::Relaxed) as usize % SPACES;
        if let Some(space) = &self.spaces.lock()[number] {
            return Ok(space.clone());
        }
        let space = Arc::new(Space::open(&host.temporary_directory())?);
        // Another may have been faster.
        Ok(self.spaces.lock()[number].get_or_insert(space).clone())
    }
}

impl Space {
    fn open(folder: &Path) -> SqlResult<Space> {
        let path = folder.join(format!("keel-temp-{:016x}", rand::u64()));
        let open = || -> io::Result<File> {
            fs::create_dir_all(folder)?;
            let options =
                OpenOptions { create: true, truncate: true, private: true, ..OpenOptions::writing() };
            let file = File::open(&path, &options)?.with_event(WaitEvent::TempFile);
            fs::remove_file(&path)?;
            Ok(file)
        };
        match open() {
            Ok(file) => Ok(Space { file, path, pieces: Mutex::default() }),
            Err(e) => Err(error(&path, &e)),
        }
    }
}

impl Pieces {
    /// Takes the first that is free.
    fn take(&mut self) -> u32 {
        while self.words.get(self.full).is_some_and(|word| *word == u64::MAX) {
            self.full += 1;
        }
        if self.full == self.words.len() {
            self.words.push(0);
        }
        let word = &mut self.words[self.full];
        let bit = word.trailing_ones();
        *word |= 1 << bit;
        self.full as u32 * u64::BITS + bit
    }

    fn give(&mut self, piece: u32) {
        let word = (piece / u64::BITS) as usize;
        self.words[word] &= !(1 << (piece % u64::BITS));
        self.full = self.full.min(word);
    }
}

impl TempFile {
    /// A new, empty one. May wait.
    pub fn create(host: &dyn Place) -> SqlResult<TempFile> {
        let space = host.work_memory().files().next(host)?;
        Ok(TempFile { space, pieces: Vec::new(), sums: Vec::new(), length: 0 })
    }

    /// How many bytes it holds.
    pub fn byte_count(&self) -> u64 {
        self.length
    }

    /// Writes behind what was written. Waits.
    pub fn append(&mut self, mut bytes: &[u8]) -> SqlResult<()> {
        while !bytes.is_empty() {
            while self.pieces.len() as u64 <= self.length / PIECE {
                self.pieces.push(self.space.pieces.lock().take());
            }
            let (place, length) = self.place(self.length, bytes.len());
            let (part, rest) = bytes.split_at(length);
            self.space.file.write_at(part, place, Sync::None).map_err(|e| self.error(&e))?;
            self.sum(part);
            bytes = rest;
        }
        Ok(())
    }

    /// Forgets what was written; its space stays, to be written again.
    pub fn clear(&mut self) {
        self.sums.clear();
        self.length = 0;
    }

    /// Goes past octets that were written.
    fn sum(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let within = self.length % BLOCK;
            let (part, rest) = bytes.split_at(bytes.len().min((BLOCK - within) as usize));
            if within == 0 {
                self.sums.push(0);
            }
            let sum = self.sums.last_mut().expect("a block has begun");
            *sum = crc32c_append(*sum, part);
            self.length += part.len() as u64;
            bytes = rest;
        }
    }

    /// Fills a buffer from what was written. Waits.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> SqlResult<()> {
        let start = offset / BLOCK * BLOCK;
        let end = (offset + buffer.len() as u64).next_multiple_of(BLOCK).min(self.length);
        let within = (offset - start) as usize;
        if within == 0 && end == offset + buffer.len() as u64 {
            return self.read_blocks(buffer, start);
        }
        let mut whole = vec![0; (end - start) as usize];
        self.read_blocks(&mut whole, start)?;
        buffer.copy_from_slice(&whole[within..within + buffer.len()]);
        Ok(())
    }

    /// Reads whole blocks, or up to the end, and makes sure that they are as they were written.
    fn read_blocks(&self, bytes: &mut [u8], start: u64) -> SqlResult<()> {
        self.read_unchecked(bytes, start)?;
        let sums = &self.sums[(start / BLOCK) as usize..];
        match bytes.chunks(BLOCK as usize).zip(sums).all(|(block, sum)| crc32c(block) == *sum) {
            true => Ok(()),
            false => Err(errors::error_on_read(self.space.path.display(), 0, "checksum does not fit")),
        }
    }

    fn read_unchecked(&self, mut buffer: &mut [u8], mut offset: u64) -> SqlResult<()> {
        while !buffer.is_empty() {
            let (place, length) = self.place(offset, buffer.len());
            let (part, rest) = buffer.split_at_mut(length);
            self.space.file.read_at(part, place).map_err(|e| self.error(&e))?;
            buffer = rest;
            offset += length as u64;
        }
        Ok(())
    }

    /// Where an offset is in the system's file, and how much of `wanted` octets follows there.
    fn place(&self, offset: u64, wanted: usize) -> (u64, usize) {
        let within = offset % PIECE;
        let piece = self.pieces[(offset / PIECE) as usize];
        (u64::from(piece) * PIECE + within, wanted.min((PIECE - within) as usize))
    }

    fn error(&self, e: &io::Error) -> SqlError {
        error(&self.space.path, e)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.pieces.sort_unstable();
        for neighbours in self.pieces.chunk_by(|a, b| a + 1 == *b) {
            let length = neighbours.len() as u64 * PIECE;
            self.space.file.discard(u64::from(neighbours[0]) * PIECE, length);
        }
        let mut pieces = self.space.pieces.lock();
        self.pieces.iter().for_each(|piece| pieces.give(*piece));
    }
}

#[cold]
fn error(path: &Path, error: &io::Error) -> SqlError {
    if error.kind() == io::ErrorKind::StorageFull {
        return errors::disk_full(path.display(), "No space left on device");
    }
    errors::error_on_write(path.display(), error.raw_os_error().unwrap_or(0), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::host;
    use keel_storage::runtime::sim;

    #[test]
    fn the_lowest_free_piece_is_taken() {
        let mut pieces = Pieces::default();
        assert!((0..200).all(|number| pieces.take() == number));
        pieces.give(130);
        pieces.give(3);
        assert_eq!([pieces.take(), pieces.take(), pieces.take()], [3, 130, 200]);
    }

    #[test]
    fn files_side_by_side_keep_what_was_written() {
        sim::run(sim::Options::new(3), || {
            let host = host();
            let content = |file: usize, at: usize| (file * 7 + at / 1000) as u8;
            let length = PIECE as usize * 2 + 12_345;
            for round in 0..2 {
                let mut files: Vec<TempFile> =
                    (0..SPACES * 2).map(|_| TempFile::create(&*host).unwrap()).collect();
                // Writes that cross the ends of pieces, the files in turn.
                for start in (0..length).step_by(100_000) {
                    for (number, file) in files.iter_mut().enumerate() {
                        let end = (start + 100_000).min(length);
                        let bytes: Vec<u8> = (start..end).map(|at| content(number + round, at)).collect();
                        assert_eq!(file.byte_count(), start as u64);
                        file.append(&bytes).unwrap();
                    }
                }
                for (number, file) in files.iter().enumerate() {
                    let mut bytes = vec![0; length - 5];
                    file.read(&mut bytes, 5).unwrap();
                    let right = |(at, byte): (usize, &u8)| *byte == content(number + round, at + 5);
                    assert!(bytes.iter().enumerate().all(right), "file {number} of round {round}");
                }
                let used = files.iter().flat_map(|file| &file.pieces).max().copied();
                assert_eq!(used, Some(5), "two files of three pieces share each of the system's");
            }
        })
        .done();
    }

    #[test]
    fn what_the_device_changed_is_not_read() {
        sim::run(sim::Options::new(4), || {
            let mut file = TempFile::create(&*host()).unwrap();
            file.append(&[7; 5000]).unwrap();
            file.append(&[8; 5000]).unwrap();
            let mut row = [0; 10];
            file.read(&mut row, 4995).unwrap();
            assert_eq!(row, [7, 7, 7, 7, 7, 8, 8, 8, 8, 8]);
            let place = file.place(6000, 1).0;
            file.space.file.write_at(&[9], place, Sync::None).unwrap();
            for (offset, whole) in [(0, true), (4090, false), (5990, false), (8192, true)] {
                let told = file.read(&mut row, offset).map_err(|error| error.code);
                assert_eq!(told, if whole { Ok(()) } else { Err(1024) }, "{offset}");
            }
        })
        .done();
    }
}
