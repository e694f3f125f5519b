//! The query of a `$search`. A document matches with at least one of the terms, all of the phrases,
//! and none of the excluded terms and phrases.

use super::language::Language;
use super::tokenizer::{Sensitivity, Tokenizer};
use std::collections::BTreeSet;

/// A parsed `$search`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextQuery {
    /// Terms in the form of index entries; each of them makes a document a candidate.
    pub terms: BTreeSet<String>,
    /// The same terms with the requested sensitivity.
    pub(super) positive: BTreeSet<String>,
    pub(super) negated: BTreeSet<String>,
    pub(super) phrases: Vec<String>,
    pub(super) negated_phrases: Vec<String>,
    pub(super) how: Sensitivity,
}

impl TextQuery {
    /// Parses the words in a language. A `"` begins and ends a phrase; a `-` after a space negates
    /// the word or phrase behind it. Words of phrases that are not negated are also terms. A phrase
    /// without a closing `"` is parsed as words.
    pub fn parse(search: &str, language: Language, how: Sensitivity) -> TextQuery {
        let mut q = TextQuery {
            how,
            ..TextQuery::default()
        };
        let (mut wanted, mut unwanted) = (String::new(), String::new());
        let (mut negated, mut phrase_start, mut after_space) = (false, None::<usize>, true);
        let mut rest = search.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            match c {
                '"' => match phrase_start.take() {
                    Some(start) => {
                        let phrase = search.get(start..at).unwrap_or_default().to_owned();
                        let list = if negated {
                            &mut q.negated_phrases
                        } else {
                            &mut q.phrases
                        };
                        if !phrase.is_empty() {
                            list.push(phrase);
                        }
                        negated = false;
                    }
                    None => phrase_start = Some(at + 1),
                },
                '-' if phrase_start.is_none() && after_space => negated = true,
                '-' => {}
                c if is_space(c) => {}
                _ => {
                    let mut end = at + c.len_utf8();
                    while let Some((next, c)) =
                        rest.next_if(|(_, c)| !(is_space(*c) || matches!(c, '"' | '-')))
                    {
                        end = next + c.len_utf8();
                    }
                    let word = search.get(at..end).unwrap_or_default();
                    match (negated, phrase_start) {
                        // The words of a negated phrase are not excluded one by one.
                        (true, Some(_)) => {}
                        (true, None) => {
                            unwanted.push_str(word);
                            unwanted.push(' ');
                            negated = false;
                        }
                        (false, _) => {
                            wanted.push_str(word);
                            wanted.push(' ');
                        }
                    }
                }
            }
            after_space = is_space(c);
        }
        let mut tokenizer = Tokenizer::new(language);
        let mut add = |text: &str, how, list: &mut BTreeSet<String>| {
            tokenizer.terms(text, how, &mut |t| {
                list.insert(t.to_owned());
                true
            });
        };
        add(&wanted, Sensitivity::NONE, &mut q.terms);
        add(&wanted, how, &mut q.positive);
        add(&unwanted, how, &mut q.negated);
        q
    }

    /// Whether every document with one of the terms matches.
    pub fn terms_are_enough(&self) -> bool {
        !self.how.is_any()
            && self.negated.is_empty()
            && self.phrases.is_empty()
            && self.negated_phrases.is_empty()
    }

    /// Terms that must not occur.
    pub fn negated_terms(&self) -> impl Iterator<Item = &str> {
        self.negated.iter().map(String::as_str)
    }
    /// Phrases that must occur.
    pub fn phrases(&self) -> &[String] {
        &self.phrases
    }
    /// Phrases that must not occur.
    pub fn negated_phrases(&self) -> &[String] {
        &self.negated_phrases
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_query(search: &str) -> (Vec<String>, Vec<String>, Vec<String>, Vec<String>) {
        let q = TextQuery::parse(
            search,
            Language::find("english").unwrap(),
            Sensitivity::NONE,
        );
        (
            q.terms.into_iter().collect(),
            q.negated.into_iter().collect(),
            q.phrases,
            q.negated_phrases,
        )
    }

    fn is(
        search: &str,
        terms: &[&str],
        negated: &[&str],
        phrases: &[&str],
        negated_phrases: &[&str],
    ) {
        let own = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            parse_query(search),
            (own(terms), own(negated), own(phrases), own(negated_phrases)),
            "{search}"
        );
    }

    #[test]
    fn words_phrases_and_negations() {
        is("Coffee shops the", &["coffe", "shop"], &[], &[], &[]);
        is("coffee -shops tea", &["coffe", "tea"], &["shop"], &[], &[]);
        is("pre-market", &["market", "pre"], &[], &[], &[]);
        is(
            "\"ssl certificate\" key",
            &["certif", "key", "ssl"],
            &[],
            &["ssl certificate"],
            &[],
        );
        is(
            "key -\"ssl certificate\" more",
            &["key"],
            &[],
            &[],
            &["ssl certificate"],
        );
        is("\"a-b -c\"", &["b", "c"], &[], &["a-b -c"], &[]);
        is("\"open end", &["end", "open"], &[], &[], &[]);
        is("-tea", &[], &["tea"], &[], &[]);
        is("", &[], &[], &[], &[]);
        is("- - \"\"", &[], &[], &[], &[]);
    }
}
