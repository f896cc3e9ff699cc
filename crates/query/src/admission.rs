//! How much of long packets, long values, long texts and operators with many rows there may be at once, whoever has them.
//!
//! What is long takes its share of a [`Room`] before it takes memory, and gives it back with the answer. Until there is room
//! its connection waits, and its bytes with the kernel.
//!
//! 1. Shares are served by age, so a large one is not passed for ever by small ones.
//! 2. Who is urgent, since others may wait for the locks or the room it has, goes before all others and up to a larger bound:
//!    whoever fills the room may be waiting for it.
//! 3. A packet takes more as its bytes come, and a statement takes room for values while its packet has some, so all that is
//!    there may be held by those that want more. One session at a time goes beyond the bound, the first in line, until it
//!    has given all back.
//!
//! So there is never more than the larger bound, the longest packet and what its statement makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use keel_storage::runtime::fiber::{self, Fiber};
use keel_storage::runtime::latch;
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::interrupt::{Interrupt, InterruptState};

/// Octets that many share.
pub struct Room {
    bytes_max: AtomicU64,
    urgent_bytes_max: AtomicU64,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    used_bytes: u64,
    most_bytes: u64,
    last_ticket: u64,
    /// What each has in all its shares, of those who have any.
    held: BTreeMap<u64, u64>,
    /// Who may go beyond the bound.
    beyond: Option<u64>,
    waiting: BTreeMap<Place, Waiter>,
}

/// The order of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    patient: bool,
    ticket: u64,
}

struct Waiter {
    who: u64,
    bytes: u64,
    fiber: Fiber,
}

impl Room {
    /// Room for `bytes_max`, and for `urgent_bytes_max` with those who are urgent.
    pub fn new(bytes_max: u64, urgent_bytes_max: u64) -> Room {
        Room {
            bytes_max: bytes_max.into(),
            urgent_bytes_max: urgent_bytes_max.into(),
            line: Mutex::default(),
        }
    }

    /// A share that has nothing yet, of somebody who has no other; its age counts from here.
    pub fn share(self: &Arc<Room>) -> Share {
        self.share_by(|ticket| u64::MAX - ticket)
    }

    /// The same of a session, which may have several: together they go beyond the bound.
    pub fn share_of(self: &Arc<Room>, session: u64) -> Share {
        self.share_by(|_| session)
    }

    fn share_by(self: &Arc<Room>, who: impl FnOnce(u64) -> u64) -> Share {
        let mut line = self.line.lock();
        line.last_ticket += 1;
        Share { room: self.clone(), who: who(line.last_ticket), ticket: line.last_ticket, bytes: 0 }
    }

    /// Changes the bounds; what shares have beyond them they keep until they end.
    pub fn set_bytes_max(&self, bytes_max: u64, urgent_bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
        self.urgent_bytes_max.store(urgent_bytes_max, Relaxed);
        self.serve(self.line.lock());
    }

    /// The larger bound.
    pub fn bytes_max(&self) -> u64 {
        self.urgent_bytes_max.load(Relaxed)
    }

    /// The most that all shares had at once.
    pub fn most_bytes(&self) -> u64 {
        self.line.lock().most_bytes
    }

    /// What all shares have.
    pub fn used_bytes(&self) -> u64 {
        self.line.lock().used_bytes
    }

    fn grant(&self, line: &mut Line, place: Place, who: u64, bytes: u64) -> bool {
        let max = if place.patient { &self.bytes_max } else { &self.urgent_bytes_max }.load(Relaxed);
        let fits = line.used_bytes + bytes <= max;
        if !fits && *line.beyond.get_or_insert(who) != who {
            return false;
        }
        *line.held.entry(who).or_default() += bytes;
        line.used_bytes += bytes;
        line.most_bytes = line.most_bytes.max(line.used_bytes);
        true
    }

    /// Serves those in front for whom there is room now; wakes them.
    fn serve(&self, mut line: parking_lot::MutexGuard<'_, Line>) {
        let mut served = Vec::new();
        while let Some((&place, waiter)) = line.waiting.first_key_value() {
            let Waiter { who, bytes, fiber } = *waiter;
            if !self.grant(&mut line, place, who, bytes) {
                break;
            }
            line.waiting.remove(&place);
            served.push(fiber);
        }
        drop(line);
        fiber::wake_many(&mut served);
    }
}

