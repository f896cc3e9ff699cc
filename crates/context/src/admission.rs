//! How much of long packets, long values, long texts and operators with many rows there may be at once, whoever has them.
//!
//! What is long takes its share of a [`Room`] before it takes memory, and gives it back with the answer. Until there is room
//! its connection waits, and its bytes with the kernel.
//!
//! 1. Shares are served by age, so a large one is not passed for ever by small ones; packets and statements each stand in lines
//!    of their own.
//! 2. Who is urgent, since others may wait for the locks or the room it has, goes before all others and up to a larger bound:
//!    whoever fills the room may be waiting for it.
//! 3. A packet takes more as its bytes come, and a statement takes room for values while its text has some, so all that is
//!    there may be held by those that want more. One statement at a time goes beyond the bounds, of all rooms of a server, so
//!    that it never waits for another that waits for it in the next room; it is the first of those that wait, until it has
//!    given all back. The same holds of texts that are read before their statements begin, which may then wait for locks
//!    that a running one has, and of packets, whose clients may be slow to send: one at a time of each.
//!
//! So there is never more than the larger bounds, the longest packet, the longest text and what one statement takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_storage::runtime::fiber::{self, Fiber};
use keel_storage::runtime::latch;
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::{Mutex, MutexGuard};

use crate::interrupt::{Interrupt, InterruptState};

/// Octets that many share.
#[derive(Clone)]
pub struct Room {
    lines: Arc<Mutex<Lines>>,
    /// Its own line among them.
    own: usize,
}

/// The lines before the rooms of a server.
struct Lines {
    rooms: Vec<Line>,
    last_ticket: u64,
    /// What each has of each room in all its shares, of those who have any.
    held: BTreeMap<(Who, usize), u64>,
    /// The statement, the text and the packet that may go beyond the bounds.
    beyond: [Option<Who>; Role::ALL.len()],
}

#[derive(Default)]
struct Line {
    patient_bytes_max: u64,
    bytes_max: u64,
    used_bytes: u64,
    most_bytes: u64,
    /// Of each role: none waits for its turn behind the others.
    waiting: [BTreeMap<ServiceOrder, Waiter>; Role::ALL.len()],
}

/// What a session does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// It runs a statement.
    Runs,
    /// It reads a statement's text, and has nothing else yet.
    Reads,
    /// It takes a packet in.
    Receives,
}

impl Role {
    /// Who is to end soonest comes first.
    const ALL: [Role; 3] = [Role::Runs, Role::Reads, Role::Receives];
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Who {
    role: Role,
    session: u64,
}

/// The order of service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ServiceOrder {
    patient: bool,
    ticket: u64,
}

#[derive(Clone, Copy)]
struct Waiter {
    who: Who,
    bytes: u64,
    fiber: Fiber,
}

impl Room {
    /// Rooms of one server, without any room as yet.
    pub fn together<const COUNT: usize>() -> [Room; COUNT] {
        let rooms = (0..COUNT).map(|_| Line::default()).collect();
        let lines = Arc::new(Mutex::new(Lines {
            rooms,
            last_ticket: 0,
            held: BTreeMap::new(),
            beyond: Default::default(),
        }));
        std::array::from_fn(|own| Room { lines: lines.clone(), own })
    }

    /// A share of a session's packet, which has nothing yet; its age counts from here.
    pub fn packet_of(&self, session: u64) -> Share {
        self.share(Who { role: Role::Receives, session })
    }

    /// The same of a session's statement, which may have several, and of several rooms: together they go beyond the bounds.
    pub fn share_of(&self, session: u64) -> Share {
        self.share(Who { role: Role::Runs, session })
    }

    /// The same of a text, which is its statement's where that runs already and has something.
    pub fn text_of(&self, session: u64) -> Share {
        let running = Who { role: Role::Runs, session };
        let runs = self.lines.lock().has_any(running);
        self.share(if runs { running } else { Who { role: Role::Reads, session } })
    }

    fn share(&self, who: Who) -> Share {
        let mut lines = self.lines.lock();
        lines.last_ticket += 1;
        Share { room: self.clone(), who, ticket: lines.last_ticket, bytes: 0 }
    }

