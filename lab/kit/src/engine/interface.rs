//! The interface of an ordered key-value engine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::counters::Counters;
use super::options::EngineError;
use crate::target::SettleResult;
use crate::workload::Capability;

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// Store.
    Put(Vec<u8>, Vec<u8>),
    /// Remove.
    Delete(Vec<u8>),
    /// Add to the counter of the row without reading it ([`crate::kv::add_to_row`]).
    Merge(Vec<u8>, i64),
}

/// An engine that is open.
pub trait LabEngine: Send + Sync + 'static {
    /// The engine's name, with its version and the settings that matter.
    fn name(&self) -> String;

    /// The capabilities that the engine lacks, among those that not all ordered engines have.
    fn unsupported(&self) -> &'static [Capability];

    /// A session for one thread.
    ///
    /// # Errors
    /// The engine refuses.
    fn session(&self) -> Result<Box<dyn EngineSession>, EngineError>;

    /// Syncs everything to storage and waits, at most `timeout`, until no background work is left.
    fn settle(&self, timeout: Duration) -> SettleResult;

    /// Raw statistics.
    fn statistics(&self) -> serde_json::Value;

    /// The engine's current settings under its own names, as far as it reports them.
    fn configuration(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The engine's own counters, as far as it has them.
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// A callback that a scan calls for each key and value; `false` ends the scan.
pub type RowVisitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// One thread's use of an engine.
pub trait EngineSession: Send {
    /// Commits a batch, all or nothing.
    ///
    /// # Errors
    /// The engine refuses; nothing was stored.
    fn write(&mut self, batch: &[KeyChange], sync: bool) -> Result<(), EngineError>;

    /// Copies the value of `key` into `out`; returns whether the key exists.
    ///
    /// # Errors
    /// The engine fails.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, EngineError>;

    /// Visits keys in `from..end` in ascending order, or in descending order from the last one. An
    /// empty `from` stands for the beginning.
    ///
    /// # Errors
    /// The engine fails.
    fn scan(
        &mut self,
        from: &[u8],
        end: &[u8],
        reverse: bool,
        visit: RowVisitor<'_>,
    ) -> Result<(), EngineError>;
}
