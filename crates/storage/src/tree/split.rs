//! Splits: making room at a key, bottom up, each step a mini-transaction of its own.

use crate::alloc::{Need, Spare};
use crate::fault::{StoreError, StoreResult};
use crate::layout::*;
use crate::mtr::{Mtr, PageWrite};
use crate::page::{NodeMeta, PageBuilder, PageRef, separator};

use super::{Target, Tree};

/// Where a page is cut: entries that stay, and the key that parts them from the others.
#[derive(Debug, PartialEq, Eq)]
struct Cut {
    keep: usize,
    separator: Vec<u8>,
}

/// Whether an entry of `need` bytes (key and value) fits at `key`, in place of an old one or as a new one.
fn fits(page: PageRef<'_>, key: &[u8], need: usize) -> bool {
    match page.search(key) {
        Ok(slot) => page.room() + page.entry_bytes(slot) >= need + CELL_HEAD + SLOT,
        Err(_) => page.room() >= need + CELL_HEAD + SLOT,
    }
}

fn whole_key(page: PageRef<'_>, slot: usize) -> Vec<u8> {
    let mut key = Vec::new();
    page.key(slot, &mut key);
    key
}

/// Entries in order after which more of the same are expected.
const RUN_MIN: i16 = 2;

/// Whether an entry before slot `at` goes on with a run of ascending or descending keys.
fn continues_run(page: PageRef<'_>, at: usize) -> bool {
    let (last, run) = page.insert_run();
    (run >= RUN_MIN && at == last) || (run <= -RUN_MIN && at + 1 == last)
}

/// Cuts so that the larger half is as small as can be, counting the entry to come. Where keys arrive in order the cut
/// parts the new entry from the older ones that lie ahead, or, where none do, from those behind: the half that the next
/// ones go to has room, the other one stays full. At the right edge of a tree one key suffices to expect that.
fn choose_cut(page: PageRef<'_>, key: &[u8], need: usize) -> Option<Cut> {
    let count = page.count();
    let need = need + SLOT + CELL_HEAD;
    let (at, exists) = match page.search(key) {
        Ok(slot) => (slot, true),
        Err(slot) => (slot, false),
    };
    // The entries as they will be; `real(i)` is the slot of item `i`, if it is not the new one.
    let items = count + usize::from(!exists);
    let real = |item: usize| {
        if exists || item < at { Some(item) } else { item.checked_sub(1).filter(|_| item > at) }
    };
    let bytes =
        |item: usize| real(item).map_or(0, |s| page.entry_bytes(s)) + if item == at { need } else { 0 };
    if items < 2 {
        return None;
    }
    let key_of = |item: usize| real(item).map_or_else(|| key.to_vec(), |slot| whole_key(page, slot));
    // Above the leaves a key is the low fence of its child: a shorter separator would leave the keys between the two to a
    // page none of whose children holds them.
    let part = |left: Vec<u8>, right: Vec<u8>| match page.level() {
        0 => separator(&left, &right).to_vec(),
        _ => right,
    };
    let cut_at = |cut: usize| Cut {
        keep: if exists || cut <= at { cut } else { cut - 1 },
        separator: part(key_of(cut - 1), key_of(cut)),
    };
    // Above the leaves neither half may be empty: until the new entry comes, searches find no child there.
    let usable = |cut: &Cut| halves_fit(page, cut) && (page.level() == 0 || (1..count).contains(&cut.keep));
    let append = at == count && page.high().is_none();
    if !exists && (append || continues_run(page, at)) {
        let edge = if page.level() == 0 { count } else { count - 1 };
        let descending = page.insert_run().1 < 0;
        let cut = cut_at(if descending { at } else { at + 1 }.min(edge).max(1));
        if usable(&cut) {
            return Some(cut);
        }
    }
    let total: usize = (0..items).map(bytes).sum();
    let mut left = 0;
    let mut by_larger_half: Vec<(usize, usize)> = (1..items)
        .map(|cut| {
            left += bytes(cut - 1);
            (left.max(total - left), cut)
        })
        .collect();
    by_larger_half.sort_unstable();
    by_larger_half.into_iter().map(|(_, cut)| cut_at(cut)).find(usable)
}

/// Whether both halves, the entry to come left out, fit with their new fence. It may be as long as the longest key.
fn halves_fit(page: PageRef<'_>, cut: &Cut) -> bool {
    let bytes = |slots: std::ops::Range<usize>| slots.map(|slot| page.entry_bytes(slot)).sum::<usize>();
    let left = bytes(0..cut.keep) + page.low().len() + cut.separator.len();
    let right = bytes(cut.keep..page.count()) + page.high().map_or(0, <[u8]>::len) + cut.separator.len();
    left <= ROOM && right <= ROOM
}

