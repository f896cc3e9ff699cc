//! Reads in turns, where that gives more.
//!
//! A virtual disk with one queue takes requests until the queue is empty and answers all of them then. What comes while it works
//! joins the batch and delays the answers that are ready; then all fibers go on at once, and the device idles until the first of
//! them reads again. So a read is held back while others are with such a device: the device works for one half of the fibers
//! while the processors work for the other (decisions 43 and 52).
//!
//! **Turns.** A turn runs while a worker waits for reads of it. The first worker that has the answers to all of its reads ends the
//! turn, as the device has answered everybody's at the same moment, and hands over all that are held, of whichever worker's fibers:
//! these are the next turn. A worker whose processor is taken away must not stop the others: if reads have been held for longer than
//! turns take, whoever sees it ends the turn.
//!
//! **Whether it pays** depends on the device, on how many read, and on what the processors have to do besides. So nothing is assumed:
//! windows with and without holding are compared ([`Trial`]), and reads are held while that lets more of them be done. With fewer than
//! [`OUT_MIN`] out none is held, and a comparison says nothing.
//!
//! **Invariants.** 1. While reads are held, a turn runs, or a worker is about to hand them over: who holds one puts it into the list
//! first and looks at the turn then; who ends a turn looks at the list then. 2. A running turn has a worker with reads of it out, which
//! ends it at the latest when they are done. 3. Only workers take part: the ring of a service ends with it. 4. A held read stays on its
//! parked fiber's stack, as one that the kernel has.

use super::trial::Trial;
use crate::fs::FileOp;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// With fewer reads out none is held.
const OUT_MIN: u32 = 16;
/// The shortest window that is compared, the fewest reads of one, and what took longer than this says nothing.
const WINDOW_NANOS_MIN: u64 = 50_000_000;
const WINDOW_READS_MIN: u64 = 500;
const WINDOW_NANOS_MAX: u64 = 2_000_000_000;
/// What is waited for takes at most so many times what a turn takes, and not longer than this at all.
const PATIENCE_TURNS: u64 = 2;
const PATIENCE_NANOS_MIN: u64 = 150_000;
const PATIENCE_NANOS_MAX: u64 = 10_000_000;

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
    /// How long a turn takes, smoothed; 0: not known.
    turn_nanos: AtomicU64,
    /// Are reads held in the window that runs?
    is_holding: AtomicBool,
    /// Was there one in it that would be?
    was_deep: AtomicBool,
    /// Reads done since the first window began, and when this one may end.
    done: AtomicU64,
    window_until: AtomicU64,
    windows: parking_lot::Mutex<Windows>,
}

