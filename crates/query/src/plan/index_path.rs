//! The access path over one secondary index.

use super::access::{Access, Plan};
use super::bounds::{self, Combine, FieldBounds};
use super::explode::by_points;
use super::index_bounds::{
    all_exact, collation_fits, hashed_points, intervals, sort_direction, sparse_is_enough,
};
use super::partial::implied;
use super::request::PlanRequest;
use super::score;
use operators::filter::Node;
use std::sync::Arc;
use store::{FieldKind, Index};

/// How good an index is for a read, and the plan with it. `None` when it must not be used (it may
/// lack documents) or brings nothing; `forced` asks for it whatever it brings.
pub(super) fn by_index(
    index: &Arc<Index>,
    request: &PlanRequest<'_>,
    root: &Node,
    forced: bool,
) -> Option<(u32, Plan)> {
    let fits = collation_fits(request.collation, index.collation());
    if index.is_partial() && !forced && !implied(index, request.filter, fits) {
        return None;
    }
    let bits = index.multikey_bits();
    let mut fields = field_bounds(index, bits, root, fits);
    if index.is_sparse() && !sparse_is_enough(index, &fields, root) && !forced {
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
        && let Some(plan) = by_points(index, bits, &fields, request, root)
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
            intervals,
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

/// The bounds that a filter puts on each field of an index; `multikey` has a bit for each field
/// that may have several values in one document.
pub(super) fn field_bounds(
    index: &Index,
    multikey: u32,
    root: &Node,
    fits: bool,
) -> Vec<FieldBounds> {
    let mut fields: Vec<FieldBounds> = Vec::new();
    for (n, f) in index.fields().iter().enumerate() {
        let several = multikey & (1 << n.min(31)) != 0;
        // Two fields of the same array: bounds on both would demand one element that satisfies
        // both.
        let shares_array = several
            && index.fields()[..n]
                .iter()
                .zip(&fields)
                .any(|(g, b)| !b.is_all() && g.path.first() == f.path.first());
        let how = if several {
            Combine::One
        } else {
            Combine::Intersect
        };
        let mut b = if shares_array {
            FieldBounds::all()
        } else {
            bounds::of_filter(root, f.path.as_str(), index.collate(), fits, how)
        };
        if f.kind == FieldKind::Hashed && !b.is_all() {
            b = if b.is_points() {
                hashed_points(index, n, root)
            } else {
                FieldBounds::all()
            };
        }
        // Positions in arrays are found by more paths than keys are made by.
        if several && f.path.parts().iter().any(|p| p.index.is_some()) {
            b.exact = false;
        }
        fields.push(b);
    }
    fields
}
