//! `$vectorSearch`: the documents with the vectors most similar to a given one. An exact search
//! compares every vector; an approximate one uses graphs where they exist, and compares its
//! candidates in full. Must not know: stages, collections.

use crate::args::Args;
use crate::error::{index_error, invalid};
use crate::facet;
use crate::graph::Neighbour;
use crate::graphs::{SegmentGraph, column_of};
use crate::hits::{Check, Hits, each_match, weight_of};
use crate::index::{Index, View, is_alive};
use crate::operator::{self, build_filter};
use crate::order::Hit;
use crate::vector::{Similarity, Target, VectorField, encode_any};
use model::{Doc, DocBuf, MongoError, Number, Result, Value};
use std::sync::Arc;
use tantivy::{BitSet, DocId, SegmentReader};

/// Most candidates of an approximate search.
const CANDIDATES_MAX: i64 = 10_000;
/// Most results of an exact search.
const LIMIT_MAX: i64 = 2_147_483_630;
/// Vectors between two checks whether the search may go on.
const CHECK_EVERY: usize = 4096;
/// When at most this fraction (one in four) of the vectors pass the filter, each of them is
/// compared by its code.
const SCANNED_PART: usize = 4;

const FIELDS: [&str; 7] = [
    "index",
    "path",
    "queryVector",
    "numCandidates",
    "limit",
    "exact",
    "filter",
];

/// A specification of `$vectorSearch`.
#[derive(Clone, Debug)]
pub struct VectorSearch {
    index: String,
    path: String,
    /// In stored form.
    vector: Vec<u8>,
    dimensions: usize,
    limit: usize,
    /// Number of vectors that an approximate search compares in full; `None` for an exact search.
    candidates: Option<usize>,
    filter: Option<DocBuf>,
}

/// `limit`; checked before all other fields.
fn parse_limit(spec: Doc<'_>) -> Result<Option<i64>> {
    let Some(v) = spec.get("limit") else {
        return Ok(None);
    };
    let Some(n) = Number::of(&v) else {
        return Err(MongoError::new(
            8_575_100,
            format!("Expected limit to be a number, but got {}", v.type_name()),
        ));
    };
    let cut = n.to_f64();
    if cut.is_nan() || cut < 1.0 {
        return Err(MongoError::new(
            7_912_700,
            format!("Expected limit to be positive, but got {v}"),
        ));
    }
    let whole = match v {
        Value::Decimal128(_) => None,
        v => v.as_i64_exact(),
    };
    match whole {
        Some(n) if n <= i64::from(i32::MAX) => Ok(Some(n)),
        _ => Err(invalid(format!(
            "\"limit\" must be a whole number of 32 bits, not {v}"
        ))),
    }
}

impl VectorSearch {
    /// Reads a specification.
    ///
    /// # Errors
    /// 8575100 and 7912700 for a limit that is no number or not positive, 10065 for a filter that
    /// is no object, 8 UnknownError for everything else.
    pub fn parse(spec: Doc<'_>) -> Result<VectorSearch> {
        let limit = parse_limit(spec)?;
        let filter = match spec.get("filter") {
            None => None,
            Some(Value::Document(d)) => Some(d.to_buf()),
            Some(v) => {
                return Err(MongoError::new(
                    10_065,
                    format!(
                        "invalid parameter: expected an object (filter), not {}",
                        v.type_name()
                    ),
                ));
            }
        };
        let args = Args::new("$vectorSearch", Value::Document(spec), &FIELDS)?;
        let string = |field: &str| -> Result<String> {
            let found = args.as_string(field, args.required(field)?)?;
            if found.is_empty() {
                return Err(invalid(format!("\"{}\" cannot be empty", args.name(field))));
            }
            Ok(found.to_owned())
        };
        let (index, path) = (string("index")?, string("path")?);
        let vector = args.required("queryVector")?;
        let Some((vector, dimensions)) = encode_any(&vector) else {
            let wanted = "an array of finite numbers or a binary vector (subtype 9)";
            return Err(args.wrong_type("queryVector", wanted, vector));
        };
        let Some(limit) = limit else {
            return Err(invalid("\"$vectorSearch.limit\" is required"));
        };
        let exact = args.boolean("exact")?.unwrap_or(false);
        let candidates = args.integer("numCandidates", 1, CANDIDATES_MAX)?;
        match (exact, candidates) {
            (true, Some(_)) => {
                return Err(invalid(
                    "\"$vectorSearch.numCandidates\" must be left out when exact is true",
                ));
            }
            (false, None) => {
                return Err(invalid(
                    "\"$vectorSearch.numCandidates\" is required unless exact is true",
                ));
            }
            (false, Some(n)) if n < limit => {
                return Err(invalid(format!(
                    "\"$vectorSearch.numCandidates\" is {n}, it must be at least the limit, {limit}"
                )));
            }
            _ if limit > LIMIT_MAX => {
                return Err(invalid(format!(
                    "\"$vectorSearch.limit\" is {limit}, it must be at most {LIMIT_MAX}"
                )));
            }
            _ => {}
        }
        Ok(VectorSearch {
            index,
            path,
            vector,
            dimensions,
            limit: usize::try_from(limit).unwrap_or(1),
            candidates: candidates.and_then(|n| usize::try_from(n).ok()),
            filter,
        })
    }

