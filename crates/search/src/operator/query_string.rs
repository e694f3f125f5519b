//! `queryString: {defaultPath, query, score}`: words, phrases and patterns in fields, joined by
//! AND, OR and NOT, each with an optional boost after `^`. Adjacent parts are joined by OR.

use super::build::Build;
use super::score::apply_score;
use super::text::{Fuzzy, intersect_queries, pattern_of_wildcard, phrase_at, union_queries, word};
use crate::args::Args;
use crate::error::invalid;
use crate::matching::TokenTest;
use crate::schema::TermKind;
use model::{Result, Value};
use std::ops::Bound;
use tantivy::query::{BooleanQuery, BoostQuery, EmptyQuery, Occur, Query};

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq)]
enum QueryToken {
    Open,
    Close,
    And,
    Or,
    Not,
    Plus,
    Minus,
    /// `name:`
    Field(String),
    /// With the number after `~`.
    Phrase(String, Option<u32>),
    Term(String, Option<u32>),
    /// `[a TO b]`, `{a TO b}`: bounds; `*` means no bound.
    Range(Bound<String>, Bound<String>),
    /// `/pattern/`
    Pattern(String),
    /// `^2`: the boost of the part before it.
    Worth(f32),
}

pub(super) fn query_string(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["defaultPath", "query", "score"])?;
    let default = args.as_string("defaultPath", args.required("defaultPath")?)?;
    let query = args.as_string("query", args.required("query")?)?;
    if default.is_empty() || query.trim().is_empty() {
        return Err(invalid(format!(
            "\"{path}\": defaultPath and query cannot be empty"
        )));
    }
    let words = words(query).ok_or_else(|| unreadable(query))?;
    let mut parser = Parser {
        b,
        words: &words,
        at: 0,
    };
    let found = parser.parse_alternatives(&b.key(default)?, 0)?;
    match found {
        Some(found) if parser.at == words.len() => apply_score(b, &args, found),
        _ => Err(unreadable(query)),
    }
}

fn unreadable(query: &str) -> model::MongoError {
    invalid(format!(
        "\"queryString.query\" cannot be read: {query}. Allowed are words, \"phrases\", a:word, \
         /patterns/, [a TO b], word^2, AND, OR, NOT and parentheses"
    ))
}

/// A pattern that must match whole tokens.
fn compile_pattern(pattern: &str) -> Result<regex::Regex> {
    let compiled = regex::Regex::new(&format!("(?s)^(?:{pattern})$"));
    compiled.map_err(|_| unreadable(pattern))
}

/// Splits a query into words; `None` if a quote or a bracket is not closed.
fn words(query: &str) -> Option<Vec<QueryToken>> {
    let mut found = Vec::new();
    let mut rest = query.trim_start();
    while let Some(c) = rest.chars().next() {
        let one = |word| (word, rest.get(c.len_utf8()..).unwrap_or_default());
        let (word, left) = match c {
            '(' => one(QueryToken::Open),
            ')' => one(QueryToken::Close),
            '+' => one(QueryToken::Plus),
            '-' => one(QueryToken::Minus),
            '!' => one(QueryToken::Not),
            '^' => {
                let number = rest.get(1..)?;
                let end = number.find(|c: char| !c.is_ascii_digit() && c != '.');
                let (number, left) = number.split_at(end.unwrap_or(number.len()));
                let worth = number.parse::<f32>().ok()?;
                (QueryToken::Worth(worth), left)
            }
            '/' => {
                let (pattern, left) = rest.get(1..)?.split_once('/')?;
                (QueryToken::Pattern(pattern.to_owned()), left)
            }
            '"' => {
                let (text, left) = rest.get(1..)?.split_once('"')?;
                let (slop, left) = tilde(left);
                (QueryToken::Phrase(text.to_owned(), slop), left)
            }
            '[' | '{' => {
                let end = rest.find([']', '}'])?;
                let (min, max) = rest.get(1..end)?.split_once(" TO ")?;
                let bound = |text: &str, within: bool| match (text.trim(), within) {
                    ("*", _) => Bound::Unbounded,
                    (text, true) => Bound::Included(text.to_lowercase()),
                    (text, false) => Bound::Excluded(text.to_lowercase()),
                };
                let closed = rest.get(end..)?.starts_with(']');
                let range = QueryToken::Range(bound(min, c == '['), bound(max, closed));
                (range, rest.get(end + 1..)?)
            }
            _ => plain_word(rest),
        };
        found.push(word);
        rest = left.trim_start();
    }
    Some(found)
}

