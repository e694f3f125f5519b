//! Tokenizers: how a text is split.

use super::spec::{kind_of, parse_grams, parse_pattern};
use super::token::{Grams, Piece};
use crate::args::Args;
use crate::error::invalid;
use model::Result;
use regex::Regex;
use std::sync::OnceLock;
use unicode_segmentation::UnicodeSegmentation;

/// Default limit of characters in a token; longer tokens are split.
const TOKEN_CHARS_MAX: usize = 255;

#[derive(Clone, Debug)]
pub(super) enum Tokenizer {
    /// Words by the Unicode rules.
    Standard {
        longest: usize,
    },
    /// The same, with mail and web addresses kept whole.
    Addresses {
        longest: usize,
    },
    /// Runs of letters.
    Letters,
    Whitespace {
        longest: usize,
    },
    /// The whole text.
    Keyword,
    Grams(Grams),
    /// A capture group of each match.
    Captured(Regex, usize),
    /// The text between matches.
    Split(Regex),
}

impl Tokenizer {
    pub(super) const STANDARD: Tokenizer = Tokenizer::Standard {
        longest: TOKEN_CHARS_MAX,
    };
    pub(super) const WHITESPACE: Tokenizer = Tokenizer::Whitespace {
        longest: TOKEN_CHARS_MAX,
    };

    pub(super) fn cut(&self, text: &str) -> Vec<Piece> {
        match self {
            Tokenizer::Standard { longest } => words(0, text, *longest),
            Tokenizer::Addresses { longest } => addresses(text, *longest),
            Tokenizer::Letters => runs(text, |c| c.is_alphabetic(), TOKEN_CHARS_MAX),
            Tokenizer::Whitespace { longest } => runs(text, |c| !c.is_whitespace(), *longest),
            Tokenizer::Keyword => vec![(0, text.to_owned())],
            Tokenizer::Grams(grams) => grams.of(text),
            Tokenizer::Captured(pattern, group) => pattern
                .captures_iter(text)
                .filter_map(|c| c.get(*group))
                .filter(|m| !m.is_empty())
                .map(|m| (m.start(), m.as_str().to_owned()))
                .collect(),
            Tokenizer::Split(pattern) => {
                let (mut at, mut found) = (0, Vec::new());
                let ends = pattern.find_iter(text).map(|m| (m.start(), m.end()));
                for (start, end) in ends.chain([(text.len(), text.len())]) {
                    let piece = text.get(at..start).unwrap_or_default();
                    if !piece.is_empty() {
                        found.push((at, piece.to_owned()));
                    }
                    at = end;
                }
                found
            }
        }
    }

    /// Parses the `tokenizer` of an analyzer.
    pub(super) fn parse(args: &Args<'_>) -> Result<Tokenizer> {
        let (path, v) = (args.name("tokenizer"), args.required("tokenizer")?);
        let kind = kind_of(&path, v)?;
        let longest = || -> Result<usize> {
            let args = Args::new(&path, v, &["type", "maxTokenLength"])?;
            let n = args.integer("maxTokenLength", 1, i64::from(i32::MAX))?;
            let n = n.and_then(|n| usize::try_from(n).ok());
            Ok(n.unwrap_or(TOKEN_CHARS_MAX))
        };
        Ok(match kind {
            "standard" => Tokenizer::Standard {
                longest: longest()?,
            },
            "uaxUrlEmail" => Tokenizer::Addresses {
                longest: longest()?,
            },
            "whitespace" => Tokenizer::Whitespace {
                longest: longest()?,
            },
            "keyword" => Args::new(&path, v, &["type"]).map(|_| Tokenizer::Keyword)?,
            "edgeGram" | "nGram" => {
                let args = Args::new(&path, v, &["type", "minGram", "maxGram"])?;
                Tokenizer::Grams(parse_grams(&args, kind)?)
            }
            "regexCaptureGroup" => {
                let args = Args::new(&path, v, &["type", "pattern", "group"])?;
                let pattern = parse_pattern(&args)?;
                args.required("group")?;
                let most = i64::try_from(pattern.captures_len() - 1).unwrap_or(i64::MAX);
                let group = args.integer("group", 0, most)?.unwrap_or(0);
                Tokenizer::Captured(pattern, usize::try_from(group).unwrap_or(0))
            }
            "regexSplit" => {
                let args = Args::new(&path, v, &["type", "pattern"])?;
                Tokenizer::Split(parse_pattern(&args)?)
            }
            other => {
                return Err(invalid(format!(
                    "\"{path}.type\": there is no tokenizer \"{other}\""
                )));
            }
        })
    }
}

fn words(at: usize, text: &str, longest: usize) -> Vec<Piece> {
    let words = text.unicode_word_indices();
    words
        .flat_map(|(start, word)| pieces(at + start, word, longest))
        .collect()
}

/// The longest runs of characters that satisfy `of`.
fn runs(text: &str, of: impl Fn(char) -> bool, longest: usize) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut begun = None;
    for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
        let within = at < text.len() && of(c);
        match begun {
            None if within => begun = Some(at),
            Some(start) if !within => {
                let word = text.get(start..at).unwrap_or_default();
                found.extend(pieces(start, word, longest));
                begun = None;
            }
            _ => {}
        }
    }
    found
}

/// A word, split where it is longer than a token may be.
fn pieces(start: usize, word: &str, longest: usize) -> Vec<Piece> {
    if word.len() <= longest {
        return vec![(start, word.to_owned())];
    }
    let chars: Vec<char> = word.chars().collect();
    let mut at = start;
    let cut = chars.chunks(longest).map(|piece| {
        let piece: String = piece.iter().collect();
        let begin = at;
        at += piece.len();
        (begin, piece)
    });
    cut.collect()
}

/// Addresses kept whole, and the words between them.
fn addresses(text: &str, longest: usize) -> Vec<Piece> {
    static ADDRESS: OnceLock<Option<Regex>> = OnceLock::new();
    const MAIL: &str = r"[\w.!#$%&'*+/=?^`{|}~-]+@(?:[a-z0-9-]+\.)+[a-z0-9-]+";
    const WEB: &str = concat!(
        r"(?:https?|ftp|file)://[^\s<>\x22]+",
        r"|(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?::\d+)?(?:[/?#][^\s<>\x22]*)?"
    );
    let pattern = ADDRESS.get_or_init(|| Regex::new(&format!("(?i){MAIL}|{WEB}")).ok());
    let Some(pattern) = pattern else {
        return words(0, text, longest);
    };
    let (mut at, mut found) = (0, Vec::new());
    for m in pattern.find_iter(text) {
        found.extend(words(
            at,
            text.get(at..m.start()).unwrap_or_default(),
            longest,
        ));
        // Punctuation that ends a sentence is not part of an address.
        let address = m
            .as_str()
            .trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        found.extend(pieces(m.start(), address, longest));
        at = m.start() + address.len();
    }
    found.extend(words(at, text.get(at..).unwrap_or_default(), longest));
    found
}
