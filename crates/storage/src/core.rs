//! What trees, mini-transactions and services share: the pool, the log and the open files.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::buffer::Pool;
use crate::buffer::clock::Spaces;
use crate::fault::StoreResult;
use crate::log::Log;
use crate::mtr::Mtr;
use crate::open_files::OpenFiles;
use crate::space::Space;

/// The shared middle of a store.
pub struct Core {
    /// Frames.
    pub pool: Arc<Pool>,
    /// Redo.
    pub log: Arc<Log>,
    /// Open files of trees.
    pub files: Arc<OpenFiles>,
    /// Files by tree id.
    pub spaces: RwLock<HashMap<u32, Arc<Space>>>,
}

impl Core {
    /// Starts a mini-transaction; waits for log space, so no latch may be held.
    #[inline]
    pub fn begin(&self) -> StoreResult<Mtr<'_>> {
        self.log.wait_room()?;
        Ok(Mtr::new(self))
    }

    /// The open file of a tree.
    pub fn space(&self, tree: u32) -> Option<Arc<Space>> {
        self.spaces.read().get(&tree).cloned()
    }
}

impl Spaces for Core {
    fn with_space(&self, tree: u32, f: &mut dyn FnMut(&Space)) -> bool {
        match self.spaces.read().get(&tree) {
            Some(space) => {
                f(space);
                true
            }
            None => false,
        }
    }
}
