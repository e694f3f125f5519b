//! The thread that keeps a log that several processes write (ADR 0114): it publishes what its
//! process has committed, takes new states while readers wait, and publishes what others have left.
//! Promises: a failed step is repeated; nothing is lost when it ends. Must not know: who reads.

use super::member::MemberLog;
use super::times::Log;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause between two states that are taken while readers wait.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause between two publications, so that one takes several commits of a client that makes one
/// after the other; a reader of this process does not wait for it.
const PUBLISH_EVERY: Duration = Duration::from_millis(20);
/// Shortest and longest pause between two searches for rows that others have left. It is random:
/// processes that publish the same rows at once hold each other up.
const SEARCH_EVERY: Range<u64> = 1_000..2_000;
/// Age of rows that were left.
const LEFT_AFTER: Duration = Duration::from_secs(3);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(5);

/// The running thread; it ends when this is dropped.
pub struct LogKeeper {
    log: Arc<Log>,
    thread: Option<JoinHandle<()>>,
}

impl LogKeeper {
    /// Starts the thread; `None` for a log that one process writes, which needs none, and when the
    /// system has no thread for it.
    pub(crate) fn start(log: &Arc<Log>) -> Option<LogKeeper> {
        let places = &log.member.as_ref()?.places;
        places.begin();
        let kept = Arc::clone(log);
        let thread = std::thread::Builder::new()
            .name("quarry-log".to_owned())
            .spawn(move || {
                if let Some(member) = &kept.member {
                    keep(&kept, member);
                }
            });
        Some(LogKeeper {
            log: Arc::clone(log),
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for LogKeeper {
    fn drop(&mut self) {
        if let Some(member) = &self.log.member {
            member.places.end();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn search_pause() -> Duration {
    // Each new state has other keys.
    let random = RandomState::new().build_hasher().finish();
    let length = SEARCH_EVERY.end - SEARCH_EVERY.start;
    Duration::from_millis(SEARCH_EVERY.start + random % length)
}

fn keep(log: &Log, member: &MemberLog) {
    let (mut looked, mut search_at) = (Instant::now(), Instant::now() + search_pause());
    let mut published = Instant::now();
    loop {
        let is_awaited = log.watches.has_waiting();
        let longest = match is_awaited {
            true => LOOK_EVERY,
            false => Duration::from_millis(SEARCH_EVERY.start),
        };
        if !member.places.wait(longest) {
            return;
        }
        member.places.gather(published + PUBLISH_EVERY);
        published = Instant::now();
        // What failed is still there and is done again.
        if log.publish().is_err() {
            std::thread::sleep(PAUSE);
        }
        if log.watches.has_waiting() && looked.elapsed() >= LOOK_EVERY {
            let _ = log.look();
            looked = Instant::now();
        }
        if Instant::now() >= search_at {
            let _ = log.publish_left(LEFT_AFTER);
            search_at = Instant::now() + search_pause();
        }
    }
}
