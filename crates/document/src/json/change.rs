//! Changes of a text at one place: what the change needs is copied around the text that stays.
//!
//! The place is sought in the text as it is, and nothing behind it is checked: whoever changes writes the result anew
//! ([`mod@super::format`]) and reports what is wrong then.

use super::fault::Fault;
use super::find;
use super::path::{Path, Step, Target};
use super::scan::{Kind, Scanner, Value};

/// Which of JSON_SET, JSON_INSERT and JSON_REPLACE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Adds what is not there.
    pub inserts: bool,
    /// Replaces what is there.
    pub replaces: bool,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// The new text.
    Text(Vec<u8>),
    /// All stays as it is.
    Nothing,
    /// The path leads nowhere.
    NotFound,
}

fn splice(text: &[u8], from: usize, to: usize, parts: &[&[u8]]) -> Changed {
    let added: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(text.len() - (to - from) + added);
    out.extend_from_slice(&text[..from]);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(&text[to..]);
    Changed::Text(out)
}

impl Mode {
    /// What was found gets the value.
    fn replace(self, text: &[u8], found: &Value, end: usize, value: &[u8]) -> Changed {
        if self.replaces { splice(text, found.start, end, &[value]) } else { Changed::Nothing }
    }

    /// Behind the last of so many members comes another, made of `parts`. The scanner has read the closing bracket.
    fn add(self, scanner: &Scanner<'_>, members: usize, parts: &[&[u8]]) -> Changed {
        if !self.inserts {
            return Changed::Nothing;
        }
        let bracket = scanner.offset() - 1;
        let comma: &[u8] = if members > 0 { b", " } else { b"" };
        splice(scanner.text(), bracket, bracket, &[&[comma], parts].concat())
    }
}

/// Of what only adds.
const ADDS: Mode = Mode { inserts: true, replaces: false };

/// Adds or replaces the value at a path.
pub fn set(text: &[u8], path: &Path<'_>, value: &[u8], mode: Mode) -> Result<Changed, Fault> {
    let Some((last, parents)) = path.steps.split_last() else {
        return Ok(if mode.replaces { Changed::Text(value.to_vec()) } else { Changed::Nothing });
    };
    let mut scanner = Scanner::new(text);
    let Some(parent) = find::first(&mut scanner, parents, false)? else { return Ok(Changed::Nothing) };
    match (parent.kind, last.target) {
        (Kind::Array, Target::Index(index)) => set_element(scanner, index, value, mode),
        (Kind::Object, Target::Key(key)) => set_member(scanner, last, key, value, mode),
        (Kind::Array, _) | (_, Target::Key(_)) => Ok(Changed::Nothing),
        (_, Target::Index(index)) => {
            let end = scanner.skip(&parent)?;
            // What is no array is its own first element.
            if index <= 0 {
                return Ok(mode.replace(text, &parent, end, value));
            }
            if !mode.inserts {
                return Ok(Changed::Nothing);
            }
            Ok(splice(text, parent.start, end, &[b"[", &text[parent.start..end], b", ", value, b"]"]))
        }
        _ => Ok(Changed::Nothing),
    }
}

/// The place of an index in an array of a length; None lies before its start.
fn resolve(index: i32, length: usize) -> Option<usize> {
    if index >= 0 { Some(index as usize) } else { length.checked_sub(index.unsigned_abs() as usize) }
}

fn set_element(mut scanner: Scanner<'_>, index: i32, value: &[u8], mode: Mode) -> Result<Changed, Fault> {
    let text = scanner.text();
    let length = if index < 0 { find::count(scanner)? } else { 0 };
    let wanted = resolve(index, length);
    let mut place = 0;
    while scanner.element()? {
        let element = scanner.value()?;
        let end = scanner.skip(&element)?;
        if wanted == Some(place) {
            return Ok(mode.replace(text, &element, end, value));
        }
        place += 1;
    }
    Ok(mode.add(&scanner, place, &[value]))
}

