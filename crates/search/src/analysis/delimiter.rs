//! Splits words where letters, digits and other characters meet, and at capitals.

use super::fold::fold_case;
use super::token::{Token, replace_each};
use crate::args::Args;
use model::{Result, Value};

/// Where words are split and which parts are kept.
#[derive(Clone, Debug)]
pub(super) struct Delimiter {
    words: bool,
    numbers: bool,
    joined_words: bool,
    joined_numbers: bool,
    joined_all: bool,
    original: bool,
    at_case: bool,
    at_digits: bool,
    without_possessive: bool,
    skips_fixed: bool,
    protected: Vec<String>,
    protected_ignores_case: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
    None,
}

/// A part of a word, in bytes.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    is_number: bool,
}

impl Delimiter {
    pub(super) fn parse(path: &str, v: Value<'_>) -> Result<Delimiter> {
        let args = Args::new(path, v, &["type", "delimiterOptions", "protectedWords"])?;
        let names = [
            "generateWordParts",
            "generateNumberParts",
            "concatenateWords",
            "concatenateNumbers",
            "concatenateAll",
            "preserveOriginal",
            "splitOnCaseChange",
            "splitOnNumerics",
            "stemEnglishPossessive",
            "ignoreKeywords",
        ];
        let empty = model::DocBuf::new();
        let given = args
            .get("delimiterOptions")
            .unwrap_or(Value::Document(empty.doc()));
        let options = Args::new(&args.name("delimiterOptions"), given, &names)?;
        let on = |name: &str, or: bool| Ok(options.boolean(name)?.unwrap_or(or));
        let (mut protected, mut ignores_case) = (Vec::new(), true);
        if let Some(v) = args.get("protectedWords") {
            let name = args.name("protectedWords");
            let inner = Args::new(&name, v, &["words", "ignoreCase"])?;
            protected = inner.strings("words")?;
            ignores_case = inner.boolean("ignoreCase")?.unwrap_or(true);
        }
        Ok(Delimiter {
            words: on("generateWordParts", true)?,
            numbers: on("generateNumberParts", true)?,
            joined_words: on("concatenateWords", false)?,
            joined_numbers: on("concatenateNumbers", false)?,
            joined_all: on("concatenateAll", false)?,
            original: on("preserveOriginal", false)?,
            at_case: on("splitOnCaseChange", true)?,
            at_digits: on("splitOnNumerics", true)?,
            without_possessive: on("stemEnglishPossessive", true)?,
            skips_fixed: on("ignoreKeywords", false)?,
            protected: protected.into_iter().map(str::to_owned).collect(),
            protected_ignores_case: ignores_case,
        })
    }

    pub(super) fn apply(&self, tokens: &mut Vec<Token>) {
        replace_each(tokens, &|t| self.parts_of(t));
    }

    fn is_protected(&self, t: &Token) -> bool {
        let same = |word: &String| match self.protected_ignores_case {
            true => fold_case(word) == fold_case(&t.text),
            false => *word == t.text,
        };
        t.fixed && self.skips_fixed || self.protected.iter().any(same)
    }

    fn parts_of(&self, t: &Token) -> Vec<Token> {
        if self.is_protected(t) {
            return vec![t.clone()];
        }
        let parts = self.cut(&t.text);
        let whole = |p: &Part| p.start == 0 && p.end == t.text.len();
        if parts.first().is_some_and(whole) {
            return vec![t.clone()];
        }
        let mut made = Vec::new();
        if self.original {
            made.push(t.clone());
        }
        // While the text of a token is still that of the document, the positions of its parts are
        // exact.
        let exact = t.end.saturating_sub(t.start) == t.text.len();
        let token = |text: String, at: usize, first: &Part, last: &Part| Token {
            text,
            position: t.position + u32::try_from(at).unwrap_or(0),
            start: if exact {
                t.start + first.start
            } else {
                t.start
            },
            end: if exact { t.start + last.end } else { t.end },
            fixed: t.fixed,
        };
        let text_of = |p: &Part| t.text.get(p.start..p.end).unwrap_or_default();
        let mut begin = 0;
        let mut at = 0;
        for (n, part) in parts.iter().enumerate() {
            let kept = if part.is_number {
                self.numbers
            } else {
                self.words
            };
            if kept {
                made.push(token(text_of(part).to_owned(), at, part, part));
            }
            let next = parts.get(n + 1);
            let ends = next.is_none_or(|next| next.is_number != part.is_number);
            if ends {
                let run = parts.get(begin..=n).unwrap_or_default();
                let joined = if part.is_number {
                    self.joined_numbers
                } else {
                    self.joined_words
                };
                if joined
                    && (run.len() > 1 || !kept)
                    && let Some(first) = run.first()
                {
                    let text = run.iter().map(text_of).collect();
                    let place = if kept { at + 1 - run.len() } else { at };
                    made.push(token(text, place, first, part));
                }
                begin = n + 1;
            }
            at += usize::from(kept);
        }
        if self.joined_all
            && parts.len() > 1
            && let (Some(first), Some(last)) = (parts.first(), parts.last())
        {
            made.push(token(parts.iter().map(text_of).collect(), 0, first, last));
        }
        made.sort_by_key(|t| (t.position, std::cmp::Reverse(t.end)));
        made
    }

    fn cut(&self, text: &str) -> Vec<Part> {
        let text = match self.without_possessive {
            true => ["'s", "'S"]
                .iter()
                .find_map(|end| text.strip_suffix(end))
                .unwrap_or(text),
            false => text,
        };
        let kind = |c: char| match c {
            c if c.is_numeric() => Kind::Digit,
            c if c.is_uppercase() => Kind::Upper,
            c if c.is_alphabetic() => Kind::Lower,
            _ => Kind::None,
        };
        let mut parts: Vec<Part> = Vec::new();
        let mut before = Kind::None;
        for (at, c) in text.char_indices() {
            let now = kind(c);
            let ends = match (before, now) {
                (Kind::None, _) | (_, Kind::None) => true,
                (Kind::Lower, Kind::Upper) => self.at_case,
                (Kind::Digit, Kind::Digit) => false,
                (Kind::Digit, _) | (_, Kind::Digit) => self.at_digits,
                _ => false,
            };
            let end = at + c.len_utf8();
            if now != Kind::None {
                match parts.last_mut().filter(|_| !ends) {
                    Some(part) => {
                        part.end = end;
                        part.is_number &= now == Kind::Digit;
                    }
                    None => parts.push(Part {
                        start: at,
                        end,
                        is_number: now == Kind::Digit,
                    }),
                }
            }
            before = now;
        }
        parts
    }
}
