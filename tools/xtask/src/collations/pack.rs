//! The form of the files.

use super::ask::{Contraction, WeightMap};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The weight on the second and third level of a character that the file does not tell.
pub const COMMON: [u16; 3] = [0, 0x20, 0x02];
/// What is added to a character that no range names, as its two weights have it.
const DELTA: u32 = 0xFBC0 << 15;
/// So many characters in a row make a range.
const RANGE_MIN: usize = 16;
const UNTOLD: u16 = 0xFFFF;
const FLAG: u16 = 0x8000;

/// Takes out of a first level what is computed: the weight of characters outside the basic plane, if that is one, and ranges of
/// characters whose two weights grow with them: first, last, and what is added.
pub fn computed(level: &mut WeightMap) -> (u16, Vec<(u32, u32, u32)>) {
    let beyond = match level.get(&0x1_0000).map(Vec::as_slice) {
        Some([weight]) if level.get(&0x10_0000).map(Vec::as_slice) == Some(&[*weight]) => *weight,
        _ => 0,
    };
    if beyond != 0 {
        level.retain(|code, weights| *code < 0x1_0000 || *weights != [beyond]);
    }
    let delta = |code: u32, weights: &[u16]| match weights {
        [first, second] if *first >= 0xFB00 && *second >= FLAG => {
            Some((u32::from(*first) << 15 | u32::from(second & !FLAG)).wrapping_sub(code))
        }
        _ => None,
    };
    level.retain(|code, weights| delta(*code, weights) != Some(DELTA));
    let mut ranges: Vec<(u32, u32, u32)> = Vec::new();
    for (code, weights) in level.iter() {
        let Some(delta) = delta(*code, weights) else { continue };
        match ranges.last_mut() {
            Some(range) if range.1 + 1 == *code && range.2 == delta => range.1 = *code,
            _ => ranges.push((*code, *code, delta)),
        }
    }
    ranges.retain(|(first, last, _)| (last - first) as usize + 1 >= RANGE_MIN);
    level.retain(|code, _| !ranges.iter().any(|(first, last, _)| (*first..=*last).contains(code)));
    (beyond, ranges)
}

/// Lists of weights, each once.
#[derive(Default, Clone)]
struct Pool {
    numbers: Vec<u16>,
    places: HashMap<(Vec<u16>, bool), u16>,
    /// How many numbers lie in the pools before.
    base: usize,
}

impl Pool {
    fn place(&mut self, weights: &[u16], begins: bool) -> Result<u16, String> {
        let key = (weights.to_vec(), begins);
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        let place =
            u16::try_from(self.base + self.numbers.len()).ok().filter(|place| *place < UNTOLD & !FLAG);
        let place = place.ok_or("a pool is too long")?;
        self.numbers.push(weights.len() as u16 | if begins { FLAG } else { 0 });
        self.numbers.extend_from_slice(weights);
        self.places.insert(key, place);
        Ok(place)
    }

    /// The value of a character.
    fn value(&mut self, weights: &[u16], begins: bool) -> Result<u16, String> {
        match weights {
            [] if !begins => Ok(0),
            [weight] if !begins && *weight < FLAG && *weight > 0 => Ok(*weight),
            [_] | [] => Ok(FLAG | self.place(weights, begins)?),
            _ if begins => Err(format!("a contraction begins with a character of weights {weights:04X?}")),
            _ => Ok(FLAG | self.place(weights, begins)?),
        }
    }
}

/// Writes a file.
pub struct Packer<'a> {
    out: Vec<u8>,
    levels: &'a [WeightMap],
    ranges: Vec<(u32, u32, u32)>,
    pools: Vec<Pool>,
    tailorings: Vec<u8>,
    tailoring_count: u16,
}

