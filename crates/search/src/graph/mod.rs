//! Approximate neighbours: a graph over the vectors of one segment of an index, which never
//! changes. Promises: nodes are numbers from 0; vectors are kept as codes, a byte or a bit for each
//! number, so what is found is near by the codes and is to be compared in full. Must not know:
//! documents, segments, tantivy.

mod build;
mod codes;
mod file;
mod find;

pub(crate) use build::Builder;
pub(crate) use codes::{Code, CodeKind, Coding};
pub(crate) use find::Near;

use codes::Codes;

/// Most neighbours of a node.
const NEIGHBOURS: usize = 32;
/// Edges a node may have while the graph is built: choosing is dear, and so done for many at once.
const EDGES_MAX: usize = NEIGHBOURS + NEIGHBOURS / 2;
/// Where a node has fewer.
const NONE: u32 = u32::MAX;
/// Nodes from which a search may begin.
const ENTRIES: usize = 24;

/// A graph.
pub(crate) struct Graph {
    codes: Codes,
    /// [`NEIGHBOURS`] for each node.
    edges: Vec<u32>,
}

impl Graph {
    /// Nodes.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        Graph::bytes_for(self.codes.coding(), self.len())
    }

    /// Bytes of memory of a graph over so many vectors.
    pub(crate) fn bytes_for(coding: Coding, nodes: usize) -> usize {
        nodes * (coding.bytes() + 8 + NEIGHBOURS * 4)
    }

    /// The same while it is built.
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
