//! Rows without their duplicates, and rows of one side that the other has or lacks, in bounded memory.
//!
//! Keys of rows are kept in memory as long as they fit `tmp_memory_table_size`. What does not fit is sorted by key through
//! temporary files, and comes out behind the rest.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use keel_base::SqlResult;
use keel_value::row::Layout;

use super::RowOutput;
use super::frame::RowPacker;
use crate::result::RowView;
use crate::session::Session;
use crate::sort::{Sorted, Sorter};

/// Memory for keys whatever the variable says.
const BYTES_MIN: u64 = 1 << 20;
/// Octets that an entry costs besides its key.
const ENTRY_BYTES: u64 = 40;

/// Keys with how often each came; bounded.
struct Bag {
    counts: HashMap<Box<[u8]>, u64, RandomState>,
    bytes: u64,
    bytes_max: u64,
}

/// What a bag says of a key.
#[derive(PartialEq, Eq)]
enum Met {
    First,
    Again,
    /// It is not there, and there is no room.
    NoRoom,
}

impl Bag {
    fn new(session: &Session) -> Bag {
        let bytes_max = session.vars.tmp_memory_bytes.max(BYTES_MIN);
        Bag { counts: HashMap::default(), bytes: 0, bytes_max }
    }

    fn add(&mut self, key: &[u8]) -> Met {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
            return Met::Again;
        }
        if self.bytes > self.bytes_max {
            return Met::NoRoom;
        }
        self.bytes += key.len() as u64 + ENTRY_BYTES;
        self.counts.insert(key.into(), 1);
        Met::First
    }

    /// Takes one of the rows of a key away; false if there is none left.
    fn take(&mut self, key: &[u8]) -> bool {
        match self.counts.get_mut(key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

/// A sorter of rows by key.
fn sorter(session: &Session) -> Sorter {
    Sorter::new(None, session.vars.tmp_memory_bytes.max(BYTES_MIN), session.host.clone())
}

/// Which of a stream's rows are the first of their key.
pub(super) struct Distinct<'l> {
    seen: Bag,
    layout: &'l Layout,
    beyond: Option<Sorter>,
}

impl<'l> Distinct<'l> {
    /// `layout` can hold the rows.
    pub fn new(session: &Session, layout: &'l Layout) -> Distinct<'l> {
        Distinct { seen: Bag::new(session), layout, beyond: None }
    }

    /// Whether the row goes out now. Where memory ends it is set aside for [`Distinct::rest`].
    pub fn admits(&mut self, session: &Session, key: &[u8], row: RowView<'_>) -> SqlResult<bool> {
        let met = self.seen.add(key);
        if met == Met::NoRoom {
            let beyond = self.beyond.get_or_insert_with(|| sorter(session));
            push(beyond, self.layout, key, &[], row)?;
        }
        Ok(met == Met::First)
    }

    /// Gives the rows set aside; false where the consumer wants no more.
    pub fn rest(self, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        let Some(beyond) = self.beyond else { return Ok(true) };
        let all: Vec<usize> = (0..self.layout.columns().len()).collect();
        let mut last: Option<Vec<u8>> = None;
        let mut sorted = beyond.finish()?;
        while let Some((key, bytes)) = sorted.next()? {
            if last.as_deref() == Some(key) {
                continue;
            }
            last = Some(key.to_vec());
            if !output.row(session, RowView::Stored { layout: self.layout, bytes, projection: &all })? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn push(sorter: &mut Sorter, layout: &Layout, key: &[u8], side: &[u8], row: RowView<'_>) -> SqlResult<()> {
    let append_key = |out: &mut Vec<u8>| {
        out.extend_from_slice(key);
        out.extend_from_slice(side);
        Ok(())
    };
    sorter.push(append_key, |out| {
        RowPacker::new(layout).pack(row, out);
        Ok(())
    })
}

/// What stands behind a key in a [`Difference`] that is sorted: the right side's counts come before the left side's rows.
const RIGHT: u8 = 0;
const LEFT: u8 = 1;

/// EXCEPT and INTERSECT: first all rows of the right side are added, then those of the left are asked for.
pub(super) struct Difference<'l> {
    others: Bag,
    seen: Distinct<'l>,
    /// Both sides by key, where the right one alone is too large for memory.
    sorted: Option<Sorter>,
    /// INTERSECT.
    keeps_matches: bool,
    all: bool,
}

impl<'l> Difference<'l> {
    /// `layout` can hold the rows.
    pub fn new(session: &Session, layout: &'l Layout, keeps_matches: bool, all: bool) -> Difference<'l> {
        let seen = Distinct::new(session, layout);
        Difference { others: Bag::new(session), seen, sorted: None, keeps_matches, all }
    }

    /// Takes a row of the right side.
    pub fn add_right(&mut self, session: &Session, key: &[u8]) -> SqlResult<()> {
        if self.sorted.is_none() && self.others.add(key) != Met::NoRoom {
            return Ok(());
        }
        if self.sorted.is_none() {
            let mut sorter = sorter(session);
            for (key, count) in self.others.counts.drain() {
                push_count(&mut sorter, &key, count)?;
            }
            self.sorted = Some(sorter);
        }
        push_count(self.sorted.as_mut().expect("made above"), key, 1)
    }

    /// Whether a row of the left side goes out now; others may come with [`Difference::rest`].
    pub fn admits(&mut self, session: &Session, key: &[u8], row: RowView<'_>) -> SqlResult<bool> {
        if let Some(sorter) = &mut self.sorted {
            push(sorter, self.seen.layout, key, &[LEFT], row)?;
            return Ok(false);
        }
        if self.all {
            return Ok(self.others.take(key) == self.keeps_matches);
        }
        Ok(self.others.counts.contains_key(key) == self.keeps_matches
            && self.seen.admits(session, key, row)?)
    }

    /// Gives the rows set aside; false where the consumer wants no more.
    pub fn rest(self, session: &mut Session, output: &mut dyn RowOutput) -> SqlResult<bool> {
        let Some(sorter) = self.sorted else { return self.seen.rest(session, output) };
        let layout = self.seen.layout;
        let columns: Vec<usize> = (0..layout.columns().len()).collect();
        let mut group = Group { key: Vec::new(), right: 0, given: false };
        let mut sorted: Sorted = sorter.finish()?;
        while let Some((key, bytes)) = sorted.next()? {
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
