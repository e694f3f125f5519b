//! The graphs of an index: one for each vector field of each segment with many vectors, built step
//! by step, kept in memory and in a file next to the segment. Promises: segments are immutable, so
//! graphs are, too; without a graph, vectors are compared one by one. Must not know: queries.

use crate::error::index_error;
use crate::graph::{Builder, CodeKind, Coding, Graph};
use crate::schema::vector_name;
use crate::vector::{Quantization, Target, VectorField};
use model::Result;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tantivy::columnar::BytesColumn;
use tantivy::index::SegmentId;
use tantivy::{DocId, Searcher, SegmentReader};

/// Number of distinct vectors in a segment from which a graph is built.
pub(crate) const NODES_MIN: usize = 1000;

/// The graph of a segment; each node is a vector, in the order of the segment's column.
pub(crate) struct SegmentGraph {
    pub(crate) graph: Graph,
    pub(crate) coding: Coding,
    /// Documents sorted by node, and where those of each node begin.
    docs: Vec<DocId>,
    starts: Vec<u32>,
}

type Key = (SegmentId, usize);

/// All graphs.
pub(crate) struct Graphs {
    folder: Option<PathBuf>,
    /// `None` for a segment that gets no graph.
    ready: Mutex<FxHashMap<Key, Option<Arc<SegmentGraph>>>>,
    building: Mutex<Option<GraphBuild>>,
}

struct GraphBuild {
    key: Key,
    coding: Coding,
    builder: Builder,
}

impl SegmentGraph {
    fn new(graph: Graph, coding: Coding, column: &BytesColumn, docs: DocId) -> SegmentGraph {
        let mut pairs: Vec<(u32, DocId)> = Vec::new();
        for doc in 0..docs {
            let nodes = column.term_ords(doc).filter_map(|n| u32::try_from(n).ok());
            pairs.extend(nodes.map(|n| (n, doc)));
        }
        pairs.sort_unstable();
        let nodes = 0..=u32::try_from(graph.len()).unwrap_or(u32::MAX);
        let start = |node: u32| pairs.partition_point(|(n, _)| *n < node) as u32;
        SegmentGraph {
            starts: nodes.map(start).collect(),
            docs: pairs.iter().map(|(_, doc)| *doc).collect(),
            graph,
            coding,
        }
    }

    /// The documents with a vector.
    pub(crate) fn docs(&self, node: u32) -> &[DocId] {
        let at = |n: usize| self.starts.get(n).map_or(0, |s| *s as usize);
        let (start, end) = (at(node as usize), at(node as usize + 1));
        self.docs.get(start..end).unwrap_or_default()
    }
}

impl Graphs {
    pub(crate) fn new(folder: Option<PathBuf>) -> Graphs {
        Graphs {
            folder,
            ready: Mutex::default(),
            building: Mutex::new(None),
        }
    }

    /// The graph of a segment, if it is ready.
    pub(crate) fn find(&self, segment: &SegmentReader, field: usize) -> Option<Arc<SegmentGraph>> {
        let ready = self.ready.lock();
        ready.get(&(segment.segment_id(), field)).cloned().flatten()
    }

    /// Bytes of memory of all finished graphs.
    pub(crate) fn bytes(&self) -> usize {
        let ready = self.ready.lock();
        ready.values().flatten().map(|g| g.graph.bytes()).sum()
    }

