//! Whether the pages of a file make one tree: every page reachable once, levels, fences, separators and links in agreement.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::BuildHasher;

use super::tree::{Info, LOST, Outcome, Pass};
use crate::layout::*;

/// A fence or separator; two that differ have the same hash once in 2^64.
pub(super) fn hash_of(key: &[u8]) -> u64 {
    FixedState::with_seed(0x6b65_656c).hash_one(key)
}

/// A page of a level and the separator its parent has for it.
#[derive(Clone, Copy)]
struct Child {
    page: u32,
    separator: u64,
}

/// The state of a walk.
struct Walk<'p> {
    pass: &'p Pass,
    infos: &'p [Info],
    children: &'p HashMap<u32, Vec<(u64, u32)>>,
    seen: Vec<bool>,
    outcome: Outcome,
}

/// Checks a tree's structure.
pub(super) fn check_tree(pass: &Pass) -> Outcome {
    let infos = std::mem::take(&mut *pass.infos.lock());
    let children = std::mem::take(&mut *pass.children.lock());
    let seen = vec![false; infos.len()];
    let mut walk = Walk { pass, infos: &infos, children: &children, seen, outcome: Outcome::default() };
    walk.levels();
    let Walk { mut seen, mut outcome, .. } = walk;
    pass.check_values(&infos, &mut seen);
    let mut strays = Vec::new();
    for (number, info) in infos.iter().enumerate() {
        if seen[number] || pass.is_map(number as u32) {
            continue;
        }
        let page = Some(number as u32);
        match info.kind {
            KIND_LEAF => strays.push(number as u32),
            LOST if info.allocated => outcome.has_lost = true,
            _ => {}
        }
        match (info.kind, info.allocated) {
            (KIND_LEAF | KIND_INNER, true) if !outcome.has_lost => {
                let text = "in use according to the map, but no page of the tree leads to it";
                pass.report.damage("unreachable", &pass.file, page, text);
            }
            (KIND_OVERFLOW, true) if !outcome.has_lost => {
                let text = "page of a long value that no entry refers to: a crash lost it to the file, or its owner is lost";
                pass.report.note("leak", &pass.file, page, text);
            }
            _ => {}
        }
    }
    // Free pages gave nothing to the visitor.
    strays.retain(|page| infos[*page as usize].allocated);
    if !outcome.has_lost {
        pass.take_back(&strays);
    }
    outcome
}

/// Checks that every page of the undo file is part of a segment or free.
pub(super) fn check_undo(pass: &Pass) -> Outcome {
    let infos = std::mem::take(&mut *pass.infos.lock());
    for (number, info) in infos.iter().enumerate() {
        let used = pass.history.used.contains(&(number as u32));
        if info.kind == KIND_UNDO && info.allocated && !used && pass.history.complete {
            let text = "undo page of no segment: a crash lost it to the file";
            pass.report.note("leak", &pass.file, Some(number as u32), text);
        }
        if used && !info.allocated {
            pass.report.damage(
                "allocation",
                &pass.file,
                Some(number as u32),
                "undo page of a segment, but free in the map",
            );
        }
    }
    Outcome::default()
}

