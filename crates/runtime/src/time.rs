//! The clock: monotonic instants and calendar time, virtual in a simulated world.

use std::cell::Cell;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point of monotonic time in nanoseconds; its zero means nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every other instant.
    pub const FAR: Instant = Instant(u64::MAX);

    /// Nanoseconds of the clock.
    #[inline]
    pub fn nanos(self) -> u64 {
        self.0
    }
    /// Time from `earlier` to here, zero if that lies ahead.
    #[inline]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
    /// Time from here to now.
    #[inline]
    pub fn elapsed(self) -> Duration {
        now().since(self)
    }
}
impl Add<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}
impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Sub<Duration> for Instant {
    type Output = Instant;
    #[inline]
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}
impl Sub for Instant {
    type Output = Duration;
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

thread_local! {
    /// The clock of a simulated world; 0 in the real one.
    static VIRTUAL: Cell<u64> = const { Cell::new(0) };
    static VIRTUAL_EPOCH_MICROS: Cell<i64> = const { Cell::new(0) };
}

/// The time now.
#[inline]
pub fn now() -> Instant {
    match VIRTUAL.get() {
        0 => Instant(kernel_clock(libc::CLOCK_MONOTONIC)),
        nanos => Instant(nanos),
    }
}
/// The time at which this thread's worker last looked at the clock: not later than now, and not earlier than the calling
/// fiber's last wait or pause. Costs nothing.
#[inline]
pub fn recent() -> Instant {
    match (VIRTUAL.get(), crate::worker::own()) {
        (0, Some(worker)) => Instant(worker.now.get()),
        _ => now(),
    }
}
/// Microseconds since 1970 in UTC; may jump with the machine's clock.
pub fn unix_micros() -> i64 {
    match VIRTUAL.get() {
        0 => (kernel_clock(libc::CLOCK_REALTIME) / 1000) as i64,
        nanos => VIRTUAL_EPOCH_MICROS.get() + (nanos / 1000) as i64,
    }
}

/// Processor time of the calling thread in nanoseconds; in a simulated world, its clock.
pub(crate) fn thread_cpu() -> u64 {
    match VIRTUAL.get() {
        0 => kernel_clock(libc::CLOCK_THREAD_CPUTIME_ID),
        nanos => nanos,
    }
}

fn kernel_clock(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec, ours; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Sets this thread's virtual clock.
pub(crate) fn set_virtual(nanos: u64) {
    VIRTUAL.set(nanos);
}
/// Sets what the virtual clock's zero is in calendar time.
pub(crate) fn set_virtual_epoch(micros: i64) {
    VIRTUAL_EPOCH_MICROS.set(micros);
}
/// Moves calendar time by so much.
pub(crate) fn jump_virtual_epoch(micros: i64) {
    VIRTUAL_EPOCH_MICROS.set(VIRTUAL_EPOCH_MICROS.get() + micros);
}
