//! Ranges of keys in order: what a transaction has locked of a tree, gaps or rows.
//!
//! Ranges are `[low, high)`, sorted, disjoint, and grow into one another where they touch. There are at most as many as
//! their user allows: beyond that, neighbours become one, the nearest first, and what lay between is covered too. How
//! near two keys are is judged by their first eight octets behind what all have in common.

/// A range `[low, high)`; without `high` to the end of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    /// The first key in it.
    pub(crate) low: Box<[u8]>,
    /// The first key behind it.
    pub(crate) high: Option<Box<[u8]>>,
}

/// Disjoint ranges in order.
#[derive(Debug, Default)]
pub(crate) struct KeyRanges {
    ranges: Vec<KeyRange>,
}

/// Whether a range that ends at `end` meets one that starts at `start`: nothing, or one key alone, lies between.
fn reaches(end: Option<&[u8]>, start: &[u8]) -> bool {
    end.is_none_or(|end| start <= end || start.strip_prefix(end) == Some(&[0]))
}

/// The higher of two ends.
fn higher<'a>(a: Option<&'a [u8]>, b: Option<&'a [u8]>) -> Option<&'a [u8]> {
    Some(a?.max(b?))
}

impl KeyRanges {
    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyRange> {
        self.ranges.iter()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether `key` lies in one.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.covering(key).is_some()
    }

    /// The range in which `key` lies.
    pub(crate) fn covering(&self, key: &[u8]) -> Option<&KeyRange> {
        let after = self.ranges.partition_point(|range| *range.low <= *key);
        let range = &self.ranges[after.checked_sub(1)?];
        range.high.as_deref().is_none_or(|high| key < high).then_some(range)
    }

    /// Whether `[low, high)` has a key in common with one.
    pub(crate) fn overlaps(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let first = self.first_ending_above(low);
        self.ranges.get(first).is_some_and(|range| high.is_none_or(|high| *range.low < *high))
    }

    fn first_ending_above(&self, low: &[u8]) -> usize {
        self.ranges.partition_point(|range| range.high.as_deref().is_some_and(|high| high <= low))
    }

    /// Adds `[low, high)`, as one with the ranges that it meets.
    pub(crate) fn add(&mut self, low: &[u8], high: Option<&[u8]>) {
        let first = self.ranges.partition_point(|range| !reaches(range.high.as_deref(), low));
        let met = self.ranges[first..].iter().take_while(|range| reaches(high, &range.low)).count();
        let Some(last) = (first + met).checked_sub(1).filter(|_| met > 0) else {
            let range = KeyRange { low: low.into(), high: high.map(Into::into) };
            self.ranges.insert(first, range);
            return;
        };
        let end = higher(self.ranges[last].high.as_deref(), high);
        if end != self.ranges[first].high.as_deref() {
            self.ranges[first].high = end.map(Into::into);
        }
        if *low < *self.ranges[first].low {
            self.ranges[first].low = low.into();
        }
        self.ranges.drain(first + 1..=last);
    }

    /// Joins neighbours until no more than `count` ranges (at least one) are left.
    pub(crate) fn coarsen(&mut self, count: usize) {
        let count = count.max(1);
        if self.ranges.len() <= count {
            return;
        }
        let distances = self.distances();
        let mut sorted = distances.clone();
        let kept = count - 1;
        // The cuts stay where the distance is greatest; of equal ones the first stay.
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let least = sorted.get(kept.wrapping_sub(1)).copied();
        let mut ties = least.map_or(0, |least| sorted[..kept].iter().filter(|d| **d == least).count());
        let mut joined: Vec<KeyRange> = Vec::with_capacity(count);
        for (index, range) in self.ranges.drain(..).enumerate() {
            let cut = index == 0 || {
                let distance = Some(distances[index - 1]);
                let tie = distance == least && ties > 0;
                ties -= usize::from(tie);
                tie || (least.is_some() && distance > least)
            };
            match joined.last_mut().filter(|_| !cut) {
                Some(last) => last.high = range.high,
                None => joined.push(range),
            }
        }
        self.ranges = joined;
    }

    /// How far each range is from the one before it.
    fn distances(&self) -> Vec<u64> {
        let (Some(first), Some(last)) = (self.ranges.first(), self.ranges.last()) else { return Vec::new() };
        let common = first.low.iter().zip(&last.low).take_while(|(a, b)| a == b).count();
        let place = |key: &[u8]| {
            let mut head = [0; 8];
            let rest = key.get(common..).unwrap_or_default();
            let length = rest.len().min(8);
            head[..length].copy_from_slice(&rest[..length]);
            u64::from_be_bytes(head)
        };
        let end = |range: &KeyRange| range.high.as_deref().map_or(u64::MAX, place);
        self.ranges.windows(2).map(|pair| place(&pair[1].low).saturating_sub(end(&pair[0]))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> KeyRanges {
        let mut ranges = KeyRanges::default();
        pairs.iter().for_each(|(low, high)| ranges.add(low.as_bytes(), Some(high.as_bytes())));
        ranges
    }

    fn shown(ranges: &KeyRanges) -> Vec<String> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        ranges
            .iter()
            .map(|r| format!("{}-{}", text(&r.low), r.high.as_deref().map_or("end".into(), text)))
            .collect()
    }

    #[test]
    fn ranges_that_meet_become_one() {
        assert_eq!(shown(&of(&[("d", "f"), ("a", "b"), ("h", "j")])), ["a-b", "d-f", "h-j"]);
        assert_eq!(shown(&of(&[("d", "f"), ("a", "b"), ("h", "j"), ("b", "h")])), ["a-j"]);
        assert_eq!(shown(&of(&[("a", "c"), ("b", "bb")])), ["a-c"]);
        assert_eq!(shown(&of(&[("b", "c"), ("a", "d")])), ["a-d"]);
        assert_eq!(shown(&of(&[("a", "b"), ("b\0", "c")])), ["a-c"], "one key between them");
        let mut open = of(&[("a", "b"), ("m", "n")]);
        open.add(b"k", None);
        assert_eq!(shown(&open), ["a-b", "k-end"]);
        open.add(b"z", Some(b"zz"));
        assert_eq!(shown(&open), ["a-b", "k-end"]);
    }

    #[test]
    fn keys_and_ranges_are_found() {
        let ranges = of(&[("b", "d"), ("f", "h")]);
        let covered: Vec<bool> =
            ["a", "b", "c", "d", "e", "g", "h"].map(|k| ranges.covers(k.as_bytes())).into();
        assert_eq!(covered, [false, true, true, false, false, true, false]);
        assert!(ranges.overlaps(b"a", Some(b"bb")) && ranges.overlaps(b"e", None));
        assert!(!ranges.overlaps(b"d", Some(b"f")) && !ranges.overlaps(b"h", None));
    }

    #[test]
    fn the_nearest_are_joined_first() {
        let mut ranges = of(&[("ka", "kb"), ("kd", "ke"), ("kn", "ko"), ("kq", "kr"), ("kz", "kzz")]);
        ranges.coarsen(3);
        assert_eq!(shown(&ranges), ["ka-ke", "kn-kr", "kz-kzz"]);
        ranges.coarsen(1);
        assert_eq!(shown(&ranges), ["ka-kzz"]);
        let mut even = KeyRanges::default();
        (0..100u32).for_each(|n| even.add(&(n * 2).to_be_bytes(), Some(&(n * 2 + 1).to_be_bytes())));
        even.coarsen(10);
        assert_eq!(even.len(), 10);
        assert!((0..100u32).all(|n| even.covers(&(n * 2).to_be_bytes())));
    }
}
