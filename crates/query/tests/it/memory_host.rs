//! A `Host` over collections in memory.

use model::{Doc, DocBuf, FieldPath, MongoError, Namespace, Result, Value, bail, code, doc};
use query::exec::{
    BatchStream, DocBatch, ExecContext, GeoIndex, Host, MergeWrite, OnMatch, OpenRead, OutTarget,
    OutWriter, ReadRequest, ReadyBatch, ResolvedNamespace, WhenNotMatched,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// One collection or view.
#[derive(Clone, Default)]
pub(crate) struct Coll {
    pub(crate) docs: Vec<DocBuf>,
    /// The name, the key and whether it is unique.
    pub(crate) indexes: Vec<(String, DocBuf, bool)>,
    pub(crate) view: Option<(Namespace, DocBuf)>,
    pub(crate) capped: bool,
    pub(crate) timeseries: bool,
}

pub(crate) type Colls = Arc<Mutex<BTreeMap<Namespace, Coll>>>;

#[derive(Clone, Default)]
pub(crate) struct MemoryHost {
    pub(crate) colls: Colls,
    pub(crate) memory_limit_bytes: Option<usize>,
    pub(crate) spill_threshold_bytes: Option<usize>,
    pub(crate) with_lookup_index: bool,
    /// Number of temporary files requested.
    pub(crate) spills: Arc<AtomicUsize>,
}

fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    model::compare(a, b).is_eq()
}

fn check_unique(coll: &Coll, added: Doc<'_>, replaced: Option<usize>) -> Result<()> {
    let keys = coll.indexes.iter().filter(|i| i.2).map(|i| &i.1);
    let id = doc! { "_id": 1i32 };
    for key in keys.chain([&id]) {
        let clash = coll.docs.iter().enumerate().any(|(n, d)| {
            Some(n) != replaced
                && key
                    .doc()
                    .iter()
                    .all(|(f, _)| same(&d.doc().field(f), &added.field(f)))
        });
        if clash {
            bail!(code::DUPLICATE_KEY, "E11000 duplicate key error");
        }
    }
    Ok(())
}

impl MemoryHost {
    pub(crate) fn insert(&self, ns: &Namespace, d: DocBuf) -> Result<()> {
        let mut colls = self.colls.lock().unwrap();
        let coll = colls.entry(ns.clone()).or_default();
        check_unique(coll, d.doc(), None)?;
        coll.docs.push(d);
        Ok(())
    }
    fn coll(&self, ns: &Namespace) -> Option<Coll> {
        self.colls.lock().unwrap().get(ns).cloned()
    }
}

fn with_id(d: Doc<'_>, n: usize) -> DocBuf {
    if d.contains("_id") {
        return d.to_buf();
    }
    let mut id = [7u8; 12];
    id[4..].copy_from_slice(&(n as u64).to_be_bytes());
    DocBuf::build(|w| {
        w.put("_id", model::ObjectId(id)).put_all(d);
    })
}

struct Chunks(Vec<DocBuf>, usize);

impl BatchStream for Chunks {
    /// Batches are small on purpose: stages must work with any batch size.
    fn next_batch(&mut self, _: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        for d in self.0.iter().skip(self.1).take(3) {
            out.push(d.doc());
        }
        self.1 += 3;
        Ok(self.1 < self.0.len())
    }
}

struct MemoryOut {
    host: MemoryHost,
    ns: Namespace,
    timeseries: bool,
    fresh: Coll,
}

impl OutWriter for MemoryOut {
    fn write(&mut self, docs: &DocBatch) -> Result<()> {
        for d in docs.iter() {
            let d = with_id(d, self.fresh.docs.len() + 1_000_000);
            check_unique(&self.fresh, d.doc(), None)?;
            self.fresh.docs.push(d);
        }
        Ok(())
    }
    fn commit(&mut self) -> Result<()> {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.timeseries |= self.timeseries;
        let mut colls = self.host.colls.lock().unwrap();
        colls.insert(self.ns.clone(), fresh);
        Ok(())
    }
}

