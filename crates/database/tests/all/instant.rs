//! Columns come, go and move without a row being touched, and rows of every age read as those that are copied each time.

use crate::common::*;

/// Columns that a table has beside `id`, with the number of what they are.
#[derive(Default)]
struct Columns {
    names: Vec<(String, usize)>,
    made: usize,
    /// Some are generated.
    generates: bool,
}

/// Types of columns: those of new ones, what three of them may become, in place, and generated ones.
const TYPES: [&str; 14] = [
    "int",
    "int not null default 7",
    "varchar(20)",
    "varchar(20) not null default 'new'",
    "decimal(10,2) not null default 1.50",
    "enum('a','b') default 'b'",
    "datetime(3)",
    "text",
    "varchar(60)",
    "varchar(60) not null default 'newer'",
    "enum('a','b','c') default 'c'",
    "int as (id * 2) virtual",
    "varchar(30) as (concat('g', id)) virtual",
    "int as (id + 5) stored",
];
/// How many of them new columns have.
const NEW: usize = 8;
/// Behind them are the generated ones.
const LONGER_END: usize = 11;

fn longer(kind: usize) -> Option<usize> {
    match kind {
        2 => Some(8),
        3 => Some(9),
        5 => Some(10),
        _ => None,
    }
}

impl Columns {
    /// An alteration.
    fn change(&mut self, r: &mut Random) -> String {
        let place = |names: &[(String, usize)], r: &mut Random| match r.below(names.len() + 3) {
            0 => " first".to_string(),
            1 => " after id".to_string(),
            n => names.get(n - 2).map_or_else(String::new, |(name, _)| format!(" after {name}")),
        };
        let at = r.below(self.names.len().max(1));
        match r.below(7) {
            0 | 1 if self.names.len() > 1 => {
                let (name, _) = self.names.remove(at);
                format!("drop column {name}")
            }
            2 if self.names.len() > 1 => {
                let (name, kind) = self.names.remove(at);
                let to = place(&self.names, r);
                let sql = format!("modify {name} {}{to}", TYPES[kind]);
                self.names.push((name, kind));
                sql
            }
            3 if !self.names.is_empty() && longer(self.names[at].1).is_some() => {
                let (name, kind) = &mut self.names[at];
                *kind = longer(*kind).unwrap_or(*kind);
                format!("modify {name} {}", TYPES[*kind])
            }
            4 if !self.names.is_empty() => {
                self.made += 1;
                let part = |(name, kind): &(String, usize)| {
                    let prefix =
                        if *kind == 7 || matches!(kind, 2 | 3) && name.len() > 2 { "(3)" } else { "" };
                    format!("{name}{prefix}")
                };
                let first = part(&self.names[at]);
                let second = self.names.get(r.below(2 * self.names.len())).map(part);
                let second = second
                    .filter(|second| *second != first)
                    .map_or(String::new(), |second| format!(", {second}"));
                format!("add key k{} ({first}{second})", self.made)
            }
            _ => {
                self.made += 1;
                let generated = TYPES.len() - LONGER_END;
                let kind = match r.below(if self.generates { NEW + generated } else { NEW }) {
                    kind if kind < NEW => kind,
                    kind => kind - NEW + LONGER_END,
                };
                let name = format!("c{}", self.made);
                let to = place(&self.names, r);
                self.names.push((name.clone(), kind));
                format!("add column {name} {}{to}", TYPES[kind])
            }
        }
    }

    fn value(kind: usize, r: &mut Random) -> String {
        match kind {
            0 if r.below(3) == 0 => "null".into(),
            0 | 1 => r.below(1000).to_string(),
            2 | 8 if r.below(3) == 0 => "null".into(),
            2 | 3 | 8 | 9 => format!("'{}'", "v".repeat(r.below(20))),
            4 => format!("{}.25", r.below(1000)),
            5 | 10 => ["'a'", "'b'", "null"][r.below(3)].into(),
            6 => ["'2024-01-02 03:04:05.678'", "null"][r.below(2)].into(),
            _ => format!("repeat('t', {})", r.below(3000)),
        }
    }

    /// A statement over `#`.
    fn write(&self, r: &mut Random, next: &mut usize) -> String {
        let id = r.below(*next + 1);
        let given: Vec<&(String, usize)> = self.names.iter().filter(|(_, kind)| *kind < LONGER_END).collect();
        match r.below(4) {
            0 => format!("delete from # where id = {id}"),
            1 if !given.is_empty() => {
                let (name, kind) = given[r.below(given.len())];
                format!(
                    "update # set {name} = {} where id between {id} and {}",
                    Columns::value(*kind, r),
                    id + 3
                )
            }
            _ => {
                *next += 1;
                let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
                let values: Vec<String> = given.iter().map(|(_, kind)| Columns::value(*kind, r)).collect();
                let list = [vec!["id"], names].concat().join(",");
                let values = [vec![next.to_string()], values].concat().join(",");
                format!("insert into # ({list}) values ({values})")
            }
        }
    }
}

#[test]
fn rows_of_every_age_read_as_copied_ones() {
    alter_twins(false);
}

#[test]
fn generated_columns_come_and_go_beside_rows_of_every_age() {
    alter_twins(true);
}

