//! Texts that contain several terms in order, within a number of tokens.

use super::docs::Matcher;
use super::term::{TextStats, lengths, stored_length};
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, Term};

/// Most combinations of positions that are tried in one text.
const COMBINATIONS_MAX: usize = 10_000;

/// Texts at `path` that have the terms at their distances.
#[derive(Clone, Debug)]
pub(crate) struct Phrase {
    /// Each term with its position in the phrase.
    pub(crate) terms: Vec<(Term, u32)>,
    pub(crate) path: String,
    /// Number of tokens by which the terms may be moved in total.
    pub(crate) slop: u32,
    pub(crate) stats: TextStats,
    /// The sum of the terms' weights.
    pub(crate) weight: f32,
}

impl Matcher for Phrase {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let mut all: Vec<SegmentPostings> = Vec::new();
        for (term, _) in &self.terms {
            let index = segment.inverted_index(term.field())?;
            let option = IndexRecordOption::WithFreqsAndPositions;
            match index.read_postings(term, option)? {
                Some(postings) => all.push(postings),
                None => return Ok(Vec::new()),
            }
        }
        let lengths = lengths(segment, &self.path)?;
        let mut found = Vec::new();
        let mut doc = all.first().map_or(TERMINATED, DocSet::doc);
        while doc != TERMINATED {
            let there = all
                .iter_mut()
                .map(|p| if p.doc() < doc { p.seek(doc) } else { p.doc() })
                .max()
                .unwrap_or(TERMINATED);
            if there > doc {
                doc = there;
                continue;
            }
            let often = self.frequency(&mut all);
            if often > 0.0 {
                let length = lengths.as_ref().and_then(|c| c.first(doc));
                let length = stored_length(length.unwrap_or(1));
                found.push((doc, self.weight * self.stats.saturation(often, length)));
            }
            doc = all.first_mut().map_or(TERMINATED, DocSet::advance);
        }
        Ok(found)
    }
}

impl Phrase {
    /// Frequency of the phrase in the text; an occurrence moved by n tokens counts 1 / (1 + n).
    fn frequency(&self, all: &mut [SegmentPostings]) -> f32 {
        let mut places: Vec<Vec<i64>> = Vec::new();
        for (postings, (_, offset)) in all.iter_mut().zip(&self.terms) {
            let mut found = Vec::new();
            postings.positions(&mut found);
            places.push(
                found
                    .iter()
                    .map(|p| i64::from(*p) - i64::from(*offset))
                    .collect(),
            );
        }
        let Some((first, rest)) = places.split_first() else {
            return 0.0;
        };
        let mut often = 0.0;
        let mut looked = 0;
        for start in first {
            let moved = closest(*start, *start, rest, i64::from(self.slop), &mut looked);
            if let Some(moved) = moved {
                often += 1.0 / (1.0 + moved as f32);
            }
        }
        often
    }
}

/// The least distance between the lowest and the highest position, with one position from each
/// list, if at most `slop`.
fn closest(low: i64, high: i64, rest: &[Vec<i64>], slop: i64, looked: &mut usize) -> Option<i64> {
    let Some((places, rest)) = rest.split_first() else {
        return Some(high - low);
    };
    let mut best: Option<i64> = None;
    let from = places.partition_point(|p| *p < high - slop);
    for place in places.get(from..).unwrap_or_default() {
        *looked += 1;
        if *place > low + slop || *looked > COMBINATIONS_MAX {
            break;
        }
        let found = closest(low.min(*place), high.max(*place), rest, slop, looked);
        if let Some(found) = found {
            best = Some(best.map_or(found, |b| b.min(found)));
        }
    }
    best
}
