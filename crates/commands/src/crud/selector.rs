//! Which documents an update or delete is about: a filter, and the keys of what it matches. One
//! document is looked up by itself; many are found in batches by a scan that keeps only a position.

use crate::read::StoreHost;
use crate::state::service::Service;
use model::{Array, Doc, DocBuf, Result, Value};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::{ExecContext, MatchFilter, drain};
use query::pipeline::Pipeline;
use query::plan::{Hint, MatchingKeys, Plan, PlanRequest, RecordKeys, each_match, plan_read};
use std::sync::Arc;
use store::Collection;

/// Attempts of a plan while its index is changed.
const PLAN_TRIES: usize = 10;
/// RecordKeys found before their documents are changed.
const BATCH_KEYS: usize = 256;

/// Which documents an update or delete is about.
pub(crate) struct Selector<'t> {
    pub(crate) coll: &'t Arc<Collection>,
    pub(crate) filter: &'t MatchFilter,
    pub(crate) hint: Option<Hint>,
    /// Collation in force as the client or the collection wrote it.
    pub(crate) collation: Option<Doc<'t>>,
    pub(crate) env: &'t Env,
}

impl Selector<'_> {
    fn plan(&self) -> Result<Plan> {
        let want = PlanRequest {
            filter: Some(self.filter),
            hint: self.hint.as_ref(),
            collation: self.collation,
            ..PlanRequest::default()
        };
        plan_read(self.coll, &want)
    }

    /// The key of the only document a filter of the form `{_id: value, ...}` can match; no read.
    pub(super) fn key_by_id(&self) -> Option<Vec<u8>> {
        if self.hint.is_some() || self.collation.is_some() || self.coll.id_collate().is_some() {
            return None;
        }
        let id = self.filter.filter.id_equality()?;
        // An equality with null or an array may match other ids too.
        if matches!(
            id,
            Value::Null | Value::Undefined | Value::Missing | Value::Array(_) | Value::Regex(_)
        ) {
            return None;
        }
        let mut key = Vec::with_capacity(24);
        self.coll.record_key(&id, &mut key);
        Some(key)
    }

    /// Runs `f` with a plan; again with another one when an index changed before anything was read.
    fn with_plan<T>(&self, mut f: impl FnMut(&Plan) -> Result<T>) -> Result<T> {
        for _ in 1..PLAN_TRIES {
            match f(&self.plan()?) {
                Err(e) if Collection::is_gone(&e) && !self.coll.is_dropped() => {}
                other => return other,
            }
        }
        f(&self.plan()?)
    }

    /// The key of some matching document.
    fn any_key(&self) -> Result<Option<Vec<u8>>> {
        self.with_plan(|plan| {
            let mut key = None;
            each_match(self.coll, plan, Some(self.filter), self.env, &mut |row| {
                key = Some(row.key.to_vec());
                Ok(false)
            })?;
            Ok(key)
        })
    }

    /// Works on the keys of all matching documents, a batch at a time.
    pub(super) fn each_batch(&self, work: &mut dyn FnMut(&[&[u8]]) -> Result<()>) -> Result<()> {
        let mut keys = RecordKeys::default();
        let (mut found, mut more) = self.with_plan(|plan| {
            let mut found = MatchingKeys::open(self.coll, plan)?;
            let more = found.next(self.filter, self.env, BATCH_KEYS, &mut keys)?;
            Ok((found, more))
        })?;
        loop {
            let batch: Vec<&[u8]> = keys.iter().collect();
            work(&batch)?;
            if !more {
                return Ok(());
            }
            more = found.next(self.filter, self.env, BATCH_KEYS, &mut keys)?;
        }
    }

    /// The key of the first matching document in an order.
    pub(super) fn first_key(&self, service: &Service, sort: Doc<'_>) -> Result<Option<Vec<u8>>> {
        if sort.is_empty() {
            return self.any_key();
        }
        let spec = DocBuf::build(|w| {
            let mut a = w.array("p");
            a.doc().put("$match", &self.filter.spec);
            a.doc().put("$sort", sort);
            a.doc().put("$limit", 1i64);
        });
        let stages = spec.doc().field("p").as_array().unwrap_or(Array::EMPTY);
        let pipeline = Pipeline::parse(
            &mut ParseCx::new(self.env),
            stages,
            &query::stages::collection_options(self.coll.ns().clone()),
        )?;
        let host = StoreHost::new(
            service.arc()?,
            self.collation.map(|c| c.to_buf()),
            self.hint.clone(),
        );
        let exec = ExecContext::new(self.env, &host);
        let mut key = None;
        drain(pipeline.open(&exec)?.as_mut(), &exec, |d, _| {
            let mut k = Vec::new();
            self.coll.record_key(&d.field("_id"), &mut k);
            key = Some(k);
            Ok(())
        })?;
        Ok(key)
    }
}
