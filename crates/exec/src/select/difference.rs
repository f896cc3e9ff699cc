//! EXCEPT and INTERSECT: rows of one side that the other has or lacks, in bounded memory.
//!
//! Keys of the right side are kept in memory with how often each came, as long as they fit `tmp_memory_table_size`. Where
//! they do not, both sides are sorted by key through temporary files.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keel_base::SqlResult;
use keel_value::row::Layout;

use super::RowOutput;
use super::frame::RowPacker;
use crate::memory::Allowance;
use crate::result::RowView;
use crate::session::Session;
use crate::sort::{Distinct, Sorted, Sorter};

/// Octets that an entry costs besides its key.
const ENTRY_BYTES: usize = 40;

/// What stands behind a key in a [`Difference`] that is sorted: the right side's counts come before the left side's rows.
const RIGHT: u8 = 0;
const LEFT: u8 = 1;

/// EXCEPT and INTERSECT: first all rows of the right side are added, then those of the left are asked for.
pub(super) struct Difference<'l> {
    /// Keys of the right side with how often each came.
    others: HashMap<Box<[u8]>, u64, RandomState>,
    bytes: usize,
    memory: Allowance,
    /// What came of the left side.
    seen: Distinct,
    layout: &'l Layout,
    /// Both sides by key, where the right one alone is too large for memory.
    sorted: Option<Sorter>,
    /// INTERSECT.
    keeps_matches: bool,
    all: bool,
}

impl<'l> Difference<'l> {
    /// `layout` can hold the rows.
    pub fn new(session: &Session, layout: &'l Layout, keeps_matches: bool, all: bool) -> Difference<'l> {
        let memory = || Allowance::new(session.vars.tmp_room(), session.work());
        Difference {
            others: HashMap::default(),
            bytes: 0,
            memory: memory(),
            seen: Distinct::new(session.vars.tmp_room(), session.work()),
            layout,
            sorted: None,
            keeps_matches,
            all,
        }
    }

    /// Takes a row of the right side.
    pub fn add_right(&mut self, session: &Session, key: &[u8]) -> SqlResult<()> {
        if let Some(sorter) = &mut self.sorted {
            return push_count(sorter, key, 1);
        }
        if let Some(count) = self.others.get_mut(key) {
            *count += 1;
            return Ok(());
        }
        self.bytes += key.len() + ENTRY_BYTES;
        self.others.insert(key.into(), 1);
        if self.memory.allows(self.bytes) {
            return Ok(());
        }
        let mut sorter = Sorter::new(None, session.vars.tmp_room(), session.work());
        for (key, count) in std::mem::take(&mut self.others) {
            push_count(&mut sorter, &key, count)?;
        }
        self.memory.shrink();
        self.sorted = Some(sorter);
        Ok(())
    }

    /// Whether a row of the left side goes out now; others may come with [`Difference::rest`].
    pub fn admits(&mut self, key: &[u8], row: RowView<'_>) -> SqlResult<bool> {
        if let Some(sorter) = &mut self.sorted {
            push(sorter, self.layout, key, row)?;
            return Ok(false);
        }
        if self.all {
            let left = self.others.get_mut(key).filter(|left| **left > 0);
            let matches = left.is_some();
            left.into_iter().for_each(|left| *left -= 1);
            return Ok(matches == self.keeps_matches);
        }
        let layout = self.layout;
        Ok(self.others.contains_key(key) == self.keeps_matches
            && self.seen.is_new(key, |out| RowPacker::new(layout).pack(row, out))?)
    }

    /// Gives the rows set aside; false where the consumer wants no more.
    pub fn rest(self, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        let layout = self.layout;
        let Some(sorter) = self.sorted else { return give_rest(self.seen, layout, session, output) };
        let columns: Vec<usize> = (0..layout.columns().len()).collect();
        let mut group = Group { key: Vec::new(), right: 0, given: false };
        let mut sorted: Sorted = sorter.finish()?;
        while let Some((key, bytes)) = sorted.next_entry()? {
            session.check_interrupt()?;
            let (side, key) = key.split_last().expect("a side stands behind each key");
            group.enter(key);
            if *side == RIGHT {
                group.right += u64::from_le_bytes(bytes.try_into().expect("a count has eight octets"));
            } else if group.gives(self.keeps_matches, self.all)
                && !output.row(session, RowView::Stored { layout, bytes, projection: &columns })?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn push(sorter: &mut Sorter, layout: &Layout, key: &[u8], row: RowView<'_>) -> SqlResult<()> {
    let append_key = |out: &mut Vec<u8>| {
        out.extend_from_slice(key);
        out.push(LEFT);
        Ok(())
    };
    sorter.push(append_key, |out| {
        RowPacker::new(layout).pack(row, out);
        Ok(())
    })
}

fn push_count(sorter: &mut Sorter, key: &[u8], count: u64) -> SqlResult<()> {
    let append_key = |out: &mut Vec<u8>| {
        out.extend_from_slice(key);
        out.push(RIGHT);
        Ok(())
    };
    sorter.push(append_key, |out| {
        out.extend_from_slice(&count.to_le_bytes());
        Ok(())
    })
}

/// Rows of one key, while sorted rows pass.
struct Group {
    key: Vec<u8>,
    /// Rows of the right side that no row of the left has used up.
    right: u64,
    /// A row was given.
    given: bool,
}

impl Group {
    fn enter(&mut self, key: &[u8]) {
        if self.key != key {
            *self = Group { key: key.to_vec(), right: 0, given: false };
        }
    }

    /// Whether a row of the left side goes out.
    fn gives(&mut self, keeps_matches: bool, all: bool) -> bool {
        let matches = self.right > 0;
        if all {
            self.right -= u64::from(matches);
            return matches == keeps_matches;
        }
        matches == keeps_matches && !std::mem::replace(&mut self.given, true)
    }
}

/// Gives the rows that were set aside as `layout` has them; false where the consumer wants no more.
pub(super) fn give_rest(
    seen: Distinct,
    layout: &Layout,
    session: &mut Session,
    output: &mut dyn RowOutput,
) -> SqlResult<bool> {
    let projection: Vec<usize> = (0..layout.columns().len()).collect();
    seen.rest(&mut |bytes| {
        session.check_interrupt()?;
        output.row(session, RowView::Stored { layout, bytes, projection: &projection })
    })
}
