//! Collections that exist for one operation. Their names are stored in a setting while they exist,
//! so that the next start finds those that a crash has left without listing all collections.

use access::uuid::new_uuid;
use model::{DocBuf, Namespace, Result};
use operation::Operation;
use parking_lot::Mutex;
use state::service::Service;
use std::sync::Arc;
use store::Collection;

const SETTING: &str = "temporaryCollections";

/// Only one thread at a time changes the setting.
static SETTING_LOCK: Mutex<()> = Mutex::new(());

/// A collection that is dropped together with this value, unless it was renamed to its final name.
pub(crate) struct TemporaryCollection {
    service: Arc<Service>,
    ns: Namespace,
    coll: Arc<Collection>,
    renamed: bool,
}

fn record(service: &Service, change: impl FnOnce(&mut Vec<String>)) -> Result<()> {
    let _one = SETTING_LOCK.lock();
    let mut names = read_names(service)?;
    change(&mut names);
    let row = DocBuf::build(|w| {
        let mut list = w.array("names");
        for name in &names {
            list.push(name);
        }
    });
    service.store.set_setting(SETTING, &row)
}

fn read_names(service: &Service) -> Result<Vec<String>> {
    let row = service.store.setting(SETTING)?.unwrap_or_default();
    let names = row
        .doc()
        .field("names")
        .as_array()
        .unwrap_or(model::Array::EMPTY);
    Ok(names
        .iter()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect())
}

impl TemporaryCollection {
    /// Creates a temporary collection in the database of `target`.
    ///
    /// # Errors
    /// Engine failures.
    pub(crate) fn create(
        service: &Arc<Service>,
        operation: &Operation,
        target: &Namespace,
        options: DocBuf,
    ) -> Result<TemporaryCollection> {
        let ns = Namespace::new(
            target.db(),
            &format!("tmp.agg_out.{:016x}", rand::random::<u64>()),
        )?;
        record(service, |names| names.push(ns.to_string()))?;
        let coll = service
            .store
            .writer(operation)
            .create_collection(&ns, options, new_uuid())?;
        Ok(TemporaryCollection {
            service: service.clone(),
            ns,
            coll,
            renamed: false,
        })
    }

    /// The temporary collection.
    pub(crate) fn coll(&self) -> &Arc<Collection> {
        &self.coll
    }

    /// Finds the collection again after its indexes were built, see [`store::Store::renew`].
    ///
    /// # Errors
    /// As [`store::Store::renew`].
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.coll = self.service.store.renew(&self.coll)?;
        Ok(())
    }

    /// Replaces `target` by the collection in one step.
    ///
    /// # Errors
    /// Engine failures; the old collection still exists then.
    pub(crate) fn rename(&mut self, operation: &Operation, target: &Namespace) -> Result<()> {
        self.service
            .store
            .writer(operation)
            .rename_collection(&self.ns, target, true)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryCollection {
    fn drop(&mut self) {
        // After a failure the name stays in the setting, and the next start tries again.
        let drop = || {
            let operation = self.service.own_operation();
            let catalog = self.service.store.writer(&operation);
            catalog.drop_collection(&self.ns).is_ok()
        };
        let gone = self.renamed || drop();
        if gone {
            let name = self.ns.to_string();
            let _ = record(&self.service, |names| names.retain(|n| *n != name));
        }
    }
}

/// Drops the temporary collections that an earlier process has left.
///
/// # Errors
/// Engine failures.
pub fn sweep(service: &Service) -> Result<()> {
    let names = read_names(service)?;
    if names.is_empty() {
        return Ok(());
    }
    let operation = service.own_operation();
    let catalog = service.store.writer(&operation);
    for name in &names {
        // A collection that was renamed no longer exists under this name.
        catalog.drop_collection(&Namespace::parse(name)?)?;
    }
    record(service, Vec::clear)
}
