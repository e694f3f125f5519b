//! Applies changes to the target. Promises: applying a change again has the same result; of several
//! changes of a document the last one counts; a document becomes what it is in the source now, it
//! is not changed step by step.
//!
//! An event only says what to read: an updated document is read from the source, names and indexes
//! are aligned with those the source has now. So an event older than the copied documents does no
//! harm (docs/adr/0073-follow.md).

use crate::bring::InitialSync;
use crate::error::{FollowError, Result, code};
use crate::events::{Change, Event};
use crate::names::Ns;
use crate::server::Server;
use crate::state::Entry;
use crate::watched::WatchedDocuments;
use crate::write;
use mongodb::bson::{Bson, RawArrayBuf, RawBson, RawDocumentBuf, Timestamp, cstr, rawdoc};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Documents read from the source at once.
const LOOKED_FOR: usize = 100;
/// How often names may change during a batch before it fails.
const ROUNDS: usize = 5;

/// Applies events.
pub(crate) struct Applier {
    pub(crate) bringer: InitialSync,
    entries: HashMap<String, Entry>,
    /// Names and options are those of this time or a later one.
    pub(crate) aligned: Timestamp,
    /// How often indexes or collections were aligned.
    pub(crate) index_changes: u64,
    /// The time at which the indexes of single collections were last aligned.
    indexed: HashMap<String, Timestamp>,
    /// Changes that cannot be followed and were reported.
    pub(crate) refused: Vec<String>,
    watched: Arc<WatchedDocuments>,
}

impl Applier {
    /// Copies everything first, then is ready to apply events.
    pub(crate) async fn new(
        bringer: InitialSync,
        watched: Arc<WatchedDocuments>,
    ) -> Result<Applier> {
        let mut applier = Applier {
            bringer,
            entries: HashMap::new(),
            aligned: Timestamp {
                time: 0,
                increment: 0,
            },
            index_changes: 0,
            indexed: HashMap::new(),
            refused: Vec::new(),
            watched,
        };
        applier.align_and_copy().await?;
        Ok(applier)
    }

    /// Aligns the target and copies new collections.
    pub(crate) async fn align_and_copy(&mut self) -> Result<()> {
        let aligned = self.bringer.run().await?;
        self.aligned = aligned.time;
        self.index_changes += 1;
        let keyed = aligned.entries.into_iter().map(|e| (e.key.to_string(), e));
        self.entries = keyed.collect();
        self.refused = aligned.refused;
        Ok(())
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.values().cloned().collect()
    }

    fn entry_of(&self, event: &Event) -> Option<&Entry> {
        match &event.key {
            Some(key) => self.entries.get(&key.to_string()),
            None => self.entries.values().find(|e| e.source == event.ns),
        }
    }

    fn concerns(&self, event: &Event) -> bool {
        let names = &self.bringer.copier.aligner.names;
        let whole = event.ns.coll.is_empty() && names.may_have(&event.ns.db);
        let is_ours = |ns: &Ns| names.has(ns);
        whole || is_ours(&event.ns) || event.to.as_ref().is_some_and(is_ours)
    }

    fn wants_names(&self, event: &Event) -> bool {
        let is_new = event.time > self.aligned;
        match event.change {
            Change::Nothing => false,
            Change::Names | Change::Options => is_new,
            _ => is_new && self.entry_of(event).is_none(),
        }
    }

    /// Applies a batch; returns the number of events about followed collections.
    pub(crate) async fn apply(&mut self, events: &[Event]) -> Result<usize> {
        let ours: Vec<&Event> = events.iter().filter(|e| self.concerns(e)).collect();
        for _ in 0..ROUNDS {
            if ours.iter().any(|e| self.wants_names(e)) {
                self.align_and_copy().await?;
            }
            self.align_indexes(&ours).await?;
            if self.apply_documents(&ours).await? {
                return Ok(ours.len());
            }
            self.align_and_copy().await?;
        }
        Err(FollowError::of_network(
            "the names of the source's collections change faster than they can be followed",
        ))
    }

    async fn align_indexes(&mut self, events: &[&Event]) -> Result<()> {
        for event in events {
            let is_of_indexes = matches!(event.change, Change::Indexes | Change::Options);
            let Some(entry) = self.entry_of(event).filter(|_| is_of_indexes) else {
                continue;
            };
            let (key, mut entry) = (entry.key.to_string(), entry.clone());
            if self.indexed.get(&key).is_some_and(|t| event.time <= *t) {
                continue;
            }
            let aligner = &self.bringer.copier.aligner;
            let time = aligner.source.time().await?;
            aligner.align_indexes(&mut entry).await?;
            self.index_changes += 1;
            self.indexed.insert(key.clone(), time);
            self.entries.insert(key, entry);
        }
        Ok(())
    }

