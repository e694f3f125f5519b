//! The matching documents of a segment and their scores as a list, and queries that produce such a
//! list.

use std::fmt::Debug;
use std::sync::Arc;
use tantivy::query::{EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED};

/// Finds documents of a segment.
pub(crate) trait Matcher: Debug + Send + Sync + 'static {
    /// The documents in order, with their scores; includes deleted documents.
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>>;
}

/// A query that uses a [`Matcher`].
#[derive(Clone, Debug)]
pub(crate) struct MatcherQuery(Arc<dyn Matcher>);

impl MatcherQuery {
    pub(crate) fn new_boxed(matcher: impl Matcher) -> Box<dyn Query> {
        Box::new(MatcherQuery(Arc::new(matcher)))
    }
}

impl Query for MatcherQuery {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for MatcherQuery {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let docs = self.0.find(segment)?;
        Ok(Box::new(ScoredDocs { docs, at: 0, boost }))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(segment, 1.0)?;
        let score = if scorer.doc() <= doc && scorer.seek(doc) == doc {
            scorer.score()
        } else {
            0.0
        };
        Ok(Explanation::new("documents that match", score))
    }
}

/// A list of documents in tantivy's interface.
pub(crate) struct ScoredDocs {
    pub(crate) docs: Vec<(DocId, Score)>,
    pub(crate) at: usize,
    pub(crate) boost: Score,
}

impl DocSet for ScoredDocs {
    fn advance(&mut self) -> DocId {
        self.at += 1;
        self.doc()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        let rest = self.docs.get(self.at..).unwrap_or_default();
        self.at += rest.partition_point(|(doc, _)| *doc < target);
        self.doc()
    }

    fn doc(&self) -> DocId {
        self.docs.get(self.at).map_or(TERMINATED, |(doc, _)| *doc)
    }

    fn size_hint(&self) -> u32 {
        u32::try_from(self.docs.len()).unwrap_or(u32::MAX)
    }
}

impl Scorer for ScoredDocs {
    fn score(&mut self) -> Score {
        self.docs.get(self.at).map_or(0.0, |(_, s)| s * self.boost)
    }
}
