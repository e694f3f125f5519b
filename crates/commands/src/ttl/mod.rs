//! The TTL monitor: deletes expired documents on a thread of its own.
//!
//! Promises: a document is deleted only if it is still expired when its lock is held; clients have
//! priority; a pass reads only collections in which documents can expire; collections take turns,
//! so that none waits for a long one. Must not know: which thread runs the monitor. Before it: its
//! row among the workers. After it: `query` finds, `store` deletes.

mod pace;
mod rule;

use context::read::StoreHost;
use model::{Bump, Doc, Result};
use operators::Env;
use pace::{Pace, nap};
use query::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use query::physical::CollectionRead;
use rule::{ExpiryQuery, Rule, Rules};
use rustc_hash::FxHashMap;
use state::service::Service;
use state::ttl::{Entry, says_so};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};
use store::{
    Change, Collection, ModifyOutcome, ReadView, Scan, SeriesRead, SeriesScan, WriteClass, Writer,
};

/// Documents deleted between two reads of the clock.
const BATCH_DOCS: usize = 128;
/// Documents read between two reads of the clock when a whole collection is read.
const STEP_DOCS: usize = 1024;
/// Estimated bytes that one delete writes, until the real number is known.
const DELETE_BYTES: usize = 256;
/// Namespaces read from the catalog in one step.
const CATALOG_ROWS: usize = 256;
/// Interval between two checks whether the monitor may continue.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The inverse of the fraction of the time that reading whole collections may take.
const READ_ALL_SHARE: u32 = 10;

fn is_enabled(service: &Service) -> bool {
    service.state.parameters.bool("ttlMonitorEnabled") && !service.state.user_writes.are_held_back()
}

/// Reads the catalog once and adds every collection with expiring documents to the list. Commands
/// that change a collection meanwhile update the list themselves.
///
/// # Errors
/// Engine failures.
pub fn find_all(service: &Service, go_on: &dyn Fn() -> bool) -> Result<()> {
    let mut pace = Pace::new(service);
    let mut at = Vec::new();
    loop {
        let start = Instant::now();
        let more = service
            .store
            .visit_catalog(&mut at, CATALOG_ROWS, &mut |ns, row| {
                if says_so(row.options.doc(), row.indexes.iter().map(|i| i.spec.doc())) {
                    service.ttl.add(ns);
                }
            })?;
        if !more || !go_on() {
            return Ok(());
        }
        pace.add_work(service, start.elapsed(), go_on);
    }
}

/// The state of the monitor between passes.
pub struct Monitor {
    /// The time of the last pass.
    last: Instant,
    /// The catalog has been read.
    has_found: bool,
    /// When collections that have to be read completely may be read again.
    read_again: FxHashMap<[u8; 16], Instant>,
}

/// One rule of one collection in a pass.
struct Task {
    entry: Entry,
    coll: Arc<Collection>,
    rule: Rule,
    walk: Option<(ExpiryQuery, ExpiryScan)>,
    /// Time spent without pauses.
    spent: Duration,
}

/// How the expired documents are found. Between batches it holds no resource of the engine.
enum ExpiryScan {
    Planned(Box<CollectionRead>),
    All(Box<Scan>),
    /// Deletes whole buckets.
    Series(Box<SeriesScan>),
}

/// The result of a task's turn.
enum BatchResult {
    /// No expired documents are left.
    Done,
    /// There may be more expired documents.
    More,
}

impl Default for Monitor {
    fn default() -> Monitor {
        Monitor {
            last: Instant::now(),
            has_found: false,
            read_again: FxHashMap::default(),
        }
    }
}

impl Monitor {
    /// Runs a pass if `ttlMonitorSleepSecs` have passed since the last one or since the start.
    ///
    /// # Errors
    /// Engine failures of the scan of the catalog, which runs only once where one server writes:
    /// commands that change a collection update the list later.
    pub fn pass_if_due(&mut self, service: &Arc<Service>, go_on: &dyn Fn() -> bool) -> Result<()> {
        let sleep_s = service.state.parameters.int("ttlMonitorSleepSecs");
        let sleep = Duration::from_secs(u64::try_from(sleep_s).unwrap_or(1));
        let is_due = self.last.elapsed() >= sleep && is_enabled(service);
        // Commands of other servers do not update the list of this one.
        let is_shared = is_due && service.store.peer().is_some();
        if !std::mem::replace(&mut self.has_found, true) || is_shared {
            find_all(service, go_on)?;
        }
        if is_due {
            self.last = Instant::now();
            self.pass(service, go_on);
        }
        Ok(())
    }

