//! The files of the redo log: `redo.<n>` holds the bytes `[n * segment, (n + 1) * segment)` of the log's stream.
//!
//! Files are written full of zeros and synced before they are used, so that a log write changes no metadata. Below the
//! checkpoint they are renamed to the next numbers, or removed when there are enough. A crash may leave a file under its
//! old name or its new one; its old bytes carry other LSNs and never pass for new ones. A file being made has a name of its
//! own; it is removed where that fails, and at the next start after a crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use keel_runtime::fs::{self, AlignedBuf, File, IoBatch, OpenOptions, Sync};
use keel_runtime::sync::Mutex as FiberMutex;
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::fault::{StoreError, StoreResult};

/// Direct I/O moves whole blocks of this size.
pub const BLOCK: usize = 4096;
const ZERO_CHUNK: usize = 1 << 20;
/// Bytes of one request when the log is read.
const READ_PIECE: usize = 1 << 20;
/// A file being made.
const UNFINISHED: &str = "redo.new";

/// An open segment.
struct Segment {
    file: File,
    /// The same for writes into the page cache, opened when first asked for.
    cached: Option<File>,
}

impl From<File> for Segment {
    fn from(file: File) -> Segment {
        Segment { file, cached: None }
    }
}

/// The open segments.
pub struct Segments {
    dir: PathBuf,
    /// Bytes of each file.
    pub bytes: u64,
    direct: bool,
    open: Mutex<BTreeMap<u64, Segment>>,
    /// Held while files are made or renamed: the writer and the housekeeper may both find one missing.
    making: FiberMutex<()>,
}

fn name(number: u64) -> String {
    format!("redo.{number}")
}

/// A folder entry's segment number.
fn number_of(entry: &str) -> Option<u64> {
    entry.strip_prefix("redo.")?.parse().ok()
}

impl Segments {
    /// Opens what is in `dir`.
    pub fn open(dir: &Path, bytes: u64, direct: bool) -> StoreResult<Segments> {
        let all = Segments {
            dir: dir.to_owned(),
            bytes,
            direct,
            open: Mutex::default(),
            making: FiberMutex::new(()),
        };
        let entries = fs::read_dir(dir).map_err(|e| StoreError::io("redo", 0, "list", e))?;
        if entries.iter().any(|e| e == UNFINISHED) {
            fs::remove_file(&dir.join(UNFINISHED)).map_err(|e| StoreError::io(UNFINISHED, 0, "remove", e))?;
        }
        for number in entries.iter().filter_map(|e| number_of(e)) {
            let file = all.open_file(number, &OpenOptions::writing())?;
            all.open.lock().insert(number, file.into());
        }
        Ok(all)
    }

    /// From the one that holds `checkpoint` on, no file may be missing.
    pub fn check_row(&self, checkpoint: u64) -> StoreResult<()> {
        let open = self.open.lock();
        let last = open.last_key_value().map_or(0, |(number, _)| *number);
        let mut row = checkpoint / self.bytes..=last.max(checkpoint / self.bytes);
        match row.find(|number| !open.contains_key(number)) {
            Some(lost) => {
                Err(StoreError::Unusable(format!("{} is missing, a file of the redo log", name(lost))))
            }
            None => Ok(()),
        }
    }

    /// Name of the file that holds `lsn`.
    pub fn name_at(&self, lsn: u64) -> String {
        name(lsn / self.bytes)
    }

    /// Opens what is in `dir`, to be read and nothing else.
    pub fn open_for_reading(dir: &Path, bytes: u64) -> StoreResult<Segments> {
        let all = Segments {
            dir: dir.to_owned(),
            bytes,
            direct: true,
            open: Mutex::default(),
            making: FiberMutex::new(()),
        };
        let entries = fs::read_dir(dir).map_err(|e| StoreError::io("redo", 0, "list", e))?;
        for number in entries.iter().filter_map(|e| number_of(e)) {
            let file = all.open_file(number, &OpenOptions::reading())?;
            all.open.lock().insert(number, file.into());
        }
        Ok(all)
    }

    /// Makes durable what is in the files, and their names.
    pub fn sync(&self) -> StoreResult<()> {
        fs::sync_dir(&self.dir).map_err(|e| StoreError::io("data folder", 0, "sync", e))?;
        let open: Vec<(u64, File)> =
            self.open.lock().iter().map(|(n, segment)| (*n, segment.file.clone())).collect();
        open.iter().try_for_each(|(number, file)| {
            file.sync_data().map_err(|e| StoreError::io(&name(*number), 0, "sync", e))
        })
    }

