//! Counts of operations, as `serverStatus` shows them. Plain relaxed atomics.

use metrics::{LatencyCounts, OpLatency};
use parking_lot::Mutex;
use request::spec::{LatencyKind, OpClass};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// Most namespaces that are counted.
const NAMESPACES_MAX: usize = 20_000;

/// Microseconds and number of operations of one kind on one namespace.
pub type Tally = (i64, i64);

/// Use of one namespace, counted without a lock.
#[derive(Debug, Default)]
pub struct NamespaceUse {
    /// Time and number of operations by class, in the order of [`OpClass`].
    tallies: [(AtomicI64, AtomicI64); 6],
    latencies: [OpLatency; 3],
    /// Scans of the whole collection, and how many of them were by tailing cursors.
    scans: (AtomicI64, AtomicI64),
    forgotten: AtomicBool,
}

/// Counts of documents by what was done with them.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Documents {
    pub inserted: AtomicI64,
    pub updated: AtomicI64,
    pub deleted: AtomicI64,
    pub returned: AtomicI64,
    pub examined: AtomicI64,
    /// Index entries that were examined.
    pub keys_examined: AtomicI64,
    pub collection_scans: AtomicI64,
}

impl NamespaceUse {
    /// Adds one operation.
    pub fn add(&self, class: OpClass, kind: LatencyKind, us: u64) {
        let (time, count) = &self.tallies[class as usize];
        time.fetch_add(i64::try_from(us).unwrap_or(i64::MAX), Relaxed);
        count.fetch_add(1, Relaxed);
        self.latencies[kind as usize].record(us);
    }
    /// Counts a scan of the whole collection.
    pub fn add_scan(&self, tailable: bool) {
        self.scans.0.fetch_add(1, Relaxed);
        self.scans.1.fetch_add(i64::from(tailable), Relaxed);
    }
    /// Scans of the whole collection, and how many of them were by tailing cursors.
    pub fn collection_scans(&self) -> (i64, i64) {
        (self.scans.0.load(Relaxed), self.scans.1.load(Relaxed))
    }
    /// Whether the namespace was dropped or renamed; a new one of the same name has new counters.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Relaxed)
    }
    /// Operations of a class.
    pub fn tally(&self, class: OpClass) -> Tally {
        let (time, count) = &self.tallies[class as usize];
        (time.load(Relaxed), count.load(Relaxed))
    }
    /// Operations of several classes.
    pub fn sum(&self, classes: &[OpClass]) -> Tally {
        classes.iter().fold((0, 0), |all, class| {
            let one = self.tally(*class);
            (all.0 + one.0, all.1 + one.1)
        })
    }
    /// Latencies of a kind.
    pub fn latency(&self, kind: LatencyKind) -> LatencyCounts {
        self.latencies[kind as usize].counts()
    }
}

/// The namespace that a connection has used last; repeated use needs no lookup.
#[derive(Default)]
pub struct NamespaceCache {
    db: String,
    coll: String,
    used: Option<Arc<NamespaceUse>>,
}

/// All counters of a service.
#[derive(Debug, Default)]
pub struct Counters {
    classes: [AtomicI64; 6],
    unknown: AtomicI64,
    namespaces: Mutex<BTreeMap<String, Arc<NamespaceUse>>>,
    /// Documents by what was done with them.
    pub documents: Documents,
    /// Requests received.
    pub requests: AtomicI64,
    /// Commands running now.
    pub active: AtomicI64,
    /// Operations that waited for locks of other operations.
    pub lock_waits: AtomicI64,
    /// How long those operations waited, in microseconds.
    pub lock_waited_us: AtomicI64,
    /// Errors that a client caused.
    pub user_asserts: AtomicI64,
}

impl Counters {
    /// Counts an operation of a class as running.
    pub fn begin(&self, class: OpClass) {
        self.requests.fetch_add(1, Relaxed);
        self.active.fetch_add(1, Relaxed);
        self.add(class, 1);
    }
    /// Counts an operation as running again after a wait.
    pub fn resume(&self) {
        self.active.fetch_add(1, Relaxed);
    }
    /// Counts the end of an operation.
    pub fn end(&self, failed: bool) {
        self.active.fetch_sub(1, Relaxed);
        if failed {
            self.user_asserts.fetch_add(1, Relaxed);
        }
    }
    /// Counts a command that does not exist.
    pub fn unknown_command(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.user_asserts.fetch_add(1, Relaxed);
        self.unknown.fetch_add(1, Relaxed);
    }
    /// Adds to the count of a class beyond its one command, for example for an insert of many
    /// documents.
    pub fn add(&self, class: OpClass, n: i64) {
        self.classes[class as usize].fetch_add(n, Relaxed);
    }
    /// The counters of a namespace.
    pub(crate) fn namespace(&self, ns: &str) -> Arc<NamespaceUse> {
        let mut all = self.namespaces.lock();
        match all.get(ns) {
            Some(there) => Arc::clone(there),
            // Limits the memory: clients may name any number of collections that do not exist.
            None if all.len() >= NAMESPACES_MAX => Arc::new(NamespaceUse::default()),
            None => Arc::clone(all.entry(ns.to_owned()).or_default()),
        }
    }
    /// Removes the counters of a namespace that was dropped or renamed.
    pub fn forget(&self, ns: &str) {
        if let Some(gone) = self.namespaces.lock().remove(ns) {
            gone.forgotten.store(true, Relaxed);
        }
    }
    /// The counters of a namespace, if it was used.
    pub fn of(&self, ns: &str) -> Option<Arc<NamespaceUse>> {
        self.namespaces.lock().get(ns).cloned()
    }
    /// All namespaces with their counters.
    pub fn namespaces(&self) -> Vec<(String, Arc<NamespaceUse>)> {
        let all = self.namespaces.lock();
        all.iter()
            .map(|(ns, u)| (ns.clone(), Arc::clone(u)))
            .collect()
    }
    /// Count of a class.
    pub fn class(&self, class: OpClass) -> i64 {
        self.classes[class as usize].load(Relaxed)
    }
    /// Requests for commands that do not exist.
    pub fn unknown(&self) -> i64 {
        self.unknown.load(Relaxed)
    }
}

impl NamespaceCache {
    /// The counters of a collection; `None` for a name that is not text.
    pub fn of(&mut self, counters: &Counters, db: &str, coll: &[u8]) -> Option<&NamespaceUse> {
        let same = self.coll.as_bytes() == coll && self.db == db;
        if !same || self.used.as_ref().is_none_or(|u| u.is_forgotten()) {
            let coll = std::str::from_utf8(coll).ok()?;
            db.clone_into(&mut self.db);
            coll.clone_into(&mut self.coll);
            self.used = Some(counters.namespace(&format!("{db}.{coll}")));
        }
        self.used.as_deref()
    }
}
