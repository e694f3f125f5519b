//! The definition of a text index: which strings of a document it covers, in which language, and
//! the score of each term. Errors: 17261 a language that is no string, 17262 an unknown language,
//! 16732 too many terms.

use super::language::Language;
use super::tokenizer::{Sensitivity, Tokenizer};
use model::{Doc, Result, Value, bail};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The language of an index that does not set one.
pub const DEFAULT_LANGUAGE: &str = "english";
/// The field that names a document's language, unless the index names another one.
pub const DEFAULT_OVERRIDE: &str = "language";

/// Most distinct terms of one document.
const TERMS_MAX: usize = 400_000;

/// The text part of an index specification.
#[derive(Clone, Debug)]
pub struct TextSpec {
    /// Weights by path, in order: a path comes right before the paths below it.
    weights: BTreeMap<String, f64>,
    /// Every string is covered.
    wildcard: bool,
    language: Language,
    language_field: String,
}

/// Called for each string with its weight and language; returns false to stop.
type StringVisitor<'f> = dyn FnMut(&str, f64, Language) -> bool + 'f;

#[derive(Default)]
struct Count {
    count: f64,
    frequency: f64,
    step: f64,
}

impl TextSpec {
    /// From a stored index specification, which was checked when the index was created.
    pub fn of_index(spec: Doc<'_>) -> TextSpec {
        let weights = spec.field("weights").as_doc().unwrap_or(Doc::EMPTY);
        let language = spec
            .field("default_language")
            .as_str()
            .and_then(Language::find);
        TextSpec {
            wildcard: weights.contains("$**"),
            weights: weights
                .iter()
                .filter(|(k, _)| *k != "$**")
                .map(|(k, w)| (k.to_owned(), w.as_f64().unwrap_or(1.0)))
                .collect(),
            language: language
                .or_else(|| Language::find(DEFAULT_LANGUAGE))
                .unwrap_or_default(),
            language_field: spec
                .field("language_override")
                .as_str()
                .unwrap_or(DEFAULT_OVERRIDE)
                .to_owned(),
        }
    }

    /// The language of documents that do not name one.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Whether two versions of a document certainly have the same terms.
    pub fn sees_same(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        let same = |name: &str| match (old.get_element(name), new.get_element(name)) {
            (None, None) => true,
            (Some(a), Some(b)) => a.tag == b.tag && a.payload == b.payload,
            _ => false,
        };
        if self.wildcard {
            return old.as_bytes() == new.as_bytes();
        }
        same(&self.language_field)
            && self
                .weights
                .keys()
                .all(|path| same(path.split('.').next().unwrap_or(path)))
    }

    /// Calls `each` for every string that the index covers.
    ///
    /// # Errors
    /// 17261, 17262.
    pub fn each_string(&self, doc: Doc<'_>, each: &mut StringVisitor<'_>) -> Result<()> {
        self.walk_doc(doc, "", self.language, each).map(|_| ())
    }

