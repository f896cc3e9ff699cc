//! The keeper of the server's memory: it gives each consumer its bound of the [`Budget`] and resizes the buffer pool.
//!
//! Most servers never have what the bounds allow: they run with few connections and small sorts. So the [`Keeper`] looks at
//! what the process really has, and lends a pool that is full what the others leave unused, but for a spare that they can take
//! at once. What they take of the spare the pool gives back. Small things have no bound of their own (metadata of many
//! tables, the state of sessions, row locks): where the process goes beyond the whole, the pool gives of its own part too. A
//! pool whose size somebody chose is left alone; then the others get less.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

use keel_runtime::sync::{Event, Mutex as FiberMutex};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, heap, system, time};
use keel_settings::budget::{Budget, PoolState, TEXT_FACTOR};
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

/// Watches over the budget of a running server.
#[derive(Default)]
pub struct Keeper {
    limit: AtomicU64,
    /// The pool's size was chosen by somebody.
    pinned: AtomicBool,
    most: AtomicU64,
    /// Held by who changes the pool's size, or what it follows from.
    pub sizing: FiberMutex<()>,
    stop: Event,
}

impl Keeper {
    /// A keeper of `limit` bytes; `pinned` says that the pool's size was chosen.
    pub fn new(limit: u64, pinned: bool) -> Keeper {
        Keeper { limit: limit.into(), pinned: pinned.into(), ..Keeper::default() }
    }

    /// The division now.
    pub fn budget(&self, state: &ServerState) -> Budget {
        let pinned = self.pinned.load(Relaxed).then(|| state.engine.pool_bytes());
        Budget::of(self.limit.load(Relaxed), pinned)
    }

    /// Another whole, or another choice of the pool's size: all bounds follow.
    pub fn change(&self, state: &ServerState, limit: Option<u64>, pinned: Option<bool>) {
        if let Some(limit) = limit {
            self.limit.store(limit, Relaxed);
        }
        if let Some(pinned) = pinned {
            self.pinned.store(pinned, Relaxed);
        }
        self.apply(state);
    }

    /// Tells everybody its bound.
    pub fn apply(&self, state: &ServerState) {
        let budget = self.budget(state);
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
            self.most.fetch_max(used, Relaxed);
            returns.look(unused_bytes(state, used));
            if !self.pinned.load(Relaxed) {
                self.balance(state, used, &mut calm_since);
            }
            self.stop.wait_until(WaitEvent::Idle, time::now() + LOOK);
        }
    }

    /// Takes from the pool what the process has beyond the whole, or gives it what nobody else uses.
    fn balance(&self, state: &ServerState, used: u64, calm_since: &mut time::Instant) {
        // While somebody chooses, the size is not the keeper's.
        let Some(_sizing) = self.sizing.try_lock() else { return };
        if self.pinned.load(Relaxed) {
            return;
        }
        let budget = self.budget(state);
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

    /// The most that the process used so far.
    pub fn most_bytes(&self) -> u64 {
        self.most.load(Relaxed)
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

/// Bytes of the process's `used` that are neither a page of the pool nor allocated: the allocator keeps them for later, or
/// they are stacks and the program's own data. 0 without a counting allocator.
pub fn unused_bytes(state: &ServerState, used: u64) -> u64 {
    match heap::allocated_bytes() {
        0 => 0,
        allocated => used.saturating_sub(allocated + pool_used_bytes(state)),
    }
}

/// Bytes of the pool that hold pages.
pub fn pool_used_bytes(state: &ServerState) -> u64 {
    let (pool, free) = (state.engine.pool_bytes(), state.engine.pool_bytes_free());
    pool.saturating_sub(free)
}
