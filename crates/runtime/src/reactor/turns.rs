//! Reads in turns, where the device answers in batches.
//!
//! A virtual disk with one queue takes requests until the queue is empty and answers all of them then. What comes while it works
//! joins the batch and delays the answers that are ready; then all fibers go on at once, and the device idles until the first of
//! them reads again. So a read is held back while others are with such a device: the device works for one half of the fibers
//! while the processors work for the other (decision 43).
//!
//! **Turns.** A turn runs while a worker waits for reads of it. The first worker that has the answers to all of its reads ends the
//! turn, as the device has answered everybody's at the same moment, and hands over all that are held, of whichever worker's fibers:
//! these are the next turn. A worker whose processor is taken away must not stop the others: if reads have been held for longer than
//! turns take, whoever sees it ends the turn.
//!
//! **Neither few nor many.** A turn of few reads costs more than it gives, so reads join until [`OUT_MIN`] are out. And more readers than
//! the queue has room for are held by the kernel, which hands over without a gap: with more than [`READS_MAX`] nothing is held for a while.
//!
//! **Evidence.** A device that answers reads one by one is never made to wait: [`RingReads`] sees what is answered at the same moment,
//! and reads are held only while that speaks for batches.
//!
//! **Invariants.** 1. While reads are held, a turn runs, or a worker is about to hand them over: who holds one puts it into the list
//! first and looks at the turn then; who ends a turn looks at the list then. 2. A running turn has a worker with reads of it out, which
//! ends it at the latest when they are done. 3. Only workers take part: the ring of a service ends with it. 4. A held read stays on its
//! parked fiber's stack, as one that the kernel has.

use crate::fs::FileOp;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// With fewer reads out none is held.
const OUT_MIN: u32 = 16;
/// With more reads, out and held, none is held for so long.
const READS_MAX: u32 = 72;
const CROWDED_NANOS: u64 = 50_000_000;
/// Reads of one ring that must be out for their completion to be evidence. Fewer are often done together by chance.
const EVIDENCE_READS_MIN: u32 = 8;
/// What answers sooner after its submission gains nothing by turns.
const TURN_NANOS_MIN: u64 = 150_000;
/// The first answer must come so soon after a moment without one,
const WATCHED_NANOS_MAX: u64 = 50_000;
/// and so soon after the first all must be there.
const BURST_NANOS: u64 = 100_000;
/// What is waited for takes at most so many times what a turn takes, and not longer than this at all.
const PATIENCE_TURNS: u64 = 2;
const PATIENCE_NANOS_MAX: u64 = 10_000_000;
/// The score from which on reads are held, and the highest.
const SCORE_TO_HOLD: i32 = 12;
const SCORE_MAX: i32 = 24;
/// What a batch adds to it, and what answers one by one add.
const BATCH_POINTS: i32 = 1;
const SINGLES_POINTS: i32 = -1;

/// The reads of a group of workers.
#[derive(Default)]
pub(crate) struct ReadTurns {
    /// A [`Turn`].
    turn: AtomicU64,
    /// Reads that rings have been given, and of which no worker has seen that they are done.
    out: AtomicU32,
    held: parking_lot::Mutex<Vec<HeldRead>>,
    /// Length of `held`, the turn that the first of them waits for, and since when.
    held_count: AtomicU32,
    held_turn: AtomicU64,
    held_since: AtomicU64,
    /// Until when there are too many reads to hold any.
    crowded_until: AtomicU64,
    /// How long a turn takes, smoothed; 0: not known.
    turn_nanos: AtomicU64,
    /// Does the device answer in batches? Between 0 and `SCORE_MAX`.
    score: AtomicI32,
}

/// A read that no ring has been given yet.
pub(crate) struct HeldRead(pub *const FileOp);

// SAFETY: the operation stays where it is until it is complete, and any worker may submit it (`FileOp`).
unsafe impl Send for HeldRead {}

/// What becomes of a new read.
pub(crate) enum Admission {
    /// The ring is given it at once.
    Free,
    /// And it belongs to this turn.
    InTurn(u64),
    /// It has to be held.
    Later,
}

/// What has to be done about held reads.
pub(crate) enum Due {
    /// There are none.
    Nothing,
    /// They wait for the turn to end, until this time at most.
    Later(u64),
    /// To hand them over.
    Now,
}

/// The turn that runs, or the one that begins with the next read.
#[derive(Clone, Copy)]
struct Turn {
    number: u64,
    is_running: bool,
}

impl Turn {
    fn from_word(word: u64) -> Turn {
        Turn { number: word >> 1, is_running: word & 1 == 1 }
    }
    fn word(self) -> u64 {
        self.number << 1 | u64::from(self.is_running)
    }
}

