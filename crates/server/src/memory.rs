//! One budget for the server's memory: how much there is, who gets how much of it, and who has it now.
//!
//! `keel_memory_limit` is the whole; by default four fifths of what the container, or the machine, has. The rest is for what a
//! container is charged beside: the kernel's buffers, the program's own pages, what the allocator keeps for a moment.
//! [`Budget`] divides the whole. Everything but the buffer pool gets a bound; the pool gets what these leave, five eighths of
//! the memory at most. Bounds are bounds: nobody takes memory before it is used.
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

use crate::schema::{RowMaker, View, number, text};
use crate::state::ServerState;
use crate::variables::{Setting, table};

const MIB: u64 = 1 << 20;
/// What a server has before anybody connects, beside its pool: log and flush buffers, transaction table, threads.
const BASE_BYTES: u64 = 40 * MIB;
/// What a connection that does something takes, about: its stack, buffers, session and transaction.
pub const CONNECTION_BYTES: u64 = 48 << 10;
/// Connections that a server has room for, however small it is.
const CONNECTIONS_MIN: u64 = 1200;
/// The least pool that a server takes by itself.
const POOL_BYTES_MIN: u64 = 8 * MIB;
/// What the tree and the plan of a text take, in texts.
pub const TEXT_FACTOR: u64 = 40;

/// How often the keeper looks.
const LOOK: Duration = Duration::from_millis(50);
/// Parts of its size by which the pool grows and shrinks at a time.
const STEPS: u64 = 16;
/// The least time between two requests to the allocator to return unused memory.
const GIVE_BACK_INTERVAL: Duration = Duration::from_secs(2);
/// The time until the next one after a request that changed little.
const GIVE_BACK_PAUSE: Duration = Duration::from_secs(60);
/// Unused memory that the allocator may always keep.
const UNUSED_BYTES_KEPT: u64 = 16 * MIB;
/// How long there must be room before the pool grows again.
const CALM: Duration = Duration::from_secs(2);

/// How the whole is divided, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// All of it.
    pub limit: u64,
    /// The buffer pool.
    pub pool: u64,
    /// Rows that statements keep, user variables, prepared statements.
    pub work: u64,
    /// What operators begin with before they take of `work`.
    pub operators: u64,
    /// Long packets.
    pub packets: u64,
    /// Long texts that become trees, as memory.
    pub texts: u64,
    /// Cached plans.
    pub plans: u64,
    /// Connections.
    pub connections: u64,
    /// Whether what the pool leaves is less than the least that the others need.
    pub overdrawn: bool,
}

/// The least that a server can work with.
const LIMIT_MIN: u64 = 64 * MIB;

/// The whole where somebody asks for so much of it: no more than there is, no less than is needed.
pub fn possible_limit(asked: u64) -> u64 {
    asked.min(system::memory_bytes() & !(MIB - 1)).max(LIMIT_MIN)
}

/// The whole where nobody said how much: four fifths of what there is.
pub fn default_limit() -> u64 {
    (system::memory_bytes() / 5 * 4) & !(MIB - 1)
}

impl Budget {
    /// Divides `limit`, of which the pool has `pinned` where somebody chose its size.
    pub fn of(limit: u64, pinned: Option<u64>) -> Budget {
        let least = limit / 8;
        let rest = limit.saturating_sub(BASE_BYTES);
        let share = match pinned {
            // What would be left to the others if the pool were chosen here: half.
            None => rest / 2,
            Some(pool) => rest.saturating_sub(pool).clamp(least.min(rest), rest / 2 + least),
        };
        let part = |of: u64, low: u64, high: u64| (share / of).clamp(low, high);
        let mut budget = Budget {
            limit,
            pool: 0,
            work: part(5, 4 * MIB, 16 << 30),
            operators: part(10, 4 * MIB, 4 << 30),
            packets: part(5, 8 * MIB, 1 << 30),
            texts: part(5, 8 * MIB, 4 << 30),
            plans: part(16, 2 * MIB, 256 * MIB),
            connections: part(5, CONNECTIONS_MIN * CONNECTION_BYTES, 1 << 40),
            overdrawn: false,
        };
        let half = limit / 8 * 5;
        budget.pool = pinned.unwrap_or_else(|| {
            let left = rest.saturating_sub(budget.others());
            left.clamp(POOL_BYTES_MIN, half.max(POOL_BYTES_MIN)) & !(MIB - 1)
        });
        budget.overdrawn = budget.pool + BASE_BYTES + budget.others() > limit;
        budget
    }

