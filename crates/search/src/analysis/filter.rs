//! Token filters: changes of the tokens of a text.

use super::delimiter::Delimiter;
use super::fold::{fold_accents, fold_case};
use super::language;
use super::porter;
use super::soundex;
use super::spec::{kind_of, parse_grams, parse_pattern};
use super::token::{Grams, Token};
use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};
use regex::Regex;
use rust_stemmers::{Algorithm, Stemmer};
use std::collections::BTreeSet;
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;

/// Replaces a removed token in a shingle.
const FILLER: &str = "_";

#[derive(Clone, Debug)]
pub(super) enum Filter {
    Lowercase,
    /// Removes accents, beside the original tokens or in their place.
    Fold {
        with_originals: bool,
    },
    /// In lower case and without accents.
    FoldAll,
    Normalize(Form),
    Possessive,
    Stop {
        words: Arc<Vec<String>>,
        ignores_case: bool,
    },
    Stem(Algorithm),
    /// English stems by Porter's original rules.
    Porter,
    Length {
        min: usize,
        max: usize,
    },
    Trim,
    Reverse,
    Grams(Grams),
    /// Emits every token twice, the first one protected from stemmers.
    Repeat,
    Replace {
        pattern: Regex,
        with: String,
        all: bool,
    },
    /// Removes repeated tokens at the same position.
    Distinct,
    Shingles {
        min: usize,
        max: usize,
    },
    Soundex {
        with_originals: bool,
    },
    Delimit(Delimiter),
    /// Changes nothing: tokens are always a flat list.
    Flatten,
    /// Pairs of adjacent characters in scripts without spaces.
    Bigrams,
}

/// A Unicode normalization form.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

/// Removes stop words.
pub(super) fn stop(words: &[&str], ignores_case: bool) -> Filter {
    let words = words.iter().map(|w| match ignores_case {
        true => fold_case(w),
        false => (*w).to_owned(),
    });
    Filter::Stop {
        words: Arc::new(words.collect()),
        ignores_case,
    }
}

impl Filter {
    pub(super) fn apply(&self, tokens: &mut Vec<Token>) {
        let mut each = |f: &dyn Fn(&str) -> String| {
            tokens.iter_mut().for_each(|t| t.text = f(&t.text));
        };
        match self {
            Filter::Lowercase => each(&|t| t.to_lowercase()),
            Filter::Fold {
                with_originals: false,
            } => each(&fold_accents),
            Filter::Fold {
                with_originals: true,
            } => add_variants(tokens, &|t| vec![fold_accents(t)]),
            Filter::FoldAll => each(&|t| fold_accents(&fold_case(t))),
            Filter::Normalize(form) => each(&|t| match form {
                Form::Nfc => t.nfc().collect(),
                Form::Nfd => t.nfd().collect(),
                Form::Nfkc => t.nfkc().collect(),
                Form::Nfkd => t.nfkd().collect(),
            }),
            Filter::Possessive => each(&|t| {
                let ends = ["'s", "'S", "\u{2019}s", "\u{2019}S"];
                let cut = ends.iter().find_map(|end| t.strip_suffix(end));
                cut.unwrap_or(t).to_owned()
            }),
            Filter::Trim => each(&|t| t.trim().to_owned()),
            Filter::Reverse => each(&|t| t.chars().rev().collect()),
            Filter::Stem(algorithm) => {
                let stemmer = Stemmer::create(*algorithm);
                for t in tokens.iter_mut().filter(|t| !t.fixed) {
                    t.text = stemmer.stem(&t.text).into_owned();
                }
            }
            Filter::Porter => {
                for t in tokens.iter_mut().filter(|t| !t.fixed) {
                    t.text = porter::stem(&t.text);
                }
            }
            Filter::Replace { pattern, with, all } => each(&|t| {
                let done = match all {
                    true => pattern.replace_all(t, with.as_str()),
                    false => pattern.replace(t, with.as_str()),
                };
                done.into_owned()
            }),
            Filter::Soundex { with_originals } => {
                let codes = |t: &str| soundex::codes(t);
                match with_originals {
                    true => add_variants(tokens, &codes),
                    false => {
                        *tokens = tokens
                            .iter()
                            .flat_map(|t| with_texts(t, codes(&t.text)))
                            .collect()
                    }
                }
            }
            Filter::Delimit(delimiter) => delimiter.apply(tokens),
            Filter::Flatten => {}
            other => other.change_number(tokens),
        }
    }