impl Host for MemoryHost {
    fn resolve(&self, ns: &Namespace) -> Result<ResolvedNamespace> {
        Ok(match self.coll(ns) {
            None => ResolvedNamespace::Missing,
            Some(Coll {
                view: Some((on, pipeline)),
                ..
            }) => ResolvedNamespace::View { on, pipeline },
            Some(_) => ResolvedNamespace::Collection,
        })
    }
    fn open(&self, _: &ExecContext<'_>, read: &ReadRequest<'_>) -> Result<OpenRead> {
        let docs = self.coll(read.ns).map(|c| c.docs).unwrap_or_default();
        Ok(OpenRead {
            docs: Box::new(Chunks(docs, 0)),
            filtered: false,
            sorted: false,
            limited: false,
            near: false,
            folded: false,
        })
    }
    fn can_look_up(&self, _: &Namespace, _: &FieldPath) -> bool {
        self.with_lookup_index
    }
    fn look_up(
        &self,
        _: &ExecContext<'_>,
        ns: &Namespace,
        field: &FieldPath,
        values: &[Value<'_>],
    ) -> Result<Box<dyn BatchStream>> {
        let mut out = DocBatch::new();
        for d in self.coll(ns).map(|c| c.docs).unwrap_or_default() {
            let arena = model::Bump::new();
            let found = operators::expr::walk(Value::Document(d.doc()), field.parts(), &arena);
            let nullish = values.iter().any(Value::is_nullish);
            let hit = match found {
                Value::Array(a) => {
                    nullish
                        || a.iter().any(|v| values.iter().any(|w| same(&v, w)))
                        || values.iter().any(|w| same(&found, w))
                }
                v => v.is_nullish() && nullish || values.iter().any(|w| same(&v, w)),
            };
            if hit {
                out.push(d.doc());
            }
        }
        Ok(Box::new(ReadyBatch(out)))
    }
    fn geo_indexes(&self, ns: &Namespace) -> Result<Vec<(String, GeoIndex)>> {
        let indexes = self.coll(ns).unwrap_or_default().indexes;
        let kinds = indexes
            .iter()
            .flat_map(|i| i.1.doc().iter())
            .filter_map(|(f, v)| match v {
                Value::String("2d") => Some((f.to_owned(), GeoIndex::Flat)),
                Value::String("2dsphere") => Some((f.to_owned(), GeoIndex::Sphere)),
                _ => None,
            });
        Ok(kinds.collect())
    }
    fn begin_out(&self, _: &ExecContext<'_>, target: &OutTarget) -> Result<Box<dyn OutWriter>> {
        let old = self.coll(&target.ns).unwrap_or_default();
        if old.view.is_some() {
            bail!(
                if target.timeseries.is_some() {
                    7268700
                } else {
                    166
                },
                "{} is a view",
                target.ns
            );
        }
        if old.capped {
            bail!(17152, "namespace '{}' is capped", target.ns);
        }
        let fresh = Coll {
            docs: Vec::new(),
            ..old
        };
        Ok(Box::new(MemoryOut {
            host: self.clone(),
            ns: target.ns.clone(),
            timeseries: target.timeseries.is_some(),
            fresh,
        }))
    }
    fn check_merge(&self, ns: &Namespace, on: &[String]) -> Result<()> {
        let coll = self.coll(ns).unwrap_or_default();
        if coll.view.is_some() || coll.timeseries {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "cannot $merge into {ns}: it is a view"
            );
        }
        let covers = |key: &DocBuf| {
            key.doc().count() == on.len() && on.iter().all(|f| key.doc().contains(f))
        };
        if on != ["_id"] && !coll.indexes.iter().any(|i| i.2 && covers(&i.1)) {
            bail!(
                51183,
                "Cannot find index to verify that join fields will be unique"
            );
        }
        Ok(())
    }
    fn merge(
        &self,
        _: &ExecContext<'_>,
        write: &MergeWrite<'_>,
        matched: &OnMatch<'_>,
    ) -> Result<()> {
        let mut colls = self.colls.lock().unwrap();
        let coll = colls.entry(write.ns.clone()).or_default();
        let arena = model::Bump::new();
        let found = coll.docs.iter().position(|d| {
            write.on.iter().all(|(f, v)| {
                let path = FieldPath::new(f);
                same(
                    &operators::expr::walk(Value::Document(d.doc()), path.parts(), &arena),
                    v,
                )
            })
        });
        match found {
            Some(at) => {
                if let Some(new) = matched(coll.docs[at].doc())? {
                    if !same(&new.doc().field("_id"), &coll.docs[at].doc().field("_id")) {
                        bail!(code::IMMUTABLE_FIELD, "the _id of a document cannot change");
                    }
                    check_unique(coll, new.doc(), Some(at))?;
                    coll.docs[at] = new;
                }
            }
            None => match write.not_matched {
                WhenNotMatched::Discard => {}
                WhenNotMatched::Fail => bail!(13113, "$merge could not find a matching document"),
                WhenNotMatched::Insert => {
                    let d = with_id(write.doc, coll.docs.len() + 2_000_000);
                    check_unique(coll, d.doc(), None)?;
                    coll.docs.push(d);
                }
            },
        }
        Ok(())
    }
    fn coll_stats(&self, ns: &Namespace, spec: Doc<'_>) -> Result<Vec<DocBuf>> {
        let n = self.coll(ns).map_or(0, |c| c.docs.len());
        let mut out = doc! { "ns": ns.to_string().as_str(), "host": "memory" };
        let asks = |part: &str| !spec.field(part).is_nullish();
        if self.coll(ns).is_none()
            && ["count", "storageStats", "queryExecStats"]
                .iter()
                .any(|p| asks(p))
        {
            bail!(code::NAMESPACE_NOT_FOUND, "{ns} does not exist");
        }
        if spec.contains("count") && self.coll(ns).is_some_and(|c| c.view.is_none()) {
            out.put("count", n as i32);
        }
        Ok(vec![out])
    }
    fn index_stats(&self, ns: &Namespace) -> Result<Vec<DocBuf>> {
        let Some(coll) = self.coll(ns) else {
            return Ok(Vec::new());
        };
        let id = ("_id_".to_owned(), doc! { "_id": 1i32 }, false);
        let all = [id].into_iter().chain(coll.indexes);
        Ok(all
            .map(|(name, key, _)| {
                doc! { "name": name.as_str(), "key": &key, "host": "memory", "accesses": {
                    "ops": 0i64, "since": 0i64 },
                "spec": &doc! { "v": 2i32, "key": &key, "name": name.as_str() } }
            })
            .collect())
    }
    fn plan_cache_stats(&self, _: &Namespace) -> Result<Vec<DocBuf>> {
        Ok(Vec::new())
    }
    fn list(&self, stage: &str, db: &str, _: Doc<'_>) -> Result<Vec<DocBuf>> {
        Ok(match stage {
            "$currentOp" => vec![doc! { "type": "op", "ns": db }],
            "$listClusterCatalog" => {
                let colls = self.colls.lock().unwrap();
                colls
                    .keys()
                    .map(|ns| {
                        doc! { "db": ns.db(), "ns": ns.to_string().as_str(),
                        "type": "collection" }
                    })
                    .collect()
            }
            _ => Vec::new(),
        })
    }
    fn memory_limit_bytes(&self) -> usize {
        self.memory_limit_bytes.unwrap_or(100 << 20)
    }
    fn spill_threshold_bytes(&self) -> usize {
        self.spill_threshold_bytes
            .unwrap_or_else(|| self.memory_limit_bytes())
    }
    fn spill_file(&self) -> Result<cipher::Scratch> {
        self.spills.fetch_add(1, Ordering::Relaxed);
        tempfile::tempfile()
            .map(cipher::Scratch::new_sealed)
            .map_err(|e| MongoError::new(code::FILE_STREAM_FAILED, e.to_string()))
    }
}
