//! Consumers of the log and their positions (ADR 0075). Promises: the log is kept from a consumer's
//! position on, up to a bound; a position is never later than what the consumer has saved. Must not
//! know: what consumers do, when the log is cut.

use super::positions::{Position, put_position, remove_position};
use super::reader::{LogReader, LogVisitor, VisitResult};
use super::retention::first_row;
use super::times::Log;
use crate::error;
use model::{Result, Timestamp};
use std::sync::Arc;
use storage::Engine;

/// The state of a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerState {
    /// Name of the consumer.
    pub name: String,
    /// The consumer has saved everything before this time.
    pub saved: Timestamp,
    /// Number of entries that it has not processed.
    pub lag_operations: u64,
    /// Age of the oldest of these entries in milliseconds.
    pub lag_ms: u64,
    /// Entries that it needs were removed from the log: it must begin again.
    pub stale: bool,
}

/// Whether a position survives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The position is stored in the engine until the consumer is removed.
    Durable,
    /// The position is gone when the consumer is dropped: its results are in memory only, too.
    Process,
}

/// A reader of the log with a registered position.
pub struct LogConsumer {
    engine: Arc<dyn Engine>,
    log: Arc<Log>,
    reader: LogReader,
    name: String,
    lifetime: Lifetime,
    registration: u64,
}

impl Log {
    /// Registers a consumer that has processed everything before `from`. When the log no longer has
    /// the entries from there on, its first visit returns [`VisitResult::Lost`].
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn consume(
        self: &Arc<Log>,
        engine: &Arc<dyn Engine>,
        name: &str,
        from: Timestamp,
        lifetime: Lifetime,
    ) -> Result<LogConsumer> {
        let at = from.as_u64();
        if lifetime == Lifetime::Durable {
            put_position(engine.as_ref(), name, at)?;
        }
        // The lock waits for a cut in progress; entries removed by it are detected at the first
        // read.
        let registration = self.consumers.register(name, at);
        Ok(LogConsumer {
            engine: Arc::clone(engine),
            log: Arc::clone(self),
            reader: LogReader::new(Arc::clone(engine), Arc::clone(self), from),
            name: name.to_owned(),
            lifetime,
            registration,
        })
    }

    /// The position of a consumer: it has saved everything before this time.
    pub fn saved_position(&self, name: &str) -> Option<Timestamp> {
        let positions = self.consumers.positions.lock();
        positions.get(name).map(|p| Timestamp::from_u64(p.saved))
    }

    /// Names of all consumers.
    pub fn consumer_names(&self) -> Vec<String> {
        self.consumers.positions.lock().keys().cloned().collect()
    }

    /// Removes a consumer: the log is not kept for it any more.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn end_consumer(&self, engine: &dyn Engine, name: &str) -> Result<()> {
        let mut positions = self.consumers.positions.lock();
        if positions.contains_key(name) {
            remove_position(engine, name)?;
            positions.remove(name);
        }
        Ok(())
    }

    /// The state of each consumer.
    ///
    /// # Cost
    /// One seek for each.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn consumers(&self, engine: &dyn Engine) -> Result<Vec<ConsumerState>> {
        let positions = self.consumers.positions.lock().clone();
        let oldest = self.oldest().as_u64();
        let state = |(name, at): (String, Position)| {
            let (lag_operations, lag_ms) = self.lag(engine, at.done)?;
            Ok(ConsumerState {
                name,
                saved: Timestamp::from_u64(at.saved),
                lag_operations,
                lag_ms,
                stale: at.saved < oldest,
            })
        };
        positions.into_iter().map(state).collect()
    }

    /// Number of entries from a time on, and the age of the first one in milliseconds.
    fn lag(&self, engine: &dyn Engine, from: u64) -> Result<(u64, u64)> {
        let total = self.entries_total();
        let Some((last, late, entries, _)) = first_row(engine, self.ident, from)? else {
            return Ok((0, 0));
        };
        // A row's entries have consecutive times, and its key is the last one.
        let of_row = last.saturating_sub(from).saturating_add(1);
        let behind = total.saturating_sub(late.entries_total);
        let age = (self.now_ms)().saturating_sub(late.wall_ms);
        let operations = behind + of_row.min(u64::from(entries));
        Ok((operations, u64::try_from(age).unwrap_or(0)))
    }
}

impl LogConsumer {
    /// Time of the first entry that was not shown.
    pub fn next(&self) -> Timestamp {
        self.reader.next()
    }

    /// Shows entries, at most those of `rows_max` commits, as [`LogReader::visit`].
    ///
    /// # Errors
    /// 1 InternalError for a damaged row; engine failures.
    pub fn visit(&mut self, rows_max: usize, f: &mut LogVisitor<'_>) -> Result<VisitResult> {
        self.reader.visit(rows_max, f)
    }

    /// Skips everything before a time because it does not concern the consumer.
    pub fn skip_to(&mut self, time: Timestamp) {
        self.reader.skip_to(time);
    }

    /// Continues at an earlier time, whose entries are shown again.
    pub fn go_back_to(&mut self, time: Timestamp) {
        self.reader = LogReader::new(Arc::clone(&self.engine), Arc::clone(&self.log), time);
    }

    /// Releases the resources of the engine until the next visit.
    pub fn pause(&mut self) {
        self.reader.pause();
    }

    /// Records that everything before this time was processed. The record is only in memory and is
    /// used to report the lag of the consumer.
    pub fn record_position(&self, next: Timestamp) {
        self.log.consumers.raise(&self.name, None, next.as_u64());
    }

    /// Calls `save` for everything before `next`, and then stores the position. The entries are
    /// made durable first, so that the consumer saves nothing that a loss of power can undo. After
    /// a crash between the two steps entries are shown again; none is left out.
    ///
    /// # Errors
    /// Engine failures; those of `save`. The position is unchanged then.
    pub fn save(
        &self,
        next: Timestamp,
        save: &mut dyn FnMut(Timestamp) -> Result<()>,
    ) -> Result<()> {
        let engine = self.engine.as_ref();
        engine
            .wait_durable(engine.last_pos())
            .map_err(error::storage)?;
        save(next)?;
        if self.lifetime == Lifetime::Durable {
            put_position(engine, &self.name, next.as_u64())?;
        }
        let at = next.as_u64();
        self.log.consumers.raise(&self.name, Some(at), at);
        Ok(())
    }
}

impl Drop for LogConsumer {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Process {
            let mut positions = self.log.consumers.positions.lock();
            if positions.get(&self.name).map(|p| p.registration) == Some(self.registration) {
                positions.remove(&self.name);
            }
        }
    }
}
