//! Plans for time-series collections: which buckets a filter selects, by an index on metadata and
//! time or by their times alone, and which columns are needed. Must not know: how buckets are
//! stored.

use super::access::{Access, Plan};
use super::best::usable;
use super::bounds::{FieldBounds, conjuncts};
use super::index_bounds::{collation_fits, field_bounds, intervals, sparse_is_enough};
use super::request::{Hint, PlanRequest, natural_sort};
use super::score;
use crate::exec::MatchFilter;
use model::bucket::SeriesOptions;
use model::{MongoError, Result, Value};
use operators::filter::{CompareOp, Node, Test};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Collection, Index, SeriesRead};

/// Chooses how to read a time-series collection.
///
/// # Errors
/// 2 BadValue for a hint that names no index.
pub(super) fn plan(
    coll: &Collection,
    options: &SeriesOptions,
    request: &PlanRequest<'_>,
    root: &Node,
) -> Result<Plan> {
    let natural = natural_sort(request.sort, false);
    let reverse = match request.hint {
        Some(Hint::Natural { reverse }) => *reverse,
        _ => natural.unwrap_or(false),
    };
    let sorted = request.sort.is_none() || natural == Some(reverse);
    let series = Some(SeriesRead {
        times: times_of(root, &options.time),
        fields: None,
        reverse,
    });
    let by_index = match natural {
        Some(_) => None,
        None => best(coll, options, request, root)?,
    };
    let plan = by_index.unwrap_or_else(|| Plan::of(Access::Collection { reverse }, sorted));
    Ok(Plan {
        series,
        sorted,
        complete: false,
        ..plan
    })
}

fn best(
    coll: &Collection,
    options: &SeriesOptions,
    request: &PlanRequest<'_>,
    root: &Node,
) -> Result<Option<Plan>> {
    let indexes = coll.readable_indexes(request.view);
    let hinted = match request.hint {
        None => None,
        Some(Hint::Natural { .. }) => return Ok(None),
        Some(hint) => match hint.index(&indexes) {
            Some(index) => Some(index.name().to_owned()),
            // A hint at an index that every time-series collection has.
            None if is_own(options, hint) => None,
            None => {
                return Err(MongoError::bad_value(format!(
                    "error processing query: planner returned error :: caused by :: hint \
                        provided does not correspond to an existing index: {hint}"
                )));
            }
        },
    };
    let allowed = |i: &&Arc<Index>| {
        let list = request.allowed;
        list.is_none_or(|a| a.has(i.name(), i.key_pattern()))
            && hinted.as_deref().is_none_or(|name| i.name() == name)
            && coll.is_index_of_buckets(i)
    };
    let mut best: Option<(u32, Plan)> = None;
    for index in indexes.iter().filter(usable).filter(allowed) {
        if let Some((score, plan)) = plan_series_index(index, options, request, root)
            && best.as_ref().is_none_or(|(s, _)| score > *s)
        {
            best = Some((score, plan));
        }
    }
    Ok(best.map(|(_, plan)| plan))
}

fn is_own(options: &SeriesOptions, hint: &Hint) -> bool {
    let meta = options.meta.as_deref().unwrap_or_default();
    match hint {
        Hint::Name(n) => n == "_id_" || *n == format!("{meta}_1_{}_1", options.time),
        Hint::Key(k) => {
            let names: Vec<&str> = k.doc().iter().map(|(name, _)| name).collect();
            names == ["_id"] || names == [meta, &options.time]
        }
        Hint::Own(_) => false,
        Hint::Natural { .. } => true,
    }
}

/// Selects buckets by an index on the metadata. Their times are tested when the entries are read:
/// an entry has the start time of its bucket, which is before its measurements.
fn plan_series_index(
    index: &Arc<Index>,
    options: &SeriesOptions,
    request: &PlanRequest<'_>,
    root: &Node,
) -> Option<(u32, Plan)> {
    let fits = collation_fits(request.collation, index.collation());
    let bits = index.multikey_bits();
    let mut fields = field_bounds(index, bits, root, fits);
    for (field, bounds) in index.fields().iter().zip(&mut fields) {
        if field.path.as_str() == options.time {
            *bounds = FieldBounds::all();
        }
    }
    if index.is_sparse() && !sparse_is_enough(index, &fields, root) {
        return None;
    }
    let equal = fields.iter().take_while(|b| b.is_points()).count();
    let range = fields.get(equal).is_some_and(|b| !b.is_all());
    if equal == 0 && !range {
        return None;
    }
    let (intervals, used) = intervals(index, &fields);
    fields
        .iter_mut()
        .skip(used)
        .for_each(|b| *b = FieldBounds::all());
    let access = match intervals.is_empty() {
        true => Access::Nothing,
        false => Access::Index {
            name: index.name().to_owned(),
            intervals: Arc::new(intervals),
            reverse: false,
        },
    };
    let plan = Plan {
        index: Some(index.clone()),
        multikey: bits,
        bounds: fields,
        ..Plan::of(access, false)
    };
    let score = equal as u32 * score::EQUALITY_FIELD + if range { score::RANGE } else { 0 };
    Some((score, plan))
}

/// First and last time that a filter selects; `None` without bounds on time.
fn times_of(root: &Node, time: &str) -> Option<(i64, i64)> {
    let (mut first, mut last) = (i64::MIN, i64::MAX);
    conjuncts(root, &mut |n| {
        let Node::Field {
            path,
            test: Test::Compare(c),
        } = n
        else {
            return;
        };
        let (Value::Date(ms), true) = (c.value.get(), path.as_str() == time) else {
            return;
        };
        let (from, to) = match c.op {
            CompareOp::Eq => (ms, ms),
            CompareOp::Gt => (ms.saturating_add(1), i64::MAX),
            CompareOp::Gte => (ms, i64::MAX),
            CompareOp::Lt => (i64::MIN, ms.saturating_sub(1)),
            CompareOp::Lte => (i64::MIN, ms),
        };
        (first, last) = (first.max(from), last.min(to));
    });
    (first > i64::MIN || last < i64::MAX).then_some((first, last))
}

/// The columns that the filter and the operators after it use; `None` is all.
pub(crate) fn columns(filter: Option<&MatchFilter>, behind: &[String]) -> Option<Arc<[String]>> {
    let mut names: BTreeSet<String> = behind.iter().cloned().collect();
    let mut known = true;
    if let Some(filter) = filter {
        conjuncts(filter.filter.root(), &mut |n| match n {
            Node::AlwaysTrue => {}
            Node::Field { path, .. } => {
                let first = path.as_str().split('.').next().unwrap_or_default();
                names.insert(first.to_owned());
            }
            _ => known = false,
        });
    }
    known.then(|| names.into_iter().collect())
}
