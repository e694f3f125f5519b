//! What pipelines ask of the server, answered over the store.

use crate::service::Service;
use crate::write;
use model::{Doc, DocBuf, FieldPath, MongoError, Namespace, Result, Value, bail, code};
use operators::expr::ParseCx;
use query::pipeline::{
    Batch, Docs, GeoIndex, Host, MatchFilter, MergeWrite, NotMatched, OnMatch, Opened, OutTarget, OutWriter, Read, Resolved, Rt,
};
use query::plan::{Access, PlanDocs, Want, choose, each_match};
use std::sync::Arc;
use store::{Change, Collection};

/// The server as pipelines see it.
#[derive(Clone)]
pub(crate) struct StoreHost {
    service: Arc<Service>,
    /// Collation of the operation as the client wrote it.
    collation: Option<DocBuf>,
    hint: Option<query::plan::Hint>,
}

impl StoreHost {
    /// For one operation.
    pub(crate) fn new(service: Arc<Service>, collation: Option<DocBuf>, hint: Option<query::plan::Hint>) -> StoreHost {
        StoreHost { service, collation, hint }
    }

    fn want<'q>(&'q self, read: &Read<'q>) -> Want<'q> {
        Want {
            filter: read.filter.map(Arc::as_ref),
            sort: read.sort,
            hint: self.hint.as_ref(),
            collation: self.collation.as_ref().map(DocBuf::doc),
        }
    }

    fn writable(&self, ns: &Namespace) -> Result<Option<Arc<Collection>>> {
        let c = self.service.store.collection(ns)?;
        if c.as_ref().is_some_and(|c| c.is_view()) {
            bail!(code::COMMAND_NOT_SUPPORTED_ON_VIEW, "Namespace {ns} is a view, not a collection");
        }
        Ok(c)
    }
}

/// Whether a view's collation is that of the operation; absent and simple are one.
fn same_collation(view: Option<Doc<'_>>, operation: Option<Doc<'_>>) -> bool {
    match (view, operation) {
        (None, None) => true,
        (Some(v), Some(o)) => operators::collation::same(v, o),
        _ => false,
    }
}

impl Host for StoreHost {
    fn resolve(&self, ns: &Namespace) -> Result<Resolved> {
        let Some(c) = self.service.store.collection(ns)? else { return Ok(Resolved::Missing) };
        if !c.is_view() {
            return Ok(Resolved::Collection);
        }
        let options = c.options();
        let d = options.doc();
        if !same_collation(d.field("collation").as_doc(), self.collation.as_ref().map(DocBuf::doc)) {
            bail!(code::OPTION_NOT_SUPPORTED_ON_VIEW, "Cannot override the default collation of view {ns}");
        }
        let on = Namespace::new(ns.db(), d.field("viewOn").as_str().unwrap_or_default())?;
        let pipeline = d.field("pipeline").as_array().unwrap_or(model::Array::EMPTY);
        Ok(Resolved::View { on, pipeline: pipeline.as_doc().to_buf() })
    }

    fn open(&self, _: &Rt<'_>, read: &Read<'_>) -> Result<Opened> {
        let Some(coll) = self.service.store.collection(read.ns)? else {
            return Ok(Opened { docs: Box::new(query::pipeline::NoDocs), filtered: false, sorted: false });
        };
        let plan = choose(&coll, &self.want(read))?;
        let sorted = plan.sorted && read.sort.is_some();
        let limit = read.limit.filter(|_| read.sort.is_none() || sorted);
        let docs = PlanDocs::new(coll, &plan, read.filter.cloned(), limit);
        Ok(Opened { docs: Box::new(docs), filtered: true, sorted })
    }

    fn can_look_up(&self, ns: &Namespace, field: &FieldPath) -> bool {
        let Ok(Some(c)) = self.service.store.collection(ns) else { return false };
        !c.is_view()
            && (field.as_str() == "_id"
                || c.indexes().iter().any(|i| {
                    i.is_ready()
                        && i.is_keyed()
                        && !i.is_hidden()
                        && !i.is_partial()
                        && !i.is_sparse()
                        && i.collation().is_none()
                        && i.fields().first().is_some_and(|f| f.path == *field)
                }))
    }