    /// What stays free beside a pool that borrows: what the others can ask for before the keeper has seen it. Together with the
    /// part of the machine that is not in the whole it is about what all of them may have.
    fn spare(&self) -> u64 {
        self.others() / 5 * 2
    }

    /// The most that the pool borrows up to.
    fn pool_lent_most(&self) -> u64 {
        self.limit.saturating_sub(BASE_BYTES + self.spare()).max(self.pool) & !(MIB - 1)
    }

    /// The most that a pool of a chosen size gets of `limit`: the others keep the least that they need.
    pub fn pool_most(limit: u64) -> u64 {
        let others = Budget::of(limit, Some(limit)).others();
        limit.saturating_sub(BASE_BYTES + others).max(POOL_BYTES_MIN) & !(MIB - 1)
    }

    /// How large the pool should be next. `used` is what the process has; `is_calm` says that the pool had to give nothing for
    /// a while.
    fn pool_target(&self, used: u64, pool: Lent, is_calm: bool) -> u64 {
        let step = (pool.now / STEPS).max(MIB) & !(MIB - 1);
        // What the process will have once the frames that are free hold pages.
        let promised = used + pool.free;
        if used > self.limit {
            let beyond = (used - self.limit).next_multiple_of(MIB);
            return pool.now.saturating_sub(beyond + step).max(POOL_BYTES_MIN).min(pool.now);
        }
        if pool.now > self.pool_lent_most() {
            return self.pool;
        }
        if pool.now > self.pool && used + self.spare() / 2 > self.limit {
            return pool.now.saturating_sub(step).max(self.pool);
        }
        if !is_calm {
            return pool.now;
        }
        if pool.now < self.pool && promised + 2 * step < self.limit {
            return (pool.now + step).min(self.pool);
        }
        let borrows = pool.now >= self.pool && pool.is_full;
        if borrows && promised + step + self.spare() < self.limit {
            return (pool.now + step).min(self.pool_lent_most());
        }
        pool.now
    }

    /// What all but the pool and the base have together.
    fn others(&self) -> u64 {
        self.work + self.operators + self.packets + self.texts + self.plans + self.connections
    }

    /// Connections that there is room for.
    pub fn connections_max(&self) -> u64 {
        self.connections / CONNECTION_BYTES
    }

    /// What to tell whoever started the server, if anything.
    pub fn note(&self) -> Option<String> {
        let others = self.limit.saturating_sub(self.pool);
        self.overdrawn.then(|| {
            format!(
                "innodb_buffer_pool_size={}M leaves {}M of keel_memory_limit={}M to all else, which may need {}M",
                self.pool / MIB,
                others / MIB,
                self.limit / MIB,
                (BASE_BYTES + self.others()) / MIB
            )
        })
    }
}

