//! The fields of a document that expressions, filters and projections look at, which these tell
//! from their parsed trees. What a node does not say it is taken to do: a node that gives another
//! value each time may look at everything. Must not know: any of them.

use model::FieldPath;
use std::collections::BTreeSet;

/// Top-level fields that are looked at.
#[derive(Debug, Default)]
pub struct Reads {
    names: BTreeSet<String>,
    everything: bool,
}

impl Reads {
    /// The names; `None` when it may be any field, or when what is told depends on more than
    /// fields.
    pub fn names(self) -> Option<BTreeSet<String>> {
        (!self.everything).then_some(self.names)
    }

    /// Any field may be looked at.
    pub fn add_everything(&mut self) {
        self.everything = true;
    }

    /// A path is looked at.
    pub fn add_path(&mut self, path: &FieldPath) {
        if let Some(first) = path.parts().first() {
            self.add_field(&first.name);
        }
    }

    /// A top-level field is looked at.
    pub fn add_field(&mut self, name: &str) {
        if !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }
}
