//! From text to tokens: the built-in analyzers and those that a definition composes. Positions
//! count tokens, removed ones included, so that phrases keep their gaps. Must not know: fields,
//! indexes.

mod chars;
mod delimiter;
mod filter;
mod fold;
mod language;
mod porter;
mod soundex;
mod spec;
mod token;
mod tokenizer;

pub(crate) use token::{GramAnchor, Token};

use crate::args::Args;
use crate::error::invalid;
use chars::{CharFilter, MappedText};
use filter::{Filter, stop};
use model::{Result, Value};
use std::collections::HashMap;
use token::Grams;
use tokenizer::Tokenizer;

/// Splits text into tokens and changes them.
#[derive(Clone, Debug)]
pub(crate) struct Analyzer {
    chars: Vec<CharFilter>,
    tokenizer: Tokenizer,
    filters: Vec<Filter>,
}

/// The analyzers that a definition defines, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Analyzers(HashMap<String, Analyzer>);

impl Analyzer {
    fn of(tokenizer: Tokenizer, filters: Vec<Filter>) -> Analyzer {
        Analyzer {
            chars: Vec::new(),
            tokenizer,
            filters,
        }
    }

    pub(crate) fn standard() -> Analyzer {
        Analyzer::of(Tokenizer::STANDARD, vec![Filter::Lowercase])
    }

    /// The analyzer for `autocomplete`, which splits its tokens into grams.
    pub(crate) fn with_grams(
        mut self,
        min: usize,
        max: usize,
        cut: GramAnchor,
        fold: bool,
    ) -> Analyzer {
        self.filters.push(Filter::Lowercase);
        if fold {
            self.filters.push(Filter::Fold {
                with_originals: false,
            });
        }
        self.filters.push(Filter::Grams(Grams {
            min,
            max,
            cut,
            with_others: false,
        }));
        self
    }

    /// The same without the gram step: the analyzer of queries.
    pub(crate) fn without_grams(&self) -> Analyzer {
        let mut words = self.clone();
        words.filters.pop_if(|f| matches!(f, Filter::Grams(_)));
        words
    }

    /// The longest indexed gram of a word.
    pub(crate) fn longest_gram(&self, word: &str) -> String {
        let Some(Filter::Grams(grams)) = self.filters.last() else {
            return word.to_owned();
        };
        let chars = word.chars();
        match grams.cut {
            GramAnchor::Ends => chars
                .skip(word.chars().count().saturating_sub(grams.max))
                .collect(),
            _ => chars.take(grams.max).collect(),
        }
    }

    /// True when a text becomes one unchanged token.
    pub(crate) fn keeps_whole(&self) -> bool {
        matches!(self.tokenizer, Tokenizer::Keyword)
    }

    /// The tokens of a text.
    pub(crate) fn tokens(&self, text: &str) -> Vec<Token> {
        if self.chars.is_empty() {
            return self.cut(text);
        }
        let whole = MappedText::map_unchanged(text);
        let changed = self.chars.iter().fold(whole, MappedText::apply_filter);
        let mut tokens = self.cut(&changed.text);
        for t in &mut tokens {
            let from = changed.origin(t.start, t.end);
            (t.start, t.end) = (from.start, from.end);
        }
        tokens
    }

    fn cut(&self, text: &str) -> Vec<Token> {
        let mut tokens: Vec<Token> = Vec::new();
        for (position, (start, text)) in (0u32..).zip(self.tokenizer.cut(text)) {
            let end = start + text.len();
            tokens.push(Token {
                text,
                position,
                start,
                end,
                fixed: false,
            });
        }
        for filter in &self.filters {
            filter.apply(&mut tokens);
        }
        tokens
    }

