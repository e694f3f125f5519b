//! The access path over one secondary index.

use super::access::{Access, Plan};
use super::bounds::FieldBounds;
use super::explode::plan_points;
use super::geo;
use super::index_bounds::{
    all_exact, collation_fits, field_bounds, intervals, sort_direction, sparse_is_enough,
};
use super::partial::is_implied;
use super::request::PlanRequest;
use super::score;
use super::wildcard::plan_wildcard;
use operators::filter::Node;
use std::sync::Arc;
use store::Index;

/// The plan over an index and its points. `None` if it must not be used (it may lack documents) or
/// has no advantage; `forced` ignores the latter.
pub(super) fn plan_index(
    index: &Arc<Index>,
    request: &PlanRequest<'_>,
    root: &Node,
    forced: bool,
) -> Option<(u32, Plan)> {
    let fits = collation_fits(request.collation, index.collation());
    if index.is_partial() && !forced && !is_implied(index, request.filter, fits) {
        return None;
    }
    if let Some(part) = index.wildcard() {
        return plan_wildcard(index, part, request, root, fits, forced);
    }
    let bits = index.multikey_bits();
    let mut fields = field_bounds(index, bits, root, fits);
    if index.is_sparse() && !sparse_is_enough(index, &fields, root) && !forced {
        return None;
    }
    if index.has_cells() && !geo::requires_location(index, &fields) && !forced {
        return None;
    }
    let equal = fields.iter().take_while(|b| b.is_points()).count();
    let range = fields.get(equal).is_some_and(|b| !b.is_all());
    let order = sort_direction(index, &fields, request.sort, fits && bits == 0);
    if equal == 0 && !range && order.is_none() && !forced {
        return None;
    }
    if request.sort.is_some()
        && order.is_none()
        && fits
        && bits == 0
        && equal > 0
        && !forced
        && let Some(plan) = plan_points(index, bits, &fields, request, root)
    {
        return Some((equal as u32 * score::EQUALITY_FIELD + score::ORDER, plan));
    }
    let (intervals, used) = intervals(index, &fields);
    let points = |given: bool, points: u32| if given { points } else { 0 };
    let score = equal as u32 * score::EQUALITY_FIELD
        + points(range, score::RANGE)
        + points(order.is_some(), score::ORDER)
        + points(
            index.is_unique() && equal == index.fields().len(),
            score::UNIQUE,
        );
    let access = if intervals.is_empty() {
        Access::Nothing
    } else {
        Access::Index {
            name: index.name().to_owned(),
            intervals: Arc::new(intervals),
            reverse: order.unwrap_or(false),
        }
    };
    fields
        .iter_mut()
        .skip(used)
        .for_each(|b| *b = FieldBounds::all());
    let complete = all_exact(root, &|path| {
        index
            .fields()
            .iter()
            .zip(&fields)
            .any(|(f, b)| b.exact && f.path.as_str() == path)
    });
    let plan = Plan {
        index: Some(index.clone()),
        multikey: bits,
        bounds: fields,
        complete,
        ..Plan::of(access, request.sort.is_none() || order.is_some())
    };
    Some((score, plan))
}
