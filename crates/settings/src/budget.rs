//! How one limit of memory is divided.
//!
//! The limit is `keel_memory_limit`, by default four fifths of the memory of the container or machine. The remaining fifth
//! covers memory that is charged to the container but not counted here: buffers of the kernel, pages of the program, memory
//! that the allocator holds. [`Budget`] divides the limit. Each consumer except the buffer pool gets a bound; the pool gets
//! the rest, at most five eighths. Memory is not taken before it is used. [`Budget::pool_target`] computes the next size of
//! the pool of a running server: it lends a full pool memory that the others leave unused.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use keel_runtime::system;

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

/// Parts of its size by which the pool grows and shrinks at a time.
const STEPS: u64 = 16;

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

/// The limit for a requested size: at most the memory of the machine, at least the minimum of a server.
pub fn possible_limit(asked: u64) -> u64 {
    asked.min(system::memory_bytes() & !(MIB - 1)).max(LIMIT_MIN)
}

/// The default limit: four fifths of the memory.
pub fn default_limit() -> u64 {
    (system::memory_bytes() / 5 * 4) & !(MIB - 1)
}

impl Budget {
    /// Divides `limit`; `pinned` is the size of the pool if a user gave it.
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
    pub fn pool_target(&self, used: u64, pool: PoolState, is_calm: bool) -> u64 {
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

    /// The note of the start if the pool leaves the other consumers too little.
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

/// The limit of memory of a running server. SET changes it.
#[derive(Debug, Default)]
pub struct MemoryLimit {
    limit: AtomicU64,
    /// The size of the pool was given by a user.
    pinned: AtomicBool,
    most: AtomicU64,
}

impl MemoryLimit {
    /// A limit of `limit` bytes; `pinned` says that the size of the pool was given by a user.
    pub fn new(limit: u64, pinned: bool) -> MemoryLimit {
        MemoryLimit { limit: limit.into(), pinned: pinned.into(), most: AtomicU64::new(0) }
    }

    /// Changes the limit.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// Notes whether the size of the pool is given by a user.
    pub fn set_pinned(&self, pinned: bool) {
        self.pinned.store(pinned, Relaxed);
    }

    /// Whether the size of the pool was given by a user.
    pub fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    /// The division of memory beside a pool of `pool_bytes`.
    pub fn budget(&self, pool_bytes: u64) -> Budget {
        Budget::of(self.limit.load(Relaxed), self.is_pinned().then_some(pool_bytes))
    }

    /// Notes the memory that the process uses.
    pub fn note_used(&self, bytes: u64) {
        self.most.fetch_max(bytes, Relaxed);
    }

    /// The most memory that the process has used.
    pub fn most_bytes(&self) -> u64 {
        self.most.load(Relaxed)
    }
}

/// The state of the buffer pool, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct PoolState {
    /// Its size.
    pub now: u64,
    /// The part that holds no page.
    pub free: u64,
    /// Every frame holds a page.
    pub is_full: bool,
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
            let full = |now| PoolState { now, free: 0, is_full: true };
            let mut now = budget.pool;
            assert_eq!(budget.pool_target(base, PoolState { is_full: false, ..full(now) }, true), now);
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
