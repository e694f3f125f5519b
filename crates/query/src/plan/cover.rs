//! Whether the entries of a plan's index have all fields that a read uses. Must not know: how
//! entries store them.

use super::access::{Access, Plan};
use super::series::columns;
use crate::exec::{MatchFilter, SortPattern};
use model::Doc;
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Collection, WantedFields};

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
        // An earlier call may have asked for other fields.
        self.read_documents();
        let names = behind.and_then(|b| columns(filter.filter(|_| !self.complete), b));
        match &mut self.access {
            Access::Union {
                branches, merge, ..
            } => {
                let sort = merge.as_deref().map(SortPattern::spec);
                let names = names.and_then(|names| add_sort_fields(&names, sort.as_ref()));
                let wanted: Option<Vec<_>> = branches
                    .iter()
                    .map(|branch| branch.select_fields(coll, Some(names.as_deref()?)))
                    .collect();
                for (branch, wanted) in branches.iter_mut().zip(wanted.into_iter().flatten()) {
                    branch.covered = Some(wanted);
                }
            }
            _ => self.covered = self.select_fields(coll, names.as_deref()),
        }
        self
    }

    /// The fields as the plan's index has them; `None` where its entries do not have them all.
    fn select_fields(
        &self,
        coll: &Collection,
        names: Option<&[String]>,
    ) -> Option<Arc<WantedFields>> {
        let (Access::Index { .. }, Some(index), None) = (&self.access, &self.index, &self.series)
        else {
            return None;
        };
        coll.select_fields(index, names).map(Arc::new)
    }

    /// Whether no document is read, unless an entry has not stored its values.
    pub(crate) fn is_covered(&self) -> bool {
        match &self.access {
            Access::Union { branches, .. } => branches.iter().all(|b| b.covered.is_some()),
            _ => self.covered.is_some(),
        }
    }

    /// The same plan, reading documents.
    pub(crate) fn read_documents(&mut self) {
        self.covered = None;
        if let Access::Union { branches, .. } = &mut self.access {
            branches.iter_mut().for_each(|b| b.covered = None);
        }
    }
}

/// The top-level fields with those that a union is merged by; `None` when it is merged by something
/// that is no field.
fn add_sort_fields(names: &[String], sort: Option<&Doc<'_>>) -> Option<Arc<[String]>> {
    let mut all: BTreeSet<String> = names.iter().cloned().collect();
    for (path, direction) in sort.into_iter().flat_map(|spec| spec.iter()) {
        if !direction.is_number() {
            return None;
        }
        all.insert(path.split('.').next().unwrap_or(path).to_owned());
    }
    Some(all.into_iter().collect())
}
