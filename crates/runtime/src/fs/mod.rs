//! Files, in the real world and in a simulated one.
//!
//! In a fiber every call parks until the operation is done: reads, writes and syncs go through the worker's ring (or the
//! blocking pool), everything that has to do with names goes to the blocking pool. Outside fibers calls block the thread.
//!
//! **What a crash leaves**: what a returned `sync_data`, `sync_all` or durable write covered; names covered by a returned
//! `sync_dir`. All else may be there, in part or not. `write_whole` is atomic: the old content or the new.

mod aligned;
mod batch;
pub(crate) mod faults;
mod file;
mod op;
mod path;

pub use aligned::{AlignedBuf, HUGE_PAGE};
pub use batch::IoBatch;
pub use faults::{Fault, Op, inject};
pub use file::{File, OpenOptions, Sync};
pub(crate) use op::{FileOp, OpKind};
pub use path::{
    FileLock, FileStatus, canonical, create_dir_all, exists, is_dir, lock_existing, lock_file, read_dir,
    read_to_end, remove_dir, remove_file, rename, restrict, status, sync_dir, try_exists, write_whole,
    write_whole_private,
};
