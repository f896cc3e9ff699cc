//! Purge ahead of an old reader: what came and went since its snapshot was taken is seen by nobody.
//!
//! Undo pages are freed in the order of commits, so an old reader keeps the history of all that changed since. But the entries
//! that were deleted meanwhile need not stay: 10,000 changes of an indexed column a second would leave six million dead
//! entries in ten minutes, for every search of those values to pass, and a queue table would grow by all that went through
//! it. InnoDB keeps them. Here purge, where the same snapshot has kept it back for a while, goes on through the end records
//! with a place of its own in each segment, up to the last commit that all but the listed readers see ([`crate::views`]), and
//! removes the entries of which no listed reader sees a version with a row.
//!
//! 1. It is the fiber of purge itself that goes ahead: nothing is purged meanwhile, so the versions behind a delete can be
//!    read as far as a listed reader needs them.
//! 2. Nothing is written down: purge meets those transactions again once the reader has ended, and finds no marker.
//! 3. An entry with a long value stays: who read its reference for the row's last version looks for the value later, and
//!    only the order of commits says that it has ended.

use std::sync::Arc;
use std::time::Duration;

use keel_runtime::time::{self, Instant};

use crate::engine::Engine;
use crate::error::Result;
use crate::purge::BATCH;
use crate::purge_walk::purge_together;
use crate::snapshot::View;
use crate::undo::Common;
use crate::undo_log::PurgeState;

/// How long a snapshot keeps purge back before it goes ahead. Young readers end soon, and what is done ahead is looked at twice.
const AHEAD_AFTER: Duration = Duration::from_secs(1);

/// Where purge stands that goes ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The snapshot that keeps purge back, and since when.
    behind: Option<((u64, u64), Instant)>,
    /// A place in each segment.
    places: Vec<PurgeState>,
}

impl Engine {
    /// Goes on ahead of the oldest reader, where purge can not; says through how many transactions. Waits.
    pub(crate) fn purge_ahead(self: &Arc<Self>, ahead: &mut Ahead) -> Result<u64> {
        let readers = self.views.readers();
        let now = time::now();
        let Some(oldest) = readers.oldest().map(View::age) else { return Ok(0) };
        let since = ahead.behind.filter(|(behind, _)| *behind == oldest).map_or(now, |(_, since)| since);
        ahead.behind = Some((oldest, since));
        if now < since + AHEAD_AFTER {
            return Ok(0);
        }
        ahead.places.resize(self.undo.segment_count(), PurgeState::default());
        let listed = readers.listed(self);
        let batch = self.purge.chosen(&self.purge.batch_max, BATCH);
        let (mut count, mut failed) = (0, None);
        for (segment, place) in ahead.places.iter_mut().enumerate() {
            let may_pass = |end: &Common| listed.is_seen_by_others(end.trx);
            let ended = match self.undo.next_ended_ahead(segment, place, batch, may_pass) {
                Ok(ended) => ended,
                Err(error) => {
                    failed = Some(error.into());
                    continue;
                }
            };
            let (done, result) = purge_together(self, &ended, Some(readers.clone()));
            // What was kept since nobody knew who needs it is looked at again.
            if !listed.is_current() {
                return result.map(|()| count);
            }
            if let Some(last) = ended[..done].last() {
                *place = last.place;
            }
            result?;
            count += done as u64;
        }
        failed.filter(|_| count == 0).map_or(Ok(count), Err)
    }
}
