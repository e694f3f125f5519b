//! Character filters: changes of a text before it is split into tokens. Every character keeps its
//! range in the original text, so that highlights show the original.

use super::fold::fold_case;
use super::spec::kind_of;
use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};
use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// A changed text with the origins of its bytes.
pub(super) struct MappedText {
    pub(super) text: String,
    /// For each byte, the range of the original text it comes from.
    from: Vec<Range<usize>>,
}

#[derive(Clone, Debug)]
pub(super) enum CharFilter {
    /// Removes tags except for these, and replaces character references by characters.
    Html { kept: Vec<String> },
    /// One form for equivalent characters, in lower case.
    Normalize,
    /// Replaces strings, the longest first.
    Mapping(Vec<(String, String)>),
    /// Replaces the zero-width non-joiner by a space.
    Persian,
}

/// Inline elements; other tags end a word.
const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "b", "basefont", "bdo", "big", "cite", "code", "dfn", "em", "font",
    "i", "img", "input", "kbd", "label", "q", "s", "samp", "select", "small", "span", "strike",
    "strong", "sub", "sup", "textarea", "tt", "u", "var",
];
/// Elements whose text is not shown.
const HIDDEN: [&str; 2] = ["script", "style"];
const NAMES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("copy", '\u{a9}'),
    ("reg", '\u{ae}'),
    ("auml", '\u{e4}'),
    ("ouml", '\u{f6}'),
    ("uuml", '\u{fc}'),
    ("Auml", '\u{c4}'),
    ("Ouml", '\u{d6}'),
    ("Uuml", '\u{dc}'),
    ("szlig", '\u{df}'),
    ("eacute", '\u{e9}'),
    ("egrave", '\u{e8}'),
    ("agrave", '\u{e0}'),
    ("ccedil", '\u{e7}'),
    ("ntilde", '\u{f1}'),
    ("ndash", '\u{2013}'),
    ("mdash", '\u{2014}'),
    ("hellip", '\u{2026}'),
    ("lsquo", '\u{2018}'),
    ("rsquo", '\u{2019}'),
    ("ldquo", '\u{201c}'),
    ("rdquo", '\u{201d}'),
    ("euro", '\u{20ac}'),
];

impl MappedText {
    /// A text without changes.
    pub(super) fn map_unchanged(text: &str) -> MappedText {
        let mut whole = MappedText::empty();
        for (at, c) in text.char_indices() {
            whole.push(c.encode_utf8(&mut [0; 4]), at..at + c.len_utf8());
        }
        whole
    }

    fn empty() -> MappedText {
        MappedText {
            text: String::new(),
            from: Vec::new(),
        }
    }

    fn push(&mut self, piece: &str, from: Range<usize>) {
        self.text.push_str(piece);
        self.from.extend(std::iter::repeat_n(from, piece.len()));
    }

    /// The range of the original text for a range of this one.
    pub(super) fn origin(&self, start: usize, end: usize) -> Range<usize> {
        let first = self.from.get(start).or(self.from.last());
        let last = self.from.get(end.saturating_sub(1)).or(first);
        let first = first.map_or(0, |from| from.start);
        first..last.map_or(0, |from| from.end).max(first)
    }

    /// The text after a filter.
    pub(super) fn apply_filter(self, filter: &CharFilter) -> MappedText {
        let mut out = MappedText::empty();
        filter.change(&self.text, &mut |piece, start, end| {
            out.push(piece, self.origin(start, end));
        });
        out
    }
}

