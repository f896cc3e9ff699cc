//! KILL QUERY, KILL CONNECTION and max_statement_time: one switch per session that ends waits and loops.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use keel_base::{SqlError, errors};
use keel_storage::runtime::fiber::Fiber;
use parking_lot::Mutex;

/// Why a statement is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptState {
    /// It is not.
    None,
    /// KILL QUERY.
    Query,
    /// `max_statement_time` has passed.
    Timeout,
    /// KILL CONNECTION, or the server stops.
    Connection,
}

/// A session's switch. Raised from anywhere, lowered by the session when it begins the next statement.
#[derive(Default)]
pub struct Interrupt {
    /// Changed, and the engine's part with it, under the mutex of `waiter`.
    state: AtomicU8,
    engine: keel_storage::Interrupt,
    /// The session's fiber while it waits for something that is not the engine's.
    waiter: Mutex<Option<Fiber>>,
    /// Tells whether the client is gone.
    peer: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Interrupt {
    /// Says who knows whether the client is gone, asked on the session's fiber; once.
    pub fn set_peer(&self, is_gone: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.peer.set(Box::new(is_gone));
    }

    /// Whether nobody waits for the statement's answer any more.
    pub fn is_peer_gone(&self) -> bool {
        self.peer.get().is_some_and(|is_gone| is_gone())
    }

    /// Ends what the session does; a killed connection stays killed.
    pub fn raise(&self, state: InterruptState) {
        self.raise_after(state, || ());
    }

    /// The same; `prepare` runs when the session can see it and before it is woken.
    pub fn raise_after(&self, state: InterruptState, prepare: impl FnOnce()) {
        let waiter = self.waiter.lock();
        self.state.fetch_max(state as u8, Ordering::SeqCst);
        prepare();
        self.engine.raise();
        if let Some(fiber) = *waiter {
            fiber.wake();
        }
    }

    /// Forgets a killed query; called when a statement ends or begins.
    pub fn clear_query(&self) {
        if self.state() != InterruptState::None {
            let _both = self.waiter.lock();
            if self.state() != InterruptState::Connection {
                self.lower();
            }
        }
    }

    /// Runs what takes an ended statement's work back, which is not ended in turn by what ended that.
    pub fn held_off<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = {
            let _both = self.waiter.lock();
            let before = self.state();
            self.lower();
            before
        };
        let result = work();
        if before != InterruptState::None {
            self.raise(before);
        }
        result
    }

    /// Call under the mutex.
    fn lower(&self) {
        self.state.store(0, Ordering::SeqCst);
        self.engine.clear();
    }

    /// Whether and why the statement is to end.
    #[inline]
    pub fn state(&self) -> InterruptState {
        match self.state.load(Ordering::Relaxed) {
            0 => InterruptState::None,
            1 => InterruptState::Query,
            2 => InterruptState::Timeout,
            _ => InterruptState::Connection,
        }
    }

    /// The engine's part of the switch, given to each transaction.
    pub fn engine(&self) -> &keel_storage::Interrupt {
        &self.engine
    }

    /// Has the calling fiber woken by [`Interrupt::raise`] while `wait` runs, which looks at [`Interrupt::state`] after
    /// each wake.
    pub fn woken_during<T>(&self, wait: impl FnOnce() -> T) -> T {
        *self.waiter.lock() = Some(keel_storage::runtime::fiber::current());
        let result = wait();
        *self.waiter.lock() = None;
        result
    }
}

/// The error of a statement that ends because of `state`.
#[cold]
pub fn interrupted(state: InterruptState) -> SqlError {
    match state {
        InterruptState::Connection => errors::connection_killed(),
        InterruptState::Timeout => errors::statement_timeout(),
        _ => errors::query_interrupted(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_say_the_same_whoever_comes_first() {
        let interrupt = Interrupt::default();
        for round in 0..2000 {
            std::thread::scope(|scope| {
                let raised = scope.spawn(|| interrupt.raise(InterruptState::Query));
                if round % 2 == 0 {
                    interrupt.clear_query();
                } else {
                    interrupt.held_off(|| ());
                }
                raised.join().unwrap();
            });
            let is_raised = interrupt.state() != InterruptState::None;
            assert_eq!(interrupt.engine().is_raised(), is_raised, "round {round}");
            interrupt.clear_query();
            assert!(!interrupt.engine().is_raised());
        }
        interrupt.raise(InterruptState::Connection);
        interrupt.clear_query();
        assert!(interrupt.state() == InterruptState::Connection && interrupt.engine().is_raised());
    }
}
