//! Texts that contain a term, scored by BM25 with Lucene's constants: a term counts for more the
//! rarer it is at its path, the more often it is in the text and the shorter the text is.

use crate::schema::ColumnKind;
use tantivy::columnar::{Column, DynamicColumn};
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{EmptyScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, Term};

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Number of texts at a path and their average length in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStats {
    pub(crate) texts: u64,
    pub(crate) average: f32,
    /// Whether short texts count for more.
    pub(crate) norms: bool,
    /// Whether the frequency of a term in a text counts.
    pub(crate) frequencies: bool,
    /// Whether rare terms count for more; else the weight of each term is 1.
    pub(crate) weighed: bool,
}

impl TextStats {
    /// The weight of a term that `having` texts contain.
    pub(crate) fn rarity(&self, having: u64) -> f32 {
        if !self.weighed {
            return 1.0;
        }
        let (all, having) = (self.texts.max(having) as f64, having as f64);
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln() as f32
    }

    /// The factor for a term's frequency in a text of this length.
    pub(crate) fn saturation(&self, often: f32, length: f32) -> f32 {
        if !self.weighed {
            return 1.0;
        }
        let length = if self.norms { length } else { 1.0 };
        let often = if self.frequencies { often } else { 1.0 };
        let norm = K1 * (1.0 - B + B * length / self.average.max(1.0));
        often / (often + norm)
    }
}

/// Lucene stores a length in one byte: exact up to 40, then with four significant bits.
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

/// Texts at `path` that contain `term`.
#[derive(Clone, Debug)]
pub(crate) struct ScoredTerm {
    pub(crate) term: Term,
    pub(crate) path: String,
    pub(crate) stats: TextStats,
    /// Number of documents with the term.
    pub(crate) having: u64,
    /// [`TextStats::rarity`], times other factors of the term.
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
        let index = segment.inverted_index(self.term.field())?;
        let postings = index.read_postings(&self.term, IndexRecordOption::WithFreqs)?;
        let often = match postings {
            Some(mut postings) => {
                let is_there = postings.doc() <= doc && postings.seek(doc) == doc;
                if is_there {
                    postings.term_freq() as f32
                } else {
                    0.0
                }
            }
            None => 0.0,
        };
        let length = lengths(segment, &self.path)?.and_then(|c| c.first(doc));
        let length = stored_length(length.unwrap_or(1));
        let saturation = match often > 0.0 {
            true => self.stats.saturation(often, length),
            false => 0.0,
        };
        let mut tf = Explanation::new(
            "tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl)) from:",
            saturation,
        );
        tf.add_const("freq, occurrences of term within document", often);
        tf.add_const("k1, term saturation parameter", K1);
        tf.add_const("b, length normalization parameter", B);
        tf.add_const("dl, length of field", length);
        tf.add_const("avgdl, average length of field", self.stats.average);
        let mut idf = Explanation::new(
            "idf, computed as log(1 + (N - n + 0.5) / (n + 0.5)), and what else the term is worth, \
             from:",
            self.weight,
        );
        idf.add_const("n, number of documents containing term", self.having as f32);
        idf.add_const(
            "N, total number of documents with field",
            self.stats.texts as f32,
        );
        let of = format!("{} [BM25Similarity], result of idf * tf:", self.path);
        let mut all = Explanation::new_with_string(of, self.weight * saturation);
        all.add_detail(idf);
        all.add_detail(tf);
        Ok(all)
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
        // 41 is 24 + 17, and 17 has five bits: the last one is dropped.
        let kept = [1, 24, 39, 40, 41, 42, 100, 1000].map(stored_length);
        assert_eq!(kept, [1.0, 24.0, 39.0, 40.0, 40.0, 42.0, 96.0, 984.0]);
    }
}
