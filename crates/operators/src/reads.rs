//! The top-level fields that expressions, filters and projections read, collected from their parsed
//! trees. A node that does not report more is taken to read what its operands read; a node whose
//! value changes from call to call may read everything. Must not know: expressions, filters,
//! projections.

use model::FieldPath;
use std::collections::BTreeSet;

/// Top-level fields that are read.
#[derive(Debug, Default)]
pub struct RequiredFields {
    names: BTreeSet<String>,
    everything: bool,
}

impl RequiredFields {
    /// The names; `None` when any field may be read, or when the result depends on more than
    /// fields.
    pub fn names(self) -> Option<BTreeSet<String>> {
        (!self.everything).then_some(self.names)
    }

    /// Adds every field.
    pub fn add_everything(&mut self) {
        self.everything = true;
    }

    /// Adds the first field of a path.
    pub fn add_path(&mut self, path: &FieldPath) {
        if let Some(first) = path.parts().first() {
            self.add_field(&first.name);
        }
    }

    /// Adds a top-level field.
    pub fn add_field(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }
}
