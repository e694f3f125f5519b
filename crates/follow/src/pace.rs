//! A limit of the transfer rate, and counters of what was transferred. Shared by all copying tasks.

use crate::state::CopyProgress;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The counters since the start, and when the next transfer may begin.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    /// The rate that the source can bear; 0 without a limit.
    bound: AtomicU64,
    free_at: Mutex<Instant>,
    documents: AtomicU64,
    bytes: AtomicU64,
    /// Bytes copied or compared.
    seen: AtomicU64,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace {
            bytes_per_second,
            bound: AtomicU64::new(0),
            free_at: Mutex::new(Instant::now()),
            documents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }

    /// Counts a transfer and waits until the rate allows the next.
    pub(crate) async fn pass(&self, moved: CopyProgress) {
        let bytes = u64::try_from(moved.bytes).unwrap_or(0);
        let documents = u64::try_from(moved.documents).unwrap_or(0);
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.wait(bytes).await;
    }

    /// The same for bytes that are read and not copied.
    pub(crate) async fn wait(&self, bytes: u64) {
        self.seen.fetch_add(bytes, Ordering::Relaxed);
        let rates = [self.bytes_per_second, self.bound()];
        let rate = rates.into_iter().flatten().filter(|rate| *rate > 0).min();
        let Some(rate) = rate else {
            return;
        };
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let until = {
            let mut free_at = self.free_at.lock().unwrap_or_else(|e| e.into_inner());
            let until = (*free_at).max(Instant::now()) + takes;
            *free_at = until;
            until
        };
        tokio::time::sleep_until(until.into()).await;
    }

    /// The rate that the source can bear, in bytes a second.
    pub(crate) fn bound(&self) -> Option<u64> {
        Some(self.bound.load(Ordering::Relaxed)).filter(|bound| *bound > 0)
    }

    pub(crate) fn set_bound(&self, bound: Option<u64>) {
        self.bound.store(bound.unwrap_or(0), Ordering::Relaxed);
    }

    /// Bytes copied or compared.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    pub(crate) fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
