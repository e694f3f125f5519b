//! Settings of query shapes: which indexes may be used, and whether queries of the shape are
//! rejected. Kept in memory.

use model::DocBuf;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The settings of one shape.
#[derive(Clone, Debug)]
pub struct ShapeSettings {
    /// What was set.
    pub settings: DocBuf,
    /// A query of the shape.
    pub representative: DocBuf,
}

/// Settings by the hash of their shape.
#[derive(Default)]
pub struct QuerySettings {
    any: AtomicBool,
    rows: Mutex<BTreeMap<String, ShapeSettings>>,
}

impl QuerySettings {
    /// True when there are any: queries that run without cost one load.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Those of a shape.
    pub fn get(&self, hash: &str) -> Option<ShapeSettings> {
        self.rows.lock().get(hash).cloned()
    }

    /// Sets those of a shape.
    pub fn set(&self, hash: &str, row: ShapeSettings) {
        self.rows.lock().insert(hash.to_owned(), row);
        self.any.store(true, Ordering::Release);
    }

    /// Removes those of a shape.
    pub fn remove(&self, hash: &str) {
        let mut rows = self.rows.lock();
        rows.remove(hash);
        self.any.store(!rows.is_empty(), Ordering::Release);
    }

    /// All of them.
    pub fn list(&self) -> Vec<(String, ShapeSettings)> {
        let rows = self.rows.lock();
        rows.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}
