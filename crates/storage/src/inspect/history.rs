//! The undo log of a folder: who has not ended, who is not purged, and what an entry was before.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use keel_base::{TreeId, TrxId};

use super::jumps::Jumps;
use super::{Folder, Report};
use crate::fault::StoreError;
use crate::layout::*;
use crate::page::PageRef;
use crate::row::{DELETED, FRESH, HEADER_BYTES, Header, OVERFLOW};
use crate::tree::OverflowRef;
use crate::undo::{
    ChangeRecord, Common, END_HAS_OVERFLOW, Kind, UndoPtr, decode_change, decode_common, prepared_name,
};
use crate::undo_log::layout::{DirectoryEntry, PAGE_HEADER_BYTES, PageHead, read_directory};

const UNDO: u32 = 0;
const FILE: &str = "undo.kt";
/// Versions of one entry that are walked.
const CHAIN_MAX: usize = 1 << 20;

/// What the undo log knows of a transaction that is not purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unfinished,
    Prepared,
    Committed,
    RolledBack,
}

impl Fate {
    /// Whether readers of the next start see what the transaction wrote.
    fn is_ended(self) -> bool {
        matches!(self, Fate::Committed | Fate::RolledBack)
    }
}

/// A transaction that waits for its verdict: whoever decides it, its entries are counted as they are without it.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The name it was given.
    pub name: Box<[u8]>,
    /// Its id.
    pub trx: u64,
    /// Its changes.
    pub changes: u64,
}

/// An entry once what is unfinished is rolled back, and without what is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// A row; whether it lies in overflow pages.
    Row(bool),
    /// Deleted; the entry waits for purge.
    Deleted,
    /// It will not be there.
    Gone,
}

/// The undo log.
#[derive(Default)]
pub struct History {
    fates: HashMap<u64, Fate>,
    /// Ids from here on were never given.
    limit: u64,
    /// Whether the undo log could be read whole: else nothing is known of who has ended.
    pub complete: bool,
    /// Transactions that are prepared, in order of their ids.
    pub prepared: Vec<Prepared>,
    /// Long values that only undo records name: tree and place.
    pub kept_values: HashSet<(u32, u32)>,
    /// Pages of the undo file in use.
    pub(super) used: HashSet<u32>,
    ids: HashMap<u64, Ended>,
}

/// How a transaction's records end in its segment.
struct Ended {
    common: Common,
}

/// What was found in one segment.
#[derive(Default)]
struct Scan {
    /// Transactions without an end.
    open: HashMap<u64, Open>,
    ended: Vec<Common>,
}

/// What was found of a transaction without an end.
#[derive(Default)]
struct Open {
    /// Its newest record that counts.
    last: UndoPtr,
    changes: u64,
    /// Its name, if it is prepared.
    name: Option<Box<[u8]>>,
}

impl History {
    /// Reads the undo log. Waits.
    pub fn read(folder: &Folder, report: &Report) -> History {
        let mut history = History { complete: true, limit: u64::MAX, ..History::default() };
        if !folder.has(TreeId(UNDO)) {
            report.damage("missing", FILE, None, "no undo file: nobody knows which changes were committed");
            history.complete = false;
            return history;
        }
        if let Err(e) = history.read_segments(folder, report) {
            report.damage("undo", FILE, None, format!("{e}: the newest versions are taken for committed"));
            history.complete = false;
        }
        history
    }