    /// Runs one pass over all collections of the list.
    pub fn pass(&mut self, service: &Arc<Service>, go_on: &dyn Fn() -> bool) {
        let go_on = &|| go_on() && is_enabled(service);
        let now_ms = service.clock.now_ms();
        let mut pace = Pace::new(service);
        let mut tasks = self.tasks(service);
        self.read_again.retain(|_, at| *at > Instant::now());
        while !tasks.is_empty() {
            service.ttl.sub_passes.fetch_add(1, Relaxed);
            for _ in 0..tasks.len() {
                let Some(mut task) = tasks.pop_front() else {
                    break;
                };
                if !go_on() {
                    return;
                }
                match self.turn(service, &mut task, now_ms, &mut pace, go_on) {
                    Ok(BatchResult::More) => tasks.push_back(task),
                    Ok(BatchResult::Done) => {}
                    // The next pass uses the new state of the collection.
                    Err(e) if e.is_collection_gone() => {}
                    Err(e) if !go_on() => drop(e),
                    Err(e) => {
                        let what = format!("{} by {}", task.entry.ns, task.rule.name());
                        service.log(
                            'W',
                            "INDEX",
                            &format!(
                                "expired documents of {what} could not be deleted: {}",
                                e.message()
                            ),
                        );
                    }
                }
            }
        }
        service.ttl.passes.fetch_add(1, Relaxed);
    }

    /// The tasks of a pass. Collections in which nothing expires any more are removed from the
    /// list.
    fn tasks(&self, service: &Service) -> VecDeque<Task> {
        let mut tasks = VecDeque::new();
        for entry in service.ttl.list() {
            let coll = match service.store.collection(&entry.ns) {
                Ok(Some(c)) => c,
                Ok(None) => {
                    service.ttl.remove(&entry);
                    continue;
                }
                Err(e) => {
                    service.log(
                        'W',
                        "INDEX",
                        &format!("{} could not be opened: {}", entry.ns, e.message()),
                    );
                    continue;
                }
            };
            let rules = Rules::of(&coll);
            if rules.none {
                service.ttl.remove(&entry);
            }
            service
                .ttl
                .invalid_indexes
                .fetch_add(rules.invalid, Relaxed);
            for rule in rules.rules {
                let (entry, coll) = (entry.clone(), coll.clone());
                tasks.push_back(Task {
                    entry,
                    coll,
                    rule,
                    walk: None,
                    spent: Duration::ZERO,
                });
            }
        }
        tasks
    }

    /// Runs a task until its share of the round is used up.
    fn turn(
        &mut self,
        service: &Arc<Service>,
        task: &mut Task,
        now_ms: i64,
        pace: &mut Pace,
        go_on: &dyn Fn() -> bool,
    ) -> Result<BatchResult> {
        let docs_max =
            u64::try_from(service.state.parameters.int("ttlIndexDeleteTargetDocs")).unwrap_or(0);
        let ms_max =
            u64::try_from(service.state.parameters.int("ttlIndexDeleteTargetTimeMS")).unwrap_or(0);
        let (began, mut deleted) = (Instant::now(), 0);
        let (expired, mut walk) = match task.walk.take() {
            Some(open) => open,
            None => {
                let expired = task.rule.at(&task.coll, now_ms)?;
                if expired.reads_all && self.read_again.contains_key(&task.coll.uuid()) {
                    return Ok(BatchResult::Done);
                }
                let walk = ExpiryScan::open(&task.coll, &expired);
                (expired, walk)
            }
        };
        let host = StoreHost::new(service.arc()?, None, None);
        let operation = service.own_operation();
        loop {
            if !go_on() {
                return Ok(BatchResult::Done);
            }
            if service.state.fsync_locks.load(Acquire) > 0 {
                nap(LOOK_EVERY, go_on);
                continue;
            }
            let start = Instant::now();
            let (keys, more) = walk.next(&task.coll, &expired, &host)?;
            let writer = task.coll.writer(&operation);
            deleted += delete(service, writer, &keys, &expired.filter, &expired.env)?;
            task.spent += start.elapsed();
            pace.add_work(service, start.elapsed(), go_on);
            if !more {
                if expired.reads_all {
                    self.read_again.insert(
                        task.coll.uuid(),
                        Instant::now() + task.spent * READ_ALL_SHARE,
                    );
                }
                return Ok(BatchResult::Done);
            }
            let time_is_up = ms_max > 0 && began.elapsed() >= Duration::from_millis(ms_max);
            if time_is_up || docs_max > 0 && deleted >= docs_max {
                if !expired.remembers {
                    task.walk = Some((expired, walk));
                }
                return Ok(BatchResult::More);
            }
        }
    }
}

impl ExpiryScan {
    fn open(coll: &Arc<Collection>, expired: &ExpiryQuery) -> ExpiryScan {
        // A bucket is deleted once the last measurement that it may contain has expired.
        let until = expired.until_ms.saturating_sub(coll.bucket_span_ms());
        let read = SeriesRead {
            times: Some((i64::MIN, until)),
            ..SeriesRead::default()
        };
        if let Some(scan) = coll.scan_series(&ReadView::LATEST, read, None) {
            return ExpiryScan::Series(Box::new(scan));
        }
        if expired.reads_all {
            let all = coll.scan_keys(&ReadView::LATEST, None, None, false);
            return ExpiryScan::All(Box::new(all));
        }
        let (plan, filter) = (expired.plan.clone(), expired.filter.clone());
        let docs = CollectionRead::new(coll.clone(), plan, Some(filter), None);
        ExpiryScan::Planned(Box::new(docs.with_fields(vec!["_id".to_owned()])))
    }

