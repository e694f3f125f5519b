//! Feeds search indexes: builds each from its collection, then follows the log.
//!
//! Promises (ADR 0074): an index becomes READY only when it contains every change up to that
//! moment; after a crash it continues from its last commit without missing a change; a commit of an
//! index contains no change that a loss of power may undo. Indexes take turns. Must not know: which
//! thread runs the feeder, how indexes are read. Before it: its row among the workers.

mod changed;
mod follower;

use follower::{CONSUMERS, Follower, consumer_name, folder_name};
use model::{Namespace, Result};
use state::search::SearchDefinition;
use state::service::Service;
use state::workers::RoundContext;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use store::Collection;

/// Longest pause when there is nothing to do.
const REST: Duration = Duration::from_millis(20);
/// Longest pause while there is no index.
const REST_WITHOUT_INDEX: Duration = Duration::from_millis(250);
/// Namespaces read from the catalog in one step.
const CATALOG_ROWS: usize = 256;

/// Feeds all indexes until its turn ends. A store without a log has none.
pub fn run(service: &Arc<Service>, turn: &RoundContext<'_>) {
    if !service.has_search() {
        return;
    }
    let go_on = &|| turn.may_continue();
    let mut feeder = Feeder::default();
    if let Err(e) = feeder.find_all(service, go_on) {
        warn(service, "search indexes could not all be found", &e);
    }
    feeder.end_consumers(service);
    feeder.remove_folders(service);
    while go_on() {
        let busy = turn.round(service.clock.as_ref(), || feeder.turn(service, go_on));
        if !busy {
            let none = feeder.followers.is_empty();
            service
                .search
                .wait(if none { REST_WITHOUT_INDEX } else { REST });
        }
    }
}

fn warn(service: &Service, what: &str, e: &model::MongoError) {
    service.log('W', "INDEX", &format!("{what}: {}", e.message()));
}

/// The running followers by the id of their index.
#[derive(Default)]
struct Feeder {
    followers: BTreeMap<String, Follower>,
}

impl Feeder {
    /// Reads the catalog and starts every index that is not fed yet.
    fn find_all(&mut self, service: &Arc<Service>, go_on: &dyn Fn() -> bool) -> Result<()> {
        let (mut at, mut found) = (Vec::new(), Vec::new());
        loop {
            let more = service
                .store
                .visit_catalog(&mut at, CATALOG_ROWS, &mut |ns, row| {
                    if !row.search.is_empty() {
                        found.push(ns);
                    }
                })?;
            if !more || !go_on() {
                break;
            }
        }
        found.iter().try_for_each(|ns| self.follow(service, ns))
    }

    /// Applies the current definitions of a collection.
    fn follow(&mut self, service: &Arc<Service>, ns: &Namespace) -> Result<()> {
        let Some(coll) = service.store.collection(ns)? else {
            return Ok(());
        };
        let list = coll.search_indexes();
        let definitions: Vec<_> = list.iter().map(SearchDefinition::from_stored).collect();
        let uuid = coll.uuid();
        let gone: Vec<String> = self
            .followers
            .iter()
            .filter(|(_, f)| f.uuid() == uuid)
            .filter(|(_, f)| !definitions.iter().any(|d| f.is_of(d)))
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.end(service, id));
        for definition in definitions {
            self.take_up(service, &coll, definition);
        }
        Ok(())
    }

    fn take_up(
        &mut self,
        service: &Arc<Service>,
        coll: &Arc<Collection>,
        definition: SearchDefinition,
    ) {
        let id = definition.id().to_owned();
        if let Some(known) = self.followers.get_mut(&id) {
            // The index is known; its collection has a new handle because it was renamed.
            known.replace_collection(service, coll);
            return;
        }
        let live = service.search.live(&definition);
        match Follower::new(service, coll, definition, live.clone()) {
            Ok(follower) => _ = self.followers.insert(id, follower),
            Err(e) => live.fail(e.message()),
        }
    }

    /// Stops an index that was dropped or redefined.
    fn end(&mut self, service: &Service, id: &str) {
        if let Some(follower) = self.followers.remove(id) {
            follower.remove_files(service);
            let listed = service.store.collection(follower.ns());
            let still = listed.ok().flatten().is_some_and(|c| {
                let list = c.search_indexes();
                list.iter()
                    .any(|d| SearchDefinition::from_stored(d).id() == id)
            });
            if !still {
                service.search.remove(id);
            }
        }
    }

    /// Applies changed definitions and lets every index do one step; false when there was nothing
    /// to do.
    fn turn(&mut self, service: &Arc<Service>, go_on: &dyn Fn() -> bool) -> bool {
        for ns in service.search.take_changed() {
            if let Err(e) = self.follow(service, &ns) {
                warn(service, &format!("search indexes of {ns}"), &e);
            }
        }
        self.look_for_moved(service, go_on);
        let mut busy = false;
        for follower in self.followers.values_mut() {
            if !go_on() {
                return false;
            }
            match follower.work(service) {
                Ok(more) => busy |= more,
                Err(e) => {
                    warn(service, &format!("search index of {}", follower.ns()), &e);
                    follower.record_failure(&e);
                }
            }
        }
        busy
    }

    /// Finds collections that were dropped or renamed.
    fn look_for_moved(&mut self, service: &Arc<Service>, go_on: &dyn Fn() -> bool) {
        let moved = |f: &Follower| f.collection().is_dropped();
        if !self.followers.values().any(moved) {
            return;
        }
        if let Err(e) = self.find_all(service, go_on) {
            return warn(service, "search indexes could not all be found", &e);
        }
        let gone: Vec<String> = self
            .followers
            .iter()
            .filter(|(_, f)| moved(f))
            .map(|(id, _)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.end(service, id));
    }

    /// Removes log consumers of dropped indexes, which a crash can leave.
    fn end_consumers(&self, service: &Service) {
        let Some(log) = service.store.feed() else {
            return;
        };
        let wanted: HashSet<String> = self
            .followers
            .values()
            .map(|f| consumer_name(&folder_name(f.definition())))
            .collect();
        let names = log.consumer_names();
        let feeds = names.iter().filter(|name| name.starts_with(CONSUMERS));
        for name in feeds.filter(|name| !wanted.contains(*name)) {
            if let Err(e) = service.store.end_log_consumer(name) {
                warn(service, &format!("consumer {name} of the log"), &e);
            }
        }
    }

    /// Removes folders of dropped indexes, which a crash can leave.
    fn remove_folders(&self, service: &Service) {
        let Some(all) = &service.config.search_folder else {
            return;
        };
        let wanted: HashSet<String> = self
            .followers
            .values()
            .map(|f| folder_name(f.definition()))
            .collect();
        for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !wanted.contains(&name)
                && let Err(e) = std::fs::remove_dir_all(entry.path())
            {
                let message = format!("{name} could not be removed: {e}");
                service.log('W', "INDEX", &message);
            }
        }
    }
}