    /// A built-in analyzer.
    fn builtin(name: &str) -> Option<Analyzer> {
        let of = |tokenizer, filters| Some(Analyzer::of(tokenizer, filters));
        match name {
            "lucene.standard" => Some(Analyzer::standard()),
            "lucene.simple" => of(Tokenizer::Letters, vec![Filter::Lowercase]),
            "lucene.whitespace" => of(Tokenizer::WHITESPACE, vec![]),
            "lucene.keyword" => of(Tokenizer::Keyword, vec![]),
            "lucene.cjk" => of(
                Tokenizer::STANDARD,
                vec![
                    Filter::Normalize(filter::Form::Nfkc),
                    Filter::Lowercase,
                    Filter::Bigrams,
                    stop(language::STOP_WORDS, false),
                ],
            ),
            "lucene.english" => of(
                Tokenizer::STANDARD,
                vec![
                    Filter::Possessive,
                    Filter::Lowercase,
                    stop(language::STOP_WORDS, false),
                    Filter::Porter,
                ],
            ),
            _ => {
                let language = name.strip_prefix("lucene.")?;
                let words = stop_words::lookup(language::stop_code(language)?)?;
                of(
                    Tokenizer::STANDARD,
                    vec![
                        Filter::Lowercase,
                        stop(words, false),
                        Filter::Stem(language::stemmer(language)?),
                    ],
                )
            }
        }
    }
}

impl Analyzers {
    /// Reads the definition's list.
    pub(crate) fn parse(list: Option<Value<'_>>) -> Result<Analyzers> {
        let mut all = HashMap::new();
        let list = match list {
            None => return Ok(Analyzers(all)),
            Some(Value::Array(list)) => list,
            Some(v) => {
                return Err(invalid(format!(
                    "\"analyzers\" must be an array, not {}",
                    v.type_name()
                )));
            }
        };
        for (n, v) in list.iter().enumerate() {
            let path = format!("analyzers[{n}]");
            let allowed = ["name", "tokenizer", "tokenFilters", "charFilters"];
            let args = Args::new(&path, v, &allowed)?;
            let name = args.as_string("name", args.required("name")?)?;
            if name.starts_with("lucene.") || name.starts_with("mongodb.") {
                return Err(invalid(format!(
                    "\"{path}.name\" is a reserved name: {name}"
                )));
            }
            let analyzer = Analyzer {
                chars: parse_list(&args, "charFilters", CharFilter::parse)?,
                tokenizer: Tokenizer::parse(&args)?,
                filters: parse_list(&args, "tokenFilters", Filter::parse)?,
            };
            all.insert(name.to_owned(), analyzer);
        }
        Ok(Analyzers(all))
    }

    /// The analyzer with that name.
    pub(crate) fn find(&self, path: &str, name: &str) -> Result<Analyzer> {
        let found = self.0.get(name).cloned();
        found
            .or_else(|| Analyzer::builtin(name))
            .ok_or_else(|| invalid(format!("\"{path}\": there is no analyzer \"{name}\"")))
    }
}

/// The results of a function for each element of an optional list.
fn parse_list<T>(
    args: &Args<'_>,
    field: &str,
    read: fn(&str, Value<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    match args.get(field) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            let name = args.name(field);
            let each = list.iter().enumerate();
            each.map(|(n, v)| read(&format!("{name}[{n}]"), v))
                .collect()
        }
        Some(v) => Err(args.wrong_type(field, "an array", v)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(name: &str, text: &str) -> Vec<String> {
        let analyzer = Analyzer::builtin(name).expect("an analyzer");
        analyzer.tokens(text).into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn builtin_analyzers_cut_as_their_names_say() {
        let text = "The Lion's 2 roar-sounds";
        assert_eq!(
            texts("lucene.standard", text),
            ["the", "lion's", "2", "roar", "sounds"]
        );
        assert_eq!(
            texts("lucene.simple", text),
            ["the", "lion", "s", "roar", "sounds"]
        );
        assert_eq!(
            texts("lucene.whitespace", text),
            ["The", "Lion's", "2", "roar-sounds"]
        );
        assert_eq!(texts("lucene.keyword", text), [text]);
        assert_eq!(
            texts("lucene.english", text),
            ["lion", "2", "roar", "sound"]
        );
        assert_eq!(texts("lucene.german", "die Häuser"), ["haus"]);
    }

    #[test]
    fn a_removed_word_leaves_a_gap() {
        let tokens = Analyzer::builtin("lucene.english")
            .expect("an analyzer")
            .tokens("fox of the wood");
        let places: Vec<u32> = tokens.iter().map(|t| t.position).collect();
        assert_eq!(places, [0, 3]);
    }

    #[test]
    fn a_long_word_becomes_several_tokens() {
        let tokens = Analyzer::standard().tokens(&"a".repeat(600));
        let lens: Vec<usize> = tokens.iter().map(|t| t.text.len()).collect();
        assert_eq!(lens, [255, 255, 90]);
    }
}
