//! Operations that wait for new documents of capped collections: a notifier without lost wake-ups.
//!
//! Promises: a waiter that registers and then reads once more either finds an insert or is woken by
//! it.
//! Must not know: cursors, what a waiter does after it is woken.

use operation::Link;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

type Waiters = Vec<(i64, Option<Arc<dyn Link>>)>;

/// The waiting connections by collection.
#[derive(Default)]
pub struct CappedWaiters {
    count: AtomicUsize,
    waiting: Mutex<FxHashMap<[u8; 16], Waiters>>,
}

impl CappedWaiters {
    /// Registers a connection. The caller must read once more before it waits.
    pub fn wait(
        self: &Arc<Self>,
        uuid: [u8; 16],
        connection: i64,
        link: Option<Arc<dyn Link>>,
    ) -> WaiterGuard {
        self.waiting
            .lock()
            .entry(uuid)
            .or_default()
            .push((connection, link));
        self.count.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `wake_readers`: either the insert sees the count or the second
        // read sees the document.
        fence(Ordering::SeqCst);
        WaiterGuard {
            waiters: Arc::clone(self),
            uuid,
            connection,
        }
    }

    /// Wakes the waiters of a collection. To be called after the new documents are visible.
    ///
    /// # Cost
    /// A fence and a load when nobody waits.
    pub(crate) fn wake_readers(&self, uuid: [u8; 16]) {
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

/// A registered waiter; the registration ends when it is dropped.
pub struct WaiterGuard {
    waiters: Arc<CappedWaiters>,
    uuid: [u8; 16],
    connection: i64,
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        let mut all = self.waiters.waiting.lock();
        if let Some(list) = all.get_mut(&self.uuid) {
            list.retain(|(connection, _)| *connection != self.connection);
            if list.is_empty() {
                all.remove(&self.uuid);
            }
        }
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
    }
}