    /// Filters that remove or add tokens.
    fn change_number(&self, tokens: &mut Vec<Token>) {
        match self {
            Filter::Stop {
                words,
                ignores_case,
            } => tokens.retain(|t| match ignores_case {
                true => !words.contains(&fold_case(&t.text)),
                false => !words.contains(&t.text),
            }),
            Filter::Length { min, max } => {
                tokens.retain(|t| (*min..=*max).contains(&t.text.chars().count()));
            }
            Filter::Distinct => {
                let mut seen = BTreeSet::new();
                tokens.retain(|t| seen.insert((t.position, t.text.clone())));
            }
            Filter::Grams(grams) => {
                // Each part has the range of its token, because earlier filters may have changed
                // the text.
                let cut = |t: &Token| {
                    let texts = grams.of(&t.text).into_iter().map(|(_, text)| text);
                    with_texts(t, texts.collect())
                };
                *tokens = tokens.iter().flat_map(cut).collect();
            }
            Filter::Repeat => {
                let twice = |t: &Token| {
                    let fixed = Token {
                        fixed: true,
                        ..t.clone()
                    };
                    [fixed, t.clone()]
                };
                *tokens = tokens.iter().flat_map(twice).collect();
            }
            Filter::Shingles { min, max } => shingles(tokens, *min, *max),
            Filter::Bigrams => bigrams(tokens),
            _ => {}
        }
    }

    /// Parses an element of `tokenFilters`.
    pub(super) fn parse(path: &str, v: Value<'_>) -> Result<Filter> {
        let plain = |filter| Args::new(path, v, &["type"]).map(|_| filter);
        match kind_of(path, v)? {
            "lowercase" => plain(Filter::Lowercase),
            "asciiFolding" => Ok(Filter::Fold {
                with_originals: with_originals(path, v, false)?,
            }),
            "icuFolding" => plain(Filter::FoldAll),
            "daitchMokotoffSoundex" => Ok(Filter::Soundex {
                with_originals: with_originals(path, v, true)?,
            }),
            "englishPossessive" => plain(Filter::Possessive),
            "flattenGraph" => plain(Filter::Flatten),
            "keywordRepeat" => plain(Filter::Repeat),
            "removeDuplicates" => plain(Filter::Distinct),
            "trim" => plain(Filter::Trim),
            "reverse" => plain(Filter::Reverse),
            "porterStemming" => plain(Filter::Porter),
            "wordDelimiterGraph" => Delimiter::parse(path, v).map(Filter::Delimit),
            kind @ ("edgeGram" | "nGram") => {
                let allowed = ["type", "minGram", "maxGram", "termNotInBounds"];
                let args = Args::new(path, v, &allowed)?;
                parse_grams(&args, kind).map(Filter::Grams)
            }
            kind => parse_with_options(path, v, kind),
        }
    }
}

fn parse_with_options(path: &str, v: Value<'_>, kind: &str) -> Result<Filter> {
    let number = |args: &Args<'_>, field: &str, min: i64, or: i64| -> Result<usize> {
        let n = args.integer(field, min, 255)?.unwrap_or(or);
        Ok(usize::try_from(n).unwrap_or(0))
    };
    match kind {
        "snowballStemming" => {
            let args = Args::new(path, v, &["type", "stemmerName"])?;
            let name = args.as_string("stemmerName", args.required("stemmerName")?)?;
            let found = language::stemmer(name).map(Filter::Stem);
            found.ok_or_else(|| invalid(format!("\"{path}.stemmerName\": no stemmer \"{name}\"")))
        }
        "icuNormalizer" => {
            let args = Args::new(path, v, &["type", "normalizationForm"])?;
            let form = args.word("normalizationForm", &["nfc", "nfd", "nfkc", "nfkd"])?;
            Ok(Filter::Normalize(match form {
                Some("nfd") => Form::Nfd,
                Some("nfkc") => Form::Nfkc,
                Some("nfkd") => Form::Nfkd,
                _ => Form::Nfc,
            }))
        }
        "length" => {
            let args = Args::new(path, v, &["type", "min", "max"])?;
            Ok(Filter::Length {
                min: number(&args, "min", 0, 0)?,
                max: number(&args, "max", 0, 255)?,
            })
        }
        "regex" => {
            let args = Args::new(path, v, &["type", "pattern", "replacement", "matches"])?;
            args.required("matches")?;
            Ok(Filter::Replace {
                pattern: parse_pattern(&args)?,
                with: args
                    .as_string("replacement", args.required("replacement")?)?
                    .to_owned(),
                all: args.word("matches", &["all", "first"])? == Some("all"),
            })
        }
        "shingle" => {
            let args = Args::new(path, v, &["type", "minShingleSize", "maxShingleSize"])?;
            args.required("minShingleSize")?;
            args.required("maxShingleSize")?;
            let min = number(&args, "minShingleSize", 2, 2)?;
            let max = number(&args, "maxShingleSize", 2, 2)?;
            if min > max {
                return Err(invalid(format!(
                    "\"{path}.minShingleSize\" is {min}, which is more than maxShingleSize, {max}"
                )));
            }
            Ok(Filter::Shingles { min, max })
        }
        "stopword" => {
            let args = Args::new(path, v, &["type", "tokens", "ignoreCase"])?;
            let ignores_case = args.boolean("ignoreCase")?.unwrap_or(true);
            Ok(stop(&args.strings("tokens")?, ignores_case))
        }
        other => Err(invalid(format!(
            "\"{path}.type\": the token filter \"{other}\" is not supported"
        ))),
    }
}

