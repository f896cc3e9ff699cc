//! Circles of files: files of one crate that import each other in a loop.
//!
//! Imports are read from the text: `use` trees and paths that begin with `crate`, `self` or `super`, over the files as
//! modules. A name that a module re-exports counts for the file that defines it. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The most files that a circle may have.
const CIRCLE_MAX: usize = 35;

type Modules = BTreeMap<String, String>;

/// Reports circles of more than [`CIRCLE_MAX`] files within a crate.
pub fn check(root: &Path, name: &str, findings: &mut Vec<String>) {
    let source = root.join("crates").join(name).join("src");
    let modules = modules_of(&source);
    let arrows = arrows_of(&modules);
    let largest = largest_circle(&arrows);
    if largest.len() > CIRCLE_MAX {
        let some: Vec<&str> = largest.iter().take(8).map(String::as_str).collect();
        findings.push(format!(
            "crates/{name}: {} files import each other in a circle, {CIRCLE_MAX} at most: {}, ...",
            largest.len(),
            some.join(", ")
        ));
    }
}

/// The text of each module without comments and tests, by its path within the crate; the root is "".
fn modules_of(source: &Path) -> Modules {
    let mut modules = Modules::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries: Vec<PathBuf> =
            fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(source).expect("it lies in the folder").with_extension("");
            let mut parts: Vec<String> =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if parts.last().is_some_and(|last| last == "mod" || last == "lib" || last == "main") {
                parts.pop();
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_string();
            let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            modules.insert(parts.join("::"), lines.collect::<Vec<_>>().join("\n"));
        }
    }
    modules
}

/// Which modules each module imports.
fn arrows_of(modules: &Modules) -> BTreeMap<String, BTreeSet<String>> {
    let mut reexports = BTreeMap::new();
    for (module, text) in modules {
        for (public, path) in uses(text) {
            let (path, name) = match path.split_once(" as ") {
                Some((path, name)) => (path.trim().to_string(), name.trim().to_string()),
                None => (path.clone(), path.rsplit("::").next().unwrap_or_default().to_string()),
            };
            if public && let Some(target) = absolute(modules, module, &path) {
                reexports.insert((module.clone(), name), target);
            }
        }
    }
    let mut arrows = BTreeMap::new();
    for (module, text) in modules {
        let named = uses(text).into_iter().map(|(_, path)| path).chain(paths(text));
        let absolute = named.filter_map(|path| {
            let path = path.split(" as ").next().unwrap_or_default().trim().to_string();
            absolute(modules, module, &path)
        });
        let targets = absolute.filter_map(|path| resolve(modules, &reexports, path, 0));
        let others: BTreeSet<String> = targets.filter(|t| t != module && !t.is_empty()).collect();
        arrows.insert(module.clone(), others);
    }
    arrows
}

/// The paths of the `use` declarations, and whether each is public.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("use ") {
        let line_start = rest[..start].rfind('\n').map_or(0, |at| at + 1);
        let before = rest[line_start..start].trim();
        let body = &rest[start + 4..];
        let Some(end) = body.find(';') else { break };
        if before.is_empty() || before.starts_with("pub") {
            let mut paths = Vec::new();
            flatten("", &body[..end], &mut paths);
            found.extend(paths.into_iter().map(|path| (!before.is_empty(), path)));
        }
        rest = &body[end..];
    }
    found
}

/// The paths of a tree of `use`.
fn flatten(prefix: &str, tree: &str, out: &mut Vec<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.strip_suffix("::self").unwrap_or(tree);
        let path = if path == "self" { prefix.trim_end_matches("::") } else { path };
        out.push(if path == prefix.trim_end_matches("::") { path.into() } else { format!("{prefix}{path}") });
        return;
    };
    let inner = format!("{prefix}{}", tree[..open].trim());
    let body = tree[open + 1..].trim_end().trim_end_matches('}');
    let (mut depth, mut start) = (0, 0);
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                flatten(&inner, &body[start..at], out);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !body[start..].trim().is_empty() {
        flatten(&inner, &body[start..], out);
    }
}

/// Paths in code that begin with `crate`, `self` or `super`.
fn paths(text: &str) -> Vec<String> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !is_path(c)).map(|word| word.trim_end_matches(':'));
    let begins = |word: &&str| ["crate::", "self::", "super::"].iter().any(|start| word.starts_with(start));
    words.filter(begins).map(String::from).collect()
}

/// A path as seen from the root of the crate; none where it leads out of it.
fn absolute(modules: &Modules, module: &str, path: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = path.split("::").collect();
    let own: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let (base, rest) = match parts[0] {
        "crate" => (&own[..0], &parts[1..]),
        "self" => (&own[..], &parts[1..]),
        "super" => {
            let levels = parts.iter().take_while(|part| **part == "super").count();
            (own.get(..own.len().checked_sub(levels)?)?, &parts[levels..])
        }
        first => {
            let child = own.iter().copied().chain([first]).collect::<Vec<_>>().join("::");
            if !modules.contains_key(&child) {
                return None;
            }
            (&own[..], &parts[..])
        }
    };
    Some(base.iter().chain(rest).map(|part| (*part).to_string()).collect())
}

/// The module that a path leads to, through re-exports.
fn resolve(
    modules: &Modules,
    reexports: &BTreeMap<(String, String), Vec<String>>,
    path: Vec<String>,
    depth: usize,
) -> Option<String> {
    for len in (0..=path.len()).rev() {
        let module = path[..len].join("::");
        if !modules.contains_key(&module) {
            continue;
        }
        let onward = path.get(len).and_then(|name| reexports.get(&(module.clone(), name.clone())));
        return match onward {
            Some(target) if depth < 8 => {
                let next = target.iter().chain(&path[len + 1..]).cloned().collect();
                resolve(modules, reexports, next, depth + 1)
            }
            _ => Some(module),
        };
    }
    None
}

/// The largest set of modules of which each reaches each other.
fn largest_circle(arrows: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let reach = |start: &String| {
        let mut seen = BTreeSet::from([start.clone()]);
        let mut next = vec![start.clone()];
        while let Some(module) = next.pop() {
            for target in arrows.get(&module).into_iter().flatten() {
                if seen.insert(target.clone()) {
                    next.push(target.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        arrows.keys().map(|module| (module, reach(module))).collect();
    let circle = |module: &String| -> BTreeSet<String> {
        let mutual =
            reached[module].iter().filter(|other| reached.get(other).is_some_and(|r| r.contains(module)));
        mutual.cloned().collect()
    };
    arrows.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_use_are_taken_apart() {
        let mut out = Vec::new();
        flatten("", "crate::a::{self, b::{C, d}, E as F}", &mut out);
        assert_eq!(out, ["crate::a", "crate::a::b::C", "crate::a::b::d", "crate::a::E as F"]);
    }

    #[test]
    fn circles_lead_through_reexports() {
        let modules: Modules = [
            ("", "pub use a::Thing;"),
            ("a", "use crate::b::f;\npub struct Thing;"),
            ("b", "use crate::Thing;"),
            ("c", "use super::a::Thing;"),
        ]
        .map(|(name, text)| (name.to_string(), text.to_string()))
        .into();
        let circle = largest_circle(&arrows_of(&modules));
        assert_eq!(circle.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
