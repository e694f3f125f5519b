//! Operators over texts: text, phrase, autocomplete, wildcard, regex.

use super::build::Build;
use super::path::{TextPath, read_field_keys, texts};
use super::score::apply_score;
use crate::analysis::Token;
use crate::args::Args;
use crate::definition::FieldKind;
use crate::error::{index_error, invalid};
use crate::marked::HighlightTerm;
use crate::matching::{MatcherQuery, Phrase, Terms, TextStats, TokenTest};
use crate::schema::{TermKind, shown_path};
use crate::synonyms::Synonyms;
use model::{Result, Value};
use std::collections::BTreeMap;
use tantivy::query::{BooleanQuery, Occur, Query};

/// Most bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The differences allowed in a word.
#[derive(Clone, Copy)]
pub(super) struct Fuzzy {
    pub(super) edits: usize,
    /// Number of characters at the start that must be equal.
    pub(super) prefix: usize,
    /// Most words that are searched.
    pub(super) expansions: usize,
}

fn parse_fuzzy(args: &Args<'_>) -> Result<Option<Fuzzy>> {
    let Some(v) = args.get("fuzzy") else {
        return Ok(None);
    };
    let allowed = ["maxEdits", "prefixLength", "maxExpansions"];
    let fuzzy = Args::new(&args.name("fuzzy"), v, &allowed)?;
    let number = |field: &str, min: i64, max: i64, or: usize| -> Result<usize> {
        let n = fuzzy.integer(field, min, max)?;
        Ok(n.and_then(|n| usize::try_from(n).ok()).unwrap_or(or))
    };
    Ok(Some(Fuzzy {
        edits: number("maxEdits", 1, 2, 2)?,
        prefix: number("prefixLength", 0, i64::from(i32::MAX), 0)?,
        expansions: number("maxExpansions", 1, 1000, 50)?,
    }))
}

/// Any of several queries; the scores of all that match are added.
pub(super) fn union_queries(queries: Vec<Box<dyn Query>>) -> Box<dyn Query> {
    Box::new(BooleanQuery::union(queries))
}

pub(super) fn intersect_queries(queries: Vec<Box<dyn Query>>) -> Box<dyn Query> {
    let required = queries.into_iter().map(|q| (Occur::Must, q));
    Box::new(BooleanQuery::new(required.collect()))
}

/// `text: {query, path, fuzzy, matchCriteria, synonyms, score}`.
pub(super) fn text(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let allowed = [
        "query",
        "path",
        "fuzzy",
        "matchCriteria",
        "synonyms",
        "score",
    ];
    let args = Args::new(path, v, &allowed)?;
    let queries = args.strings("query")?;
    let fuzzy = parse_fuzzy(&args)?;
    let synonyms = args.string("synonyms")?;
    if synonyms.is_some() && fuzzy.is_some() {
        return Err(invalid(format!(
            "\"{path}\" cannot have both fuzzy and synonyms"
        )));
    }
    let synonyms = synonyms.map(|name| b.synonyms(path, name)).transpose()?;
    let every = args.word("matchCriteria", &["any", "all"])? == Some("all");
    let mut found = Vec::new();
    for at in texts(b, &args)? {
        for query in &queries {
            let tokens = at.field.search.tokens(query);
            b.count_clauses(tokens.len())?;
            if tokens.is_empty() {
                continue;
            }
            let words = match &synonyms {
                Some(synonyms) => with_synonyms(b, &at.key, &tokens, synonyms)?,
                None => tokens
                    .iter()
                    .map(|t| word(b, &at.key, &t.text, fuzzy))
                    .collect::<Result<Vec<_>>>()?,
            };
            found.push(if every {
                intersect_queries(words)
            } else {
                union_queries(words)
            });
        }
    }
    apply_score(b, &args, union_queries(found))
}

