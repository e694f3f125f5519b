//! The documents that an update or delete applies to: a filter, and the keys of the matching
//! documents. One document is looked up directly; many are found in batches by a scan that keeps
//! only its position.

use super::done::WriteOutcome;
use crate::read::StoreHost;
use model::{Doc, MongoError, Result, Value, bail, code};
use operation::{Operation, split_set_aside};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::{ExecContext, MatchFilter, drain};
use query::physical::{MatchingKeys, RecordKeys, each_match};
use query::pipeline::{Pipeline, QueryParts};
use query::plan::{AllowedIndexes, Hint, Plan, PlanRequest, plan_read};
use state::service::Service;
use std::sync::Arc;
use store::{
    Change, Collection, DecideFn, ModifyOutcome, ReadView, StatementLog, Transaction, Writer,
};

/// Attempts to run a plan while its index changes.
const PLAN_TRIES: usize = 10;
/// Keys that are found before their documents are changed.
const BATCH_KEYS: usize = 256;
/// The same for measurements; the batch is larger, because each change rewrites a whole bucket.
const BATCH_MEASUREMENTS: usize = 8192;

/// The documents that an update or delete applies to.
pub(crate) struct Selector<'t> {
    pub(crate) coll: &'t Arc<Collection>,
    pub(crate) filter: &'t MatchFilter,
    pub(crate) hint: Option<Hint>,
    /// The collation in effect, as the client or the collection specified it.
    pub(crate) collation: Option<Doc<'t>>,
    pub(crate) env: &'t Env,
    /// The only indexes that may be used; `None` allows all.
    pub(crate) allowed: Option<AllowedIndexes>,
    /// The writing operation.
    pub(crate) operation: &'t Operation,
    /// The transaction that the write belongs to.
    pub(crate) transaction: Option<&'t Transaction>,
}

/// Processes documents by their keys. It adds to the outcome, and calls the last argument with the
/// number of keys that the outcome covers.
pub(super) type KeyProcessor<'w> =
    dyn FnMut(&[&[u8]], &mut WriteOutcome, &mut dyn FnMut(usize)) -> Result<()> + 'w;

/// The state of an interrupted statement that changes many documents.
pub struct SuspendedStatement {
    found: MatchingKeys,
    keys: RecordKeys,
    /// How many of `keys` have been processed.
    worked: usize,
    more: bool,
    /// The outcome of all keys so far.
    done: WriteOutcome,
}

impl SuspendedStatement {
    fn next(&mut self, t: &Selector<'_>) -> Result<()> {
        self.worked = 0;
        let most = match t.coll.is_series() {
            true => BATCH_MEASUREMENTS,
            false => BATCH_KEYS,
        };
        self.more = self.found.next(t.filter, t.env, most, &mut self.keys)?;
        Ok(())
    }
}

/// The error of a statement whose collection was dropped or renamed between two runs.
fn report_dropped(coll: &Collection) -> MongoError {
    MongoError::new(
        code::QUERY_PLAN_KILLED,
        format!("collection dropped or renamed: {}", coll.ns()),
    )
}