/// The pool as the keeper finds it, in bytes.
#[derive(Debug, Clone, Copy)]
struct Lent {
    /// Its size.
    now: u64,
    /// What of it holds no page.
    free: u64,
    /// It holds all the pages that it can.
    is_full: bool,
}

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
        let pool = Lent {
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

/// Bytes of the process's `used` that are neither a page of the pool nor allocated: the allocator keeps them for later, or
/// they are stacks and the program's own data. 0 without a counting allocator.
fn unused_bytes(state: &ServerState, used: u64) -> u64 {
    match heap::allocated_bytes() {
        0 => 0,
        allocated => used.saturating_sub(allocated + pool_used_bytes(state)),
    }
}

fn pool_used_bytes(state: &ServerState) -> u64 {
    let (pool, free) = (state.engine.pool_bytes(), state.engine.pool_bytes_free());
    pool.saturating_sub(free)
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

/// The rows of `information_schema.KEEL_MEMORY`.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let state = view.state;
    let budget = state.keeper.budget(state);
    let work = state.database().host().work_memory();
    let pool = state.engine.pool_bytes();
    let plans = state.database().plan_bytes() as u64;
    let connections = state.registry.len() as u64;
    let used = system::memory_used_bytes();
    let most = state.keeper.most.load(Relaxed).max(used);
    let operators = &state.operators;
    let packets = &state.long_packets;
    let texts = &state.long_texts;
    let parts = work.taken()
        + operators.used_bytes()
        + packets.used_bytes()
        + texts.used_bytes() * TEXT_FACTOR
        + plans;
    let other_heap = heap::allocated_bytes().saturating_sub(parts);
    for (name, bound, used, most) in [
        ("buffer pool", pool, pool_used_bytes(state), None),
        ("work memory", budget.work, work.taken(), Some(work.most())),
        ("operators", operators.bytes_max(), operators.used_bytes(), Some(operators.most_bytes())),
        ("long packets", packets.bytes_max(), packets.used_bytes(), Some(packets.most_bytes())),
        (
            "long texts",
            texts.bytes_max() * TEXT_FACTOR,
            texts.used_bytes() * TEXT_FACTOR,
            Some(texts.most_bytes() * TEXT_FACTOR),
        ),
        ("cached plans", budget.plans, plans, None),
        (
            "connections",
            budget.connections,
            connections * CONNECTION_BYTES,
            Some(state.most_connections() * CONNECTION_BYTES),
        ),
        ("other heap", 0, other_heap, None),
        ("unused", 0, unused_bytes(state, used), None),
        ("process", budget.limit, used, Some(most)),
    ] {
        rows.row([
            ("CONSUMER", text(name)),
            ("BYTES_MAX", if bound == 0 { keel_value::Value::Null } else { number(bound) }),
            ("BYTES_USED", number(used)),
            ("BYTES_MOST", most.map_or(keel_value::Value::Null, number)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for limit in [180, 205, 410, 1024, 4096, 19 << 10, 200 << 10].map(|mib| mib * MIB) {
            let budget = Budget::of(limit, None);
            assert!(!budget.overdrawn, "{budget:?}");
            assert!(budget.pool >= limit / 6, "{budget:?}");
            assert!(budget.connections_max() >= CONNECTIONS_MIN);
            assert_eq!(budget.note(), None);
        }
        let (small, large) = (Budget::of(410 * MIB, None), Budget::of(50 << 30, None));
        assert!(large.work > 4 << 30 && small.work < 64 * MIB, "{small:?} {large:?}");
    }

    #[test]
    fn a_full_pool_borrows_what_nobody_uses_and_gives_it_back() {
        for limit in [205, 410, 6400].map(|mib| mib * MIB) {
            let budget = Budget::of(limit, None);
            let base = BASE_BYTES;
            let full = |now| Lent { now, free: 0, is_full: true };
            let mut now = budget.pool;
            assert_eq!(budget.pool_target(base, Lent { is_full: false, ..full(now) }, true), now);
            assert_eq!(budget.pool_target(base + now, full(now), false), now);
            loop {
                let next = budget.pool_target(base + now, full(now), true);
                if next == now {
                    break;
                }
                assert!(next > now);
                now = next;
            }
            assert!(now > budget.pool * 5 / 4 && base + now + budget.spare() <= limit, "{now} {budget:?}");
            // Small changes of the others move nothing; what they take of the spare comes back to them, not more.
            let others = budget.spare() / 4;
            assert_eq!(budget.pool_target(base + others + now, full(now), true), now);
            let mut shrunk = now;
            while shrunk > budget.pool {
                let next = budget.pool_target(base + budget.others() + shrunk, full(shrunk), false);
                assert!(next < shrunk, "{next} {shrunk} {budget:?}");
                shrunk = next;
            }
            // The least of its own part goes only where the whole is overdrawn.
            assert_eq!(budget.pool_target(limit - MIB, full(budget.pool), false), budget.pool);
            assert!(budget.pool_target(limit + MIB, full(budget.pool), false) < budget.pool);
            // A smaller whole takes effect at once.
            assert_eq!(
                Budget::of(limit / 2, None).pool_target(base, full(now), true),
                Budget::of(limit / 2, None).pool
            );
        }
    }

    #[test]
    fn a_pool_that_was_chosen_is_obeyed_and_the_others_get_less() {
        let budget = Budget::of(1024 * MIB, Some(700 * MIB));
        assert_eq!((budget.pool, budget.overdrawn), (700 * MIB, false));
        assert!(budget.work < Budget::of(1024 * MIB, None).work);
        let all = Budget::of(1024 * MIB, Some(1000 * MIB));
        assert_eq!(all.pool, 1000 * MIB);
        let note = all.note().expect("nothing is left");
        assert!(
            note.starts_with("innodb_buffer_pool_size=1000M leaves 24M of keel_memory_limit=1024M"),
            "{note}"
        );
    }
}
