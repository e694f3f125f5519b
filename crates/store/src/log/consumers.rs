//! Consumers of the log: who follows it, and how far each is (ADR 0075). Promises: a consumer's
//! position holds the log from there on, up to a bound; it never says more than what the consumer
//! has saved. Must not know: what consumers do, when the log is cut.

use super::positions::{Position, put_position, remove_position};
use super::reader::{EachEntryOfLog, LogReader, Read};
use super::retention::first_row;
use super::times::Log;
use crate::error;
use model::{Result, Timestamp};
use std::sync::Arc;
use storage::Engine;

/// How a consumer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerState {
    /// Its name.
    pub name: String,
    /// Everything before this time is saved.
    pub saved: Timestamp,
    /// Entries it has not dealt with.
    pub lag_operations: u64,
    /// Age of the oldest of these in milliseconds.
    pub lag_ms: u64,
    /// The log no longer reaches back to it: it must begin anew.
    pub stale: bool,
}

/// Whether a position outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It stands in the engine until the consumer is ended.
    Durable,
    /// It is gone when the consumer is dropped: what it has made is in memory, too.
    Process,
}

/// A follower of the log with a position.
pub struct LogConsumer {
    engine: Arc<dyn Engine>,
    log: Arc<Log>,
    reader: LogReader,
    name: String,
    lifetime: Lifetime,
    registration: u64,
}

impl Log {
    /// Registers a consumer that has everything before `from`. When the log no longer reaches back
    /// to it, its first look says [`Read::Lost`].
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
        // A log that is being cut is cut before this: what is lost then is found at reading.
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

    /// The position of a consumer: everything before it is saved.
    pub fn saved_position(&self, name: &str) -> Option<Timestamp> {
        let positions = self.consumers.positions.lock();
        positions.get(name).map(|p| Timestamp::from_u64(p.saved))
    }

    /// Names of all consumers.
    pub fn consumer_names(&self) -> Vec<String> {
        self.consumers.positions.lock().keys().cloned().collect()
    }

    /// Forgets a consumer: the log is not held for it any more.
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

    /// How all consumers stand.
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

    /// Entries from a time on, and the age of the first in milliseconds.
    fn lag(&self, engine: &dyn Engine, from: u64) -> Result<(u64, u64)> {
        let total = self.entries_total();
        let Some((last, late, entries, _)) = first_row(engine, self.ident, from)? else {
            return Ok((0, 0));
        };
        // The times of a row's entries follow each other, and the key has the last.
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
    /// 1 for a damaged row; engine failures.
    pub fn visit(&mut self, rows_max: usize, f: &mut EachEntryOfLog<'_>) -> Result<Read> {
        self.reader.visit(rows_max, f)
    }

    /// Leaves out everything before a time: it concerns the consumer not.
    pub fn skip_to(&mut self, time: Timestamp) {
        self.reader.skip_to(time);
    }

    /// Shows the entries from a time on again.
    pub fn go_back_to(&mut self, time: Timestamp) {
        self.reader = LogReader::new(Arc::clone(&self.engine), Arc::clone(&self.log), time);
    }

    /// Lets go of the engine between two looks.
    pub fn pause(&mut self) {
        self.reader.pause();
    }

    /// Nothing before this time is left to do. Memory alone knows it: it is for who asks how far
    /// behind the consumer is.
    pub fn reached(&self, next: Timestamp) {
        self.log.consumers.raise(&self.name, None, next.as_u64());
    }

    /// Saves what was made of everything before `next`, and then the position. What was read is
    /// made durable first: the consumer must not keep what a loss of power takes back. After a
    /// crash between the two entries are shown again; none is left out.
    ///
    /// # Errors
    /// Engine failures; those of `save`, and the position is as before.
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
