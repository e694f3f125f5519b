//! Counting what a read looks at in the operation it is read for. Must not know: who asks for it.

use operation::AccessPath;
use operators::Env;

/// Notes that a read is opened by an access path.
pub(crate) fn open_read(env: &Env, path: impl FnOnce() -> AccessPath) {
    if let Some(operation) = &env.operation {
        operation.reads().open(path);
    }
}

/// Counts for one scan.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Index entries that were counted.
    keys: u64,
}

impl Meter {
    /// A step of the scan has looked at so many documents; `keys` counts from the scan's beginning.
    pub(crate) fn step(&mut self, env: &Env, docs: u64, keys: u64) {
        let more = keys.saturating_sub(std::mem::replace(&mut self.keys, keys));
        if let Some(operation) = &env.operation {
            operation.reads().add(more, docs);
        }
    }
}
