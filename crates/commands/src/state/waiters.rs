//! Who waits for new documents of which capped collection.
//!
//! Promises: an insert that is visible before somebody waits is found by him, one that comes later
//! wakes him.
//! Must not know: cursors, what the waiting does when woken.

use crate::dispatch::interrupt::Link;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

type Waiters = Vec<(i64, Option<Arc<dyn Link>>)>;

/// The list, by collection.
#[derive(Default)]
pub struct Tails {
    count: AtomicUsize,
    waiting: Mutex<FxHashMap<[u8; 16], Waiters>>,
}

impl Tails {
    /// Puts a connection on the list. It must look for data once more before it waits.
    pub(crate) fn wait(
        self: &Arc<Self>,
        uuid: [u8; 16],
        connection: i64,
        link: Option<Arc<dyn Link>>,
    ) -> Waiting {
        self.waiting
            .lock()
            .entry(uuid)
            .or_default()
            .push((connection, link));
        self.count.fetch_add(1, Ordering::SeqCst);
        // Pairs with the one in `inserted`: either the insert sees the count or the second look
        // sees the document.
        fence(Ordering::SeqCst);
        Waiting {
            tails: Arc::clone(self),
            uuid,
            connection,
        }
    }

    /// Wakes who waits for the collection. To be called when documents are visible.
    ///
    /// # Cost
    /// A fence and a load when nobody waits.
    pub(crate) fn inserted(&self, uuid: [u8; 16]) {
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let links: Vec<Arc<dyn Link>> = self
            .waiting
            .lock()
            .get(&uuid)
            .into_iter()
            .flatten()
            .filter_map(|(_, link)| link.clone())
            .collect();
        for link in links {
            link.wake();
        }
    }
}

/// A place on the list, until dropped.
pub(crate) struct Waiting {
    tails: Arc<Tails>,
    uuid: [u8; 16],
    connection: i64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.tails.waiting.lock();
        if let Some(list) = all.get_mut(&self.uuid) {
            list.retain(|(connection, _)| *connection != self.connection);
            if list.is_empty() {
                all.remove(&self.uuid);
            }
        }
        self.tails.count.fetch_sub(1, Ordering::SeqCst);
    }
}