/// Alters a table and its twin at random, which is copied each time.
fn alter_twins(generates: bool) {
    let seeds: u64 = std::env::var("KEEL_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    for seed in 1..=seeds {
        world(|database| {
            let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + u64::from(generates));
            let mut c = Client::new(database);
            let (mut columns, mut next) = (Columns { generates, ..Columns::default() }, 0);
            let mut trees = 0;
            for table in ["t", "twin"] {
                c.script(&format!("create table {table} (id int primary key)"));
            }
            for step in 0..60 {
                let change = columns.change(&mut r);
                let said = format!("seed {seed}, step {step}: {change}");
                let tree = |database: &std::sync::Arc<keel_database::Database>| {
                    database.catalog().table("test", "t").expect("the table").tree_id
                };
                let before = tree(database);
                let done = c.run(&format!("alter table t {change}"));
                assert!(!done.starts_with("ERROR"), "{said}: {done}");
                trees += usize::from(tree(database) != before);
                let done = c.run(&format!("alter table twin {change}, force"));
                assert!(!done.starts_with("ERROR"), "{said}: {done}");
                for _ in 0..r.below(8) {
                    let sql = columns.write(&mut r, &mut next);
                    let answers = ["t", "twin"].map(|table| c.run(&sql.replace('#', table)));
                    assert_eq!(answers[0], answers[1], "{said}, then {sql}");
                }
                let rows = ["t", "twin"].map(|table| c.run(&format!("select * from {table} order by id")));
                assert_eq!(rows[0], rows[1], "{said}");
                assert_eq!(c.run("check table t"), "test.t|check|status|OK", "{said}");
                let shown = ["t", "twin"].map(|name| {
                    let catalog = database.catalog();
                    let text = database.show_create_table(catalog.table("test", name).expect("a table"));
                    text.replacen(name, "", 1)
                });
                assert_eq!(shown[0], shown[1], "{said}");
            }
            assert!(generates || trees == 0, "seed {seed}: rows were copied");
        });
    }
}

#[test]
fn a_column_that_comes_again_has_its_place_in_keys() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (a int, b int, c int, d int, key abc (a, b, c), unique key cb (c, b), key b (b))
             insert into t values (1,2,3,4),(5,6,7,8) -> 2 (Records: 2  Duplicates: 0  Warnings: 0)
             alter table t drop column b, drop column a, add column a int default 9, add column b varchar(5) default 'x' first
             select b, a, c, d from t force index (abc) where a = 9 and b = 'x' and c > 3 -> x|9|7|8
             select c from t force index (b) where b = 'x' order by c -> 3; 7
             insert into t values ('x', 3, 9, 1) -> ERROR 1062 (23000): Duplicate entry '3-x' for key 'cb'
             check table t -> test.t|check|status|OK
             create table p (a int primary key, b int)
             insert into p values (100, 1), (200, 2) -> 2 (Records: 2  Duplicates: 0  Warnings: 0)
             alter table p drop a, modify b int auto_increment primary key
             select b from p where b = 2 -> 2
             alter table p drop b, add b int first, add c int default 4 -> ERROR 1062 (23000): Duplicate entry '0' for key 'PRIMARY'
             delete from p where b = 2 -> 1
             alter table p add c int default 4, drop b, add b int first
             select * from p where b = 0 -> 0|4
             check table p -> test.p|check|status|OK
             alter table t drop column b, rename key abc to ac, drop key cb
             select d from t force index (ac) where a = 9 and c = 7 -> 8
             check table t -> test.t|check|status|OK",
        );
    });
}

#[test]
fn keys_over_dropped_columns_are_made_anew() {
    world(|database| {
        let mut c = Client::new(database);
        c.script(
            "create table t (a int, b int, c int, d int, primary key (b), key ab (a, c), unique key d (d, a), key c (c))
             insert into t values (1,2,3,4),(5,6,7,8),(9,10,3,4) -> 3 (Records: 3  Duplicates: 0  Warnings: 0)
             alter table t drop column a -> ERROR 1072 (42000): Key column 'a' doesn't exist in table
             alter table t drop column a, drop key d, add unique key d (d) -> ERROR 1062 (23000): Duplicate entry '4' for key 'd'
             select * from t where c = 3 -> 1|2|3|4; 9|10|3|4
             delete from t where b = 10 -> 1
             alter table t drop column a, drop key d, add unique key d (d) -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             check table t -> test.t|check|status|OK
             select b from t force index (ab) where c = 7 -> 6
             select b from t force index (d) where d > 1 order by d -> 2; 6
             insert into t values (20, 3, 4) -> ERROR 1062 (23000): Duplicate entry '4' for key 'd'
             alter table t drop column c, add column e varchar(10) default 'x' first -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             select * from t -> x|2|4; x|6|8
             alter table t modify b int after d -> 0 (Records: 0  Duplicates: 0  Warnings: 0)
             update t set d = d + 1 order by b desc -> 2 (Rows matched: 2  Changed: 2  Warnings: 0)
             select * from t where b = 6 -> x|9|6
             check table t -> test.t|check|status|OK
             truncate table t -> 0
             insert into t values ('y', 1, 2) -> 1
             select * from t -> y|1|2
             create table u like t
             insert into u select * from t -> 1 (Records: 1  Duplicates: 0  Warnings: 0)
             select * from u -> y|1|2",
        );
    });
}
