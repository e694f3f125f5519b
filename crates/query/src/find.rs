//! A query over one collection as the commands ask it: filter, order, skip, limit and projection;
//! and the physical operators that run it, whether it finds, counts, collects distinct values or
//! selects documents to write. Explain uses the same operators.

use crate::exec::{BatchStream, CountOutput, Fold, GroupEnd, MatchFilter, SortPattern};
use crate::physical::{
    Change, CollectionRead, ColumnRead, Count, Distinct, EmptyScan, FieldProjection, FoldRead,
    Limit, LooseScan, Operator, Project, ProjectionSpec, Shape, Skip, Sort, Write,
    count_by_counter, first_of_groups,
};
use crate::pipeline::QueryParts;
use crate::plan::{
    AllowedIndexes, Hint, Plan, PlanRequest, RejectedPlans, RequiredOutput, check_may_scan,
    columns, distinct_plan, plan_read,
};
use model::{Doc, DocBuf, Result, bail, code};
use operators::Env;
use std::sync::Arc;
use store::{Collection, ReadView};

/// A parsed find.
pub struct Find {
    /// Selects the documents.
    pub filter: Arc<MatchFilter>,
    /// Their order.
    pub sort: Option<Arc<SortPattern>>,
    /// Documents to leave out at the beginning.
    pub skip: u64,
    /// At most this many.
    pub limit: Option<u64>,
    /// The fields to return.
    pub projection: Option<Arc<ProjectionSpec>>,
    /// The access path the client asks for.
    pub hint: Option<Hint>,
    /// Inclusive lower bound in the hinted index; empty without one.
    pub min: DocBuf,
    /// Exclusive upper bound in the hinted index; empty without one.
    pub max: DocBuf,
    /// Return index keys instead of documents.
    pub return_key: bool,
    /// Return documents with their record id.
    pub show_record_id: bool,
    /// A tailable cursor: it waits at the end of the collection for more.
    pub tail: bool,
    /// Collation as the client wrote it.
    pub collation: Option<DocBuf>,
    /// The snapshot to read; `None` is the latest state.
    pub view: Option<ReadView>,
    /// The only indexes to consider, see [`PlanRequest::allowed`].
    pub allowed: Option<AllowedIndexes>,
    /// The only top-level fields used after filter and order; `None` is all.
    pub fields: Option<Vec<String>>,
    /// One document for each value at this path is enough; more are allowed.
    pub distinct: Option<String>,
    /// One document of each of these groups is enough; more are allowed.
    pub group_end: Option<GroupEnd>,
    /// The stage above, if it needs only the number of documents: its output replaces them if that
    /// is possible.
    pub number: Option<CountOutput>,
    /// The stage above, if a read by columns can do its work: its output replaces the documents if
    /// that is possible.
    pub fold: Option<Arc<dyn Fold>>,
    /// The plan may be taken from the cache and stored in it.
    pub remember: bool,
    /// Receives the plans that lost the comparison of costs.
    pub rivals: Option<Arc<RejectedPlans>>,
}

impl Find {
    /// All documents that match a filter.
    pub fn all(filter: MatchFilter) -> Find {
        Find {
            filter: Arc::new(filter),
            sort: None,
            skip: 0,
            limit: None,
            projection: None,
            hint: None,
            min: DocBuf::new(),
            max: DocBuf::new(),
            return_key: false,
            show_record_id: false,
            tail: false,
            collation: None,
            view: None,
            allowed: None,
            fields: None,
            distinct: None,
            group_end: None,
            number: None,
            fold: None,
            remember: false,
            rivals: None,
        }
    }

