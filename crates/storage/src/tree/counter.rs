//! The tree's counter (AUTO_INCREMENT): exact in memory, logged in strides on page 0. A crash may skip up to one stride; a
//! clean shutdown writes the exact value.

use crate::fault::StoreResult;
use crate::layout::*;

use super::Tree;

/// How far ahead of the value the logged bound is put.
const STRIDE: u64 = 1000;

impl Tree {
    /// The tree's persistent counter. Waits at its first use.
    pub fn counter(&self) -> StoreResult<u64> {
        if let Some((value, _)) = *self.space.counter.lock() {
            return Ok(value);
        }
        let stored = {
            let latch = self.core.pool.latch_shared(&self.space, 0)?;
            counter_on(latch.page().bytes())
        };
        let mut counter = self.space.counter.lock();
        Ok(counter.get_or_insert((stored, stored)).0)
    }

    /// Raises the counter to at least `to`; waits now and then. After a crash it may be a little higher.
    pub fn raise_counter(&self, to: u64) -> StoreResult<()> {
        if self.counter()? >= to {
            return Ok(());
        }
        if let Some((value, bound)) = self.space.counter.lock().as_mut()
            && to <= *bound
        {
            *value = to.max(*value);
            return Ok(());
        }
        // Logged before it is shown: who sees the value appends behind the record that covers it.
        let new_bound = self.log_counter(|stored| stored.max(to.saturating_add(STRIDE)))?;
        if let Some((value, bound)) = self.space.counter.lock().as_mut() {
            *value = to.max(*value);
            *bound = new_bound.max(*bound);
        }
        Ok(())
    }

    /// Sets the counter, downwards too (`TRUNCATE`, `ALTER TABLE ... AUTO_INCREMENT`); waits.
    pub fn set_counter(&self, to: u64) -> StoreResult<()> {
        self.log_counter(|_| to)?;
        *self.space.counter.lock() = Some((to, to));
        Ok(())
    }

    /// Makes the logged value exact; at clean shutdown.
    pub(crate) fn settle_counter(&self) -> StoreResult<()> {
        let known = *self.space.counter.lock();
        match known {
            Some((value, bound)) if bound > value => {
                self.log_counter(|_| value)?;
                *self.space.counter.lock() = Some((value, value));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn log_counter(&self, new: impl FnOnce(u64) -> u64) -> StoreResult<u64> {
        let mtr = self.core.begin()?;
        let mut header = mtr.latch(&self.space, 0)?;
        let value = new(counter_on(header.page().bytes()));
        header.write(AT_COUNTER, &value.to_le_bytes());
        mtr.commit();
        Ok(value)
    }
}

fn counter_on(header: &[u8]) -> u64 {
    u64::from_le_bytes(header[AT_COUNTER..AT_COUNTER + 8].try_into().expect("eight bytes"))
}
