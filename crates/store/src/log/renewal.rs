//! Brings what this process knows of a log that several write up to date (ADR 0114). Promises: the
//! watches are marked before the horizon passes an entry, and woken afterwards; the horizon never
//! goes back. Must not know: what entries contain.

use super::commit_times::end_time;
use super::moment::LogMoment;
use super::times::Log;
use crate::error;
use model::{MongoError, Result, code};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use storage::CommitPos;

/// How long a reader waits until what was committed before its question is published.
const CATCH_UP: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(1);
/// Attempts to publish, beside others and changes of the catalog, that meet a conflict.
const CONFLICTS_MAX: usize = 1000;

impl Log {
    /// Takes the newest state, and lets readers read up to its horizon. `None` for a log that one
    /// process writes, which needs none.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn look(&self) -> Result<Option<LogMoment>> {
        let Some(member) = &self.member else {
            return Ok(None);
        };
        let moment = member.take_moment()?;
        self.learn(&moment)?;
        Ok(Some(moment))
    }

    /// As [`Log::look`]; waits a short while until everything is published that was committed
    /// before the call.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn look_at_all(&self) -> Result<Option<LogMoment>> {
        let until = Instant::now() + CATCH_UP;
        let mut wanted = 0;
        loop {
            let Some(moment) = self.look()? else {
                return Ok(None);
            };
            if wanted == 0 {
                wanted = end_time(moment.snapshot.pos());
            }
            if moment.horizon >= wanted || Instant::now() >= until {
                return Ok(Some(moment));
            }
            match self.publish() {
                // Otherwise another member has to publish.
                Ok(true) => {}
                Err(e) if !error::is_conflict(&e) => return Err(e),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Lets readers of this process read what was committed, by any process, before the call, as
    /// far as it is published within a short while. Nothing for a log that one process writes.
    ///
    /// # Errors
    /// Engine failures.
    pub fn renew(&self) -> Result<()> {
        match &self.member {
            Some(_) => self.look_at_all().map(|_| ()),
            None => Ok(()),
        }
    }

    fn learn(&self, moment: &LogMoment) -> Result<()> {
        self.retention.learn(moment.stored);
        let before = self.visible.load(Ordering::SeqCst);
        if moment.horizon <= before {
            return Ok(());
        }
        let were_watched = self.watches.are_any();
        let is_news = were_watched && moment.has_row_from(before + 1)?;
        {
            // A watch that is added from here on expects everything up to `last`.
            let mut times = self.times.lock();
            if moment.horizon > times.last {
                if is_news || !were_watched {
                    self.watches.mark_all(moment.horizon);
                }
                times.last = moment.horizon;
                self.visible.store(moment.horizon, Ordering::SeqCst);
            }
        }
        if is_news {
            self.watches.wake_all();
        }
        Ok(())
    }

    /// Publishes some of what this process has committed; whether there was anything.
    ///
    /// # Errors
    /// 112 for a conflict with another process or a change of the catalog; engine failures.
    pub(super) fn publish(&self) -> Result<bool> {
        let Some(member) = &self.member else {
            return Ok(false);
        };
        let sums = member.publish()?;
        if let Some(sums) = sums {
            self.times.lock().bytes_total = sums.bytes;
            self.due.note_written(sums.bytes);
        }
        Ok(sums.is_some())
    }

    /// Publishes all that this process has committed.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn publish_all(&self) -> Result<()> {
        for _ in 0..CONFLICTS_MAX {
            match self.publish() {
                Ok(false) => return Ok(()),
                Err(e) if !error::is_conflict(&e) => return Err(e),
                _ => {}
            }
        }
        let why = "the log of changes cannot be written beside the changes of others";
        Err(MongoError::new(code::LOCK_TIMEOUT, why))
    }

    /// Publishes what any process has committed and not published for this long, if it has
    /// published nothing else meanwhile: it has died, or is about to. Whether there was anything.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn publish_left(&self, for_at_least: Duration) -> Result<bool> {
        let (Some(member), Some(moment)) = (&self.member, self.look()?) else {
            return Ok(false);
        };
        let quiet = member
            .quiet
            .lock()
            .note(&moment.logs, Instant::now(), for_at_least);
        let now_ms = u64::try_from((self.now_ms)()).unwrap_or(0);
        let now_ms = member.engine.shared_time_ms().unwrap_or(now_ms);
        let ms = u64::try_from(for_at_least.as_millis()).unwrap_or(u64::MAX);
        let before = now_ms.saturating_sub(ms).saturating_add(1) << 18;
        member.publish_left(&moment, &quiet, CommitPos(before))
    }
}
