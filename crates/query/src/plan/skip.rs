//! A plan over an index whose first field has few values and no bounds: the index is read once for
//! each of these values, by the bounds of its second field. The gaps between the values are read,
//! too, so that values inserted later are found. Must not know: costs.

use super::access::{Access, Plan};
use super::bounds::FieldBounds;
use super::index_bounds::{collation_fits, field_bounds, intervals_of, sparse_is_enough};
use super::partial::is_implied;
use super::request::PlanRequest;
use model::Result;
use operators::filter::Node;
use std::sync::Arc;
use store::format::keys::{AFTER, BEFORE};
use store::{Collection, FieldKind, Index, KeyInterval};

/// Most values of the first field.
const VALUES_MAX: usize = 16;
/// Most intervals of the second field for each value.
const INTERVALS_MAX: usize = 8;

/// An index that can be read this way, if its first field has few values.
pub(super) struct SkipScanIndex {
    index: Arc<Index>,
    bounds: Vec<FieldBounds>,
    /// Intervals of the components after the first.
    behind: Vec<KeyInterval>,
}

/// The index, if the filter allows reading it this way.
pub(super) fn skippable(
    index: &Arc<Index>,
    request: &PlanRequest<'_>,
    root: &Node,
) -> Option<SkipScanIndex> {
    let fits = collation_fits(request.collation, index.collation());
    let ordered = |kind: FieldKind| matches!(kind, FieldKind::Ascending | FieldKind::Descending);
    let kinds: Vec<FieldKind> = index.fields().iter().map(|f| f.kind).collect();
    let plain = index.is_keyed() && index.multikey_bits() == 0 && index.wildcard().is_none();
    if !plain || !fits || kinds.len() < 2 || !kinds.iter().all(|kind| ordered(*kind)) {
        return None;
    }
    if index.is_partial() && !is_implied(index, request.filter, fits) {
        return None;
    }
    let mut bounds = field_bounds(index, 0, root, fits);
    let is_all = |at: usize| bounds.get(at).is_none_or(FieldBounds::is_all);
    if !is_all(0) || is_all(1) || index.is_sparse() && !sparse_is_enough(index, &bounds, root) {
        return None;
    }
    let (behind, used) = intervals_of(kinds.get(1..)?, bounds.get(1..)?);
    if behind.is_empty() || behind.len() > INTERVALS_MAX {
        return None;
    }
    let unused = bounds.iter_mut().skip(1 + used);
    unused.for_each(|b| *b = FieldBounds::all());
    Some(SkipScanIndex {
        index: Arc::clone(index),
        bounds,
        behind,
    })
}

impl SkipScanIndex {
    /// The plan; `None` if the first field has too many values.
    ///
    /// # Errors
    /// Engine failures.
    ///
    /// # Cost
    /// A seek for each value.
    pub(super) fn plan(self, coll: &Collection, request: &PlanRequest<'_>) -> Result<Option<Plan>> {
        let Some(values) = coll.first_components(&self.index, VALUES_MAX)? else {
            return Ok(None);
        };
        let mut intervals = Vec::new();
        let mut lower = Vec::new();
        for value in &values {
            let upper = [&value[..], &[BEFORE]].concat();
            intervals.push(KeyInterval { lower, upper });
            intervals.extend(self.behind.iter().map(|behind| KeyInterval {
                lower: [&value[..], &behind.lower].concat(),
                upper: [&value[..], &behind.upper].concat(),
            }));
            lower = [&value[..], &[AFTER]].concat();
        }
        let upper = vec![0xFF];
        intervals.push(KeyInterval { lower, upper });
        let access = Access::Index {
            name: self.index.name().to_owned(),
            intervals: Arc::new(intervals),
            reverse: false,
        };
        Ok(Some(Plan {
            index: Some(self.index),
            bounds: self.bounds,
            ..Plan::of(access, request.sort.is_none())
        }))
    }
}