    /// Name of the index.
    pub fn index(&self) -> &str {
        &self.index
    }

    /// Most documents.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Runs the search and returns its results.
    ///
    /// # Errors
    /// 8 UnknownError for a path without vectors, another number of dimensions, a filter over
    /// fields that are not indexed; the errors of `check`.
    pub fn run(&self, index: &Index, check: &mut Check<'_>) -> Result<Hits> {
        let fields = &index.definition().vectors;
        let Some((n, field)) = fields.iter().enumerate().find(|(_, f)| f.path == self.path) else {
            return Err(invalid(format!(
                "Path '{}' needs to be indexed as vector",
                self.path
            )));
        };
        let target = self.target(field)?;
        let view = index.view();
        let allowed = self.filter_documents(index, &view, check)?;
        let mut hits = Hits::new(index, view.clone());
        let mut candidates: Vec<Candidate> = Vec::new();
        let segments = view.searcher.segment_readers();
        let graphs: Vec<Option<Arc<SegmentGraph>>> = match self.candidates {
            Some(_) => segments.iter().map(|s| index.graphs().find(s, n)).collect(),
            None => Vec::new(),
        };
        for (segment_n, segment) in (0u32..).zip(segments) {
            let allowed = allowed.as_ref().and_then(|a| a.get(segment_n as usize));
            let passes =
                |doc: DocId| allowed.is_none_or(|a| a.contains(doc)) && is_alive(segment, doc);
            let graph = graphs.get(segment_n as usize).and_then(Option::as_ref);
            match self.candidates.zip(graph) {
                None => scores(segment, n, &target, check, &mut |doc, score| {
                    if passes(doc) {
                        self.take(&mut hits, segment_n, doc, score);
                    }
                })?,
                Some((most, graph)) => {
                    let search = ApproximateSearch {
                        graph,
                        target: &target,
                        most,
                        passing: allowed.map(BitSet::len),
                    };
                    let found = search.nodes(&passes, check)?.into_iter();
                    candidates.extend(found.map(|near| Candidate {
                        near,
                        segment: segment_n,
                    }));
                }
            }
        }
        // The best candidates of all segments together, so that no more are compared than
        // requested.
        candidates.sort_unstable_by_key(|a| a.near);
        candidates.truncate(self.candidates.unwrap_or(0));
        for ((segment_n, segment), graph) in (0u32..).zip(segments).zip(&graphs) {
            let own = candidates.iter().filter(|c| c.segment == segment_n);
            let nodes: Vec<u32> = own.map(|c| c.near.node).collect();
            let Some(graph) = graph.as_ref().filter(|_| !nodes.is_empty()) else {
                continue;
            };
            let allowed = allowed.as_ref().and_then(|a| a.get(segment_n as usize));
            compare(segment, n, graph, &target, nodes, &mut |doc, score| {
                if allowed.is_none_or(|a| a.contains(doc)) && is_alive(segment, doc) {
                    self.take(&mut hits, segment_n, doc, score);
                }
            })?;
        }
        hits.keep(self.limit);
        Ok(hits)
    }

    /// Adds a document; keeps only the best when there are many.
    fn take(&self, hits: &mut Hits, segment: u32, doc: DocId, score: f32) {
        hits.push(Hit {
            score,
            segment,
            doc,
        });
        if hits.len() >= self.limit.saturating_mul(2).max(1024) {
            hits.keep(self.limit);
        }
    }

