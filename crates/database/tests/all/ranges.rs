//! Whatever index finds the rows, they are the same rows: random predicates, with and without each index.

use crate::common::*;

const WORDS: [&str; 12] = ["", "a", "A", "ab", "abc", "Abd", "b", "ba", "ä", "z", "a b", "a%"];

fn number(r: &mut Random) -> String {
    match r.below(8) {
        0 => format!("{}.5", r.below(12)),
        1 => format!("-{}", r.below(5)),
        2 => format!("'{}'", r.below(12)),
        3 => "null".into(),
        4 => "99999999999".into(),
        5 => format!("{}e0", r.below(12)),
        _ => r.below(12).to_string(),
    }
}

fn word(r: &mut Random) -> String {
    if r.below(15) == 0 { "null".into() } else { format!("'{}'", r.of(&WORDS)) }
}

/// Names of members, numbers of members, and what is neither.
fn member(r: &mut Random) -> String {
    r.of(&["'b'", "'a'", "'C'", "'1'", "'2'", "'3'", "'9'", "''", "2", "null"]).into()
}

fn day(r: &mut Random) -> String {
    match r.below(6) {
        0 => format!("'2020-01-{:02}'", r.below(9) + 1),
        1 => "null".into(),
        2 => format!("202001{:02}000000", r.below(9) + 1),
        _ => format!("'2020-01-{:02} 10:00:00'", r.below(9) + 1),
    }
}

fn predicate(r: &mut Random, depth: u32) -> String {
    if depth > 0 && r.below(3) == 0 {
        let word = if r.below(2) == 0 { "and" } else { "or" };
        return format!("({} {word} {})", predicate(r, depth - 1), predicate(r, depth - 1));
    }
    let column = r.of(&["a", "b", "s", "d", "n", "e"]);
    comparison(r, column)
}

fn comparison(r: &mut Random, column: &str) -> String {
    let mut value = || match column {
        "s" => word(r),
        "e" => member(r),
        "d" => day(r),
        _ => number(r),
    };
    let (x, y, z) = (value(), value(), value());
    match r.below(9) {
        0 => format!("{column} between {x} and {y}"),
        1 => format!("{column} in ({x}, {y}, {z})"),
        2 => format!("{column} is null"),
        3 => format!("{column} is not null"),
        4 => format!("{column} <=> {x}"),
        5 if column == "s" => format!("s like '{}%'", r.of(&WORDS)),
        5 | 6 => format!("{column} = {x}"),
        _ => format!("{column} {} {x}", r.of(&["<", "<=", ">", ">=", "<>"])),
    }
}

/// Of each part of an index something is demanded, so that the later ones narrow the ranges of the earlier.
fn all_parts(r: &mut Random) -> String {
    let index = r.of(&["a b n", "e a", "n e", "d a", "n s"]);
    let columns = index.split(' ').flat_map(|column| [column, column]).filter(|_| r.below(5) > 0);
    let columns: Vec<_> = columns.collect();
    let demanded = columns.into_iter().map(|column| comparison(r, column));
    ["id >= 0".to_string()].into_iter().chain(demanded).collect::<Vec<_>>().join(" and ")
}

fn matched(client: &mut Client, hint: &str, filter: &str) -> String {
    let answer = client.run(&format!("update t {hint} set v = v where {filter}"));
    answer.split("  Changed").next().unwrap_or_default().to_string()
}

#[test]
fn every_index_finds_the_rows_that_no_index_finds() {
    let seed = 0x5eed_0001;
    world(|database| {
        let mut r = Random(seed);
        let mut c = Client::new(database);
        // Comparisons with odd literals only warn here; the rows are what counts.
        c.session.vars.sql_mode = keel_value::SqlMode::EMPTY;
        c.script(
            "create table t (id int primary key, a int, b bigint unsigned, s varchar(10), d datetime, n decimal(8,2), \
             e enum('b', 'a', 'c', '1'), v int, key ab (a, b), key abn (a, b desc, n), key ea (e, a), key ne (n, e), key b (b), key s (s), key s2 (s(2), a), key d (d desc, a desc), key n (n, s))",
        );
        for id in 0..400 {
            let a = if r.below(9) == 0 { "null".into() } else { (r.below(14) as i64 - 2).to_string() };
            let b = if r.below(9) == 0 { "null".into() } else { r.below(12).to_string() };
            let (s, n) = (word(&mut r), r.below(1200));
            let d = if r.below(9) == 0 {
                "null".into()
            } else {
                format!("'2020-01-{:02} 10:00:00'", r.below(9) + 1)
            };
            let e = r.of(&["'b'", "'a'", "'c'", "'1'", "null"]);
            c.run(&format!(
                "insert into t values ({id}, {a}, {b}, {s}, {d}, {}.{:02}, {e}, 0)",
                n / 100,
                n % 100
            ));
        }
        for round in 0..900 {
            let filter = match round % 3 {
                0 => all_parts(&mut r),
                _ => predicate(&mut r, 2),
            };
            let all = matched(&mut c, "use index ()", &filter);
            assert!(all.contains("Rows matched"), "seed {seed:#x} round {round}: {filter}: {all}");
            for hint in [
                "",
                "force index (ab)",
                "force index (b)",
                "force index (s)",
                "force index (s2)",
                "force index (d)",
                "force index (n)",
                "force index (abn)",
                "force index (ea)",
                "force index (ne)",
            ] {
                let found = matched(&mut c, hint, &filter);
                assert_eq!(found, all, "seed {seed:#x} round {round}: {hint}: {filter}");
            }
        }
    });
}
