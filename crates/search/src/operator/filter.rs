//! `filter` of `$vectorSearch`: a query in MongoDB's language over fields that are indexed for
//! filters.

use super::build::Build;
use super::value::{Limits, build_exists, build_range, equal};
use crate::args::Args;
use crate::error::invalid;
use model::{Array, Doc, Result, Value};
use tantivy::query::{AllQuery, BooleanQuery, Occur, Query};

/// Deepest nesting of `$and` and similar.
const DEPTH_MAX: usize = 100;

/// The query of a filter.
///
/// # Errors
/// 8 UnknownError: a field that is not indexed for filters, an operator that is not allowed.
pub(crate) fn build_filter(b: &Build<'_>, spec: Doc<'_>, depth: usize) -> Result<Box<dyn Query>> {
    if depth > DEPTH_MAX {
        return Err(invalid(format!(
            "\"filter\" may be nested {DEPTH_MAX} deep at most"
        )));
    }
    let mut all = Vec::new();
    for (name, v) in spec.iter() {
        all.push(match (name, v) {
            ("$and", Value::Array(list)) => intersect_queries(build_filters(b, list, depth)?),
            ("$or", Value::Array(list)) => some(build_filters(b, list, depth)?),
            ("$nor", Value::Array(list)) => negate_query(some(build_filters(b, list, depth)?)),
            (name, _) if name.starts_with('$') => {
                return Err(invalid(format!(
                    "\"filter\": {name} is not allowed here, only $and, $or and $nor with arrays"
                )));
            }
            (name, v) => field(b, name, v, depth)?,
        });
    }
    Ok(intersect_queries(all))
}

fn build_filters(b: &Build<'_>, list: Array<'_>, depth: usize) -> Result<Vec<Box<dyn Query>>> {
    if list.is_empty() {
        return Err(invalid(
            "\"filter\": $and, $or and $nor need at least one filter",
        ));
    }
    let one = |v: Value<'_>| match v {
        Value::Document(d) => build_filter(b, d, depth + 1),
        v => Err(invalid(format!(
            "\"filter\": $and, $or and $nor take documents, not {}",
            v.type_name()
        ))),
    };
    list.iter().map(one).collect()
}

fn intersect_queries(queries: Vec<Box<dyn Query>>) -> Box<dyn Query> {
    if queries.is_empty() {
        return Box::new(AllQuery);
    }
    let all = queries.into_iter().map(|q| (Occur::Must, q));
    Box::new(BooleanQuery::new(all.collect()))
}

fn some(queries: Vec<Box<dyn Query>>) -> Box<dyn Query> {
    Box::new(BooleanQuery::union(queries))
}

fn negate_query(query: Box<dyn Query>) -> Box<dyn Query> {
    Box::new(BooleanQuery::new(vec![
        (Occur::Must, Box::new(AllQuery)),
        (Occur::MustNot, query),
    ]))
}

fn field(b: &Build<'_>, path: &str, v: Value<'_>, depth: usize) -> Result<Box<dyn Query>> {
    if b.index.definition().kinds_at(path).is_empty() {
        return Err(invalid(format!(
            "Path '{path}' needs to be indexed as filter"
        )));
    }
    let operators = match v {
        Value::Document(d) if d.first().is_some_and(|(name, _)| name.starts_with('$')) => d,
        v => return value(b, path, v),
    };
    let args = Args {
        path: format!("filter.{path}"),
        doc: operators,
    };
    let mut all = Vec::new();
    for (name, v) in operators.iter() {
        let below = |v| Limits {
            max: Some((v, name == "$lte")),
            ..Limits::default()
        };
        let above = |v| Limits {
            min: Some((v, name == "$gte")),
            ..Limits::default()
        };
        all.push(match (name, v) {
            ("$eq", v) => value(b, path, v)?,
            ("$ne", v) => negate_query(value(b, path, v)?),
            ("$gt" | "$gte", v) => build_range(b, &args, path, &above(v))?,
            ("$lt" | "$lte", v) => build_range(b, &args, path, &below(v))?,
            ("$in" | "$nin", Value::Array(list)) => {
                let any = list.iter().map(|v| value(b, path, v));
                let any = some(any.collect::<Result<_>>()?);
                if name == "$in" {
                    any
                } else {
                    negate_query(any)
                }
            }
            ("$exists", v) => {
                let there = build_exists(b, path)?;
                if v.truthy() {
                    there
                } else {
                    negate_query(there)
                }
            }
            ("$not", v @ Value::Document(_)) if depth <= DEPTH_MAX => {
                negate_query(field(b, path, v, depth + 1)?)
            }
            _ => {
                return Err(invalid(format!(
                    "\"filter.{path}\": {name} with {} is not allowed. Allowed are $eq, $ne, $gt, \
                     $gte, $lt, $lte, $in, $nin, $exists, $not",
                    v.type_name()
                )));
            }
        });
    }
    Ok(intersect_queries(all))
}

fn value(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args {
        path: format!("filter.{path}"),
        doc: Doc::EMPTY,
    };
    equal(b, &args, path, v)
}
