//! `compound: {must, mustNot, should, filter, minimumShouldMatch, score}`.

use super::build::Build;
use super::score::apply_score;
use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};
use tantivy::query::{BooleanQuery, ConstScoreQuery, Occur, Query};

pub(super) fn compound(
    b: &Build<'_>,
    path: &str,
    v: Value<'_>,
    depth: usize,
) -> Result<Box<dyn Query>> {
    let allowed = [
        "must",
        "mustNot",
        "should",
        "filter",
        "minimumShouldMatch",
        "score",
    ];
    let args = Args::new(path, v, &allowed)?;
    let clauses = |field: &str| -> Result<Vec<Box<dyn Query>>> {
        let list: Vec<Value<'_>> = match args.get(field) {
            None => return Ok(Vec::new()),
            Some(Value::Array(list)) => list.iter().collect(),
            Some(v) => vec![v],
        };
        if list.is_empty() {
            return Err(invalid(format!("\"{path}.{field}\" cannot be empty")));
        }
        let one = |v: &Value<'_>| {
            let spec = v
                .as_doc()
                .ok_or_else(|| args.wrong_type(field, "operators", *v))?;
            (b.operator)(b, &args.name(field), spec, depth + 1)
        };
        list.iter().map(one).collect()
    };
    let must = clauses("must")?;
    let must_not = b.build_excluded(|| clauses("mustNot"))?;
    let should = clauses("should")?;
    let filter = clauses("filter")?;
    if must.len() + must_not.len() + should.len() + filter.len() == 0 {
        return Err(invalid(format!(
            "\"{path}\" must have at least one of must, mustNot, should, filter"
        )));
    }
    let most = i64::try_from(should.len()).unwrap_or(i64::MAX);
    let least = args.integer("minimumShouldMatch", 0, most)?;
    let selects = !must.is_empty() || !filter.is_empty();
    let least = match least {
        Some(n) => usize::try_from(n).unwrap_or(0),
        None => usize::from(!selects && !should.is_empty()),
    };
    let mut all: Vec<(Occur, Box<dyn Query>)> = Vec::new();
    if !selects && least == 0 {
        // Without a selecting clause, start from all documents with score zero.
        all.push((Occur::Must, remove_score(b.all_documents())));
    }
    all.extend(must.into_iter().map(|q| (Occur::Must, q)));
    all.extend(filter.into_iter().map(|q| (Occur::Must, remove_score(q))));
    all.extend(must_not.into_iter().map(|q| (Occur::MustNot, q)));
    all.extend(should.into_iter().map(|q| (Occur::Should, q)));
    let query = BooleanQuery::with_minimum_required_clauses(all, least);
    apply_score(b, &args, Box::new(query))
}

fn remove_score(query: Box<dyn Query>) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(query, 0.0))
}