/// The comparison, and the window that runs: when it began, and the reads done before it.
#[derive(Default)]
struct Windows {
    trial: Trial,
    began: u64,
    done: u64,
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
    pub fn admit(&self) -> Admission {
        if !self.is_holding() {
            if self.out.fetch_add(1, SeqCst) >= OUT_MIN {
                self.note_deep();
            }
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
        drop(held);
        self.note_deep();
    }
    fn note_deep(&self) {
        if !self.was_deep.load(Relaxed) {
            self.was_deep.store(true, Relaxed);
        }
    }
    /// Are there so many reads that some are held?
    pub fn is_deep(&self) -> bool {
        self.is_holding() && (self.has_held() || self.out.load(SeqCst) >= OUT_MIN)
    }
    pub fn has_held(&self) -> bool {
        self.held_count.load(SeqCst) > 0
    }
    pub fn due(&self, now: u64) -> Due {
        if !self.has_held() {
            return Due::Nothing;
        }
        let waited_for = Turn { number: self.held_turn.load(SeqCst), is_running: true };
        if self.turn.load(SeqCst) != waited_for.word() || !self.is_holding() {
            return Due::Now;
        }
        let patience = self.turn_nanos.load(Relaxed) * PATIENCE_TURNS;
        let until = self.held_since.load(SeqCst) + patience.clamp(PATIENCE_NANOS_MIN, PATIENCE_NANOS_MAX);
        if now >= until { Due::Now } else { Due::Later(until) }
    }
    /// Moves what is held to `reads`, which is empty: they are the next turn, or join the one that runs. Its number; none if another
    /// worker was quicker.
    pub fn take_held(&self, reads: &mut Vec<HeldRead>) -> Option<u64> {
        let mut held = self.held.lock();
        if held.is_empty() {
            return None;
        }
        std::mem::swap(&mut *held, reads);
        self.out.fetch_add(reads.len() as u32, SeqCst);
        let turn = self.join();
        self.held_count.store(0, SeqCst);
        Some(turn)
    }
    /// A worker has seen reads done.
    pub fn note_done(&self, reads: u32, now: u64) {
        self.out.fetch_sub(reads, SeqCst);
        self.done.fetch_add(u64::from(reads), Relaxed);
        if now >= self.window_until.load(Relaxed) {
            self.end_window(now);
        }
    }
    #[cold]
    fn end_window(&self, now: u64) {
        let Some(mut windows) = self.windows.try_lock() else { return };
        let done = self.done.load(Relaxed);
        let (reads, nanos) = (done - windows.done, now.saturating_sub(windows.began));
        let is_late = nanos > WINDOW_NANOS_MAX;
        // Another worker may have ended it just now.
        if nanos < WINDOW_NANOS_MIN || (reads < WINDOW_READS_MIN && !is_late) {
            return;
        }
        let says = self.was_deep.swap(false, Relaxed) && !is_late;
        windows.trial.note_window(says.then(|| reads as f64 / nanos as f64));
        (windows.began, windows.done) = (now, done);
        self.is_holding.store(windows.trial.is_new(), SeqCst);
        self.window_until.store(now + WINDOW_NANOS_MIN, Relaxed);
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
    /// Are reads held in the window that runs?
    pub fn is_holding(&self) -> bool {
        self.is_holding.load(Relaxed)
    }
}

/// The reads of a group that one ring has given to the kernel.
#[derive(Default)]
pub(crate) struct RingReads {
    pub out: u32,
    /// The last turn that some of them belong to, and when the ring was given them. Nanoseconds.
    pub turn: u64,
    pub began: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{FileOp, OpKind};
    use crate::sim::Rng;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    fn holding() -> ReadTurns {
        let turns = ReadTurns::default();
        turns.is_holding.store(true, SeqCst);
        turns.window_until.store(u64::MAX, SeqCst);
        turns
    }
    fn read() -> FileOp {
        FileOp::sync(-1, OpKind::Read)
    }

    #[test]
    fn a_read_waits_for_the_end_of_the_turn() {
        let (turns, op, mut taken) = (holding(), read(), Vec::new());
        for _ in 0..OUT_MIN {
            assert!(matches!(turns.admit(), Admission::InTurn(0)), "few are not held");
        }
        assert!(matches!(turns.admit(), Admission::Later));
        turns.hold(&op, 1);
        assert!(matches!(turns.due(1), Due::Later(_)));
        turns.note_done(OUT_MIN, 1);
        turns.end(7, 0, 1);
        assert!(matches!(turns.due(1), Due::Later(_)), "another turn's end is nothing to it");
        turns.end(0, 0, 1);
        assert!(matches!(turns.due(1), Due::Now));
        assert!(matches!(turns.admit(), Admission::Later), "not before those that have waited");
        assert_eq!(turns.take_held(&mut taken), Some(1));
        assert_eq!(taken.drain(..).len(), 1);
        assert!(matches!(turns.due(1), Due::Nothing));
        turns.end(1, 1, 2);
        assert_eq!(turns.take_held(&mut taken), None);
        assert!(
            !Turn::from_word(turns.turn.load(SeqCst)).is_running,
            "nobody would end a turn without reads"
        );
    }

    #[test]
    fn patience_has_an_end() {
        let (turns, op) = (holding(), read());
        (0..OUT_MIN).for_each(|_| assert!(matches!(turns.admit(), Admission::InTurn(0))));
        turns.hold(&op, 0);
        let Due::Later(until) = turns.due(0) else { panic!("it waits") };
        assert!(matches!(turns.due(until), Due::Now));
        assert!(until <= PATIENCE_NANOS_MAX);
    }

    /// A read takes so long while reads are held, and so long while they are not.
    #[test]
    fn reads_are_held_where_that_gives_more() {
        for (nanos_held, nanos_free, is_held) in [(15_000, 20_000, true), (20_000, 15_000, false)] {
            let turns = ReadTurns::default();
            let (mut now, mut held) = (0, 0);
            for read in 0..4_000_000 {
                turns.was_deep.store(true, SeqCst);
                now += if turns.is_holding() { nanos_held } else { nanos_free };
                turns.out.fetch_add(1, SeqCst);
                turns.note_done(1, now);
                held += u32::from(read >= 2_000_000 && turns.is_holding());
            }
            assert_eq!(held > 1_000_000, is_held, "{held}");
            assert!(!(100_000..1_900_000).contains(&held), "{held}");
        }
    }

    #[test]
    fn few_reads_are_no_evidence() {
        let turns = ReadTurns::default();
        let mut now = 0;
        for _ in 0..1_000_000 {
            now += if turns.is_holding() { 10_000 } else { 20_000 };
            (0..8).for_each(|_| assert!(!matches!(turns.admit(), Admission::Later)));
            turns.note_done(8, now);
        }
        let windows = turns.windows.lock();
        assert!(windows.began > 0 && !windows.trial.uses_new());
    }

    /// Threads that admit, hold, hand over and end turns at random moments: every read gets to a ring, and none waits for ever.
    #[test]
    fn no_read_is_forgotten() {
        const THREADS: u64 = 4;
        const READS: u64 = 200_000;
        let seed = crate::rand::u64() >> 8;
        println!("seed {seed}");
        let turns = holding();
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (turns, done) = (&turns, &done);
                scope.spawn(move || {
                    let op = read();
                    let mut rng = Rng::new(seed + thread);
                    let (mut out, mut turn, mut issued, mut taken) = (0, 0, 0, Vec::new());
                    let began = Instant::now();
                    while done.load(Ordering::SeqCst) < THREADS * READS {
                        assert!(
                            began.elapsed() < Duration::from_secs(60),
                            "{} are done",
                            done.load(Ordering::SeqCst)
                        );
                        if issued < READS && rng.below(4) > 0 {
                            issued += 1;
                            match turns.admit() {
                                Admission::Free => out += 1,
                                Admission::InTurn(number) => (out, turn) = (out + 1, number),
                                Admission::Later => turns.hold(&op, 0),
                            }
                        } else if out > 0 {
                            turns.note_done(out, 0);
                            done.fetch_add(u64::from(std::mem::take(&mut out)), Ordering::SeqCst);
                            turns.end(turn, 0, 0);
                        }
                        if matches!(turns.due(0), Due::Now)
                            && let Some(number) = turns.take_held(&mut taken)
                        {
                            turn = number;
                            out += taken.drain(..).len() as u32;
                        }
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), THREADS * READS);
    }
}
