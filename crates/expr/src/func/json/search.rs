//! Functions that ask whether and where something lies in a document.

use keel_base::{SqlResult, errors};
use keel_value::{SqlType, Value, collation};

use super::super::{Function, function, given, known_text, unify};
use super::*;
use crate::Env;
use keel_document::json::contain::{self, Containment};
use keel_document::json::find::{self, Search};
use keel_document::json::path::{Place, write_place};
use keel_document::json::scan::{self, Kind, Scanner};
use keel_document::json::{normal, text};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("json_contains", 2, 3, truth_type, contains),
    function!("json_contains_path", 3, usize::MAX, truth_type, contains_path),
    function!("json_search", 3, usize::MAX, search_type, search),
    function!("json_equals", 2, 2, both_type, equals),
    function!("json_overlaps", 2, 2, both_type, overlaps),
];

fn both_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    unify(cx, args, 0..2, "json_equals")?;
    Ok((boolean_type(), true))
}

fn contains<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_contains";
    let document = given!(args[0].text(cx)?);
    let candidate = given!(args[1].text(cx)?);
    let path = match args.get(2) {
        Some(arg) => given!(arg.text(cx)?),
        None => Cow::Borrowed(&b"$"[..]),
    };
    let path = given!(single_path(&path, 3, NAME, cx)?);
    if let Err(fault) = scan::check(&document) {
        return bad_text(cx, fault, 1, NAME);
    }
    if let Err(fault) = scan::check(&candidate) {
        return bad_text(cx, fault, 2, NAME);
    }
    // The place before the value that the path leads to.
    let mut place = None;
    let found = find::find(&mut Scanner::new(&document), &path.steps, false, &mut |_, value| {
        place = Some(Scanner::at(&document, value.start));
        Ok(Search::Break(()))
    });
    if let Err(fault) = found {
        return bad_text(cx, fault, 1, NAME);
    }
    let Some(place) = place else { return Ok(Value::Int(0)) };
    let contained = {
        let mut go_on = going_on(cx.env());
        let bound = &mut Bound::new(usize::MAX, &mut go_on);
        Containment { bound }.contains(place, Scanner::new(&candidate))
    };
    match contained {
        Ok(contained) => Ok(Value::Int(i64::from(contained))),
        Err(Stop::Fault(fault)) => bad_text(cx, fault, 1, NAME),
        Err(Stop::Caller(error)) => Err(error),
    }
}

/// Whether `one` or `all` is wanted; None where it is neither, with a warning.
fn wants_all(mode: &[u8], function: &str, cx: &mut EvalContext<'_, '_>) -> SqlResult<Option<bool>> {
    if mode.eq_ignore_ascii_case(b"one") {
        return Ok(Some(false));
    }
    if mode.eq_ignore_ascii_case(b"all") {
        return Ok(Some(true));
    }
    cx.warn(errors::json_one_or_all(function))?;
    Ok(None)
}

fn contains_path<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_contains_path";
    let document = given!(args[0].text(cx)?);
    let mode = given!(args[1].text(cx)?);
    let all = given!(wants_all(&mode, NAME, cx)?);
    let texts = given!(texts(&args[2..], cx)?);
    let mut paths = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        paths.push(given!(super::path(text, place + 3, NAME, cx)?));
    }
    if let Err(fault) = scan::check(&document) {
        return bad_text(cx, fault, 1, NAME);
    }
    let mut found = 0;
    for path in &paths {
        let mut scanner = Scanner::new(&document);
        let stop_at_first = &mut |_, _, _: &[Place<'_>], _| Ok(Search::Break(()));
        let walked = {
            let mut go_on = going_on(cx.env());
            let bound = &mut Bound::new(usize::MAX, &mut go_on);
            find::walk(&mut scanner, std::slice::from_ref(path), false, bound, stop_at_first)
        };
        match walked {
            Ok(search) => found += usize::from(search.is_break()),
            Err(Stop::Fault(fault)) => return bad_text(cx, fault, 1, NAME),
            Err(Stop::Caller(error)) => return Err(error),
        }
    }
    Ok(Value::Int(i64::from(if all { found == paths.len() } else { found > 0 })))
}

