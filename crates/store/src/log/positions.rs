//! Positions of the consumers of the log (ADR 0075). Promises: they are rows of the engine, read at
//! the start; no consumer can register while the log is cut. Must not know: the log, what consumers
//! do.

use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use model::Result;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use storage::{CursorOpts, Engine, KeyRange, Table, WriteBatch};

/// The position of a consumer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The consumer has saved everything before this time; the log is kept from here on.
    pub(super) saved: u64,
    /// The consumer has processed everything before this time.
    pub(super) done: u64,
    /// Number of the registration that it belongs to.
    pub(super) registration: u64,
}

impl Position {
    fn at(time: u64, registration: u64) -> Position {
        Position {
            saved: time,
            done: time,
            registration,
        }
    }
}

/// Positions of all consumers, by name.
#[derive(Default)]
pub(super) struct Consumers {
    pub(super) positions: Mutex<Positions>,
}

pub(super) type Positions = BTreeMap<String, Position>;

/// The locked positions during a cut: no consumer can register meanwhile.
pub(super) struct PositionsGuard<'c>(MutexGuard<'c, Positions>);

impl Consumers {
    /// Reads the positions.
    pub(super) fn open(engine: &dyn Engine) -> Result<Consumers> {
        let mut positions = Positions::new();
        let range = KeyRange::new(meta::CONSUMERS.0, meta::CONSUMERS.1);
        let mut sound = true;
        let mut cursor = engine
            .cursor(Table::Meta, range, CursorOpts::default())
            .map_err(error::storage)?;
        let mut more = true;
        while more && sound {
            more = cursor
                .visit(64, &mut |key, value| {
                    let name = meta::consumer_of(key);
                    let at = value.first_chunk::<8>().map(|b| u64::from_be_bytes(*b));
                    sound = match name.zip(at) {
                        Some((name, at)) => {
                            positions.insert(name.to_owned(), Position::at(at, 0));
                            true
                        }
                        None => false,
                    };
                    sound
                })
                .map_err(error::storage)?;
        }
        if !sound {
            return Err(error::corrupt("the position of a consumer of the log"));
        }
        Ok(Consumers {
            positions: Mutex::new(positions),
        })
    }

    pub(super) fn hold(&self) -> PositionsGuard<'_> {
        PositionsGuard(self.positions.lock())
    }

    /// Registers a name again; returns the number of the registration.
    pub(super) fn register(&self, name: &str, at: u64) -> u64 {
        let mut positions = self.positions.lock();
        let number = positions.get(name).map_or(0, |p| p.registration) + 1;
        positions.insert(name.to_owned(), Position::at(at, number));
        number
    }

    /// Later positions replace earlier ones.
    pub(super) fn raise(&self, name: &str, saved: Option<u64>, done: u64) {
        if let Some(position) = self.positions.lock().get_mut(name) {
            position.saved = position.saved.max(saved.unwrap_or(0));
            position.done = position.done.max(done);
        }
    }
}

impl PositionsGuard<'_> {
    /// The earliest time from which a consumer needs the log. A consumer whose entries are already
    /// removed does not count.
    pub(super) fn earliest(&self, oldest: u64) -> u64 {
        let saved = self.0.values().map(|p| p.saved);
        saved.filter(|at| *at >= oldest).min().unwrap_or(u64::MAX)
    }
}

/// Stores the position of a consumer in the engine.
pub(super) fn put_position(engine: &dyn Engine, name: &str, at: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, &meta::consumer(name), &at.to_be_bytes());
    commit(engine, WriteUnit::new(&batch)).map(|_| ())
}

/// Deletes the position of a consumer from the engine.
pub(super) fn remove_position(engine: &dyn Engine, name: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(Table::Meta, &meta::consumer(name));
    commit(engine, WriteUnit::new(&batch)).map(|_| ())
}