    /// Changes the bounds, of all and with those who are urgent; what shares have beyond them they keep until they end.
    pub fn set_bytes_max(&self, patient_bytes_max: u64, bytes_max: u64) {
        let mut lines = self.lines.lock();
        let line = &mut lines.rooms[self.own];
        (line.patient_bytes_max, line.bytes_max) = (patient_bytes_max, bytes_max);
        serve(lines);
    }

    /// The larger bound.
    pub fn bytes_max(&self) -> u64 {
        self.lines.lock().rooms[self.own].bytes_max
    }

    /// The most that all shares had at once.
    pub fn most_bytes(&self) -> u64 {
        self.lines.lock().rooms[self.own].most_bytes
    }

    /// What all shares have.
    pub fn used_bytes(&self) -> u64 {
        self.lines.lock().rooms[self.own].used_bytes
    }
}

impl Lines {
    /// Gives `bytes` of `room`, if there are so many or `who` goes beyond the bounds.
    fn grant(&mut self, room: usize, place: ServiceOrder, who: Who, bytes: u64) -> bool {
        let goes_beyond = self.goes_beyond(who);
        let line = &mut self.rooms[room];
        let max = if place.patient { line.patient_bytes_max } else { line.bytes_max };
        // Who goes beyond the bounds leaves them to the others.
        let beyond = self.beyond.iter().flatten().filter_map(|who| self.held.get(&(*who, room)));
        if !goes_beyond && line.used_bytes - beyond.sum::<u64>() + bytes > max {
            return false;
        }
        line.used_bytes += bytes;
        line.most_bytes = line.most_bytes.max(line.used_bytes);
        *self.held.entry((who, room)).or_default() += bytes;
        true
    }

    /// Gives the first of a line what it waits for, if it may have it; then who is to be woken.
    fn grant_first(&mut self, room: usize, role: Role) -> Option<Fiber> {
        let (place, waiter) = self.first(room, role)?;
        let granted = self.grant(room, place, waiter.who, waiter.bytes);
        granted.then(|| self.rooms[room].waiting[role as usize].remove(&place));
        granted.then_some(waiter.fiber)
    }

    /// Has the first of all that wait in a role go beyond the bounds, if nobody does; gives its room.
    fn choose_beyond(&mut self, role: Role) -> Option<usize> {
        if self.beyond[role as usize].is_some() {
            return None;
        }
        let firsts = (0..self.rooms.len()).filter_map(|room| Some((self.first(room, role)?, room)));
        let ((_, waiter), room) = firsts.min_by_key(|((place, _), _)| *place)?;
        self.beyond[role as usize] = Some(waiter.who);
        Some(room)
    }

    fn first(&self, room: usize, role: Role) -> Option<(ServiceOrder, Waiter)> {
        let first = self.rooms[room].waiting[role as usize].first_key_value();
        first.map(|(place, waiter)| (*place, *waiter))
    }

    fn has_any(&self, who: Who) -> bool {
        self.held.range((who, 0)..=(who, usize::MAX)).next().is_some()
    }

    fn nobody_waits(&self, role: Role) -> bool {
        self.rooms.iter().all(|line| line.waiting[role as usize].is_empty())
    }

    fn goes_beyond(&self, who: Who) -> bool {
        self.beyond[who.role as usize] == Some(who)
    }
}

/// Serves those in front of each line for whom there is room now; wakes them.
fn serve(mut lines: MutexGuard<'_, Lines>) {
    let mut served = Vec::new();
    for role in Role::ALL {
        for room in 0..lines.rooms.len() {
            served.extend(std::iter::from_fn(|| lines.grant_first(room, role)));
        }
        if let Some(room) = lines.choose_beyond(role) {
            served.extend(std::iter::from_fn(|| lines.grant_first(room, role)));
        }
    }
    drop(lines);
    fiber::wake_many(&mut served);
}

