//! The search indexes of this process: their states and their progress. The catalog has the
//! definitions (ADR 0074); this module has what the feeder has built from them. Must not know: how
//! an index is fed or read.

use model::{Doc, DocBuf, Namespace, Result, Timestamp, Value, bail, code};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::Collection;

/// The definition of one search index in the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchDefinition(DocBuf);

impl SearchDefinition {
    /// A new definition.
    pub fn new(id: &str, name: &str, kind: &str, at_ms: i64, spec: Doc<'_>) -> Self {
        SearchDefinition(model::doc! {
            "id": id, "name": name, "type": kind, "version": 0i64,
            "createdAt": Value::Date(at_ms), "definition": spec
        })
    }

    /// The definition with a changed specification and the next version.
    pub fn with_spec(&self, at_ms: i64, spec: Doc<'_>) -> SearchDefinition {
        SearchDefinition(model::doc! {
            "id": self.id(), "name": self.name(), "type": self.kind(),
            "version": self.version() + 1, "createdAt": Value::Date(at_ms), "definition": spec
        })
    }

    /// Reads a definition from the catalog.
    pub fn from_stored(doc: &DocBuf) -> SearchDefinition {
        SearchDefinition(doc.clone())
    }

    /// The form in which the catalog stores the definition.
    pub fn into_stored(self) -> DocBuf {
        self.0
    }

    fn text(&self, field: &str) -> &str {
        self.0.doc().field(field).as_str().unwrap_or_default()
    }

    /// Identity of the index, the same in every version.
    pub fn id(&self) -> &str {
        self.text("id")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// `search` or `vectorSearch`.
    pub(crate) fn kind(&self) -> &str {
        self.text("type")
    }

    /// The version of the definition: how often it was changed.
    pub fn version(&self) -> i64 {
        self.0.doc().field("version").as_i64_exact().unwrap_or(0)
    }

    pub(crate) fn spec(&self) -> Doc<'_> {
        self.0
            .doc()
            .field("definition")
            .as_doc()
            .unwrap_or(Doc::EMPTY)
    }

    /// The parsed definition.
    ///
    /// # Errors
    /// 8 UnknownError.
    pub fn parse(&self) -> Result<search::Definition> {
        search::Definition::parse(self.kind(), self.spec())
    }
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No work was done for it yet.
    Pending,
    /// Documents are read for the first time, or the changes since the last stop are applied.
    Building,
    /// The index follows the changes.
    Ready,
    /// The index can be read and no longer follows the changes.
    Stale,
    /// The index cannot be built.
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Pending => "PENDING",
            Status::Building => "BUILDING",
            Status::Ready => "READY",
            Status::Stale => "STALE",
            Status::Failed => "FAILED",
        }
    }
}

/// One index of this process.
pub struct IndexHandle {
    pub(crate) version: i64,
    now: Mutex<IndexStatus>,
}

struct IndexStatus {
    status: Status,
    /// The reason of the failure.
    message: Option<String>,
    /// The index that searches read.
    index: Option<Arc<search::Index>>,
    /// The index contains every change up to this time.
    position: Timestamp,
}

impl IndexHandle {
    fn new(version: i64) -> IndexHandle {
        IndexHandle {
            version,
            now: Mutex::new(IndexStatus {
                status: Status::Pending,
                message: None,
                index: None,
                position: Timestamp::from_u64(0),
            }),
        }
    }

    /// Sets its status.
    pub fn set_status(&self, status: Status) {
        let mut now = self.now.lock();
        (now.status, now.message) = (status, None);
    }

    /// Notes that the feeder cannot continue; searches still read what was built before.
    pub fn fail(&self, message: &str) {
        let mut now = self.now.lock();
        now.message = Some(message.to_owned());
        now.status = match now.index {
            Some(_) => Status::Stale,
            None => Status::Failed,
        };
    }

    /// Sets the index that searches read from now on; `None` while it is rebuilt.
    pub fn show(&self, index: Option<Arc<search::Index>>, position: Timestamp) {
        let mut now = self.now.lock();
        (now.index, now.position) = (index, position);
    }

    /// Sets the time of the last change that the index has committed.
    pub fn set_position(&self, position: Timestamp) {
        self.now.lock().position = position;
    }

    /// The index that searches read.
    pub(crate) fn index(&self) -> Option<Arc<search::Index>> {
        self.now.lock().index.clone()
    }
}

/// All search indexes, and the collections whose definitions the feeder has to check.
#[derive(Default)]
pub struct SearchIndexes {
    live: Mutex<BTreeMap<String, Arc<IndexHandle>>>,
    changed: Mutex<BTreeSet<Namespace>>,
    woken: Condvar,
    searches: AtomicU64,
    search_us: AtomicU64,
    searches_failed: AtomicU64,
}

