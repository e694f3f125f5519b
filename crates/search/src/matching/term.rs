//! Texts that have a term, scored by BM25 with Lucene's constants: a term counts for more the rarer
//! it is at its path, the more often the text has it and the shorter the text is.

use crate::schema::ColumnKind;
use tantivy::columnar::{Column, DynamicColumn};
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, Term};

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// How many texts a path has and how long they are on the average, tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStats {
    pub(crate) texts: u64,
    pub(crate) average: f32,
}

impl TextStats {
    /// The weight of a term that so many texts have.
    pub(crate) fn rarity(&self, having: u64) -> f32 {
        let (all, having) = (self.texts.max(having) as f64, having as f64);
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln() as f32
    }

    /// What a text of this length makes of a term it has so often.
    pub(crate) fn saturation(&self, often: f32, length: f32) -> f32 {
        let norm = K1 * (1.0 - B + B * length / self.average.max(1.0));
        often / (often + norm)
    }
}

/// Lucene keeps a length in one byte: exact up to 40, then with four significant bits.
pub(crate) fn stored_length(tokens: i64) -> f32 {
    const EXACT: i64 = 24;
    if tokens <= EXACT {
        return tokens as f32;
    }
    let over = tokens - EXACT;
    let bits = 64 - over.leading_zeros();
    let dropped = bits.saturating_sub(4);
    (EXACT + ((over >> dropped) << dropped)) as f32
}

/// The lengths of the texts at a path in one segment.
pub(crate) fn lengths(segment: &SegmentReader, path: &str) -> tantivy::Result<Option<Column<i64>>> {
    let name = ColumnKind::Length.name(path);
    for handle in segment.fast_fields().dynamic_column_handles(&name)? {
        if let DynamicColumn::I64(column) = handle.open()? {
            return Ok(Some(column));
        }
    }
    Ok(None)
}

/// Texts at `path` that have `term`.
#[derive(Clone, Debug)]
pub(crate) struct ScoredTerm {
    pub(crate) term: Term,
    pub(crate) path: String,
    pub(crate) stats: TextStats,
    /// [`TextStats::rarity`], times what else the term is worth.
    pub(crate) weight: f32,
}

impl Query for ScoredTerm {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for ScoredTerm {
    fn scorer(&self, segment: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let index = segment.inverted_index(self.term.field())?;
        let Some(postings) = index.read_postings(&self.term, IndexRecordOption::WithFreqs)? else {
            return Ok(Box::new(EmptyScorer));
        };
        Ok(Box::new(TermScorer {
            postings,
            lengths: lengths(segment, &self.path)?,
            stats: self.stats,
            weight: self.weight * boost,
        }))
    }

    fn explain(&self, segment: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(segment, 1.0)?;
        let found = scorer.doc() <= doc && scorer.seek(doc) == doc;
        let score = if found { scorer.score() } else { 0.0 };
        Ok(Explanation::new_with_string(
            format!("BM25 at {}", self.path),
            score,
        ))
    }
}

struct TermScorer {
    postings: SegmentPostings,
    lengths: Option<Column<i64>>,
    stats: TextStats,
    weight: f32,
}

impl DocSet for TermScorer {
    fn advance(&mut self) -> DocId {
        self.postings.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        self.postings.seek(target)
    }
    fn doc(&self) -> DocId {
        self.postings.doc()
    }
    fn size_hint(&self) -> u32 {
        self.postings.size_hint()
    }
}

impl Scorer for TermScorer {
    fn score(&mut self) -> Score {
        let doc = self.postings.doc();
        let length = self.lengths.as_ref().and_then(|c| c.first(doc));
        let often = self.postings.term_freq() as f32;
        let length = stored_length(length.unwrap_or(1));
        self.weight * self.stats.saturation(often, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_kept_as_lucene_keeps_them() {
        // 41 is 24 + 17, and 17 has five bits: the last is dropped.
        let kept = [1, 24, 39, 40, 41, 42, 100, 1000].map(stored_length);
        assert_eq!(kept, [1.0, 24.0, 39.0, 40.0, 40.0, 42.0, 96.0, 984.0]);
    }
}
