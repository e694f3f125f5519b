//! The pipeline's `Host` over the store.

use crate::cmd::{operations, stats};
use crate::service::Service;
use crate::write;
use model::{Doc, DocBuf, FieldPath, MongoError, Namespace, Result, Value, bail, code};
use operators::Env;
use operators::expr::ParseCx;
use query::pipeline::{Batch, Docs, Host, MatchFilter, MergeWrite, NotMatched, OnMatch, Opened, OutTarget, OutWriter, Read, Resolved, Rt};
use query::plan::{Hint, PlanDocs, Want, choose, each_match, explain};
use std::sync::Arc;
use store::{Change, Collection, Store};

/// The store as a pipeline sees it. A parked cursor keeps one without a service.
pub(crate) struct StoreHost<'s> {
    pub(crate) store: Arc<Store>,
    pub(crate) service: Option<&'s Service>,
    /// How the first read shall be done.
    pub(crate) hint: Option<Hint>,
}

impl StoreHost<'_> {
    fn existing(&self, ns: &Namespace) -> Result<Arc<Collection>> {
        self.store.collection(ns)?.ok_or_else(|| MongoError::new(code::NAMESPACE_NOT_FOUND, format!("ns not found {ns}")))
    }

    fn service(&self) -> Result<&Service> {
        self.service.ok_or_else(|| MongoError::internal("a stage that lists must run when the cursor is opened"))
    }

    fn want<'w>(&'w self, read: &'w Read<'_>) -> Want<'w> {
        Want { filter: read.filter, sort: read.sort, hint: self.hint.as_ref(), collation: None }
    }
}

