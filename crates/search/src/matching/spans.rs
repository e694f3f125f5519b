//! Spans of texts: terms, and combinations of them by order and distance.

use super::docs::Matcher;
use super::term::{TextStats, lengths, stored_length};
use std::collections::BTreeMap;
use tantivy::postings::Postings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, Term};

/// Most combinations of spans that are tried in one text.
const COMBINATIONS_MAX: usize = 10_000;

/// From the first token to the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Spans by document.
type Found = BTreeMap<DocId, Vec<Stretch>>;

/// Which spans match.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Term(Term),
    Or(Vec<Span>),
    /// Spans that end at this position or before.
    First(Box<Span>, u32),
    Near {
        clauses: Vec<Span>,
        slop: u32,
        in_order: bool,
    },
    /// Spans of the first that do not overlap the second.
    Subtract(Box<Span>, Box<Span>),
    /// Spans within others, or spans around others.
    Contains {
        little: Box<Span>,
        big: Box<Span>,
        outer: bool,
    },
}

/// Texts at `path` with a matching span.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    pub(crate) span: Span,
    pub(crate) path: String,
    pub(crate) stats: TextStats,
    pub(crate) weight: f32,
}

impl Matcher for Spans {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let lengths = lengths(segment, &self.path)?;
        let found = self.span.find(segment)?;
        let score = |(doc, stretches): (DocId, Vec<Stretch>)| {
            let length = lengths.as_ref().and_then(|c| c.first(doc));
            let length = stored_length(length.unwrap_or(1));
            let often = stretches.len() as f32;
            (doc, self.weight * self.stats.saturation(often, length))
        };
        Ok(found.into_iter().map(score).collect())
    }
}

impl Span {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Found> {
        Ok(match self {
            Span::Term(term) => find_term(term, segment)?,
            Span::Or(clauses) => {
                let mut all = Found::new();
                for clause in clauses {
                    for (doc, more) in clause.find(segment)? {
                        all.entry(doc).or_default().extend(more);
                    }
                }
                for stretches in all.values_mut() {
                    stretches.sort_unstable();
                    stretches.dedup();
                }
                all
            }
            Span::First(clause, last) => {
                let mut found = clause.find(segment)?;
                keep(&mut found, |_, s| s.end <= *last);
                found
            }
            Span::Near {
                clauses,
                slop,
                in_order,
            } => find_near(clauses, *slop, *in_order, segment)?,
            Span::Subtract(include, exclude) => {
                let without = exclude.find(segment)?;
                let mut found = include.find(segment)?;
                keep(&mut found, |doc, s| {
                    let others = without.get(&doc).map_or(&[][..], Vec::as_slice);
                    !others.iter().any(|o| o.start < s.end && s.start < o.end)
                });
                found
            }
            Span::Contains { little, big, outer } => {
                let (little, big) = (little.find(segment)?, big.find(segment)?);
                let inside = |a: &Stretch, b: &Stretch| b.start <= a.start && a.end <= b.end;
                let (mut found, others) = if *outer { (big, little) } else { (little, big) };
                keep(&mut found, |doc, s| {
                    let others = others.get(&doc).map_or(&[][..], Vec::as_slice);
                    others.iter().any(|o| match outer {
                        true => inside(o, s),
                        false => inside(s, o),
                    })
                });
                found
            }
        })
    }
}

fn keep(found: &mut Found, wanted: impl Fn(DocId, &Stretch) -> bool) {
    found.retain(|doc, stretches| {
        stretches.retain(|s| wanted(*doc, s));
        !stretches.is_empty()
    });
}

fn find_term(term: &Term, segment: &SegmentReader) -> tantivy::Result<Found> {
    let index = segment.inverted_index(term.field())?;
    let option = IndexRecordOption::WithFreqsAndPositions;
    let mut found = Found::new();
    let Some(mut postings) = index.read_postings(term, option)? else {
        return Ok(found);
    };
    let (mut doc, mut places) = (postings.doc(), Vec::new());
    while doc != TERMINATED {
        postings.positions(&mut places);
        let stretch = |start: &u32| Stretch {
            start: *start,
            end: start.saturating_add(1),
        };
        found.insert(doc, places.iter().map(stretch).collect());
        doc = postings.advance();
    }
    Ok(found)
}

fn find_near(
    clauses: &[Span],
    slop: u32,
    in_order: bool,
    segment: &SegmentReader,
) -> tantivy::Result<Found> {
    let parts = clauses
        .iter()
        .map(|c| c.find(segment))
        .collect::<tantivy::Result<Vec<Found>>>()?;
    let mut found = Found::new();
    let Some((first, rest)) = parts.split_first() else {
        return Ok(found);
    };
    for (doc, starts) in first {
        let rest: Option<Vec<&[Stretch]>> = rest
            .iter()
            .map(|part| part.get(doc).map(Vec::as_slice))
            .collect();
        let Some(rest) = rest else { continue };
        let mut near = Near {
            slop,
            in_order,
            looked: 0,
            found: Vec::new(),
        };
        for start in starts {
            near.extend(*start, start.end, start.end - start.start, &rest);
        }
        near.found.sort_unstable();
        near.found.dedup();
        if !near.found.is_empty() {
            found.insert(*doc, near.found);
        }
    }
    Ok(found)
}

struct Near {
    slop: u32,
    in_order: bool,
    looked: usize,
    found: Vec<Stretch>,
}

impl Near {
    /// Adds one span of each list in `rest`; `last` is the end of the previous span, `covered` the
    /// number of tokens in all spans so far.
    fn extend(&mut self, whole: Stretch, last: u32, covered: u32, rest: &[&[Stretch]]) {
        let Some((next, rest)) = rest.split_first() else {
            if (whole.end - whole.start).saturating_sub(covered) <= self.slop {
                self.found.push(whole);
            }
            return;
        };
        for s in *next {
            self.looked += 1;
            if self.looked > COMBINATIONS_MAX {
                return;
            }
            let wider = Stretch {
                start: whole.start.min(s.start),
                end: whole.end.max(s.end),
            };
            let covered = covered + (s.end - s.start);
            let fits = !self.in_order || s.start >= last;
            if fits && (wider.end - wider.start).saturating_sub(covered) <= self.slop {
                self.extend(wider, s.end, covered, rest);
            }
        }
    }
}
