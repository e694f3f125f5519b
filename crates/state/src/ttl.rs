//! Collections whose documents expire, and counters of the TTL monitor.
//!
//! Promises: a collection that was tracked stays in the list until a check finds that nothing in it
//! expires; a collection that changes during the check stays. The list may contain collections
//! without expiring documents. Must not know: which documents expire, and when.

use model::{Doc, Namespace};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use store::Collection;

/// The list and the counters.
#[derive(Debug, Default)]
pub struct Ttl {
    /// The tracked namespaces, with the number of their latest tracking.
    tracked: Mutex<TrackedNamespaces>,
    /// Completed passes over all collections.
    pub passes: AtomicI64,
    /// Rounds within passes: in each, every collection gets its share of the time.
    pub sub_passes: AtomicI64,
    /// Documents deleted.
    pub deleted: AtomicI64,
    /// Indexes whose expiry option cannot be used, counted in each pass.
    pub invalid_indexes: AtomicI64,
}

#[derive(Debug, Default)]
struct TrackedNamespaces {
    last: u64,
    at: FxHashMap<Namespace, u64>,
}

/// A collection of the list with the number of its tracking when it was read.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The collection.
    pub ns: Namespace,
    at: u64,
}

/// True when options or index specifications contain an expiry.
pub fn says_so<'d>(options: Doc<'_>, mut indexes: impl Iterator<Item = Doc<'d>>) -> bool {
    let says = |d: Doc<'_>| d.contains("expireAfterSeconds");
    says(options) || indexes.any(says)
}

impl Ttl {
    /// Adds a collection to the list if its documents can expire. To be called after each change of
    /// its options, its indexes or its name.
    pub fn track(&self, c: &Collection) {
        let indexes = c.indexes();
        if says_so(c.options().doc(), indexes.iter().map(|i| i.spec())) {
            self.add(c.ns().clone());
        }
    }

    /// Adds a namespace to the list.
    pub fn add(&self, ns: Namespace) {
        let mut tracked = self.tracked.lock();
        tracked.last += 1;
        let at = tracked.last;
        tracked.at.insert(ns, at);
    }

    /// The list, ordered by name.
    pub fn list(&self) -> Vec<Entry> {
        let tracked = self.tracked.lock();
        let mut all: Vec<Entry> = tracked
            .at
            .iter()
            .map(|(ns, at)| Entry {
                ns: ns.clone(),
                at: *at,
            })
            .collect();
        drop(tracked);
        all.sort_by(|a, b| a.ns.cmp(&b.ns));
        all
    }

    /// Removes a collection in which nothing expires from the list, unless it was tracked again in
    /// the meantime.
    pub fn remove(&self, entry: &Entry) {
        let mut tracked = self.tracked.lock();
        if tracked.at.get(&entry.ns) == Some(&entry.at) {
            tracked.at.remove(&entry.ns);
        }
    }

    /// Counts documents that were deleted because they expired.
    pub fn count_deleted(&self, n: u64) {
        self.deleted
            .fetch_add(i64::try_from(n).unwrap_or(i64::MAX), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_added_during_a_pass_stays_listed() {
        let ttl = Ttl::default();
        let ns = Namespace::new("db", "c").unwrap();
        ttl.add(ns.clone());
        let seen = ttl.list();
        ttl.add(ns.clone());
        ttl.remove(&seen[0]);
        assert_eq!(ttl.list().len(), 1);
        ttl.remove(&ttl.list()[0]);
        assert!(ttl.list().is_empty());
    }
}
