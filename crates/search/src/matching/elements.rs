//! Documents by elements of their arrays, which come before them in the index.

use super::docs::ScoredDocs;
use tantivy::query::{EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, Term};

/// How the scores of a document's elements are combined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aggregate {
    Sum,
    Maximum,
    Minimum,
    Mean,
}

/// Documents with an element that a query matches.
#[derive(Debug)]
pub(crate) struct Elements {
    inner: Box<dyn Query>,
    /// The term of the documents, or of the enclosing elements.
    outer: Term,
    aggregate: Aggregate,
}

impl Elements {
    pub(crate) fn new_boxed(
        inner: Box<dyn Query>,
        outer: Term,
        aggregate: Aggregate,
    ) -> Box<dyn Query> {
        Box::new(Elements {
            inner,
            outer,
            aggregate,
        })
    }
}

impl Clone for Elements {
    fn clone(&self) -> Elements {
        Elements {
            inner: self.inner.box_clone(),
            outer: self.outer.clone(),
            aggregate: self.aggregate,
        }
    }
}

impl Query for Elements {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(ElementsWeight {
            inner: self.inner.weight(scoring)?,
            outer: self.outer.clone(),
            aggregate: self.aggregate,
        }))
    }
}

struct ElementsWeight {
    inner: Box<dyn Weight>,
    outer: Term,
    aggregate: Aggregate,
}

/// The scores of elements so far.
struct ScoreSum {
    doc: DocId,
    total: f32,
    least: f32,
    most: f32,
    elements: f32,
}

impl ScoreSum {
    fn add(&mut self, score: f32) {
        self.total += score;
        self.least = self.least.min(score);
        self.most = self.most.max(score);
        self.elements += 1.0;
    }

    fn result(&self, aggregate: Aggregate) -> f32 {
        match aggregate {
            Aggregate::Sum => self.total,
            Aggregate::Maximum => self.most,
            Aggregate::Minimum => self.least,
            Aggregate::Mean => self.total / self.elements,
        }
    }
}

impl Weight for ElementsWeight {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let index = segment.inverted_index(self.outer.field())?;
        let outer = index.read_postings(&self.outer, IndexRecordOption::Basic)?;
        let Some(mut outer) = outer else {
            return Ok(Box::new(EmptyScorer));
        };
        let mut inner = self.inner.scorer(segment, 1.0)?;
        let mut sums: Vec<ScoreSum> = Vec::new();
        let mut element = inner.doc();
        while element != TERMINATED {
            if outer.doc() < element {
                outer.seek(element);
            }
            let (doc, score) = (outer.doc(), inner.score());
            match sums.last_mut().filter(|s| s.doc == doc) {
                Some(sum) => sum.add(score),
                None if doc != TERMINATED => sums.push(ScoreSum {
                    doc,
                    total: score,
                    least: score,
                    most: score,
                    elements: 1.0,
                }),
                None => break,
            }
            element = inner.advance();
        }
        let docs = sums.iter().map(|s| (s.doc, s.result(self.aggregate)));
        Ok(Box::new(ScoredDocs {
            docs: docs.collect(),
            at: 0,
            boost,
        }))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(segment, 1.0)?;
        let found = scorer.doc() <= doc && scorer.seek(doc) == doc;
        let score = if found { scorer.score() } else { 0.0 };
        let of = match self.aggregate {
            Aggregate::Sum => "sum of the scores of elements",
            Aggregate::Maximum => "maximum of the scores of elements",
            Aggregate::Minimum => "minimum of the scores of elements",
            Aggregate::Mean => "mean of the scores of elements",
        };
        Ok(Explanation::new(of, score))
    }
}