fn set_member(
    mut scanner: Scanner<'_>,
    step: &Step<'_>,
    key: &[u8],
    value: &[u8],
    mode: Mode,
) -> Result<Changed, Fault> {
    let text = scanner.text();
    let mut members = 0;
    while let Some(found) = scanner.key()? {
        let member = scanner.value()?;
        let end = scanner.skip(&member)?;
        if step.fits_key(text, &found, false) {
            return Ok(mode.replace(text, &member, end, value));
        }
        members += 1;
    }
    Ok(mode.add(&scanner, members, &[b"\"", key, b"\":", value]))
}

/// Appends to the array at a path; anything else becomes an array first.
pub fn append(text: &[u8], path: &Path<'_>, value: &[u8]) -> Result<Changed, Fault> {
    let mut scanner = Scanner::new(text);
    let Some(target) = find::first(&mut scanner, &path.steps, false)? else { return Ok(Changed::NotFound) };
    if target.kind == Kind::Array {
        let members = find::count_members(&mut scanner)?;
        return Ok(ADDS.add(&scanner, members, &[value]));
    }
    let end = scanner.skip(&target)?;
    Ok(splice(text, target.start, end, &[b"[", &text[target.start..end], b", ", value, b"]"]))
}

/// Puts a value before the element of an array that a path's last step names; at its end where there is none.
pub fn insert_element(text: &[u8], parents: &[Step<'_>], index: i32, value: &[u8]) -> Result<Changed, Fault> {
    let mut scanner = Scanner::new(text);
    let parent = find::first(&mut scanner, parents, false)?;
    if !parent.is_some_and(|parent| parent.kind == Kind::Array) {
        return Ok(Changed::Nothing);
    }
    // -1 is behind the last.
    let length = if index < 0 { find::count(scanner)? } else { 0 };
    let wanted = resolve(index, length + 1);
    let mut place = 0;
    while scanner.element()? {
        let element = scanner.value()?;
        if wanted == Some(place) {
            return Ok(splice(text, element.start, element.start, &[value, b", "]));
        }
        scanner.skip(&element)?;
        place += 1;
    }
    Ok(ADDS.add(&scanner, place, &[value]))
}

/// Removes what a path's last step names, with the comma that parted it from others.
pub fn remove(text: &[u8], parents: &[Step<'_>], last: &Step<'_>) -> Result<Changed, Fault> {
    let mut scanner = Scanner::new(text);
    let Some(parent) = find::first(&mut scanner, parents, false)? else { return Ok(Changed::Nothing) };
    if parent.is_scalar() {
        return Ok(Changed::Nothing);
    }
    let length = if last.counts_from_end() && parent.kind == Kind::Array { find::count(scanner)? } else { 0 };
    let mut place = 0;
    loop {
        // With its comma, a member begins where the one before ends.
        let before = scanner.offset();
        let Some((fits, member)) = next_member(&mut scanner, &parent, last, place, length)? else {
            return Ok(Changed::Nothing);
        };
        let end = scanner.skip(&member)?;
        if fits {
            let behind = if place == 0 { behind_comma(scanner)? } else { end };
            return Ok(splice(text, before, behind, &[]));
        }
        place += 1;
    }
}

/// The next member, and whether a step leads there; none where the parent ends.
fn next_member(
    scanner: &mut Scanner<'_>,
    parent: &Value,
    step: &Step<'_>,
    place: usize,
    length: usize,
) -> Result<Option<(bool, Value)>, Fault> {
    let fits = if parent.kind == Kind::Array {
        if !scanner.element()? {
            return Ok(None);
        }
        step.is_index() && step.fits_index(place, length)
    } else {
        match scanner.key()? {
            Some(key) => step.fits_key(scanner.text(), &key, false),
            None => return Ok(None),
        }
    };
    Ok(Some((fits, scanner.value()?)))
}

/// Behind a first member: the place behind the comma, if one follows.
fn behind_comma(scanner: Scanner<'_>) -> Result<usize, Fault> {
    let rest = &scanner.text()[scanner.offset()..];
    let spaces = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
    let comma = usize::from(rest.get(spaces) == Some(&b','));
    Ok(scanner.offset() + if comma == 1 { spaces + 1 } else { 0 })
}
