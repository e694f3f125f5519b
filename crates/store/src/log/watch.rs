//! Readers that wait for entries. Promises: a watch is marked with the time of the newest entry
//! that may concern it before that entry can be read, and its waker is called afterwards. So a
//! reader that takes the visible time first, and then finds its watch not marked beyond its own
//! position, has no entries to read up to that time. Readers of quiet namespaces cost nothing while
//! others are busy. Must not know: what readers do.

use super::concerned::NamespaceHash;
use model::Timestamp;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Called when there is something to read. Must not block.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// All watches by the numbers that they watch.
#[derive(Default)]
pub(super) struct Watches {
    count: AtomicUsize,
    /// Number of registered wakers.
    waiting: Arc<AtomicUsize>,
    by: Mutex<FxHashMap<NamespaceHash, Vec<Arc<Mark>>>>,
}

#[derive(Default)]
struct Mark {
    /// Time of the newest entry that may concern the watch. Never lowered: an entry that is marked
    /// here and cannot be read yet must still be found by the next look.
    newest: AtomicU64,
    /// Several readers may wait at a shared watch.
    wakers: Mutex<Vec<(u64, Waker)>>,
    next_waker: Mutex<u64>,
}

/// A reader's interest in entries, until dropped.
pub struct Watch {
    all: Arc<Watches>,
    of: NamespaceHash,
    mark: Arc<Mark>,
}

/// A registered waker, until dropped.
pub struct WakerGuard {
    waiting: Arc<AtomicUsize>,
    mark: Arc<Mark>,
    id: u64,
}

impl Watches {
    pub(super) fn watch(self: &Arc<Watches>, of: NamespaceHash) -> Watch {
        let mark = Arc::new(Mark::default());
        self.by
            .lock()
            .entry(of)
            .or_default()
            .push(Arc::clone(&mark));
        self.count.fetch_add(1, Ordering::SeqCst);
        Watch {
            all: Arc::clone(self),
            of,
            mark,
        }
    }

    /// Marks the watches concerned with the time of the last entry; to be called before the entries
    /// can be read.
    ///
    /// # Cost
    /// One load when nobody watches, otherwise a look-up for each namespace.
    pub(super) fn mark(&self, concerned: &[NamespaceHash], last: u64) {
        self.visit_marks(concerned, &mut |mark| {
            mark.newest.fetch_max(last, Ordering::SeqCst);
        });
    }

    /// Wakes the watches concerned; to be called when the entries can be read.
    pub(super) fn wake(&self, concerned: &[NamespaceHash]) {
        let mut wakers: Vec<Waker> = Vec::new();
        self.visit_marks(concerned, &mut |mark| {
            wakers.extend(mark.wakers.lock().iter().map(|(_, w)| Arc::clone(w)));
        });
        wakers.iter().for_each(|wake| wake());
    }

    /// Whether there are watches.
    pub(super) fn are_any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody waits to be woken.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// As [`Watches::mark`], for all watches.
    pub(super) fn mark_all(&self, last: u64) {
        for mark in self.by.lock().values().flatten() {
            mark.newest.fetch_max(last, Ordering::SeqCst);
        }
    }

    /// As [`Watches::wake`], for all watches.
    pub(super) fn wake_all(&self) {
        let mut wakers: Vec<Waker> = Vec::new();
        for mark in self.by.lock().values().flatten() {
            wakers.extend(mark.wakers.lock().iter().map(|(_, w)| Arc::clone(w)));
        }
        wakers.iter().for_each(|wake| wake());
    }

    fn visit_marks(&self, concerned: &[NamespaceHash], f: &mut dyn FnMut(&Mark)) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let by = self.by.lock();
        for c in concerned {
            if c.coll.is_none() && c.db.is_some() {
                // A command on a database is rare, so all watches are checked.
                let meant = by.iter().filter(|(of, _)| of.meets(c));
                meant.flat_map(|(_, marks)| marks).for_each(|m| f(m));
                continue;
            }
            let database = NamespaceHash { coll: None, ..*c };
            // An entry that concerns no namespace is only for readers of everything.
            let mut places = vec![NamespaceHash::ALL];
            if c.db.is_some() {
                places.extend([*c, database]);
            }
            for place in places {
                by.get(&place).into_iter().flatten().for_each(|m| f(m));
            }
        }
    }
}

impl Watch {
    /// Whether an entry of this time or a later one may concern it, whether it can be read already
    /// or not.
    pub fn has_from(&self, time: Timestamp) -> bool {
        self.mark.newest.load(Ordering::SeqCst) >= time.as_u64()
    }

    /// Marks it: entries up to this time may concern it.
    pub(super) fn expect(&self, last: u64) {
        self.mark.newest.fetch_max(last, Ordering::SeqCst);
    }

    /// Has `waker` called at new entries. After registering, the caller must look once more before
    /// it waits.
    pub fn wake(&self, waker: Waker) -> WakerGuard {
        let id = {
            let mut next = self.mark.next_waker.lock();
            *next += 1;
            *next
        };
        self.mark.wakers.lock().push((id, waker));
        self.all.waiting.fetch_add(1, Ordering::SeqCst);
        WakerGuard {
            waiting: Arc::clone(&self.all.waiting),
            mark: Arc::clone(&self.mark),
            id,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut by = self.all.by.lock();
        if let Some(marks) = by.get_mut(&self.of) {
            marks.retain(|m| !Arc::ptr_eq(m, &self.mark));
            if marks.is_empty() {
                by.remove(&self.of);
            }
        }
        self.all.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for WakerGuard {
    fn drop(&mut self) {
        self.mark.wakers.lock().retain(|(id, _)| *id != self.id);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watch").field(&self.of).finish()
    }
}
