//! `$near` and `$nearSphere`: which index can answer them, and the plan in order of distance.

use super::access::{Access, NearMethod, NearPlan, Plan};
use super::bounds::FieldBounds;
use super::index_bounds::{collation_fits, field_bounds};
use super::partial::is_implied;
use super::request::{Hint, PlanRequest};
use super::rings::Rings;
use crate::exec::MatchFilter;
use model::{FieldPath, Result, Value, bail};
use operators::filter::{Near, Node, Surface};
use std::sync::Arc;
use store::{Collection, Index};

/// Checks that an index on the field (the hinted one, if there is a hint) can answer the filter's
/// `$near`.
///
/// # Errors
/// 291 NoQueryExecutionPlans, 5626500 on a time series, which has no order by distance.
pub(super) fn check_index(
    filter: &MatchFilter,
    coll: &Collection,
    hint: Option<&Hint>,
) -> Result<()> {
    let Some((path, near)) = filter.filter.near() else {
        return Ok(());
    };
    if coll.is_series() {
        bail!(
            5_626_500,
            "$near and $nearSphere are not allowed on a time series, $geoWithin is"
        );
    }
    let fits = |field: &str, v: Value<'_>| {
        field == path.as_str() && v.as_str().is_some_and(|kind| near.can_use(kind))
    };
    let hinted = |i: &Index| match hint {
        None | Some(Hint::Natural { .. }) => true,
        Some(hint) => hint.names(i),
    };
    let indexes = coll.indexes();
    let found = indexes.iter().any(|i| {
        let usable = i.is_ready() && !i.is_hidden() && hinted(i);
        usable && i.key_pattern().iter().any(|(f, v)| fits(f, v))
    });
    if !found {
        bail!(
            291,
            "error processing query: unable to find index for $geoNear query on '{}'",
            path.as_str()
        );
    }
    Ok(())
}

/// The plan in order of distance, if that is wanted; `whole` reads the documents in any order.
///
/// # Errors
/// Those of `whole`.
pub(super) fn plan(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    whole: impl FnOnce() -> Result<Plan>,
) -> Result<Plan> {
    let own = request.filter.and_then(|f| f.filter.near());
    let Some((path, near)) = own.or(request.near).filter(|_| request.sort.is_none()) else {
        return whole();
    };
    let by = match rings(coll, request, root, path, near) {
        Some(rings) => NearMethod::Rings(rings),
        None if own.is_some() => NearMethod::Whole(Box::new(whole()?)),
        // No index can give this order, so the offer is declined.
        None => return whole(),
    };
    let index = match &by {
        NearMethod::Rings(rings) => Some(rings.index().clone()),
        NearMethod::Whole(_) => None,
    };
    let nearness = NearPlan {
        path: path.clone(),
        near: near.clone(),
        by,
    };
    Ok(Plan {
        index,
        ..Plan::of(Access::Near(Box::new(nearness)), true)
    })
}

/// The rings over an index that supports them.
fn rings(
    coll: &Collection,
    request: &PlanRequest<'_>,
    root: &Node,
    path: &FieldPath,
    near: &Near,
) -> Option<Rings> {
    if coll.is_series() {
        return None;
    }
    let indexes = coll.readable_indexes(request.view);
    let usable = |i: &&Arc<Index>| {
        let allowed = request
            .allowed
            .is_none_or(|a| a.has(i.name(), i.key_pattern()));
        let hinted = request.hint.is_none_or(|h| h.names(i));
        i.is_ready() && !i.is_hidden() && i.has_cells() && allowed && hinted
    };
    indexes.iter().filter(usable).find_map(|index| {
        let fits = collation_fits(request.collation, index.collation());
        let field = index.fields().iter().position(|f| f.path == *path)?;
        let kind = index.key_pattern().field(path.as_str()).as_str()?;
        let on = Surface::of(index.spec(), kind).filter(|_| near.can_use(kind))?;
        let bounds = field_bounds(index, index.multikey_bits(), root, fits);
        let whole = !index.is_partial() || is_implied(index, request.filter, fits);
        // The fields before the location must be fixed, or every ring would read the whole index.
        let fixed = bounds.iter().take(field).all(FieldBounds::is_points);
        (whole && fixed).then(|| Rings::new(index, bounds, field, on, near))
    })
}
