//! The shape of a query: what all queries that differ only in constants have in common.

use crate::plan::CachedPlan;
use crate::shown::canonical;
use model::{Doc, Value};

/// A shape: its text and a hash of that in eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Filter, order and projection without constants.
    pub text: String,
    /// Its hash.
    pub hash: String,
}

impl Shape {
    /// The shape of the query that made a cache entry.
    pub fn of_cached(entry: &CachedPlan) -> Shape {
        let query = entry.query.doc();
        let part = |name: &str| query.field(name).as_doc().unwrap_or(Doc::EMPTY);
        Shape::of_parts(
            part("query"),
            part("sort"),
            part("projection"),
            part("collation"),
        )
    }

    /// The shape of a query in parts, each of which may be empty.
    pub fn of_parts(
        query: Doc<'_>,
        sort: Doc<'_>,
        projection: Doc<'_>,
        collation: Doc<'_>,
    ) -> Shape {
        let filter = filter_shape(canonical(query).doc());
        let text = format!("{filter}\n{sort}\n{projection}\n{collation}");
        let hash = digits(&[&text]);
        Shape { text, hash }
    }

    /// The cache key of its plan by an index.
    pub fn key(&self, index: &str) -> String {
        digits(&[&self.hash, index])
    }
}

/// Eight hexadecimal digits.
fn digits(parts: &[&str]) -> String {
    let hash = parts
        .iter()
        .flat_map(|p| p.bytes().chain([0]))
        .fold(0x811C_9DC5_u32, |h, b| {
            (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
        });
    format!("{hash:08X}")
}

/// The shape of a filter: paths and operators in a fixed order.
pub fn filter_shape(canonical: Doc<'_>) -> String {
    let mut out = String::new();
    outline(canonical, &mut out);
    out
}

/// Paths and operators of a filter, without values; a regular expression is an operator.
fn outline(spec: Doc<'_>, out: &mut String) {
    for (name, v) in spec.iter() {
        out.push_str(name);
        match v {
            Value::Document(d) => outline(d, out),
            Value::Array(a) if name.starts_with('$') => a
                .iter()
                .filter_map(|v| v.as_doc())
                .for_each(|d| outline(d, out)),
            Value::Regex(_) => out.push_str("$regex"),
            _ => {}
        }
        out.push(';');
    }
}
