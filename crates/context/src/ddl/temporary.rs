//! Collections that exist for one operation. Their names are stored in a setting before they exist,
//! so that the next start finds those that a crash has left without listing all collections. A name
//! is used again by later operations, which then store nothing. Where several servers write, each
//! has a setting of its own, and one of them drops what was left by those that have gone.

use access::uuid::new_uuid;
use model::{Doc, DocBuf, Namespace, Result};
use operation::Operation;
use parking_lot::Mutex;
use state::service::Service;
use std::sync::Arc;
use store::{Collection, Peer};

const SETTING: &str = "temporaryCollections";

/// The setting of a server among several that write.
fn setting_of(peer: Peer) -> String {
    format!("{SETTING}.{}", peer.name())
}

/// The setting of this server.
fn own_setting(service: &Service) -> String {
    let peer = service.store.peer();
    peer.map_or_else(|| SETTING.to_owned(), setting_of)
}

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
    let setting = own_setting(service);
    let row = service.store.setting(&setting)?.unwrap_or_default();
    let mut names = names_in(row.doc());
    change(&mut names);
    if names.is_empty() && service.store.peer().is_some() {
        return service.store.remove_setting(&setting);
    }
    let row = DocBuf::build(|w| {
        let mut list = w.array("names");
        for name in &names {
            list.push(name);
        }
    });
    service.store.set_setting(&setting, &row)
}

/// Stores a new name.
fn note_name(service: &Service, db: &str) -> Result<Namespace> {
    let name = format!("tmp.agg_out.{:016x}", rand::random::<u64>());
    let ns = Namespace::new(db, &name)?;
    record(service, |names| names.push(ns.to_string()))?;
    Ok(ns)
}

fn names_in(row: Doc<'_>) -> Vec<String> {
    let names = row.field("names").as_array().unwrap_or(model::Array::EMPTY);
    names
        .iter()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
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
        let ns = match service.state.temporary_names.take(target.db()) {
            Some(ns) => ns,
            None => note_name(service, target.db())?,
        };
        let catalog = service.store.writer(operation);
        let coll = loop {
            match catalog.create_collection(&ns, options.clone(), new_uuid()) {
                // Another server has changed the catalog meanwhile.
                Err(e) if service.store.peer().is_some() && e.is_collection_gone() => {
                    service.store.begin_moment()?;
                }
                created => break created?,
            }
        };
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

    /// Changes the collection. Where several servers write, `change` is called again while others
    /// change the catalog: it must change nothing when it ends with 175 QueryPlanKilled, or keep
    /// its progress.
    ///
    /// # Errors
    /// Those of `change`; as [`store::Store::renew`].
    pub(crate) fn change(
        &mut self,
        mut change: impl FnMut(&Arc<Collection>) -> Result<()>,
    ) -> Result<()> {
        loop {
            match change(&self.coll) {
                Err(e) if self.service.store.peer().is_some() && e.is_collection_gone() => {
                    self.renew()?;
                }
                done => return done,
            }
        }
    }

    /// Replaces `target` by the collection in one step, if `check` agrees.
    ///
    /// # Errors
    /// Those of `check`; engine failures. The old collection still exists then.
    pub(crate) fn rename(
        &mut self,
        operation: &Operation,
        target: &Namespace,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let (service, ns) = (Arc::clone(&self.service), self.ns.clone());
        self.change(|_| {
            check()?;
            let catalog = service.store.writer(operation);
            catalog.rename_collection(&ns, target, true)
        })?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryCollection {
    fn drop(&mut self) {
        // After a failure the name stays in the setting, and the next start tries again.
        let (service, ns) = (Arc::clone(&self.service), self.ns.clone());
        let gone = self.renamed || {
            let operation = service.own_operation();
            let catalog = service.store.writer(&operation);
            self.change(|_| catalog.drop_collection(&ns).map(|_| ()))
                .is_ok()
        };
        if gone && !self.service.state.temporary_names.give_back(&self.ns) {
            let name = self.ns.to_string();
            let _ = record(&self.service, |names| names.retain(|n| *n != name));
        }
    }
}

/// Drops the temporary collections that an earlier process has left; where several servers write,
/// those of servers that have gone.
///
/// # Errors
/// Engine failures.
pub fn sweep(service: &Service) -> Result<()> {
    for (setting, row) in service.store.settings_of(SETTING)? {
        let writer = setting
            .strip_prefix(SETTING)
            .and_then(|s| s.strip_prefix('.'));
        let is_alive = match writer.and_then(Peer::parse) {
            Some(peer) => service.store.peer().is_some() && service.store.is_alive(peer)?,
            None => false,
        };
        let names = names_in(row.doc());
        if is_alive || (names.is_empty() && setting == SETTING) {
            continue;
        }
        let operation = service.own_operation();
        let catalog = service.store.writer(&operation);
        for name in &names {
            // A collection that was renamed no longer exists under this name.
            catalog.drop_collection(&Namespace::parse(name)?)?;
        }
        match writer {
            Some(_) => service.store.remove_setting(&setting)?,
            None => record_none(service)?,
        }
    }
    Ok(())
}

/// Stores that the server that writes alone has no temporary collection.
fn record_none(service: &Service) -> Result<()> {
    let none = DocBuf::build(|w| _ = w.array("names"));
    service.store.set_setting(SETTING, &none)
}