    fn target(&self, field: &VectorField) -> Result<Target> {
        if field.dimensions != self.dimensions {
            return Err(invalid(format!(
                "vector field is indexed with {} dimensions but queried with {}",
                field.dimensions, self.dimensions
            )));
        }
        let target = Target::new(&self.vector, field.similarity);
        if field.similarity == Similarity::Cosine && target.is_zero() {
            return Err(invalid(
                "\"$vectorSearch.queryVector\" cannot be zero: cosine compares directions",
            ));
        }
        if target.is_bits() && field.similarity != Similarity::Euclidean {
            return Err(invalid(
                "\"$vectorSearch.queryVector\": vectors of bits are compared by euclidean only",
            ));
        }
        Ok(target)
    }

    /// The documents that pass the filter; `None` without a filter.
    fn filter_documents(
        &self,
        index: &Index,
        view: &View,
        check: &mut Check<'_>,
    ) -> Result<Option<Vec<BitSet>>> {
        let Some(filter) = &self.filter else {
            return Ok(None);
        };
        let query = {
            let build = operator::begin(index, view);
            build_filter(&build, filter.doc(), 0)?
        };
        let mut found = facet::empty_sets(view);
        let weight = weight_of(view, query.as_ref())?;
        each_match(view, weight.as_ref(), check, &mut |hit| {
            if let Some(docs) = found.get_mut(hit.segment as usize) {
                docs.insert(hit.doc);
            }
            true
        })?;
        Ok(Some(found))
    }
}

/// A vector to compare in full.
struct Candidate {
    near: Neighbour,
    segment: u32,
}

/// An approximate search in one segment.
struct ApproximateSearch<'s> {
    graph: &'s SegmentGraph,
    target: &'s Target,
    most: usize,
    /// Number of documents that pass the filter, if there is one.
    passing: Option<usize>,
}

impl ApproximateSearch<'_> {
    /// Approximately the nearest vectors of documents that pass the filter.
    fn nodes(
        &self,
        passes: &dyn Fn(DocId) -> bool,
        check: &mut Check<'_>,
    ) -> Result<Vec<Neighbour>> {
        let SegmentGraph { graph, coding, .. } = self.graph;
        let code = self.target.code(*coding);
        let passes = |node: u32| self.graph.docs(node).iter().any(|doc| passes(*doc));
        let few = self
            .passing
            .is_some_and(|n| n <= graph.len() / SCANNED_PART);
        if few {
            let nodes = 0..u32::try_from(graph.len()).unwrap_or(u32::MAX);
            return graph.nearest_of(&code, self.most, &mut nodes.filter(|n| passes(*n)), check);
        }
        graph.nearest(&code, self.most, &passes, check)
    }
}

/// Compares vectors in full and adds their documents.
fn compare(
    segment: &SegmentReader,
    field: usize,
    graph: &SegmentGraph,
    target: &Target,
    mut nodes: Vec<u32>,
    f: &mut dyn FnMut(DocId, f32),
) -> Result<()> {
    let Some(column) = column_of(segment, field)? else {
        return Ok(());
    };
    nodes.sort_unstable();
    let ords: Vec<u64> = nodes.iter().map(|n| u64::from(*n)).collect();
    let mut each = nodes.iter();
    let mut show = |vector: &[u8]| {
        if let Some((node, score)) = each.next().zip(target.score(vector)) {
            graph.docs(*node).iter().for_each(|doc| f(*doc, score));
        }
    };
    let read = column.dictionary().sorted_ords_to_term_cb(&ords, &mut show);
    read.map(|_| ()).map_err(|e| index_error("vectors", &e))
}

/// Scores the documents of a segment by their vectors. Equal vectors are stored once, in the order
/// of their bytes, and compared once.
fn scores(
    segment: &SegmentReader,
    field: usize,
    target: &Target,
    check: &mut Check<'_>,
    f: &mut dyn FnMut(DocId, f32),
) -> Result<()> {
    let broken = |e: &dyn std::fmt::Display| index_error("vectors", e);
    let Some(column) = column_of(segment, field)? else {
        return Ok(());
    };
    let mut by_vector: Vec<Option<f32>> = Vec::with_capacity(column.num_terms());
    let mut vectors = column.dictionary().stream().map_err(|e| broken(&e))?;
    while vectors.advance() {
        by_vector.push(target.score(vectors.key()));
        if by_vector.len().is_multiple_of(CHECK_EVERY) {
            check()?;
        }
    }
    for doc in 0..segment.max_doc() {
        for n in column.term_ords(doc) {
            let at = usize::try_from(n).ok().and_then(|n| by_vector.get(n));
            if let Some(Some(score)) = at {
                f(doc, *score);
            }
        }
    }
    Ok(())
}