    /// Applies changes of documents; false if a collection was renamed meanwhile.
    async fn apply_documents(&self, events: &[&Event]) -> Result<bool> {
        let mut folds: HashMap<String, Fold> = HashMap::new();
        for event in events {
            if let Some(entry) = self.entry_of(event) {
                let key = entry.key.to_string();
                let fold = folds.entry(key).or_insert_with(|| Fold::of(entry));
                fold.add(&event.change, &self.watched)?;
            }
        }
        let mut tasks = JoinSet::new();
        let aligner = &self.bringer.copier.aligner;
        for fold in folds.into_values() {
            let (source, target) = (aligner.source.clone(), aligner.target.clone());
            tasks.spawn(async move { fold.apply(&source, &target).await });
        }
        let mut all = true;
        while let Some(ended) = tasks.join_next().await {
            all &= ended.map_err(|e| FollowError::of_data(format!("applying ended: {e}")))??;
        }
        Ok(all)
    }
}

#[derive(Clone)]
enum LastChange {
    Put(RawDocumentBuf),
    Look(RawBson),
    Delete(RawBson),
}

/// The last change of each document of a collection.
struct Fold {
    key: String,
    entry: Entry,
    /// In the order in which the documents first changed.
    changes: Vec<LastChange>,
    places: HashMap<Vec<u8>, usize>,
}

impl Fold {
    fn of(entry: &Entry) -> Fold {
        Fold {
            key: entry.key.to_string(),
            entry: entry.clone(),
            changes: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn add(&mut self, change: &Change, watched: &WatchedDocuments) -> Result<()> {
        let last = match change {
            Change::Put(document) => LastChange::Put(document.clone()),
            Change::Look(id) => LastChange::Look(id.clone()),
            Change::Delete(id) => LastChange::Delete(id.clone()),
            Change::Names | Change::Options | Change::Indexes | Change::Nothing => return Ok(()),
        };
        let id = match &last {
            LastChange::Put(document) => write::bytes_of(&write::id_of(document)?),
            LastChange::Look(id) | LastChange::Delete(id) => write::bytes_of(id),
        };
        watched.note(&self.key, &id);
        let place = self.places.get(&id).copied();
        match place.and_then(|at| self.changes.get_mut(at)) {
            // A document inserted after its deletion counts as new; its place matters in a
            // collection that keeps an order.
            Some(known) if !matches!(known, LastChange::Delete(_)) => *known = last,
            _ => {
                self.places.insert(id, self.changes.len());
                self.changes.push(last);
            }
        }
        Ok(())
    }

    /// Applies the changes; false if the collection was renamed meanwhile.
    async fn apply(self, source: &Server, target: &Server) -> Result<bool> {
        let to = &self.entry.target;
        // Deletions come first: a later document may have an `_id` equal to a deleted one's.
        let gone: Vec<RawBson> = { self.changes.iter() }
            .filter_map(|last| match last {
                LastChange::Delete(id) => Some(id.clone()),
                LastChange::Put(_) | LastChange::Look(_) => None,
            })
            .collect();
        write::delete(target, to, &gone).await?;
        for some in self.changes.chunks(LOOKED_FOR) {
            let looked_for = some.iter().filter_map(|last| match last {
                LastChange::Look(id) => Some(id.clone()),
                LastChange::Put(_) | LastChange::Delete(_) => None,
            });
            let looked_for: Vec<RawBson> = looked_for.collect();
            let mut found = match read_documents(source, &self.entry, &looked_for).await {
                Err(e) if e.is(code::UUID_MISMATCH) => return Ok(false),
                found => found?,
            };
            // A server that reads by name only may have read another collection.
            if !looked_for.is_empty() && !source.reads_by_uuid() {
                let identity = source.identity(&self.entry.source).await?;
                if identity.as_ref() != Some(&self.entry.key) {
                    return Ok(false);
                }
            }
            let mut puts = Vec::new();
            let mut gone = Vec::new();
            for last in some {
                match last {
                    LastChange::Put(document) => puts.push(document.clone()),
                    LastChange::Look(id) => match found.remove(&write::bytes_of(id)) {
                        Some(document) => puts.push(document),
                        None => gone.push(id.clone()),
                    },
                    LastChange::Delete(_) => {}
                }
            }
            write::delete(target, to, &gone).await?;
            match looked_for.is_empty() || self.entry.is_capped() {
                true => write::insert(target, to, &puts).await?,
                false => write::replace(target, to, &puts).await?,
            }
        }
        Ok(true)
    }
}

/// The present documents of the source, keyed by the bytes of their `_id`.
pub(crate) async fn read_documents(
    source: &Server,
    entry: &Entry,
    ids: &[RawBson],
) -> Result<HashMap<Vec<u8>, RawDocumentBuf>> {
    let mut found = HashMap::new();
    if ids.is_empty() {
        return Ok(found);
    }
    let mut list = RawArrayBuf::new();
    ids.iter().for_each(|id| list.push(id.clone()));
    let mut find = rawdoc! {
        "find": entry.source.coll.as_str(),
        "filter": { "_id": { "$in": list } },
        "readConcern": { "level": "majority" },
    };
    if let (true, Bson::Binary(uuid)) = (source.reads_by_uuid(), &entry.key) {
        find.append(cstr!("collectionUUID"), uuid.as_raw_binary());
    }
    let mut cursor = source.read(&entry.source.db, find).await?;
    while cursor.advance().await? {
        let document = cursor.current().to_owned();
        found.insert(write::bytes_of(&write::id_of(&document)?), document);
    }
    Ok(found)
}
