//! The tables that random queries read: the same columns in each, other keys, other rows.
//!
//! Doubles are quarters, so that sums are exact in any order. Texts that a collation takes for equal become the same octets by
//! `UPPER(RTRIM(...))`: which of them stands for a group is nobody's promise.

use crate::Random;

/// Types of columns and expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// INT and BIGINT.
    Int,
    /// DECIMAL.
    Decimal,
    /// DOUBLE.
    Double,
    /// VARCHAR.
    Text,
    /// DATE.
    Date,
}

/// All of them.
pub const TYPES: [Type; 5] = [Type::Int, Type::Decimal, Type::Double, Type::Text, Type::Date];

/// Columns of every table.
pub const COLUMNS: [(&str, Type); 8] = [
    ("id", Type::Int),
    ("a", Type::Int),
    ("b", Type::Int),
    ("d", Type::Decimal),
    ("f", Type::Double),
    ("s", Type::Text),
    ("u", Type::Text),
    ("dt", Type::Date),
];

/// The database they lie in.
pub const DATABASE: &str = "random_queries";

const COLLATIONS: [&str; 4] =
    ["utf8mb4_general_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_uca1400_ai_ci"];
const KEYS: [&str; 9] = ["a", "b", "a, b", "s", "u, a", "d", "dt, b", "s, dt", "b, f"];
const TEXTS: [&str; 16] =
    ["", "a", "A", "a ", "b", "B", "ab", "Ab", "abc", "b a", "10", "1x", "Д", "д", "a_c", "a%"];
/// How many tables there are: t0, t1, ...
pub const TABLES: u64 = 4;

const ROWS: [u64; 6] = [0, 1, 4, 9, 16, 25];

/// Tables with their definitions.
#[derive(Debug, Clone)]
pub struct World {
    /// Names of the tables.
    pub tables: Vec<String>,
    /// The collation of most texts, and mostly the connection's.
    pub collation: &'static str,
    /// What makes them: one CREATE and at most one INSERT for each.
    pub setup: Vec<String>,
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64) -> World {
        let mut random = Random::of_neighbours(seed);
        let collation = pick(&mut random, &COLLATIONS);
        let tables: Vec<String> = (0..TABLES).map(|number| format!("t{number}")).collect();
        let mut setup = Vec::new();
        for table in &tables {
            setup.push(definition(table, collation, &mut random));
            let count = pick(&mut random, &ROWS);
            if count > 0 {
                let rows: Vec<String> = (1..=count).map(|id| row(id, &mut random)).collect();
                setup.push(format!("INSERT INTO {table} VALUES {}", rows.join(",\n ")));
            }
        }
        // Where the connection has another, texts that are cast do not go with those of tables.
        let collation = if random.below(4) == 0 { COLLATIONS[0] } else { collation };
        World { tables, collation, setup }
    }
}

/// One of `items`.
pub fn pick<T: Copy>(random: &mut Random, items: &[T]) -> T {
    items[random.below(items.len() as u64) as usize]
}

fn definition(table: &str, collation: &str, random: &mut Random) -> String {
    let mut keys =
        vec![pick(random, &["PRIMARY KEY (id)", "PRIMARY KEY (id)", "PRIMARY KEY (b, id)"]).to_string()];
    for _ in 0..random.below(4) {
        let key = format!("KEY ({})", pick(random, &KEYS));
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    if random.below(3) == 0 {
        keys.push("UNIQUE (a, id)".into());
    }
    format!(
        "CREATE TABLE {table} (id INT NOT NULL, a INT, b INT NOT NULL, d DECIMAL(8,2), f DOUBLE, \
         s VARCHAR(12) COLLATE {collation}, u VARCHAR(12) COLLATE utf8mb4_bin, dt DATE, {})",
        keys.join(", ")
    )
}

fn row(id: u64, random: &mut Random) -> String {
    let mut cells = vec![id.to_string()];
    for (name, kind) in &COLUMNS[1..] {
        cells.push(match *name != "b" && random.below(5) == 0 {
            true => "NULL".into(),
            false => literal(*kind, random),
        });
    }
    format!("({})", cells.join(", "))
}

/// A constant of a type, never NULL.
pub fn literal(kind: Type, random: &mut Random) -> String {
    match kind {
        Type::Int if random.below(8) == 0 => (random.below(120) as i64 - 20).to_string(),
        Type::Int => (random.below(9) as i64 - 1).to_string(),
        Type::Decimal => format!("{}.{:02}", random.below(9) as i64 - 2, pick(random, &[0, 5, 25, 50, 99])),
        Type::Double => format!("{}e0", (random.below(40) as f64 - 8.0) / 4.0),
        Type::Text => format!("'{}'", pick(random, &TEXTS)),
        Type::Date => {
            let (month, day) = (random.below(3) + 1, pick(random, &[1, 2, 15, 28]));
            format!("DATE'{}-{month:02}-{day:02}'", 2023 + random.below(2))
        }
    }
}