    fn open_file(&self, number: u64, options: &OpenOptions) -> StoreResult<File> {
        self.open_as(number, &if self.direct { options.with_direct() } else { *options })
    }

    fn open_as(&self, number: u64, options: &OpenOptions) -> StoreResult<File> {
        let file = File::open(&self.dir.join(name(number)), options)
            .map_err(|e| StoreError::io(&name(number), 0, "open", e))?;
        Ok(file.with_event(WaitEvent::LogWrite))
    }

    /// The file that holds `lsn`.
    pub fn file(&self, lsn: u64) -> Option<File> {
        self.open.lock().get(&(lsn / self.bytes)).map(|segment| segment.file.clone())
    }

    /// The file that holds `lsn`, for writes into the page cache and their sync; waits.
    pub fn cached(&self, lsn: u64) -> StoreResult<File> {
        let number = lsn / self.bytes;
        match self.open.lock().get(&number) {
            Some(Segment { cached: Some(file), .. }) => return Ok(file.clone()),
            Some(Segment { file, .. }) if !file.is_direct() => return Ok(file.clone()),
            Some(_) => {}
            None => return Err(StoreError::LogFailed),
        }
        let file = self.open_as(number, &OpenOptions::writing())?;
        if let Some(segment) = self.open.lock().get_mut(&number) {
            segment.cached = Some(file.clone());
        }
        Ok(file)
    }

    /// End of the last file in the unbroken row that holds `lsn`.
    pub fn end(&self, lsn: u64) -> u64 {
        let open = self.open.lock();
        let mut number = lsn / self.bytes;
        while open.contains_key(&number) {
            number += 1;
        }
        number * self.bytes
    }

    /// Makes the files for `lsn` up to `ahead` further ones; waits.
    pub fn provide(&self, lsn: u64, ahead: u64) -> StoreResult<()> {
        let _one = self.making.lock();
        let first = lsn / self.bytes;
        for number in first..=first + ahead {
            if !self.open.lock().contains_key(&number) {
                self.create(number)?;
            }
        }
        Ok(())
    }

    /// A file under construction has another name, so that a crash leaves no short segment.
    fn create(&self, number: u64) -> StoreResult<()> {
        let fail = |op: &'static str| move |e| StoreError::io(&name(number), 0, op, e);
        let raw = self.dir.join(UNFINISHED);
        if let Err(e) = self.write_zeros(&raw, number) {
            // On a full disk others need its room. What cannot be removed is truncated by the next try.
            let _ = fs::remove_file(&raw);
            return Err(e);
        }
        fs::rename(&raw, &self.dir.join(name(number))).map_err(fail("rename"))?;
        fs::sync_dir(&self.dir).map_err(fail("sync"))?;
        let file = self.open_file(number, &OpenOptions::writing())?;
        self.open.lock().insert(number, file.into());
        Ok(())
    }

    /// Writes a file full of zeros, durably. A full disk is noticed before anything is written.
    fn write_zeros(&self, path: &Path, number: u64) -> StoreResult<()> {
        let fail = |op: &'static str| move |e| StoreError::io(&name(number), 0, op, e);
        let options = OpenOptions { truncate: true, ..OpenOptions::creating() };
        let file = File::open(path, &options.with_direct()).map_err(fail("create"))?;
        file.allocate(0, self.bytes).map_err(fail("allocate"))?;
        let zeros = AlignedBuf::new(ZERO_CHUNK.min(self.bytes as usize));
        let mut at = 0;
        while at < self.bytes {
            let len = zeros.len().min((self.bytes - at) as usize);
            file.write_at(&zeros[..len], at, Sync::None).map_err(fail("write"))?;
            at += len as u64;
        }
        file.sync_all().map_err(fail("sync"))
    }

    /// Gives files wholly below `checkpoint` new numbers behind the last, or removes those above `keep`.
    pub fn recycle(&self, checkpoint: u64, keep: usize) -> StoreResult<()> {
        let _one = self.making.lock();
        let oldest_needed = checkpoint / self.bytes;
        loop {
            let (old, next, count) = {
                let mut open = self.open.lock();
                let Some((&old, _)) = open.first_key_value() else { return Ok(()) };
                if old >= oldest_needed {
                    return Ok(());
                }
                let next = open.last_key_value().map_or(0, |(n, _)| n + 1).max(oldest_needed);
                open.remove(&old);
                (old, next, open.len() + 1)
            };
            let fail = |op: &'static str| move |e| StoreError::io(&name(old), 0, op, e);
            let path = self.dir.join(name(old));
            if count > keep {
                fs::remove_file(&path).map_err(fail("remove"))?;
                continue;
            }
            fs::rename(&path, &self.dir.join(name(next))).map_err(fail("rename"))?;
            fs::sync_dir(&self.dir).map_err(fail("sync"))?;
            let file = self.open_file(next, &OpenOptions::writing())?;
            self.open.lock().insert(next, file.into());
        }
    }

