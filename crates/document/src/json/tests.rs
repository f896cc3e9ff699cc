//! The engine apart from SQL: what it reads, where faults lie, and that no text makes it panic or read beyond its end.

use keel_value::CollationId;

use super::bound::{Bound, Stop};
use super::change::{self, Changed, Mode};
use super::contain::{self, Containment};
use super::fault::{Fault, FaultKind};
use super::find::{self, Search};
use super::format::{self, Style};
use super::path::{Path, Place, write_place};
use super::scan::{self, Scanner};
use super::{merge, normal, text};

fn fault_of(text: &str) -> (FaultKind, usize) {
    let fault = scan::check(text.as_bytes()).expect_err(text);
    (fault.kind, fault.at)
}

#[test]
fn faults_lie_where_mariadb_says() {
    use FaultKind::*;
    assert_eq!(fault_of(""), (End, 0));
    assert_eq!(fault_of("{\"a\" 1}"), (Syntax, 5));
    assert_eq!(fault_of("[1 2]"), (Syntax, 4));
    assert_eq!(fault_of("[\u{e9}]"), (Syntax, 3));
    assert_eq!(fault_of("[\"\u{1}\"]"), (NotJson, 3));
    assert_eq!(fault_of(r#""\ud83d""#), (Syntax, 7));
    assert_eq!(fault_of(r#""\ude00""#), (BadChar, 7));
    assert_eq!(fault_of("-"), (Syntax, 1));
    assert_eq!(fault_of(&"[".repeat(40)), (Depth, 32));
    assert!(scan::check("[".repeat(31).as_bytes()).is_err_and(|fault| fault.kind == End));
    assert!(scan::check(b"[-]").is_ok(), "a bracket cuts a number short");
}

#[test]
fn paths_are_read_as_mariadb_does() {
    let fault = |path: &str| Path::parse(path.as_bytes()).expect_err(path);
    assert_eq!(fault("a"), Fault { kind: FaultKind::Syntax, at: 1 });
    assert_eq!(fault("$[1").kind, FaultKind::End);
    assert_eq!(fault(&format!("${}", ".a".repeat(32))), Fault { kind: FaultKind::Depth, at: 65 });
    assert_eq!(Path::parse(b"$[1 2]"), Path::parse(b"$[12]"), "a space may lie among digits");
    assert_eq!(Path::parse(b"$[last-1]"), Path::parse(b"$[-2]"));
    assert_eq!(Path::parse(b"$[4294967297]"), Path::parse(b"$[1]"), "numbers wrap around");
}

fn places(document: &str, paths: &[&str]) -> Vec<String> {
    let paths: Vec<Path<'_>> = paths.iter().map(|p| Path::parse(p.as_bytes()).expect("a path")).collect();
    let mut places = Vec::new();
    let visit = &mut |_: Scanner<'_>, _, place: &[Place<'_>], _| {
        let mut out = Vec::new();
        write_place(place, &mut out);
        places.push(String::from_utf8(out).expect("text"));
        Ok::<_, Stop<()>>(Search::Continue(()))
    };
    let mut always = || Ok(());
    let mut bound = Bound::new(usize::MAX, &mut always);
    assert!(find::walk(&mut Scanner::new(document.as_bytes()), &paths, false, &mut bound, visit).is_ok());
    places
}

#[test]
fn a_walk_tells_each_value_once_in_the_order_of_the_text() {
    assert_eq!(places(r#"{"a":{"b":1},"b":[{"b":2}]}"#, &["$**.b"]), ["$.a.b", "$.b", "$.b[0].b"]);
    assert_eq!(places("[[1,2],[3,4]]", &["$[*][last]", "$[0]"]), ["$[0]", "$[0][1]", "$[1][1]"]);
    assert_eq!(places(r#"{"a":1}"#, &["$[0].a[0]"]), ["$.a"]);
    // As many ways lead here as there are subsets of the steps: each value is looked at once all the same.
    let deep = format!("{}1{}", "[".repeat(30), "]".repeat(30));
    let path = format!("${}", "**[0]".repeat(28));
    assert_eq!(places(&deep, &[&path]).len(), 3);
}

#[test]
fn numbers_keep_their_value_in_normal_form() {
    let normal = |text: &str| {
        let mut out = Vec::new();
        normal::normalize(text.as_bytes(), &mut out).expect(text);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(normal("-12.50e1"), "-1.25E2");
    assert_eq!(normal("-0.00"), "0.0E0");
    assert_eq!(normal("1e99999999999999999999"), format!("1.0E{}", i32::MAX));
    assert_eq!(normal(r#"{"b":1,"a":[0.001]}"#), r#"{"a":[1.0E-3],"b":1.0E0}"#);
}

/// The next number of a sequence that its seed decides.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Text of characters that mean something in JSON or paths, nested now and then.
fn sample(state: &mut u64, alphabet: &[&str]) -> String {
    let length = next(state) % 24;
    (0..length).map(|_| alphabet[(next(state) % alphabet.len() as u64) as usize]).collect()
}

#[test]
fn no_text_and_no_path_makes_it_panic() {
    const TEXT: &[&str] = &[
        "{", "}", "[", "]", ",", ":", "\"", "\"a\":", "\"a\"", "1", "-", ".", "E", "true", "null", "\\",
        "\\u00", "\\ud83d", "\u{e9}", " ", "\u{1}", "[1,", "{\"b\":", "2]", "3}",
    ];
    const PATH: &[&str] = &[
        "$", ".", "a", "b", "[", "]", "*", "**", "0", "1", "-", "last", " ", "to ", "\"", "\\", "lax ", ".a",
        "[0]",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..20_000 {
        let (document, other) = (sample(&mut state, TEXT), sample(&mut state, TEXT));
        let path = format!("${}", sample(&mut state, PATH));
        let (document, other) = (document.as_bytes(), other.as_bytes());
        // A number that a bracket cuts short passes, but not everywhere: texts with one promise nothing.
        let is_whole =
            |text: &[u8]| scan::check(text).is_ok() && !text.iter().any(|b| matches!(b, b'-' | b'E'));
        let is_valid = is_whole(document);
        let mut out = Vec::new();
        for style in [Style::Compact, Style::Loose, Style::Detailed(2)] {
            out.clear();
            assert_eq!(
                format::rewrite(document, style, usize::MAX, &mut out).is_ok(),
                scan::check(document).is_ok()
            );
            assert!(!is_valid || scan::check(&out).is_ok(), "{document:?} became {out:?}");
        }
        let _ = normal::normalize(document, &mut out);
        let _ = contain::overlaps(document, other);
        let mut always = || Ok::<(), ()>(());
        let bound = &mut Bound::new(usize::MAX, &mut always);
        let _ = (Containment { bound }).contains(Scanner::new(document), Scanner::new(other));
        if is_valid && is_whole(other) {
            for merged in [merge::preserve, merge::patch] {
                out.clear();
                merged(document, other, bound, &mut out).expect("both are whole");
                scan::check(&out).expect("the result is whole");
            }
        }
        let _ = text::unescape_in(other, CollationId::BINARY);
        let Ok(path) = Path::parse(path.as_bytes()) else { continue };
        let _ = find::first(&mut Scanner::new(document), &path.steps, false);
        let visit = &mut |_: Scanner<'_>, _, _: &[Place<'_>], _| Ok::<_, Stop<()>>(Search::Continue(()));
        let _ = find::walk(&mut Scanner::new(document), std::slice::from_ref(&path), true, bound, visit);
        let mode = Mode { inserts: true, replaces: true };
        let _ = change::append(document, &path, b"1");
        if let Ok(Changed::Text(changed)) = change::set(document, &path, b"1", mode) {
            assert!(!is_valid || scan::check(&changed).is_ok(), "{document:?} became {changed:?}");
        }
        if let Some((last, parents)) = path.steps.split_last() {
            let _ = change::insert_element(document, parents, -1, b"1");
            if let Ok(Changed::Text(changed)) = change::remove(document, parents, last) {
                assert!(!is_valid || scan::check(&changed).is_ok(), "{document:?} became {changed:?}");
            }
        }
    }
}
