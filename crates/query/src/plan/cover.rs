//! Whether the entries of a plan's index have all fields that a read uses. Must not know: how
//! entries store them.

use super::access::{Access, Plan};
use super::series::columns;
use crate::exec::MatchFilter;
use std::sync::Arc;
use store::Collection;

impl Plan {
    /// The same plan without reading documents, if the entries of its index have all fields that
    /// are used: the top-level `fields` used after the read (`None` for whole documents) and those
    /// of the filter.
    #[must_use]
    pub(crate) fn with_covering(
        mut self,
        coll: &Collection,
        filter: Option<&MatchFilter>,
        behind: Option<&[String]>,
    ) -> Plan {
        let (Access::Index { .. }, Some(index), None) = (&self.access, &self.index, &self.series)
        else {
            return self;
        };
        let names = behind.and_then(|b| columns(filter.filter(|_| !self.complete), b));
        let wanted = coll.select_fields(index, names.as_deref());
        self.covered = wanted.map(Arc::new);
        self
    }
}
