//! `min` and `max` of a find: a range of the hinted index between whole keys; the lower end is
//! included.

use super::access::{Access, Plan};
use super::request::{Hint, PlanRequest};
use model::{Doc, MongoError, Result};
use std::sync::Arc;
use store::format::keys;
use store::{Collection, Index, KeyInterval};

/// A byte that sorts, after components, before every entry that begins with them.
const BEFORE: u8 = 0x01;

/// The plan of a read with `min` or `max`. It counts as sorted only if no order is wanted.
///
/// # Errors
/// 2 BadValue for a hint that names no index, 51174 when it has other fields, 51175 when `min` does
/// not come before `max`.
pub(super) fn plan_min_max(coll: &Collection, request: &PlanRequest<'_>) -> Result<Plan> {
    let (min, max) = (
        request.min.unwrap_or(Doc::EMPTY),
        request.max.unwrap_or(Doc::EMPTY),
    );
    let (hint, sorted) = (request.hint, request.sort.is_none());
    let unfit = || MongoError::new(51_174, "The index chosen is not compatible with min/max");
    let indexes = coll.indexes();
    let hint = hint.ok_or_else(unfit)?;
    let is_id = match hint {
        Hint::Name(n) => n == "_id_",
        Hint::Key(k) => k.doc().count() == 1 && k.doc().field("_id").as_f64() == Some(1.0),
        Hint::Own(_) | Hint::Natural { .. } => return Err(unfit()),
    };
    let index = hint.index(&indexes);
    let fits = |given: Doc<'_>| match index {
        _ if given.is_empty() => true,
        _ if is_id => given.count() == 1 && given.contains("_id"),
        Some(i) => given
            .iter()
            .map(|(n, _)| n)
            .eq(i.fields().iter().map(|f| f.path.as_str())),
        None => false,
    };
    if index.is_none() && !is_id {
        return Err(MongoError::bad_value(format!(
            "error processing query: planner returned error :: caused by :: hint provided does not \
                correspond to an existing index: {hint}"
        )));
    }
    if !fits(min) || !fits(max) || index.is_some_and(|i| !i.is_keyed()) {
        return Err(unfit());
    }
    let encode = |given: Doc<'_>| {
        let mut out = Vec::new();
        for (at, (_, v)) in given.iter().enumerate() {
            match index {
                Some(i) if !is_id => i.encode_bound(at, &v, &mut out),
                _ => keys::encode(&v, coll.id_collate(), &mut out),
            }
        }
        (!given.is_empty()).then_some(out)
    };
    let (lower, upper) = (encode(min), encode(max));
    if let (Some(l), Some(u)) = (&lower, &upper)
        && l >= u
    {
        return Err(MongoError::new(
            51_175,
            "The value provided for min() does not come before the value provided for max() in the \
                hinted index",
        ));
    }
    let Some(index) = index.filter(|_| !is_id) else {
        return Ok(Plan::of(
            Access::IdRange {
                lower,
                upper,
                reverse: false,
            },
            sorted,
        ));
    };
    Ok(index_range(index, lower, upper, sorted))
}

/// The entries of an index from `lower`, inclusive, to `upper`, exclusive.
fn index_range(
    index: &Arc<Index>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    sorted: bool,
) -> Plan {
    let end = |bound: Option<Vec<u8>>, otherwise: u8| match bound {
        Some(mut b) => {
            b.push(BEFORE);
            b
        }
        None => vec![otherwise],
    };
    let intervals = vec![KeyInterval {
        lower: end(lower, 0x00),
        upper: end(upper, 0xff),
    }];
    let access = Access::Index {
        name: index.name().to_owned(),
        intervals: Arc::new(intervals),
        reverse: false,
    };
    let multikey = index.multikey_bits();
    Plan {
        index: Some(index.clone()),
        multikey,
        ..Plan::of(access, sorted)
    }
}
