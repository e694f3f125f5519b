//! Splits an index scan: one scan for each combination of points of the leading fields, merged in
//! the wanted order, if each scan has that order and the whole has not.

use super::access::{Access, Plan};
use super::bounds::{FieldBounds, ValueRange};
use super::index_bounds::{all_exact, intervals, sort_direction};
use super::request::PlanRequest;
use operators::filter::Node;
use std::sync::Arc;
use store::Index;

/// Most scans that a plan is split into; MongoDB's `internalQueryMaxScansToExplode`.
const SCANS_MAX: usize = 200;

/// A scan for each combination of points of the leading fields, if each scan then has the wanted
/// order.
pub(super) fn plan_points(
    index: &Arc<Index>,
    multikey: u32,
    fields: &[FieldBounds],
    request: &PlanRequest<'_>,
    root: &Node,
) -> Option<Plan> {
    let sort = request.sort?;
    let points = fields.iter().take_while(|b| b.is_points()).count();
    let mut combinations: Vec<Vec<&ValueRange>> = vec![Vec::new()];
    for b in fields.iter().take(points) {
        let ranges = b.ranges.as_ref()?;
        if ranges.len().saturating_mul(combinations.len()) > SCANS_MAX {
            return None;
        }
        combinations = combinations
            .iter()
            .flat_map(|c| {
                ranges
                    .iter()
                    .map(move |r| c.iter().copied().chain([r]).collect())
            })
            .collect();
    }
    if combinations.len() < 2 {
        return None;
    }
    let mut branches = Vec::with_capacity(combinations.len());
    for points in &combinations {
        let mut own = fields.to_vec();
        for (b, r) in own.iter_mut().zip(points) {
            b.ranges = Some(vec![(*r).clone()]);
        }
        let reverse = sort_direction(index, &own, Some(sort), true)?;
        let (intervals, used) = intervals(index, &own);
        own.iter_mut()
            .skip(used)
            .for_each(|b| *b = FieldBounds::all());
        if intervals.is_empty() {
            continue;
        }
        let access = Access::Index {
            name: index.name().to_owned(),
            intervals: Arc::new(intervals),
            reverse,
        };
        let complete = all_exact(root, &|path| {
            index
                .fields()
                .iter()
                .zip(&own)
                .any(|(f, b)| b.exact && f.path.as_str() == path)
        });
        branches.push(Plan {
            index: Some(index.clone()),
            multikey,
            bounds: own,
            complete,
            ..Plan::of(access, true)
        });
    }
    if branches.is_empty() {
        return Some(Plan::empty());
    }
    let complete = branches.iter().all(|p| p.complete);
    let access = Access::Union {
        branches,
        merge: Some(Arc::new(sort.clone())),
        disjoint: true,
    };
    Some(Plan {
        index: Some(index.clone()),
        multikey,
        complete,
        ..Plan::of(access, true)
    })
}
