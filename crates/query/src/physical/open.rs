//! Opens a read, for finds and for pipelines: chooses a plan, then a stream that does as much of
//! the request as the plan allows.

use super::column_read::ColumnRead;
use super::count::Count;
use super::count_all::CountAll;
use super::fold::FoldRead;
use super::loose::LooseScan;
use super::operator::Operator;
use super::parts::has_parts;
use super::read::CollectionRead;
use super::reader::counts_entries;
use crate::exec::{AllowedIndexes, BatchStream, CountOutput, GroupEnd, OpenRead, ReadRequest};
use crate::plan::{
    Access, GroupedPlan, Hint, Plan, PlanRequest, RequiredOutput, columns, distinct_plan,
    group_end_plan, plan_read,
};
use model::{Doc, Result};
use operators::Env;
use std::sync::Arc;
use store::{Collection, ReadView};

/// Options of the operation for all its reads.
#[derive(Clone, Copy, Default)]
pub struct ReadOptions<'o> {
    /// The access path the client asks for.
    pub hint: Option<&'o Hint>,
    /// Collation as the client wrote it; `None` when simple.
    pub collation: Option<Doc<'o>>,
    /// The snapshot to read; `None` is the latest state.
    pub view: Option<&'o ReadView>,
    /// The only indexes to consider, see [`PlanRequest::allowed`].
    pub allowed: Option<&'o AllowedIndexes>,
    /// Plans may be taken from the cache and stored in it.
    pub remember: bool,
}

impl<'r> PlanRequest<'r> {
    /// The planner's request for a read.
    pub fn of(read: &ReadRequest<'r>, options: &ReadOptions<'r>) -> PlanRequest<'r> {
        PlanRequest {
            filter: read.filter.map(Arc::as_ref),
            sort: read.sort,
            limit: read.limit,
            fields: read.fields.filter(|_| !read.row_metadata),
            hint: options.hint,
            min: None,
            max: None,
            collation: options.collation,
            view: options.view,
            allowed: options.allowed,
            remember: options.remember.then_some(Doc::EMPTY),
            near: read.near.and_then(|f| f.filter.near()),
            rivals: None,
            columns: find_required_output(read),
        }
    }
}

/// What is used after the filter, if the read may use columns.
fn find_required_output<'r>(read: &ReadRequest<'r>) -> Option<RequiredOutput<'r>> {
    if read.row_metadata {
        return None;
    }
    let fields = read.fields.filter(|fields| !fields.is_empty());
    let fold = read.fold.map(|fold| RequiredOutput::Values(fold.paths()));
    fold.or(fields.map(RequiredOutput::Documents))
}

/// The scan that gives the first or last document of each group, if an index has this order.
pub(crate) fn first_of_groups(
    coll: &Arc<Collection>,
    request: &PlanRequest<'_>,
    end: &GroupEnd,
) -> Option<LooseScan> {
    let grouped = group_end_plan(coll, request, end)?;
    let plan = grouped.plan.with_covering(coll, None, request.fields);
    LooseScan::of_groups(coll.clone(), GroupedPlan { plan, ..grouped })
}

/// The output of a stage over the number of all documents, if the collection's counter gives that.
pub(crate) fn count_by_counter(
    coll: &Arc<Collection>,
    request: &PlanRequest<'_>,
    stage: &CountOutput,
) -> Option<CountAll> {
    let whole = request.limit.is_none() && request.near.is_none() && Count::is_by_counter(request);
    let plain = whole && !coll.is_series() && !coll.is_log();
    plain.then(|| CountAll::new(Count::by_counter(coll.clone(), request), stage.clone()))
}

/// The read took only the offered filter.
fn filtered_read(docs: Box<dyn BatchStream>) -> OpenRead {
    OpenRead {
        docs,
        filtered: true,
        sorted: false,
        limited: false,
        near: false,
        folded: false,
    }
}

/// The output of a stage over the number of entries, if the plan needs no documents.
fn open_entry_count(
    coll: &Arc<Collection>,
    plan: &Plan,
    read: &ReadRequest<'_>,
    request: &PlanRequest<'_>,
    env: &Env,
) -> Option<OpenRead> {
    let stage = read.number.filter(|_| !read.row_metadata)?;
    if request.limit.is_some() || request.near.is_some() || !counts_entries(plan) {
        return None;
    }
    let mut count = Count::by_entries(Arc::clone(coll), plan.clone(), read.filter.cloned());
    count.begin(env);
    Some(OpenRead {
        folded: true,
        ..filtered_read(Box::new(CountAll::new(count, stage.clone())))
    })
}

/// Opens a read. The filter is always applied; order and limit are applied as [`OpenRead`] says.
///
/// # Errors
/// Those of the planner.
pub fn open_read(
    coll: Arc<Collection>,
    read: &ReadRequest<'_>,
    options: &ReadOptions<'_>,
    env: &Env,
) -> Result<OpenRead> {
    let request = PlanRequest::of(read, options);
    if let Some(stage) = read.number.filter(|_| !read.row_metadata)
        && let Some(all) = count_by_counter(&coll, &request, stage)
    {
        return Ok(OpenRead {
            folded: true,
            ..filtered_read(Box::new(all))
        });
    }
    let mut plan = plan_read(&coll, &request)?;
    if let Some(counted) = open_entry_count(&coll, &plan, read, &request, env) {
        return Ok(counted);
    }
    if let (Some(series), Some(fields), false) = (&mut plan.series, read.fields, read.row_metadata)
    {
        series.fields = columns(read.filter.map(Arc::as_ref), fields);
    }
    if let Some(field) = read.distinct.filter(|_| !read.row_metadata)
        && let Some(loose) = distinct_plan(&coll, &request, &plan, field)
        && let loose = loose.with_covering(&coll, None, read.fields)
        && let Some(mut scan) = LooseScan::new(coll.clone(), loose)
    {
        scan.begin(env);
        return Ok(filtered_read(Box::new(scan)));
    }
    if let Some(end) = read.group_end.filter(|_| !read.row_metadata)
        && let Some(mut scan) = first_of_groups(&coll, &request, end)
    {
        scan.begin(env);
        return Ok(OpenRead {
            sorted: true,
            ..filtered_read(Box::new(scan))
        });
    }
    if let Some(fold) = read.fold
        && !read.row_metadata
        && has_parts(&plan, read.filter.map(Arc::as_ref))
    {
        let fields = read.fields.map(<[String]>::to_vec);
        let fold = FoldRead::new(coll, plan, read.filter.cloned(), Arc::clone(fold), fields);
        return Ok(OpenRead {
            folded: true,
            ..filtered_read(Box::new(fold))
        });
    }
    let sorted = plan.sorted && read.sort.is_some();
    let limit = read.limit.filter(|_| sorted || read.sort.is_none());
    let near = matches!(plan.access, Access::Near(_));
    let opened = |docs| OpenRead {
        docs,
        filtered: true,
        sorted,
        limited: limit.is_some(),
        near,
        folded: false,
    };
    if let Some(mut docs) = ColumnRead::new(&coll, &plan, read.filter, limit, read.fields) {
        docs.begin(env);
        return Ok(opened(Box::new(docs)));
    }
    let mut docs = CollectionRead::new(coll, plan, read.filter.cloned(), limit);
    if read.row_metadata {
        docs = docs.with_row_metadata();
    }
    docs = match read.fields {
        Some(fields) => docs.with_fields(fields.to_vec()),
        None => docs.with_covering(None),
    };
    docs.begin(env);
    Ok(opened(Box::new(docs)))
}
