//! Creating, dropping and renaming collections and views; options. Must not know: the meaning of
//! options, except for `viewOn` and `capped`.

use crate::catalog::capped::Limits;
use crate::catalog::collection::keeps_images;
use crate::catalog::dropped;
use crate::catalog::{CatalogRow, Collection, Kind, Shared, State};
use crate::commit::WriteUnit;
use crate::ddl::indexes::has_same_name;
use crate::ddl::logged::Note;
use crate::ddl::writer::CatalogWriter;
use crate::error;
use crate::format::meta;
use crate::gate::ClosingGuard;
use crate::log::NamespaceHash;
use crate::write::insert::mark_unordered;
use crate::write::writer::Writer;
use model::bucket::SeriesOptions;
use model::{Doc, DocBuf, MongoError, Namespace, Result, code};
use std::sync::Arc;
use storage::{CommitPos, Reader, Table, Unit, WriteBatch};

/// An index build or another long operation runs on the collection.
const BACKGROUND_OPERATION_IN_PROGRESS: i32 = 12587;

impl CatalogWriter<'_> {
    /// Creates a collection (or, with `viewOn` in the options, a view).
    ///
    /// # Errors
    /// 48 NamespaceExists; engine failures.
    pub fn create_collection(
        &self,
        ns: &Namespace,
        options: DocBuf,
        uuid: [u8; 16],
    ) -> Result<Arc<Collection>> {
        let locked = self.lock_names([ns]);
        if self.open_locked(&locked, ns)?.is_some() {
            return Err(exists(ns));
        }
        let (c, row) = self.new_collection(ns, options, uuid)?;
        let beside_others = self.begin_creation(ns)?;
        let mut batch = WriteBatch::new();
        Shared::put_row(&mut batch, ns, &row);
        if beside_others.is_some() && !c.is_view() {
            mark_unordered(&mut batch, c.ident);
        }
        let created = &mut |pos: CommitPos| {
            c.set_unchanged_since(pos);
            if !self.shared.has_joined {
                self.keep(c.clone());
            }
        };
        let note = Note::create(ns, row.options.doc());
        let mut rows = self
            .shared
            .log_command(&mut batch, ns.db(), ns.coll(), Some(&uuid), &note);
        let unit = WriteUnit::with_stamp(&mut batch, &mut rows).commit_through(beside_others);
        self.commit(unit.add_hook(created))
            .map_err(|e| self.shared.restart_after_conflict(self.operation, ns, e))?;
        drop(locked);
        match self.begin_moment()? {
            None => Ok(c),
            // The one that belongs to the newest generation.
            Some(_) => self
                .collection(ns)?
                .ok_or_else(|| Shared::restart_error(self.operation, ns)),
        }
    }

    /// Begins the unit that creates a collection beside other processes. `None` where one process
    /// writes.
    ///
    /// # Errors
    /// 48 NamespaceExists; engine failures.
    fn begin_creation(&self, ns: &Namespace) -> Result<Option<Unit<'_>>> {
        let unit = self.shared.begin_exclusive(self.operation)?;
        if let Some(unit) = &unit {
            let key = meta::catalog(ns.db(), ns.coll());
            let found = unit.get_with(Table::Meta, &key, &mut |_| {});
            if found.map_err(error::storage)? {
                return Err(exists(ns));
            }
        }
        Ok(unit)
    }

    /// A collection that is not in the catalog yet, and its row.
    pub(super) fn new_collection(
        &self,
        ns: &Namespace,
        options: DocBuf,
        uuid: [u8; 16],
    ) -> Result<(Arc<Collection>, CatalogRow)> {
        self.check_write(ns)?;
        let (kind, ident) = match options.doc().contains("viewOn") {
            true => (Kind::View, 0),
            false => (
                Kind::Collection,
                self.shared.new_collection_ident(options.doc())?,
            ),
        };
        let row = CatalogRow {
            kind,
            ident,
            uuid,
            options,
            indexes: Vec::new(),
            search: Vec::new(),
        };
        let engine = self.shared.engine.as_ref();
        let c = Collection::open(self.shared.clone(), ns.clone(), &row, engine)?;
        c.live.set_referenced(0);
        Ok((Arc::new(c), row))
    }

    /// Builds an index of a collection that no client uses yet, unless one of that name exists.
    ///
    /// # Errors
    /// As [`Writer::create_index`].
    pub fn create_first_index(&self, coll: &Arc<Collection>, spec: &DocBuf) -> Result<()> {
        let same = |old: Doc<'_>| Ok(has_same_name(old, spec.doc()));
        let (mut coll, mut build) = (Arc::clone(coll), None);
        loop {
            let writer = coll.writer(self.operation);
            let spec = spec.clone();
            let go_on = &|| Ok(());
            match writer.create_index_with_progress(spec, &same, &mut build, &|| {}, go_on) {
                Err(e) if self.joined.is_some() && e.is_collection_gone() => {}
                built => return built.map(|_| ()),
            }
            coll = self.renew(&coll)?;
        }
    }

    /// Drops a collection or view. Index builds on it end with 276 IndexBuildAborted.
    ///
    /// # Output
    /// The number of its indexes with `_id_`, or `None` when it does not exist.
    ///
    /// # Errors
    /// The reason when the operation is interrupted while it waits for writers; engine failures.
    pub fn drop_collection(&self, ns: &Namespace) -> Result<Option<usize>> {
        loop {
            let Some(c) = self.collection(ns)? else {
                return Ok(None);
            };
            self.check_write(ns)?;
            // Writers inside finish first, later ones get an error that it is gone. Nothing else is
            // locked during the wait, so that only users of this collection wait.
            let closed = c.close(self.operation)?;
            if let Some(indexes) = self.drop_alone(ns, &c, closed)? {
                return Ok(Some(indexes));
            }
        }
    }

    /// Drops a collection whose gate the caller has closed; `None` when the name leads to another
    /// one by now.
    fn drop_alone(
        &self,
        ns: &Namespace,
        c: &Arc<Collection>,
        closed: ClosingGuard,
    ) -> Result<Option<usize>> {
        let locked = self.lock_names([ns]);
        let now = self.open_locked(&locked, ns)?;
        if !now.is_some_and(|now| Arc::ptr_eq(&now, c)) {
            return Ok(None);
        }
        let writer = c.writer(self.operation);
        let beside_others = writer.begin_exclusive()?;
        let state = State::clone(&c.state());
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, &meta::catalog(ns.db(), ns.coll()));
        let leftovers = c.leftovers(&state, &mut batch);
        dropped::record(&mut batch, &leftovers);
        let gone = &mut |_: CommitPos| self.forget(c, &state, false);
        let note = Note::new(|w| _ = w.put("drop", ns.coll()));
        let note = note.with_fields(|w| _ = w.put("numRecords", c.count() as i64));
        let mut rows =
            self.shared
                .log_command(&mut batch, ns.db(), ns.coll(), Some(&c.uuid), &note);
        let unit = WriteUnit::with_stamp(&mut batch, &mut rows).commit_through(beside_others);
        let pos = self
            .commit(unit.add_hook(gone))
            .map_err(|e| self.shared.restart_after_conflict(self.operation, ns, e))?;
        drop(closed);
        self.shared.remove_leftovers(leftovers, pos);
        let by_id = !c.is_view() && !c.is_series();
        Ok(Some(state.indexes.len() + usize::from(by_id)))
    }

    /// Renames; with `drop_target` an existing target is dropped in the same commit.
    ///
    /// # Errors
    /// 20 IllegalOperation when both names are the same, 26 NamespaceNotFound, 48 NamespaceExists,
    /// 12587 while an index is built on one of the two; the reason when the operation is
    /// interrupted while it waits for writers; engine failures.
    pub fn rename_collection(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Result<()> {
        let (c, target) = self.find_to_rename(from, to, drop_target)?;
        // As for a drop, nothing else is locked while writers are waited for. Gates are closed in
        // the order of names, so that two renames of the same pair cannot wait for each other.
        let mut both: Vec<&Collection> = [Some(&c), target.as_ref()]
            .into_iter()
            .flatten()
            .map(Arc::as_ref)
            .collect();
        both.sort_by_cached_key(|c| c.ns().to_string());
        let closed = both
            .iter()
            .map(|c| c.close(self.operation))
            .collect::<Result<Vec<ClosingGuard>>>()?;
        let locked = self.lock_names([from, to]);
        let same = |ns: &Namespace, seen: Option<&Arc<Collection>>| -> Result<bool> {
            let now = self.open_locked(&locked, ns)?;
            Ok(now.as_ref().map(Arc::as_ptr) == seen.map(Arc::as_ptr))
        };
        if !same(from, Some(&c))? || !same(to, target.as_ref())? {
            drop((locked, closed));
            return self.rename_collection(from, to, drop_target);
        }
        let writer = c.writer(self.operation);
        // The target was looked up later than the source, so it is current when the source is.
        let beside_others = writer.begin_exclusive()?;
        let state = State::clone(&c.state());
        let target = target.as_ref().map(|t| (State::clone(&t.state()), t));
        check_not_building(&c, &state)?;
        target
            .as_ref()
            .map_or(Ok(()), |(s, t)| check_not_building(t, s))?;
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, &meta::catalog(from.db(), from.coll()));
        let leftovers = target
            .as_ref()
            .map_or_else(Vec::new, |(s, t)| t.leftovers(s, &mut batch));
        dropped::record(&mut batch, &leftovers);
        Shared::put_row(&mut batch, to, &c.row(&state, None));
        let renamed = &mut |_: CommitPos| {
            if let Some((s, t)) = &target {
                self.forget(t, s, false);
            }
            self.forget(&c, &state, true);
        };
        let note = Note::rename(from, to, target.as_ref().map(|(_, t)| t.uuid));
        let mut rows = self
            .shared
            .log_command(&mut batch, from.db(), from.coll(), Some(&c.uuid), &note)
            .map(|rows| rows.add_namespace(NamespaceHash::hash(to.db(), Some(to.coll()))));
        let unit = WriteUnit::with_stamp(&mut batch, &mut rows).commit_through(beside_others);
        let pos = self
            .commit(unit.add_hook(renamed))
            .map_err(|e| self.shared.restart_after_conflict(self.operation, from, e))?;
        drop(closed);
        self.shared.remove_leftovers(leftovers, pos);
        Ok(())
    }

    /// The collection to rename, and the one that it replaces.
    fn find_to_rename(
        &self,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Result<(Arc<Collection>, Option<Arc<Collection>>)> {
        if from == to {
            return Err(MongoError::new(
                code::ILLEGAL_OPERATION,
                format!("Can't rename a collection to itself: {from}"),
            ));
        }
        let Some(c) = self.collection(from)? else {
            return Err(MongoError::new(
                code::NAMESPACE_NOT_FOUND,
                format!("Source collection {from} does not exist"),
            ));
        };
        let target = self.collection(to)?;
        if target.is_some() && !drop_target {
            return Err(MongoError::new(
                code::NAMESPACE_EXISTS,
                "target namespace exists",
            ));
        }
        self.check_write(from)?;
        self.check_write(to)?;
        Ok((c, target))
    }

    /// Drops all collections of a database; returns the number dropped.
    ///
    /// # Errors
    /// Engine failures.
    pub fn drop_database(&self, db: &str) -> Result<usize> {
        let entries = self.list_collections(db)?;
        for e in &entries {
            self.drop_collection(&Namespace::new(db, &e.name)?)?;
        }
        if !entries.is_empty() {
            self.note_database_dropped(db)?;
        }
        Ok(entries.len())
    }

    /// Logs that a database was dropped, after its collections.
    ///
    /// # Errors
    /// Engine failures.
    pub fn note_database_dropped(&self, db: &str) -> Result<()> {
        let mut batch = WriteBatch::new();
        let note = Note::new(|w| _ = w.put("dropDatabase", 1i32));
        let mut rows = self.shared.log_command(&mut batch, db, "", None, &note);
        let unit = WriteUnit::with_stamp(&mut batch, &mut rows);
        self.commit(unit).map(|_| ())
    }
}