/// Texts with the words or with their synonyms.
fn with_synonyms(
    b: &Build<'_>,
    path: &str,
    tokens: &[Token],
    synonyms: &Synonyms,
) -> Result<Vec<Box<dyn Query>>> {
    let (mut found, mut rest) = (Vec::new(), tokens);
    while let Some((first, behind)) = rest.split_first() {
        let Some((words, others)) = synonyms.find(rest) else {
            found.push(b.text_term(path, &first.text, 1.0)?);
            rest = behind;
            continue;
        };
        let mut each = Vec::new();
        for other in others {
            b.count_clauses(other.len())?;
            each.extend(match other.as_slice() {
                [one] => Some(b.text_term(path, &one.text, 1.0)?),
                several => phrase_at(b, TermKind::Text, path, several, 0)?,
            });
        }
        found.push(union_queries(each));
        rest = rest.get(words..).unwrap_or_default();
    }
    Ok(found)
}

/// Texts with a word, or with a similar one.
pub(super) fn word(
    b: &Build<'_>,
    path: &str,
    token: &str,
    fuzzy: Option<Fuzzy>,
) -> Result<Box<dyn Query>> {
    let Some(fuzzy) = fuzzy else {
        return b.text_term(path, token, 1.0);
    };
    let fixed: String = token.chars().take(fuzzy.prefix).collect();
    let terms = Terms {
        field: b.index.fields().terms,
        prefix: TermKind::Text.text(path, &fixed),
        test: TokenTest::All,
        score: 1.0,
    };
    let wanted: Vec<char> = token.chars().collect();
    let mut near: BTreeMap<String, usize> = BTreeMap::new();
    for segment in b.view.searcher.segment_readers() {
        terms
            .visit_terms(segment, &mut |rest, _| {
                let other = format!("{fixed}{rest}");
                let chars: Vec<char> = other.chars().collect();
                if let Some(edits) = distance(&wanted, &chars, fuzzy.edits) {
                    near.insert(other, edits);
                }
                Ok(())
            })
            .map_err(|e| index_error("terms", &e))?;
    }
    let mut near: Vec<(usize, String)> = near.into_iter().map(|(t, n)| (n, t)).collect();
    near.sort();
    near.truncate(fuzzy.expansions);
    let queries = near.iter().map(|(edits, other)| {
        let shorter = wanted.len().min(other.chars().count()).max(1);
        let worth = (1.0 - *edits as f32 / shorter as f32).max(0.0);
        b.text_term(path, other, worth)
    });
    Ok(union_queries(queries.collect::<Result<_>>()?))
}

/// Edit distance of two words, where swapping two adjacent letters is one edit; `None` above
/// `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j + 1) + 1)
                .min(at(&row, j) + 1)
                .min(at(&last, j) + usize::from(x != y));
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|n| *n <= most)
}

/// `phrase: {query, path, slop, score}`.
pub(super) fn phrase(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["query", "path", "slop", "score"])?;
    let queries = args.strings("query")?;
    let slop = args.integer("slop", 0, i64::from(i32::MAX))?.unwrap_or(0);
    let slop = u32::try_from(slop).unwrap_or(0);
    let mut found = Vec::new();
    for at in texts(b, &args)? {
        for query in &queries {
            let tokens = at.field.search.tokens(query);
            b.count_clauses(tokens.len())?;
            found.extend(phrase_at(b, TermKind::Text, &at.key, &tokens, slop)?);
        }
    }
    apply_score(b, &args, union_queries(found))
}

/// Texts with the tokens at their distances; `None` without tokens.
pub(super) fn phrase_at(
    b: &Build<'_>,
    kind: TermKind,
    path: &str,
    tokens: &[Token],
    slop: u32,
) -> Result<Option<Box<dyn Query>>> {
    let stats = match kind {
        TermKind::Text => b.stats(path)?,
        _ => TextStats {
            texts: 1,
            average: 1.0,
            norms: true,
            frequencies: true,
            weighed: true,
        },
    };
    let first = tokens.first().map_or(0, |t| t.position);
    if kind == TermKind::Text {
        b.check_positions(path)?;
        b.mark(path, HighlightTerm::Phrase(tokens.to_vec(), slop));
    }
    let (mut terms, mut weight) = (Vec::new(), 0.0);
    for t in tokens {
        let term = b.index.fields().term(kind, path, &t.text);
        let having = b.view.searcher.doc_freq(&term);
        weight += stats.rarity(having.map_err(|e| index_error("a term", &e))?);
        terms.push((term, t.position - first));
    }
    Ok((!terms.is_empty()).then(|| {
        MatcherQuery::new_boxed(Phrase {
            terms,
            path: path.to_owned(),
            slop,
            stats,
            weight,
        })
    }))
}

