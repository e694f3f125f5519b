//! A bound of the rate, and how much has passed. Shared by all that copy at once.

use crate::state::Moved;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What has passed since the start, and when the next may.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    free_at: Mutex<Instant>,
    documents: AtomicU64,
    bytes: AtomicU64,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace {
            bytes_per_second,
            free_at: Mutex::new(Instant::now()),
            documents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Waits until so many bytes may pass.
    pub(crate) async fn pass(&self, moved: Moved) {
        let bytes = u64::try_from(moved.bytes).unwrap_or(0);
        let documents = u64::try_from(moved.documents).unwrap_or(0);
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.wait(bytes).await;
    }

    /// The same for bytes that are read and not copied.
    pub(crate) async fn wait(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second.filter(|rate| *rate > 0) else {
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

    pub(crate) fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
