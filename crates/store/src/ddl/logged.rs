//! The entries of the log for changes of the catalog. Must not know: which options mean what.

use crate::catalog::{Collection, Shared};
use crate::log::{EntryList, LogRows, NamespaceHash, uuid};
use model::{Doc, DocBuf, DocWriter, Namespace};
use storage::WriteBatch;

/// The log entry of a command: `o` and, where needed, `o2`.
pub(crate) struct Note {
    pub(crate) o: DocBuf,
    pub(crate) o2: Option<DocBuf>,
}

impl Note {
    pub(crate) fn new(fill: impl FnOnce(&mut DocWriter<'_>)) -> Note {
        Note {
            o: DocBuf::build(fill),
            o2: None,
        }
    }

    pub(crate) fn with_fields(self, fill: impl FnOnce(&mut DocWriter<'_>)) -> Note {
        Note {
            o2: Some(DocBuf::build(fill)),
            ..self
        }
    }

    /// A collection or view was created.
    pub(crate) fn create(ns: &Namespace, options: Doc<'_>) -> Note {
        Note::new(|w| {
            w.put("create", ns.coll()).put_all(options);
            if !options.contains("viewOn") && !options.contains("clusteredIndex") {
                let mut index = w.doc("idIndex");
                index.put("v", 2i32).doc("key").put("_id", 1i32);
                index.put("name", "_id_");
            }
        })
    }

    /// A collection was renamed and replaced the one with identifier `dropped`.
    pub(crate) fn rename(from: &Namespace, to: &Namespace, dropped: Option<[u8; 16]>) -> Note {
        Note::new(|w| {
            w.put("renameCollection", &from.to_string())
                .put("to", &to.to_string())
                .put("stayTemp", false);
            if let Some(id) = &dropped {
                w.put("dropTarget", uuid(id));
            }
        })
    }

    /// The entry of the command for a database, and for the collection with this identity.
    pub(crate) fn entry(&self, db: &str, id: Option<&[u8; 16]>) -> EntryList {
        let mut list = EntryList::default();
        list.push(|w| {
            w.put("op", "c").put("ns", &format!("{db}.$cmd"));
            if let Some(id) = id {
                w.put("ui", uuid(id));
            }
            w.put("o", &self.o);
            if let Some(o2) = &self.o2 {
                w.put("o2", o2);
            }
        });
        list
    }

    /// An index was built.
    pub(crate) fn index(coll: &Collection, spec: Doc<'_>) -> Note {
        if coll.count() == 0 {
            return Note::new(|w| _ = w.put("createIndexes", coll.ns.coll()).put_all(spec));
        }
        Note::new(|w| {
            w.put("commitIndexBuild", coll.ns.coll());
            w.array("indexes").push(spec);
        })
    }
}

impl Shared {
    /// Adds the entry of a command on a namespace to a batch; the command is on the whole database
    /// when the collection's name is empty. `None` where nothing is logged.
    pub(crate) fn log_command(
        &self,
        batch: &mut WriteBatch,
        db: &str,
        coll: &str,
        id: Option<&[u8; 16]>,
        note: &Note,
    ) -> Option<LogRows<'_>> {
        let log = self.log.as_deref().filter(|_| db != "local")?;
        let list = note.entry(db, id);
        let coll = Some(coll).filter(|name| !name.is_empty());
        let concerned = smallvec::smallvec![NamespaceHash::hash(db, coll)];
        let mut rows = LogRows::new(log, concerned);
        rows.documents(batch, &list);
        Some(rows)
    }
}
