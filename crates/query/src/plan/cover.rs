//! Whether a plan's index says all that is looked at of documents. Must not know: how entries say
//! it.

use super::access::{Access, Plan};
use super::series::columns;
use crate::exec::MatchFilter;
use std::sync::Arc;
use store::Collection;

impl Plan {
    /// The same plan without a read of documents, if the entries of its index hold enough: the
    /// top-level `fields` that are used behind the read, and those that its filter uses. `None`
    /// stands for whole documents.
    #[must_use]
    pub(crate) fn covering(
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
        let wanted = coll.wanted_fields(index, names.as_deref());
        self.covered = wanted.map(Arc::new);
        self
    }
}
