//! Searching a graph for the nearest nodes: from several entries, always expanding the nearest node
//! not yet expanded, until no remaining node can be among the results.

use super::codes::{Code, CodeRef, Codes};
use super::{ENTRIES, Graph};
use model::Result;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Nodes expanded between two checks whether the search may go on.
const CHECK_EVERY: usize = 512;

/// A node and its distance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// Distance of the codes.
    pub(crate) distance: f32,
    pub(crate) node: u32,
}

impl Ord for Neighbour {
    fn cmp(&self, other: &Neighbour) -> Ordering {
        let by_distance = self.distance.total_cmp(&other.distance);
        by_distance.then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Neighbour {
    fn partial_cmp(&self, other: &Neighbour) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Neighbour {
    fn eq(&self, other: &Neighbour) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Neighbour {}

/// A set of nodes.
pub(super) struct VisitedSet(Vec<u64>);

impl VisitedSet {
    pub(super) fn new(nodes: usize) -> VisitedSet {
        VisitedSet(vec![0; nodes.div_ceil(64)])
    }

    /// Adds a node; true when it is new.
    fn add(&mut self, node: u32) -> bool {
        let Some(word) = self.0.get_mut(node as usize / 64) else {
            return false;
        };
        let bit = 1u64 << (node % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

/// The nearest nodes so far, up to a limit.
pub(super) struct NearestNodes {
    most: usize,
    found: BinaryHeap<Neighbour>,
}

impl NearestNodes {
    pub(super) fn new(most: usize) -> NearestNodes {
        NearestNodes {
            most: most.max(1),
            found: BinaryHeap::new(),
        }
    }

    /// True while a node at this distance could be among them.
    fn wants(&self, distance: f32) -> bool {
        let worst = self.found.peek();
        self.found.len() < self.most || worst.is_some_and(|w| distance < w.distance)
    }

    pub(super) fn add(&mut self, near: Neighbour) {
        if self.wants(near.distance) {
            self.found.push(near);
            if self.found.len() > self.most {
                self.found.pop();
            }
        }
    }

    pub(super) fn into_sorted(self) -> Vec<Neighbour> {
        self.found.into_sorted_vec()
    }
}

/// The state of a graph search.
pub(super) struct GraphSearch<'g> {
    pub(super) codes: &'g Codes,
    pub(super) target: CodeRef<'g>,
    pub(super) ahead: BinaryHeap<Reverse<Neighbour>>,
    pub(super) seen: VisitedSet,
}

/// Calls a function with each neighbor of a node.
type Neighbours<'n> = dyn Fn(u32, &mut dyn FnMut(u32)) + 'n;

impl GraphSearch<'_> {
    fn near(&self, node: u32) -> Neighbour {
        Neighbour {
            distance: self.codes.distance(self.target, self.codes.at(node)),
            node,
        }
    }

    pub(super) fn begin_at(
        &mut self,
        node: u32,
        best: &mut NearestNodes,
        passes: &dyn Fn(u32) -> bool,
    ) {
        if self.seen.add(node) {
            let near = self.near(node);
            self.ahead.push(Reverse(near));
            if passes(node) {
                best.add(near);
            }
        }
    }

    /// Expands the nearest remaining node; false when no better node can be found.
    pub(super) fn step(
        &mut self,
        neighbours: &Neighbours<'_>,
        best: &mut NearestNodes,
        passes: &dyn Fn(u32) -> bool,
    ) -> bool {
        let Some(Reverse(next)) = self.ahead.pop() else {
            return false;
        };
        if !best.wants(next.distance) {
            return false;
        }
        neighbours(next.node, &mut |node| {
            if !self.seen.add(node) {
                return;
            }
            let near = self.near(node);
            if best.wants(near.distance) {
                self.ahead.push(Reverse(near));
                if passes(node) {
                    best.add(near);
                }
            }
        });
        true
    }
}

impl Graph {
    /// Approximately the nearest nodes that pass, nearest first.
    ///
    /// # Errors
    /// The errors of `check`.
    pub(crate) fn nearest(
        &self,
        target: &Code,
        most: usize,
        passes: &dyn Fn(u32) -> bool,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Neighbour>> {
        let mut best = NearestNodes::new(most);
        let mut walk = GraphSearch {
            codes: &self.codes,
            target: target.as_ref(),
            ahead: BinaryHeap::new(),
            seen: VisitedSet::new(self.len()),
        };
        let step = self.len().div_ceil(ENTRIES).max(1);
        for node in (0..self.len()).step_by(step) {
            walk.begin_at(node as u32, &mut best, passes);
        }
        let each = |node: u32, f: &mut dyn FnMut(u32)| self.neighbours(node).for_each(f);
        let mut left = 0usize;
        while walk.step(&each, &mut best, passes) {
            left += 1;
            if left.is_multiple_of(CHECK_EVERY) {
                check()?;
            }
        }
        Ok(best.into_sorted())
    }

    /// The nearest of the given nodes by their codes, nearest first; compares each.
    ///
    /// # Errors
    /// The errors of `check`.
    pub(crate) fn nearest_of(
        &self,
        target: &Code,
        most: usize,
        nodes: &mut dyn Iterator<Item = u32>,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Neighbour>> {
        let mut best = NearestNodes::new(most);
        for (looked, node) in nodes.enumerate() {
            let distance = self.codes.distance(target.as_ref(), self.codes.at(node));
            best.add(Neighbour { distance, node });
            if looked.is_multiple_of(CHECK_EVERY * 8) {
                check()?;
            }
        }
        Ok(best.into_sorted())
    }
}