fn search_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let collation = like_document(cx, args);
    if args.get(3).and_then(known_text).is_some_and(|escape| collation::char_len(collation, escape) > 1) {
        return Err(errors::wrong_arguments("ESCAPE"));
    }
    let octets = chars(&args[0]) * u64::from(collation.charset().max_bytes());
    let chars = octets.saturating_mul(octets) / u64::from(collation.charset().max_bytes());
    Ok((json_type(chars, collation), true))
}

/// The escape character of a pattern; a backslash where none is given.
fn escape_of<'f>(arg: Option<&'f Expr>, cx: &mut EvalContext<'_, 'f>) -> SqlResult<char> {
    let Some(arg) = arg else { return Ok('\\') };
    let Some(escape) = arg.text(cx)? else { return Ok('\\') };
    let mut characters = std::str::from_utf8(&escape).unwrap_or_default().chars();
    match (characters.next(), characters.next()) {
        (None, _) => Ok('\\'),
        (Some(character), None) => Ok(character),
        _ => Err(errors::wrong_arguments("ESCAPE")),
    }
}

/// Where scalars lie that are like a pattern: the path of the first, or an array of all.
fn search<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    const NAME: &str = "json_search";
    let document = given!(args[0].text(cx)?);
    let mode = given!(args[1].text(cx)?);
    let pattern = given!(args[2].text(cx)?);
    let all = given!(wants_all(&mode, NAME, cx)?);
    let escape = escape_of(args.get(3), cx)?;
    let texts = given!(texts(args.get(4..).unwrap_or_default(), cx)?);
    let mut paths = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        paths.push(given!(super::path(text, place + 5, NAME, cx)?));
    }
    if paths.is_empty() {
        paths.push(Path { steps: SmallVec::new() });
    }
    let most = longest(cx);
    let mut places = Vec::new();
    let mut count = 0;
    let mut scanner = Scanner::new(&document);
    let visit = &mut |_: Scanner<'_>, value: scan::Value, place: &[Place<'_>], _| {
        let is_like = match value.kind {
            Kind::Object | Kind::Array => false,
            Kind::String => text::unescape_in(value.inner(&document), ty.collation)
                .is_some_and(|text| collation::like_match(ty.collation, &text, &pattern, Some(escape))),
            _ => collation::like_match(ty.collation, value.raw(&document), &pattern, Some(escape)),
        };
        if !is_like {
            return Ok(Search::Continue(()));
        }
        if count > 0 {
            places.extend_from_slice(b", ");
        }
        count += 1;
        places.push(b'"');
        write_place(place, &mut places);
        places.push(b'"');
        Ok(if all && places.len() <= most { Search::Continue(()) } else { Search::Break(()) })
    };
    let walked = {
        let mut go_on = going_on(cx.env());
        find::walk(&mut scanner, &paths, true, &mut Bound::new(most, &mut go_on), visit)
    };
    let finished = walked.and_then(|search| match search {
        Search::Break(()) => Ok(()),
        Search::Continue(()) => scanner.finish().map_err(Stop::Fault),
    });
    match finished {
        Err(Stop::Caller(error)) => Err(error),
        Err(Stop::Fault(fault)) => bad_text(cx, fault, 1, NAME),
        Ok(()) if count == 0 => Ok(Value::Null),
        Ok(()) if count == 1 => result(places, NAME, cx),
        Ok(()) => result([b"[", &places[..], b"]"].concat(), NAME, cx),
    }
}

fn equals<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let mut forms = [Vec::new(), Vec::new()];
    for (place, form) in forms.iter_mut().enumerate() {
        let document = given!(args[place].text(cx)?);
        if let Err(fault) = normal::normalize(&document, form) {
            return bad_text(cx, fault, place + 1, "json_equals");
        }
    }
    Ok(Value::Int(i64::from(forms[0] == forms[1])))
}

fn overlaps<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let first = given!(args[0].text(cx)?);
    let second = given!(args[1].text(cx)?);
    match contain::overlaps(&first, &second) {
        Ok(any) => Ok(Value::Int(i64::from(any))),
        Err(fault) => {
            bad_text(cx, fault, 1, "json_overlaps")?;
            Ok(Value::Int(0))
        }
    }
}
