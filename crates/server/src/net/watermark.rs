//! How far the journal is durable. Promises: a reply that waits costs no thread, and no
//! announcement is missed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::inbox::{Inbox, Token, bits};
use super::sync::{AtomicU64, Mutex, Ordering};

/// A position that only grows, with the connections that wait for it. Shared by the journal and the
/// server.
#[derive(Debug, Default)]
pub struct Watermark {
    position: AtomicU64,
    /// How far a flush tried and failed.
    failed: AtomicU64,
    waiting: Mutex<Vec<Arc<DurableWaiters>>>,
}

impl Watermark {
    /// At position 0.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// How far everything is durable.
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

    /// Announces that what is not durable up to and including `position` may never be: replies held
    /// back for it are given up, and their connections end, because neither yes nor no would be
    /// true.
    pub fn fail(&self, position: u64) {
        self.failed.fetch_max(position, Ordering::SeqCst);
        for waiters in self.waiting.lock().iter() {
            waiters.release(position);
        }
    }

    /// What a reply held back for `position` may do now.
    pub(super) fn verdict(&self, position: u64) -> Verdict {
        // In this order: a success after a failure covers what failed before.
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

/// The connections of one set that hold a reply back.
#[derive(Debug)]
pub(super) struct DurableWaiters {
    heap: Mutex<BinaryHeap<Reverse<(u64, Token)>>>,
    /// Least position in the heap, so that the journal need not take the lock to find nobody waits.
    least: AtomicU64,
    /// Greatest position ever added. What is durable by now counts too, which asks for nothing.
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

    /// The furthest position a connection waits for; `None` when none waits.
    pub(super) fn furthest(&self) -> Option<u64> {
        let waits = self.least.load(Ordering::SeqCst) != u64::MAX;
        waits.then(|| self.most.load(Ordering::SeqCst))
    }

    /// After this the caller must look at the watermark once more: it may have moved before the
    /// entry was seen.
    pub(super) fn add(&self, position: u64, token: Token) {
        let mut heap = self.heap.lock();
        heap.push(Reverse((position, token)));
        // Before `least`, which says that there is something to read here.
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
