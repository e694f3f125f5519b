//! Whether a document matches a `$search`, decided on the document: an index alone cannot decide
//! it.

use super::fold;
use super::language::Language;
use super::query::TextQuery;
use super::spec::{TextSpec, Tokenizers};
use super::tokenizer::Sensitivity;
use model::{Doc, Result};

/// A query together with the fields that one index covers.
pub struct TextMatcher {
    spec: TextSpec,
    query: TextQuery,
    phrases: Vec<String>,
    negated_phrases: Vec<String>,
}

impl TextMatcher {
    /// Parses the words in the given language, else in that of the index.
    pub fn new(
        spec: TextSpec,
        search: &str,
        language: Option<Language>,
        how: Sensitivity,
    ) -> TextMatcher {
        let language = language.unwrap_or(spec.language());
        let query = TextQuery::parse(search, language, how);
        let folded = |list: &[String]| list.iter().map(|p| fold_text(p, language, how)).collect();
        TextMatcher {
            phrases: folded(&query.phrases),
            negated_phrases: folded(&query.negated_phrases),
            spec,
            query,
        }
    }

    /// The parsed query.
    pub fn query(&self) -> &TextQuery {
        &self.query
    }

    /// Whether a document matches the query.
    ///
    /// # Errors
    /// 17261 and 17262 for a document with an invalid language.
    pub fn matches(&self, doc: Doc<'_>) -> Result<bool> {
        let q = &self.query;
        let (mut found, mut refused) = (false, false);
        let mut phrases = vec![false; self.phrases.len()];
        let mut tokenizers = Tokenizers::default();
        self.spec.each_string(doc, &mut |text, _, language| {
            tokenizers.of(language).terms(text, q.how, &mut |term| {
                found |= q.positive.contains(term);
                refused |= q.negated.contains(term);
                !(refused || found && q.negated.is_empty())
            });
            if !self.phrases.is_empty() || !self.negated_phrases.is_empty() {
                let text = fold_text(text, language, q.how);
                refused |= self
                    .negated_phrases
                    .iter()
                    .any(|p| text.contains(p.as_str()));
                for (seen, p) in phrases.iter_mut().zip(&self.phrases) {
                    *seen |= text.contains(p.as_str());
                }
            }
            !(refused || found && q.terms_are_enough())
        })?;
        Ok(found && !refused && phrases.into_iter().all(|seen| seen))
    }

    /// The score of a document: the sum over the terms.
    ///
    /// # Errors
    /// The errors of [`TextMatcher::matches`].
    pub fn score(&self, doc: Doc<'_>) -> Result<f64> {
        let scores = self.spec.scores(doc)?;
        Ok(self.query.terms.iter().filter_map(|t| scores.get(t)).sum())
    }
}

fn fold_text(text: &str, language: Language, how: Sensitivity) -> String {
    let mut out = String::new();
    if how.case {
        out.push_str(text);
    } else {
        fold::lower(text, language, &mut out);
    }
    if how.diacritics {
        return out;
    }
    let mut bare = String::new();
    fold::strip(&out, &mut bare);
    bare
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    fn matches(search: &str, text: &str, how: Sensitivity) -> bool {
        let spec = TextSpec::of_index(doc! { "weights": { "a": 1i32 } }.doc());
        TextMatcher::new(spec, search, None, how)
            .matches(doc! { "a": text }.doc())
            .unwrap()
    }

    #[test]
    fn terms_phrases_and_negations() {
        let plain = |search, text| matches(search, text, Sensitivity::NONE);
        assert!(plain("coffee shop", "Buying COFFEE"));
        assert!(!plain("tea", "coffee"));
        assert!(!plain("coffee -shops", "a coffee shop"));
        assert!(plain("\"coffee shop\" tea", "the Coffee Shop"));
        assert!(
            !plain("\"coffee shop\" tea", "tea, shop, coffee"),
            "every phrase must be there"
        );
        assert!(!plain("coffee -\"coffee shop\"", "a coffee shop"));
        assert!(plain("coffee -\"coffee shop\"", "shop for coffee"));
        assert!(
            !plain("-tea", "coffee"),
            "what is only unwanted finds nothing"
        );
        assert!(plain("\"café au\"", "CAFE AU LAIT"));
    }

    #[test]
    fn sensitivity() {
        let case = Sensitivity {
            case: true,
            diacritics: false,
        };
        let marks = Sensitivity {
            case: false,
            diacritics: true,
        };
        assert!(matches("cafe", "café", case) && !matches("cafe", "Cafe", case));
        assert!(matches("cafe", "Cafe", marks) && !matches("cafe", "café", marks));
        assert!(matches("cafe -Tea", "cafe tea", case));
        assert!(!matches("\"Cafe au\"", "cafe au lait", case));
    }

    #[test]
    fn scores_add_up_over_terms() {
        let spec = TextSpec::of_index(doc! { "weights": { "a": 2i32 } }.doc());
        let m = TextMatcher::new(spec, "ale bread ale", None, Sensitivity::NONE);
        assert_eq!(m.score(doc! { "a": "ale bread" }.doc()).unwrap(), 3.0);
    }
}