fn with_originals(path: &str, v: Value<'_>, or: bool) -> Result<bool> {
    let args = Args::new(path, v, &["type", "originalTokens"])?;
    let word = args.word("originalTokens", &["include", "omit"])?;
    Ok(word.map_or(or, |word| word == "include"))
}

/// Tokens with the given texts at the position of one token.
fn with_texts(t: &Token, texts: Vec<String>) -> Vec<Token> {
    let each = texts.into_iter().map(|text| Token { text, ..t.clone() });
    each.collect()
}

/// Adds the texts made of each token before it, unless they are equal to it.
fn add_variants(tokens: &mut Vec<Token>, make: &dyn Fn(&str) -> Vec<String>) {
    let both = |t: &Token| {
        let made = make(&t.text).into_iter().filter(|text| *text != t.text);
        let mut all = with_texts(t, made.collect());
        all.push(t.clone());
        all
    };
    *tokens = tokens.iter().flat_map(both).collect();
}

/// Tokens, and each run of `min` to `max` tokens joined by spaces.
fn shingles(tokens: &mut Vec<Token>, min: usize, max: usize) {
    let mut line: Vec<Token> = Vec::new();
    for t in tokens.iter() {
        let next = line.last().map_or(t.position, |l| l.position + 1);
        // One filler for each position of a removed token, and none at a position with a token.
        for position in next..t.position {
            line.push(Token {
                text: FILLER.to_owned(),
                position,
                start: t.start,
                end: t.start,
                fixed: false,
            });
        }
        if line.last().is_none_or(|l| l.position < t.position) {
            line.push(t.clone());
        }
    }
    let mut all = Vec::new();
    for (at, first) in line.iter().enumerate() {
        if first.text != FILLER {
            all.push(first.clone());
        }
        for size in min..=max {
            let Some(run) = line.get(at..at + size) else {
                break;
            };
            let words: Vec<&str> = run.iter().map(|t| t.text.as_str()).collect();
            all.push(Token {
                text: words.join(" "),
                end: run.last().map_or(first.end, |t| t.end),
                ..first.clone()
            });
        }
    }
    *tokens = all;
}

/// Whether it is one Chinese, Japanese or Korean character.
fn is_cjk(text: &str) -> bool {
    let cjk = |c: char| {
        matches!(c, '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{30ff}'
            | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{2fa1f}')
    };
    !text.is_empty() && text.chars().all(cjk)
}

/// Adjacent characters in scripts without spaces become pairs; a single one is kept.
fn bigrams(tokens: &mut Vec<Token>) {
    let mut chars: Vec<Token> = Vec::new();
    for t in tokens.drain(..) {
        if !is_cjk(&t.text) {
            chars.push(t);
            continue;
        }
        let mut at = t.start;
        for c in t.text.chars() {
            let start = at;
            at += c.len_utf8();
            chars.push(Token {
                text: c.to_string(),
                start,
                end: at,
                ..t.clone()
            });
        }
    }
    let touch = |a: &Token, b: &Token| is_cjk(&a.text) && is_cjk(&b.text) && a.end == b.start;
    let mut paired = false;
    for (at, t) in chars.iter().enumerate() {
        let next = chars.get(at + 1).filter(|next| touch(t, next));
        let position = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        if let Some(next) = next {
            tokens.push(Token {
                text: format!("{}{}", t.text, next.text),
                position,
                end: next.end,
                ..t.clone()
            });
        } else if !paired {
            tokens.push(Token {
                position,
                ..t.clone()
            });
        }
        paired = next.is_some();
    }
}
