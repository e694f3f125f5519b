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
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// Spans by document.
type DocumentSpans = BTreeMap<DocId, Vec<Span>>;

/// Which spans match.
#[derive(Clone, Debug)]
pub(crate) enum SpanQuery {
    Term(Term),
    Or(Vec<SpanQuery>),
    /// Spans that end at this position or before.
    First(Box<SpanQuery>, u32),
    Near {
        clauses: Vec<SpanQuery>,
        slop: u32,
        in_order: bool,
    },
    /// Spans of the first that do not overlap the second.
    Subtract(Box<SpanQuery>, Box<SpanQuery>),
    /// Spans within others, or spans around others.
    Contains {
        little: Box<SpanQuery>,
        big: Box<SpanQuery>,
        outer: bool,
    },
}

/// Texts at `path` with a matching span.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    pub(crate) span: SpanQuery,
    pub(crate) path: String,
    pub(crate) stats: TextStats,
    pub(crate) weight: f32,
}

impl Matcher for Spans {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<Vec<(DocId, Score)>> {
        let lengths = lengths(segment, &self.path)?;
        let found = self.span.find(segment)?;
        let score = |(doc, stretches): (DocId, Vec<Span>)| {
            let length = lengths.as_ref().and_then(|c| c.first(doc));
            let length = stored_length(length.unwrap_or(1));
            let often = stretches.len() as f32;
            (doc, self.weight * self.stats.saturation(often, length))
        };
        Ok(found.into_iter().map(score).collect())
    }
}

impl SpanQuery {
    fn find(&self, segment: &SegmentReader) -> tantivy::Result<DocumentSpans> {
        Ok(match self {
            SpanQuery::Term(term) => find_term(term, segment)?,
            SpanQuery::Or(clauses) => {
                let mut all = DocumentSpans::new();
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
            SpanQuery::First(clause, last) => {
                let mut found = clause.find(segment)?;
                keep(&mut found, |_, s| s.end <= *last);
                found
            }
            SpanQuery::Near {
                clauses,
                slop,
                in_order,
            } => find_near(clauses, *slop, *in_order, segment)?,
            SpanQuery::Subtract(include, exclude) => {
                let without = exclude.find(segment)?;
                let mut found = include.find(segment)?;
                keep(&mut found, |doc, s| {
                    let others = without.get(&doc).map_or(&[][..], Vec::as_slice);
                    !others.iter().any(|o| o.start < s.end && s.start < o.end)
                });
                found
            }
            SpanQuery::Contains { little, big, outer } => {
                let (little, big) = (little.find(segment)?, big.find(segment)?);
                let inside = |a: &Span, b: &Span| b.start <= a.start && a.end <= b.end;
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

fn keep(found: &mut DocumentSpans, wanted: impl Fn(DocId, &Span) -> bool) {
    found.retain(|doc, stretches| {
        stretches.retain(|s| wanted(*doc, s));
        !stretches.is_empty()
    });
}

fn find_term(term: &Term, segment: &SegmentReader) -> tantivy::Result<DocumentSpans> {
    let index = segment.inverted_index(term.field())?;
    let option = IndexRecordOption::WithFreqsAndPositions;
    let mut found = DocumentSpans::new();
    let Some(mut postings) = index.read_postings(term, option)? else {
        return Ok(found);
    };
    let (mut doc, mut places) = (postings.doc(), Vec::new());
    while doc != TERMINATED {
        postings.positions(&mut places);
        let stretch = |start: &u32| Span {
            start: *start,
            end: start.saturating_add(1),
        };
        found.insert(doc, places.iter().map(stretch).collect());
        doc = postings.advance();
    }
    Ok(found)
}

fn find_near(
    clauses: &[SpanQuery],
    slop: u32,
    in_order: bool,
    segment: &SegmentReader,
) -> tantivy::Result<DocumentSpans> {
    let parts = clauses
        .iter()
        .map(|c| c.find(segment))
        .collect::<tantivy::Result<Vec<DocumentSpans>>>()?;
    let mut found = DocumentSpans::new();
    let Some((first, rest)) = parts.split_first() else {
        return Ok(found);
    };
    for (doc, starts) in first {
        let rest: Option<Vec<&[Span]>> = rest
            .iter()
            .map(|part| part.get(doc).map(Vec::as_slice))
            .collect();
        let Some(rest) = rest else { continue };
        let mut near = NearSpans {
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

struct NearSpans {
    slop: u32,
    in_order: bool,
    looked: usize,
    found: Vec<Span>,
}

impl NearSpans {
    /// Adds one span of each list in `rest`; `last` is the end of the previous span, `covered` the
    /// number of tokens in all spans so far.
    fn extend(&mut self, whole: Span, last: u32, covered: u32, rest: &[&[Span]]) {
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
            let wider = Span {
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