    /// The projection as the client wrote it.
    pub(crate) fn projection_spec(&self) -> Doc<'_> {
        self.projection
            .as_ref()
            .map_or(Doc::EMPTY, |p| p.spec.doc())
    }

    /// Filter, order, skip, limit and projection as the client wrote them.
    pub fn parts(&self) -> QueryParts<'_> {
        QueryParts {
            filter: self.filter.spec.doc(),
            sort: self.sort.as_ref().map_or(Doc::EMPTY, |s| s.spec()),
            skip: self.skip,
            limit: self.limit,
            projection: self.projection_spec(),
            counted_in: None,
        }
    }

    /// The planner's request for this read.
    pub fn plan_request(&self) -> PlanRequest<'_> {
        PlanRequest {
            filter: Some(&self.filter),
            sort: self.sort.as_deref(),
            limit: self.enough(),
            fields: self.fields.as_deref(),
            hint: self.hint.as_ref(),
            min: read_bound(&self.min),
            max: read_bound(&self.max),
            collation: self.collation.as_ref().map(DocBuf::doc),
            view: self.view.as_ref(),
            allowed: self.allowed.as_ref(),
            remember: self.remember.then(|| self.projection_spec()),
            near: None,
            rivals: self.rivals.as_deref(),
            columns: None,
        }
    }

    /// Opens the operators.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn open(&self, coll: Arc<Collection>, env: &Env) -> Result<Box<dyn BatchStream>> {
        if self.tail {
            return self.open_tail(coll, env);
        }
        let plan = self.plan(&coll)?;
        let mut root = self.operators_over(coll, plan, false);
        root.begin(env);
        Ok(Box::new(root))
    }

    /// The operators, not opened yet; `None` stands for a missing collection.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn plan_operators(&self, coll: Option<Arc<Collection>>) -> Result<PlannedQuery> {
        let Some(coll) = coll else {
            return Ok(PlannedQuery {
                root: self.add_operators(Box::new(EmptyScan::default()), false),
                plan: None,
                counted: false,
            });
        };
        let request = self.plan_request();
        let number = self.number.as_ref().filter(|_| self.skip == 0);
        if let Some(all) = number.and_then(|stage| count_by_counter(&coll, &request, stage)) {
            return Ok(PlannedQuery {
                root: Box::new(all),
                plan: None,
                counted: true,
            });
        }
        let plan = self.plan(&coll)?;
        let ends = self.group_end.as_ref();
        let ends = ends.and_then(|end| first_of_groups(&coll, &request, end));
        let (root, counted): (Box<dyn Operator>, bool) = if let Some(scan) = ends {
            (self.add_operators(Box::new(scan), true), false)
        } else if let Some(scan) = self.open_loose_scan(&coll, &plan) {
            (
                self.add_operators(Box::new(scan), self.sort.is_none()),
                false,
            )
        } else if let Some(read) = self.fold_by_columns(&coll, &plan) {
            (Box::new(read), true)
        } else {
            (self.operators(coll, plan.clone()), false)
        };
        Ok(PlannedQuery {
            root,
            plan: Some(plan),
            counted,
        })
    }

    /// A loose index scan, if one document for each value is enough.
    fn open_loose_scan(&self, coll: &Arc<Collection>, plan: &Plan) -> Option<LooseScan> {
        let path = self.distinct.as_ref()?;
        let loose = distinct_plan(coll, &self.plan_request(), plan, path)?;
        let loose = loose.with_covering(coll, None, self.fields.as_deref());
        LooseScan::new(Arc::clone(coll), loose)
    }

    /// The read that does the work of the stage above it on a column index.
    fn fold_by_columns(&self, coll: &Arc<Collection>, plan: &Plan) -> Option<FoldRead> {
        let (fold, _) = self.fold_alone().zip(plan.columns.as_ref())?;
        Some(FoldRead::new(
            Arc::clone(coll),
            plan.clone(),
            Some(Arc::clone(&self.filter)),
            Arc::clone(fold),
            self.fields.clone(),
        ))
    }

    /// The stage above, if a read may do its work: no other operator is between them.
    fn fold_alone(&self) -> Option<&Arc<dyn Fold>> {
        let is_plain = self.skip == 0 && self.limit.is_none() && self.sort.is_none();
        self.fold.as_ref().filter(|_| is_plain)
    }

    /// The operators for another plan than the chosen one.
    pub fn operators(&self, coll: Arc<Collection>, plan: Plan) -> Box<dyn Operator> {
        self.operators_over(coll, plan, true)
    }

    /// The operators for a plan; `may_be_shown` if explain may show it later.
    fn operators_over(
        &self,
        coll: Arc<Collection>,
        mut plan: Plan,
        may_be_shown: bool,
    ) -> Box<dyn Operator> {
        if let Some(scan) = self.open_loose_scan(&coll, &plan) {
            return self.add_operators(Box::new(scan), self.sort.is_none());
        }
        if let Some(read) = self.fold_by_columns(&coll, &plan) {
            return Box::new(read);
        }
        if !may_be_shown {
            plan.drop_bounds();
        }
        let sorted = plan.sorted || self.sort.is_none();
        let limit = self.enough().filter(|_| sorted);
        let (filter, fields) = (Some(&self.filter), self.fields.as_deref());
        match ColumnRead::new(&coll, &plan, filter, limit, fields) {
            Some(read) => self.add_operators(Box::new(read), sorted),
            None => self.add_operators(Box::new(self.read(coll, plan, sorted)), sorted),
        }
    }

    /// The operator that counts the matching documents, with skip and limit.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn count(&self, coll: Option<Arc<Collection>>) -> Result<Count> {
        let request = PlanRequest {
            fields: Some(&[]),
            ..self.plan_request()
        };
        Count::new(coll, &request, &self.filter, self.skip, self.limit)
    }

    /// The operator that collects the distinct values at a path of the matching documents.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn distinct(&self, coll: Option<Arc<Collection>>, key: &str) -> Result<Distinct> {
        Distinct::new(coll, &self.plan_request(), &self.filter, key)
    }

    /// The operator that finds the documents of an update or delete, in order, and says what would
    /// be done to them.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn plan_write(
        &self,
        coll: Option<Arc<Collection>>,
        change: Change,
    ) -> Result<PlannedQuery> {
        let Some(coll) = coll else {
            let nothing = Box::new(EmptyScan::default());
            return Ok(PlannedQuery {
                root: Box::new(Write::new(nothing, change)),
                plan: None,
                counted: false,
            });
        };
        let plan = plan_read(&coll, &self.plan_request())?;
        let sorted = plan.sorted || self.sort.is_none();
        let read = self.read(coll, plan.clone(), sorted).reading_documents();
        let read = Box::new(read);
        let found = self.add_sort(read, sorted, false);
        Ok(PlannedQuery {
            root: Box::new(Write::new(found, change)),
            plan: Some(plan),
            counted: false,
        })
    }

    fn plan(&self, coll: &Arc<Collection>) -> Result<Plan> {
        let paths = self.needed_paths();
        let needed = self
            .fields
            .clone()
            .or_else(|| paths.as_deref().map(first_parts));
        let made = self.fields.as_deref().or(paths.as_deref());
        let made = made.filter(|fields| !fields.is_empty() && !self.shows_row_metadata());
        let by_fold = self
            .fold_alone()
            .map(|fold| RequiredOutput::Values(fold.paths()));
        let request = PlanRequest {
            fields: needed.as_deref().filter(|_| !self.shows_row_metadata()),
            columns: by_fold.or(made.map(RequiredOutput::Documents)),
            ..self.plan_request()
        };
        plan_read(coll, &request)
    }

    /// The number of matching documents that suffices; `None` is all.
    fn enough(&self) -> Option<u64> {
        self.limit.map(|n| n.saturating_add(self.skip))
    }

    fn read(&self, coll: Arc<Collection>, mut plan: Plan, sorted: bool) -> CollectionRead {
        // Only these columns of a bucket are unpacked; other documents are read as a whole anyway.
        let own = || coll.is_series().then(|| self.needed_fields()).flatten();
        let fields = self.fields.clone().or_else(own);
        if let (Some(series), Some(fields)) = (&mut plan.series, &fields) {
            series.fields = columns(Some(&self.filter), fields);
        }
        let limit = self.enough().filter(|_| sorted);
        let mut read = CollectionRead::new(coll, plan, Some(self.filter.clone()), limit);
        if self.shows_row_metadata() {
            read = read.with_row_metadata();
        }
        match fields {
            Some(fields) => read.with_fields(fields),
            None => read.with_covering(self.needed_fields().as_deref()),
        }
    }

    /// Only a scan of the collection has an end at which new documents arrive. Of the hint only the
    /// scan's direction counts.
    fn open_tail(&self, coll: Arc<Collection>, env: &Env) -> Result<Box<dyn BatchStream>> {
        if self.filter.filter.text().is_some() {
            bail!(
                code::BAD_VALUE,
                "error processing query: text and tailable cursor not allowed in same query"
            );
        }
        check_may_scan(&coll, &self.filter)?;
        let reverse = matches!(self.hint, Some(Hint::Natural { reverse: true }));
        let filter = Some(self.filter.clone());
        let mut read = CollectionRead::tail(coll, reverse, filter, self.enough());
        if self.shows_row_metadata() {
            read = read.with_row_metadata();
        }
        let mut root = self.add_operators(Box::new(read), true);
        root.begin(env);
        Ok(Box::new(root))
    }

    /// The paths that order and projection use; `None` is all.
    fn needed_paths(&self) -> Option<Vec<String>> {
        if self.shows_row_metadata() {
            return None;
        }
        let mut paths = self.projection.as_ref()?.projection.needed_paths()?;
        for (path, order) in self.sort.iter().flat_map(|s| s.spec().iter()) {
            if !order.is_number() {
                return None;
            }
            paths.push(path.to_owned());
        }
        Some(paths)
    }

    /// The top-level fields of these paths.
    fn needed_fields(&self) -> Option<Vec<String>> {
        self.needed_paths().as_deref().map(first_parts)
    }

    fn shows_row_metadata(&self) -> bool {
        self.return_key || self.show_record_id
    }

    /// Adds a sort to the read if its order is not the wanted one.
    fn add_sort(
        &self,
        read: Box<dyn Operator>,
        sorted: bool,
        projected: bool,
    ) -> Box<dyn Operator> {
        match self.sort.as_ref().filter(|_| !sorted) {
            None => read,
            Some(pattern) => {
                let sort = Sort::new(read, pattern.clone(), self.enough());
                Box::new(sort.with_projection(projected))
            }
        }
    }

    /// The operators above the read: sort, skip, limit, projection.
    fn add_operators(&self, read: Box<dyn Operator>, sorted: bool) -> Box<dyn Operator> {
        let shaped = self.projection.is_some() || self.shows_row_metadata();
        let sorts = self.sort.is_some() && !sorted;
        let mut root = self.add_sort(read, sorted, self.projection.is_some());
        if self.skip > 0 {
            root = Box::new(Skip::new(root, self.skip));
        }
        // A sort applies the limit itself, but keeps the skipped documents in addition.
        if let Some(n) = self.limit.filter(|_| !sorts || self.skip > 0) {
            root = Box::new(Limit::new(root, n));
        }
        if shaped {
            let shape = Shape {
                projection: self.projection.clone(),
                filter: self.filter.clone(),
                return_key: self.return_key,
                show_record_id: self.show_record_id,
            };
            root = Box::new(Project::new(root, shape));
        } else if let Some(fields) = self.fields.clone().filter(|f| !f.is_empty()) {
            root = Box::new(FieldProjection::new(root, fields));
        }
        root
    }
}

/// The operators of a query and its plan.
pub struct PlannedQuery {
    /// Gives the documents.
    pub root: Box<dyn Operator>,
    /// `None` without a collection.
    pub plan: Option<Plan>,
    /// They give the output of the stage above, see [`Find::number`] and [`Find::fold`].
    pub counted: bool,
}

impl From<Count> for PlannedQuery {
    fn from(count: Count) -> PlannedQuery {
        PlannedQuery {
            plan: count.plan().cloned(),
            root: Box::new(count),
            counted: false,
        }
    }
}

impl From<Distinct> for PlannedQuery {
    fn from(distinct: Distinct) -> PlannedQuery {
        PlannedQuery {
            plan: distinct.plan().cloned(),
            root: Box::new(distinct),
            counted: false,
        }
    }
}

/// The first components of paths, without duplicates.
fn first_parts(paths: &[String]) -> Vec<String> {
    let first = |path: &String| path.split('.').next().unwrap_or_default().to_owned();
    let mut fields: Vec<String> = paths.iter().map(first).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// A bound of the hinted index; an empty document is none.
fn read_bound(bound: &DocBuf) -> Option<Doc<'_>> {
    Some(bound.doc()).filter(|d| !d.is_empty())
}