fn put(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_long(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_pool(out: &mut Vec<u8>, numbers: &[u16]) {
    put(out, numbers.len() as u16);
    numbers.iter().for_each(|number| put(out, *number));
}

fn put_case(out: &mut Vec<u8>, lists: &[Vec<(u32, u32)>; 2]) {
    for list in lists {
        put(out, list.len() as u16);
        for (from, to) in list {
            put_long(out, *from);
            put_long(out, *to);
        }
    }
}

impl<'a> Packer<'a> {
    /// Begins a file with the order itself; the levels hold what is not computed.
    pub fn new(
        beyond: u16,
        ranges: &[(u32, u32, u32)],
        levels: &'a [WeightMap],
        contractions: &[Contraction],
    ) -> Result<Packer<'a>, String> {
        let mut out = Vec::new();
        put(&mut out, levels.len() as u16);
        put(&mut out, beyond);
        put(&mut out, ranges.len() as u16);
        for (first, last, delta) in ranges {
            [first, last, delta].iter().for_each(|number| put_long(&mut out, **number));
        }
        let mut packer = Packer {
            out,
            levels,
            ranges: ranges.to_vec(),
            pools: Vec::new(),
            tailorings: Vec::new(),
            tailoring_count: 0,
        };
        for (number, level) in levels.iter().enumerate() {
            packer.root(number, level, contractions)?;
        }
        Ok(packer)
    }

    fn root(&mut self, number: usize, level: &WeightMap, contractions: &[Contraction]) -> Result<(), String> {
        check_least(number, level)?;
        let heads: BTreeSet<u32> = contractions.iter().map(|c| c.characters[0]).collect();
        let mut pool = Pool::default();
        let mut pages: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for code in level.keys().chain(&heads) {
            let weights = self.weights(number, *code);
            let page = pages.entry(code >> 8).or_insert_with(|| vec![UNTOLD; 256]);
            page[(code & 0xFF) as usize] = pool.value(&weights, heads.contains(code))?;
        }
        let mut distinct: Vec<Vec<u16>> = Vec::new();
        let mut index = vec![0u8; pages.keys().last().map_or(0, |last| *last as usize + 1)];
        for (page, values) in pages {
            let place = distinct.iter().position(|known| *known == values).unwrap_or_else(|| {
                distinct.push(values);
                distinct.len() - 1
            });
            index[page as usize] = u8::try_from(place + 1).map_err(|_| "too many pages")?;
        }
        put(&mut self.out, index.len() as u16);
        self.out.extend_from_slice(&index);
        if index.len() % 2 == 1 {
            self.out.push(0);
        }
        put(&mut self.out, distinct.len() as u16);
        distinct.iter().flatten().for_each(|value| put(&mut self.out, *value));
        let listed = listed(number, contractions, &mut pool)?;
        put_pool(&mut self.out, &pool.numbers);
        self.out.extend_from_slice(&listed);
        self.pools.push(pool);
        Ok(())
    }

    /// Adds what letters become in the order itself.
    pub fn case(&mut self, lists: &[Vec<(u32, u32)>; 2]) {
        put_case(&mut self.out, lists);
    }

    /// The weights of a character in the order itself.
    fn weights(&self, number: usize, code: u32) -> Vec<u16> {
        if let Some(weights) = self.levels[number].get(&code) {
            return weights.clone();
        }
        if number > 0 {
            return vec![COMMON[number]];
        }
        let range = self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&code));
        let both = code.wrapping_add(range.map_or(DELTA, |range| range.2));
        vec![(both >> 15) as u16, (both & 0x7FFF) as u16 | FLAG]
    }

    /// Adds a tailoring: what it changes on each level, and its contractions.
    pub fn tailoring(
        &mut self,
        changes: &[WeightMap],
        own: &[Contraction],
        case: &[Vec<(u32, u32)>; 2],
    ) -> Result<(), String> {
        let heads: BTreeSet<u32> = own.iter().map(|c| c.characters[0]).collect();
        for (number, changed) in changes.iter().enumerate() {
            check_least(number, changed)?;
            let root = &self.pools[number];
            let mut pool =
                Pool { numbers: Vec::new(), places: root.places.clone(), base: root.numbers.len() };
            let codes: BTreeSet<u32> = changed.keys().chain(&heads).copied().collect();
            put(&mut self.tailorings, codes.len() as u16);
            for code in codes {
                let weights = changed.get(&code).cloned().unwrap_or_else(|| self.weights(number, code));
                put_long(&mut self.tailorings, code);
                put(&mut self.tailorings, pool.value(&weights, heads.contains(&code))?);
            }
            let listed = listed(number, own, &mut pool)?;
            put_pool(&mut self.tailorings, &pool.numbers);
            self.tailorings.extend_from_slice(&listed);
        }
        put_case(&mut self.tailorings, case);
        self.tailoring_count += 1;
        Ok(())
    }

    /// The file.
    pub fn finish(mut self) -> Vec<u8> {
        put(&mut self.out, self.tailoring_count);
        self.out.extend_from_slice(&self.tailorings);
        self.out
    }
}

/// Contractions as a file has them.
fn listed(number: usize, contractions: &[Contraction], pool: &mut Pool) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    put(&mut out, contractions.len() as u16);
    for contraction in contractions {
        contraction.characters.iter().for_each(|code| put_long(&mut out, *code));
        put(&mut out, pool.place(&contraction.weights[number], false)?);
    }
    Ok(out)
}

/// Sort keys rely on it that on the second and third level nothing weighs less than a space.
fn check_least(number: usize, level: &WeightMap) -> Result<(), String> {
    let least = level.values().flatten().min().copied().unwrap_or(u16::MAX);
    if number > 0 && least < COMMON[number] {
        return Err(format!("level {}: the weight {least:04X} is less than a space's", number + 1));
    }
    Ok(())
}
