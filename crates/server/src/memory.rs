//! The keeper of memory: it gives each consumer its bound of the [`Budget`](keel_settings::budget::Budget) and resizes the
//! buffer pool.
//!
//! A server with few connections and small sorts uses less than its bounds allow. The [`Keeper`] observes the memory of the
//! process and lends a full pool what the others leave unused, except a reserve that they can take at once; when they use
//! the reserve, the pool shrinks again. Consumers without a bound (definitions of many tables, states of sessions, row
//! locks) are covered by the pool: if the process exceeds the limit, the pool shrinks below its own share. A pool whose size
//! was given by a user is not resized; the bounds of the others are smaller instead.

use std::sync::Arc;
use std::time::Duration;

use keel_runtime::sync::{Event, Mutex as FiberMutex};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, heap, system, time};
use keel_settings::budget::{PoolState, TEXT_FACTOR};
use keel_settings::variables::{Setting, table};

use crate::state::ServerState;

/// How often the keeper looks.
const LOOK: Duration = Duration::from_millis(50);
/// The least time between two requests to the allocator to return unused memory.
const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(2);
/// The time until the next one after a request that changed little.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(60);
/// Unused memory that the allocator may always keep.
const UNUSED_BYTES_KEPT: u64 = 16 << 20;
/// How long there must be room before the pool grows again.
const CALM: Duration = Duration::from_secs(2);

/// Keeps a running server within its budget of memory.
#[derive(Default)]
pub struct Keeper {
    /// Held while the size of the pool, or the limit that it depends on, changes.
    pub sizing: FiberMutex<()>,
    stop: Event,
}

impl Keeper {
    /// Changes the limit, or whether the size of the pool is given by a user. All bounds follow.
    pub fn change(&self, state: &ServerState, limit: Option<u64>, pinned: Option<bool>) {
        if let Some(limit) = limit {
            state.memory.set_limit(limit);
        }
        if let Some(pinned) = pinned {
            state.memory.set_pinned(pinned);
        }
        self.apply(state);
    }

    /// Sets the bounds of all consumers.
    pub fn apply(&self, state: &ServerState) {
        let budget = state.budget();
        state.database().host().work_memory().set_total(budget.work);
        state.operators.set_bytes_max(budget.operators / 2, budget.operators);
        state.long_packets.set_bytes_max(budget.packets / 2, budget.packets);
        state.long_texts.set_bytes_max(budget.texts / TEXT_FACTOR / 2, budget.texts / TEXT_FACTOR);
        state.database().set_plan_bytes_max(budget.plans as usize);
    }

    /// Watches until [`Keeper::stop`]; on a fiber of its own.
    pub fn watch(&self, state: &ServerState) {
        let mut calm_since = time::now();
        let mut returns = Returns::default();
        while !self.stop.is_set() {
            let used = system::memory_used_bytes();
            state.memory.note_used(used);
            returns.look(state.unused_bytes(used));
            if !state.memory.is_pinned() {
                self.balance(state, used, &mut calm_since);
            }
            self.stop.wait_until(WaitEvent::Idle, time::now() + LOOK);
        }
    }

    /// Shrinks the pool if the process exceeds the limit, or grows it by unused memory.
    fn balance(&self, state: &ServerState, used: u64, calm_since: &mut time::Instant) {
        // A SET is changing the size.
        let Some(_sizing) = self.sizing.try_lock() else { return };
        if state.memory.is_pinned() {
            return;
        }
        let budget = state.budget();
        let pool = PoolState {
            now: state.engine.pool_bytes(),
            free: state.engine.pool_bytes_free(),
            is_full: state.engine.is_pool_full(),
        };
        let target = budget.pool_target(used, pool, calm_since.elapsed() > CALM);
        match target.cmp(&pool.now) {
            std::cmp::Ordering::Equal => return,
            std::cmp::Ordering::Less => *calm_since = time::now(),
            std::cmp::Ordering::Greater => {}
        }
        let target = target.min(state.engine.pool_bytes_max());
        // What a disk that fails, or the end of the server, cuts short is tried again.
        let _ = state.engine.resize_pool(target, &|| self.stop.is_set());
        state.globals.set(table().id("innodb_buffer_pool_size"), Setting::UInt(state.engine.pool_bytes()));
    }

    /// Ends [`Keeper::watch`].
    pub fn stop(&self) {
        self.stop.set();
    }
}

/// When the allocator returns unused memory to the system.
#[derive(Default)]
struct Returns {
    /// Not before this moment.
    next: Option<time::Instant>,
    /// Unused bytes at the last request, until its effect is known.
    before: Option<u64>,
}

impl Returns {
    /// Asks for a return if more than [`UNUSED_BYTES_KEPT`] is unused. After a request that returned less than a quarter, the
    /// next one waits longer: the rest is in use by stacks, or scattered.
    fn look(&mut self, unused: u64) {
        let now = time::now();
        if unused <= UNUSED_BYTES_KEPT || self.next.is_some_and(|next| now < next) {
            return;
        }
        if self.before.take().is_some_and(|before| unused > before / 4 * 3) {
            self.next = Some(now + GIVE_BACK_PAUSE);
            return;
        }
        heap::give_back();
        self.before = Some(unused);
        self.next = Some(now + GIVE_BACK_INTERVAL);
    }
}

/// Starts the fiber that watches.
pub fn start(state: &Arc<ServerState>) {
    let state = state.clone();
    fiber::spawn(move || state.keeper.watch(&state));
}
