//! What a SELECT counts of the way it goes: how it reads its first table and the others, what it sorts, which temporary
//! tables it fills. Counted for each run of a block, as `Select_...`, `Sort_...` and `Created_tmp_tables` show it.

use keel_context::statement_counts::PlanCounts;

use super::Block;
use crate::access::AccessKind;
use crate::join::Source;
use crate::session::Session;

/// How the first table is read that is more than one row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// There was none yet.
    Wanted,
    Scan,
    Range,
    /// By a key's values.
    Key,
}

impl Block {
    /// Counts a run.
    pub(super) fn tally(&self, session: &mut Session) {
        let counts = &mut session.plan_counts;
        let first = read(&self.source, First::Wanted, counts);
        let grouped = self.group.as_ref().is_some_and(|group| {
            let in_order = group.streams && self.order.is_empty();
            !group.keys.is_empty() && !in_order
        });
        let tables = u64::from(grouped) + u64::from(self.distinct) + u64::from(self.windows.is_some());
        counts.add(|counts| {
            counts.tmp_tables += tables;
            if !self.order.is_empty() {
                match first {
                    First::Range => counts.sort_range += 1,
                    _ => counts.sort_scan += 1,
                }
            }
        });
    }
}

fn read(source: &Source, first: First, counts: &mut PlanCounts) -> First {
    let kind = match source {
        Source::One => return first,
        Source::Join(join) => {
            let first = read(&join.left, first, counts);
            return read(&join.right, first, counts);
        }
        Source::Distinct(distinct) => return read(&distinct.source, first, counts),
        Source::Derived(_) | Source::Function(_) => AccessKind::All,
        Source::Table(table) => table.choice.kind,
    };
    let is_first = first == First::Wanted;
    let now = match kind {
        AccessKind::Empty | AccessKind::Const => return first,
        AccessKind::EqRef | AccessKind::Ref => First::Key,
        AccessKind::Range | AccessKind::IndexMerge => First::Range,
        AccessKind::Index | AccessKind::All => First::Scan,
    };
    counts.add(|counts| match (now, is_first) {
        (First::Scan, true) => counts.select_scan += 1,
        (First::Scan, false) => counts.select_full_join += 1,
        (First::Range, true) => counts.select_range += 1,
        (First::Range, false) => counts.select_full_range_join += 1,
        _ => {}
    });
    if is_first { now } else { first }
}