    fn walk_doc(
        &self,
        doc: Doc<'_>,
        parent: &str,
        around: Language,
        each: &mut StringVisitor<'_>,
    ) -> Result<bool> {
        let language = match doc.field(&self.language_field) {
            Value::Missing => around,
            Value::String(name) => match Language::find(name) {
                Some(l) => l,
                None => bail!(17262, "language override unsupported: {name}"),
            },
            v => bail!(
                17261,
                "found language override field in document with non-string type {}",
                v.type_name()
            ),
        };
        for (name, v) in doc.iter() {
            if !matches!(v, Value::String(_) | Value::Document(_) | Value::Array(_)) {
                continue;
            }
            // The name of the language is not indexed, unless it has a weight.
            if self.wildcard && name == self.language_field {
                continue;
            }
            let path = if parent.is_empty() {
                name.to_owned()
            } else {
                format!("{parent}.{name}")
            };
            if !self.walk_value(v, &path, language, false, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn walk_value(
        &self,
        v: Value<'_>,
        path: &str,
        language: Language,
        in_array: bool,
        each: &mut StringVisitor<'_>,
    ) -> Result<bool> {
        let exact = self.weights.get(path).copied();
        match v {
            Value::String(s) if exact.is_some() || self.wildcard => {
                Ok(each(s, exact.unwrap_or(1.0), language))
            }
            Value::Document(d) if self.wildcard || self.has_below(path) => {
                self.walk_doc(d, path, language, each)
            }
            // Only wildcards look into arrays inside arrays.
            Value::Array(a)
                if self.wildcard || !in_array && (exact.is_some() || self.has_below(path)) =>
            {
                for v in a.iter() {
                    if !self.walk_value(v, path, language, true, each)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    fn has_below(&self, path: &str) -> bool {
        let below = |p: &str| {
            p.strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        self.weights
            .range(format!("{path}.")..)
            .next()
            .is_some_and(|(p, _)| below(p))
    }

    /// The terms of a document with their scores: for each string its weight, times the
    /// frequency (the first occurrence counts 1, the second a half, the next a quarter and so on),
    /// times a half and half the share of the term among all terms of the string, and a tenth more
    /// where the string is the term and nothing else; added up over the strings.
    ///
    /// # Errors
    /// 17261, 17262, 16732.
    pub fn scores(&self, doc: Doc<'_>) -> Result<FxHashMap<String, f64>> {
        let mut scores: FxHashMap<String, f64> = FxHashMap::default();
        let mut tokenizers = Tokenizers::default();
        let mut counts: FxHashMap<String, Count> = FxHashMap::default();
        self.each_string(doc, &mut |text, weight, language| {
            let mut all = 0.0;
            tokenizers
                .of(language)
                .terms(text, Sensitivity::NONE, &mut |term| {
                    all += 1.0;
                    let c = match counts.get_mut(term) {
                        Some(c) => c,
                        None => counts.entry(term.to_owned()).or_default(),
                    };
                    c.step = if c.step == 0.0 { 1.0 } else { c.step * 2.0 };
                    c.count += 1.0;
                    c.frequency += 1.0 / c.step;
                    true
                });
            for (term, c) in counts.drain() {
                let share = 0.5 * c.count / all + 0.5;
                let alone = if text.eq_ignore_ascii_case(&term) {
                    1.1
                } else {
                    1.0
                };
                *scores.entry(term).or_insert(0.0) += weight * c.frequency * share * alone;
            }
            scores.len() <= TERMS_MAX
        })?;
        if scores.len() > TERMS_MAX {
            bail!(
                16732,
                "too many unique keys for a single document to have in a text index: more than \
                    {TERMS_MAX}"
            );
        }
        Ok(scores)
    }
}

/// One tokenizer for each language in use.
#[derive(Default)]
pub(super) struct Tokenizers(Vec<(Language, Tokenizer)>);

impl Tokenizers {
    pub(super) fn of(&mut self, language: Language) -> &mut Tokenizer {
        let at = self
            .0
            .iter()
            .position(|(l, _)| *l == language)
            .unwrap_or_else(|| {
                self.0.push((language, Tokenizer::new(language)));
                self.0.len() - 1
            });
        &mut self.0[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    fn spec(d: DocBuf) -> TextSpec {
        TextSpec::of_index(d.doc())
    }

    fn scores(s: &TextSpec, d: DocBuf) -> Vec<(String, f64)> {
        let mut all: Vec<_> = s.scores(d.doc()).unwrap().into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn is(s: &TextSpec, d: DocBuf, wanted: &[(&str, f64)]) {
        let got = scores(s, d);
        assert_eq!(got.len(), wanted.len(), "{got:?}");
        for ((term, score), (t, w)) in got.iter().zip(wanted) {
            assert!(
                term == t && (score - w).abs() < 1e-12,
                "{got:?} is not {wanted:?}"
            );
        }
    }

    /// The scores of the manual's examples, and the formula calculated by hand.
    #[test]
    fn scores_follow_the_documented_formula() {
        let s = spec(doc! { "weights": { "a": 1i32 } });
        is(
            &s,
            doc! { "a": "cakes and ale" },
            &[("ale", 0.75), ("cake", 0.75)],
        );
        is(
            &s,
            doc! { "a": "two cakes to go" },
            &[("cake", 2.0 / 3.0), ("go", 2.0 / 3.0), ("two", 2.0 / 3.0)],
        );
        is(&s, doc! { "a": "more cakes" }, &[("cake", 1.0)]);
        // The string consists of the term only.
        is(&s, doc! { "a": "Ale" }, &[("ale", 1.1)]);
        // 1 + 1/2 + 1/4, of three among four: * (0.5 + 0.375).
        is(
            &s,
            doc! { "a": "ale ale ale bread" },
            &[("ale", 1.75 * 0.875), ("bread", 0.625)],
        );
        // Each element of an array is a string of its own.
        is(
            &s,
            doc! { "a": ["ale", "ale bread"] },
            &[("ale", 1.1 + 0.75), ("bread", 0.75)],
        );
    }

    #[test]
    fn weights_paths_and_wildcards() {
        let s = spec(doc! { "weights": { "a": 3i32, "b.c": 2i32 } });
        is(
            &s,
            doc! { "a": "ale", "b": { "c": "ale" }, "d": "bread" },
            &[("ale", 5.5)],
        );
        is(
            &s,
            doc! { "b": [{ "c": ["x1", "y1"] }, { "c": 5i32 }, 7i32] },
            &[("x1", 2.2), ("y1", 2.2)],
        );
        is(&s, doc! { "a": [["deep"]], "b": "flat" }, &[]);
        let all = spec(doc! { "weights": { "$**": 1i32, "a": 10i32 } });
        is(
            &all,
            doc! { "_id": "k1", "a": "x1", "b": [["y1"]], "language": "none" },
            &[("k1", 1.1), ("x1", 11.0), ("y1", 1.1)],
        );
    }

    #[test]
    fn languages_are_overridden_level_by_level() {
        let s = spec(
            doc! { "weights": { "a": 1i32, "b.c": 1i32 }, "default_language": "none",
            "language_override": "idioma" },
        );
        is(&s, doc! { "a": "dogs" }, &[("dogs", 1.1)]);
        is(
            &s,
            doc! { "a": "dogs", "idioma": "en", "b": { "c": "cats", "idioma": "none" } },
            &[("cats", 1.1), ("dog", 1.0)],
        );
        assert_eq!(
            s.scores(doc! { "idioma": "klingon" }.doc())
                .unwrap_err()
                .code(),
            17262
        );
        assert_eq!(
            s.scores(doc! { "idioma": 5i32 }.doc()).unwrap_err().code(),
            17261
        );
    }

    #[test]
    fn changes_elsewhere_are_seen_to_be_elsewhere() {
        let s = spec(doc! { "weights": { "a.b": 1i32 } });
        assert!(s.sees_same(
            doc! { "a": 1i32, "x": 1i32 }.doc(),
            doc! { "x": 2i32, "a": 1i32 }.doc()
        ));
        assert!(!s.sees_same(doc! { "a": 1i32 }.doc(), doc! { "a": 2i32 }.doc()));
        assert!(!s.sees_same(doc! {}.doc(), doc! { "language": "none" }.doc()));
    }
}
