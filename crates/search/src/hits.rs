//! What a search has found: encoded `_id`s, the best first. Must not know: documents.

use crate::error::failed;
use crate::index::{Index, View};
use model::Result;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use tantivy::query::{EnableScoring, Query};
use tantivy::schema::{Field, Value as _};
use tantivy::{DocAddress, DocId, SegmentReader, TERMINATED, TantivyDocument};

/// Documents between two looks at whether the search shall go on.
const CHECK_EVERY: usize = 1024;

/// Says whether a search may go on, by an error when not.
pub type Check<'c> = dyn FnMut() -> Result<()> + 'c;

/// A document and its score.
#[derive(Clone, Copy, Debug)]
struct Hit {
    score: f32,
    segment: u32,
    doc: DocId,
}

impl Ord for Hit {
    /// A higher score is greater; of equal ones the document that came first.
    fn cmp(&self, other: &Hit) -> Ordering {
        let by_score = self.score.total_cmp(&other.score);
        by_score.then((other.segment, other.doc).cmp(&(self.segment, self.doc)))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Hit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Hit) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

/// The documents found, by falling scores.
pub struct Hits {
    view: View,
    id: Field,
    found: BinaryHeap<Hit>,
}

impl Hits {
    pub(crate) fn new(index: &Index, view: View) -> Hits {
        Hits {
            view,
            id: index.fields().id,
            found: BinaryHeap::new(),
        }
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// True when none are left.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn push(&mut self, score: f32, segment: u32, doc: DocId) {
        self.found.push(Hit {
            score,
            segment,
            doc,
        });
    }

    /// Keeps the best `n`.
    pub(crate) fn keep(&mut self, n: usize) {
        if self.found.len() > n {
            let mut all = std::mem::take(&mut self.found).into_vec();
            all.select_nth_unstable_by(n, |a, b| b.cmp(a));
            all.truncate(n);
            self.found = BinaryHeap::from(all);
        }
    }

    /// The next best: its encoded `_id` and its score.
    ///
    /// # Errors
    /// 1 InternalError when the index cannot be read.
    pub fn pop(&mut self) -> Result<Option<(Vec<u8>, f32)>> {
        let Some(hit) = self.found.pop() else {
            return Ok(None);
        };
        let at = DocAddress::new(hit.segment, hit.doc);
        let stored: TantivyDocument = self
            .view
            .searcher
            .doc(at)
            .map_err(|e| failed("read a document", &e))?;
        let id = stored.get_first(self.id).and_then(|v| v.as_bytes());
        let id = id.ok_or_else(|| failed("read a document", &"it has no _id"))?;
        Ok(Some((id.to_vec(), hit.score)))
    }
}

/// Shows the documents of a query with their scores, segment after segment, until `f` says no.
pub(crate) fn each_match(
    view: &View,
    query: &dyn Query,
    check: &mut Check<'_>,
    f: &mut dyn FnMut(u32, DocId, f32) -> bool,
) -> Result<()> {
    let broken = |e: tantivy::TantivyError| failed("search", &e);
    let scoring = EnableScoring::enabled_from_searcher(&view.searcher);
    let weight = query.weight(scoring).map_err(broken)?;
    let mut looked = 0usize;
    for (n, segment) in (0u32..).zip(view.searcher.segment_readers()) {
        check()?;
        let mut scorer = weight.scorer(segment, 1.0).map_err(broken)?;
        let mut doc = scorer.doc();
        while doc != TERMINATED {
            if is_alive(segment, doc) && !f(n, doc, scorer.score()) {
                return Ok(());
            }
            looked += 1;
            if looked.is_multiple_of(CHECK_EVERY) {
                check()?;
            }
            doc = scorer.advance();
        }
    }
    Ok(())
}

pub(crate) fn is_alive(segment: &SegmentReader, doc: DocId) -> bool {
    segment
        .alive_bitset()
        .is_none_or(|alive| alive.is_alive(doc))
}