/// What one packet, text, value or statement has of a room; given back when dropped.
pub struct Share {
    room: Arc<Room>,
    /// A session, or a number of the share's own.
    who: u64,
    ticket: u64,
    bytes: u64,
}

impl Share {
    /// What it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `bytes` more if nobody in front waits and there is room, or if it goes beyond the bound.
    pub fn try_take(&mut self, bytes: u64, urgent: bool) -> bool {
        let place = self.place(urgent);
        let mut line = self.room.line.lock();
        let in_front = line.beyond == Some(self.who)
            || line.waiting.first_key_value().is_none_or(|(first, _)| place < *first);
        let granted = in_front && self.room.grant(&mut line, place, self.who, bytes);
        if granted {
            self.bytes += bytes;
        }
        granted
    }

    /// Waits for `bytes` more; false where `ends` says so of the interrupt's state first.
    pub fn take(
        &mut self,
        bytes: u64,
        urgent: bool,
        interrupt: &Interrupt,
        ends: impl Fn(InterruptState) -> bool,
    ) -> bool {
        if self.try_take(bytes, urgent) {
            return true;
        }
        let place = self.place(urgent);
        let waiter = Waiter { who: self.who, bytes, fiber: fiber::current() };
        let mut line = self.room.line.lock();
        line.waiting.insert(place, waiter);
        self.room.serve(line);
        let granted = interrupt.woken_during(|| {
            while self.room.line.lock().waiting.contains_key(&place) {
                if ends(interrupt.state()) {
                    return self.give_up(place);
                }
                fiber::park(WaitEvent::Admission);
            }
            true
        });
        if granted {
            self.bytes += bytes;
        }
        granted
    }

    /// Leaves the line; true where it has been served meanwhile.
    fn give_up(&self, place: Place) -> bool {
        let mut line = self.room.line.lock();
        let served = line.waiting.remove(&place).is_none();
        self.room.serve(line);
        served
    }

    /// Gives `bytes` back, or all it has; its age stays.
    pub fn give(&mut self, bytes: u64) {
        let given = bytes.min(self.bytes);
        self.bytes -= given;
        let mut line = self.room.line.lock();
        line.used_bytes -= given;
        let left = line.held.get(&self.who).map_or(0, |held| held - given);
        if left > 0 {
            line.held.insert(self.who, left);
        } else {
            line.held.remove(&self.who);
            line.beyond.take_if(|who| *who == self.who);
        }
        self.room.serve(line);
    }

    fn place(&self, urgent: bool) -> Place {
        Place { patient: !urgent, ticket: self.ticket }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give(self.bytes);
    }
}

/// Octets from which on a value is long.
const LONG_VALUE: u64 = 256 << 10;

/// What the running statement has of a room for the longest of its values, and for its way to the client.
///
/// A value is one piece of memory, and each of a thousand sessions may want one of many megabytes. So room is taken before
/// the value is read or made, and kept until the statement ends: its values come one after the other.
pub struct LongValues {
    room: Arc<Room>,
    session: u64,
    share: Mutex<Option<Share>>,
    interrupt: Arc<Interrupt>,
}

impl LongValues {
    /// Of a session that `interrupt` ends.
    pub fn new(room: Arc<Room>, session: u64, interrupt: Arc<Interrupt>) -> LongValues {
        LongValues { room, session, share: Mutex::new(None), interrupt }
    }

    /// Waits until there is room for a value of so many octets; false where the statement is to end. `urgent` says whether
    /// others may wait for the session. Who has a latch does not wait: nobody may with one, and values of rows on pages are
    /// short.
    pub fn admit(&self, bytes: u64, urgent: impl FnOnce() -> bool) -> bool {
        if bytes < LONG_VALUE || latch::held() != 0 {
            return true;
        }
        let mut share = self.share.lock().take().unwrap_or_else(|| self.room.share_of(self.session));
        let more = (bytes * 2).saturating_sub(share.bytes());
        let ends = |state: InterruptState| state != InterruptState::None;
        let admitted = more == 0 || share.take(more, urgent(), &self.interrupt, ends);
        *self.share.lock() = Some(share);
        admitted
    }