impl Tree {
    /// Splits so that an entry of `need_bytes` (key and value) at `key` fits. No latch held; waits.
    pub fn split_for(&self, key: &[u8], need_bytes: usize, for_what: Need) -> StoreResult<()> {
        if key.len() > KEY_MAX || need_bytes > KEY_MAX + VALUE_MAX {
            return Err(StoreError::TooLarge);
        }
        self.split_at(0, key, need_bytes, for_what)
    }

    /// [`Tree::split_for`] on any level.
    fn split_at(&self, level: u8, key: &[u8], need: usize, for_what: Need) -> StoreResult<()> {
        loop {
            let at_root = match self.find(Target::At(key), level)? {
                None => return Ok(()),
                Some(latch) if fits(latch.page(), key, need) => return Ok(()),
                Some(latch) => latch.page().page_no() == ROOT,
            };
            let reserve = || self.core.reserve(&self.space, for_what);
            let first = reserve()?;
            let second = if at_root { Some(reserve()?) } else { None };
            self.split_once(level, key, need, first, second)?;
        }
    }

    /// One split, unless the page changed since it was looked at.
    fn split_once(&self, level: u8, key: &[u8], need: usize, a: Spare, b: Option<Spare>) -> StoreResult<()> {
        let mtr = self.core.begin()?;
        let Some(page) = self.find_exclusive(&mtr, key, level)? else { return Ok(()) };
        if fits(page.page(), key, need) || (page.page_no() == ROOT) != b.is_some() {
            return Ok(());
        }
        let Some(cut) = choose_cut(page.page(), key, need) else {
            return Err(StoreError::TooLarge);
        };
        if let Some(b) = b {
            split_root(&mtr, page, &cut, a, b);
            mtr.commit();
            return Ok(());
        }
        let right = a.page;
        split_page(&mtr, page, &cut, a);
        mtr.commit();
        self.add_separator(level + 1, &cut.separator, right)
    }

    /// Makes the parent level know page `child`, whose low fence is `separator`. No latch held; waits. Does nothing if the
    /// separator is there, or the child is not what it was.
    pub(super) fn add_separator(&self, level: u8, separator: &[u8], child: u32) -> StoreResult<()> {
        loop {
            let pin = self.core.pool.pin(&self.space, child)?;
            let mtr = self.core.begin()?;
            let Some(mut parent) = self.find_parent(&mtr, separator, level)? else { return Ok(()) };
            // The child was merged away meanwhile, and its page has come back as its parent.
            if parent.page_no() == child {
                return Ok(());
            }
            let Err(slot) = parent.page().search(separator) else { return Ok(()) };
            {
                let latch = pin.latch_shared();
                let page = latch.page();
                let alive = page.is_node() && page.level() + 1 == level && page.page_no() == child;
                if !alive || page.low() != separator {
                    return Ok(());
                }
            }
            let prefix_len = parent.page().prefix_len();
            if parent.insert(slot, &separator[prefix_len..], &child.to_le_bytes()).is_ok() {
                mtr.commit();
                return Ok(());
            }
            drop(mtr_without_changes(mtr));
            self.split_at(level, separator, separator.len() + 4, Need::Finish)?;
        }
    }

    /// The parent page for `separator`; unlike a search it does not repair the parent's own level on its way, which would
    /// recurse: that is left to the next search.
    fn find_parent<'m>(
        &self,
        mtr: &'m Mtr<'_>,
        separator: &[u8],
        level: u8,
    ) -> StoreResult<Option<PageWrite<'m>>> {
        self.find_exclusive(mtr, separator, level)
    }
}