    /// The keys of the next expired documents, and whether there may be more.
    fn next(
        &mut self,
        coll: &Collection,
        expired: &ExpiryQuery,
        host: &StoreHost,
    ) -> Result<(Vec<Vec<u8>>, bool)> {
        let mut keys = Vec::new();
        match self {
            ExpiryScan::Planned(docs) => {
                let mut found = DocBatch::new();
                found.set_max_docs(BATCH_DOCS);
                let more = docs.next_batch(&ExecContext::new(&expired.env, host), &mut found)?;
                for d in found.iter() {
                    let mut key = Vec::with_capacity(24);
                    coll.record_key(&d.field("_id"), &mut key);
                    keys.push(key);
                }
                Ok((keys, more))
            }
            ExpiryScan::All(_) | ExpiryScan::Series(_) => {
                let (mut arena, mut failed) = (Bump::new(), None);
                let each = &mut |row: store::Row<'_>| {
                    arena.reset();
                    match expired.filter.filter.matches(row.doc, &arena, &expired.env) {
                        Ok(true) => keys.push(row.key.to_vec()),
                        Ok(false) => {}
                        Err(e) => failed = Some(e),
                    }
                    failed.is_none()
                };
                let more = match self {
                    ExpiryScan::All(scan) => {
                        let more = scan.visit(STEP_DOCS, each);
                        scan.pause();
                        more
                    }
                    ExpiryScan::Series(scan) => {
                        let more = scan.visit(STEP_DOCS, each);
                        scan.pause();
                        more
                    }
                    ExpiryScan::Planned(_) => Ok(false),
                }?;
                failed.map_or(Ok((keys, more)), Err)
            }
        }
    }
}

/// Deletes the documents that are still expired when checked again under their locks; returns their
/// number.
fn delete(
    service: &Service,
    coll: Writer<'_>,
    keys: &[Vec<u8>],
    filter: &MatchFilter,
    env: &Env,
) -> Result<u64> {
    let (mut deleted, mut arena) = (0, Bump::new());
    service
        .store
        .engine()
        .admit(keys.len() * DELETE_BYTES, WriteClass::Background);
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut decide = |_: usize, doc: Doc<'_>| {
        arena.reset();
        let expired = filter.filter.matches(doc, &arena, env)?;
        Ok(if expired {
            Change::Delete
        } else {
            Change::Keep
        })
    };
    let mut count =
        |_: usize, done| deleted += u64::from(matches!(done, ModifyOutcome::Deleted(_)));
    let done = coll.modify_many(&keys, &mut decide, &mut count);
    // When a delete fails, the documents before it are deleted.
    service.ttl.count_deleted(deleted);
    done.map(|()| deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, StoreHooks, SystemClock};
    use model::{DocBuf, Namespace, Value, doc};

    #[test]
    fn a_document_touched_after_it_was_found_stays() {
        let clock = Arc::new(SystemClock::default());
        let language = Arc::new(StoreHooks::new(clock.clone()));
        let store =
            Arc::new(store::Store::open(Arc::new(storage::MemoryEngine::new()), language).unwrap());
        let service = Service::new(Config::default(), clock, store).into_shared();
        let ns = Namespace::new("db", "c").unwrap();
        let operation = service.own_operation();
        let c = service
            .store
            .writer(&operation)
            .create_collection(&ns, DocBuf::new(), [1; 16])
            .unwrap();
        let writer = c.writer(&operation);
        writer.create_index(
            doc! { "v": 2i32, "key": { "at": 1i32 }, "name": "at_1", "expireAfterSeconds": 0i32 },
        )
        .unwrap();
        let docs = [
            doc! { "_id": 1i32, "at": Value::Date(0) },
            doc! { "_id": 2i32, "at": Value::Date(0) },
        ];
        writer
            .insert(&docs.each_ref().map(DocBuf::doc), true)
            .unwrap();
        let expired = Rules::of(&c).rules[0].at(&c, 1_000_000).unwrap();
        let host = StoreHost::new(service.clone(), None, None);
        let (keys, _) = ExpiryScan::open(&c, &expired)
            .next(&c, &expired, &host)
            .unwrap();
        assert_eq!(keys.len(), 2);
        let fresh = doc! { "_id": 2i32, "at": Value::Date(2_000_000) };
        writer
            .modify(&keys[1], &mut |_| {
                Ok(Change::Replace(fresh.as_bytes().to_vec()))
            })
            .unwrap();
        assert_eq!(
            delete(&service, writer, &keys, &expired.filter, &expired.env).unwrap(),
            1
        );
        assert_eq!(c.count(), 1);
    }
}