    fn read_segments(&mut self, folder: &Folder, report: &Report) -> Result<(), StoreError> {
        let directory = folder.page(UNDO, ROOT)?;
        let data = undo_bytes(&directory).ok_or_else(|| broken(ROOT, "not an undo page"))?;
        self.used.insert(ROOT);
        if data.is_empty() {
            // A crash came before the first start was over.
            return Ok(());
        }
        let (limit, entries) =
            read_directory(data).ok_or_else(|| broken(ROOT, "not a directory of undo segments"))?;
        self.limit = limit;
        for (number, entry) in entries.into_iter().enumerate() {
            let mut scan = Scan::default();
            if let Err(e) = self.read_segment(folder, number, entry, &mut scan) {
                report.damage("undo", FILE, None, format!("segment {number}: {e}"));
                self.complete = false;
            }
            for (trx, open) in scan.open {
                if let Err(e) = self.check_open(folder, trx, &open) {
                    report.damage(
                        "undo",
                        FILE,
                        None,
                        format!("transaction {trx} cannot be rolled back: {e}"),
                    );
                }
                let fate = if open.name.is_some() { Fate::Prepared } else { Fate::Unfinished };
                self.fates.insert(trx, fate);
                self.prepared.extend(open.name.map(|name| Prepared { name, trx, changes: open.changes }));
            }
            for end in scan.ended {
                let fate = if end.kind == Kind::Commit { Fate::Committed } else { Fate::RolledBack };
                self.fates.insert(end.trx.0, fate);
                if end.kind == Kind::Commit && end.flags & END_HAS_OVERFLOW != 0 {
                    self.ids.insert(end.trx.0, Ended { common: end });
                }
            }
        }
        self.prepared.sort_by_key(|found| found.trx);
        self.collect_kept_values(folder, report);
        Ok(())
    }

    /// Whether the records of a transaction without an end lead back to its first.
    fn check_open(&self, folder: &Folder, trx: u64, open: &Open) -> Result<(), StoreError> {
        let mut at = open.last;
        for _ in 0..=open.changes {
            if at.is_none() {
                return Ok(());
            }
            let bytes = self.record(folder, at)?;
            let change = decode_change(&bytes).filter(|change| change.common.trx.0 == trx);
            let change =
                change.ok_or_else(|| broken(at.page, format!("no change of it at {}", at.offset)))?;
            at = change.common.before;
        }
        Err(broken(at.page, "its records lead in a circle"))
    }

    fn read_segment(
        &mut self,
        folder: &Folder,
        number: usize,
        entry: DirectoryEntry,
        scan: &mut Scan,
    ) -> Result<(), StoreError> {
        let mut page = entry.head;
        let mut seq = None;
        let mut purged = true;
        let mut purge_met = false;
        while page != 0 {
            if !self.used.insert(page) {
                return Err(broken(page, "is met twice in the chains of undo pages"));
            }
            let bytes = folder.page(UNDO, page)?;
            let data = undo_bytes(&bytes).ok_or_else(|| broken(page, "not an undo page"))?;
            let head = PageHead::read(data).ok_or_else(|| broken(page, "no head of an undo page"))?;
            if usize::from(head.segment) != number {
                return Err(broken(page, format!("belongs to segment {}", head.segment)));
            }
            if seq.is_some_and(|seq| head.seq != seq + 1) || head.low > head.seq {
                return Err(broken(
                    page,
                    format!("is number {} of its segment behind {seq:?}, low {}", head.seq, head.low),
                ));
            }
            seq = Some(head.seq);
            let mut offset = PAGE_HEADER_BYTES;
            while offset < data.len() {
                if page == entry.at.page && offset >= usize::from(entry.at.offset) {
                    purge_met |= offset == usize::from(entry.at.offset);
                    purged = false;
                }
                let common = decode_common(&data[offset..])
                    .ok_or_else(|| broken(page, format!("no undo record at {offset}")))?;
                if common.trx.0 >= self.limit {
                    let what = format!(
                        "transaction {} at {offset}, ids are given below {}",
                        common.trx.0, self.limit
                    );
                    return Err(broken(page, what));
                }
                let at = UndoPtr { page, offset: offset as u16 };
                if common.kind.is_end() {
                    scan.open.remove(&common.trx.0);
                    if !purged {
                        scan.ended.push(common);
                    }
                } else if common.kind.is_change() {
                    if decode_change(&data[offset..]).is_none() {
                        return Err(broken(page, format!("no whole undo record at {offset}")));
                    }
                    let open = scan.open.entry(common.trx.0).or_default();
                    (open.last, open.changes) = (at, open.changes + 1);
                } else if let Some(open) = scan.open.get_mut(&common.trx.0) {
                    let name = prepared_name(&common, &data[offset..]);
                    open.name = (!name.is_empty()).then(|| name.into());
                    open.last = common.before;
                }
                offset += common.len;
            }
            if page == entry.at.page {
                purge_met |= usize::from(entry.at.offset) == data.len();
                purged = false;
            }
            page = PageRef::new(&bytes).right();
        }
        match entry.head != 0 && !purge_met {
            true => Err(broken(
                ROOT,
                format!("purge of segment {number} stands at {:?}, where no record is", entry.at),
            )),
            false => Ok(()),
        }
    }

