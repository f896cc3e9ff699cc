//! What MariaDB is asked.

use keel_testkit::client::{Client, Reply};
use std::collections::BTreeMap;

/// Weights by character.
pub type WeightMap = BTreeMap<u32, Vec<u16>>;

/// Two or three characters, the third may be 0, and their weights on each level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contraction {
    pub characters: [u32; 3],
    pub weights: Vec<Vec<u16>>,
}

/// Characters that may make contractions with each other if their numbers are so near.
pub struct Neighbours {
    pub characters: Vec<u32>,
    pub apart: u32,
}

/// A set of one octet a character: for each octet its character (0 for none but that of octet 0), and its cases.
pub struct CodePage {
    pub unicode: Vec<u16>,
    pub upper: Vec<u8>,
    pub lower: Vec<u8>,
}

/// The marks that may follow letters of any script.
const MARKS: &str = "0x300 AND 0x36F";

/// Characters asked for at a time.
const CHUNK: usize = 65536;

/// A connection to a MariaDB.
pub struct Oracle(Client);

impl Oracle {
    /// Makes the tables that questions are asked over.
    pub fn new(client: Client) -> Result<Oracle, String> {
        client.set_timeout(None).map_err(|error| error.to_string())?;
        let mut oracle = Oracle(client);
        oracle.run("SET NAMES utf8mb4")?;
        oracle.run("CREATE DATABASE weights")?;
        oracle.run("USE weights")?;
        oracle.run(
            "CREATE TABLE characters (cp INT PRIMARY KEY, c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
             ENGINE = MEMORY AS SELECT seq AS cp, CONVERT(CHAR(seq USING utf32) USING utf8mb4) AS c
             FROM seq_1_to_1114111 WHERE seq NOT BETWEEN 0xD800 AND 0xDFFF UNION ALL SELECT 0, '\\0'",
        )?;
        Ok(oracle)
    }

