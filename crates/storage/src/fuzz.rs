//! Entry points for fuzzers: the formats that this crate keeps to itself, given any bytes.
//!
//! Each function takes an input, and panics where a promise is broken: a reader that leaves its bytes, a page that a change
//! made unsound, a map that a page does not agree with.

use std::collections::BTreeMap;

use keel_base::checksum::crc32c;

use crate::layout::*;
use crate::log::record::{Group, Record, Records, group_len, records_crc, seal_group};
use crate::page::{NoRoom, NodeMeta, PageBuilder, PageMut, PageRef, image_parts};

/// Changes taken of one input.
const STEPS_MAX: usize = 400;

/// The page that groups of an input change.
const AT: (u32, u32) = (7, 42);

fn node<'k>(low: &'k [u8], high: Option<&'k [u8]>) -> NodeMeta<'k> {
    NodeMeta { tree: AT.0, page: AT.1, level: 0, right: 43, low, high }
}

fn build(entries: usize, value_len: usize) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let mut builder = PageBuilder::new(&mut bytes, node(b"k", Some(b"kz")));
    for number in 0..entries {
        builder.push(b"k", format!("{number:05}").as_bytes(), &vec![number as u8; value_len]);
    }
    bytes
}

/// Sound pages of different fill.
pub fn sample_pages() -> Vec<Vec<u8>> {
    [(0, 0), (3, 10), (60, 200), (400, 20)].map(|(entries, len)| build(entries, len)).into()
}

/// Reads a page made of the input, its checksum made right: it is found unsound, or every reader and change of it works.
pub fn page_decode(data: &[u8]) {
    let mut bytes = vec![0; PAGE];
    let len = data.len().min(PAGE);
    bytes[..len].copy_from_slice(&data[..len]);
    let page = PageRef::new(&bytes);
    if page.problem().is_some() {
        return;
    }
    let mut keys = Vec::new();
    for slot in 0..page.count() {
        let mut key = Vec::new();
        page.key(slot, &mut key);
        assert_eq!(page.search(&key), Ok(slot));
        page.value(slot);
        keys.push(key);
    }
    let mut copy = vec![0; PAGE];
    copy[..AT_TREE].copy_from_slice(&bytes[..AT_TREE]);
    let (top, bottom) = image_parts(PageRef::new(&bytes));
    PageMut::new(&mut copy).load_image(top, bottom);
    assert_eq!(PageRef::new(&copy).problem(), None);
    let mut page = PageMut::new(&mut copy);
    // Removing the first and filling what is free makes it compact itself.
    if !keys.is_empty() {
        let suffix = page.as_ref().suffix(0).to_vec();
        page.remove(0);
        if page.as_ref().level() == 0 {
            let room = page.as_ref().room().saturating_sub(SLOT + CELL_HEAD + suffix.len());
            let value = vec![7; room.min(VALUE_MAX)];
            page.insert(0, &suffix, &value).expect("the room that it said it has");
        }
    }
    assert_eq!(page.as_ref().problem(), None);
}

/// Changes a page as the input says; a map is changed likewise.
pub fn page_changes(data: &[u8]) {
    let mut bytes = build(0, 0);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for step in data.chunks_exact(5).take(STEPS_MAX) {
        let key = format!("k{:0width$}", step[1] % 80, width = 1 + usize::from(step[2] & 7)).into_bytes();
        let value = vec![step[3]; usize::from(step[3]) * (1 + usize::from(step[4] & 7))];
        change(&mut bytes, &mut model, &key, &value, step[0]);
        let page = PageRef::new(&bytes);
        assert_eq!(page.problem(), None);
        assert_eq!(page.count(), model.len());
    }
    let page = PageRef::new(&bytes);
    let mut key = Vec::new();
    for (slot, (k, v)) in model.iter().enumerate() {
        page.key(slot, &mut key);
        assert_eq!((&key, page.value(slot)), (k, v.as_slice()));
    }
}

/// One change; a refusal must be for want of room.
fn change(bytes: &mut [u8], model: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: &[u8], value: &[u8], what: u8) {
    let mut page = PageMut::new(bytes);
    let room = page.as_ref().room();
    match page.as_ref().search(key) {
        Err(slot) => match page.insert(slot, &key[1..], value) {
            Ok(()) => _ = model.insert(key.to_vec(), value.to_vec()),
            Err(NoRoom) => assert!(room < SLOT + CELL_HEAD + key.len() - 1 + value.len()),
        },
        Ok(slot) if what < 60 => {
            page.remove(slot);
            model.remove(key);
        }
        Ok(slot) if what < 70 => {
            page.truncate(slot, key, 99);
            assert_eq!(page.as_ref().problem(), None);
            model.split_off(key);
            assert_eq!(page.as_ref().count(), model.len());
            // What comes next may lie beyond the new fence: the rest goes on in a page that takes all keys.
            let mut fresh = build(0, 0);
            let mut page = PageMut::new(&mut fresh);
            for (slot, (key, value)) in model.iter().enumerate() {
                page.insert(slot, &key[1..], value).expect("it was in a page");
            }
            bytes.copy_from_slice(&fresh);
        }
        Ok(slot) => {
            let old = page.as_ref().value(slot).to_vec();
            let (start, end) = (old.len() / 3, old.len() / 2);
            let new = [&old[..start], value, &old[end..]].concat();
            if new.len() <= VALUE_MAX && page.splice(slot, start, end - start, value).is_ok() {
                model.insert(key.to_vec(), new);
            }
        }
    }
}

/// Reads the input as the records of a group whose checksums are right, and applies each to a sound page: it is refused,
/// or done within the page's bytes.
pub fn redo(data: &[u8]) {
    let mut group = Group::default();
    group.reset();
    group.bytes_mut().extend_from_slice(data);
    let bytes = group.bytes_mut();
    let crc = records_crc(bytes);
    seal_group(bytes, crc, 4096, crc32c(data));
    assert_eq!(group_len(bytes), Some(bytes.len()));
    let mut page = build(40, 60);
    for record in Records::new(bytes) {
        let Ok(Record::Page { at, change }) = record else { continue };
        let before = page.clone();
        // A checksum vouches for a record, so one may make a page unsound; the next meets a sound one again.
        if change.apply(at, &mut page).is_err() || PageRef::new(&page).problem().is_some() {
            page = before;
        }
    }
}

/// Records of sound groups.
pub fn sample_groups() -> Vec<Vec<u8>> {
    let records = |fill: &dyn Fn(&mut Group)| {
        let mut group = Group::default();
        group.reset();
        fill(&mut group);
        group.bytes_mut().split_off(crate::log::record::GROUP_HEAD)
    };
    let full = build(5, 20);
    vec![
        records(&|group| {
            group.insert(AT, 3, b"00002x", b"value");
            group.splice(AT, 3, 1, 3, b"longer than before");
            group.patch(AT, 3, 2, b"RE");
            group.remove(AT, 3);
        }),
        records(&|group| {
            group.start(0x0102_0304_0506_0708);
            group.image(AT, PageRef::new(&full));
            group.truncate(AT, 2, b"k00002", 10);
            group.insert(AT, 2, b"00001x", b"");
        }),
        records(&|group| {
            group.format(AT, KIND_UNDO);
            group.write(AT, HEADER, b"undo");
            group.user(7, b"payload");
        }),
        crate::log::record::durable_mark(0x0102_0304)[crate::log::record::GROUP_HEAD..].to_vec(),
    ]
}
