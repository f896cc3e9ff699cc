//! The process and its machine. Its own binary, since signals are for all threads of a process.

use keel_runtime::signal::{Signal, Signals};
use keel_runtime::system;

#[test]
fn signals_are_waited_for_and_the_machine_is_described() {
    // One test: the harness runs tests on threads of their own, and the signals must be blocked in every thread there is.
    let signals = Signals::take();
    // SAFETY: plain system call; directed at this thread, so that the harness's main thread does not matter.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGHUP) };
    assert_eq!(signals.wait(), Signal::Reload);
    // SAFETY: as above.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
    assert_eq!(signals.wait(), Signal::Terminate);

    assert!(system::memory_bytes() >= 64 << 20);
    assert!(system::cores() >= 1);
    assert!(!system::host_name().is_empty());
    assert!(system::descriptors_max() >= 64);
    assert_eq!(system::process_id(), std::process::id());
    let (user, sys) = system::cpu_micros();
    assert!(user + sys > 0);
}