/// `autocomplete: {query, path, tokenOrder, score}`.
pub(super) fn autocomplete(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["query", "path", "tokenOrder", "score"])?;
    let queries = args.strings("query")?;
    let sequential = args.word("tokenOrder", &["any", "sequential"])? == Some("sequential");
    let mut found = Vec::new();
    for path in read_field_keys(b, &args)? {
        let path = path.as_str();
        for kind in b.index.definition().kinds_at(path) {
            let FieldKind::Autocomplete(analyzer) = kind else {
                continue;
            };
            let words = analyzer.without_grams();
            for query in &queries {
                let mut tokens = words.tokens(query);
                b.count_clauses(tokens.len())?;
                tokens
                    .iter_mut()
                    .for_each(|t| t.text = analyzer.longest_gram(&t.text));
                for t in &tokens {
                    b.mark(path, HighlightTerm::Piece(t.text.clone()));
                }
                if sequential {
                    found.extend(phrase_at(b, TermKind::Gram, path, &tokens, 0)?);
                } else if !tokens.is_empty() {
                    let each = tokens
                        .iter()
                        .map(|t| b.plain_term(TermKind::Gram, path, &t.text));
                    found.push(union_queries(each.collect()));
                }
            }
        }
    }
    apply_score(b, &args, union_queries(found))
}

/// `wildcard: {query, path, allowAnalyzedField, score}`: `*` matches any characters, `?` one
/// character, a backslash escapes the next character.
pub(super) fn wildcard(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    patterns(b, path, v, &pattern_of_wildcard)
}

/// The regular expression of a wildcard pattern.
pub(super) fn pattern_of_wildcard(query: &str) -> String {
    let (mut pattern, mut chars) = (String::new(), query.chars());
    while let Some(c) = chars.next() {
        match c {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            '\\' => pattern.push_str(&regex::escape(&String::from(chars.next().unwrap_or(c)))),
            c => pattern.push_str(&regex::escape(&String::from(c))),
        }
    }
    pattern
}

/// `regex: {query, path, allowAnalyzedField, score}`: the pattern must match a whole term.
pub(super) fn regex(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    // Lucene's patterns have no anchors: these characters are literal.
    let literal = |query: &str| query.replace('^', "\\^").replace('$', "\\$");
    patterns(b, path, v, &|query| match query.contains('[') {
        true => query.to_owned(),
        false => literal(query),
    })
}

fn patterns(
    b: &Build<'_>,
    path: &str,
    v: Value<'_>,
    translate: &dyn Fn(&str) -> String,
) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["query", "path", "allowAnalyzedField", "score"])?;
    let queries = args.strings("query")?;
    let analyzed = args.boolean("allowAnalyzedField")?.unwrap_or(false);
    let paths = texts(b, &args)?;
    let mut found = Vec::new();
    for TextPath { key, field } in &paths {
        if !analyzed && !field.index.keeps_whole() {
            return Err(invalid(format!(
                "\"{path}\" looks at whole values, and {} is analyzed: allow it by \
                 allowAnalyzedField, or index the field by lucene.keyword",
                shown_path(key)
            )));
        }
        for query in &queries {
            let pattern = format!("(?s)^(?:{})$", translate(query));
            let compiled = regex::RegexBuilder::new(&pattern)
                .size_limit(PATTERN_BYTES_MAX)
                .build();
            let compiled = compiled.map_err(|_| {
                invalid(format!(
                    "\"{}\" is no usable pattern: {query}",
                    args.name("query")
                ))
            })?;
            found.push(b.tokens(TermKind::Text, key, TokenTest::Matching(compiled)));
        }
    }
    apply_score(b, &args, union_queries(found))
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn edits_are_counted_with_changed_places_as_one() {
        let of = |a: &str, b: &str, most| {
            let chars = |s: &str| s.chars().collect::<Vec<char>>();
            distance(&chars(a), &chars(b), most)
        };
        assert_eq!(of("quick", "quick", 1), Some(0));
        assert_eq!(of("quick", "qiuck", 1), Some(1), "changed places");
        assert_eq!(of("quick", "quik", 1), Some(1));
        assert_eq!(of("quick", "brick", 1), None);
        assert_eq!(of("quick", "brick", 2), Some(2));
    }
}
