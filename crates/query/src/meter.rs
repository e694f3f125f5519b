//! Counts what a read examines, in the statistics of its operation. Must not know: which operation
//! that is.

use operation::AccessPath;
use operators::Env;

/// Notes the access path of a read that is opened.
pub(crate) fn open_read(env: &Env, path: impl FnOnce() -> AccessPath) {
    if let Some(operation) = &env.operation {
        operation.reads().open(path);
    }
}

/// The counters of one scan.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Index entries counted so far.
    keys: u64,
}

impl Meter {
    /// Adds a step of the scan that has examined `docs` documents; `keys` counts from the beginning
    /// of the scan.
    pub(crate) fn step(&mut self, env: &Env, docs: u64, keys: u64) {
        let more = keys.saturating_sub(std::mem::replace(&mut self.keys, keys));
        if let Some(operation) = &env.operation {
            operation.reads().add(more, docs);
        }
    }
}