/// Figures of all indexes, and of searches since the start.
#[derive(Default)]
pub struct SearchFigures {
    /// By status, in the order of [`Status`].
    pub by_status: [u64; 5],
    /// Documents in all indexes.
    pub documents: u64,
    /// Memory of the graphs of vector indexes.
    pub graph_bytes: u64,
    /// Searches since the start.
    pub searches: u64,
    /// Total time of finding the results, in microseconds.
    pub search_us: u64,
    /// Searches that ended with an error, including killed ones.
    pub failed: u64,
}

impl SearchIndexes {
    /// Notes that the definitions of a collection were changed.
    pub fn note(&self, ns: &Namespace) {
        self.changed.lock().insert(ns.clone());
        self.woken.notify_all();
    }

    /// Collections whose definitions were changed since the last call.
    pub fn take_changed(&self) -> BTreeSet<Namespace> {
        std::mem::take(&mut *self.changed.lock())
    }

    /// Waits until definitions are changed, at most for this long.
    pub fn wait(&self, most: Duration) {
        let mut changed = self.changed.lock();
        if changed.is_empty() {
            self.woken.wait_for(&mut changed, most);
        }
    }

    /// The running index of a definition. It is created when there is none or only one of another
    /// version.
    pub fn live(&self, definition: &SearchDefinition) -> Arc<IndexHandle> {
        let mut live = self.live.lock();
        let version = definition.version();
        let known = live.get(definition.id()).filter(|l| l.version == version);
        if let Some(known) = known {
            return known.clone();
        }
        let new = Arc::new(IndexHandle::new(version));
        live.insert(definition.id().to_owned(), new.clone());
        new
    }

    /// Removes an index that was dropped.
    pub fn remove(&self, id: &str) {
        self.live.lock().remove(id);
    }

    /// The index of this name that searches read; `None` before it is built.
    pub fn find(&self, coll: &Collection, name: &str) -> Option<Arc<search::Index>> {
        let list = coll.search_indexes();
        let definition = list
            .iter()
            .map(SearchDefinition::from_stored)
            .find(|d| d.name() == name)?;
        self.live(&definition).index()
    }

    /// Counts a search.
    pub fn count(&self, took: Duration, failed: bool) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.searches.fetch_add(1, Ordering::Relaxed);
        self.search_us.fetch_add(us, Ordering::Relaxed);
        self.searches_failed
            .fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// The current figures.
    pub fn figures(&self) -> SearchFigures {
        let mut all = SearchFigures {
            searches: self.searches.load(Ordering::Relaxed),
            search_us: self.search_us.load(Ordering::Relaxed),
            failed: self.searches_failed.load(Ordering::Relaxed),
            ..SearchFigures::default()
        };
        let live: Vec<Arc<IndexHandle>> = self.live.lock().values().cloned().collect();
        for one in live {
            let (status, index) = {
                let now = one.now.lock();
                (now.status, now.index.clone())
            };
            if let Some(n) = all.by_status.get_mut(status as usize) {
                *n += 1;
            }
            if let Some(index) = index {
                all.documents += index.documents();
                all.graph_bytes += index.graph_bytes() as u64;
            }
        }
        all
    }

    /// The documents of `$listSearchIndexes` for the indexes of a collection.
    ///
    /// # Errors
    /// 9 FailedToParse with both an id and a name.
    pub fn describe(
        &self,
        coll: &Collection,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<DocBuf>> {
        if id.is_some() && name.is_some() {
            bail!(
                code::FAILED_TO_PARSE,
                "a search index is named by its id or its name, not by both"
            );
        }
        let list = coll.search_indexes();
        let wanted = list.iter().map(SearchDefinition::from_stored).filter(|d| {
            id.is_none_or(|id| id == d.id()) && name.is_none_or(|name| name == d.name())
        });
        Ok(wanted.map(|d| self.describe_one(&d)).collect())
    }

    fn describe_one(&self, definition: &SearchDefinition) -> DocBuf {
        let live = self.live(definition);
        let now = live.now.lock();
        DocBuf::build(|w| {
            w.put("id", definition.id())
                .put("name", definition.name())
                .put("type", definition.kind())
                .put("status", now.status.name())
                .put("queryable", now.index.is_some());
            if let Some(message) = &now.message {
                w.put("message", message.as_str());
            }
            let mut version = w.doc("latestDefinitionVersion");
            version.put("version", definition.version());
            version.put("createdAt", definition.0.doc().field("createdAt"));
            drop(version);
            w.put("latestDefinition", definition.spec());
            if let Some(index) = &now.index {
                let documents = i64::try_from(index.documents()).unwrap_or(i64::MAX);
                w.put("numDocs", documents);
                w.put("upTo", now.position);
            }
        })
    }
}
