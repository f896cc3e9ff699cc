//! Nothing here panics on octets from outside: texts, patterns, rows and keys made of noise.

use std::panic::catch_unwind;

use keel_value::convert::{StoreContext, compare, for_index, store, to_bool, to_decimal, to_f64, to_i64};
use keel_value::key::KeyPart;
use keel_value::row::{Layout, RowRef};
use keel_value::temporal::{Date, Utc};
use keel_value::{SqlMode, SqlType, ValueRef, collation, text};

use crate::support::parse_type;

/// Marsaglia's xorshift, so that a failing seed repeats.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Up to 40 octets, half of the time such as numbers and dates are made of.
    fn octets(&mut self) -> Vec<u8> {
        const MEANT: &[u8] = b"0123456789019-+.:eET /%_\\ aA\xC3\xA9\xF0\x9F\x98\x80";
        let len = self.next() % 40;
        let meant = self.next().is_multiple_of(2);
        (0..len)
            .map(|_| {
                let v = self.next();
                if meant { MEANT[v as usize % MEANT.len()] } else { v as u8 }
            })
            .collect()
    }
}

fn every_type() -> Vec<SqlType> {
    include_str!("../data/types.txt")
        .lines()
        .map(|line| parse_type(line.split('\t').next().unwrap()))
        .collect()
}

fn try_texts(noise: &mut Noise, types: &[SqlType]) {
    let context = StoreContext {
        mode: SqlMode(noise.next() & SqlMode::TIME_ROUND_FRACTIONAL.0),
        strict: noise.next().is_multiple_of(2),
        zone: &Utc,
        today: Date::new(2024, 5, 6),
    };
    let (a, b) = (noise.octets(), noise.octets());
    let collations = collation::all();
    let id = collations[noise.next() as usize % collations.len()];
    let from = SqlType::varchar(40, id);
    let value = ValueRef::Bytes(&a);
    let mut out = Vec::new();
    for ty in types {
        if let Ok((cell, _)) = store(ty, &from, value, &context) {
            text::append(&mut out, ty, cell.as_ref());
            KeyPart::new(ty.clone(), true).encode(cell.as_ref(), &mut out);
            compare(cell.as_ref(), ty, ValueRef::Bytes(&b), &from, &mut |_| {});
            for_index(&types[noise.next() as usize % types.len()], ty, cell.as_ref(), &context);
        }
    }
    to_i64(value, &from, &mut |_| {});
    to_f64(value, &from, &mut |_| {});
    to_decimal(value, &from, &mut |_| {});
    to_bool(value, &from, &mut |_| {});
    collation::like_match(id, &a, &b, Some('\\'));
    collation::upper(id, &a);
    collation::substring(id, &a, 3, 7);
    collation::weights_len(id, &a);
    let target = collations[noise.next() as usize % collations.len()].charset();
    collation::convert(id.charset(), target, &a);
}

fn try_rows(noise: &mut Noise, layout: &Layout) {
    let mut bytes: Vec<u8> = (0..noise.next() % 300).map(|_| noise.next() as u8).collect();
    if let Some(first) = bytes.first_mut() {
        *first = layout.columns().len() as u8 - noise.next() as u8 % 3;
    }
    let row = RowRef::new(layout, &bytes);
    let mut out = Vec::new();
    for (i, column) in layout.columns().iter().enumerate() {
        text::append(&mut out, &column.ty, row.get(i));
        let part = KeyPart { descending: i % 2 == 0, ..KeyPart::new(column.ty.clone(), i % 3 == 0) };
        if let Some((value, len)) = part.decode(&bytes) {
            text::append(&mut out, &column.ty, value.as_ref());
            assert_eq!(part.skip(&bytes), Some(len));
        }
    }
}

#[test]
fn noise_never_panics() {
    let types = every_type();
    let layout = Layout::new(&types.iter().map(|ty| (ty.clone(), true)).collect::<Vec<_>>());
    for seed in 1..3000u64 {
        let run = catch_unwind(|| {
            let mut noise = Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            try_texts(&mut noise, &types);
            try_rows(&mut noise, &layout);
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}