    /// The statement has ended.
    pub fn end(&self) {
        *self.share.lock() = None;
    }
}

/// Operators of a statement that its share counts; what more there are is little beside these.
const OPERATORS_MAX: usize = 4;

/// What the running statement has of a room for its operators with many rows: sorts, groups, joins, sets of keys.
///
/// An operator begins with little. Before it outgrows that it enters, and the statement waits until there is room for an
/// operator more. So of a thousand sorts at once some tens run, each with memory enough to be done soon, and the others after
/// them.
pub struct Operators {
    room: Arc<Room>,
    state: Mutex<Entered>,
    interrupt: Arc<Interrupt>,
    /// Whether others may wait for the session.
    urgent: Box<dyn Fn() -> bool + Send + Sync>,
}

#[derive(Default)]
struct Entered {
    /// None before the first. Kept between operators, since the statement's turn is by its age.
    share: Option<Share>,
    count: usize,
}

impl Operators {
    /// What an operator takes once it has entered, with the buffers of its files.
    pub const BYTES: u64 = 128 << 10;

    /// Of a session that `interrupt` ends and for which others may wait where `urgent` says so.
    pub fn new(
        room: Arc<Room>,
        interrupt: Arc<Interrupt>,
        urgent: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Operators {
        Operators { room, state: Mutex::default(), interrupt, urgent }
    }

    /// Waits until there is room for one operator more, or the statement is to end. Who has a latch does not wait.
    pub(crate) fn enter(&self) {
        let mut state = self.state.lock();
        state.count += 1;
        if state.count > OPERATORS_MAX || latch::held() != 0 {
            return;
        }
        let mut share = state.share.take().unwrap_or_else(|| self.room.share());
        drop(state);
        // Where it is cut short, the statement ends at its next look.
        share.take(Self::BYTES, (self.urgent)(), &self.interrupt, |state| state != InterruptState::None);
        self.state.lock().share = Some(share);
    }

    /// An operator that entered has ended.
    pub(crate) fn leave(&self) {
        let mut state = self.state.lock();
        state.count -= 1;
        if state.count < OPERATORS_MAX
            && let Some(share) = &mut state.share
        {
            share.give(Self::BYTES);
        }
    }

    /// The statement has ended.
    pub fn end(&self) {
        let mut state = self.state.lock();
        if state.count == 0 {
            state.share = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_storage::runtime::sim;

    /// Runs `f` in a simulated world, where a wait for ever is found and told.
    fn world(seed: u64, f: impl FnOnce() + Send) {
        sim::run(sim::Options::new(seed), f).done();
    }

    fn take(share: &mut Share, bytes: u64, urgent: bool) -> bool {
        share.take(bytes, urgent, &Interrupt::default(), |_| false)
    }

    /// Lets all others go on until they wait.
    fn settle() {
        fiber::sleep(std::time::Duration::from_secs(1));
    }

    #[test]
    fn statements_with_long_values_go_on_in_turn() {
        world(1, || {
            let room = Arc::new(Room::new(30 << 20, 60 << 20));
            for session in 0..40 {
                let room = room.clone();
                fiber::spawn(move || {
                    let values = LongValues::new(room.clone(), session, Arc::default());
                    for bytes in [1000, 10 << 20, 4 << 20, 12 << 20] {
                        assert!(values.admit(bytes, || false));
                        assert!(room.used_bytes() <= (30 + 24) << 20);
                        settle();
                    }
                    values.end();
                });
            }
            fiber::sleep(std::time::Duration::from_secs(1000));
            assert_eq!(room.used_bytes(), 0);
            assert!(room.most_bytes() >= 24 << 20);
        });
    }

    #[test]
    fn those_that_hold_all_and_want_more_go_on_one_at_a_time() {
        for seed in 0..20 {
            world(seed, || {
                let room = Arc::new(Room::new(100, 200));
                for _ in 0..10 {
                    let room = room.clone();
                    fiber::spawn(move || {
                        let mut share = room.share();
                        for _ in 0..8 {
                            assert!(take(&mut share, 10, false));
                            assert!(room.used_bytes() <= 100 + 80);
                            fiber::yield_now();
                        }
                    });
                }
                settle();
                assert_eq!(room.used_bytes(), 0);
            });
        }
    }

    #[test]
    fn packets_do_not_keep_the_values_of_their_own_statements_out() {
        world(1, || {
            let room = Arc::new(Room::new(30 << 20, 60 << 20));
            for session in 0..5 {
                let room = room.clone();
                fiber::spawn(move || {
                    // All packets fill the room, or one goes beyond it, before a statement wants room for a value.
                    let mut packet = room.share_of(session);
                    assert!(take(&mut packet, 10 << 20, false));
                    fiber::sleep(std::time::Duration::from_millis(1));
                    let values = LongValues::new(room.clone(), session, Arc::default());
                    assert!(values.admit(10 << 20, || false));
                    assert!(room.used_bytes() <= (30 + 10 + 20) << 20);
                    values.end();
                });
            }
            let (alone, within) = (Arc::new(Room::new(30, 60)), Arc::default());
            let mut packet = alone.share_of(1);
            assert!(take(&mut packet, 40, false));
            assert!(LongValues::new(alone, 1, within).admit(LONG_VALUE, || false));
            settle();
            assert_eq!(room.used_bytes(), 0);
        });
    }

    #[test]
    fn operators_of_many_statements_go_on_in_turn() {
        for seed in 0..20 {
            world(seed, || {
                let room = Arc::new(Room::new(10 * Operators::BYTES, 20 * Operators::BYTES));
                for _ in 0..60 {
                    let room = room.clone();
                    fiber::spawn(move || {
                        let operators = Operators::new(room.clone(), Arc::default(), Box::new(|| false));
                        // Some within others, more than are counted, and one after the other.
                        for within in [1, 3, OPERATORS_MAX + 2] {
                            for _ in 0..within {
                                operators.enter();
                                assert!(room.used_bytes() <= (10 + OPERATORS_MAX as u64) * Operators::BYTES);
                                fiber::yield_now();
                            }
                            (0..within).for_each(|_| operators.leave());
                        }
                        operators.end();
                    });
                }
                settle();
                assert_eq!(room.used_bytes(), 0);
                assert!(room.most_bytes() >= 10 * Operators::BYTES);
            });
        }
    }

    #[test]
    fn the_urgent_do_not_wait_for_those_who_wait_for_them() {
        world(1, || {
            let room = Arc::new(Room::new(100, 200));
            let (mut first, mut second) = (room.share(), room.share());
            assert!(first.try_take(90, false) && second.try_take(20, false));
            assert!(!room.share().try_take(20, false), "one goes beyond the bound");
            let waiting = room.clone();
            fiber::spawn(move || assert!(take(&mut waiting.share(), 20, false)));
            settle();
            assert!(take(&mut room.share(), 80, true));
            drop((first, second));
            settle();
            assert_eq!(room.used_bytes(), 0);
        });
    }

    #[test]
    fn a_large_share_is_served_before_later_small_ones() {
        world(2, || {
            let room = Arc::new(Room::new(100, 200));
            let (mut first, mut beyond) = (room.share(), room.share());
            assert!(first.try_take(100, false) && beyond.try_take(1, false));
            let order = Arc::new(Mutex::new(Vec::new()));
            for bytes in [90, 10, 11] {
                let (room, order) = (room.clone(), order.clone());
                fiber::spawn(move || {
                    let mut share = room.share();
                    assert!(take(&mut share, bytes, false));
                    order.lock().push(bytes);
                    settle();
                });
                settle();
            }
            assert!(!room.share().try_take(1, false), "others wait");
            drop(first);
            settle();
            drop(beyond);
            settle();
            assert_eq!(order.lock()[0], 90);
        });
    }

    #[test]
    fn who_is_killed_leaves_the_line() {
        world(3, || {
            let room = Arc::new(Room::new(100, 200));
            let (mut first, mut beyond) = (room.share(), room.share());
            assert!(first.try_take(100, false) && beyond.try_take(1, false));
            let interrupt = Arc::new(Interrupt::default());
            let (waiting, switch) = (room.clone(), interrupt.clone());
            fiber::spawn(move || {
                let ends = |state| state == InterruptState::Query;
                assert!(!waiting.share().take(100, false, &switch, ends));
            });
            settle();
            interrupt.raise(InterruptState::Query);
            settle();
            assert!(room.line.lock().waiting.is_empty());
        });
    }
}
