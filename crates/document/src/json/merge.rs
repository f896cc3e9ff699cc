//! Two texts made into one: JSON_MERGE_PRESERVE keeps all values, JSON_MERGE_PATCH follows RFC 7396.
//!
//! A result that is longer than its bound is left unfinished.
//!
//! Both texts are whole and checked. Members of the second are found by a map of its keys, what escapes mean counts; of
//! several with one key the first is found.

use std::borrow::Cow;
use std::collections::HashMap;

use super::bound::{Bound, Stop};
use super::fault::Fault;
use super::scan::{Kind, Scanner, Value};
use super::text;

/// The members of an object by their keys: a place before each one's value.
type Members<'t> = HashMap<Cow<'t, [u8]>, Scanner<'t>>;

fn members<'t, E>(scanner: &mut Scanner<'t>, bound: &mut Bound<'_, E>) -> Result<Members<'t>, Stop<E>> {
    let mut members = Members::new();
    while let Some(key) = scanner.key()? {
        bound.spend(1)?;
        members.entry(text::unescape(key.inner(scanner.text()))).or_insert(*scanner);
        let value = scanner.value()?;
        scanner.skip(&value)?;
    }
    Ok(members)
}

fn raw<'t>(scanner: &mut Scanner<'t>, value: &Value) -> Result<&'t [u8], Fault> {
    let end = scanner.skip(value)?;
    Ok(&scanner.text()[value.start..end])
}

/// Writes the members of an object, one by one.
struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    count: usize,
}

impl<'o> ObjectWriter<'o> {
    fn new(out: &'o mut Vec<u8>) -> ObjectWriter<'o> {
        out.push(b'{');
        ObjectWriter { out, count: 0 }
    }

    /// Writes a key with its quotes; the value is to follow.
    fn key(&mut self, quoted: &[u8]) -> &mut Vec<u8> {
        if self.count > 0 {
            self.out.extend_from_slice(b", ");
        }
        self.count += 1;
        self.out.extend_from_slice(quoted);
        self.out.extend_from_slice(b": ");
        self.out
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

/// Appends both values: members of objects together, anything else as elements of one array.
pub fn preserve<E>(
    first: &[u8],
    second: &[u8],
    bound: &mut Bound<'_, E>,
    out: &mut Vec<u8>,
) -> Result<(), Stop<E>> {
    preserve_values(&mut Scanner::new(first), &mut Scanner::new(second), bound, out)
}

fn preserve_values<E>(
    first: &mut Scanner<'_>,
    second: &mut Scanner<'_>,
    bound: &mut Bound<'_, E>,
    out: &mut Vec<u8>,
) -> Result<(), Stop<E>> {
    let (a, b) = (first.value()?, second.value()?);
    if (a.kind, b.kind) != (Kind::Object, Kind::Object) {
        let elements = |value: &Value, raw: &[u8]| match value.kind {
            Kind::Array => raw[1..raw.len() - 1].trim_ascii().to_vec(),
            _ => raw.to_vec(),
        };
        let left = elements(&a, raw(first, &a)?);
        let right = elements(&b, raw(second, &b)?);
        out.push(b'[');
        out.extend_from_slice(&left);
        out.extend_from_slice(if left.is_empty() || right.is_empty() { b"" } else { b", " });
        out.extend_from_slice(&right);
        out.push(b']');
        return Ok(());
    }
    let mut begun = *second;
    let others = members(&mut begun, bound)?;
    let mut own = std::collections::HashSet::new();
    let mut object = ObjectWriter::new(out);
    while let Some(key) = first.key()? {
        bound.spend(1)?;
        if !bound.allows(object.out) {
            return Ok(());
        }
        let name = text::unescape(key.inner(first.text()));
        let out = object.key(&first.text()[key.start..key.end]);
        match others.get(&name) {
            Some(other) => preserve_values(first, &mut other.clone(), bound, out)?,
            None => {
                let value = first.value()?;
                out.extend_from_slice(raw(first, &value)?);
            }
        }
        own.insert(name);
    }
    while let Some(key) = second.key()? {
        let value = second.value()?;
        let value = raw(second, &value)?;
        if !own.contains(&text::unescape(key.inner(second.text()))) {
            object.key(&second.text()[key.start..key.end]).extend_from_slice(value);
        }
    }
    object.end();
    Ok(())
}

/// Appends what a patch makes of a text: null removes a member, objects are patched within, anything else takes the place.
pub fn patch<E>(
    target: &[u8],
    patch: &[u8],
    bound: &mut Bound<'_, E>,
    out: &mut Vec<u8>,
) -> Result<(), Stop<E>> {
    patch_value(&mut Scanner::new(target), &mut Scanner::new(patch), bound, out)
}

fn patch_value<E>(
    target: &mut Scanner<'_>,
    patch: &mut Scanner<'_>,
    bound: &mut Bound<'_, E>,
    out: &mut Vec<u8>,
) -> Result<(), Stop<E>> {
    let (a, b) = (target.value()?, patch.value()?);
    if (a.kind, b.kind) != (Kind::Object, Kind::Object) {
        target.skip(&a)?;
        return Ok(without_nulls(patch, &b, out)?);
    }
    let mut begun = *patch;
    let patches = members(&mut begun, bound)?;
    let mut own = std::collections::HashSet::new();
    let mut object = ObjectWriter::new(out);
    while let Some(key) = target.key()? {
        bound.spend(1)?;
        if !bound.allows(object.out) {
            return Ok(());
        }
        let name = text::unescape(key.inner(target.text()));
        let quoted = &target.text()[key.start..key.end];
        match patches.get(&name) {
            Some(patch) if patch.clone().value()?.kind == Kind::Null => {
                let removed = target.value()?;
                target.skip(&removed)?;
            }
            Some(patch) => patch_value(target, &mut patch.clone(), bound, object.key(quoted))?,
            None => {
                let value = target.value()?;
                let value = raw(target, &value)?;
                object.key(quoted).extend_from_slice(value);
            }
        }
        own.insert(name);
    }
    while let Some(key) = patch.key()? {
        let value = patch.value()?;
        let known = own.contains(&text::unescape(key.inner(patch.text())));
        if known || value.kind == Kind::Null {
            patch.skip(&value)?;
        } else {
            let out = object.key(&patch.text()[key.start..key.end]);
            without_nulls(patch, &value, out)?;
        }
    }
    object.end();
    Ok(())
}

/// Appends a value just begun; of an object, and of those in it, without the members that are null.
fn without_nulls(scanner: &mut Scanner<'_>, value: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    if value.kind != Kind::Object {
        out.extend_from_slice(raw(scanner, value)?);
        return Ok(());
    }
    let mut object = ObjectWriter::new(out);
    while let Some(key) = scanner.key()? {
        let member = scanner.value()?;
        if member.kind == Kind::Null {
            continue;
        }
        let out = object.key(&scanner.text()[key.start..key.end]);
        without_nulls(scanner, &member, out)?;
    }
    object.end();
    Ok(())
}
