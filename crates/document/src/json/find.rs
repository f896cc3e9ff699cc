//! Values that paths lead to.
//!
//! [`find`] follows one path without `**` and goes no further than it must: the way of the functions that want one value.
//! [`walk`] goes through all values in the order of the text and tells which paths lead to each, by sets of steps that
//! have been taken (an automaton without stack), so that no path costs more than its length for each value.
//!
//! What is no array is its own first element: `$[0]` of `{"a": 1}` is the object.

use std::ops::ControlFlow;

use smallvec::SmallVec;

use super::bound::{Bound, Stop};
use super::fault::Fault;
use super::path::{Path, Place, Step};
use super::scan::{Kind, Scanner, Value};

/// Whether a search goes on. Who goes on has read the value to its end.
pub type Search = ControlFlow<()>;

/// Calls `found` with each value that `steps` lead to, until it breaks; the scanner then stands behind the value's
/// beginning. Keys are compared as written or by what they mean.
pub fn find<'t, F>(
    scanner: &mut Scanner<'t>,
    steps: &[Step<'_>],
    as_written: bool,
    found: &mut F,
) -> Result<Search, Fault>
where
    F: FnMut(&mut Scanner<'t>, Value) -> Result<Search, Fault>,
{
    let text = scanner.text();
    let value = scanner.value()?;
    let mut steps = steps;
    if value.kind != Kind::Array {
        while let Some((first, rest)) = steps.split_first()
            && first.is_first()
        {
            steps = rest;
        }
    }
    let Some((step, rest)) = steps.split_first() else { return found(scanner, value) };
    match value.kind {
        Kind::Object if !step.is_index() => {
            while let Some(key) = scanner.key()? {
                if !step.fits_key(text, &key, as_written) {
                    let member = scanner.value()?;
                    scanner.skip(&member)?;
                } else if find(scanner, rest, as_written, found)?.is_break() {
                    return Ok(Search::Break(()));
                }
            }
        }
        Kind::Array if step.is_index() => {
            let length = if step.counts_from_end() { count(*scanner)? } else { 0 };
            let mut index = 0;
            while scanner.element()? {
                if !step.fits_index(index, length) {
                    let element = scanner.value()?;
                    scanner.skip(&element)?;
                } else if find(scanner, rest, as_written, found)?.is_break() {
                    return Ok(Search::Break(()));
                }
                index += 1;
            }
        }
        _ => {
            scanner.skip(&value)?;
        }
    }
    Ok(Search::Continue(()))
}

/// The first value that a path leads to; the scanner stands behind its beginning.
pub fn first<'t>(
    scanner: &mut Scanner<'t>,
    steps: &[Step<'_>],
    as_written: bool,
) -> Result<Option<Value>, Fault> {
    let mut result = None;
    let _ = find(scanner, steps, as_written, &mut |_, value| {
        result = Some(value);
        Ok(Search::Break(()))
    })?;
    Ok(result)
}

/// How many members an object or array has that was just begun.
pub fn count(mut scanner: Scanner<'_>) -> Result<usize, Fault> {
    count_members(&mut scanner)
}

/// The same, and reads them.
pub fn count_members(scanner: &mut Scanner<'_>) -> Result<usize, Fault> {
    let mut members = 0;
    while another(scanner)? {
        let member = scanner.value()?;
        scanner.skip(&member)?;
        members += 1;
    }
    Ok(members)
}

/// Whether the object or array goes on; of an object takes the key.
pub fn another(scanner: &mut Scanner<'_>) -> Result<bool, Fault> {
    if scanner.in_object() { Ok(scanner.key()?.is_some()) } else { scanner.element() }
}

/// Told of values on a walk: a scanner behind the value's beginning, the value, the way to it, how many paths lead there.
pub type Visit<'v, 't, E> =
    dyn FnMut(Scanner<'t>, Value, &[Place<'t>], usize) -> Result<Search, Stop<E>> + 'v;

/// Steps of one path: bit `i` is set where the first `i` were taken.
type StepSet = u32;

/// The same of all paths of a walk.
type AllTaken = SmallVec<[StepSet; 4]>;

/// A walk through all values of a text.
struct Walk<'t, 'w, 'p> {
    paths: &'w [Path<'p>],
    place: Vec<Place<'t>>,
    /// Whether any step needs the lengths of arrays.
    needs_lengths: bool,
    /// Paths count from what they lead to downwards.
    within: bool,
}

