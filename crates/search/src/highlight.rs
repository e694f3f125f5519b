//! Highlights: the sentences of a document's texts with matches of a query, the best ones per
//! field, with the matches marked. Must not know: how documents are found.

use crate::analysis::{Analyzer, Token};
use crate::args::Args;
use crate::definition::FieldKind;
use crate::error::invalid;
use crate::marked::HighlightTerm;
use crate::operator::{Build, texts};
use crate::schema::MULTI;
use model::{Doc, DocBuf, Result, Value};
use std::collections::BTreeMap;
use unicode_segmentation::UnicodeSegmentation;

const CHARS_MAX: i64 = 500_000;
const PASSAGES: i64 = 5;
/// Constants of the passage score: those of BM25, and a typical length.
const K1: f32 = 1.2;
const B: f32 = 0.75;
const PIVOT: f32 = 87.0;
/// Deepest nesting that is searched.
const DEPTH_MAX: usize = 100;

/// The `highlight` option.
#[derive(Clone, Debug)]
pub(crate) struct Highlight {
    spec: DocBuf,
    chars_max: usize,
    passages: usize,
}

/// Finds the highlights of documents.
pub(crate) struct Highlighter {
    fields: Vec<Field>,
    chars_max: usize,
    passages: usize,
}

struct Field {
    path: String,
    multi: Option<String>,
    analyzer: Analyzer,
    marks: Vec<HighlightTerm>,
}

/// A match in a text: its range, and which term it matches.
struct Hit {
    start: usize,
    end: usize,
    what: String,
}

/// A sentence with matches.
struct Passage<'t> {
    text: &'t str,
    /// Byte ranges from the beginning of the sentence.
    hits: Vec<(usize, usize)>,
    score: f32,
}

impl Highlight {
    /// Reads `{path, maxCharsToExamine, maxNumPassages}`.
    pub(crate) fn parse(v: Value<'_>) -> Result<Highlight> {
        let allowed = ["path", "maxCharsToExamine", "maxNumPassages"];
        let args = Args::new("highlight", v, &allowed)?;
        args.required("path")?;
        let number = |field: &str, or: i64| -> Result<usize> {
            let n = args.integer(field, 1, i64::from(i32::MAX))?.unwrap_or(or);
            Ok(usize::try_from(n).unwrap_or(usize::MAX))
        };
        Ok(Highlight {
            chars_max: number("maxCharsToExamine", CHARS_MAX)?,
            passages: number("maxNumPassages", PASSAGES)?,
            spec: args.doc.to_buf(),
        })
    }

    /// A highlighter for the marks of a query.
    pub(crate) fn begin(&self, b: &Build<'_>) -> Result<Highlighter> {
        let args = Args {
            path: "highlight".to_owned(),
            doc: self.spec.doc(),
        };
        let marks = b.take_marks();
        let of = |key: &str| {
            let of_key = marks.iter().filter(|m| m.key == key);
            of_key.map(|m| m.what.clone()).collect::<Vec<_>>()
        };
        let shown = texts(b, &args)?;
        if let Some(hidden) = shown.iter().find(|at| !at.field.kept.shown) {
            return Err(invalid(format!(
                "\"highlight.path\": {} is indexed with store: false",
                hidden.key
            )));
        }
        let mut fields: Vec<Field> = shown
            .into_iter()
            .map(|at| Field {
                marks: of(&at.key),
                analyzer: at.field.index,
                multi: at.key.split_once(MULTI).map(|(_, multi)| multi.to_owned()),
                path: at.key.split(MULTI).next().unwrap_or_default().to_owned(),
            })
            .collect();
        if let Some(path) = args.doc.field("path").as_str()
            && fields.is_empty()
        {
            let kinds = b.index.definition().kinds_at(path);
            let pieces = kinds.into_iter().find_map(|k| match k {
                FieldKind::Autocomplete(analyzer) => Some(analyzer.without_grams()),
                _ => None,
            });
            let Some(analyzer) = pieces else {
                return Err(invalid(format!(
                    "\"highlight.path\": {path} is indexed neither as string nor as autocomplete"
                )));
            };
            fields.push(Field {
                marks: of(path),
                analyzer,
                multi: None,
                path: path.to_owned(),
            });
        }
        Ok(Highlighter {
            fields,
            chars_max: self.chars_max,
            passages: self.passages,
        })
    }
}

impl Highlighter {
    /// `{v: [...]}`: the highlights of a document.
    pub(crate) fn show(&self, doc: Doc<'_>) -> DocBuf {
        DocBuf::build(|w| {
            let mut all = w.array("v");
            for field in self.fields.iter().filter(|f| !f.marks.is_empty()) {
                each_text(Value::Document(doc), &field.path, 0, &mut |text| {
                    for passage in field.passages(self.cut(text), self.passages) {
                        let mut one = all.doc();
                        one.put("score", f64::from(passage.score));
                        match &field.multi {
                            None => _ = one.put("path", field.path.as_str()),
                            Some(multi) => {
                                let mut path = one.doc("path");
                                path.put("value", field.path.as_str());
                                path.put("multi", multi.as_str());
                            }
                        }
                        let mut texts = one.array("texts");
                        passage.each_part(&mut |value, kind| {
                            texts.push(&model::doc! { "value": value, "type": kind });
                        });
                    }
                });
            }
        })
    }

    /// The part of a text that is examined.
    fn cut<'t>(&self, text: &'t str) -> &'t str {
        let end = text.char_indices().nth(self.chars_max);
        end.map_or(text, |(at, _)| text.get(..at).unwrap_or(text))
    }
}