/// What one packet, text, value or statement has of a room; given back when dropped.
pub struct Share {
    room: Room,
    who: Who,
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
        let (room, place) = (self.room.own, self.place(urgent));
        let mut lines = self.room.lines.lock();
        let in_front = lines.goes_beyond(self.who)
            || lines.first(room, self.who.role).is_none_or(|(first, _)| place < first);
        let mut granted = in_front && lines.grant(room, place, self.who, bytes);
        if in_front && !granted && lines.nobody_waits(self.who.role) {
            lines.beyond[self.who.role as usize].get_or_insert(self.who);
            granted = lines.grant(room, place, self.who, bytes);
        }
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
        let (room, place) = (self.room.own, self.place(urgent));
        let waiter = Waiter { who: self.who, bytes, fiber: fiber::current() };
        let role = self.who.role as usize;
        let mut lines = self.room.lines.lock();
        lines.rooms[room].waiting[role].insert(place, waiter);
        serve(lines);
        let granted = interrupt.woken_during(|| {
            while self.room.lines.lock().rooms[room].waiting[role].contains_key(&place) {
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
    fn give_up(&self, place: ServiceOrder) -> bool {
        let mut lines = self.room.lines.lock();
        let waiting = &mut lines.rooms[self.room.own].waiting[self.who.role as usize];
        let served = waiting.remove(&place).is_none();
        serve(lines);
        served
    }

    /// Gives `bytes` back, or all it has; its age stays.
    pub fn give(&mut self, bytes: u64) {
        let given = bytes.min(self.bytes);
        self.bytes -= given;
        let (who, room) = (self.who, self.room.own);
        let mut lines = self.room.lines.lock();
        lines.rooms[room].used_bytes -= given;
        match lines.held.get(&(who, room)).map_or(0, |held| held - given) {
            0 => lines.held.remove(&(who, room)),
            left => lines.held.insert((who, room), left),
        };
        if !lines.has_any(who) {
            lines.beyond[who.role as usize].take_if(|beyond| *beyond == who);
        }
        serve(lines);
    }

    fn place(&self, urgent: bool) -> ServiceOrder {
        ServiceOrder { patient: !urgent, ticket: self.ticket }
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
    room: Room,
    session: u64,
    share: Mutex<Option<Share>>,
    interrupt: Arc<Interrupt>,
}

impl LongValues {
    /// Of a session that `interrupt` ends.
    pub fn new(room: Room, session: u64, interrupt: Arc<Interrupt>) -> LongValues {
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
    room: Room,
    session: u64,
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
        room: Room,
        session: u64,
        interrupt: Arc<Interrupt>,
        urgent: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Operators {
        Operators { room, session, state: Mutex::default(), interrupt, urgent }
    }

    /// Waits until there is room for one operator more, or the statement is to end. Who has a latch does not wait.
    pub fn enter(&self) {
        let mut state = self.state.lock();
        state.count += 1;
        if state.count > OPERATORS_MAX || latch::held() != 0 {
            return;
        }
        let mut share = state.share.take().unwrap_or_else(|| self.room.share_of(self.session));
        drop(state);
        // Where it is cut short, the statement ends at its next look.
        share.take(Self::BYTES, (self.urgent)(), &self.interrupt, |state| state != InterruptState::None);
        self.state.lock().share = Some(share);
    }

    /// An operator that entered has ended.
    pub fn leave(&self) {
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

    fn room_for(bytes_max: u64, urgent_bytes_max: u64) -> Room {
        let [room] = Room::together();
        room.set_bytes_max(bytes_max, urgent_bytes_max);
        room
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
            let room = room_for(30 << 20, 60 << 20);
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
                let room = room_for(100, 200);
                for session in 0..10 {
                    let room = room.clone();
                    fiber::spawn(move || {
                        let mut share = room.share_of(session);
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
            let room = room_for(30 << 20, 60 << 20);
            for session in 0..5 {
                let room = room.clone();
                fiber::spawn(move || {
                    // All packets fill the room, or one goes beyond it, before a statement wants room for a value.
                    let mut packet = room.packet_of(session);
                    assert!(take(&mut packet, 10 << 20, false));
                    fiber::sleep(std::time::Duration::from_millis(1));
                    let values = LongValues::new(room.clone(), session, Arc::default());
                    assert!(values.admit(10 << 20, || false));
                    assert!(room.used_bytes() <= (30 + 10 + 20) << 20);
                    values.end();
                });
            }
            let (alone, within) = (room_for(30, 60), Arc::default());
            let mut packet = alone.packet_of(1);
            assert!(take(&mut packet, 40, false));
            assert!(LongValues::new(alone, 1, within).admit(LONG_VALUE, || false));
            settle();
            assert_eq!(room.used_bytes(), 0);
        });
    }

    #[test]
    fn statements_do_not_wait_for_each_other_from_room_to_room() {
        for seed in 0..20 {
            world(seed, || {
                let rooms: [Room; 3] = Room::together();
                rooms.iter().for_each(|room| room.set_bytes_max(100, 200));
                for session in 0..12 {
                    let rooms = rooms.clone();
                    fiber::spawn(move || {
                        let mut shares = rooms.each_ref().map(|room| room.share_of(session));
                        for step in 0..6 {
                            assert!(take(&mut shares[(session as usize + step) % 3], 40, false));
                            fiber::yield_now();
                        }
                    });
                }
                settle();
                for room in &rooms {
                    assert!(room.used_bytes() == 0 && room.most_bytes() <= 100 + 80);
                }
            });
        }
    }

    #[test]
    fn statements_do_not_wait_for_a_packet_that_comes_slowly() {
        world(1, || {
            let room = room_for(100, 200);
            let mut packet = room.packet_of(1);
            assert!(take(&mut packet, 150, false));
            assert!(!room.packet_of(2).try_take(110, false), "one packet goes beyond the bound");
            assert!(room.packet_of(2).try_take(90, false), "and leaves it to the others");
            for session in 2..6 {
                let room = room.clone();
                fiber::spawn(move || {
                    let mut value = room.share_of(session);
                    assert!(take(&mut value, 10, false) && take(&mut value, 10, false));
                });
            }
            settle();
            assert_eq!(room.used_bytes(), 150);
        });
    }

    #[test]
    fn operators_of_many_statements_go_on_in_turn() {
        for seed in 0..20 {
            world(seed, || {
                let room = room_for(10 * Operators::BYTES, 20 * Operators::BYTES);
                for session in 0..60 {
                    let room = room.clone();
                    fiber::spawn(move || {
                        let (within, urgent) = (Arc::default(), Box::new(|| false));
                        let operators = Operators::new(room.clone(), session, within, urgent);
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
            let room = room_for(100, 200);
            let (mut first, mut second) = (room.share_of(1), room.share_of(2));
            assert!(first.try_take(90, false) && second.try_take(20, false));
            assert!(!room.share_of(3).try_take(20, false), "one goes beyond the bound");
            let waiting = room.clone();
            fiber::spawn(move || assert!(take(&mut waiting.share_of(3), 20, false)));
            settle();
            assert!(take(&mut room.share_of(4), 80, true));
            drop((first, second));
            settle();
            assert_eq!(room.used_bytes(), 0);
        });
    }

    #[test]
    fn a_large_share_is_served_before_later_small_ones() {
        world(2, || {
            let room = room_for(100, 200);
            let (mut first, mut beyond) = (room.share_of(1), room.share_of(2));
            assert!(first.try_take(100, false) && beyond.try_take(1, false));
            let order = Arc::new(Mutex::new(Vec::new()));
            for bytes in [90, 10, 11] {
                let (room, order) = (room.clone(), order.clone());
                fiber::spawn(move || {
                    let mut share = room.share_of(bytes);
                    assert!(take(&mut share, bytes, false));
                    order.lock().push(bytes);
                    settle();
                });
                settle();
            }
            assert!(!room.share_of(3).try_take(1, false), "others wait");
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
            let room = room_for(100, 200);
            let (mut first, mut beyond) = (room.share_of(1), room.share_of(2));
            assert!(first.try_take(100, false) && beyond.try_take(1, false));
            let interrupt = Arc::new(Interrupt::default());
            let (waiting, switch) = (room.clone(), interrupt.clone());
            fiber::spawn(move || {
                let ends = |state| state == InterruptState::Query;
                assert!(!waiting.share_of(3).take(100, false, &switch, ends));
            });
            settle();
            interrupt.raise(InterruptState::Query);
            settle();
            assert!(room.lines.lock().first(0, Role::Runs).is_none());
        });
    }
}
