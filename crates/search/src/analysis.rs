//! From text to tokens: the analyzers by name and those a definition builds. Positions count
//! tokens, removed ones included, so that phrases keep their gaps. Must not know: fields, indexes.

use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};
use rust_stemmers::{Algorithm, Stemmer};
use std::collections::HashMap;
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Characters of a token; longer ones are cut into pieces.
const TOKEN_CHARS_MAX: usize = 255;

/// English words that say nothing, as Lucene leaves them out.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// A term and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Tokens before it.
    pub(crate) position: u32,
    /// Bytes of the text before it, and before what follows it.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A piece of a text and where it begins, bytes.
type Piece = (usize, String);

/// Cuts text into tokens and changes them.
#[derive(Clone, Debug)]
pub(crate) struct Analyzer {
    tokenizer: Tokenizer,
    filters: Vec<Filter>,
}

#[derive(Clone, Debug)]
enum Tokenizer {
    /// Words by the rules of Unicode.
    Standard,
    /// Runs of letters.
    Letters,
    Whitespace,
    /// The whole text.
    Keyword,
    /// All pieces of so many characters; from the beginning only.
    Grams {
        min: usize,
        max: usize,
        edge: bool,
    },
}

#[derive(Clone, Debug)]
enum Filter {
    Lowercase,
    /// Without accents.
    Fold,
    Possessive,
    Stop(Arc<Vec<String>>),
    Stem(Algorithm),
    Length {
        min: usize,
        max: usize,
    },
    Trim,
    Reverse,
    Grams {
        min: usize,
        max: usize,
        edge: bool,
    },
}

/// The analyzers a definition may name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Analyzers(HashMap<String, Analyzer>);

impl Analyzer {
    pub(crate) fn standard() -> Analyzer {
        Analyzer {
            tokenizer: Tokenizer::Standard,
            filters: vec![Filter::Lowercase],
        }
    }

    /// For `autocomplete`: pieces of the text or of its words.
    pub(crate) fn grams(min: usize, max: usize, edge: bool, fold: bool) -> Analyzer {
        let mut filters = vec![Filter::Lowercase];
        if fold {
            filters.push(Filter::Fold);
        }
        filters.push(Filter::Grams { min, max, edge });
        Analyzer {
            tokenizer: Tokenizer::Standard,
            filters,
        }
    }

    /// The same without the last step: what a query for pieces looks for.
    pub(crate) fn without_grams(&self) -> Analyzer {
        let mut words = self.clone();
        words.filters.retain(|f| !matches!(f, Filter::Grams { .. }));
        words
    }

    /// The longest piece that is kept of a word.
    pub(crate) fn longest_gram(&self, word: &str) -> String {
        let max = self.filters.iter().find_map(|f| match f {
            Filter::Grams { max, .. } => Some(*max),
            _ => None,
        });
        word.chars().take(max.unwrap_or(usize::MAX)).collect()
    }

    /// True when a text becomes one token as it is.
    pub(crate) fn keeps_whole(&self) -> bool {
        matches!(self.tokenizer, Tokenizer::Keyword)
    }

    /// The tokens of a text.
    pub(crate) fn tokens(&self, text: &str) -> Vec<Token> {
        let mut tokens: Vec<Token> = Vec::new();
        for (position, (start, text)) in (0u32..).zip(self.tokenizer.cut(text)) {
            let end = start + text.len();
            tokens.push(Token {
                text,
                position,
                start,
                end,
            });
        }
        for filter in &self.filters {
            filter.apply(&mut tokens);
        }
        tokens
    }

    /// An analyzer the language comes with.
    fn builtin(name: &str) -> Option<Analyzer> {
        let of = |tokenizer, filters| Some(Analyzer { tokenizer, filters });
        match name {
            "lucene.standard" => Some(Analyzer::standard()),
            "lucene.simple" => of(Tokenizer::Letters, vec![Filter::Lowercase]),
            "lucene.whitespace" => of(Tokenizer::Whitespace, vec![]),
            "lucene.keyword" => of(Tokenizer::Keyword, vec![]),
            "lucene.english" => of(
                Tokenizer::Standard,
                vec![
                    Filter::Possessive,
                    Filter::Lowercase,
                    stop(STOP_WORDS),
                    Filter::Stem(Algorithm::English),
                ],
            ),
            _ => {
                let language = name.strip_prefix("lucene.")?;
                let words = stop_words::lookup(stop_code(language)?)?;
                of(
                    Tokenizer::Standard,
                    vec![
                        Filter::Lowercase,
                        stop(words),
                        Filter::Stem(stemmer(language)?),
                    ],
                )
            }
        }
    }
}

fn stop(words: &[&str]) -> Filter {
    Filter::Stop(Arc::new(words.iter().map(|w| (*w).to_owned()).collect()))
}

