//! Whether one value lies in another, and whether two have something in common.

use std::collections::HashSet;

use super::bound::{Bound, Stop};
use super::fault::Fault;
use super::normal;
use super::scan::{Kind, Scanner, Value};

/// A test of one text against another; takes as long as the lengths of both multiplied.
pub struct Containment<'c, 'b, E> {
    /// Counts the comparisons.
    pub bound: &'c mut Bound<'b, E>,
}

/// Numbers that differ by less are equal.
const NEAR: f64 = 1e-12;

/// The number that is written, or the greatest there is.
fn number(value: &Value, text: &[u8]) -> f64 {
    let number: f64 =
        std::str::from_utf8(value.raw(text)).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    number.clamp(f64::MIN, f64::MAX)
}

fn equal_scalars(a: &Value, a_text: &[u8], b: &Value, b_text: &[u8]) -> bool {
    a.kind == b.kind
        && match a.kind {
            Kind::String => a.raw(a_text) == b.raw(b_text),
            Kind::Number => {
                a.raw(a_text) == b.raw(b_text) || (number(a, a_text) - number(b, b_text)).abs() < NEAR
            }
            _ => true,
        }
}

impl<E> Containment<'_, '_, E> {
    /// Whether the value at `inner` lies in the one at `outer`; neither has been begun.
    pub fn contains(&mut self, mut outer: Scanner<'_>, mut inner: Scanner<'_>) -> Result<bool, Stop<E>> {
        self.bound.spend(1)?;
        let again = inner;
        let (a, b) = (outer.value()?, inner.value()?);
        match (a.kind, b.kind) {
            (Kind::Object, Kind::Object) => self.object_contains(outer, inner),
            (Kind::Object, _) => Ok(false),
            (Kind::Array, Kind::Array) => {
                while inner.element()? {
                    if !self.element_contains(outer, inner)? {
                        return Ok(false);
                    }
                    let element = inner.value()?;
                    inner.skip(&element)?;
                }
                Ok(true)
            }
            (Kind::Array, _) => self.element_contains(outer, again),
            _ => Ok(equal_scalars(&a, outer.text(), &b, inner.text())),
        }
    }

    /// Whether an element of an array just begun contains a value. A value that is itself an array lies in the array if
    /// its elements do.
    fn element_contains(&mut self, mut outer: Scanner<'_>, inner: Scanner<'_>) -> Result<bool, Stop<E>> {
        let wanted = inner.clone().value()?;
        if wanted.kind == Kind::Array {
            let mut elements = inner;
            elements.value()?;
            let mut all = true;
            while all && elements.element()? {
                all = self.element_contains(outer, elements)?;
                let element = elements.value()?;
                elements.skip(&element)?;
            }
            return Ok(all);
        }
        while outer.element()? {
            if self.contains(outer, inner)? {
                return Ok(true);
            }
            let element = outer.value()?;
            outer.skip(&element)?;
        }
        Ok(false)
    }

    fn object_contains(&mut self, outer: Scanner<'_>, mut inner: Scanner<'_>) -> Result<bool, Stop<E>> {
        while let Some(wanted) = inner.key()? {
            let name = wanted.inner(inner.text());
            let mut members = outer;
            let found = loop {
                let Some(key) = members.key()? else { return Ok(false) };
                self.bound.spend(1)?;
                let same = key.inner(members.text()) == name
                    || ((key.escaped || wanted.escaped)
                        && super::text::same(key.inner(members.text()), name));
                if same {
                    break members;
                }
                let value = members.value()?;
                members.skip(&value)?;
            };
            if !self.contains(found, inner)? {
                return Ok(false);
            }
            let value = inner.value()?;
            inner.skip(&value)?;
        }
        Ok(true)
    }
}

/// Whether two texts have an element, or a member, in common; of scalars, whether they are equal.
pub fn overlaps(first: &[u8], second: &[u8]) -> Result<bool, Fault> {
    let (mut a, mut b) = (Scanner::new(first), Scanner::new(second));
    let (x, y) = (a.value()?, b.value()?);
    match (x.kind, y.kind) {
        (Kind::Object, Kind::Object) => {
            let own: HashSet<Vec<u8>> = parts(&mut a, true)?;
            any_part(&mut b, true, &own)
        }
        (Kind::Array, Kind::Array) => {
            let own = parts(&mut a, false)?;
            any_part(&mut b, false, &own)
        }
        (Kind::Array, _) => {
            let mut other = Vec::new();
            normal::write(&mut b, y, &mut other)?;
            any_part(&mut a, false, &HashSet::from([other]))
        }
        (_, Kind::Array) => {
            let mut other = Vec::new();
            normal::write(&mut a, x, &mut other)?;
            any_part(&mut b, false, &HashSet::from([other]))
        }
        _ => Ok(x.is_scalar() && y.is_scalar() && equal_scalars(&x, first, &y, second)),
    }
}

/// The next member in its normal form, with its key or without.
fn part(scanner: &mut Scanner<'_>, with_key: bool, out: &mut Vec<u8>) -> Result<bool, Fault> {
    out.clear();
    if with_key {
        let Some(key) = scanner.key()? else { return Ok(false) };
        super::text::quote(&super::text::unescape(key.inner(scanner.text())), out);
        out.push(b':');
    } else if !scanner.element()? {
        return Ok(false);
    }
    let value = scanner.value()?;
    normal::write(scanner, value, out)?;
    Ok(true)
}

fn parts(scanner: &mut Scanner<'_>, with_keys: bool) -> Result<HashSet<Vec<u8>>, Fault> {
    let mut parts = HashSet::new();
    let mut form = Vec::new();
    while part(scanner, with_keys, &mut form)? {
        parts.insert(form.clone());
    }
    Ok(parts)
}

fn any_part(scanner: &mut Scanner<'_>, with_keys: bool, wanted: &HashSet<Vec<u8>>) -> Result<bool, Fault> {
    let mut form = Vec::new();
    while part(scanner, with_keys, &mut form)? {
        if wanted.contains(&form) {
            return Ok(true);
        }
    }
    Ok(false)
}
