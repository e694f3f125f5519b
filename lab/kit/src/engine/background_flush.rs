//! A thread that brings unsynced commits to storage once a second, for engines that do not do so
//! themselves.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);

/// The thread runs until this is dropped, which does the last flush.
pub struct BackgroundFlush {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundFlush {
    /// Starts a thread that calls `flush` once a second. The next call repeats a failed flush.
    pub fn start(mut flush: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = stop.clone();
        let thread = std::thread::spawn(move || {
            let (is_over, ended) = &*shared;
            let mut is_over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                // The store may be closed before this thread has begun.
                if !*is_over {
                    (is_over, _) = ended
                        .wait_timeout(is_over, INTERVAL)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                flush();
                if *is_over {
                    return;
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for BackgroundFlush {
    fn drop(&mut self) {
        let (is_over, ended) = &*self.stop;
        *is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ended.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_last_flush_comes_when_it_is_dropped() {
        for wait_ms in [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50] {
            let flushes = Arc::new(AtomicU32::new(0));
            let counted = flushes.clone();
            let flush = BackgroundFlush::start(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            std::thread::sleep(Duration::from_millis(wait_ms));
            drop(flush);
            assert_eq!(flushes.load(Ordering::Relaxed), 1, "after {wait_ms} ms");
        }
    }
}