impl ReadTurns {
    pub fn admit(&self, now: u64) -> Admission {
        if !self.is_holding(now) {
            self.out.fetch_add(1, SeqCst);
            return Admission::Free;
        }
        let is_running = || Turn::from_word(self.turn.load(SeqCst)).is_running;
        if self.has_held() || (self.out.load(SeqCst) >= OUT_MIN && is_running()) {
            return Admission::Later;
        }
        self.out.fetch_add(1, SeqCst);
        Admission::InTurn(self.join())
    }
    /// Takes part in the turn that runs, or begins it; its number.
    fn join(&self) -> u64 {
        // The two words of a turn differ in the lowest bit.
        Turn::from_word(self.turn.fetch_or(1, SeqCst)).number
    }
    /// Holds a read back. The caller looks then what is due.
    pub fn hold(&self, op: &FileOp, now: u64) {
        let mut held = self.held.lock();
        if held.is_empty() {
            self.held_turn.store(Turn::from_word(self.turn.load(SeqCst)).number, SeqCst);
            self.held_since.store(now, SeqCst);
        }
        held.push(HeldRead(op));
        self.held_count.store(held.len() as u32, SeqCst);
        if held.len() as u32 + self.out.load(SeqCst) > READS_MAX {
            self.crowded_until.store(now + CROWDED_NANOS, SeqCst);
        }
    }
    pub fn has_held(&self) -> bool {
        self.held_count.load(SeqCst) > 0
    }
    pub fn due(&self, now: u64) -> Due {
        if !self.has_held() {
            return Due::Nothing;
        }
        let waited_for = Turn { number: self.held_turn.load(SeqCst), is_running: true };
        if self.turn.load(SeqCst) != waited_for.word() || !self.is_holding(now) {
            return Due::Now;
        }
        let patience = self.turn_nanos.load(Relaxed) * PATIENCE_TURNS;
        let until = self.held_since.load(SeqCst) + patience.clamp(TURN_NANOS_MIN, PATIENCE_NANOS_MAX);
        if now >= until { Due::Now } else { Due::Later(until) }
    }
    /// Moves what is held to `reads`, which is empty: they are the next turn, or join the one that runs. Its number.
    pub fn take_held(&self, reads: &mut Vec<HeldRead>) -> u64 {
        let mut held = self.held.lock();
        std::mem::swap(&mut *held, reads);
        self.out.fetch_add(reads.len() as u32, SeqCst);
        let turn = self.join();
        self.held_count.store(0, SeqCst);
        turn
    }
    /// A worker has seen reads done.
    pub fn note_done(&self, reads: u32) {
        self.out.fetch_sub(reads, SeqCst);
    }
    /// A worker has the answers to all of its reads; it began this turn, or joined it, at this time.
    pub fn end(&self, number: u64, began: u64, now: u64) {
        let running = Turn { number, is_running: true };
        let next = Turn { number: number + 1, is_running: false };
        if self.turn.compare_exchange(running.word(), next.word(), SeqCst, SeqCst).is_ok() {
            let nanos = now.saturating_sub(began);
            let mean = match self.turn_nanos.load(Relaxed) {
                0 => nanos,
                mean => mean,
            };
            // A processor that was taken away for long must not teach patience.
            self.turn_nanos.store((mean * 7 + nanos.min(mean * 4)) / 8, Relaxed);
        }
    }
    /// Takes evidence in.
    pub fn note_answers(&self, answers: Answers) {
        let points = match answers {
            Answers::Batch => BATCH_POINTS,
            Answers::Singles => SINGLES_POINTS,
            Answers::Unclear => return,
        };
        // Workers may overwrite each other's points: there are more where they came from.
        let score = (self.score.load(Relaxed) + points).clamp(0, SCORE_MAX);
        self.score.store(score, Relaxed);
    }
    /// Are reads held at all?
    fn is_holding(&self, now: u64) -> bool {
        self.is_batching() && now >= self.crowded_until.load(SeqCst)
    }
    /// Does the device answer in batches?
    pub fn is_batching(&self) -> bool {
        self.score.load(Relaxed) >= SCORE_TO_HOLD
    }
}

/// How a device has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// All at once.
    Batch,
    /// As each was ready.
    Singles,
    /// Too few, or nobody has looked in time.
    Unclear,
}

