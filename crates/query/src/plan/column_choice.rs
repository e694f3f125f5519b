//! Chooses the column index that has all fields a read uses. Must not know: what that costs, other
//! access paths.

use super::bounds::{Combine, encode_range, of_filter};
use super::column_plan::{ColumnLens, ColumnPlan, Ranges, RequiredOutput, row_cost};
use super::index_bounds::collation_fits;
use super::request::PlanRequest;
use crate::exec::MatchFilter;
use model::{FieldPath, Result};
use operators::RequiredFields;
use operators::columns::Paths;
use operators::vector::ColumnFilter;
use std::sync::Arc;
use store::{Collection, Index};

/// Columns are not used if more than one in this many of their documents has changed since.
const TOUCHED_ONE_OF: u64 = 2;
/// A value inside the value of a column costs as much as this many further values.
const BELOW: usize = 4;

/// Whether the fields that a filter uses are known, and its result is always the same: not with
/// scripts or random numbers.
pub(crate) fn is_named(filter: Option<&MatchFilter>) -> bool {
    let mut reads = RequiredFields::default();
    if let Some(f) = filter {
        f.filter.root().reads(&mut reads);
    }
    reads.names().is_some()
}

/// Whether the planner may use a column index: its own choice, the hint and the allowed indexes
/// agree.
fn is_meant(index: &Index, request: &PlanRequest<'_>) -> bool {
    let is_hinted = request.hint.is_none_or(|hint| hint.names(index));
    let allowed = request.allowed;
    let is_allowed = allowed.is_none_or(|a| a.has(index.name(), index.key_pattern()));
    index.is_columns() && index.is_ready() && is_hinted && is_allowed
}

/// The plan of a read by the first column index that has all fields it uses; `None` if there is
/// none, or if reading documents is clearly as good.
///
/// # Errors
/// Those of the store.
///
/// A row for each segment and a key for each document changed since the segment was made.
pub(super) fn plan_columns(
    coll: &Collection,
    request: &PlanRequest<'_>,
) -> Result<Option<ColumnPlan>> {
    let indexes = coll.readable_indexes(request.view);
    let seen = |i: &&Arc<Index>| !i.is_hidden() || request.hint.is_some_and(|h| h.is_own());
    let mut meant = indexes
        .iter()
        .filter(seen)
        .filter(|i| is_meant(i, request))
        .peekable();
    if meant.peek().is_none() {
        return Ok(None);
    }
    let view = request.view.cloned().unwrap_or_default();
    for index in meant {
        let Some(paths) = AllPaths::of(request, index) else {
            continue;
        };
        let found = coll.segments(&view, index, TOUCHED_ONE_OF, &|| Ok(()))?;
        let Some(segments) = found else { continue };
        let average = coll.size_bytes() as f64 / coll.count().max(1) as f64;
        let lens = lens_of(index, paths, request, average);
        return Ok(Some(ColumnPlan::new(lens, segments, coll.count() as f64)));
    }
    Ok(None)
}

fn lens_of(
    index: &Arc<Index>,
    paths: AllPaths,
    request: &PlanRequest<'_>,
    document_bytes: f64,
) -> ColumnLens {
    let simple = collation_fits(request.collation, None);
    let AllPaths { all, over, behind } = paths;
    let below = all.list().iter().zip(&over).filter(|(p, over)| p != over);
    let ranges = all
        .list()
        .iter()
        .map(|path| ranges_of(request.filter?, path.as_str(), simple));
    let makes_documents = matches!(request.columns, Some(RequiredOutput::Documents(_)));
    let fields = if makes_documents { behind } else { 0 };
    ColumnLens {
        index: Arc::clone(index),
        ranges: ranges.collect(),
        row_cost: row_cost(all.len() + BELOW * below.count(), fields, document_bytes),
        over,
        paths: Arc::new(all),
        behind,
        makes_documents,
    }
}

/// The paths that a read uses.
struct AllPaths {
    all: Paths,
    /// For each path, the path of the index column that holds it.
    over: Vec<FieldPath>,
    /// The number of paths used after the filter; they come first.
    behind: usize,
}

impl AllPaths {
    /// The paths and their columns in an index. `None` if the index does not have them, if any
    /// field may be used, or if there are too many. Documents are built from whole columns.
    fn of(request: &PlanRequest<'_>, index: &Index) -> Option<AllPaths> {
        let mut all = Paths::default();
        match request.columns? {
            RequiredOutput::Values(values) => all.clone_from(values),
            RequiredOutput::Documents(fields) => {
                for field in fields {
                    all.add(&index.column_over(&FieldPath::new(field))?)?;
                }
            }
        }
        let behind = all.len();
        if let Some(f) = request.filter.filter(|f| !f.filter.is_always_true()) {
            ColumnFilter::of(&f.filter, &mut all)?;
        }
        let is_near = request.filter.is_some_and(|f| f.filter.near().is_some());
        let can_be = is_named(request.filter) && !is_near && request.near.is_none();
        let over = all.list().iter().map(|path| index.column_over(path));
        let over = over.collect::<Option<Vec<_>>>().filter(|_| can_be)?;
        Some(AllPaths { all, over, behind })
    }
}

/// Ranges, as bytes of index entries, in which the values of a path lie in each matching document:
/// lower limits included, upper limits excluded. They hold for documents with one value there.
/// `None` if any value may match.
fn ranges_of(filter: &MatchFilter, path: &str, simple_collation: bool) -> Option<Ranges> {
    let root = filter.filter.root();
    let bounds = of_filter(root, path, None, simple_collation, Combine::Intersect);
    let ranges = bounds.ranges?;
    Some(ranges.iter().map(|r| encode_range(r, false)).collect())
}
