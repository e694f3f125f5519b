//! Building a graph: nodes are inserted one after the other in a random order. Each gets edges to
//! the nodes found near it, except to nodes that are nearer to a neighbor it already has, so that
//! edges lead in all directions (Vamana's rule).

use super::codes::{Code, Codes, Coding};
use super::find::{GraphSearch, NearestNodes, Neighbour, VisitedSet};
use super::{EDGES_MAX, Graph, NEIGHBOURS, NONE};
use std::collections::BinaryHeap;

/// Nodes considered as neighbors of a node.
const LOOKED_AT: usize = 100;
/// How much nearer to a neighbor a node must be to be skipped, as a factor of squared distances.
const SLACK: f32 = 1.44;

/// A graph under construction.
pub(crate) struct Builder {
    codes: Codes,
    edges: Vec<u32>,
    order: Vec<u32>,
    /// Nodes inserted so far.
    done: usize,
    /// Nodes whose edges were reduced to the final limit.
    trimmed: usize,
}

impl Builder {
    pub(crate) fn new(coding: Coding) -> Builder {
        Builder {
            codes: Codes::new(coding),
            edges: Vec::new(),
            order: Vec::new(),
            done: 0,
            trimmed: 0,
        }
    }

    /// Adds a node; only before the first step.
    pub(crate) fn push(&mut self, code: &Code) {
        self.codes.push(code);
    }

    /// Inserts up to `nodes` nodes, or trims that many when all are inserted; false when everything
    /// is done.
    pub(crate) fn step(&mut self, nodes: usize) -> bool {
        if self.order.len() != self.codes.len() {
            self.order = shuffle_numbers(self.codes.len());
            self.edges = vec![NONE; self.codes.len() * EDGES_MAX];
        }
        if self.done == self.order.len() {
            return self.trim(nodes);
        }
        let end = self.order.len().min(self.done + nodes);
        while self.done < end {
            if let Some(node) = self.order.get(self.done).copied() {
                self.put(node);
            }
            self.done += 1;
        }
        true
    }

    /// Reduces the edges of nodes that have too many.
    fn trim(&mut self, nodes: usize) -> bool {
        let end = self.order.len().min(self.trimmed + nodes);
        for node in self.trimmed..end {
            let node = u32::try_from(node).unwrap_or(NONE);
            let its: Vec<u32> = of(&self.edges, node).collect();
            if its.len() > NEIGHBOURS {
                let chosen = self.choose_among(node, &its);
                self.tie(node, &chosen);
            }
        }
        self.trimmed = end;
        self.trimmed < self.order.len()
    }

    /// The finished graph, after the last step.
    pub(crate) fn finish(self) -> Graph {
        let each = self.edges.chunks(EDGES_MAX);
        let kept = each.flat_map(|edges| edges.iter().take(NEIGHBOURS));
        Graph {
            edges: kept.copied().collect(),
            codes: self.codes,
        }
    }

    fn put(&mut self, node: u32) {
        let Some(first) = self.order.first().copied().filter(|f| *f != node) else {
            return;
        };
        let mut best = NearestNodes::new(LOOKED_AT);
        let all = &|_: u32| true;
        let mut walk = GraphSearch {
            codes: &self.codes,
            target: self.codes.at(node),
            ahead: BinaryHeap::new(),
            seen: VisitedSet::new(self.codes.len()),
        };
        walk.begin_at(first, &mut best, all);
        let edges = &self.edges;
        let each = |node: u32, f: &mut dyn FnMut(u32)| of(edges, node).for_each(f);
        while walk.step(&each, &mut best, all) {}
        let neighbours = self.choose(&best.into_sorted());
        self.tie(node, &neighbours);
        for other in neighbours {
            let mut its: Vec<u32> = of(&self.edges, other).collect();
            its.push(node);
            if its.len() > EDGES_MAX {
                its = self.choose_among(other, &its);
            }
            self.tie(other, &its);
        }
    }

    /// Chooses neighbors of a node from candidates.
    fn choose_among(&self, node: u32, some: &[u32]) -> Vec<u32> {
        let own = self.codes.at(node);
        let near = some.iter().map(|n| Neighbour {
            distance: self.codes.distance(own, self.codes.at(*n)),
            node: *n,
        });
        let mut near: Vec<Neighbour> = near.collect();
        near.sort_unstable();
        self.choose(&near)
    }

    /// Chooses neighbors from candidates, which are sorted by distance.
    fn choose(&self, near: &[Neighbour]) -> Vec<u32> {
        let mut chosen: Vec<u32> = Vec::with_capacity(NEIGHBOURS);
        for n in near {
            if chosen.len() == NEIGHBOURS {
                break;
            }
            let at = self.codes.at(n.node);
            let hidden = |c: &u32| SLACK * self.codes.distance(self.codes.at(*c), at) < n.distance;
            if !chosen.iter().any(hidden) {
                chosen.push(n.node);
            }
        }
        chosen
    }

    fn tie(&mut self, node: u32, to: &[u32]) {
        let start = node as usize * EDGES_MAX;
        if let Some(slots) = self.edges.get_mut(start..start + EDGES_MAX) {
            slots.fill(NONE);
            for (slot, n) in slots.iter_mut().zip(to) {
                *slot = *n;
            }
        }
    }
}

fn of(edges: &[u32], node: u32) -> impl Iterator<Item = u32> + '_ {
    let start = node as usize * EDGES_MAX;
    let slots = edges.get(start..start + EDGES_MAX).unwrap_or_default();
    slots.iter().copied().take_while(|n| *n != NONE)
}

/// Numbers below `n` in a fixed shuffled order.
fn shuffle_numbers(n: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for i in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(i, (state % (i as u64 + 1)) as usize);
    }
    order
}
