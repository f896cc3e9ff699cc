//! How much a function may make of its texts, and how long it goes on without looking around.

use super::fault::Fault;

/// How something ended early: a fault of a text, or the statement was stopped.
#[derive(Debug)]
pub enum Stop<E> {
    /// A text is broken.
    Fault(Fault),
    /// The caller's reason.
    Caller(E),
}

impl<E> From<Fault> for Stop<E> {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Values looked at between two looks at whether the statement shall go on.
const WORK_PER_CHECK: usize = 64;

/// The bound of one call. Some functions take as long as the lengths of two texts multiplied, and some make as much of them.
pub struct Bound<'b, E> {
    /// Longest result. What is longer is given up somewhere behind that length.
    pub most: usize,
    go_on: &'b mut dyn FnMut() -> Result<(), E>,
    work: usize,
}

impl<'b, E> Bound<'b, E> {
    /// A bound for results of at most `most` octets; `go_on` is asked now and then.
    pub fn new(most: usize, go_on: &'b mut dyn FnMut() -> Result<(), E>) -> Self {
        Bound { most, go_on, work: 0 }
    }

    /// Counts so many values looked at.
    #[inline]
    pub fn spend(&mut self, work: usize) -> Result<(), Stop<E>> {
        self.work += work;
        if self.work < WORK_PER_CHECK {
            return Ok(());
        }
        self.work = 0;
        (self.go_on)().map_err(Stop::Caller)
    }

    /// Whether a result may go on.
    pub fn allows(&self, out: &[u8]) -> bool {
        out.len() <= self.most
    }
}
