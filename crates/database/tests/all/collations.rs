//! Under collations whose characters have several weights, or none, an index finds the rows that no index finds.

use crate::common::*;

fn word(r: &mut Random) -> String {
    (0..r.below(4)).map(|_| r.of(&PIECES)).collect()
}

const PIECES: [&str; 26] = [
    "a", "A", "b", "c", "ch", "C", "h", "l", "ll", "s", "ss", "ß", "z", "é", "e\u{301}", "E", "æ", "ae",
    "日", "가", "😀", "ﷺ", " ", "-", "\t", "\u{200B}",
];

const COLLATIONS: [&str; 8] = [
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_nopad_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_as_cs",
    "utf8mb4_uca1400_nopad_ai_cs",
    "utf8mb4_spanish2_ci",
    "utf8mb4_uca1400_spanish2_as_ci",
];

fn predicate(r: &mut Random) -> String {
    let (x, y, z) = (word(r), word(r), word(r));
    match r.below(7) {
        0 => format!("s between '{x}' and '{y}'"),
        1 => format!("s in ('{x}', '{y}', '{z}')"),
        2 => format!("s like '{x}%'"),
        3 => format!("s like '{x}%{y}'"),
        4 => format!("s = '{x}'"),
        5 => format!("s > '{x}' and s <= '{y}'"),
        _ => format!("s {} '{x}'", ["<", "<=", ">", ">=", "<>", "<=>"][r.below(6)]),
    }
}

fn matched(client: &mut Client, hint: &str, filter: &str) -> String {
    let answer = client.run(&format!("update t {hint} set v = v where {filter}"));
    answer.split("  Changed").next().unwrap_or_default().to_string()
}

#[test]
fn every_index_finds_the_rows_that_no_index_finds() {
    for (number, collation) in COLLATIONS.into_iter().enumerate() {
        let seed = 0x5eed_0100 + number as u64;
        world(move |database| {
            let mut r = Random(seed);
            let mut c = Client::new(database);
            c.script(&format!(
                "create table t (id int primary key, s varchar(12) collate {collation}, v int, \
                 key s (s), key d (s desc), key p (s(6)), key sv (v, s))"
            ));
            for id in 0..300 {
                c.run(&format!("insert into t values ({id}, '{}', 0)", word(&mut r)));
            }
            for round in 0..250 {
                let filter = predicate(&mut r);
                let all = matched(&mut c, "use index ()", &filter);
                assert!(
                    all.contains("Rows matched"),
                    "{collation} seed {seed:#x} round {round}: {filter}: {all}"
                );
                for hint in ["", "force index (s)", "force index (d)", "force index (p)"] {
                    let found = matched(&mut c, hint, &filter);
                    assert_eq!(found, all, "{collation} seed {seed:#x} round {round}: {hint}: {filter}");
                }
                let found = matched(&mut c, "force index (sv)", &format!("v = 0 and {filter}"));
                assert_eq!(found, all, "{collation} seed {seed:#x} round {round}: {filter}");
            }
        });
    }
}