impl Walk<'_> {
    fn damage(&self, kind: &'static str, page: u32, text: String) {
        self.pass.report.damage(kind, &self.pass.file, Some(page), text);
    }

    fn node(&self, page: u32) -> Option<&Info> {
        self.infos.get(page as usize).filter(|i| matches!(i.kind, KIND_LEAF | KIND_INNER))
    }

    fn levels(&mut self) {
        let first = Child { page: ROOT, separator: hash_of(&[]) };
        let mut level = match self.node(ROOT) {
            Some(root) => {
                if root.right != 0 || root.has_high {
                    let text = format!("the root has the right neighbour {} or a high fence", root.right);
                    self.damage("link", ROOT, text);
                }
                root.level
            }
            None => {
                self.outcome.has_lost = true;
                if self.infos.get(ROOT as usize).is_none_or(|i| i.kind != LOST) {
                    self.damage("page", ROOT, "the root is no page of a tree".into());
                }
                self.infos
                    .iter()
                    .filter(|i| matches!(i.kind, KIND_LEAF | KIND_INNER))
                    .map(|i| i.level)
                    .max()
                    .unwrap_or(0)
            }
        };
        let mut row = vec![first];
        loop {
            let found = self.level(level, &row);
            if level == 0 {
                self.outcome.leaves = found.len() as u64;
                self.outcome.order = found;
                return;
            }
            row = found
                .iter()
                .filter_map(|page| self.children.get(page))
                .flatten()
                .map(|(separator, page)| Child { page: *page, separator: *separator })
                .collect();
            level -= 1;
        }
    }

    /// Walks a level along the parents' children and the right links; gives its pages from left to right.
    fn level(&mut self, level: u8, row: &[Child]) -> Vec<u32> {
        let known: HashMap<u32, usize> = row.iter().enumerate().map(|(at, child)| (child.page, at)).collect();
        let mut found = Vec::with_capacity(row.len());
        let start = hash_of(&[]);
        // Where the way to the left end is lost, the page that begins with the least key is it.
        let lost_start = row.first().is_none_or(|first| first.separator != start);
        if lost_start {
            let left = (0..self.infos.len() as u32).find(|page| {
                self.node(*page).is_some_and(|i| i.allocated && i.level == level && i.low == start)
            });
            if let Some(left) = left.filter(|left| !known.contains_key(left)) {
                self.chain(level, left, start, None, &known, &mut found);
            }
        }
        for (at, child) in row.iter().enumerate() {
            let next = row.get(at + 1).copied();
            self.chain(level, child.page, child.separator, next, &known, &mut found);
        }
        found
    }

    /// Goes from a child to the right until `next`; what lies between, its parent does not know yet.
    fn chain(
        &mut self,
        level: u8,
        first: u32,
        separator: u64,
        next: Option<Child>,
        known: &HashMap<u32, usize>,
        found: &mut Vec<u32>,
    ) {
        let (mut page, mut low) = (first, separator);
        loop {
            let Some(info) = self.node(page).copied() else {
                self.outcome.has_lost = true;
                if self.infos.get(page as usize).is_none_or(|i| i.kind != LOST) {
                    self.damage("link", page, format!("a page of level {level} should be here"));
                }
                return;
            };
            if std::mem::replace(&mut self.seen[page as usize], true) {
                self.outcome.has_lost = true;
                return self.damage("link", page, "is reached twice".into());
            }
            if !info.allocated {
                // What it holds was taken for nobody's.
                self.outcome.has_lost = true;
                self.damage("allocation", page, "is part of the tree, but free according to the map".into());
            }
            if info.level != level {
                self.outcome.has_lost = true;
                return self.damage("link", page, format!("is of level {}, expected {level}", info.level));
            }
            if info.low != low {
                let what =
                    if page == first { "its parent's separator" } else { "its left neighbour's high fence" };
                self.damage("fence", page, format!("the low fence is not {what}"));
            }
            if info.has_high != (info.right != 0) {
                self.damage(
                    "link",
                    page,
                    format!("right neighbour {}, high fence {}", info.right, info.has_high),
                );
            }
            found.push(page);
            let expected = next.map_or(0, |n| n.page);
            if info.right == expected {
                if let Some(next) = next.filter(|n| n.separator != info.high) {
                    let text = format!(
                        "the high fence is not the separator of page {}, its right neighbour",
                        next.page
                    );
                    self.damage("separator", page, text);
                }
                return;
            }
            if info.right == 0 || known.contains_key(&info.right) {
                // Beside a lost parent the row has a gap, and the link leads past it.
                if !self.outcome.has_lost {
                    let text = format!("the right neighbour is {}, its parent says {expected}", info.right);
                    self.damage("link", page, text);
                }
                return;
            }
            (page, low) = (info.right, info.high);
        }
    }
}
