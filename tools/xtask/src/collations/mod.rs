//! `cargo x collations`: the files of weights in `crates/value/src/collation/uca` and `code_page`, from what a MariaDB of its
//! own answers. `cargo x collations code_page` writes the latter alone.
//!
//! WEIGHT_STRING() is asked for every character on every level, then for pairs and threes of characters near each other, where
//! a contraction shows by weights that are not those of the characters. Of a tailoring only what differs from its root is kept. The form
//! of the files stands in `crates/value/src/collation/uca/table.rs`, why they are so in `docs/decisions`.

mod ask;
mod code_pages;
mod names;
mod pack;

use ask::Oracle;
use keel_testkit::process::{Engine, Server};
use std::fs;

/// A file: an order of its own and the tailorings of it.
struct Source {
    file: &'static str,
    /// A collation with all levels of the order.
    collation: &'static str,
    levels: usize,
    charset: &'static str,
    tailorings: Vec<Tailoring>,
}

/// A language.
struct Tailoring {
    name: String,
    collation: String,
}

/// Asks and writes; `only` the code pages, or all.
pub fn run(only: Option<&str>) -> Result<(), String> {
    let options = ["--max-heap-table-size=1G", "--tmp-table-size=1G"];
    let server = Server::start(Engine::MariaDb, &options).map_err(|error| error.to_string())?;
    let mut oracle = Oracle::new(server.client().map_err(|error| error.to_string())?)?;
    let collations = crate::repository().join("crates/value/src/collation");
    code_pages::write(&mut oracle, &collations.join("code_page"))?;
    if only == Some("code_page") {
        return Ok(());
    }
    let folder = collations.join("uca");
    let sources = sources(&mut oracle)?;
    let mut total = 0;
    for source in &sources {
        let bytes = file(&mut oracle, source)?;
        total += bytes.len();
        println!("{}: {} octets, {} tailorings", source.file, bytes.len(), source.tailorings.len());
        let path = folder.join(format!("{}.bin", source.file));
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{total} octets together");
    let list = names::list(&mut oracle, &sources)?;
    let path = folder.join("list.rs");
    fs::write(&path, list).map_err(|error| format!("{}: {error}", path.display()))
}

fn source(file: &'static str, collation: &'static str, levels: usize) -> Source {
    Source { file, collation, levels, charset: "utf8mb4", tailorings: Vec::new() }
}

/// All files in the order that `table.rs` has them in.
fn sources(oracle: &mut Oracle) -> Result<Vec<Source>, String> {
    let mut oldest = source("uca0400", "utf8mb4_unicode_ci", 1);
    let mut newest = source("uca1400", "utf8mb4_uca1400_as_cs", 3);
    for name in oracle.collations("utf8mb4")? {
        if let Some(language) = names::old_language(&name.1) {
            oldest.tailorings.push(Tailoring { name: language.to_string(), collation: name.1.clone() });
        }
        if let Some(language) = names::new_language(&name.1) {
            newest.tailorings.push(Tailoring { name: language.to_string(), collation: name.1.clone() });
        }
    }
    let german = Source { charset: "latin1", ..source("german2", "latin1_german2_ci", 1) };
    Ok(vec![oldest, source("uca0520", "utf8mb4_unicode_520_ci", 1), newest, german])
}

fn file(oracle: &mut Oracle, source: &Source) -> Result<Vec<u8>, String> {
    let characters = oracle.characters(source.charset)?;
    let mut levels = Vec::new();
    for level in 0..source.levels {
        levels.push(oracle.weights(source.collation, level, &characters)?);
    }
    let (beyond, ranges) = pack::computed(&mut levels[0]);
    for (number, level) in levels.iter_mut().enumerate().skip(1) {
        level.retain(|_, weights| *weights != [pack::COMMON[number]]);
    }
    let contractions = match source.charset {
        "utf8mb4" => oracle.contractions(source.collation, source.levels, &root_neighbours(&levels))?,
        _ => Vec::new(),
    };
    let mut packer = pack::Packer::new(beyond, &ranges, &levels, &contractions)?;
    packer.case(&case(oracle, source, source.collation, CASE_ROOT)?);
    for tailoring in &source.tailorings {
        let mut changes = Vec::new();
        for level in 0..source.levels {
            changes.push(oracle.changes(&tailoring.collation, source.collation, level)?);
        }
        let near = tailored_neighbours(&changes);
        let mut own = oracle.contractions(&tailoring.collation, source.levels, &near)?;
        own.retain(|contraction| !contractions.contains(contraction));
        println!("  {}: {} changes, {} contractions", tailoring.name, changes[0].len(), own.len());
        packer.tailoring(&changes, &own, &case(oracle, source, &tailoring.collation, source.collation)?)?;
    }
    Ok(packer.finish())
}

/// The collation whose letters `crates/value/src/collation/unicode_tables.rs` has.
const CASE_ROOT: &str = "utf8mb4_general_ci";

/// What UPPER() and LOWER() make of characters otherwise than another collation does.
fn case(
    oracle: &mut Oracle,
    source: &Source,
    collation: &str,
    other: &str,
) -> Result<[Vec<(u32, u32)>; 2], String> {
    if source.charset != "utf8mb4" {
        return Ok([Vec::new(), Vec::new()]);
    }
    Ok([oracle.case("UPPER", collation, other)?, oracle.case("LOWER", collation, other)?])
}

/// The characters to look for contractions among: all that have weights of their own, with how far apart.
fn root_neighbours(levels: &[ask::WeightMap]) -> ask::Neighbours {
    ask::Neighbours { characters: levels[0].keys().copied().collect(), apart: 200 }
}

/// Latin letters and marks, and the blocks of what the language changes.
fn tailored_neighbours(changes: &[ask::WeightMap]) -> ask::Neighbours {
    let mut characters: std::collections::BTreeSet<u32> =
        (0x41..=0x5A).chain(0x61..=0x7A).chain(0xC0..=0x17F).chain(0x300..=0x328).collect();
    for code in changes.iter().flat_map(|level| level.keys()) {
        match code {
            0..0x370 => characters.extend([*code]),
            _ => characters.extend(code & !0x7F..=code | 0x7F),
        }
    }
    ask::Neighbours { characters: characters.into_iter().collect(), apart: u32::MAX >> 1 }
}
