//! The access path over `_id`, which is the key of the records themselves.

use super::access::{Access, Plan};
use super::bounds::{self, Bound, Combine, ValueRange};
use super::index_bounds::{all_exact, collation_fits};
use super::request::PlanRequest;
use super::score;
use crate::exec::{SortBy, SortPattern};
use operators::filter::Node;
use std::sync::Arc;
use store::Collection;

/// The direction of a sort that the order of `_id` satisfies.
fn id_sort(sort: Option<&SortPattern>) -> Option<bool> {
    let first = sort?.parts().first()?;
    match &first.by {
        // Ids are unique, so further sort fields have no effect.
        SortBy::Path(p) if p.as_str() == "_id" => Some(!first.ascending),
        _ => None,
    }
}

/// How good a plan of [`plan_by_id`] is.
pub(super) fn id_score(p: &Plan) -> u32 {
    match &p.access {
        Access::Ids { .. } => score::ID_POINTS,
        Access::IdRange {
            lower: None,
            upper: None,
            ..
        } => score::ID_ORDER,
        Access::IdRange { .. } => {
            score::ID_RANGE + if p.sorted { score::ID_RANGE_ORDER } else { 0 }
        }
        _ => 0,
    }
}

/// Reads by `_id`: points, a range, or only its order.
pub(super) fn plan_by_id(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
) -> Option<Plan> {
    let fits = collation_fits(
        request.collation,
        coll.options().doc().field("collation").as_doc(),
    );
    let b = bounds::of_filter(root, "_id", coll.id_collate(), fits, Combine::Intersect);
    let order = id_sort(request.sort).filter(|_| fits);
    let sorted = request.sort.is_none() || order.is_some();
    let reverse = order.unwrap_or(false);
    let exact = b.exact;
    let bounds = vec![b.clone()];
    let complete = |exact: bool| exact && all_exact(root, &|path| path == "_id");
    match b.ranges {
        None => order.map(|reverse| {
            Plan::of(
                Access::IdRange {
                    lower: None,
                    upper: None,
                    reverse,
                },
                true,
            )
        }),
        Some(ranges) if ranges.is_empty() => Some(Plan {
            bounds,
            ..Plan::empty()
        }),
        Some(ranges) if ranges.iter().all(ValueRange::is_point) => {
            let ids: Vec<_> = ranges
                .into_iter()
                .filter_map(|r| match r.low {
                    Bound::Included(c) => Some(c),
                    _ => None,
                })
                .collect();
            let ids = Arc::new(ids);
            Some(Plan {
                bounds,
                complete: complete(exact),
                ..Plan::of(Access::Ids { ids, reverse }, sorted)
            })
        }
        Some(ranges) => {
            let (first, last) = (ranges.first()?, ranges.last()?);
            let complete = complete(exact && ranges.len() == 1);
            // Record keys end with the id, so an included lower end needs no further bytes.
            let lower = match &first.low {
                Bound::Included(c) => c.clone(),
                Bound::Excluded(c) => [c, &[0][..]].concat(),
                Bound::Class(c) => vec![*c],
                Bound::Prefix(p) => p.clone(),
            };
            let upper = match &last.high {
                Bound::Included(c) => [c, &[0][..]].concat(),
                Bound::Excluded(c) => c.clone(),
                Bound::Class(c) => vec![*c],
                Bound::Prefix(p) => p.clone(),
            };
            let access = Access::IdRange {
                lower: Some(lower),
                upper: Some(upper),
                reverse,
            };
            Some(Plan {
                bounds,
                complete,
                ..Plan::of(access, sorted)
            })
        }
    }
}
