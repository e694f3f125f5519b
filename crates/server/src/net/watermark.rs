//! How far the journal is durable. Promises: a reply that waits occupies no thread, and no
//! announcement is missed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::inbox::{Inbox, Token, bits};
use super::sync::{AtomicU64, Mutex, Ordering};

/// A position that only grows, and the connections that wait for it. The journal and the server
/// share it.
#[derive(Debug, Default)]
pub struct Watermark {
    position: AtomicU64,
    /// The greatest position of a failed flush.
    failed: AtomicU64,
    waiting: Mutex<Vec<Arc<DurableWaiters>>>,
}

impl Watermark {
    /// At position 0.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Everything up to this position is durable.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::SeqCst)
    }

    /// Announces that everything up to and including `position` is durable.
    ///
    /// # Cost
    /// One wake-up per set with connections that this releases; nothing otherwise.
    pub fn advance(&self, position: u64) {
        self.position.fetch_max(position, Ordering::SeqCst);
        for waiters in self.waiting.lock().iter() {
            waiters.release(position);
        }
    }

    /// Announces that writes up to and including `position` that are not durable yet may never be.
    /// Replies held back for them are discarded and their connections closed, because neither
    /// success nor failure would be true.
    pub fn fail(&self, position: u64) {
        self.failed.fetch_max(position, Ordering::SeqCst);
        for waiters in self.waiting.lock().iter() {
            waiters.release(position);
        }
    }

    /// What to do with a reply held back for `position`.
    pub(super) fn verdict(&self, position: u64) -> Verdict {
        // Success is checked first: a later successful flush covers what failed before.
        if self.position() >= position {
            Verdict::Send
        } else if self.failed.load(Ordering::SeqCst) >= position {
            Verdict::GiveUp
        } else {
            Verdict::Wait
        }
    }

    pub(super) fn register(&self, waiters: Arc<DurableWaiters>) {
        self.waiting.lock().push(waiters);
    }

    pub(super) fn unregister(&self, waiters: &Arc<DurableWaiters>) {
        self.waiting.lock().retain(|w| !Arc::ptr_eq(w, waiters));
    }
}

/// See [`Watermark::verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is durable.
    Send,
    /// Not known yet.
    Wait,
    /// The flush failed.
    GiveUp,
}

/// The connections of one set whose reply is held back.
#[derive(Debug)]
pub(super) struct DurableWaiters {
    heap: Mutex<BinaryHeap<Reverse<(u64, Token)>>>,
    /// Least position in the heap, so that the journal can see without the lock that nobody waits.
    least: AtomicU64,
    /// Greatest position ever added. It may be durable already; then a flush has nothing to do.
    most: AtomicU64,
    inbox: Arc<Inbox>,
}

impl DurableWaiters {
    pub(super) fn new(inbox: Arc<Inbox>) -> Self {
        Self {
            heap: Mutex::default(),
            least: AtomicU64::new(u64::MAX),
            most: AtomicU64::new(0),
            inbox,
        }
    }

    /// The greatest position a connection may wait for; `None` if none waits.
    pub(super) fn furthest(&self) -> Option<u64> {
        let waits = self.least.load(Ordering::SeqCst) != u64::MAX;
        waits.then(|| self.most.load(Ordering::SeqCst))
    }

    /// Adds a waiter. The caller must then read the watermark once more: it may have moved before
    /// the waiter was added.
    pub(super) fn add(&self, position: u64, token: Token) {
        let mut heap = self.heap.lock();
        heap.push(Reverse((position, token)));
        // Set before `least`, which tells other threads to read it.
        self.most.fetch_max(position, Ordering::SeqCst);
        self.least.fetch_min(position, Ordering::SeqCst);
    }

    fn release(&self, reached: u64) {
        if self.least.load(Ordering::SeqCst) > reached {
            return;
        }
        let mut freed = Vec::new();
        let mut heap = self.heap.lock();
        while let Some(Reverse((position, token))) = heap.peek().copied() {
            if position > reached {
                break;
            }
            heap.pop();
            freed.push((token, bits::LOOK));
        }
        self.least
            .store(heap.peek().map_or(u64::MAX, |r| r.0.0), Ordering::SeqCst);
        drop(heap);
        if !freed.is_empty() {
            self.inbox.push_released(freed);
        }
    }
}
