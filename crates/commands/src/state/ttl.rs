//! Collections whose documents expire, and counters of the TTL monitor.
//!
//! Promises: every collection tracked since the start is in the list until a look at it found that
//! nothing expires there; one that changes during that look stays. The list may hold more than
//! there are. Must not know: what expires when.

use model::{Doc, Namespace};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use store::Collection;

/// The list and the counts.
#[derive(Debug, Default)]
pub struct Ttl {
    /// By namespace, when it was tracked last.
    tracked: Mutex<Tracked>,
    /// Passes over all collections that came to their end.
    pub passes: AtomicI64,
    /// Rounds of passes: in each, every collection gets its share of time.
    pub sub_passes: AtomicI64,
    /// Documents deleted.
    pub deleted: AtomicI64,
    /// Indexes that say when documents expire in a way that cannot be followed, counted in each
    /// pass.
    pub invalid_indexes: AtomicI64,
}

#[derive(Debug, Default)]
struct Tracked {
    last: u64,
    at: FxHashMap<Namespace, u64>,
}

/// A collection of the list, as it was when it was looked up.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) ns: Namespace,
    at: u64,
}

/// True when options or index specifications say that documents expire.
pub(crate) fn says_so<'d>(options: Doc<'_>, mut indexes: impl Iterator<Item = Doc<'d>>) -> bool {
    let says = |d: Doc<'_>| d.contains("expireAfterSeconds");
    says(options) || indexes.any(says)
}

impl Ttl {
    /// Puts a collection on the list when documents expire there. To be called whenever its
    /// options, its indexes or its name have changed.
    pub(crate) fn track(&self, c: &Collection) {
        let indexes = c.indexes();
        if says_so(c.options().doc(), indexes.iter().map(|i| i.spec())) {
            self.add(c.ns().clone());
        }
    }

    /// Puts a namespace on the list.
    pub(crate) fn add(&self, ns: Namespace) {
        let mut tracked = self.tracked.lock();
        tracked.last += 1;
        let at = tracked.last;
        tracked.at.insert(ns, at);
    }

    /// The list, by name.
    pub(crate) fn list(&self) -> Vec<Entry> {
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

    /// Takes off the list what was found to have nothing that expires, unless it was tracked again
    /// meanwhile.
    pub(crate) fn remove(&self, entry: &Entry) {
        let mut tracked = self.tracked.lock();
        if tracked.at.get(&entry.ns) == Some(&entry.at) {
            tracked.at.remove(&entry.ns);
        }
    }

    pub(crate) fn count_deleted(&self, n: u64) {
        self.deleted
            .fetch_add(i64::try_from(n).unwrap_or(i64::MAX), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_during_a_look_stays() {
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