    fn look_up(&self, rt: &Rt<'_>, ns: &Namespace, field: &FieldPath, values: &[Value<'_>]) -> Result<Box<dyn Docs>> {
        let Some(coll) = self.service.store.collection(ns)? else { return Ok(Box::new(query::pipeline::NoDocs)) };
        let spec = DocBuf::build(|w| {
            let mut one = w.doc(field.as_str());
            let mut list = one.array("$in");
            for v in values {
                // A regular expression would be taken as a pattern; the caller compares with $eq itself.
                if !matches!(v, Value::Regex(_) | Value::Undefined | Value::Missing) {
                    list.push(*v);
                }
            }
        });
        let filter = Arc::new(MatchFilter::parse(&mut ParseCx::new(rt.env), spec.doc())?);
        let unfit = values.iter().any(|v| matches!(v, Value::Regex(_) | Value::Undefined | Value::Missing));
        if unfit {
            let plan = query::plan::Plan::scan();
            return Ok(Box::new(PlanDocs::new(coll, &plan, None, None)));
        }
        let want = Want { filter: Some(&filter), collation: self.collation.as_ref().map(DocBuf::doc), ..Want::default() };
        let plan = choose(&coll, &want)?;
        Ok(Box::new(PlanDocs::new(coll, &plan, Some(filter), None)))
    }

    fn geo_indexes(&self, ns: &Namespace) -> Result<Vec<(String, GeoIndex)>> {
        let Some(coll) = self.service.store.collection(ns)? else { return Ok(Vec::new()) };
        let indexes = coll.indexes();
        let kinds = indexes.iter().filter(|i| i.is_ready() && !i.is_hidden()).flat_map(|i| i.key_pattern().iter());
        Ok(kinds
            .filter_map(|(field, v)| match v {
                Value::String("2d") => Some((field.to_owned(), GeoIndex::Flat)),
                Value::String("2dsphere") => Some((field.to_owned(), GeoIndex::Sphere)),
                _ => None,
            })
            .collect())
    }

    fn begin_out(&self, target: &OutTarget) -> Result<Box<dyn OutWriter>> {
        let existing = self.writable(&target.ns)?;
        if let Some(c) = &existing {
            if c.options().doc().field("capped").truthy() {
                bail!(17152, "namespace '{}' is capped so it can't be used for $out", target.ns);
            }
        }
        if target.timeseries.is_some() {
            bail!(code::NOT_IMPLEMENTED, "$out to a time-series collection is not supported by this server yet");
        }
        crate::ddl::names::may_create(&target.ns)?;
        let temporary = Namespace::new(target.ns.db(), &format!("tmp.agg_out.{:016x}", rand::random::<u64>()))?;
        let options = existing.as_ref().map(|c| c.options().as_ref().clone()).unwrap_or_default();
        let fresh = self.service.store.create_collection(&temporary, options, crate::ddl::names::new_uuid())?;
        let validator = match &existing {
            Some(c) => write::Validator::of(&self.service, c)?,
            None => None,
        };
        if let Some(c) = &existing {
            for i in c.indexes().iter().filter(|i| i.is_ready()) {
                fresh.create_index(i.spec().to_buf())?;
            }
        }
        Ok(Box::new(Out { host: self.clone(), temporary, target: target.ns.clone(), fresh, validator, done: false }))
    }

    fn check_merge(&self, ns: &Namespace, on: &[String]) -> Result<()> {
        let c = self.writable(ns)?;
        let is_id = matches!(on, [one] if one == "_id");
        let covered = is_id
            || c.is_some_and(|c| {
                c.indexes().iter().any(|i| {
                    i.is_unique()
                        && i.is_ready()
                        && !i.is_partial()
                        && i.fields().len() == on.len()
                        && i.fields().iter().all(|f| on.iter().any(|o| o == f.path.as_str()))
                })
            });
        if !covered {
            bail!(51183, "Cannot find index to verify that join fields will be unique: {on:?}");
        }
        Ok(())
    }

    fn merge(&self, write: &MergeWrite<'_>, matched: &OnMatch<'_>) -> Result<()> {
        let coll = match self.writable(write.ns)? {
            Some(c) => c,
            None => write::create_implicitly(&self.service, write.ns)?,
        };
        let env = operators::Env::new(self.service.clock.now_ms(), rand::random());
        let spec = DocBuf::build(|w| {
            for (name, v) in write.on {
                let mut one = w.doc(name);
                one.put("$eq", if v.is_missing() { Value::Null } else { *v });
            }
        });
        let filter = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc())?;
        let plan = choose(&coll, &Want { filter: Some(&filter), ..Want::default() })?;
        let mut key = None;
        each_match(&coll, &plan, Some(&filter), &env, &mut |row| {
            key = Some(row.key.to_vec());
            Ok(false)
        })?;
        let validator = write::Validator::of(&self.service, &coll)?;
        let valid = |d: Doc<'_>| validator.as_ref().map_or(Ok(()), |v| v.check(d));
        if let Some(key) = key {
            coll.modify(&key, &mut |old| {
                Ok(match matched(old)? {
                    Some(new) if new.doc() != old => {
                        valid(new.doc())?;
                        Change::Replace(new.into_bytes())
                    }
                    _ => Change::Keep,
                })
            })?;
            return Ok(());
        }
        match write.not_matched {
            NotMatched::Discard => Ok(()),
            NotMatched::Fail => bail!(13113, "$merge could not find a matching document in the target collection for at least one document in the source collection"),
            NotMatched::Insert => {
                let doc = with_id(write.doc, self.service.clock.now_ms());
                valid(doc.doc())?;
                match coll.insert(&[doc.doc()], true)?.errors.pop() {
                    Some((_, e)) => Err(e),
                    None => Ok(()),
                }
            }
        }
    }

    fn coll_stats(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        crate::cmd::stats::stage(&self.service, ns, spec)
    }

    fn index_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>> {
        let Some(c) = self.service.store.collection(ns)? else { return Ok(Vec::new()) };
        if c.is_view() {
            return Ok(Vec::new());
        }
        let host = self.service.config.host.as_str();
        let one = |name: &str, key: Doc<'_>, spec: Doc<'_>, ops: u64| {
            model::doc! {
                "name": name, "key": key, "host": host,
                "accesses": { "ops": i64::try_from(ops).unwrap_or(i64::MAX), "since": Value::Date(self.service.started_ms) },
                "spec": spec
            }
        };
        let options = c.options();
        let id = crate::cmd::list::id_index(options.doc());
        let mut all = vec![one("_id_", model::doc! { "_id": 1i32 }.doc(), id.doc(), 0)];
        for i in c.indexes().iter() {
            let ops = i.accesses.load(std::sync::atomic::Ordering::Relaxed);
            all.push(one(i.name(), i.key_pattern(), i.spec(), ops));
        }
        Ok(all)
    }

    fn plan_cache_stats(&self, _: &Namespace) -> Result<Vec<DocBuf>> {
        // Plans are chosen by rules at each read; nothing is cached.
        Ok(Vec::new())
    }

    fn list(&self, stage: &str, _db: &str, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        match stage {
            "$currentOp" => Ok(crate::cmd::operations::list(&self.service, spec.field("idleConnections").truthy())),
            "$listSessions" | "$listLocalSessions" => Ok(self
                .service
                .state
                .sessions
                .list()
                .into_iter()
                .map(|(id, s)| {
                    model::doc! {
                        "_id": { "id": model::Binary { subtype: 4, bytes: &id } },
                        "lastUse": Value::Date(s.last_use_ms)
                    }
                })
                .collect()),
            "$listClusterCatalog" => {
                let mut all = Vec::new();
                for db in self.service.database_names()? {
                    for e in self.service.store.list_collections(&db)? {
                        let kind = if e.row.kind == store::catalog::Kind::View { "view" } else { "collection" };
                        all.push(model::doc! {
                            "ns": format!("{db}.{}", e.name).as_str(), "db": db.as_str(), "type": kind,
                            "options": &e.row.options, "sharded": false
                        });
                    }
                }
                Ok(all)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn explain(&self, _: &Rt<'_>, read: &Read<'_>) -> Result<DocBuf> {
        let Some(coll) = self.service.store.collection(read.ns)? else { return Ok(model::doc! { "stage": "EOF" }) };
        let plan = choose(&coll, &self.want(read))?;
        let empty = matches!(plan.access, Access::Nothing);
        let winning = query::plan::explain(&plan, read.filter.map(Arc::as_ref));
        Ok(model::doc! {
            "queryPlanner": {
                "namespace": read.ns.to_string().as_str(), "parsedQuery": read.filter.map_or(Doc::EMPTY, |f| f.spec.doc()),
                "indexFilterSet": false, "planCacheShapeHash": Value::Missing,
                "optimizedPipeline": !empty, "winningPlan": &winning, "rejectedPlans": []
            }
        })
    }

    fn spill_file(&self) -> Result<std::fs::File> {
        tempfile::tempfile().map_err(|e| MongoError::new(code::FILE_STREAM_FAILED, format!("cannot make a temporary file: {e}")))
    }
}

fn with_id(d: Doc<'_>, now_ms: i64) -> DocBuf {
    if d.first().is_some_and(|(n, _)| n == "_id") {
        return d.to_buf();
    }
    DocBuf::build(|w| {
        match d.field("_id") {
            Value::Missing => w.put("_id", model::ObjectId(write::new_object_id(now_ms))),
            id => w.put("_id", id),
        };
        for e in d.elements().filter(|e| e.name != b"_id") {
            w.put_element(&e);
        }
    })
}

/// `$out`: a collection beside the target, renamed over it at the end.
struct Out {
    host: StoreHost,
    temporary: Namespace,
    target: Namespace,
    fresh: Arc<Collection>,
    validator: Option<write::Validator>,
    done: bool,
}

impl OutWriter for Out {
    fn write(&mut self, docs: &Batch) -> Result<()> {
        let now = self.host.service.clock.now_ms();
        let owned: Vec<DocBuf> = docs.iter().map(|d| with_id(d, now)).collect();
        if let Some(v) = &self.validator {
            owned.iter().try_for_each(|d| v.check(d.doc()))?;
        }
        let views: Vec<Doc<'_>> = owned.iter().map(DocBuf::doc).collect();
        match self.fresh.insert(&views, true)?.errors.pop() {
            Some((_, e)) => Err(e),
            None => Ok(()),
        }
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        self.done = true;
        self.host.service.store.rename_collection(&self.temporary, &self.target, true)
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        if !self.done {
            // Nothing can be done about a failure here; the name says what it is.
            let _ = self.host.service.store.drop_collection(&self.temporary);
        }
    }
}
