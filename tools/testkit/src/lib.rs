//! What Keel's outer tests are made of: server processes, a client that shows every byte of an answer that a user can see,
//! and runners that put the same script to Keel and to MariaDB and compare.
//!
//! The client here shares no code with `keel-wire`: a mistake made twice would otherwise cancel out.

pub mod child;
pub mod client;
pub mod container;
pub mod definitions;
pub mod differential;
pub mod history;
pub mod interleave;
pub mod ledger;
pub mod mtr;
pub mod process;
pub mod queries;
pub mod schedules;

/// All database tests that sysbench 1.0.20 brings along.
pub const SYSBENCH_TESTS: &[&str] = &[
    "oltp_point_select",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_read_write",
    "oltp_insert",
    "oltp_delete",
    "oltp_update_index",
    "oltp_update_non_index",
    "select_random_points",
    "select_random_ranges",
    "bulk_insert",
];

/// A small seeded generator (xorshift64*), so that a failing run can be repeated from its printed seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that always yields the same sequence for `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The same for seeds that follow each other, whose sequences would begin alike.
    pub fn of_neighbours(seed: u64) -> Random {
        let mut random = Random::new(seed);
        for _ in 0..8 {
            random.next_u64();
        }
        random
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}
