//! The page format against golden dumps and a model.

use std::collections::BTreeMap;

use super::*;

/// A generator that needs no world: xorshift64*.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn node<'k>(low: &'k [u8], high: Option<&'k [u8]>) -> NodeMeta<'k> {
    NodeMeta { tree: 7, page: 42, level: 0, right: 43, low, high }
}

/// Header words, slots and cells, in words.
fn dump(page: PageRef<'_>) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let text = |b: &[u8]| b.escape_ascii().to_string();
    writeln!(out, "header {}", page.bytes()[..HEADER].iter().map(|b| format!("{b:02x}")).collect::<String>())
        .expect("string");
    writeln!(
        out,
        "kind {} level {} right {} heap {} garbage {} low {:?} high {:?} prefix {:?}",
        page.kind(),
        page.level(),
        page.right(),
        page.heap(),
        page.garbage(),
        text(page.low()),
        page.high().map(text),
        text(page.prefix())
    )
    .expect("string");
    for index in 0..page.count() {
        let s = page.slot(index);
        let (key, value) = (text(page.suffix(index)), text(page.value(index)));
        writeln!(out, "{index}: at {} head {:08x} {key:?} = {value:?}", s.offset, s.head).expect("string");
    }
    writeln!(out, "crc {:08x}", keel_base::checksum::crc32c(&page.bytes()[AT_PAGE..])).expect("string");
    out
}

#[test]
fn the_format_is_what_it_was() {
    let mut bytes = vec![0; PAGE];
    let mut builder = PageBuilder::new(&mut bytes, node(b"user/100", Some(b"user/200")));
    builder.push(b"user/1", b"00", b"alpha");
    builder.push(b"", b"user/120", b"beta");
    builder.push(b"user/199", b"/z", b"");
    let mut page = PageMut::new(&mut bytes);
    page.set_lsn(0x1122_3344_5566);
    let mut out = dump(page.as_ref());
    page.insert(1, b"10x", b"gamma").expect("room");
    page.splice(0, 1, 3, b"LPHALPH").expect("room");
    page.splice(2, 0, 4, b"B").expect("room");
    page.patch(2, 0, b"b");
    page.remove(3);
    out += &dump(page.as_ref());
    page.truncate(2, b"user/11", 99);
    out += &dump(page.as_ref());
    assert_eq!(out, include_str!("../../golden/page.txt"), "the page format changed; the new dump:\n{out}");
}

#[test]
fn an_image_restores_the_page() {
    let mut bytes = vec![0; PAGE];
    let mut builder = PageBuilder::new(&mut bytes, node(b"a", None));
    builder.push(b"b", b"", b"1");
    builder.push(b"c", b"", b"2");
    PageMut::new(&mut bytes).remove(0);
    let (top, bottom) = image_parts(PageRef::new(&bytes));
    let mut copy = vec![0xee; PAGE];
    copy[..AT_TREE].copy_from_slice(&bytes[..AT_TREE]);
    PageMut::new(&mut copy).load_image(top, bottom);
    // The gap is not part of the content.
    let content = |bytes: &[u8]| dump(PageRef::new(bytes)).split("crc").next().map(str::to_owned);
    assert_eq!(content(&copy), content(&bytes));
}

#[test]
fn a_sealed_page_notices_any_flipped_bit() {
    let mut bytes = vec![0; PAGE];
    PageBuilder::new(&mut bytes, node(b"", None)).push(b"k", b"", b"v");
    PageMut::new(&mut bytes).seal();
    assert!(PageRef::new(&bytes).crc_ok());
    for at in [0, 5, 9, 63, 64, 5000, PAGE - 1] {
        bytes[at] ^= 0x10;
        assert!(!PageRef::new(&bytes).crc_ok(), "byte {at}");
        bytes[at] ^= 0x10;
    }
}

#[test]
fn search_finds_every_key_and_every_gap() {
    let keys: [&[u8]; 9] = [b"p", b"p\0", b"p\0\0\0\0", b"pa", b"pabc", b"pabcd", b"pabcde", b"pabd", b"pz"];
    let mut bytes = vec![0; PAGE];
    let mut builder = PageBuilder::new(&mut bytes, node(b"p", Some(b"pzz")));
    for key in keys {
        builder.push(key, b"", b"");
    }
    let page = PageRef::new(&bytes);
    assert_eq!(page.prefix(), b"p");
    for (slot, key) in keys.iter().enumerate() {
        assert_eq!(page.search(key), Ok(slot));
        assert_eq!(page.cmp(slot, key), Ordering::Equal);
        let mut above = key.to_vec();
        above.push(0);
        let expected = keys.binary_search(&above.as_slice());
        assert_eq!(page.search(&above), expected, "{above:?}");
    }
    assert_eq!(page.search(b"o"), Err(0));
    assert_eq!(page.search(b""), Err(0));
    assert_eq!(page.search(b"q"), Err(9));
    assert_eq!(page.cmp(0, b"o"), Ordering::Greater);
    assert_eq!(page.cmp(0, b"q"), Ordering::Less);
}

