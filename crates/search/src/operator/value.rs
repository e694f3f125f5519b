//! Operators on values that are not analyzed: equals, in, range, near, exists.

use super::build::Build;
use super::geo::near_place;
use super::path::read_field_keys;
use super::score::apply_score;
use crate::args::Args;
use crate::error::invalid;
use crate::matching::{ColumnTest, Columns, MatcherQuery, Scoring, TokenTest};
use crate::schema::{ColumnKind, TermKind, whole_value};
use model::{Result, Value};
use std::ops::Bound;
use tantivy::query::{BooleanQuery, ConstScoreQuery, Query};

/// Documents with this value at a path.
///
/// # Errors
/// 8 UnknownError for a value of a type without equality.
pub(super) fn equal(
    b: &Build<'_>,
    args: &Args<'_>,
    path: &str,
    v: Value<'_>,
) -> Result<Box<dyn Query>> {
    if let Some((kind, token)) = whole_value(&v) {
        let lowercase = b.index.definition().lowercases(path);
        return Ok(match kind {
            TermKind::Token if lowercase => b.plain_term(kind, path, &token.to_lowercase()),
            _ => b.plain_term(kind, path, &token),
        });
    }
    let test = match v {
        Value::Date(ms) => ColumnTest::Dates(Bound::Included(ms), Bound::Included(ms)),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) => {
            let n = v.as_f64().unwrap_or(f64::NAN);
            ColumnTest::Numbers(Bound::Included(n), Bound::Included(n))
        }
        v => {
            let wanted = "a boolean, objectId, number, date, uuid, string or null";
            return Err(args.wrong_type("value", wanted, v));
        }
    };
    Ok(column(path, test, Scoring::Constant(1.0)))
}

fn column(path: &str, test: ColumnTest, scoring: Scoring) -> Box<dyn Query> {
    let path = path.to_owned();
    MatcherQuery::new_boxed(Columns {
        path,
        test,
        scoring,
    })
}

/// Any of several queries, with one score however many match.
fn union_queries(queries: Vec<Box<dyn Query>>) -> Box<dyn Query> {
    Box::new(ConstScoreQuery::new(
        Box::new(BooleanQuery::union(queries)),
        1.0,
    ))
}

/// `equals: {path, value, score}`.
pub(super) fn equals(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["path", "value", "score"])?;
    let Some(value) = args.doc.get("value") else {
        return Err(invalid(format!("\"{path}.value\" is required")));
    };
    let paths = read_field_keys(b, &args)?;
    let found = paths.iter().map(|p| equal(b, &args, p, value));
    apply_score(b, &args, union_queries(found.collect::<Result<_>>()?))
}

/// `in: {path, value, score}`: the value or any value of the array.
pub(super) fn build_in(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["path", "value", "score"])?;
    let value = args.required("value")?;
    let values: Vec<Value<'_>> = match value {
        Value::Array(list) => list.iter().collect(),
        v => vec![v],
    };
    if values.is_empty() {
        return Err(invalid(format!("\"{path}.value\" cannot be empty")));
    }
    let mut found = Vec::new();
    for p in read_field_keys(b, &args)? {
        for v in &values {
            found.push(equal(b, &args, &p, *v)?);
        }
    }
    apply_score(b, &args, union_queries(found))
}

/// `exists: {path, score}`.
pub(super) fn exists(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["path", "score"])?;
    let Some(field) = args.string("path")? else {
        return Err(invalid(format!("\"{path}.path\" is required")));
    };
    apply_score(b, &args, build_exists(b, field)?)
}

/// Documents with a value at or below a path.
pub(super) fn build_exists(b: &Build<'_>, field: &str) -> Result<Box<dyn Query>> {
    let below = format!("{field}.");
    let mut paths = b.paths(&below)?;
    paths.push(field.to_owned());
    let each = paths.iter().map(|p| {
        let key = b.key(p)?;
        Ok(b.plain_term(TermKind::Exists, &key, ""))
    });
    Ok(union_queries(each.collect::<Result<_>>()?))
}

