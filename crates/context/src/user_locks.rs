//! GET_LOCK() and its family: locks on names that clients agree upon.
//!
//! A session holds any number of names, each as often as it asked for it, beyond its transactions and until it gives them
//! back or ends. Waits end by KILL (then GET_LOCK() is NULL), by their own time-out (0), or with 1213 where sessions wait for
//! each other in a ring ([`crate::waits`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use keel_base::{SqlResult, code, errors};
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::interrupt::Interrupt;
use crate::mdl::{Kind, TableLock};
use crate::waits::{Stake, Waits};

/// Most names that one session may hold.
const HELD_MAX: usize = 10_000;

/// All names in use, of one server.
#[derive(Default)]
pub struct UserLocks {
    inner: Mutex<Inner>,
    waits: Waits,
}

#[derive(Default)]
struct Inner {
    names: HashMap<Box<[u8]>, Arc<Name>>,
}

struct Name {
    lock: Arc<TableLock>,
    /// The session that holds it; 0 is nobody.
    owner: AtomicU64,
}

impl Default for Name {
    fn default() -> Name {
        Name { lock: Arc::new(TableLock::new(WaitEvent::UserLock)), owner: AtomicU64::new(0) }
    }
}

struct Held {
    text: Box<[u8]>,
    name: Arc<Name>,
    count: u64,
}

/// The names that one session holds; given back when dropped.
#[derive(Default)]
pub struct HeldLocks {
    registry: Arc<UserLocks>,
    held: Vec<Held>,
    /// The last wait ended with 1213.
    pub closed_ring: bool,
}

/// What came of asking for a name.
pub enum Tried {
    /// It is had.
    Had,
    /// Somebody else has it.
    Taken(ContestedName),
}

/// A name that somebody else has.
pub struct ContestedName(Arc<Name>);

impl UserLocks {
    /// Who waits for whom on this server, for locks that are not of rows.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The name that a lock is of, if it is one of these.
    pub fn name_of(&self, lock: &Arc<TableLock>) -> Option<Box<[u8]>> {
        let inner = self.inner.lock();
        let found = inner.names.iter().find(|(_, name)| Arc::ptr_eq(&name.lock, lock));
        found.map(|(text, _)| text.clone())
    }

    /// The connection that holds a name.
    pub fn owner(&self, name: &[u8]) -> Option<u64> {
        let inner = self.inner.lock();
        inner.names.get(name).map(|name| name.owner.load(Ordering::Acquire)).filter(|owner| *owner != 0)
    }

    /// Forgets a name that nobody holds or waits for.
    fn tidy(&self, text: &[u8]) {
        let mut inner = self.inner.lock();
        if inner.names.get(text).is_some_and(|name| Arc::strong_count(name) == 1) {
            inner.names.remove(text);
        }
    }
}

impl HeldLocks {
    /// No names, of those of `registry`.
    pub fn new(registry: Arc<UserLocks>) -> HeldLocks {
        HeldLocks { registry, held: Vec::new(), closed_ring: false }
    }

    /// What it keeps, and how.
    pub fn kept(&self) -> Vec<(Arc<TableLock>, Kind)> {
        self.held.iter().map(|held| (held.name.lock.clone(), Kind::Own)).collect()
    }

    /// Whether it holds no name.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// All names in use.
    pub fn registry(&self) -> &UserLocks {
        &self.registry
    }

    /// GET_LOCK() of a name that may be free.
    pub fn try_get(&mut self, session: u64, text: &[u8]) -> SqlResult<Tried> {
        if let Some(held) = self.held.iter_mut().find(|held| *held.text == *text) {
            held.count += 1;
            return Ok(Tried::Had);
        }
        if self.held.len() >= HELD_MAX {
            return Err(errors::out_of_resources());
        }
        let mut inner = self.registry.inner.lock();
        let name = inner.names.entry_ref(text).or_default().clone();
        if !name.lock.try_own() {
            return Ok(Tried::Taken(ContestedName(name)));
        }
        name.owner.store(session, Ordering::Release);
        drop(inner);
        self.held.push(Held { text: text.into(), name, count: 1 });
        Ok(Tried::Had)
    }

    /// GET_LOCK() of a name that was taken, by a session that keeps `stake`: whether it was had in time; `None` if the statement was
    /// killed. Waits.
    pub fn wait(
        &mut self,
        session: u64,
        text: &[u8],
        ContestedName(name): ContestedName,
        timeout: Duration,
        interrupt: &Interrupt,
        stake: Stake,
    ) -> SqlResult<Option<bool>> {
        let outcome = self.registry.waits.take(&name.lock, Kind::Own, || stake, interrupt, timeout);
        if let Err(error) = outcome {
            drop(name);
            self.registry.tidy(text);
            self.closed_ring = error.code == code::LOCK_DEADLOCK;
            if self.closed_ring {
                return Err(error);
            }
            return Ok((error.code == code::LOCK_WAIT_TIMEOUT).then_some(false));
        }
        name.owner.store(session, Ordering::Release);
        self.held.push(Held { text: text.into(), name, count: 1 });
        Ok(Some(true))
    }

    /// RELEASE_LOCK(): whether this session held it; `None` if nobody does.
    pub fn release(&mut self, text: &[u8]) -> Option<bool> {
        match self.held.iter().position(|held| *held.text == *text) {
            Some(place) => {
                self.held[place].count -= 1;
                if self.held[place].count == 0 {
                    let held = self.held.swap_remove(place);
                    self.free(held);
                }
                Some(true)
            }
            None => self.registry.owner(text).map(|_| false),
        }
    }

    /// RELEASE_ALL_LOCKS(): how often names were held.
    pub fn release_all(&mut self) -> u64 {
        let mut count = 0;
        while let Some(held) = self.held.pop() {
            count += held.count;
            self.free(held);
        }
        count
    }

    fn free(&self, held: Held) {
        held.name.owner.store(0, Ordering::Release);
        held.name.lock.disown();
        drop(held.name);
        self.registry.tidy(&held.text);
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.release_all();
    }
}