    /// Does one step of building; false when there is nothing to do, or not enough memory.
    ///
    /// # Errors
    /// 1 InternalError when a segment cannot be read.
    pub(crate) fn work(
        &self,
        searcher: &Searcher,
        fields: &[VectorField],
        nodes: usize,
        room: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool> {
        self.forget_others(searcher);
        let Some(mut building) = self.building.lock().take() else {
            return self.begin(searcher, fields, room);
        };
        let (id, field) = building.key;
        let segments = searcher.segment_readers().iter();
        let Some(segment) = segments.into_iter().find(|s| s.segment_id() == id) else {
            return Ok(true);
        };
        if building.builder.step(nodes) {
            *self.building.lock() = Some(building);
            return Ok(true);
        }
        let graph = building.builder.finish();
        if let Some(path) = self.path(building.key) {
            graph
                .save(&path)
                .map_err(|e| index_error("write a graph", &e))?;
        }
        if let Some(column) = column_of(segment, field)? {
            let graph = SegmentGraph::new(graph, building.coding, &column, segment.max_doc());
            let ready = Some(Arc::new(graph));
            self.ready.lock().insert(building.key, ready);
        }
        Ok(true)
    }

    /// Drops the graphs of merged segments.
    fn forget_others(&self, searcher: &Searcher) {
        let segments = searcher.segment_readers();
        let mut ready = self.ready.lock();
        let gone = |key: &Key| !segments.iter().any(|s| s.segment_id() == key.0);
        let old: Vec<Key> = ready.keys().copied().filter(gone).collect();
        for key in old {
            ready.remove(&key);
            // A file that cannot be removed now is removed with the folder.
            let _ = self.path(key).map(std::fs::remove_file);
        }
    }

    fn begin(
        &self,
        searcher: &Searcher,
        fields: &[VectorField],
        room: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool> {
        for segment in searcher.segment_readers() {
            for (n, field) in fields.iter().enumerate() {
                let key = (segment.segment_id(), n);
                if self.ready.lock().contains_key(&key) {
                    continue;
                }
                let Some(column) = column_of(segment, n)? else {
                    self.ready.lock().insert(key, None);
                    continue;
                };
                let coding = coding_of(&column, field)?;
                let Some(coding) = coding.filter(|_| column.num_terms() >= NODES_MIN) else {
                    self.ready.lock().insert(key, None);
                    continue;
                };
                if !room(self.bytes() + Graph::bytes_to_build(coding, column.num_terms())) {
                    return Ok(false);
                }
                let path = self.path(key);
                let known = path.and_then(|p| Graph::load(&p, coding, column.num_terms()));
                if let Some(graph) = known {
                    let graph = SegmentGraph::new(graph, coding, &column, segment.max_doc());
                    self.ready.lock().insert(key, Some(Arc::new(graph)));
                    return Ok(true);
                }
                let builder = fill(&column, coding, field)?;
                *self.building.lock() = Some(GraphBuild {
                    key,
                    coding,
                    builder,
                });
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn path(&self, (segment, field): Key) -> Option<PathBuf> {
        let name = format!("{}.{field}.graph", segment.uuid_string());
        self.folder.as_ref().map(|folder| folder.join(name))
    }
}

pub(crate) fn column_of(segment: &SegmentReader, field: usize) -> Result<Option<BytesColumn>> {
    let column = segment.fast_fields().bytes(&vector_name(field));
    column.map_err(|e| index_error("vectors", &e))
}

/// How the vectors of a column are coded; `None` when they have several types.
fn coding_of(column: &BytesColumn, field: &VectorField) -> Result<Option<Coding>> {
    let mut kinds = [false; 256];
    let broken = |e: &dyn std::fmt::Display| index_error("vectors", e);
    let mut vectors = column.dictionary().stream().map_err(|e| broken(&e))?;
    let mut sample = Vec::new();
    while vectors.advance() {
        let kind = vectors.key().first().copied().unwrap_or(0);
        if let Some(seen) = kinds.get_mut(usize::from(kind)) {
            *seen = true;
        }
        if sample.is_empty() {
            sample = vectors.key().to_vec();
        }
    }
    if kinds.iter().filter(|seen| **seen).count() != 1 {
        return Ok(None);
    }
    let is_bits = Target::new(&sample, field.similarity).is_bits();
    Ok(Some(Coding {
        dimensions: field.dimensions,
        kind: match field.quantization {
            _ if is_bits => CodeKind::Bit,
            Quantization::Binary => CodeKind::Sign,
            Quantization::None | Quantization::Scalar => CodeKind::Byte,
        },
        directions: field.similarity.compares_directions(),
    }))
}

fn fill(column: &BytesColumn, coding: Coding, field: &VectorField) -> Result<Builder> {
    let mut builder = Builder::new(coding);
    let broken = |e: &dyn std::fmt::Display| index_error("vectors", e);
    let mut vectors = column.dictionary().stream().map_err(|e| broken(&e))?;
    while vectors.advance() {
        builder.push(&Target::new(vectors.key(), field.similarity).code(coding));
    }
    Ok(builder)
}
