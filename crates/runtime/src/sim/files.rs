//! File calls of a simulated world: faults, delays, sync points, then the disk.

use super::disk::Disk;
use super::{Op, World};
use crate::fiber;
use crate::fs::{OpenOptions, faults};
use crate::wait::WaitEvent;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const READ_MICROS: (u64, u64) = (5, 150);
const WRITE_MICROS: (u64, u64) = (5, 150);
const SYNC_MICROS: (u64, u64) = (30, 400);
const SECTOR: u64 = 512;
const ALLOCATION_BLOCK: u64 = 4096;
/// One write in so many is short, and goes on.
const SHORT_WRITES: u64 = 32;

/// An open file of a simulated disk.
pub(crate) struct SimFile {
    disk: Disk,
    inode: u64,
    path: PathBuf,
    can_write: bool,
    pub direct: bool,
}

/// An operation of a batch.
pub(crate) struct SimOp {
    file: *const SimFile,
    address: *mut u8,
    len: usize,
    offset: u64,
    kind: SimOpKind,
}

enum SimOpKind {
    Read,
    Write,
    Sync,
}

impl SimOp {
    pub fn read(file: &SimFile, buf: &mut [u8], offset: u64) -> SimOp {
        SimOp { file, address: buf.as_mut_ptr(), len: buf.len(), offset, kind: SimOpKind::Read }
    }
    pub fn write(file: &SimFile, buf: &[u8], offset: u64) -> SimOp {
        let address = buf.as_ptr().cast_mut();
        SimOp { file, address, len: buf.len(), offset, kind: SimOpKind::Write }
    }
    pub fn sync(file: &SimFile) -> SimOp {
        let address = std::ptr::NonNull::dangling().as_ptr();
        SimOp { file, address, len: 0, offset: 0, kind: SimOpKind::Sync }
    }
    fn perform(&self, world: &World) -> io::Result<()> {
        // SAFETY: the batch holds the file open and borrows the buffer, exclusively for a read.
        let (file, buf) = unsafe { (&*self.file, std::slice::from_raw_parts_mut(self.address, self.len)) };
        match self.kind {
            SimOpKind::Write => file.begin_write(world, WaitEvent::DataWrite, buf, self.offset).map(drop),
            SimOpKind::Sync => file.sync_now(world),
            SimOpKind::Read => match file.read_now(world, buf, self.offset)? {
                n if n == self.len => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }
}

/// All at once, in an order of the world's choice.
pub(crate) fn run_batch(event: WaitEvent, ops: Vec<SimOp>) -> Vec<io::Result<()>> {
    let world = super::world().expect("simulated files belong to a world");
    let mut order: Vec<usize> = (0..ops.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, world.below(i as u64 + 1) as usize);
    }
    let mut results: Vec<io::Result<()>> = ops.iter().map(|_| Ok(())).collect();
    for index in order {
        if world.below(4) == 0 {
            world.delay(event, READ_MICROS);
        }
        results[index] = ops[index].perform(world);
    }
    world.delay(event, READ_MICROS);
    results
}

fn here<'a>() -> &'a World {
    super::world().expect("simulated files belong to a world")
}

impl SimFile {
    pub fn read(&self, event: WaitEvent, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        here().delay(event, READ_MICROS);
        self.read_now(here(), buf, offset)
    }
    fn read_now(&self, world: &World, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_direct(buf.as_ptr() as usize, buf.len(), offset)?;
        world.check_fault(Op::Read, &self.path)?;
        Ok(self.disk.lock().inode(self.inode).now.read(buf, offset))
    }
    /// The write is visible, and at risk, from its beginning on. Now and then a part is taken first and the rest later. Numbers
    /// of the changes.
    fn begin_write(&self, world: &World, event: WaitEvent, buf: &[u8], offset: u64) -> io::Result<Vec<u64>> {
        self.check_direct(buf.as_ptr() as usize, buf.len(), offset)?;
        if !self.can_write {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        let some = (world.below(buf.len() as u64 + 1) / SECTOR * SECTOR) as usize;
        if let Err(error) = world.check_fault(Op::Write, &self.path) {
            // Some of it may have been written all the same.
            let _ = self.disk.lock().write(self.inode, offset, &buf[..some]);
            return Err(error);
        }
        if some == 0 || some == buf.len() || world.below(SHORT_WRITES) != 0 {
            return Ok(vec![self.disk.lock().write(self.inode, offset, buf)?]);
        }
        let first = self.disk.lock().write(self.inode, offset, &buf[..some])?;
        world.delay(event, WRITE_MICROS);
        Ok(vec![first, self.disk.lock().write(self.inode, offset + some as u64, &buf[some..])?])
    }
    pub fn write(&self, event: WaitEvent, buf: &[u8], offset: u64, durable: bool) -> io::Result<()> {
        let world = here();
        let numbers = self.begin_write(world, event, buf, offset)?;
        world.delay(event, WRITE_MICROS);
        if durable {
            world.delay(event, SYNC_MICROS);
            world.check_fault(Op::Sync, &self.path)?;
            world.sync_point();
            let mut disk = self.disk.lock();
            numbers.into_iter().for_each(|number| disk.sync_write(self.inode, number));
        }
        Ok(())
    }
    pub fn sync(&self, event: WaitEvent) -> io::Result<()> {
        let world = here();
        let covered = self.disk.lock().last_number();
        world.delay(event, SYNC_MICROS);
        self.sync_up_to(world, covered)
    }
    fn sync_now(&self, world: &World) -> io::Result<()> {
        let covered = self.disk.lock().last_number();
        self.sync_up_to(world, covered)
    }
    /// Covers the writes up to that number.
    fn sync_up_to(&self, world: &World, covered: u64) -> io::Result<()> {
        world.check_fault(Op::Sync, &self.path)?;
        world.sync_point();
        self.disk.lock().sync(self.inode, covered);
        Ok(())
    }
    pub fn len(&self) -> u64 {
        self.disk.lock().inode(self.inode).now.len
    }
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        here().check_fault(Op::Write, &self.path)?;
        let mut disk = self.disk.lock();
        disk.check_space(len.saturating_sub(disk.inode(self.inode).now.len))?;
        disk.set_len(self.inode, len)
    }
    /// Where there is too little room it takes what there is, in blocks, as ext4 does, and fails all the same.
    pub fn allocate(&self, end: u64) -> io::Result<()> {
        let len = self.len();
        if end <= len {
            return Ok(());
        }
        here().check_fault(Op::Write, &self.path)?;
        let mut disk = self.disk.lock();
        let Err(full) = disk.check_space(end - len) else { return disk.set_len(self.inode, end) };
        let blocks = (1..).take_while(|blocks| disk.check_space(blocks * ALLOCATION_BLOCK).is_ok()).last();
        if let Some(blocks) = blocks {
            disk.set_len(self.inode, len + blocks * ALLOCATION_BLOCK)?;
        }
        Err(full)
    }
    /// Direct files refuse what a device would refuse.
    fn check_direct(&self, address: usize, len: usize, offset: u64) -> io::Result<()> {
        if self.direct && !(address | len | offset as usize).is_multiple_of(512) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(())
    }
}

/// Names and faults.
impl World {
    pub fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<SimFile> {
        if (options.create || options.create_new) && !self.disk.lock().exists(path) {
            self.check_fault(Op::Name, path)?;
        }
        let inode = self.disk.lock().open(path, options)?;
        Ok(SimFile {
            disk: self.disk.clone(),
            inode,
            path: path.to_path_buf(),
            can_write: options.write,
            direct: options.direct,
        })
    }
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().create_dir_all(path)
    }
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check_fault(Op::Name, path)?;
        self.disk.lock().remove_file(path)
    }
    pub fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().remove_dir(path)
    }
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_fault(Op::Name, to)?;
        self.disk.lock().rename(from, to)
    }
    pub fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk.lock().read_dir(path)
    }
    pub fn exists(&self, path: &Path) -> bool {
        self.disk.lock().exists(path)
    }
    pub fn is_dir(&self, path: &Path) -> bool {
        self.disk.lock().is_dir(path)
    }
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.delay(WaitEvent::FileSystem, SYNC_MICROS);
        self.check_fault(Op::Sync, path)?;
        self.sync_point();
        self.disk.lock().sync_dir(path)
    }
    pub fn lock_file(&self, path: &Path) -> io::Result<()> {
        if !self.is_dir(path) {
            self.open(path, &OpenOptions::creating())?;
        }
        match self.locks.borrow_mut().insert(path.to_path_buf()) {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    pub fn unlock_file(&self, path: &Path) {
        self.locks.borrow_mut().remove(path);
    }

    pub(super) fn check_fault(&self, kind: Op, path: &Path) -> io::Result<()> {
        self.operations.borrow_mut()[kind as usize] += 1;
        match self.faults.borrow_mut().check(kind, path) {
            Err(error) if !faults::is_hindrance(&error) => return Err(error),
            _ => {}
        }
        let rate = self.disk.lock().options.error_rate;
        if matches!(kind, Op::Read | Op::Write) && self.rng.borrow_mut().chance(rate) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }

    /// Counts a sync that is about to take effect; the world may crash instead.
    fn sync_point(&self) {
        self.disk.lock().sync_count += 1;
        match self.crash_after.get() {
            0 => {}
            1 => self.crash(),
            n => self.crash_after.set(n - 1),
        }
    }

    /// Parks the fiber for some microseconds between the two.
    pub(super) fn delay(&self, event: WaitEvent, (min, max): (u64, u64)) {
        let nanos = (min * 1000) + self.below((max - min) * 1000);
        if fiber::in_fiber() {
            fiber::sleep_for(event, Duration::from_nanos(nanos));
        }
    }
}