    fn run(&mut self, sql: &str) -> Result<(), String> {
        self.0.run(sql).map(drop).map_err(|error| format!("{sql}: {error}"))
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, String> {
        match self.0.one(sql).map_err(|error| format!("{sql}: {error}"))? {
            reply @ Reply::Rows { .. } => Ok(reply.strings()),
            other => Err(format!("{sql}: {other:?}")),
        }
    }

    /// Numbers and full names of a character set's collations.
    pub fn collations(&mut self, charset: &str) -> Result<Vec<(u16, String)>, String> {
        let rows = self.rows(&format!(
            "SELECT id, full_collation_name FROM information_schema.collation_character_set_applicability
             WHERE character_set_name = '{charset}' ORDER BY id"
        ))?;
        rows.into_iter().map(|row| Ok((number(&row[0])? as u16, row[1].clone()))).collect()
    }

    /// Sets of one octet a character: names, default collations, descriptions.
    pub fn code_pages(&mut self) -> Result<Vec<(String, String, String)>, String> {
        let rows = self.rows(
            "SELECT character_set_name, default_collate_name, description FROM information_schema.character_sets
             WHERE maxlen = 1 ORDER BY character_set_name",
        )?;
        Ok(rows.into_iter().map(|row| (row[0].clone(), row[1].clone(), row[2].clone())).collect())
    }

    /// What the octets of such a set are.
    pub fn code_page(&mut self, charset: &str) -> Result<CodePage, String> {
        let rows = self.rows(&format!(
            "SELECT o, CONV(HEX(CONVERT(c USING utf16)), 16, 10), CONV(HEX(UPPER(c)), 16, 10),
                    CONV(HEX(LOWER(c)), 16, 10)
             FROM (SELECT seq AS o, CONVERT(CHAR(seq) USING {charset}) AS c FROM seq_0_to_255) AS octets ORDER BY o"
        ))?;
        let mut page = CodePage { unicode: Vec::new(), upper: Vec::new(), lower: Vec::new() };
        for row in &rows {
            let (octet, code) = (number(&row[0])?, number(&row[1])? as u16);
            // An octet that is no character is shown as a question mark.
            let is_none = code == u16::from(b'?') && octet != u32::from(b'?');
            page.unicode.push(if is_none { 0 } else { code });
            page.upper.push(number(&row[2])? as u8);
            page.lower.push(number(&row[3])? as u8);
        }
        Ok(page)
    }

    /// The weights of all octets; none where some have more than one.
    pub fn octet_weights(&mut self, charset: &str, collation: &str) -> Result<Option<Vec<u8>>, String> {
        let rows = self.rows(&format!(
            "SELECT HEX(WEIGHT_STRING(c COLLATE {collation}))
             FROM (SELECT seq AS o, CONVERT(CHAR(seq) USING {charset}) AS c FROM seq_0_to_255) AS octets ORDER BY o"
        ))?;
        let weights = rows.iter().map(|row| u8::from_str_radix(&row[0], 16).ok());
        Ok(weights.collect())
    }

    /// The characters of a character set.
    pub fn characters(&mut self, charset: &str) -> Result<Vec<u32>, String> {
        let condition = match charset {
            "utf8mb4" => "TRUE".to_string(),
            _ => format!("CONVERT(CONVERT(c USING {charset}) USING utf8mb4) = c"),
        };
        let rows = self.rows(&format!("SELECT cp FROM characters WHERE {condition} ORDER BY cp"))?;
        rows.iter().map(|row| number(&row[0])).collect()
    }

    /// The weights of characters on a level.
    pub fn weights(
        &mut self,
        collation: &str,
        level: usize,
        characters: &[u32],
    ) -> Result<WeightMap, String> {
        let mut found = WeightMap::new();
        for chunk in characters.chunks(CHUNK) {
            let (first, last) = (chunk[0], chunk[chunk.len() - 1]);
            let weight = weight_of(&in_charset("c", collation), collation, level);
            let rows = self.rows(&format!(
                "SELECT cp, HEX({weight}) FROM characters WHERE cp BETWEEN {first} AND {last}"
            ))?;
            for row in rows {
                let code = number(&row[0])?;
                if chunk.binary_search(&code).is_ok() {
                    found.insert(code, weights(&row[1], collation)?);
                }
            }
        }
        Ok(found)
    }

    /// The weights of characters that a tailoring changes on a level.
    pub fn changes(&mut self, collation: &str, root: &str, level: usize) -> Result<WeightMap, String> {
        let (own, old) = (weight_of("c", collation, level), weight_of("c", root, level));
        let rows = self.rows(&format!("SELECT cp, HEX({own}) FROM characters WHERE {own} <> {old}"))?;
        rows.iter().map(|row| Ok((number(&row[0])?, weights(&row[1], collation)?))).collect()
    }

    /// What a collation makes of characters by `function`, UPPER or LOWER, where another makes something else.
    pub fn case(&mut self, function: &str, collation: &str, other: &str) -> Result<Vec<(u32, u32)>, String> {
        let of = |collation: &str| format!("{function}(c COLLATE {collation})");
        let rows = self.rows(&format!(
            "SELECT cp, CONV(HEX(CONVERT({own} USING utf32)), 16, 10) FROM characters
             WHERE HEX({own}) <> HEX({old}) ORDER BY cp",
            own = of(collation),
            old = of(other)
        ))?;
        rows.iter().map(|row| Ok((number(&row[0])?, number(&row[1])?))).collect()
    }

    /// The contractions of a collation among the neighbours.
    pub fn contractions(
        &mut self,
        collation: &str,
        levels: usize,
        near: &Neighbours,
    ) -> Result<Vec<Contraction>, String> {
        self.neighbours(collation, levels, near)?;
        let apart = near.apart;
        let two = differs("CONCAT(a.c, b.c)", &["a", "b"], collation, levels);
        let near = format!("b.cp BETWEEN a.cp - {apart} AND a.cp + {apart}");
        let mut found = Vec::new();
        for place in [near.clone(), format!("b.cp BETWEEN {MARKS} AND NOT ({near})")] {
            found.extend(self.rows(&format!(
                "SELECT a.cp, b.cp, 0, {} FROM near a JOIN near b ON {place} WHERE {two}",
                answers("CONCAT(a.c, b.c)", collation, levels)
            ))?);
        }
        let mut heads: Vec<String> = found.iter().map(|row: &Vec<String>| row[0].clone()).collect();
        heads.sort();
        heads.dedup();
        if !heads.is_empty() {
            found.extend(self.threes(collation, levels, apart.min(128), &heads)?);
        }
        let mut list: Vec<Contraction> =
            found.iter().map(|row| contraction(row, collation)).collect::<Result<_, _>>()?;
        list.sort_by_key(|contraction| contraction.characters);
        Ok(list)
    }

    /// Threes whose weights are neither those of their characters nor those of a pair of them and a character.
    fn threes(
        &mut self,
        collation: &str,
        levels: usize,
        apart: u32,
        heads: &[String],
    ) -> Result<Vec<Vec<String>>, String> {
        let text = "CONCAT(a.c, b.c, d.c)";
        let mut found = Vec::new();
        for head in heads {
            let other = differs(text, &["a", "b", "d"], collation, levels);
            let rows = self.rows(&format!(
                "SELECT a.cp, b.cp, d.cp, {} FROM near a
                 JOIN near b ON b.cp BETWEEN a.cp - {apart} AND a.cp + {apart}
                 JOIN near d ON d.cp BETWEEN a.cp - {apart} AND a.cp + {apart} WHERE a.cp = {head} AND {other}
                 AND NOT ({}) AND NOT ({})",
                answers(text, collation, levels),
                agrees(text, "CONCAT(a.c, b.c)", "d.c", collation, levels),
                agrees(text, "a.c", "CONCAT(b.c, d.c)", collation, levels),
            ))?;
            found.extend(rows);
        }
        Ok(found)
    }

    /// Fills the table `near` with the neighbours and their weights.
    fn neighbours(&mut self, collation: &str, levels: usize, near: &Neighbours) -> Result<(), String> {
        self.run("CREATE OR REPLACE TABLE near (cp INT PRIMARY KEY, c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, w0 VARBINARY(48), w1 VARBINARY(48), w2 VARBINARY(48)) ENGINE = Aria")?;
        let columns: Vec<String> = (0..levels).map(|level| weight_of("c", collation, level)).collect();
        let names: Vec<String> = (0..levels).map(|level| format!("w{level}")).collect();
        for chunk in near.characters.chunks(1000) {
            let list: Vec<String> = chunk.iter().map(u32::to_string).collect();
            self.run(&format!(
                "INSERT INTO near (cp, c, {}) SELECT cp, c, {} FROM characters WHERE cp IN ({})",
                names.join(", "),
                columns.join(", "),
                list.join(", ")
            ))?;
        }
        Ok(())
    }
}

fn in_charset(text: &str, collation: &str) -> String {
    match collation.split_once('_') {
        Some((charset, _)) if charset != "utf8mb4" => format!("CONVERT({text} USING {charset})"),
        _ => text.to_string(),
    }
}

fn weight_of(text: &str, collation: &str, level: usize) -> String {
    format!("WEIGHT_STRING({text} COLLATE {collation} LEVEL {})", level + 1)
}

fn answers(text: &str, collation: &str, levels: usize) -> String {
    let all: Vec<String> =
        (0..levels).map(|level| format!("HEX({})", weight_of(text, collation, level))).collect();
    all.join(", ")
}

/// Whether the weights of `text` are not those of the tables' characters on some level.
fn differs(text: &str, tables: &[&str], collation: &str, levels: usize) -> String {
    let one = |level: usize| {
        let apart: Vec<String> = tables.iter().map(|table| format!("{table}.w{level}")).collect();
        format!("{} <> CONCAT({})", weight_of(text, collation, level), apart.join(", "))
    };
    format!("({})", (0..levels).map(one).collect::<Vec<_>>().join(" OR "))
}

/// Whether the weights of `text` are those of its parts.
fn agrees(text: &str, first: &str, second: &str, collation: &str, levels: usize) -> String {
    let weight = |text: &str, level: usize| weight_of(text, collation, level);
    let one = |level: usize| {
        format!("{} = CONCAT({}, {})", weight(text, level), weight(first, level), weight(second, level))
    };
    (0..levels).map(one).collect::<Vec<_>>().join(" AND ")
}

fn contraction(row: &[String], collation: &str) -> Result<Contraction, String> {
    let characters = [number(&row[0])?, number(&row[1])?, number(&row[2])?];
    let weights = row[3..].iter().map(|hex| weights(hex, collation)).collect::<Result<_, _>>()?;
    Ok(Contraction { characters, weights })
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

/// Weights of two octets, for 8-bit sets of one.
fn weights(hex: &str, collation: &str) -> Result<Vec<u16>, String> {
    let digits = if collation.starts_with("utf8mb4") { 4 } else { 2 };
    let parse = |at: usize| {
        let word = hex.get(at..at + digits).ok_or_else(|| format!("no weights: {hex}"))?;
        u16::from_str_radix(word, 16).map_err(|_| format!("no weights: {hex}"))
    };
    (0..hex.len()).step_by(digits).map(parse).collect()
}
