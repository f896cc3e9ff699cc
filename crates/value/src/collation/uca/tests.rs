use super::super::{
    CollationId, by_name, char_len, compare, hash, like_match, prefix_weights, substring, weights,
    weights_len,
};
use super::list::ORDERS;
use std::cmp::Ordering;
use std::hash::Hasher;

/// Letters, expansions, contractions of several languages, characters without weights, computed weights, octets that are none.
const PIECES: &[&[u8]] = &[
    b"a",
    b"A",
    b"b",
    b"c",
    b"C",
    b"ch",
    b"h",
    b"H",
    b"l",
    b"L",
    b"ll",
    b"e",
    b"s",
    b"ss",
    b"z",
    b"Z",
    b"0",
    b"9",
    b" ",
    b"  ",
    b"\t",
    b"\0",
    b"\x01",
    b"-",
    b"!",
    b"_",
    b"\xC3\xA9",
    b"\xC3\x89",
    b"e\xCC\x81",
    b"\xCC\x81",
    b"\xC3\x9F",
    b"\xC3\xA6",
    b"\xC2\xB7",
    b"\xC7\x86",
    b"\xC5\xBE",
    b"\xC3\xA5",
    b"\xD0\xB8",
    b"\xD0\xB9",
    b"\xD0\xB8\xCC\x86",
    b"\xE0\xB9\x80\xE0\xB8\x81",
    b"\xE0\xB9\x80",
    b"\xE4\xB8\x80",
    b"\xE3\x90\x80",
    b"\xEA\xB0\x80",
    b"\xF0\xA0\x80\x80",
    b"\xF0\x9F\x98\x80",
    b"\xF0\x97\x80\x80",
    b"\xEF\xB7\xBA",
    b"\xE2\x80\x8B",
    b"\xEF\xBF\xBD",
    b"\xCD\xB8",
    b"\xFF",
    b"\xC3",
    b"\xE0\xBE\xB2\xE0\xBD\xB1\xE0\xBE\x80",
    b"\xC2\xA0",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    fn text(&mut self) -> Vec<u8> {
        (0..self.below(5)).flat_map(|_| PIECES[self.below(PIECES.len())].to_vec()).collect()
    }
}

fn key(id: CollationId, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    weights(id, text, &mut out);
    out
}

fn hashed(id: CollationId, text: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hash(id, text, &mut hasher);
    hasher.finish()
}

fn ids() -> impl Iterator<Item = CollationId> {
    ORDERS.iter().map(|info| CollationId(info.number))
}

#[test]
fn keys_order_hash_and_end_as_texts_compare() {
    let mut random = Random(14);
    for id in ids() {
        let texts: Vec<Vec<u8>> = (0..24).map(|_| random.text()).collect();
        for a in &texts {
            let mut followed = key(id, a);
            let len = followed.len();
            followed.extend_from_slice(&[0, 1, 2, 3, 0xFF]);
            assert_eq!(weights_len(id, &followed), Some(len), "{} {a:x?}", id.name());
            assert_eq!(weights_len(id, &followed[..len - 1]), None, "{} {a:x?}", id.name());
            for b in &texts {
                let order = compare(id, a, b);
                assert_eq!(key(id, a).cmp(&key(id, b)), order, "{} {a:x?} {b:x?}", id.name());
                if order == Ordering::Equal {
                    assert_eq!(hashed(id, a), hashed(id, b), "{} {a:x?} {b:x?}", id.name());
                }
            }
        }
    }
}

#[test]
fn what_matches_a_beginning_lies_in_its_range() {
    let mut random = Random(15);
    for id in ids() {
        let texts: Vec<Vec<u8>> = (0..40).map(|_| random.text()).collect();
        for text in &texts {
            let chars = random.below(char_len(id, text) + 1);
            let beginning = substring(id, text, 0, chars);
            if beginning.iter().any(|octet| b"%_\\".contains(octet)) {
                continue;
            }
            let mut common = Vec::new();
            prefix_weights(id, beginning, &mut common);
            let pattern = [beginning, b"%"].concat();
            for other in texts.iter().filter(|other| like_match(id, other, &pattern, Some('\\'))) {
                assert!(key(id, other).starts_with(&common), "{} {beginning:x?} {other:x?}", id.name());
            }
        }
    }
}

/// The form of keys is stored in indexes.
#[test]
fn keys_stay_as_they_are() {
    let mut different = Vec::new();
    for (name, text, expected) in GOLDEN {
        let id = by_name(name).expect("a collation");
        let found: String = key(id, text.as_bytes()).iter().map(|octet| format!("{octet:02x}")).collect();
        if found != *expected {
            different.push(format!("{name} {text} {found}"));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

const GOLDEN: &[(&str, &str, &str)] = &[
    ("utf8mb4_unicode_ci", "Grüße, 日本 2", "283e4440402405250403c1e5e5c1e72c0403140402"),
    ("utf8mb4_unicode_nopad_ci", "a \t가", "1c040300c3c1ac0000"),
    ("utf8mb3_spanish2_ci", "chica llana", "21002c201c040333001c361c0402"),
    (
        "utf8mb4_unicode_520_ci",
        "naïve_1 😀 ﷺ",
        "391f2f49270512160403c2c3f6000403564e567d56a1040355ff567d567d568f0402",
    ),
    ("utf8mb4_uca1400_ai_ci", "Hello, l·l", "3c3644444a051a040344440402"),
    ("utf8mb4_uca1400_as_cs", "Été abc 日", "36543604032e30320403c0e5e504020105010105000800"),
    ("utf8mb4_uca1400_nopad_as_cs", "Été ", "36543604000105010105010008020202020200"),
    ("utf8mb4_uca1400_ai_cs", "Ab\tC 𗀀", "2e300300320403bf00800004020802020800"),
    ("utf8mb4_uca1400_spanish2_as_ci", "Chá", "33002e040201010500"),
    ("latin1_german2_ci", "a b", "0f0203100202"),
];