impl Host for StoreHost<'_> {
    fn resolve(&self, ns: &Namespace) -> Result<Resolved> {
        let Some(c) = self.store.collection(ns)? else { return Ok(Resolved::Missing) };
        if !c.is_view() {
            return Ok(Resolved::Collection);
        }
        let options = c.options();
        let d = options.doc();
        let on = Namespace::new(ns.db(), d.field("viewOn").as_str().unwrap_or(""))?;
        let pipeline = d.field("pipeline").as_array().map_or_else(DocBuf::new, |a| a.as_doc().to_buf());
        Ok(Resolved::View { on, pipeline })
    }

    fn open(&self, rt: &Rt<'_>, read: &Read<'_>) -> Result<Opened> {
        let c = self.existing(read.ns)?;
        let plan = choose(&c, &self.want(read), rt.env.collate())?;
        let sorted = plan.sorted && read.sort.is_some();
        // The filter is parsed again because the walk outlives the pipeline's own copy.
        let filter = match read.filter {
            Some(f) => Some(Arc::new(MatchFilter::parse(&mut ParseCx::new(rt.env), f.spec.doc())?)),
            None => None,
        };
        let limit = if read.sort.is_none() || sorted { read.limit } else { None };
        Ok(Opened { docs: Box::new(PlanDocs::new(c, &plan, filter, limit)), filtered: true, sorted })
    }

    fn can_look_up(&self, ns: &Namespace, field: &FieldPath) -> bool {
        let Ok(Some(c)) = self.store.collection(ns) else { return false };
        if c.is_view() {
            return false;
        }
        field.as_str() == "_id" || c.indexes().iter().any(|i| {
            let usable = i.is_ready() && !i.is_partial() && !i.is_sparse() && i.collation().is_none();
            usable && i.fields().first().is_some_and(|f| f.path.as_str() == field.as_str() && f.kind != store::FieldKind::Hashed)
        })
    }

    fn look_up(&self, rt: &Rt<'_>, ns: &Namespace, field: &FieldPath, values: &[Value<'_>]) -> Result<Box<dyn Docs>> {
        let c = self.existing(ns)?;
        let spec = DocBuf::build(|w| {
            let mut d = w.doc(field.as_str());
            let mut list = d.array("$in");
            for v in values {
                list.push(*v);
            }
        });
        let filter = MatchFilter::parse(&mut ParseCx::new(rt.env), spec.doc())?;
        let plan = choose(&c, &Want { filter: Some(&filter), ..Want::default() }, rt.env.collate())?;
        Ok(Box::new(PlanDocs::new(c, &plan, Some(Arc::new(filter)), None)))
    }

    fn begin_out(&self, target: &OutTarget) -> Result<Box<dyn OutWriter>> {
        if target.timeseries.is_some() {
            bail!(code::NOT_IMPLEMENTED, "$out into a time-series collection is not built yet");
        }
        let mut options = DocBuf::new();
        let mut indexes = Vec::new();
        if let Some(c) = self.store.collection(&target.ns)? {
            if c.is_view() {
                bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "$out is not supported on view {}", target.ns);
            }
            options = c.options().as_ref().clone();
            if options.doc().field("capped").truthy() {
                bail!(17_152, "namespace '{}' is capped so it can't be used for $out", target.ns);
            }
            indexes = c.indexes().iter().map(|i| i.spec().to_buf()).collect();
        }
        let service = self.service()?;
        let name = format!("tmp.agg_out.{:016x}", rand::random::<u64>());
        let temp = Namespace::new(target.ns.db(), &name)?;
        let coll = self.store.create_collection(&temp, options, crate::ddl::names::new_uuid())?;
        for spec in indexes {
            coll.create_index(spec)?;
        }
        let validator = write::Validator::of(service, &coll)?;
        let now_ms = service.clock.now_ms();
        Ok(Box::new(Replacement { store: self.store.clone(), temp, to: target.ns.clone(), coll, validator, now_ms, done: false }))
    }

    fn check_merge(&self, ns: &Namespace, on: &[String]) -> Result<()> {
        let there = self.store.collection(ns)?;
        if there.as_ref().is_some_and(|c| c.is_view()) {
            bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection");
        }
        let is_id = on.len() == 1 && on.first().is_some_and(|f| f == "_id");
        let fits = |i: &store::Index| {
            i.is_unique() && !i.is_partial() && i.fields().len() == on.len() && i.fields().iter().all(|f| on.iter().any(|o| o == f.path.as_str()))
        };
        if is_id || there.is_some_and(|c| c.indexes().iter().any(|i| fits(i))) {
            return Ok(());
        }
        bail!(51_183, "Cannot find index to verify that join fields will be unique: {on:?}");
    }

    fn merge(&self, m: &MergeWrite<'_>, matched: &OnMatch<'_>) -> Result<()> {
        let service = self.service()?;
        let coll = match self.store.collection(m.ns)? {
            Some(c) => c,
            None => write::create_implicitly(service, m.ns)?,
        };
        let validator = write::Validator::of(service, &coll)?;
        let spec = DocBuf::build(|w| {
            for (path, v) in m.on {
                w.doc(path).put("$eq", *v);
            }
        });
        let env = Env::new(service.clock.now_ms(), 1);
        let filter = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc())?;
        let plan = choose(&coll, &Want { filter: Some(&filter), ..Want::default() }, None)?;
        let mut key = None;
        each_match(&coll, &plan, Some(&filter), &env, &mut |row| {
            key = Some(row.key.to_vec());
            Ok(false)
        })?;
        if let Some(key) = key {
            coll.modify(&key, &mut |old| match matched(old)? {
                Some(new) => {
                    if let Some(v) = &validator {
                        v.check(new.doc())?;
                    }
                    Ok(Change::Replace(new.into_bytes()))
                }
                None => Ok(Change::Keep),
            })?;
            return Ok(());
        }
        match m.not_matched {
            NotMatched::Discard => Ok(()),
            NotMatched::Fail => bail!(13_113, "$merge could not find a matching document in the target collection for at least one document in the source collection"),
            NotMatched::Insert => insert(&coll, validator.as_ref(), m.doc, service.clock.now_ms()),
        }
    }

    fn coll_stats(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        let c = self.store.collection(ns)?;
        let wanted = spec.contains("storageStats") || spec.contains("count");
        let c = match c {
            Some(c) if !(c.is_view() && wanted) => Some(c),
            Some(_) => bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection"),
            None if spec.contains("count") => bail!(code::NAMESPACE_NOT_FOUND, "Unable to retrieve count in $collStats stage :: caused by :: Collection [{ns}] not found"),
            None => None,
        };
        let service = self.service()?;
        let mut failed = Ok(());
        let d = DocBuf::build(|w| {
            w.put("ns", ns.to_string().as_str()).put("host", &service.config.host).put("localTime", Value::Date(service.clock.now_ms()));
            if let Value::Document(s) = spec.field("storageStats") {
                let scale = crate::args::to_i64(&s.field("scale")).unwrap_or(1);
                if let Some(c) = &c {
                    failed = stats::collection_figures(c, scale, &mut w.doc("storageStats"));
                }
            }
            if spec.contains("latencyStats") {
                let mut l = w.doc("latencyStats");
                for name in ["reads", "writes", "commands", "transactions"] {
                    l.doc(name).put("latency", 0i64).put("ops", 0i64).put("queryableEncryptionLatencyMicros", 0i64);
                }
            }
            if let (true, Some(c)) = (spec.contains("count"), &c) {
                w.put("count", i64::try_from(c.count()).unwrap_or(i64::MAX));
            }
            if spec.contains("queryExecStats") {
                w.doc("queryExecStats").doc("collectionScans").put("total", 0i64).put("nonTailable", 0i64);
            }
        });
        failed.map(|()| vec![d])
    }

    fn index_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>> {
        let Some(c) = self.store.collection(ns)? else { return Ok(Vec::new()) };
        let service = self.service()?;
        let one = |name: &str, key: Doc<'_>, ops: i64, spec: Doc<'_>| {
            DocBuf::build(|w| {
                w.put("name", name).put("key", key).put("host", &service.config.host);
                w.doc("accesses").put("ops", ops).put("since", Value::Date(service.started_ms));
                w.put("spec", spec);
            })
        };
        let id = crate::cmd::list::id_index(c.options().doc());
        let mut out = vec![one("_id_", id.doc().field("key").as_doc().unwrap_or(Doc::EMPTY), 0, id.doc())];
        for i in c.indexes().iter() {
            let ops = i64::try_from(i.accesses.load(std::sync::atomic::Ordering::Relaxed)).unwrap_or(i64::MAX);
            out.push(one(i.name(), i.key_pattern(), ops, i.spec()));
        }
        Ok(out)
    }

    fn plan_cache_stats(&self, _: &Namespace) -> Result<Vec<DocBuf>> {
        // Plans are chosen by rules for every query; there is no cache to show.
        Ok(Vec::new())
    }

    fn list(&self, stage: &str, _db: &str, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        let service = self.service()?;
        match stage {
            "$currentOp" => Ok(operations::list(service, spec.field("idleConnections").truthy())),
            "$listSessions" | "$listLocalSessions" => Ok(service
                .state
                .sessions
                .list()
                .into_iter()
                .map(|(id, s)| {
                    DocBuf::build(|w| {
                        w.doc("_id").put("id", model::Binary { subtype: 4, bytes: &id });
                        w.put("lastUse", Value::Date(s.last_use_ms));
                    })
                })
                .collect()),
            _ => Ok(Vec::new()),
        }
    }

    fn explain(&self, rt: &Rt<'_>, read: &Read<'_>) -> Result<DocBuf> {
        match self.store.collection(read.ns)? {
            Some(c) => Ok(explain(&choose(&c, &self.want(read), rt.env.collate())?, read.filter)),
            None => Ok(model::doc! { "isCached": false, "stage": "EOF" }),
        }
    }

    fn spill_file(&self) -> Result<std::fs::File> {
        // Unnamed where the system allows it, else unlinked at once.
        let path = std::env::temp_dir().join(format!("quarry-spill-{:016x}", rand::random::<u64>()));
        let failed = |e: std::io::Error| MongoError::new(code::FILE_STREAM_FAILED, format!("cannot make a temporary file: {e}"));
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        std::fs::remove_file(&path).map_err(failed)?;
        Ok(file)
    }
}

fn insert(coll: &Collection, validator: Option<&write::Validator>, d: Doc<'_>, now_ms: i64) -> Result<()> {
    let d = write::with_id(d, now_ms)?;
    if let Some(v) = validator {
        v.check(d.doc())?;
    }
    match coll.insert(&[d.doc()], true)?.errors.into_iter().next() {
        Some((_, e)) => Err(e),
        None => Ok(()),
    }
}

/// `$out`: a collection beside the target that takes its name at the end.
struct Replacement {
    store: Arc<Store>,
    temp: Namespace,
    to: Namespace,
    coll: Arc<Collection>,
    validator: Option<write::Validator>,
    now_ms: i64,
    done: bool,
}

impl OutWriter for Replacement {
    fn write(&mut self, docs: &Batch) -> Result<()> {
        for d in docs.iter() {
            insert(&self.coll, self.validator.as_ref(), d, self.now_ms)?;
        }
        Ok(())
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        self.store.rename_collection(&self.temp, &self.to, true)?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.done {
            // Best effort: a leftover is named as a temporary one.
            let _ = self.store.drop_collection(&self.temp);
        }
    }
}