fn plain_word(rest: &str) -> (QueryToken, &str) {
    let (mut text, mut chars) = (String::new(), rest.char_indices());
    while let Some((at, c)) = chars.next() {
        let behind = rest.get(at + c.len_utf8()..).unwrap_or_default();
        match c {
            '\\' => match chars.next() {
                // The backslash is kept: it may escape a character of a pattern.
                Some((_, next)) => text.extend(['\\', next]),
                None => text.push(c),
            },
            ':' => return (QueryToken::Field(text), behind),
            '~' => {
                let (edits, behind) = tilde(rest.get(at..).unwrap_or_default());
                return (QueryToken::Term(text, edits), behind);
            }
            c if c.is_whitespace() || "()\"^".contains(c) => {
                return (classify_word(text), rest.get(at..).unwrap_or_default());
            }
            c => text.push(c),
        }
    }
    (classify_word(text), "")
}

fn classify_word(text: String) -> QueryToken {
    match text.as_str() {
        "AND" | "&&" => QueryToken::And,
        "OR" | "||" => QueryToken::Or,
        "NOT" => QueryToken::Not,
        _ => QueryToken::Term(text, None),
    }
}

/// `~` and a number, by default 2.
fn tilde(rest: &str) -> (Option<u32>, &str) {
    let Some(behind) = rest.strip_prefix('~') else {
        return (None, rest);
    };
    let digits = behind.find(|c: char| !c.is_ascii_digit());
    let (number, left) = behind.split_at(digits.unwrap_or(behind.len()));
    (Some(number.parse().unwrap_or(2)), left)
}

struct Parser<'p, 'i> {
    b: &'p Build<'i>,
    words: &'p [QueryToken],
    at: usize,
}

impl Parser<'_, '_> {
    fn peek(&self) -> Option<&QueryToken> {
        self.words.get(self.at)
    }

    fn take(&mut self, word: &QueryToken) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    /// Alternatives, joined by OR or nothing; `+` and `-` require and exclude.
    fn parse_alternatives(&mut self, path: &str, depth: usize) -> Result<Option<Box<dyn Query>>> {
        if depth > DEPTH_MAX {
            return Err(invalid(format!(
                "\"queryString.query\": parentheses may be {DEPTH_MAX} deep at most"
            )));
        }
        let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        while self.peek().is_some_and(|w| *w != QueryToken::Close) {
            if !clauses.is_empty() {
                self.take(&QueryToken::Or);
            }
            let occur = match self.peek() {
                Some(QueryToken::Plus) => Occur::Must,
                Some(QueryToken::Minus) => Occur::MustNot,
                _ => Occur::Should,
            };
            self.at += usize::from(occur != Occur::Should);
            match self.parse_conjunction(path, depth)? {
                Some(query) => clauses.push((occur, query)),
                None => return Ok(None),
            }
        }
        let selects = clauses.iter().any(|(occur, _)| *occur != Occur::MustNot);
        Ok(match clauses.len() {
            0 => None,
            // A query with only exclusions matches nothing.
            _ if !selects => Some(Box::new(EmptyQuery)),
            _ => Some(Box::new(BooleanQuery::new(clauses))),
        })
    }

