//! The operators of `$search`: from a specification to a query of tantivy. Each family of operators
//! has a file; this one finds the operator by its name. Errors: 8 UnknownError throughout. Must not
//! know: stages, collections.

mod build;
mod compound;
mod embedded;
mod filter;
mod geo;
mod like;
mod path;
mod query_string;
mod score;
mod span;
mod text;
mod value;

pub(crate) use build::Build;
pub(crate) use filter::build_filter;
pub(crate) use path::texts;

use crate::error::invalid;
use crate::index::{Index, View};
use model::{Doc, Result, Value};
use tantivy::query::Query;

/// Deepest `compound` in `compound`.
const DEPTH_MAX: usize = 100;

/// Builds the query of one operator; the last argument is its depth.
type BuildOperator = fn(&Build<'_>, &str, Value<'_>, usize) -> Result<Box<dyn Query>>;

/// Every operator.
const OPERATORS: &[(&str, BuildOperator)] = &[
    ("autocomplete", |b, path, v, _| {
        text::autocomplete(b, path, v)
    }),
    ("compound", compound::compound),
    ("embeddedDocument", embedded::embedded_document),
    ("equals", |b, path, v, _| value::equals(b, path, v)),
    ("exists", |b, path, v, _| value::exists(b, path, v)),
    ("geoShape", |b, path, v, _| geo::geo_shape(b, path, v)),
    ("geoWithin", |b, path, v, _| geo::geo_within(b, path, v)),
    ("in", |b, path, v, _| value::build_in(b, path, v)),
    ("moreLikeThis", |b, path, v, _| {
        like::more_like_this(b, path, v)
    }),
    ("near", |b, path, v, _| value::near(b, path, v)),
    ("phrase", |b, path, v, _| text::phrase(b, path, v)),
    ("queryString", |b, path, v, _| {
        query_string::query_string(b, path, v)
    }),
    ("range", |b, path, v, _| value::range(b, path, v)),
    ("regex", |b, path, v, _| text::regex(b, path, v)),
    ("span", |b, path, v, _| span::span(b, path, v)),
    ("text", |b, path, v, _| text::text(b, path, v)),
    ("wildcard", |b, path, v, _| text::wildcard(b, path, v)),
];

/// A context to build queries over the index.
pub(crate) fn begin<'i>(index: &'i Index, view: &'i View) -> Build<'i> {
    Build::new(index, view, build)
}

/// True for the name of an operator.
pub(crate) fn is_operator(name: &str) -> bool {
    OPERATORS.iter().any(|(n, _)| *n == name)
}

/// Names of all operators.
pub(crate) fn names() -> Vec<&'static str> {
    OPERATORS.iter().map(|(name, _)| *name).collect()
}

/// The query of `{operator: {...}}` at `path`.
pub(crate) fn build(
    b: &Build<'_>,
    path: &str,
    spec: Doc<'_>,
    depth: usize,
) -> Result<Box<dyn Query>> {
    if depth > DEPTH_MAX {
        return Err(invalid(format!(
            "operators may be nested {DEPTH_MAX} deep at most"
        )));
    }
    let mut fields = spec.iter().filter(|(_, v)| !v.is_nullish());
    let (Some((name, v)), None) = (fields.next(), fields.next()) else {
        return Err(invalid(format!(
            "\"{path}\" must have exactly one operator, one of {}",
            names().join(", ")
        )));
    };
    let Some((_, build)) = OPERATORS.iter().find(|(n, _)| *n == name) else {
        return Err(invalid(format!(
            "\"{path}.{name}\" is not a known operator; there are {}",
            names().join(", ")
        )));
    };
    let path = if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    };
    build(b, &path, v, depth)
}
