//! Documents that are being compared, and whether they change meanwhile. Promises: a change applied
//! during a watch is seen by it. Must not know: what changes or comparisons are.

use crate::write;
use mongodb::bson::{Bson, RawBson};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

type Name = (String, Vec<u8>);

/// The documents watched at present.
#[derive(Debug, Default)]
pub(crate) struct WatchedDocuments {
    changed: Mutex<HashMap<Name, bool>>,
}

impl WatchedDocuments {
    fn lock(&self) -> MutexGuard<'_, HashMap<Name, bool>> {
        self.changed.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Notes a change of a document; `id` has the bytes of its `_id`.
    pub(crate) fn note(&self, collection: &str, id: &[u8]) {
        let mut changed = self.lock();
        if changed.is_empty() {
            return;
        }
        let name = (collection.to_owned(), id.to_vec());
        if let Some(changed) = changed.get_mut(&name) {
            *changed = true;
        }
    }
}

/// Watches some documents until dropped.
pub(crate) struct DocumentWatch {
    watched: Arc<WatchedDocuments>,
    collection: String,
    names: Vec<Name>,
}

impl DocumentWatch {
    pub(crate) fn begin(
        watched: &Arc<WatchedDocuments>,
        collection: &Bson,
        ids: &[RawBson],
    ) -> DocumentWatch {
        let collection = collection.to_string();
        let names = ids
            .iter()
            .map(|id| (collection.clone(), write::bytes_of(id)));
        let names: Vec<Name> = names.collect();
        let fresh = names.iter().cloned().map(|name| (name, false));
        watched.lock().extend(fresh);
        DocumentWatch {
            watched: Arc::clone(watched),
            collection,
            names,
        }
    }

    pub(crate) fn has_changed(&self, id: &RawBson) -> bool {
        let name = (self.collection.clone(), write::bytes_of(id));
        self.watched.lock().get(&name).copied().unwrap_or(true)
    }
}

impl Drop for DocumentWatch {
    fn drop(&mut self) {
        let mut watched = self.watched.lock();
        for name in &self.names {
            watched.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_while_it_is_watched() {
        let watched = Arc::<WatchedDocuments>::default();
        let [one, two] = [RawBson::Int32(1), RawBson::Int32(2)];
        let collection = Bson::from("c");
        let note = |id| watched.note(&collection.to_string(), &write::bytes_of(id));
        note(&one);
        let watch = DocumentWatch::begin(&watched, &collection, &[one.clone(), two.clone()]);
        note(&two);
        watched.note("another", &write::bytes_of(&one));
        assert_eq!([&one, &two].map(|id| watch.has_changed(id)), [false, true]);
        drop(watch);
        assert!(watched.lock().is_empty());
    }
}