/// Names why it is right to drop a mini-transaction here.
fn mtr_without_changes(mtr: Mtr<'_>) -> Mtr<'_> {
    debug_assert!(!mtr.has_changes());
    mtr
}

/// Moves the entries behind the cut to a new right neighbour.
fn split_page(mtr: &Mtr<'_>, mut page: PageWrite<'_>, cut: &Cut, spare: Spare) {
    let mut right = mtr.allocate(spare);
    let (number, old) = (right.page_no(), page.page());
    let meta = NodeMeta {
        tree: old.tree(),
        page: number,
        level: old.level(),
        right: old.right(),
        low: &cut.separator,
        high: old.high(),
    };
    right.rebuild(|bytes| PageBuilder::new(bytes, meta).push_all(old, cut.keep..old.count()));
    page.truncate(cut.keep, &cut.separator, number);
}

/// Moves the root's entries to two new pages and makes it their parent.
fn split_root(mtr: &Mtr<'_>, mut root: PageWrite<'_>, cut: &Cut, a: Spare, b: Spare) {
    let mut left = mtr.allocate(a);
    let mut right = mtr.allocate(b);
    let (left_no, right_no) = (left.page_no(), right.page_no());
    let (tree, level) = (root.page().tree(), root.page().level());
    let old = root.page();
    let meta = NodeMeta { tree, page: left_no, level, right: right_no, low: &[], high: Some(&cut.separator) };
    left.rebuild(|bytes| PageBuilder::new(bytes, meta).push_all(old, 0..cut.keep));
    let meta = NodeMeta { tree, page: right_no, level, right: 0, low: &cut.separator, high: None };
    right.rebuild(|bytes| PageBuilder::new(bytes, meta).push_all(old, cut.keep..old.count()));
    root.rebuild(|bytes| {
        let meta = NodeMeta { tree, page: ROOT, level: level + 1, right: 0, low: &[], high: None };
        let mut builder = PageBuilder::new(bytes, meta);
        builder.push(&[], &[], &left_no.to_le_bytes());
        builder.push(&cut.separator, &[], &right_no.to_le_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageMut;

    fn leaf(keys: &[&str], value_len: usize, high: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        let meta = NodeMeta { tree: 1, page: 5, level: 0, right: 0, low: &[], high };
        let mut builder = PageBuilder::new(&mut bytes, meta);
        for key in keys {
            builder.push(key.as_bytes(), &[], &vec![7; value_len]);
        }
        bytes
    }

    fn cut(bytes: &[u8], key: &str, need: usize) -> Option<Cut> {
        choose_cut(PageRef::new(bytes), key.as_bytes(), need)
    }

    #[test]
    fn an_inner_page_never_leaves_an_empty_half_behind() {
        let mut bytes = vec![0; PAGE];
        let meta = NodeMeta { tree: 1, page: 5, level: 1, right: 0, low: &[], high: None };
        let mut builder = PageBuilder::new(&mut bytes, meta);
        for key in ["", "b", "c"] {
            builder.push(key.as_bytes(), &[], &7u32.to_le_bytes());
        }
        assert_eq!(cut(&bytes, "d", 5), Some(Cut { keep: 2, separator: b"c".to_vec() }));
    }

    #[test]
    fn appending_at_the_right_edge_keeps_the_left_page_full() {
        let page = leaf(&["a", "b", "c"], 100, None);
        assert_eq!(cut(&page, "d", 100), Some(Cut { keep: 3, separator: b"d".to_vec() }));
        let inner = leaf(&["a", "b", "c"], 100, Some(b"x"));
        assert_eq!(cut(&inner, "d", 100).map(|c| c.keep), Some(2));
    }

    #[test]
    fn keys_in_order_within_a_tree_leave_full_pages_behind() {
        let mut page = leaf(&["a", "x", "y"], 100, Some(b"z"));
        for (slot, key) in [(1, b"b"), (2, b"c"), (3, b"d")] {
            PageMut::new(&mut page).insert(slot, key, &[7; 100]).expect("room");
        }
        assert_eq!(cut(&page, "e", 100), Some(Cut { keep: 4, separator: b"x".to_vec() }));
        PageMut::new(&mut page).truncate(4, b"x", 9);
        assert_eq!(cut(&page, "e", 100), Some(Cut { keep: 4, separator: b"e".to_vec() }));
        let mut page = leaf(&["a", "y"], 100, Some(b"z"));
        for key in [b"x", b"w", b"v"] {
            PageMut::new(&mut page).insert(1, key, &[7; 100]).expect("room");
        }
        assert_eq!(cut(&page, "u", 100), Some(Cut { keep: 1, separator: b"u".to_vec() }));
        assert_eq!(cut(&page, "y0", 100).map(|c| c.keep), Some(3));
    }

    #[test]
    fn a_cut_balances_bytes_including_the_entry_to_come() {
        let page = leaf(&["b", "d", "f", "h"], 1000, None);
        assert_eq!(cut(&page, "a", 3000), Some(Cut { keep: 1, separator: b"d".to_vec() }));
        assert_eq!(cut(&page, "g", 4000), Some(Cut { keep: 3, separator: b"g".to_vec() }));
    }

    #[test]
    fn a_single_large_entry_is_parted_from_the_new_one() {
        let page = leaf(&["m"], 4000, None);
        assert_eq!(cut(&page, "a", 7000), Some(Cut { keep: 0, separator: b"m".to_vec() }));
        assert_eq!(cut(&page, "z", 7000), Some(Cut { keep: 1, separator: b"z".to_vec() }));
        assert_eq!(cut(&page, "m", 7000), None);
    }

    #[test]
    fn inner_pages_are_cut_at_the_low_fence_of_a_child() {
        let mut bytes = vec![0; PAGE];
        let meta = NodeMeta { tree: 1, page: 5, level: 1, right: 0, low: &[], high: Some(b"x") };
        let mut builder = PageBuilder::new(&mut bytes, meta);
        for key in ["", "apple", "banana", "bandana"] {
            builder.push(key.as_bytes(), &[], &7u32.to_le_bytes());
        }
        assert_eq!(cut(&bytes, "c", 4).map(|c| c.separator), Some(b"bandana".to_vec()));
    }

    #[test]
    fn the_separator_is_as_short_as_can_be() {
        let page = leaf(&["apple", "applet", "banana", "bandana"], 2000, None);
        assert_eq!(cut(&page, "applf", 10).map(|c| c.separator), Some(b"b".to_vec()));
    }
}