fn stop_code(language: &str) -> Option<&'static str> {
    const CODES: &[(&str, &str)] = &[
        ("arabic", "ar"),
        ("danish", "da"),
        ("dutch", "nl"),
        ("finnish", "fi"),
        ("french", "fr"),
        ("german", "de"),
        ("greek", "el"),
        ("hungarian", "hu"),
        ("italian", "it"),
        ("norwegian", "no"),
        ("portuguese", "pt"),
        ("romanian", "ro"),
        ("russian", "ru"),
        ("spanish", "es"),
        ("swedish", "sv"),
        ("turkish", "tr"),
    ];
    let found = CODES.iter().find(|(name, _)| *name == language);
    found.map(|(_, code)| *code)
}

fn stemmer(language: &str) -> Option<Algorithm> {
    Some(match language {
        "arabic" => Algorithm::Arabic,
        "danish" => Algorithm::Danish,
        "dutch" => Algorithm::Dutch,
        "english" => Algorithm::English,
        "finnish" => Algorithm::Finnish,
        "french" => Algorithm::French,
        "german" => Algorithm::German,
        "greek" => Algorithm::Greek,
        "hungarian" => Algorithm::Hungarian,
        "italian" => Algorithm::Italian,
        "norwegian" => Algorithm::Norwegian,
        "portuguese" => Algorithm::Portuguese,
        "romanian" => Algorithm::Romanian,
        "russian" => Algorithm::Russian,
        "spanish" => Algorithm::Spanish,
        "swedish" => Algorithm::Swedish,
        "turkish" => Algorithm::Turkish,
        _ => return None,
    })
}

impl Tokenizer {
    fn cut(&self, text: &str) -> Vec<Piece> {
        match self {
            Tokenizer::Standard => text
                .unicode_word_indices()
                .flat_map(|(start, word)| pieces(start, word))
                .collect(),
            Tokenizer::Letters => runs(text, |c| c.is_alphabetic()),
            Tokenizer::Whitespace => runs(text, |c| !c.is_whitespace()),
            Tokenizer::Keyword => vec![(0, text.to_owned())],
            Tokenizer::Grams { min, max, edge } => grams(text, *min, *max, *edge),
        }
    }
}

/// The longest runs of characters of a kind.
fn runs(text: &str, of: impl Fn(char) -> bool) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut begun = None;
    for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
        let within = at < text.len() && of(c);
        match begun {
            None if within => begun = Some(at),
            Some(start) if !within => {
                let word = text.get(start..at).unwrap_or_default();
                found.extend(pieces(start, word));
                begun = None;
            }
            _ => {}
        }
    }
    found
}

/// A word, cut where it is longer than a token may be.
fn pieces(start: usize, word: &str) -> Vec<Piece> {
    if word.len() <= TOKEN_CHARS_MAX {
        return vec![(start, word.to_owned())];
    }
    let chars: Vec<char> = word.chars().collect();
    let mut at = start;
    let cut = chars.chunks(TOKEN_CHARS_MAX).map(|piece| {
        let piece: String = piece.iter().collect();
        let begin = at;
        at += piece.len();
        (begin, piece)
    });
    cut.collect()
}

fn grams(text: &str, min: usize, max: usize, edge: bool) -> Vec<Piece> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let starts = if edge { 1 } else { chars.len() };
    let mut found = Vec::new();
    for start in 0..starts {
        let rest = chars.get(start..).unwrap_or_default();
        for len in min..=max.min(rest.len()) {
            let piece = rest.get(..len).unwrap_or_default();
            let begin = piece.first().map_or(0, |(at, _)| *at);
            found.push((begin, piece.iter().map(|(_, c)| *c).collect()));
        }
    }
    found
}

impl Filter {
    fn apply(&self, tokens: &mut Vec<Token>) {
        let mut each = |f: &dyn Fn(&str) -> String| {
            tokens.iter_mut().for_each(|t| t.text = f(&t.text));
        };
        match self {
            Filter::Lowercase => each(&|t| t.to_lowercase()),
            Filter::Fold => each(&|t| t.nfkd().filter(|c| !is_combining_mark(*c)).collect()),
            Filter::Possessive => each(&|t| {
                let ends = ["'s", "'S", "\u{2019}s", "\u{2019}S"];
                let cut = ends.iter().find_map(|end| t.strip_suffix(end));
                cut.unwrap_or(t).to_owned()
            }),
            Filter::Trim => each(&|t| t.trim().to_owned()),
            Filter::Reverse => each(&|t| t.chars().rev().collect()),
            Filter::Stem(algorithm) => {
                let stemmer = Stemmer::create(*algorithm);
                each(&|t| stemmer.stem(t).into_owned());
            }
            Filter::Stop(words) => tokens.retain(|t| !words.contains(&t.text)),
            Filter::Length { min, max } => {
                tokens.retain(|t| (*min..=*max).contains(&t.text.chars().count()));
            }
            Filter::Grams { min, max, edge } => {
                // Each is said to be where its token is: filters before may have changed that.
                let cut = |t: &Token| {
                    let (texts, whole) = (grams(&t.text, *min, *max, *edge), t.clone());
                    texts.into_iter().map(move |(_, text)| Token {
                        text,
                        ..whole.clone()
                    })
                };
                *tokens = tokens.iter().flat_map(cut).collect();
            }
        }
    }
}