    /// Long values that purge still has to free.
    fn collect_kept_values(&mut self, folder: &Folder, report: &Report) {
        for (trx, ended) in std::mem::take(&mut self.ids) {
            let mut at = ended.common.before;
            for _ in 0..CHAIN_MAX {
                if at.is_none() {
                    break;
                }
                let Ok(bytes) = self.record(folder, at) else {
                    let text =
                        format!("transaction {trx} has no record at {at:?}, to which its later ones point");
                    report.damage("undo", FILE, Some(at.page), text);
                    break;
                };
                let Some(change) = decode_change(&bytes).filter(|c| c.common.trx.0 == trx) else { break };
                if let (Kind::Update, Some(old)) = (change.common.kind, &change.old)
                    && old.header.is_overflow()
                    && let Ok(place) = <&[u8; 12]>::try_from(old.middle())
                {
                    // Page 0, of one that is freed, is no page of a value.
                    self.kept_values.insert((change.tree.0, OverflowRef::from_bytes(place).page.0));
                }
                at = change.common.before;
            }
        }
    }

    fn record(&self, folder: &Folder, at: UndoPtr) -> Result<Vec<u8>, StoreError> {
        if !self.used.contains(&at.page) {
            return Err(broken(at.page, "is in no segment of the undo log"));
        }
        let page = folder.page(UNDO, at.page)?;
        let data = undo_bytes(&page).ok_or_else(|| broken(at.page, "not an undo page"))?;
        let rest = data.get(usize::from(at.offset)..).unwrap_or_default();
        let common =
            decode_common(rest).ok_or_else(|| broken(at.page, format!("no undo record at {}", at.offset)))?;
        Ok(rest[..common.len].to_vec())
    }

    /// Transactions that have not ended and are not prepared: the next start rolls them back.
    pub fn unfinished(&self) -> u64 {
        self.fates.values().filter(|fate| **fate == Fate::Unfinished).count() as u64
    }

    /// Whether readers of the next start see what a transaction wrote.
    fn is_seen(&self, trx: TrxId) -> bool {
        self.fates.get(&trx.0).is_none_or(|fate| fate.is_ended())
    }

