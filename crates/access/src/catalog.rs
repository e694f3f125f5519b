//! The collections of users and roles in MongoDB's format, so that dumps contain them.

use crate::uuid::new_uuid;
use model::{Doc, DocBuf, Namespace, Result, Value, code};
use std::sync::Arc;
use store::{CatalogWriter, Change, Collection, ModifyOutcome, ReadView, Store};

/// A collection of `admin` that stores access data.
#[derive(Clone, Copy, Debug)]
pub struct AccessCollection {
    /// The name of the collection.
    pub(crate) coll: &'static str,
    /// The name and the fields of its unique index.
    index: Option<(&'static str, [&'static str; 2])>,
}

/// Users.
pub const USERS: AccessCollection = AccessCollection {
    coll: "system.users",
    index: Some(("user_1_db_1", ["user", "db"])),
};
/// User-defined roles.
pub const ROLES: AccessCollection = AccessCollection {
    coll: "system.roles",
    index: Some(("role_1_db_1", ["role", "db"])),
};
/// The version of the storage format of users and roles.
pub const VERSION: AccessCollection = AccessCollection {
    coll: "system.version",
    index: None,
};

impl AccessCollection {
    fn ns(self) -> Result<Namespace> {
        Namespace::new("admin", self.coll)
    }

    fn find_existing(self, store: &Store) -> Result<Option<Arc<Collection>>> {
        store.collection(&self.ns()?)
    }

    fn open_or_create(self, store: &CatalogWriter<'_>) -> Result<Arc<Collection>> {
        if let Some(coll) = self.find_existing(store)? {
            return Ok(coll);
        }
        let ns = self.ns()?;
        let coll = match store.create_collection(&ns, DocBuf::new(), new_uuid()) {
            Err(e) if e.code() == code::NAMESPACE_EXISTS => {
                // Where several servers write, the one of another server is found only now.
                store.begin_moment()?;
                let there = store.collection(&ns)?;
                there.ok_or_else(|| model::MongoError::internal("a collection came and went"))?
            }
            made => made?,
        };
        if let Some((name, fields)) = self.index {
            let spec = DocBuf::build(|w| {
                w.put("v", 2i32).put("unique", true);
                let mut key = w.doc("key");
                for field in fields {
                    key.put(field, 1i32);
                }
                drop(key);
                w.put("name", name);
            });
            store.create_first_index(&coll, &spec)?;
        }
        // The operation may run again: it finds what was made.
        store.operation().writes().checkpoint();
        store.renew(&coll)
    }

    /// Whether the collection contains no documents.
    pub(crate) fn is_empty(self, store: &Store) -> Result<bool> {
        Ok(self.find_existing(store)?.is_none_or(|c| c.count() == 0))
    }

    /// The document with this `_id`.
    pub fn get(self, store: &Store, id: &str) -> Result<Option<DocBuf>> {
        let Some(coll) = self.find_existing(store)? else {
            return Ok(None);
        };
        let mut found = None;
        let id = Value::String(id);
        coll.get_with(&ReadView::LATEST, &id, &mut |doc| {
            found = Some(doc.to_buf())
        })?;
        Ok(found)
    }

    /// All documents in the order of `_id`.
    pub fn read_all(self, store: &Store) -> Result<Vec<DocBuf>> {
        let Some(coll) = self.find_existing(store)? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        let mut scan = coll.scan_keys(&ReadView::LATEST, None, None, false);
        while scan.visit(64, &mut |row| {
            all.push(row.doc.to_buf());
            true
        })? {}
        Ok(all)
    }

    /// Adds a document. Returns false when its `_id` exists already.
    pub fn add(self, store: &CatalogWriter<'_>, doc: Doc<'_>) -> Result<bool> {
        let coll = self.open_or_create(store)?;
        let mut done = coll.writer(store.operation()).insert(&[doc], true)?;
        match done.errors.pop() {
            None => Ok(true),
            Some((_, e)) if e.code() == code::DUPLICATE_KEY => Ok(false),
            Some((_, e)) => Err(e),
        }
    }

    /// Replaces the document with this `_id` by the result of `change`; `None` removes it. Returns
    /// false when it does not exist. `change` is called again after a conflict with another writer.
    pub fn change(
        self,
        store: &CatalogWriter<'_>,
        id: &str,
        change: &mut dyn FnMut(Doc<'_>) -> Result<Option<DocBuf>>,
    ) -> Result<bool> {
        let Some(coll) = self.find_existing(store)? else {
            return Ok(false);
        };
        let mut key = Vec::new();
        coll.record_key(&Value::String(id), &mut key);
        let done = coll.writer(store.operation()).modify(&key, &mut |old| {
            Ok(match change(old)? {
                None => Change::Delete,
                Some(new) if new.as_bytes() == old.as_bytes() => Change::Keep,
                Some(new) => Change::Replace(new.into_bytes()),
            })
        })?;
        Ok(done != ModifyOutcome::Absent)
    }
}