/// Calls `visit` with each value in the order of the text, the way to it, and how many of the paths lead there; with
/// `within`, also to all that lies in what they lead to. Only values that some path leads to are told. A scanner that is
/// given to `visit` stands behind the value's beginning and may be moved at will.
pub fn walk<'t, E>(
    scanner: &mut Scanner<'t>,
    paths: &[Path<'_>],
    within: bool,
    bound: &mut Bound<'_, E>,
    visit: &mut Visit<'_, 't, E>,
) -> Result<Search, Stop<E>> {
    let needs_lengths = paths.iter().any(|path| path.steps.iter().any(Step::counts_from_end));
    let mut walk = Walk { paths, place: Vec::new(), needs_lengths, within };
    walk.value(scanner, SmallVec::from_elem(1, paths.len()), bound, visit)
}

impl<'t> Walk<'t, '_, '_> {
    fn value<E>(
        &mut self,
        scanner: &mut Scanner<'t>,
        mut taken: AllTaken,
        bound: &mut Bound<'_, E>,
        visit: &mut Visit<'_, 't, E>,
    ) -> Result<Search, Stop<E>> {
        bound.spend(self.paths.len())?;
        let value = scanner.value()?;
        if value.kind != Kind::Array {
            for (path, taken) in self.paths.iter().zip(&mut taken) {
                own_elements(path, taken);
            }
        }
        let complete = |path: &Path<'_>, taken: StepSet| taken >> path.steps.len() & 1 == 1;
        let leading = self.paths.iter().zip(&taken).filter(|(path, taken)| complete(path, **taken)).count();
        if leading > 0 && visit(*scanner, value, &self.place, leading)?.is_break() {
            return Ok(Search::Break(()));
        }
        if value.is_scalar() || taken.iter().all(|taken| *taken == 0) {
            scanner.skip(&value)?;
            return Ok(Search::Continue(()));
        }
        self.members(scanner, value, &taken, bound, visit)
    }

    fn members<E>(
        &mut self,
        scanner: &mut Scanner<'t>,
        value: Value,
        taken: &[StepSet],
        bound: &mut Bound<'_, E>,
        visit: &mut Visit<'_, 't, E>,
    ) -> Result<Search, Stop<E>> {
        let text = scanner.text();
        let is_array = value.kind == Kind::Array;
        let length = if is_array && self.needs_lengths { count(*scanner)? } else { 0 };
        let mut index = 0;
        loop {
            let below = if is_array {
                if !scanner.element()? {
                    return Ok(Search::Continue(()));
                }
                self.place.push(Place::Index(index));
                self.advance(taken, |step| step.fits_index(index, length))
            } else {
                let Some(key) = scanner.key()? else { return Ok(Search::Continue(())) };
                self.place.push(Place::Key(key.inner(text)));
                // MariaDB takes any member for the own element of `**[0]`.
                self.advance(taken, |step| {
                    step.fits_key(text, &key, true) || (step.anywhere && step.is_first())
                })
            };
            let search = self.value(scanner, below, bound, visit)?;
            self.place.pop();
            if search.is_break() {
                return Ok(search);
            }
            index += 1;
        }
    }

    /// What is taken one level further down.
    fn advance(&self, taken: &[StepSet], fits: impl Fn(&Step<'_>) -> bool) -> AllTaken {
        let mut result = AllTaken::with_capacity(taken.len());
        for (path, taken) in self.paths.iter().zip(taken) {
            let mut next = 0;
            for (place, step) in path.steps.iter().enumerate().filter(|(place, _)| taken >> place & 1 == 1) {
                if step.anywhere {
                    next |= 1 << place;
                }
                if fits(step) {
                    next |= 1 << (place + 1);
                }
            }
            if self.within {
                next |= taken & 1 << path.steps.len();
            }
            result.push(next);
        }
        result
    }
}

/// Takes the steps that lead from something that is no array to itself.
fn own_elements(path: &Path<'_>, taken: &mut StepSet) {
    for (place, step) in path.steps.iter().enumerate() {
        if *taken >> place & 1 == 1 && step.is_first() {
            *taken |= 1 << (place + 1);
        }
    }
}