/// The bounds of a range: values of one type, with whether they are inclusive.
#[derive(Default)]
pub(super) struct Limits<'d> {
    pub(super) min: Option<(Value<'d>, bool)>,
    pub(super) max: Option<(Value<'d>, bool)>,
}

/// `range: {path, gt, gte, lt, lte, score}`.
pub(super) fn range(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let allowed = ["path", "gt", "gte", "lt", "lte", "score"];
    let args = Args::new(path, v, &allowed)?;
    let one_of = |strict: &str, loose: &str| -> Result<Option<(Value<'_>, bool)>> {
        match (args.get(strict), args.get(loose)) {
            (Some(_), Some(_)) => Err(invalid(format!(
                "\"{path}\" cannot have both {strict} and {loose}"
            ))),
            (Some(v), None) => Ok(Some((v, false))),
            (None, v) => Ok(v.map(|v| (v, true))),
        }
    };
    let limits = Limits {
        min: one_of("gt", "gte")?,
        max: one_of("lt", "lte")?,
    };
    if limits.min.is_none() && limits.max.is_none() {
        return Err(invalid(format!(
            "\"{path}\" must have at least one of gt, gte, lt, lte"
        )));
    }
    let paths = read_field_keys(b, &args)?;
    let found = paths.iter().map(|p| build_range(b, &args, p, &limits));
    apply_score(b, &args, union_queries(found.collect::<Result<_>>()?))
}

fn bound<T>(limit: Option<(Value<'_>, bool)>, read: impl Fn(Value<'_>) -> T) -> Bound<T> {
    match limit {
        None => Bound::Unbounded,
        Some((v, true)) => Bound::Included(read(v)),
        Some((v, false)) => Bound::Excluded(read(v)),
    }
}

/// Documents with a value between two values of one type.
///
/// # Errors
/// 8 UnknownError for values of a type without ranges, or of two types.
pub(super) fn build_range(
    b: &Build<'_>,
    args: &Args<'_>,
    path: &str,
    limits: &Limits<'_>,
) -> Result<Box<dyn Query>> {
    let given = [limits.min, limits.max];
    let all = |f: &dyn Fn(&Value<'_>) -> bool| given.iter().flatten().all(|(v, _)| f(v));
    let number = |v: &Value<'_>| matches!(v, Value::Int32(_) | Value::Int64(_) | Value::Double(_));
    if all(&number) {
        let read = |v: Value<'_>| v.as_f64().unwrap_or(f64::NAN);
        let test = ColumnTest::Numbers(bound(limits.min, read), bound(limits.max, read));
        return Ok(column(path, test, Scoring::Constant(1.0)));
    }
    if all(&|v| matches!(v, Value::Date(_))) {
        let read = |v: Value<'_>| match v {
            Value::Date(ms) => ms,
            _ => 0,
        };
        let test = ColumnTest::Dates(bound(limits.min, read), bound(limits.max, read));
        return Ok(column(path, test, Scoring::Constant(1.0)));
    }
    let kinds: Vec<TermKind> = given
        .iter()
        .flatten()
        .filter_map(|(v, _)| whole_value(v).map(|(kind, _)| kind))
        .collect();
    let ordered = [TermKind::Token, TermKind::ObjectId];
    match kinds.first() {
        Some(kind) if ordered.contains(kind) && all(&|v| kind_of(v) == Some(*kind)) => {
            let read = |v: Value<'_>| whole_value(&v).map(|(_, t)| t).unwrap_or_default();
            let test = TokenTest::Within(bound(limits.min, read), bound(limits.max, read));
            Ok(b.tokens(*kind, path, test))
        }
        _ => Err(invalid(format!(
            "the bounds of \"{}\" must be of one type: numbers, dates, strings or objectIds",
            args.path
        ))),
    }
}

fn kind_of(v: &Value<'_>) -> Option<TermKind> {
    whole_value(v).map(|(kind, _)| kind)
}

/// `near: {path, origin, pivot, score}` over numbers, dates (the pivot in milliseconds) and points
/// (in metres).
pub(super) fn near(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["path", "origin", "pivot", "score"])?;
    let origin = args.required("origin")?;
    args.required("pivot")?;
    let pivot = args.number("pivot")?.unwrap_or(0.0);
    if pivot <= 0.0 {
        return Err(invalid(format!(
            "\"{path}.pivot\" must be greater than zero, not {pivot}"
        )));
    }
    let (kind, origin) = match origin {
        Value::Date(ms) => (ColumnKind::Date, ms as f64),
        Value::Int32(_) | Value::Int64(_) | Value::Double(_) => {
            (ColumnKind::Number, origin.as_f64().unwrap_or(0.0))
        }
        Value::Document(d) => return apply_score(b, &args, near_place(b, &args, d, pivot)?),
        v => return Err(args.wrong_type("origin", "a number, a date or a point", v)),
    };
    let scoring = Scoring::Near { origin, pivot };
    let paths = read_field_keys(b, &args)?;
    let each = paths
        .iter()
        .map(|p| column(p, ColumnTest::Any(kind), scoring));
    apply_score(b, &args, Box::new(BooleanQuery::union(each.collect())))
}