/// Calls `f` with each string at a path.
fn each_text(v: Value<'_>, path: &str, depth: usize, f: &mut dyn FnMut(&str)) {
    if depth > DEPTH_MAX {
        return;
    }
    match v {
        Value::String(s) if path.is_empty() => f(s),
        Value::Array(list) => list.iter().for_each(|v| each_text(v, path, depth + 1, f)),
        Value::Document(d) if !path.is_empty() => {
            let (name, rest) = path.split_once('.').unwrap_or((path, ""));
            if let Some(v) = d.get(name) {
                each_text(v, rest, depth + 1, f);
            }
        }
        _ => {}
    }
}

impl Field {
    /// The best sentences of a text, in text order.
    fn passages<'t>(&self, text: &'t str, most: usize) -> Vec<Passage<'t>> {
        let hits = self.hits(text);
        if hits.is_empty() {
            return Vec::new();
        }
        let mut often: BTreeMap<&str, usize> = BTreeMap::new();
        for hit in &hits {
            *often.entry(&hit.what).or_default() += 1;
        }
        let chars = text.chars().count() as f32;
        let mut found: Vec<(usize, Passage<'t>)> = Vec::new();
        for (start, sentence) in text.split_sentence_bound_indices() {
            let end = start + sentence.len();
            let within: Vec<&Hit> = hits
                .iter()
                .filter(|h| h.start >= start && h.start < end)
                .collect();
            if within.is_empty() {
                continue;
            }
            let hits = within
                .iter()
                .map(|h| (h.start - start, h.end.min(end) - start));
            let before = text.get(..start).unwrap_or_default().chars().count();
            let passage = Passage {
                text: sentence,
                hits: hits.collect(),
                score: score(&within, &often, chars, sentence) * early(before),
            };
            found.push((start, passage));
        }
        found.sort_by(|a, b| b.1.score.total_cmp(&a.1.score));
        found.truncate(most);
        found.sort_by_key(|(start, _)| *start);
        found.into_iter().map(|(_, passage)| passage).collect()
    }

    /// The matches in a text, in text order, without duplicates.
    fn hits(&self, text: &str) -> Vec<Hit> {
        let tokens = self.analyzer.tokens(text);
        let mut hits: Vec<Hit> = Vec::new();
        for mark in &self.marks {
            let shown = |t: &&Token| match mark {
                HighlightTerm::Token(text) => t.text == *text,
                HighlightTerm::Like(test) => test.passes(&t.text),
                HighlightTerm::Piece(piece) => t.text.to_lowercase().contains(piece.as_str()),
                HighlightTerm::Phrase(..) => false,
            };
            hits.extend(tokens.iter().filter(shown).map(hit_of));
            if let HighlightTerm::Phrase(wanted, slop) = mark {
                phrases(&tokens, wanted, *slop, &mut hits);
            }
        }
        hits.sort_by_key(|h| (h.start, std::cmp::Reverse(h.end)));
        let mut end = 0;
        hits.retain(|h| {
            let new = h.start >= end && h.start < h.end;
            end = end.max(h.end);
            new
        });
        hits
    }
}

fn hit_of(t: &Token) -> Hit {
    Hit {
        start: t.start,
        end: t.end,
        what: t.text.clone(),
    }
}

/// Adds the tokens of each place where the wanted tokens occur at their distances.
fn phrases(tokens: &[Token], wanted: &[Token], slop: u32, hits: &mut Vec<Hit>) {
    let Some(first) = wanted.first() else {
        return;
    };
    for start in tokens.iter().filter(|t| t.text == first.text) {
        let at = |w: &Token| {
            let place =
                i64::from(start.position) + i64::from(w.position) - i64::from(first.position);
            let near = tokens.iter().filter(|t| t.text == w.text);
            let distance = |t: &&Token| (i64::from(t.position) - place).unsigned_abs();
            let nearest = near.min_by_key(distance)?;
            (distance(&nearest) <= u64::from(slop)).then_some(nearest)
        };
        let all: Option<Vec<&Token>> = wanted.iter().map(at).collect();
        hits.extend(all.unwrap_or_default().into_iter().map(hit_of));
    }
}

/// The score of a sentence.
fn score(hits: &[&Hit], often: &BTreeMap<&str, usize>, chars: f32, sentence: &str) -> f32 {
    let mut here: BTreeMap<&str, usize> = BTreeMap::new();
    for hit in hits {
        *here.entry(&hit.what).or_default() += 1;
    }
    let length = sentence.chars().count() as f32;
    let of = |(what, n): (&&str, &usize)| {
        let all = often.get(what).copied().unwrap_or(*n) as f32;
        let rarity = (K1 + 1.0) * (1.0 + (1.0 + chars / PIVOT + 0.5) / (all + 0.5)).ln();
        let n = *n as f32;
        rarity * n / (n + K1 * (1.0 - B + B * length / PIVOT))
    };
    here.iter().map(of).sum()
}

/// Weight of a position: earlier text counts for more.
fn early(chars_before: usize) -> f32 {
    1.0 + 1.0 / (PIVOT + chars_before as f32).ln()
}

impl Passage<'_> {
    /// Calls `f` with each part and its type, `hit` or `text`.
    fn each_part(&self, f: &mut dyn FnMut(&str, &'static str)) {
        let mut at = 0;
        for (start, end) in &self.hits {
            let before = self.text.get(at..*start).unwrap_or_default();
            if !before.is_empty() {
                f(before, "text");
            }
            f(self.text.get(*start..*end).unwrap_or_default(), "hit");
            at = *end;
        }
        let rest = self.text.get(at..).unwrap_or_default();
        if !rest.is_empty() {
            f(rest, "text");
        }
    }
}