/// The error 48 NamespaceExists.
pub(super) fn exists(ns: &Namespace) -> MongoError {
    MongoError::new(
        code::NAMESPACE_EXISTS,
        format!("Collection {ns} already exists."),
    )
}

/// Refuses a rename while an index is built.
fn check_not_building(c: &Collection, state: &State) -> Result<()> {
    if state.indexes.iter().all(|i| i.is_ready()) {
        return Ok(());
    }
    Err(MongoError::new(
        BACKGROUND_OPERATION_IN_PROGRESS,
        format!(
            "cannot rename: an index build is currently running for collection {}",
            c.ns()
        ),
    ))
}

impl Writer<'_> {
    /// Replaces the options (collMod); `command` is what the log records.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; engine failures.
    pub fn set_options(&self, options: DocBuf, command: Option<DocBuf>) -> Result<()> {
        self.check_write()?;
        let old = self.options();
        let note = command.map(|o| {
            let note = Note { o, o2: None };
            note.with_fields(|w| _ = w.put("collectionOptions_old", &*old))
        });
        self.alter(None, note.as_ref(), |state, _| {
            let capped = Limits::of(options.doc());
            if capped.is_some() && state.capped.is_none() && !self.shared.has_joined {
                self.write_order()?;
            }
            state.images = keeps_images(options.doc());
            state.series = SeriesOptions::of(options.doc()).map(Arc::new);
            state.options = Arc::new(options);
            state.capped = capped;
            Ok(())
        })
    }

    /// Changes the definitions of search indexes.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when the collection is gone; those of `change`; engine failures. Nothing
    /// has changed then.
    pub fn alter_search_indexes<T>(
        &self,
        change: impl FnOnce(&mut Vec<DocBuf>) -> Result<T>,
    ) -> Result<T> {
        self.check_write()?;
        self.alter(None, None, |state, _| {
            let mut list = state.search.as_ref().clone();
            let made = change(&mut list)?;
            state.search = Arc::new(list);
            Ok(made)
        })
    }
}
