//! Warnings and errors of the last statement, as `SHOW WARNINGS` shows them.

use keel_base::{Level, Warning};

/// What SHOW WARNINGS shows: bounded, counts go on.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    /// The first `max_error_count`.
    pub warnings: Vec<Warning>,
    /// `@@warning_count`: all of them, errors too.
    pub warning_count: u64,
    /// `@@error_count`.
    pub error_count: u64,
    /// All this is an earlier statement's: it stays to be asked for until the running one has something to say itself.
    pub stale: bool,
}

/// How many entries there were.
#[derive(Clone, Copy, Default)]
struct Mark {
    kept: usize,
    warnings: u64,
    errors: u64,
}

/// Work that may begin again, such as where a page has no room for what it made: its warnings are those of the last time.
#[derive(Default)]
pub struct Attempts(Option<Mark>);

impl Attempts {
    /// It begins, perhaps not for the first time.
    #[inline]
    pub fn begin(&mut self, diagnostics: &mut Diagnostics) {
        match self.0 {
            Some(before) => diagnostics.back_to(before),
            None => self.0 = Some(diagnostics.mark()),
        }
    }
}

impl Diagnostics {
    /// Forgets everything, as each statement with tables does at its start.
    pub fn clear(&mut self) {
        if self.warning_count != 0 {
            *self = Diagnostics::default();
        }
        self.stale = false;
    }

    fn mark(&self) -> Mark {
        match self.stale {
            true => Mark::default(),
            false => {
                Mark { kept: self.warnings.len(), warnings: self.warning_count, errors: self.error_count }
            }
        }
    }

    /// Forgets what was added since.
    fn back_to(&mut self, mark: Mark) {
        if !self.stale {
            self.warnings.truncate(mark.kept);
            (self.warning_count, self.error_count) = (mark.warnings, mark.errors);
        }
    }

    /// Removes the warnings with a code.
    pub fn withdraw(&mut self, code: u16) {
        if !self.stale {
            let before = self.warnings.len();
            self.warnings.retain(|warning| warning.code != code);
            self.warning_count -= (before - self.warnings.len()) as u64;
        }
    }

    /// Adds one entry before all others.
    pub fn push_first(&mut self, warning: Warning, max: usize) {
        if self.stale {
            self.clear();
        }
        self.warning_count += 1;
        self.warnings.insert(0, warning);
        self.warnings.truncate(max);
    }

    /// Adds one entry, keeping at most `max`.
    pub fn push(&mut self, warning: Warning, max: usize) {
        if self.stale {
            self.clear();
        }
        self.warning_count += 1;
        self.error_count += u64::from(warning.level == Level::Error);
        if self.warnings.len() < max {
            self.warnings.push(warning);
        }
    }
}
