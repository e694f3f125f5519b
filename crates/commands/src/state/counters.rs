//! Counts of operations, as `serverStatus` shows them. Plain relaxed atomics.

use crate::dispatch::spec::OpClass;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Time and number of operations of one kind on one namespace.
pub type Tally = (i64, i64);

/// Use of one namespace, as `top` shows it.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct NamespaceUse {
    pub queries: Tally,
    pub getmore: Tally,
    pub insert: Tally,
    pub update: Tally,
    pub remove: Tally,
    pub commands: Tally,
}

fn sum(parts: &[Tally]) -> Tally {
    parts.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
}

impl NamespaceUse {
    /// Reading operations.
    pub fn reads(&self) -> Tally {
        sum(&[self.queries, self.getmore])
    }
    /// Writing operations.
    pub fn writes(&self) -> Tally {
        sum(&[self.insert, self.update, self.remove])
    }
    /// All operations.
    pub fn total(&self) -> Tally {
        sum(&[self.reads(), self.writes(), self.commands])
    }
}

/// All counts of a service.
#[derive(Debug, Default)]
pub struct Counters {
    classes: [AtomicI64; 6],
    unknown: AtomicI64,
    namespaces: Mutex<BTreeMap<String, NamespaceUse>>,
    /// Requests received.
    pub requests: AtomicI64,
    /// Bytes received; moved by the server.
    pub bytes_in: AtomicI64,
    /// Bytes sent; moved by the server.
    pub bytes_out: AtomicI64,
    /// Commands running now.
    pub active: AtomicI64,
    /// Errors a client caused.
    pub user_asserts: AtomicI64,
}

impl Counters {
    pub(crate) fn begin(&self, class: OpClass) {
        self.requests.fetch_add(1, Relaxed);
        self.active.fetch_add(1, Relaxed);
        self.add(class, 1);
    }
    /// An operation goes on after a wait.
    pub(crate) fn resume(&self) {
        self.active.fetch_add(1, Relaxed);
    }
    pub(crate) fn end(&self, failed: bool) {
        self.active.fetch_sub(1, Relaxed);
        if failed {
            self.user_asserts.fetch_add(1, Relaxed);
        }
    }
    pub(crate) fn unknown_command(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.user_asserts.fetch_add(1, Relaxed);
        self.unknown.fetch_add(1, Relaxed);
    }
    /// Moves a class by more than its one command, as an insert of many documents does.
    pub fn add(&self, class: OpClass, n: i64) {
        self.classes[class as usize].fetch_add(n, Relaxed);
    }
    /// Adds one operation on a namespace.
    pub fn used(&self, ns: &str, class: OpClass, time_us: i64) {
        let mut all = self.namespaces.lock();
        // The name is copied only on first sight.
        if !all.contains_key(ns) {
            all.insert(ns.to_owned(), NamespaceUse::default());
        }
        if let Some(entry) = all.get_mut(ns) {
            let tally = match class {
                OpClass::Insert => &mut entry.insert,
                OpClass::Query => &mut entry.queries,
                OpClass::Update => &mut entry.update,
                OpClass::Delete => &mut entry.remove,
                OpClass::GetMore => &mut entry.getmore,
                OpClass::Command => &mut entry.commands,
            };
            *tally = (tally.0 + time_us, tally.1 + 1);
        }
    }
    /// Forgets a namespace that is gone.
    pub fn forget(&self, ns: &str) {
        self.namespaces.lock().remove(ns);
    }
    /// Use of every namespace.
    pub fn namespaces(&self) -> Vec<(String, NamespaceUse)> {
        self.namespaces
            .lock()
            .iter()
            .map(|(ns, u)| (ns.clone(), *u))
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
