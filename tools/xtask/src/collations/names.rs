//! Which collations belong to which file: `list.rs`.

use super::Source;
use super::ask::Oracle;
use std::fmt::Write;

/// Those that have levels or tables of their own and are left out.
const LEFT_OUT: &[&str] = &["myanmar", "thai_520_w2"];

/// The language of a collation that tailors Unicode 4.0.0: `spanish` of `utf8mb4_spanish_ci`.
pub fn old_language(name: &str) -> Option<&str> {
    let language = name.split_once('_')?.1.strip_suffix("_ci")?;
    let others = ["unicode", "general", "bin", "nopad", "uca1400", "520"];
    let is_other = others.iter().any(|other| language.contains(other)) || LEFT_OUT.contains(&language);
    (!is_other).then_some(language)
}

/// The language of a collation with all levels that tailors Unicode 14: `spanish` of `utf8mb4_uca1400_spanish_as_cs`.
pub fn new_language(name: &str) -> Option<&str> {
    let language = name.split_once("_uca1400_")?.1.strip_suffix("_as_cs")?;
    (!language.contains("nopad")).then_some(language)
}

/// The source of `list.rs`.
pub fn list(oracle: &mut Oracle, sources: &[Source]) -> Result<String, String> {
    let mut slots = String::new();
    let mut named = Vec::new();
    for (file, source) in sources.iter().enumerate() {
        let tailored = source.tailorings.iter().map(|tailoring| tailoring.name.as_str());
        for (number, language) in std::iter::once("").chain(tailored).enumerate() {
            writeln!(slots, "    ({file}, {number}),").map_err(|error| error.to_string())?;
            named.push((file, language.to_string()));
        }
    }
    let slot = |file: usize, language: &str| named.iter().position(|n| n.0 == file && n.1 == language);
    let mut orders = Vec::new();
    for (charset, variant) in [("latin1", "Latin1"), ("utf8mb3", "Utf8mb3"), ("utf8mb4", "Utf8mb4")] {
        for (number, name) in oracle.collations(charset)? {
            let Some((file, language, levels)) = place(&name) else { continue };
            let Some(slot) = slot(file, &language) else { continue };
            let pads = if name.contains("_nopad_") { "nopad" } else { "info" };
            orders.push((
                number,
                format!("    {pads}({number}, \"{name}\", {variant}, order({slot}, {levels:#05b})),\n"),
            ));
        }
    }
    orders.sort();
    let lines: String = orders.iter().map(|order| order.1.as_str()).collect();
    Ok(format!(
        "//! The collations that follow Unicode's algorithm. Written by `cargo x collations`.

use super::super::Charset::{{Latin1, Utf8mb3, Utf8mb4}};
use super::super::{{Info, Weighing, info, nopad}};
use super::Uca;

/// For a slot its file and which of the file's tailorings it is, counted from 1; 0 is the file's own order.
pub(in super::super) const SLOTS: [(u8, u8); {}] = [
{slots}];

const fn order(slot: u8, levels: u8) -> Weighing {{
    Weighing::Uca(Uca {{ slot, levels }})
}}

/// By number.
#[rustfmt::skip]
pub(in super::super) static ORDERS: [Info; {}] = [
{lines}];
",
        named.len(),
        orders.len()
    ))
}

/// The file of a collation, its language, its levels as bits.
fn place(name: &str) -> Option<(usize, String, u8)> {
    let rest = name.split_once('_')?.1;
    let plain = rest.replace("nopad_", "");
    match plain.as_str() {
        "german2_ci" if name.starts_with("latin1") => Some((3, String::new(), 1)),
        _ if name.starts_with("latin1") => None,
        "unicode_ci" => Some((0, String::new(), 1)),
        "unicode_520_ci" => Some((1, String::new(), 1)),
        _ => match plain.strip_prefix("uca1400_") {
            Some(tail) => {
                let levels = match tail.get(tail.len().checked_sub(5)?..)? {
                    "ai_ci" => 0b001,
                    "ai_cs" => 0b101,
                    "as_ci" => 0b011,
                    "as_cs" => 0b111,
                    _ => return None,
                };
                let language = tail[..tail.len() - 5].trim_end_matches('_').to_string();
                Some((2, language, levels))
            }
            None => Some((0, old_language(name)?.to_string(), 1)),
        },
    }
}
