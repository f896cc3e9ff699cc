//! Pages read here and there: undo records, long values.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::layout::PAGE;

/// Pages by tree and number.
type Pages = HashMap<(u32, u32), Arc<[u8]>>;

/// Kept pages; all are forgotten when there are too many.
pub(super) struct Cache {
    pages: Mutex<Pages>,
    pages_max: usize,
}

impl Cache {
    pub(super) fn new(memory: u64) -> Cache {
        Cache { pages: Mutex::default(), pages_max: (memory / PAGE as u64).max(16) as usize }
    }

    pub(super) fn get(&self, at: (u32, u32)) -> Option<Arc<[u8]>> {
        self.pages.lock().get(&at).cloned()
    }

    pub(super) fn put(&self, at: (u32, u32), page: Arc<[u8]>) {
        let mut pages = self.pages.lock();
        if pages.len() >= self.pages_max {
            pages.clear();
        }
        pages.insert(at, page);
    }
}