/// The reads that one ring has given to the kernel, and how they are answered. Times are nanoseconds of one clock.
#[derive(Default)]
pub(crate) struct RingReads {
    given: u64,
    done: u64,
    /// How many had been given at the last mark and at the one before; `TURN_NANOS_MIN` or more lie between two.
    marks: [Mark; 2],
    /// The last moment at which the ring had no answer.
    none_done_at: u64,
    burst: Option<Burst>,
    /// The last turn that this ring has reads of, and when it was given the first of them.
    turn: u64,
    turn_began: u64,
}

#[derive(Clone, Copy, Default)]
struct Mark {
    at: u64,
    given: u64,
}

/// Answers that may turn out to be a batch: the first of them wakes the worker while the others are on their way.
struct Burst {
    /// How many reads were out before it.
    of: u32,
    /// Were most of them given long ago?
    is_old: bool,
    done: u32,
    began: u64,
    /// The last look at the ring that belongs to it.
    looked: u64,
}

impl RingReads {
    pub fn out(&self) -> u32 {
        (self.given - self.done) as u32
    }
    /// The kernel is being given reads.
    pub fn note_given(&mut self, reads: u32, now: u64) {
        self.given += u64::from(reads);
        if now >= self.marks[0].at + TURN_NANOS_MIN {
            self.marks = [Mark { at: now, given: self.given }, self.marks[0]];
        }
    }
    /// They belong to this turn.
    pub fn note_turn(&mut self, turn: u64, now: u64) {
        (self.turn, self.turn_began) = (turn, now);
    }
    /// Of the last turn: its number and when it began.
    pub fn turn(&self) -> (u64, u64) {
        (self.turn, self.turn_began)
    }
    /// The ring has no answer to give.
    pub fn note_none_done(&mut self, now: u64) -> Answers {
        self.none_done_at = now;
        self.note_look(0, now)
    }
    /// It has given some.
    pub fn note_done(&mut self, reads: u32, now: u64) -> Answers {
        let answers = self.note_look(reads, now);
        let was_watched = now <= self.none_done_at + WATCHED_NANOS_MAX;
        if self.burst.is_none() && was_watched && self.out() >= EVIDENCE_READS_MIN {
            let mark = self.marks.iter().find(|mark| now >= mark.at + TURN_NANOS_MIN);
            let old = mark.map_or(0, |mark| mark.given.saturating_sub(self.done) as u32);
            let of = self.out();
            self.burst = Some(Burst { of, is_old: old >= of / 2, done: reads, began: now, looked: now });
        }
        self.done += u64::from(reads);
        answers
    }
    /// Judges a burst that is over.
    fn note_look(&mut self, reads: u32, now: u64) -> Answers {
        let Some(burst) = &mut self.burst else { return Answers::Unclear };
        if now <= burst.began + BURST_NANOS {
            burst.done += reads;
            burst.looked = now;
            return Answers::Unclear;
        }
        let Burst { of, is_old, done, began, looked } = *burst;
        self.burst = None;
        let is_all = done >= of - of / 8;
        let was_seen = looked >= began + BURST_NANOS / 2;
        match (is_all, is_old) {
            (true, true) => Answers::Batch,
            (true, false) => Answers::Singles,
            (false, true) if was_seen => Answers::Singles,
            (false, _) => Answers::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{FileOp, OpKind};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    const MICRO: u64 = 1000;

    fn batching() -> ReadTurns {
        let turns = ReadTurns::default();
        (0..SCORE_MAX).for_each(|_| turns.note_answers(Answers::Batch));
        turns
    }
    fn read() -> FileOp {
        FileOp::sync(-1, OpKind::Read)
    }
    /// 32 reads in a row are answered `first` after they were submitted, the others `each` after one another; the worker looks every 10 µs.
    fn verdicts(first: u64, each: u64) -> Vec<Answers> {
        let mut reads = RingReads::default();
        let mut now = 1_000_000_000;
        let mut verdicts = Vec::new();
        for _ in 0..40 {
            reads.note_given(32, now);
            let given = now;
            let mut done = 0;
            while done < 32 {
                now += 10 * MICRO;
                let ready = match (now - given).checked_sub(first) {
                    None => 0,
                    Some(_) if each == 0 => 32,
                    Some(later) => (later / each + 1).min(32) as u32,
                };
                let answers =
                    if ready > done { reads.note_done(ready - done, now) } else { reads.note_none_done(now) };
                done = ready;
                verdicts.push(answers);
            }
            now += 200 * MICRO;
        }
        verdicts.retain(|&answers| answers != Answers::Unclear);
        verdicts
    }

    #[test]
    fn batches_and_single_answers_are_told_apart() {
        let batch = verdicts(600 * MICRO, 0);
        assert!(batch.len() > 30 && batch.iter().all(|&a| a == Answers::Batch), "{batch:?}");
        for (first, each) in [(400, 20), (80, 20), (200, 10)] {
            let singles = verdicts(first * MICRO, each * MICRO);
            assert!(singles.len() > 10, "{first} {each}: {singles:?}");
            assert!(singles.iter().all(|&a| a == Answers::Singles), "{first} {each}: {singles:?}");
        }
        for (first, each) in [(80, 0), (80, 5), (100, 2)] {
            let fast = verdicts(first * MICRO, each * MICRO);
            assert!(!fast.contains(&Answers::Batch), "nothing to gain: {first} {each}: {fast:?}");
        }
    }

    #[test]
    fn nothing_is_held_until_evidence_speaks_for_batches() {
        let turns = ReadTurns::default();
        for _ in 0..100 {
            assert!(matches!(turns.admit(0), Admission::Free));
        }
        let turns = batching();
        assert!(turns.is_batching());
        (0..SCORE_MAX).for_each(|_| turns.note_answers(Answers::Singles));
        assert!(!turns.is_batching());
    }

    #[test]
    fn a_read_waits_for_the_end_of_the_turn() {
        let (turns, op, mut taken) = (batching(), read(), Vec::new());
        for _ in 0..OUT_MIN {
            assert!(matches!(turns.admit(0), Admission::InTurn(0)), "few are not held");
        }
        assert!(matches!(turns.admit(0), Admission::Later));
        turns.hold(&op, 1);
        assert!(matches!(turns.due(1), Due::Later(_)));
        turns.note_done(OUT_MIN);
        turns.end(7, 0, 1);
        assert!(matches!(turns.due(1), Due::Later(_)), "another turn's end is nothing to it");
        turns.end(0, 0, 1);
        assert!(matches!(turns.due(1), Due::Now));
        assert!(matches!(turns.admit(1), Admission::Later), "not before those that have waited");
        assert_eq!(turns.take_held(&mut taken), 1);
        assert_eq!(taken.len(), 1);
        assert!(matches!(turns.due(1), Due::Nothing));
    }

    #[test]
    fn patience_has_an_end() {
        let (turns, op) = (batching(), read());
        (0..OUT_MIN).for_each(|_| assert!(matches!(turns.admit(0), Admission::InTurn(0))));
        turns.hold(&op, 0);
        let Due::Later(until) = turns.due(0) else { panic!("it waits") };
        assert!(matches!(turns.due(until), Due::Now));
        assert!(until <= PATIENCE_NANOS_MAX);
    }

    #[test]
    fn a_crowd_is_left_to_the_kernel() {
        let (turns, op, mut taken) = (batching(), read(), Vec::new());
        (0..OUT_MIN).for_each(|_| assert!(matches!(turns.admit(0), Admission::InTurn(0))));
        (0..=READS_MAX - OUT_MIN).for_each(|_| turns.hold(&op, 0));
        assert!(matches!(turns.due(0), Due::Now));
        turns.take_held(&mut taken);
        assert!(matches!(turns.admit(1), Admission::Free));
        turns.note_done(READS_MAX + 2);
        assert!(matches!(turns.admit(CROWDED_NANOS), Admission::InTurn(_)));
    }

    /// Threads that admit, hold, hand over and end turns at random moments: every read gets to a ring, and none waits for ever.
    #[test]
    fn no_read_is_forgotten() {
        const THREADS: u64 = 4;
        const READS: u64 = 200_000;
        let seed = crate::rand::u64() | 1;
        println!("seed {seed}");
        let turns = batching();
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (turns, done) = (&turns, &done);
                scope.spawn(move || {
                    let op = read();
                    let mut random = seed.rotate_left(thread as u32);
                    let (mut out, mut turn, mut issued, mut taken) = (0, 0, 0, Vec::new());
                    let began = Instant::now();
                    while done.load(Ordering::SeqCst) < THREADS * READS {
                        assert!(
                            began.elapsed() < Duration::from_secs(60),
                            "{} are done",
                            done.load(Ordering::SeqCst)
                        );
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        if issued < READS && !random.is_multiple_of(4) {
                            issued += 1;
                            match turns.admit(0) {
                                Admission::Free => out += 1,
                                Admission::InTurn(number) => (out, turn) = (out + 1, number),
                                Admission::Later => turns.hold(&op, 0),
                            }
                        } else if out > 0 {
                            turns.note_done(out);
                            done.fetch_add(u64::from(std::mem::take(&mut out)), Ordering::SeqCst);
                            turns.end(turn, 0, 0);
                        }
                        if matches!(turns.due(0), Due::Now) {
                            turn = turns.take_held(&mut taken);
                            out += taken.drain(..).len() as u32;
                        }
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), THREADS * READS);
    }
}
