//! Room on the stack for what goes deep.

use keel_base::{SqlResult, errors};
use keel_storage::runtime::fiber;

/// A fiber's stack, as 1436 tells of it.
const STACK_BYTES: usize = 256 << 10;

/// Runs `work` where the stack has room for so many bytes, on a further one if need be; error 1436 where there is none.
#[inline]
pub fn with_room<T>(bytes: usize, work: impl FnOnce() -> SqlResult<T>) -> SqlResult<T> {
    fiber::with_stack(bytes, work).unwrap_or_else(|| {
        let used = STACK_BYTES.saturating_sub(fiber::stack_left());
        Err(errors::stack_overrun_need_more(used, STACK_BYTES, bytes))
    })
}
