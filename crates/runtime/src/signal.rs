//! Signals as values: the main thread blocks them before it starts anything, and then waits for them.

use std::mem::MaybeUninit;

/// What the process was asked to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM or SIGINT: end in good order.
    Terminate,
    /// SIGHUP: reopen or reload.
    Reload,
}

/// The signals of this process. While it exists they do not end the process.
pub struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals in the calling thread, and so in all threads started from it: call it before [`crate::Runtime::start`].
    pub fn take() -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset makes the set whole before it is used; all calls write only to it.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let set = set.assume_init();
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            set
        };
        Signals { set }
    }

    /// Waits for the next one; blocks the calling thread.
    pub fn wait(&self) -> Signal {
        loop {
            let mut signal = 0;
            // SAFETY: reads our set and writes one integer, ours.
            let failed = unsafe { libc::sigwait(&self.set, &mut signal) };
            match signal {
                _ if failed != 0 => {}
                libc::SIGHUP => return Signal::Reload,
                _ => return Signal::Terminate,
            }
        }
    }
}