    /// Removes the files furthest ahead of the log's `end`, which moves meanwhile, while there are more than `keep`; after the
    /// capacity became smaller.
    pub fn trim(&self, end: impl Fn() -> u64, keep: usize) -> StoreResult<()> {
        let _one = self.making.lock();
        loop {
            let (last, file) = {
                let mut open = self.open.lock();
                let Some((&last, _)) = open.last_key_value() else { return Ok(()) };
                if open.len() <= keep || last <= end() / self.bytes + 1 {
                    return Ok(());
                }
                let Some((_, file)) = open.pop_last() else { return Ok(()) };
                (last, file)
            };
            if let Err(e) = fs::remove_file(&self.dir.join(name(last))) {
                // It is still there, and those before it must not go without it.
                self.open.lock().insert(last, file);
                return Err(StoreError::io(&name(last), 0, "remove", e));
            }
            // A gap in the row would not be believed by the next start.
            fs::sync_dir(&self.dir).map_err(|e| StoreError::io(&name(last), 0, "sync", e))?;
        }
    }

    /// Reads up to `out.len()` bytes of the stream at `lsn` (both whole blocks), several requests at a time; gives what there
    /// is before the end of the files or an error, which is given where nothing comes before it.
    pub fn read(&self, lsn: u64, out: &mut [u8]) -> StoreResult<usize> {
        let (mut files, mut at) = (Vec::new(), lsn);
        let end = lsn + out.len() as u64;
        while at < end {
            let Some(file) = self.file(at) else { break };
            let len = (end - at).min(self.bytes - at % self.bytes).min(READ_PIECE as u64);
            files.push((file, at, len as usize));
            at += len;
        }
        let mut batch = IoBatch::new();
        let mut rest = &mut *out;
        for (file, at, len) in &files {
            let (piece, behind) = rest.split_at_mut(*len);
            batch.push_read(file, piece, at % self.bytes);
            rest = behind;
        }
        let results = if batch.is_empty() { Vec::new() } else { batch.run() };
        let mut done = 0;
        for (result, (file, at, len)) in results.into_iter().zip(&files) {
            let offset = at % self.bytes;
            let got = match result {
                Ok(()) => *len,
                // A file that was cut short, or an error to be met again.
                Err(_) => match file.read_some_at(&mut out[done..done + len], offset) {
                    Ok(got) => got,
                    Err(_) if done > 0 => break,
                    Err(e) => return Err(StoreError::io(&name(at / self.bytes), offset, "read", e)),
                },
            };
            done += got;
            if got < *len {
                break;
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use keel_runtime::sim::{self, Op, Options};

    use super::*;

    const BYTES: u64 = 64 << 10;

    /// Runs `f` with a row of ten files.
    fn with_ten(f: impl FnOnce(&Segments) + Send) {
        sim::run(Options::new(1), || {
            fs::create_dir_all(Path::new("/data")).unwrap();
            let segments = Segments::open(Path::new("/data"), BYTES, false).unwrap();
            segments.provide(0, 9).unwrap();
            f(&segments);
        })
        .done();
    }

    fn files() -> usize {
        fs::read_dir(Path::new("/data")).unwrap().iter().filter(|entry| number_of(entry).is_some()).count()
    }

    #[test]
    fn files_that_the_log_reaches_meanwhile_are_not_removed() {
        with_ten(|segments| {
            let end = Cell::new(0);
            let moving = || end.replace(6 * BYTES);
            segments.trim(moving, 2).unwrap();
            assert_eq!((segments.end(0), files()), (8 * BYTES, 8), "one behind that in use stays");
            segments.trim(|| BYTES, 2).unwrap();
            assert_eq!((segments.end(0), files()), (3 * BYTES, 3));
        });
    }

    #[test]
    fn a_file_that_cannot_be_removed_stays_known() {
        with_ten(|segments| {
            sim::fail_times(Op::Name, "redo.9", 5, 0, 2);
            for _ in 0..2 {
                assert!(segments.trim(|| 0, 2).is_err());
                assert_eq!((segments.end(0), files()), (10 * BYTES, 10), "none goes before the last");
            }
            segments.trim(|| 0, 2).unwrap();
            assert_eq!((segments.end(0), files()), (2 * BYTES, 2));
        });
    }
}
