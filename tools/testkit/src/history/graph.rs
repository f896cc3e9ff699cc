//! A graph of points in time with the reasons why one comes before another.

use std::collections::VecDeque;
use std::fmt;

/// Why one point comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Why {
    /// Wrote the version before.
    WriteWrite,
    /// Wrote what was read.
    WriteRead,
    /// Read what was overwritten.
    ReadWrite,
    /// Parts of one transaction.
    Program,
    /// Was over before the other began.
    Time,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::WriteWrite => "wrote before",
            Why::WriteRead => "was read by",
            Why::ReadWrite => "read what was overwritten by",
            Why::Program => "belongs before",
            Why::Time => "was over before",
        })
    }
}

/// Points are numbers.
#[derive(Default)]
pub(super) struct Graph {
    edges: Vec<Vec<(usize, Why)>>,
}

/// Steps of a cycle: from each point to the next, the last one leads to the first.
pub(super) type Cycle = Vec<(usize, Why)>;

impl Graph {
    pub fn point(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    pub fn edge(&mut self, from: usize, to: usize, why: Why) {
        if from != to && !self.edges[from].contains(&(to, why)) {
            self.edges[from].push((to, why));
        }
    }

    /// Points that are on a cycle of edges that `take` lets pass, or between such: found by taking away, again and again,
    /// points that nothing leads to.
    fn tangled(&self, take: impl Fn(Why) -> bool) -> Vec<bool> {
        let mut incoming = vec![0; self.edges.len()];
        for (to, _) in self.edges.iter().flatten().filter(|(_, why)| take(*why)) {
            incoming[*to] += 1;
        }
        let mut left = vec![true; self.edges.len()];
        let mut free: Vec<usize> = (0..incoming.len()).filter(|point| incoming[*point] == 0).collect();
        while let Some(point) = free.pop() {
            left[point] = false;
            for (to, _) in self.edges[point].iter().filter(|(_, why)| take(*why)) {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        left
    }

    /// A shortest way from `from` to `to` over `inside`; the steps leave from its points.
    fn way(&self, from: usize, to: usize, inside: &[bool], take: &impl Fn(Why) -> bool) -> Option<Cycle> {
        let mut came: Vec<Option<(usize, Why)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(point) = queue.pop_front() {
            for &(next, why) in self.edges[point].iter().filter(|(next, why)| inside[*next] && take(*why)) {
                if next == to {
                    let mut steps = vec![(point, why)];
                    let mut at = point;
                    while at != from {
                        let (before, why) = came[at].expect("the search came this way");
                        steps.push((before, why));
                        at = before;
                    }
                    steps.reverse();
                    return Some(steps);
                }
                if came[next].is_none() && next != from {
                    came[next] = Some((point, why));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// A short cycle of edges that `take` lets pass.
    pub fn cycle(&self, take: impl Fn(Why) -> bool) -> Option<Cycle> {
        let inside = self.tangled(&take);
        let points = (0..inside.len()).filter(|point| inside[*point]).take(TRIES_MAX);
        points.filter_map(|point| self.way(point, point, &inside, &take)).min_by_key(Vec::len)
    }

    /// A short cycle with exactly one edge of the kind `once`, the others as `take` lets pass.
    pub fn cycle_with_one(&self, once: Why, take: impl Fn(Why) -> bool) -> Option<Cycle> {
        let inside = self.tangled(|why| why == once || take(why));
        let all = (0..inside.len()).filter(|from| inside[*from]);
        let singles = all.flat_map(|from| self.edges[from].iter().map(move |(to, why)| (from, *to, *why)));
        let singles = singles.filter(|(_, to, why)| *why == once && inside[*to]).take(TRIES_MAX);
        let cycles = singles.filter_map(|(from, to, _)| {
            let mut steps = vec![(from, once)];
            steps.extend(self.way(to, from, &inside, &take)?);
            Some(steps)
        });
        cycles.min_by_key(Vec::len)
    }
}

/// Points from which a cycle is looked for: any will do, short ones are easier to read.
const TRIES_MAX: usize = 500;
