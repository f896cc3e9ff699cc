//! Sets of one octet a character, and their collations: `code_page/`.

use super::ask::Oracle;
use std::fmt::Write;
use std::path::Path;

/// `latin1`, `ascii` and `binary` have tables of their own; octets of `swe7` below 80 are not ASCII.
const LEFT_OUT: [&str; 5] = ["latin1", "ascii", "binary", "swe7", "tis620"];

/// Asks and writes.
pub fn write(oracle: &mut Oracle, folder: &Path) -> Result<(), String> {
    let mut data = Vec::new();
    let mut tables: Vec<Vec<u8>> = Vec::new();
    let mut sets = String::new();
    let mut infos = Vec::new();
    for (place, (name, default, description)) in
        oracle.code_pages()?.into_iter().filter(|set| !LEFT_OUT.contains(&set.0.as_str())).enumerate()
    {
        let page = oracle.code_page(&name)?;
        data.extend(page.unicode.iter().flat_map(|code| code.to_le_bytes()));
        data.extend(&page.upper);
        data.extend(&page.lower);
        let collations = oracle.collations(&name)?;
        let number = |wanted: &str| {
            collations.iter().find(|c| c.1 == wanted).map(|c| c.0).ok_or(format!("{wanted} is missing"))
        };
        let (default, binary) = (number(&default)?, number(&format!("{name}_bin"))?);
        writeln!(sets, "    set(\"{name}\", \"{description}\", {default}, {binary}),").map_err(text)?;
        for (number, collation) in &collations {
            let made = if collation.contains("_nopad_") { "nopad" } else { "info" };
            let weighing = if collation.ends_with("_bin") {
                "Octets".to_string()
            } else {
                let Some(weights) = oracle.octet_weights(&name, collation)? else { continue };
                let known = tables.iter().position(|table| *table == weights);
                let table = known.unwrap_or_else(|| {
                    tables.push(weights);
                    tables.len() - 1
                });
                format!("weights({table})")
            };
            infos.push((
                *number,
                format!("    {made}({number}, \"{collation}\", page({place}), {weighing}),\n"),
            ));
        }
    }
    infos.sort();
    data.extend(tables.into_iter().flatten());
    std::fs::write(folder.join("tables.bin"), data).map_err(text)?;
    let (count, infos_count) = (sets.lines().count(), infos.len());
    let infos: String = infos.into_iter().map(|info| info.1).collect();
    let list = format!(
        "//! The code pages and their collations. Written by `cargo x collations`.

use super::super::Weighing::Octets;
use super::super::{{Info, info, nopad}};
use super::{{Set, page, set, weights}};

/// In the order of `tables.bin`.
pub(super) static SETS: [Set; {count}] = [
{sets}];

/// By number.
#[rustfmt::skip]
pub(in super::super) static COLLATIONS: [Info; {infos_count}] = [
{infos}];
"
    );
    std::fs::write(folder.join("list.rs"), list).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