#[test]
fn random_changes_agree_with_a_map() {
    for seed in 1..40 {
        let mut rng = Rng(seed);
        let mut bytes = vec![0; PAGE];
        PageBuilder::new(&mut bytes, node(b"k", Some(b"kz")));
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for step in 0..600 {
            let key = format!("k{:0width$}", rng.below(60), width = 1 + rng.below(5)).into_bytes();
            let value = vec![rng.next() as u8; rng.below(900)];
            change(&mut bytes, &mut model, &key, &value, rng.below(4));
            let page = PageRef::new(&bytes);
            assert_eq!(page.problem(), None, "seed {seed} step {step}");
            assert_eq!(page.count(), model.len(), "seed {seed} step {step}");
        }
        let page = PageRef::new(&bytes);
        let mut key = Vec::new();
        for (slot, (k, v)) in model.iter().enumerate() {
            page.key(slot, &mut key);
            assert_eq!((&key, page.value(slot)), (k, v.as_slice()), "seed {seed}");
        }
    }
}

/// One random change; a refusal must be for want of room.
fn change(bytes: &mut [u8], model: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: &[u8], value: &[u8], what: usize) {
    let mut page = PageMut::new(bytes);
    let room = page.as_ref().room();
    match page.as_ref().search(key) {
        Err(slot) => match page.insert(slot, &key[1..], value) {
            Ok(()) => _ = model.insert(key.to_vec(), value.to_vec()),
            Err(NoRoom) => assert!(room < SLOT + CELL_HEAD + key.len() - 1 + value.len()),
        },
        Ok(slot) if what == 0 => {
            page.remove(slot);
            model.remove(key);
        }
        Ok(slot) => {
            let old = page.as_ref().value(slot).to_vec();
            let (start, end) = (old.len() / 3, old.len() / 2);
            let mut new = old[..start].to_vec();
            new.extend_from_slice(value);
            new.extend_from_slice(&old[end..]);
            if new.len() <= VALUE_MAX && page.splice(slot, start, end - start, value).is_ok() {
                model.insert(key.to_vec(), new);
            }
        }
    }
}

/// What is written in place of a page is what it says it has touched: a byte that changes unnoticed is lost.
#[test]
fn every_changed_byte_is_noted() {
    let mut rng = Rng(99);
    let mut bytes = vec![0; PAGE];
    PageBuilder::new(&mut bytes, node(b"", None));
    let mut partial = 0;
    for step in 0..20_000 {
        let before = bytes.clone();
        let mut page = PageMut::new(&mut bytes);
        let key = format!("{:06}", rng.below(400)).into_bytes();
        let value = vec![step as u8; rng.below(90)];
        let found = page.as_ref().search(&key);
        let count = page.as_ref().count();
        match (rng.below(40), found) {
            (0, _) if count > 10 => page.truncate(count - rng.below(5), b"zzz", step as u32),
            (1, _) => page.write(AT_RIGHT, &(step as u32).to_le_bytes()),
            (2, _) => page.set_lsn(step as u64),
            (3..10, Ok(slot)) => page.remove(slot),
            (10..20, Ok(slot)) if !page.as_ref().value(slot).is_empty() => page.patch(slot, 0, &[step as u8]),
            (_, Ok(slot)) => {
                let old = page.as_ref().value(slot).len();
                let _ = page.splice(slot, old / 2, old - old / 2, &value);
            }
            (_, Err(slot)) => drop(page.insert(slot, &key, &value)),
        }
        page.seal();
        let touched = page.touched();
        partial += usize::from(touched.count() < 8);
        for unit in Touched(!touched.0).units() {
            assert_eq!(
                before[unit.clone()],
                bytes[unit.clone()],
                "step {step}: bytes {unit:?} changed unnoticed"
            );
        }
    }
    assert!(partial > 5000, "only {partial} changes touched little");
}
