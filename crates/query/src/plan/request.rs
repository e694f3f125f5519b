//! The request to the planner: filter, order and the client's wishes about the access path.

use super::column_plan::RequiredOutput;
use super::rivals::RejectedPlans;
use crate::exec::{AllowedIndexes, MatchFilter, SortBy, SortPattern};
use model::{Doc, FieldPath, MongoError, Result, Value};
use operators::filter::Near;
use std::sync::Arc;
use store::{Index, ReadView};

/// The access path a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The index of this name.
    Name(String),
    /// An index by name, for the server's own reads: a hidden one is allowed.
    Own(String),
    /// The index with this key pattern.
    Key(model::DocBuf),
    /// A collection scan.
    Natural {
        /// Backwards.
        reverse: bool,
    },
}

impl std::fmt::Display for Hint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Hint::Name(name) | Hint::Own(name) => write!(f, "{}", Value::String(name)),
            Hint::Key(key) => write!(f, "{key}"),
            Hint::Natural { reverse: false } => f.write_str("{ $natural: 1 }"),
            Hint::Natural { reverse: true } => f.write_str("{ $natural: -1 }"),
        }
    }
}

impl Hint {
    /// Whether the hint is this index.
    pub(super) fn names(&self, index: &Index) -> bool {
        match self {
            Hint::Name(n) | Hint::Own(n) => index.name() == n,
            Hint::Key(k) => {
                model::compare::compare_docs(index.key_pattern(), k.doc(), None).is_eq()
            }
            Hint::Natural { .. } => false,
        }
    }

    /// Whether the hint is the server's own.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Hint::Own(_))
    }

    /// The hinted index, if it is built and may be used.
    pub(super) fn index<'i>(&self, indexes: &'i [Arc<Index>]) -> Option<&'i Arc<Index>> {
        let is_seen = |i: &Index| !i.is_hidden() || self.is_own();
        indexes
            .iter()
            .find(|i| i.is_ready() && is_seen(i) && self.names(i))
    }

    /// Parses the `hint` argument; an empty document is no hint.
    ///
    /// # Errors
    /// 9 FailedToParse for another type, 2 BadValue for a `$natural` that is not 1 or -1.
    pub fn parse(v: Value<'_>) -> Result<Option<Hint>> {
        Ok(match v {
            Value::Missing => None,
            Value::String(s) => Some(Hint::Name(s.to_owned())),
            Value::Document(d) if d.is_empty() => None,
            Value::Document(d) => match d.get("$natural") {
                Some(_) if d.count() > 1 => {
                    return Err(MongoError::bad_value(
                        "$natural hint cannot be combined with other fields",
                    ));
                }
                Some(n) => match n.as_f64() {
                    Some(n) if n == 1.0 || n == -1.0 => Some(Hint::Natural { reverse: n < 0.0 }),
                    _ => return Err(MongoError::bad_value("$natural hint must be 1 or -1")),
                },
                None => Some(Hint::Key(d.to_buf())),
            },
            other => {
                return Err(MongoError::failed_to_parse(format!(
                    "hint must be specified as a string or an object, not {}",
                    other.type_name()
                )));
            }
        })
    }
}

/// A read to be planned.
#[derive(Clone, Copy, Default)]
pub struct PlanRequest<'r> {
    /// Documents to find; `None` is all.
    pub filter: Option<&'r MatchFilter>,
    /// The wanted order.
    pub sort: Option<&'r SortPattern>,
    /// The number of documents that will be read, if there are as many; `None` is all.
    pub limit: Option<u64>,
    /// The only top-level fields used after the filter; `None` is all.
    pub fields: Option<&'r [String]>,
    /// The access path the client asks for.
    pub hint: Option<&'r Hint>,
    /// Lower bound of the hinted index, whole keys, inclusive.
    pub min: Option<Doc<'r>>,
    /// Upper bound of the hinted index, whole keys, exclusive.
    pub max: Option<Doc<'r>>,
    /// The operation's collation as the client wrote it; `None` when simple.
    pub collation: Option<Doc<'r>>,
    /// The snapshot to read; `None` is the latest state.
    pub view: Option<&'r ReadView>,
    /// The only indexes to consider; `None` is all.
    pub allowed: Option<&'r AllowedIndexes>,
    /// The projection, which is part of the query's shape, if the plan may be taken from the cache
    /// and stored in it. `None` for reads that do not use the cache.
    pub remember: Option<Doc<'r>>,
    /// Documents are wanted in order of distance, if an index can give that; the filter has no
    /// `$near` of its own.
    pub near: Option<(&'r FieldPath, &'r Near)>,
    /// Receives the plans that lost the comparison of costs.
    pub rivals: Option<&'r RejectedPlans>,
    /// What is used after the filter, if the read may use columns.
    pub columns: Option<RequiredOutput<'r>>,
}

/// The direction of a sort by `{$natural: ±1}`. The natural order of the log is that of its times.
pub(super) fn natural_sort(sort: Option<&SortPattern>, log: bool) -> Option<bool> {
    let [only] = sort?.parts() else { return None };
    match &only.by {
        SortBy::Path(p) if p.as_str() == "$natural" || log && p.as_str() == "ts" => {
            Some(!only.ascending)
        }
        _ => None,
    }
}