    /// Turns the row of an entry into what it will be once what is unfinished is rolled back, and is without what is
    /// prepared; checks all versions that the undo log keeps of it, and the jumps between them. `value` is the entry's value, header included, and becomes the row's stored bytes; each
    /// reference to a long value among the versions goes to `values`. Waits.
    pub(super) fn settle(
        &self,
        folder: &Folder,
        tree: TreeId,
        key: &[u8],
        value: &mut Vec<u8>,
        values: &mut Vec<OverflowRef>,
    ) -> Result<Settled, String> {
        let (mut header, row) = Header::split(value);
        let mut row = row.to_vec();
        let mut settled: Option<(Settled, Vec<u8>)> = None;
        let mut jumps = Jumps::default();
        for _ in 0..CHAIN_MAX {
            jumps.arrive(header, &row)?;
            if header.flags & !(DELETED | OVERFLOW | FRESH) != 0 {
                return Err(format!("unknown flags {:#x}", header.flags));
            }
            if header.trx.0 >= self.limit {
                return Err(format!(
                    "written by transaction {}, ids are given below {}",
                    header.trx.0, self.limit
                ));
            }
            let mut is_freed = false;
            if header.is_overflow() {
                let place = <&[u8; 12]>::try_from(row.as_slice());
                let place =
                    place.map_err(|_| format!("a reference to a long value of {} bytes", row.len()))?;
                let value = OverflowRef::from_bytes(place);
                is_freed = value.is_rest();
                values.push(value);
            }
            if is_freed && settled.is_none() && !(header.is_deleted() && self.is_seen(header.trx)) {
                return Err("its long value is being freed, though the row is there".into());
            }
            let fate = self.fates.get(&header.trx.0);
            if fate == Some(&Fate::RolledBack) {
                return Err(format!("transaction {} was rolled back, its change is there", header.trx.0));
            }
            // Where the undo log is not whole, nobody knows who has not ended.
            if (self.is_seen(header.trx) || !self.complete) && settled.is_none() {
                jumps.settle()?;
                let state =
                    if header.is_deleted() { Settled::Deleted } else { Settled::Row(header.is_overflow()) };
                settled = Some((state, row.clone()));
            }
            // Nobody needs what lies behind a value that purge frees, and the way there is gone with it.
            if fate.is_none() || !self.complete || is_freed {
                break;
            }
            let bytes = self.record(folder, header.undo).map_err(|e| format!("version chain: {e}"))?;
            let change = matching(&bytes, tree, key, header)?;
            let Some(old) = &change.old else {
                settled.get_or_insert((Settled::Gone, Vec::new()));
                jumps.end()?;
                break;
            };
            if header.is_fresh() {
                return Err("is marked as having no version before, but its undo record holds one".into());
            }
            old.apply(&mut row)
                .ok_or_else(|| format!("the old row at {:?} does not fit the newer one", header.undo))?;
            jumps.follow(&change, header.undo, &row, |trx| self.is_seen(trx))?;
            header = old.header;
        }
        let (state, row) = settled.ok_or("more versions than can be")?;
        *value = row;
        Ok(state)
    }

    /// Whether purge has passed the transaction that deleted this entry.
    pub(super) fn is_purged(&self, value: &[u8]) -> bool {
        self.complete && !self.fates.contains_key(&Header::split(value).0.trx.0)
    }

    /// Whether the entry is as it was written by somebody who is purged: nothing to walk.
    #[inline]
    pub(super) fn is_plain(&self, value: &[u8]) -> bool {
        let header = Header::split(value).0;
        header.flags & !FRESH == 0 && header.trx.0 < self.limit && !self.fates.contains_key(&header.trx.0)
    }
}

/// The record of the change that made the version with this header.
fn matching<'r>(
    record: &'r [u8],
    tree: TreeId,
    key: &[u8],
    header: Header,
) -> Result<ChangeRecord<'r>, String> {
    let change = decode_change(record)
        .ok_or_else(|| format!("version chain: no change record at {:?}", header.undo))?;
    if change.common.trx != header.trx || change.tree != tree || change.key != key {
        return Err(format!(
            "version chain: the undo record at page {} offset {} is of transaction {}, tree {}, key {}; expected transaction {}, tree \
             {tree}, key {}",
            header.undo.page,
            header.undo.offset,
            change.common.trx.0,
            change.tree,
            change.key.escape_ascii(),
            header.trx.0,
            key.escape_ascii()
        ));
    }
    Ok(change)
}

/// The records of an undo page.
fn undo_bytes(page: &Arc<[u8]>) -> Option<&[u8]> {
    let page = PageRef::new(page);
    (page.kind() == KIND_UNDO && page.heap() <= CHAIN_ROOM)
        .then(|| &page.bytes()[HEADER..HEADER + page.heap()])
}

fn broken(page: u32, what: impl Into<String>) -> StoreError {
    StoreError::Corrupt { file: FILE.into(), page, what: what.into() }
}

const _: () = assert!(HEADER_BYTES == 13);
