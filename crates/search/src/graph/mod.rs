//! Approximate nearest neighbors: a graph over the vectors of one immutable segment of an index.
//! Promises: nodes are numbers from 0; vectors are stored as codes of one byte or bit per number,
//! so results are approximate and must be compared in full. Must not know: documents, segments,
//! tantivy.

mod build;
mod codes;
mod file;
mod find;

pub(crate) use build::Builder;
pub(crate) use codes::{Code, CodeKind, Coding};
pub(crate) use find::Neighbour;

use codes::Codes;

/// Most neighbors of a node.
const NEIGHBOURS: usize = 32;
/// Most edges of a node during building: choosing edges is expensive, so it is done for many at
/// once.
const EDGES_MAX: usize = NEIGHBOURS + NEIGHBOURS / 2;
/// Fills the edges of a node with fewer neighbors.
const NONE: u32 = u32::MAX;
/// Nodes from which a search may start.
const ENTRIES: usize = 24;

/// A graph.
pub(crate) struct Graph {
    codes: Codes,
    /// [`NEIGHBOURS`] entries per node.
    edges: Vec<u32>,
}

impl Graph {
    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        Graph::bytes_for(self.codes.coding(), self.len())
    }

    /// Bytes of memory of a graph over `nodes` vectors.
    pub(crate) fn bytes_for(coding: Coding, nodes: usize) -> usize {
        nodes * (coding.bytes() + 8 + NEIGHBOURS * 4)
    }

    /// The same during building.
    pub(crate) fn bytes_to_build(coding: Coding, nodes: usize) -> usize {
        nodes * (coding.bytes() + 8 + EDGES_MAX * 4)
    }

    fn neighbours(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let start = node as usize * NEIGHBOURS;
        let edges = self
            .edges
            .get(start..start + NEIGHBOURS)
            .unwrap_or_default();
        edges.iter().copied().take_while(|n| *n != NONE)
    }
}