impl Analyzers {
    /// From the definition's list.
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
            if let Some(Value::Array(chars)) = args.get("charFilters")
                && !chars.is_empty()
            {
                return Err(invalid(format!(
                    "\"{path}.charFilters\": character filters are not supported"
                )));
            }
            let tokenizer = parse_tokenizer(&args)?;
            let mut filters = Vec::new();
            if let Some(v) = args.get("tokenFilters") {
                let Value::Array(list) = v else {
                    return Err(args.wrong_type("tokenFilters", "an array", v));
                };
                for (n, v) in list.iter().enumerate() {
                    filters.push(parse_filter(&format!("{path}.tokenFilters[{n}]"), v)?);
                }
            }
            all.insert(name.to_owned(), Analyzer { tokenizer, filters });
        }
        Ok(Analyzers(all))
    }

    /// The analyzer of that name.
    pub(crate) fn find(&self, path: &str, name: &str) -> Result<Analyzer> {
        let found = self.0.get(name).cloned();
        found
            .or_else(|| Analyzer::builtin(name))
            .ok_or_else(|| invalid(format!("\"{path}\": there is no analyzer \"{name}\"")))
    }
}

const GRAM_FIELDS: [&str; 4] = ["type", "minGram", "maxGram", "termNotInBounds"];

fn parse_grams(args: &Args<'_>) -> Result<(usize, usize)> {
    let bound = |field: &str| -> Result<usize> {
        args.required(field)?;
        let n = args.integer(field, 1, 255)?.unwrap_or(1);
        Ok(usize::try_from(n).unwrap_or(1))
    };
    let (min, max) = (bound("minGram")?, bound("maxGram")?);
    if min > max {
        return Err(invalid(format!(
            "\"{}\" is {min}, which is more than maxGram, {max}",
            args.name("minGram")
        )));
    }
    Ok((min, max))
}

fn kind_of<'d>(path: &str, v: Value<'d>) -> Result<&'d str> {
    let kind = v.as_doc().and_then(|d| d.field("type").as_str());
    kind.ok_or_else(|| invalid(format!("\"{path}.type\" is required, a string")))
}

fn parse_tokenizer(args: &Args<'_>) -> Result<Tokenizer> {
    let (path, v) = (args.name("tokenizer"), args.required("tokenizer")?);
    Ok(match kind_of(&path, v)? {
        "standard" => Args::new(&path, v, &["type"]).map(|_| Tokenizer::Standard)?,
        "whitespace" => Args::new(&path, v, &["type"]).map(|_| Tokenizer::Whitespace)?,
        "keyword" => Args::new(&path, v, &["type"]).map(|_| Tokenizer::Keyword)?,
        kind @ ("edgeGram" | "nGram") => {
            let (min, max) = parse_grams(&Args::new(&path, v, &GRAM_FIELDS[..3])?)?;
            let edge = kind == "edgeGram";
            Tokenizer::Grams { min, max, edge }
        }
        other => {
            return Err(invalid(format!(
                "\"{path}.type\": the tokenizer \"{other}\" is not supported"
            )));
        }
    })
}

fn parse_filter(path: &str, v: Value<'_>) -> Result<Filter> {
    let plain = |filter| Args::new(path, v, &["type"]).map(|_| filter);
    match kind_of(path, v)? {
        "lowercase" => plain(Filter::Lowercase),
        "asciiFolding" | "icuFolding" => plain(Filter::Fold),
        "englishPossessive" => plain(Filter::Possessive),
        "trim" => plain(Filter::Trim),
        "reverse" => plain(Filter::Reverse),
        "porterStemming" => plain(Filter::Stem(Algorithm::English)),
        "snowballStemming" => {
            let args = Args::new(path, v, &["type", "stemmerName"])?;
            let name = args.as_string("stemmerName", args.required("stemmerName")?)?;
            let found = stemmer(name).map(Filter::Stem);
            found.ok_or_else(|| invalid(format!("\"{path}.stemmerName\": no stemmer \"{name}\"")))
        }
        "length" => {
            let args = Args::new(path, v, &["type", "min", "max"])?;
            let bound = |field: &str, or: i64| -> Result<usize> {
                let n = args.integer(field, 0, 255)?.unwrap_or(or);
                Ok(usize::try_from(n).unwrap_or(0))
            };
            let (min, max) = (bound("min", 0)?, bound("max", 255)?);
            Ok(Filter::Length { min, max })
        }
        "stopword" => {
            let args = Args::new(path, v, &["type", "tokens"])?;
            let words = args.strings("tokens")?;
            Ok(stop(&words))
        }
        kind @ ("edgeGram" | "nGram") => {
            let (min, max) = parse_grams(&Args::new(path, v, &GRAM_FIELDS[..3])?)?;
            let edge = kind == "edgeGram";
            Ok(Filter::Grams { min, max, edge })
        }
        other => Err(invalid(format!(
            "\"{path}.type\": the token filter \"{other}\" is not supported"
        ))),
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