    /// Parts joined by AND, some of them negated by NOT.
    fn parse_conjunction(&mut self, path: &str, depth: usize) -> Result<Option<Box<dyn Query>>> {
        let mut clauses = Vec::new();
        loop {
            let occur = match self.take(&QueryToken::Not) {
                true => Occur::MustNot,
                false => Occur::Must,
            };
            match self.one(path, depth)? {
                Some(query) => clauses.push((occur, query)),
                None => return Ok(None),
            }
            let goes_on = self.take(&QueryToken::And) || self.peek() == Some(&QueryToken::Not);
            if !goes_on {
                break;
            }
        }
        Ok(
            match clauses.iter().any(|(occur, _)| *occur == Occur::Must) {
                true => Some(Box::new(BooleanQuery::new(clauses))),
                false => Some(Box::new(EmptyQuery)),
            },
        )
    }

    fn one(&mut self, path: &str, depth: usize) -> Result<Option<Box<dyn Query>>> {
        let Some(found) = self.parse_term(path, depth)? else {
            return Ok(None);
        };
        let Some(QueryToken::Worth(worth)) = self.peek().cloned() else {
            return Ok(Some(found));
        };
        self.at += 1;
        Ok(Some(Box::new(BoostQuery::new(found, worth))))
    }

    fn parse_term(&mut self, path: &str, depth: usize) -> Result<Option<Box<dyn Query>>> {
        let Some(word) = self.peek().cloned() else {
            return Ok(None);
        };
        self.at += 1;
        match word {
            QueryToken::Field(path) => self.parse_term(&self.b.key(&path)?, depth),
            QueryToken::Pattern(pattern) => {
                let test = TokenTest::Matching(compile_pattern(&pattern)?);
                Ok(Some(self.b.tokens(TermKind::Text, path, test)))
            }
            QueryToken::Open => {
                let found = self.parse_alternatives(path, depth + 1)?;
                Ok(found.filter(|_| self.take(&QueryToken::Close)))
            }
            QueryToken::Phrase(text, slop) => {
                let Some(field) = self.b.index.definition().string_at(path, None)? else {
                    return Ok(Some(Box::new(EmptyQuery)));
                };
                let tokens = field.search.tokens(&text);
                self.b.count_clauses(tokens.len())?;
                let slop = slop.unwrap_or(0);
                let found = phrase_at(self.b, TermKind::Text, path, &tokens, slop)?;
                Ok(found.or_else(|| Some(Box::new(EmptyQuery))))
            }
            QueryToken::Range(min, max) => {
                let test = TokenTest::Within(min, max);
                Ok(Some(self.b.tokens(TermKind::Text, path, test)))
            }
            QueryToken::Term(text, edits) => self.term(path, &text, edits).map(Some),
            _ => Ok(None),
        }
    }

    fn term(&self, path: &str, text: &str, edits: Option<u32>) -> Result<Box<dyn Query>> {
        let Some(field) = self.b.index.definition().string_at(path, None)? else {
            return Ok(Box::new(EmptyQuery));
        };
        let plain = text.replace('\\', "");
        if edits.is_none() && plain.contains(['*', '?']) {
            let pattern = pattern_of_wildcard(&text.to_lowercase());
            let test = TokenTest::Matching(compile_pattern(&pattern)?);
            return Ok(self.b.tokens(TermKind::Text, path, test));
        }
        let fuzzy = edits.filter(|n| *n > 0).map(|n| Fuzzy {
            edits: n.min(2) as usize,
            prefix: 0,
            expansions: 50,
        });
        let tokens = field.search.tokens(&plain);
        self.b.count_clauses(tokens.len())?;
        let each = tokens.iter().map(|t| word(self.b, path, &t.text, fuzzy));
        let each: Vec<Box<dyn Query>> = each.collect::<Result<_>>()?;
        Ok(match each.len() {
            0 => Box::new(EmptyQuery),
            1 => union_queries(each),
            _ => intersect_queries(each),
        })
    }
}
