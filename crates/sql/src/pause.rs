//! A hook for long texts: this crate knows no runtime, and a text may take seconds to read.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

/// Sets the function that is called each few hundred microseconds while a long text is read; the first call counts. The
/// function may suspend the caller, which holds no lock.
pub fn set_hook(hook: fn()) {
    let _ = HOOK.set(hook);
}

#[cold]
pub(crate) fn pause() {
    if let Some(hook) = HOOK.get() {
        hook();
    }
}