impl Selector<'_> {
    /// The state in which documents are searched; `None` is the latest.
    fn view(&self) -> Option<&ReadView> {
        self.transaction.map(Transaction::view)
    }

    /// The collection for writes of the operation.
    pub(super) fn writer(&self) -> Writer<'_> {
        self.coll.writer(self.operation)
    }

    fn plan(&self) -> Result<Plan> {
        let want = PlanRequest {
            filter: Some(self.filter),
            hint: self.hint.as_ref(),
            collation: self.collation,
            view: self.view(),
            allowed: self.allowed.as_ref(),
            remember: Some(Doc::EMPTY),
            ..PlanRequest::default()
        };
        plan_read(self.coll, &want)
    }

    /// The key of the only document that a filter of the form `{_id: value, ...}` can match. Reads
    /// no data.
    pub(super) fn key_by_id(&self) -> Option<Vec<u8>> {
        if self.hint.is_some() || self.collation.is_some() || self.coll.id_collate().is_some() {
            return None;
        }
        // Measurements are not stored by `_id`, and several may share one.
        if self.coll.is_series() {
            return None;
        }
        let id = self.filter.filter.id_equality()?;
        // An equality with null or an array may match other `_id` values too.
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

    /// Notes that a document was searched by the key of [`Self::key_by_id`].
    pub(super) fn count_id_search(&self, found: bool) {
        if let Some(operation) = &self.env.operation {
            operation.reads().add_by_id_to_write(found);
        }
        self.coll.id_usage().add();
    }

    /// Runs `f` with a plan, and again with another plan when an index changed before any data was
    /// read.
    fn with_plan<T>(&self, mut f: impl FnMut(&Plan) -> Result<T>) -> Result<T> {
        for _ in 1..PLAN_TRIES {
            match f(&self.plan()?) {
                Err(e) if Collection::is_gone(&e) && !self.coll.is_dropped() => {}
                other => return other,
            }
        }
        f(&self.plan()?)
    }

    /// The key of any matching document.
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

    /// Processes the keys of all matching documents in batches. When the run is set aside, `middle`
    /// keeps the position for the next run.
    pub(super) fn each_batch(
        &self,
        middle: &mut Option<SuspendedStatement>,
        work: &mut KeyProcessor<'_>,
    ) -> Result<WriteOutcome> {
        if self.transaction.is_some() {
            return self.process_all(work);
        }
        let mut at = match middle.take() {
            Some(at) if at.found.is_of(self.coll) => at,
            Some(_) => return Err(report_dropped(self.coll)),
            None => self.with_plan(|plan| {
                let mut at = SuspendedStatement {
                    found: MatchingKeys::open(self.coll, plan, self.env)?,
                    keys: RecordKeys::default(),
                    worked: 0,
                    more: true,
                    done: WriteOutcome::default(),
                };
                at.next(self)?;
                Ok(at)
            })?,
        };
        match split_set_aside(self.go_on(&mut at, work)) {
            Ok(result) => result.map(|()| at.done),
            Err(again) => {
                *middle = Some(at);
                Err(again)
            }
        }
    }

    fn go_on(&self, at: &mut SuspendedStatement, work: &mut KeyProcessor<'_>) -> Result<()> {
        loop {
            let batch: Vec<&[u8]> = at.keys.iter().skip(at.worked).collect();
            let before = at.worked;
            work(&batch, &mut at.done, &mut |n| {
                at.worked = before + n;
                self.operation.writes().checkpoint();
            })?;
            if !at.more {
                return Ok(());
            }
            at.next(self)?;
        }
    }

    /// As [`Selector::each_batch`], but finds all keys before it processes the first one: a
    /// transaction sees its own writes, so a scan would meet a document again that has moved
    /// forward.
    fn process_all(&self, work: &mut KeyProcessor<'_>) -> Result<WriteOutcome> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        self.with_plan(|plan| {
            all.clear();
            each_match(self.coll, plan, Some(self.filter), self.env, &mut |row| {
                all.push(row.key.to_vec());
                Ok(true)
            })
        })?;
        let mut done = WriteOutcome::default();
        for batch in all.chunks(BATCH_KEYS) {
            let keys: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            work(&keys, &mut done, &mut |_| {})?;
        }
        Ok(done)
    }

    /// Changes one document under its lock, or in the transaction.
    pub(super) fn modify(
        &self,
        key: &[u8],
        decide: &mut dyn FnMut(Doc<'_>) -> Result<Change>,
        log: Option<&mut StatementLog<'_>>,
    ) -> Result<ModifyOutcome> {
        let Some(transaction) = self.transaction else {
            return self.writer().modify_logged(key, decide, log);
        };
        let mut outcome = ModifyOutcome::Absent;
        self.writer().modify_in(
            &[key],
            &mut |_, doc| decide(doc),
            &mut |_, m| outcome = m,
            transaction,
        )?;
        Ok(outcome)
    }

    /// Changes many documents.
    pub(super) fn modify_many(
        &self,
        keys: &[&[u8]],
        decide: &mut DecideFn<'_>,
        each: &mut dyn FnMut(usize, ModifyOutcome),
    ) -> Result<()> {
        match self.transaction {
            Some(transaction) => self.writer().modify_in(keys, decide, each, transaction),
            None => self.writer().modify_many(keys, decide, each),
        }
    }

    /// The key of the first matching document in the order of `sort`.
    pub(super) fn first_key(&self, service: &Service, sort: Doc<'_>) -> Result<Option<Vec<u8>>> {
        if sort.is_empty() {
            return self.any_key();
        }
        if self.coll.is_series() {
            bail!(
                code::INVALID_OPTIONS,
                "Cannot perform a findAndModify with sort on a time-series collection"
            );
        }
        let first = QueryParts {
            filter: self.filter.spec.doc(),
            sort,
            limit: Some(1),
            ..QueryParts::ALL
        };
        let options = query::stages::collection_options(self.coll.ns().clone());
        let pipeline = Pipeline::of_query(&mut ParseCx::new(self.env), first, &options)?;
        let host = StoreHost::new(
            service.arc()?,
            self.collation.map(|c| c.to_buf()),
            self.hint.clone(),
        )
        .with_allowed_indexes(Some(self.coll.ns()), self.allowed.clone())
        .with_view(self.view().cloned().unwrap_or_default());
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
