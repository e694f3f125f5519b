//! Search results: encoded `_id`s, the best first. Must not know: documents.

use crate::error::index_error;
use crate::highlight::Highlighter;
use crate::index::{Index, View, is_alive};
use crate::order::{Hit, Order, SortedHit, token_of};
use model::{Doc, DocBuf, Result};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use tantivy::query::{EnableScoring, Explanation, Query, Weight};
use tantivy::schema::{Field, Value as _};
use tantivy::{DocAddress, TERMINATED, TantivyDocument};

/// Documents between two checks whether the search may go on.
const CHECK_EVERY: usize = 1024;

/// Returns an error when a search must stop.
pub type Check<'c> = dyn FnMut() -> Result<()> + 'c;

/// A hit ordered by its score.
struct ScoredHit(Hit);

impl Ord for ScoredHit {
    /// A higher score is greater; among equal scores the earlier document is.
    fn cmp(&self, other: &ScoredHit) -> Ordering {
        let (a, b) = (&self.0, &other.0);
        let by_score = a.score.total_cmp(&b.score);
        by_score.then((b.segment, b.doc).cmp(&(a.segment, a.doc)))
    }
}

impl PartialOrd for ScoredHit {
    fn partial_cmp(&self, other: &ScoredHit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScoredHit {
    fn eq(&self, other: &ScoredHit) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScoredHit {}

/// The results in their order.
enum Sequence {
    /// By descending scores.
    Scores(BinaryHeap<ScoredHit>),
    /// In sort order, reversed: the first is at the end.
    Sorted(Vec<SortedHit>),
}

/// One document found.
pub struct SearchHit {
    /// Its encoded `_id`.
    pub id: Vec<u8>,
    /// The score.
    pub score: f32,
    /// A token of its position, to continue from there.
    pub token: String,
    /// The explanation of the score, if requested.
    pub details: Option<DocBuf>,
}

/// The documents found, in their order.
pub struct Hits {
    view: View,
    id: Field,
    found: Sequence,
    order: Order,
    pub(crate) explains: Option<Box<dyn Weight>>,
    pub(crate) highlighter: Option<Highlighter>,
    pub(crate) meta: DocBuf,
}

impl Hits {
    pub(crate) fn new(index: &Index, view: View) -> Hits {
        Hits {
            view,
            id: index.fields().id,
            found: Sequence::Scores(BinaryHeap::new()),
            order: Order::default(),
            explains: None,
            highlighter: None,
            meta: DocBuf::new(),
        }
    }

    /// Number of remaining documents.
    pub fn len(&self) -> usize {
        match &self.found {
            Sequence::Scores(found) => found.len(),
            Sequence::Sorted(found) => found.len(),
        }
    }

    /// True when no documents remain.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The search metadata, as `$searchMeta` returns it.
    pub fn meta(&self) -> &DocBuf {
        &self.meta
    }

    /// `{v: [...]}`: the highlighted sentences of a document, if requested.
    pub fn highlights(&self, doc: Doc<'_>) -> Option<DocBuf> {
        self.highlighter.as_ref().map(|h| h.show(doc))
    }

    pub(crate) fn push(&mut self, hit: Hit) {
        if let Sequence::Scores(found) = &mut self.found {
            found.push(ScoredHit(hit));
        }
    }

    /// Keeps the `n` results with the best scores.
    pub(crate) fn keep(&mut self, n: usize) {
        if let Sequence::Scores(found) = &mut self.found
            && found.len() > n
        {
            let mut all = std::mem::take(found).into_vec();
            all.select_nth_unstable_by(n, |a, b| b.cmp(a));
            all.truncate(n);
            *found = BinaryHeap::from(all);
        }
    }

    /// Sorts the documents, drops those that `wanted` rejects, and reverses the order when
    /// `backwards`.
    pub(crate) fn sort(
        &mut self,
        order: Order,
        wanted: &dyn Fn(&Order, &SortedHit) -> bool,
        backwards: bool,
    ) -> Result<()> {
        let Sequence::Scores(found) = &mut self.found else {
            return Ok(());
        };
        let mut sorted = Vec::new();
        for ScoredHit(hit) in std::mem::take(found) {
            let Some(segment) = self
                .view
                .searcher
                .segment_readers()
                .get(hit.segment as usize)
            else {
                continue;
            };
            let ranked = order.rank(segment, hit)?;
            if wanted(&order, &ranked) {
                sorted.push(ranked);
            }
        }
        sorted.sort_unstable_by(|a, b| {
            let by_order = order.compare(b, a);
            if backwards {
                by_order.reverse()
            } else {
                by_order
            }
        });
        self.found = Sequence::Sorted(sorted);
        self.order = order;
        Ok(())
    }

    /// The next document.
    ///
    /// # Errors
    /// 1 InternalError when the index cannot be read.
    pub fn pop(&mut self) -> Result<Option<SearchHit>> {
        let next = match &mut self.found {
            Sequence::Sorted(found) => found.pop(),
            Sequence::Scores(found) => match found.pop() {
                Some(ScoredHit(hit)) => {
                    let segment = self.view.searcher.segment_reader(hit.segment);
                    Some(self.order.rank(segment, hit)?)
                }
                None => None,
            },
        };
        let Some(ranked) = next else {
            return Ok(None);
        };
        let hit = ranked.hit;
        let stored: TantivyDocument = self
            .view
            .searcher
            .doc(DocAddress::new(hit.segment, hit.doc))
            .map_err(|e| index_error("read a document", &e))?;
        let id = stored.get_first(self.id).and_then(|v| v.as_bytes());
        let id = id.ok_or_else(|| index_error("read a document", &"it has no _id"))?;
        Ok(Some(SearchHit {
            token: token_of(&ranked, id),
            id: id.to_vec(),
            score: hit.score,
            details: self.explain(hit)?,
        }))
    }

    fn explain(&self, hit: Hit) -> Result<Option<DocBuf>> {
        let Some(weight) = &self.explains else {
            return Ok(None);
        };
        let segment = self.view.searcher.segment_reader(hit.segment);
        let explained = weight.explain(segment, hit.doc);
        let explained: Explanation = explained.map_err(|e| index_error("explain a score", &e))?;
        let json =
            serde_json::to_value(&explained).map_err(|e| index_error("explain a score", &e))?;
        Ok(Some(details(&json)))
    }
}

/// `{value, description, details}`.
fn details(explained: &serde_json::Value) -> DocBuf {
    let field = |name: &str| explained.get(name);
    DocBuf::build(|w| {
        let value = field("value").and_then(serde_json::Value::as_f64);
        w.put("value", value.unwrap_or(0.0));
        let description = field("description").and_then(serde_json::Value::as_str);
        w.put("description", description.unwrap_or_default());
        let mut list = w.array("details");
        let inner = field("details").and_then(serde_json::Value::as_array);
        for one in inner.into_iter().flatten() {
            list.push(&details(one));
        }
    })
}

/// The weight that finds and scores the documents of a query.
pub(crate) fn weight_of(view: &View, query: &dyn Query) -> Result<Box<dyn Weight>> {
    let scoring = EnableScoring::enabled_from_searcher(&view.searcher);
    query.weight(scoring).map_err(|e| index_error("search", &e))
}

/// Calls `f` with the documents of a query and their scores, segment by segment, until it returns
/// false.
pub(crate) fn each_match(
    view: &View,
    weight: &dyn Weight,
    check: &mut Check<'_>,
    f: &mut dyn FnMut(Hit) -> bool,
) -> Result<()> {
    let mut looked = 0usize;
    for (n, segment) in (0u32..).zip(view.searcher.segment_readers()) {
        check()?;
        let scorer = weight.scorer(segment, 1.0);
        let mut scorer = scorer.map_err(|e| index_error("search", &e))?;
        let mut doc = scorer.doc();
        while doc != TERMINATED {
            if is_alive(segment, doc) {
                let hit = Hit {
                    score: scorer.score(),
                    segment: n,
                    doc,
                };
                if !f(hit) {
                    return Ok(());
                }
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
