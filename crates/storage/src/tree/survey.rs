//! Looking at a tree as a whole: how many entries a range may have, and whether the structure holds.

use crate::fault::StoreResult;
use crate::layout::*;

use super::{Step, Target, Tree};

/// Where a key lies: on each level from the root down, its child's slot and the number of children.
type Path = Vec<(usize, usize)>;

/// Rank of a path among all entries as a share of one, and the number of entries its fan-out suggests.
fn rank(path: &Path) -> (f64, f64) {
    let mut share = 0.0;
    let mut width = 1.0;
    let mut entries = 1.0;
    for &(slot, count) in path {
        let count = count.max(1) as f64;
        share += width * slot as f64 / count;
        width /= count;
        entries *= count;
    }
    (share, entries)
}

impl Tree {
    /// Pages the file has room for.
    pub fn page_count(&self) -> u64 {
        u64::from(self.space.pages())
    }

    /// Estimated number of entries in `[low, high)`; `None` is unbounded. Exact within one leaf. Waits.
    pub fn estimate_range(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> StoreResult<u64> {
        if let (Some(low), Some(high)) = (low, high) {
            self.read_ends(low, high)?;
        }
        let from = self.path(low.map_or(Target::At(&[]), Target::At), low.is_none())?;
        let to = self.path(high.map_or(Target::Last, Target::At), false)?;
        if from.len() == to.len() && from[..from.len() - 1] == to[..to.len() - 1] {
            let (first, last) = (from[from.len() - 1].0, to[to.len() - 1].0);
            return Ok(last.saturating_sub(first) as u64);
        }
        let ((a, n), (b, m)) = (rank(&from), rank(&to));
        // The last leaf of a growing tree is nearly empty: the fuller path tells more about the others.
        Ok(((b - a).max(0.0) * n.max(m)).ceil() as u64)
    }

    /// A key about that share of the way through the tree, where 0 is its start and 1 its end; none if there is none.
    /// Waits.
    pub fn key_near(&self, share: f64) -> StoreResult<Option<Vec<u8>>> {
        let mut page = ROOT;
        let mut share = share.clamp(0.0, 1.0);
        let mut level = None;
        loop {
            let latch = self.core.pool.latch_shared(&self.space, page)?;
            let here = latch.page();
            // A page that became another one meanwhile: the tree changed under the estimate.
            if !here.is_node() || here.count() == 0 || level.is_some_and(|level| here.level() >= level) {
                return Ok(None);
            }
            let place = share * here.count() as f64;
            let slot = (place as usize).min(here.count() - 1);
            if here.level() == 0 {
                let mut key = Vec::new();
                here.key(slot, &mut key);
                return Ok(Some(key));
            }
            share = (place - slot as f64).clamp(0.0, 1.0);
            level = Some(here.level());
            page = here.child(slot);
        }
    }

    fn path(&self, target: Target<'_>, first: bool) -> StoreResult<Path> {
        let mut path = Vec::new();
        let mut page = ROOT;
        loop {
            let latch = self.core.pool.latch_shared(&self.space, page)?;
            let here = latch.page();
            if !here.is_node() {
                return Ok(path_or_empty(path));
            }
            match target.step(here) {
                Step::Right(right) => {
                    page = right;
                    continue;
                }
                Step::Restart => return Ok(path_or_empty(path)),
                Step::Here => {}
            }
            if here.level() == 0 {
                let slot = match target {
                    _ if first => 0,
                    Target::At(key) | Target::Before(key) => here.search(key).unwrap_or_else(|s| s),
                    Target::Last => here.count(),
                };
                path.push((slot, here.count()));
                return Ok(path);
            }
            let slot = match target {
                Target::At(key) | Target::Before(key) => here.child_slot(key),
                Target::Last => here.count() - 1,
            };
            path.push((slot, here.count()));
            page = here.child(slot);
        }
    }

    /// Structural problems, in words. Waits; meant for trees that nobody changes meanwhile.
    pub fn verify(&self) -> StoreResult<Vec<String>> {
        let mut problems = Vec::new();
        let top = self.core.pool.latch_shared(&self.space, ROOT)?.page().level();
        for level in (0..=top).rev() {
            self.verify_level(level, &mut problems)?;
        }
        Ok(problems)
    }

    /// The shape of the tree, a line a page, from the root down and from the left: its number, fences and right link, then
    /// the children with their separators, or how many entries a leaf has. Waits; meant for trees that nobody changes meanwhile.
    pub fn outline(&self) -> StoreResult<String> {
        let mut out = String::new();
        let top = self.core.pool.latch_shared(&self.space, ROOT)?.page().level();
        for level in (0..=top).rev() {
            let Some(mut page) = self.locate(Target::At(&[]), level)? else { continue };
            for _ in 0..self.page_count() {
                let latch = self.core.pool.latch_shared(&self.space, page)?;
                let here = latch.page();
                out += &outline_of(here, page);
                page = here.right();
                if page == 0 {
                    break;
                }
            }
        }
        Ok(out)
    }

    fn verify_level(&self, level: u8, problems: &mut Vec<String>) -> StoreResult<()> {
        let Some(mut page) = self.locate(Target::At(&[]), level)? else { return Ok(()) };
        let mut low = Vec::new();
        let mut seen = 0u64;
        while page != 0 {
            let mut children = Vec::new();
            let latch = self.core.pool.latch_shared(&self.space, page)?;
            let here = latch.page();
            let mut complain = |what: String| problems.push(format!("page {page}: {what}"));
            if !here.is_node() || here.level() != level {
                complain(format!("kind {} level {} on level {level}", here.kind(), here.level()));
                return Ok(());
            }
            if here.low() != low {
                complain("low fence is not the left neighbour's high fence".into());
            }
            if let Some(what) = here.problem() {
                complain(what);
            }
            if here.high().is_none() != (here.right() == 0) {
                complain("right link and high fence disagree".into());
            }
            low = here.high().unwrap_or_default().to_vec();
            if level > 0 {
                children = children_of(here);
            }
            let (number, next) = (page, here.right());
            drop(latch);
            self.verify_children(number, level, &children, problems)?;
            seen += 1;
            if seen > self.page_count() {
                problems.push(format!("level {level} is a circle"));
                return Ok(());
            }
            page = next;
        }
        Ok(())
    }

    fn verify_children(
        &self,
        parent: u32,
        level: u8,
        children: &[(Vec<u8>, u32)],
        problems: &mut Vec<String>,
    ) -> StoreResult<()> {
        for (key, child) in children {
            let latch = self.core.pool.latch_shared(&self.space, *child)?;
            let here = latch.page();
            if !here.is_node() || here.level() + 1 != level || here.low() != key {
                problems.push(format!("page {parent}: child {child} is not what its separator says"));
            }
        }
        Ok(())
    }
}

/// A path is never empty; a tree that changed under the estimate gives an estimate of nothing.
fn path_or_empty(mut path: Path) -> Path {
    if path.is_empty() {
        path.push((0, 1));
    }
    path
}

fn children_of(page: crate::page::PageRef<'_>) -> Vec<(Vec<u8>, u32)> {
    let mut key = Vec::new();
    (0..page.count())
        .map(|slot| {
            page.key(slot, &mut key);
            (key.clone(), page.child(slot))
        })
        .collect()
}

fn outline_of(here: crate::page::PageRef<'_>, number: u32) -> String {
    let high = here.high().map_or("end".into(), |key| key.escape_ascii().to_string());
    let low = here.low().escape_ascii();
    let mut line = format!("level {} page {number} [{low}, {high})", here.level());
    if here.right() != 0 {
        line += &format!(" right {}", here.right());
    }
    if here.level() == 0 {
        return line + &format!(": {} entries\n", here.count());
    }
    line.push(':');
    for (key, child) in children_of(here) {
        line += &format!(" {}>{child}", key.escape_ascii());
    }
    line + "\n"
}
