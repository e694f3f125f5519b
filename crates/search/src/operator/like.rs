//! `moreLikeThis: {like, score}`: documents with the most significant words of one or more other
//! documents: words that are frequent in these and rare in the index.

use super::build::Build;
use super::score::apply_score;
use super::text::union_queries;
use crate::args::Args;
use crate::error::{index_error, invalid};
use crate::schema::TermKind;
use model::{Doc, Result, Value};
use std::collections::BTreeMap;
use tantivy::query::Query;

/// Most words of the query.
const WORDS_MAX: usize = 25;
/// Deepest nesting that is read.
const DEPTH_MAX: usize = 100;

/// Frequencies of words by path.
type Counts = BTreeMap<(String, String), u32>;

pub(super) fn more_like_this(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["like", "score"])?;
    if !b.scope().is_empty() {
        return Err(invalid(format!(
            "\"{path}\": moreLikeThis cannot be used in embeddedDocument"
        )));
    }
    let like = args.required("like")?;
    let each: Vec<Value<'_>> = match like {
        Value::Array(list) => list.iter().collect(),
        v => vec![v],
    };
    let mut counts = Counts::new();
    for v in &each {
        let Value::Document(doc) = v else {
            return Err(args.wrong_type("like", "a document or an array of documents", *v));
        };
        count_document(b, "", *doc, 0, &mut counts)?;
    }
    if each.is_empty() {
        return Err(invalid(format!("\"{path}.like\" cannot be empty")));
    }
    let mut words = Vec::new();
    for ((path, word), often) in counts {
        let term = b.index.fields().term(TermKind::Text, &path, &word);
        let having = b.view.searcher.doc_freq(&term);
        let having = having.map_err(|e| index_error("a term", &e))?;
        if having > 0 {
            let worth = often as f32 * b.stats(&path)?.rarity(having);
            words.push((worth, path, word));
        }
    }
    words.sort_by(|a, b| b.0.total_cmp(&a.0));
    words.truncate(WORDS_MAX);
    b.count_clauses(words.len())?;
    let each = words
        .iter()
        .map(|(_, path, word)| b.text_term(path, word, 1.0));
    apply_score(b, &args, union_queries(each.collect::<Result<_>>()?))
}

fn count_document(
    b: &Build<'_>,
    path: &str,
    doc: Doc<'_>,
    depth: usize,
    counts: &mut Counts,
) -> Result<()> {
    for (name, v) in doc.iter() {
        let path = match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        count_value(b, &path, v, depth + 1, counts)?;
    }
    Ok(())
}

fn count_value(
    b: &Build<'_>,
    path: &str,
    v: Value<'_>,
    depth: usize,
    counts: &mut Counts,
) -> Result<()> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    match v {
        Value::Document(doc) => count_document(b, path, doc, depth, counts),
        Value::Array(list) => list
            .iter()
            .try_for_each(|v| count_value(b, path, v, depth + 1, counts)),
        Value::String(text) => {
            let field = b.index.definition().string_at(path, None)?;
            for t in field.iter().flat_map(|f| f.index.tokens(text)) {
                *counts.entry((path.to_owned(), t.text)).or_default() += 1;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
