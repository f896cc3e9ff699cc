//! The clock: monotonic instants and calendar time, virtual in a simulated world.

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

/// The time now.
pub fn now() -> Instant {
    unimplemented!()
}
/// Microseconds since 1970 in UTC; may jump with the machine's clock.
pub fn unix_micros() -> i64 {
    unimplemented!()
}