impl CharFilter {
    /// Calls `out` for each piece of the changed text, with the range of the input it comes from.
    fn change(&self, text: &str, out: &mut dyn FnMut(&str, usize, usize)) {
        match self {
            CharFilter::Html { kept } => strip(text, kept, out),
            CharFilter::Normalize => {
                for (at, cluster) in text.grapheme_indices(true) {
                    let piece: String = cluster.nfkc().collect();
                    let piece: String = fold_case(&piece).nfkc().collect();
                    out(&piece, at, at + cluster.len());
                }
            }
            CharFilter::Mapping(pairs) => {
                let mut at = 0;
                while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
                    let found = pairs.iter().find(|(from, _)| rest.starts_with(from));
                    let len = match found {
                        Some((from, to)) => {
                            out(to, at, at + from.len());
                            from.len()
                        }
                        None => one(rest, at, out),
                    };
                    at += len;
                }
            }
            CharFilter::Persian => {
                for (at, c) in text.char_indices() {
                    let c_or_space = if c == '\u{200c}' { ' ' } else { c };
                    let piece = c_or_space.to_string();
                    out(&piece, at, at + c.len_utf8());
                }
            }
        }
    }

    /// Parses an element of `charFilters`.
    pub(super) fn parse(path: &str, v: Value<'_>) -> Result<CharFilter> {
        match kind_of(path, v)? {
            "htmlStrip" => {
                let args = Args::new(path, v, &["type", "ignoredTags"])?;
                let kept = match args.get("ignoredTags") {
                    None => Vec::new(),
                    Some(Value::Array(list)) if list.is_empty() => Vec::new(),
                    Some(_) => args.strings("ignoredTags")?,
                };
                Ok(CharFilter::Html {
                    kept: kept.iter().map(|tag| tag.to_lowercase()).collect(),
                })
            }
            "icuNormalize" => Args::new(path, v, &["type"]).map(|_| CharFilter::Normalize),
            "persian" => Args::new(path, v, &["type"]).map(|_| CharFilter::Persian),
            "mapping" => {
                let args = Args::new(path, v, &["type", "mappings"])?;
                let v = args.required("mappings")?;
                let Value::Document(mappings) = v else {
                    return Err(args.wrong_type("mappings", "a document", v));
                };
                let mut pairs = Vec::new();
                for (from, to) in mappings.iter() {
                    let to = args.as_string(&format!("mappings.{from}"), to)?;
                    if from.is_empty() {
                        return Err(invalid(format!(
                            "\"{}\" cannot have an empty name",
                            args.name("mappings")
                        )));
                    }
                    pairs.push((from.to_owned(), to.to_owned()));
                }
                pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
                Ok(CharFilter::Mapping(pairs))
            }
            other => Err(invalid(format!(
                "\"{path}.type\": there is no character filter \"{other}\""
            ))),
        }
    }
}

/// Passes the first character to `out` and returns its length.
fn one(rest: &str, at: usize, out: &mut dyn FnMut(&str, usize, usize)) -> usize {
    let len = rest.chars().next().map_or(1, char::len_utf8);
    out(rest.get(..len).unwrap_or_default(), at, at + len);
    len
}

fn strip(text: &str, kept: &[String], out: &mut dyn FnMut(&str, usize, usize)) {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((len, name)) = tag(rest) {
            if kept.contains(&name) {
                out(rest.get(..len).unwrap_or_default(), at, at + len);
            } else if !name.is_empty() && !INLINE.contains(&name.as_str()) {
                out("\n", at, at + len);
            }
            at += len + hidden_length(rest, len, &name);
        } else if let Some((len, c)) = parse_reference(rest) {
            out(c.encode_utf8(&mut [0; 4]), at, at + len);
            at += len;
        } else {
            at += one(rest, at, out);
        }
    }
}

/// The length of the tag or comment at the start of a text, and the tag's name in lower case.
fn tag(rest: &str) -> Option<(usize, String)> {
    if rest.starts_with("<!--") {
        return Some((
            rest.find("-->").map_or(rest.len(), |n| n + 3),
            String::new(),
        ));
    }
    let inner = rest.strip_prefix('<')?;
    let inner = inner.strip_prefix('/').unwrap_or(inner);
    let named = inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?');
    let len = rest.find('>').filter(|_| named)? + 1;
    let name: String = inner
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '!' || *c == '?')
        .collect();
    Some((len, name.to_lowercase()))
}

/// Bytes of hidden text after an opening tag.
fn hidden_length(rest: &str, len: usize, name: &str) -> usize {
    if rest.starts_with("</") || !HIDDEN.contains(&name) {
        return 0;
    }
    let behind = rest.get(len..).unwrap_or_default();
    let end = behind.to_ascii_lowercase().find(&format!("</{name}"));
    end.unwrap_or(behind.len())
}

/// The length of the character reference at the start of a text, and its character.
fn parse_reference(rest: &str) -> Option<(usize, char)> {
    let inner = rest.strip_prefix('&')?;
    let end = inner.bytes().take(12).position(|b| b == b';')?;
    let name = inner.get(..end)?;
    let c = match name.strip_prefix('#') {
        Some(code) => {
            let hex = code.strip_prefix(['x', 'X']);
            let code = match hex {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => code.parse(),
            };
            char::from_u32(code.ok()?)?
        }
        None => NAMES.iter().find(|(n, _)| *n == name)?.1,
    };
    Some((end + 2, c))
}
