//! Fibers.
use crate::time::Instant;
use crate::wait::WaitEvent;
use std::time::Duration;

/// A handle to a fiber. Never dangles; a handle to a finished fiber wakes nobody, or somebody spuriously.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fiber(usize);

impl Fiber {
    /// Makes the fiber runnable, from any thread. Sticky: a wake before the park makes that park return at once.
    pub fn wake(self) {
        unimplemented!()
    }
}
/// Wakes all of them with one signal per sleeping worker; empties the list.
pub fn wake_many(_fibers: &mut Vec<Fiber>) {
    unimplemented!()
}
/// Starts `f` on a pooled fiber of the caller's worker (worker 0 from outside).
pub fn spawn(_f: impl FnOnce() + Send + 'static) {
    unimplemented!()
}
/// Starts `f` on a pooled fiber of the given worker.
pub fn spawn_on(_worker: usize, _f: impl FnOnce() + Send + 'static) {
    unimplemented!()
}
/// Starts `f` as a fiber on a worker thread of its own; in a simulated world as a plain fiber.
pub fn spawn_service(_name: &'static str, _f: impl FnOnce() + Send + 'static) {
    unimplemented!()
}
/// Runs `f`, which may block, on a thread of the blocking pool while the fiber is parked.
pub fn blocking<T: Send>(_event: WaitEvent, _f: impl FnOnce() -> T + Send) -> T {
    unimplemented!()
}
/// The caller. Outside fibers: a handle that stands for the thread.
pub fn current() -> Fiber {
    unimplemented!()
}
/// Waits for a wake. May return without one: callers loop on their condition.
pub fn park(_event: WaitEvent) {
    unimplemented!()
}
/// Waits for a wake until `deadline`; false if that has passed. Check the condition in both cases.
pub fn park_until(_event: WaitEvent, _deadline: Instant) -> bool {
    unimplemented!()
}
/// Lets the other runnable fibers of this worker run.
pub fn yield_now() {
    unimplemented!()
}
/// For row loops: cheap, and yields when the fiber has run for more than half a millisecond.
pub fn tick() {
    unimplemented!()
}
/// Waits for the time to pass.
pub fn sleep(_duration: Duration) {
    unimplemented!()
}
/// Bytes of stack left to the caller; `usize::MAX` outside fibers.
pub fn stack_left() -> usize {
    unimplemented!()
}
/// Is the caller a fiber?
pub fn in_fiber() -> bool {
    unimplemented!()
}
/// The caller's fiber-local word; 0 when its job began.
pub fn get_local() -> u64 {
    unimplemented!()
}
/// Sets the caller's fiber-local word.
pub fn set_local(_value: u64) {
    unimplemented!()
}
