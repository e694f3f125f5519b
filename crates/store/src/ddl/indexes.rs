//! Creating, dropping and changing indexes. A build runs while the collection is in use: the index
//! is registered first, so that writers maintain it; then it gets the entries of the documents that
//! existed before; then readers may use it. Must not know: which specifications are allowed.

use crate::catalog::dropped::Leftover;
use crate::catalog::{Collection, Shared, State};
use crate::ddl::filling::{BuildProgress, INDEX_BUILD_ABORTED};
use crate::ddl::logged::Note;
use crate::index::Index;
use crate::peers::Peer;
use crate::write::writer::Writer;
use model::{Doc, DocBuf, ErrorKind, MongoError, Namespace, Result, code};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a command that waits for another build of the same index checks it.
const BUILD_POLL: Duration = Duration::from_millis(10);

/// Whether an existing index makes a new one unnecessary, because it is the same index with another
/// specification.
///
/// # Errors
/// A reason to refuse the new one.
pub type IndexEquality<'s> = dyn Fn(Doc<'_>) -> Result<bool> + 's;

/// Whether two specifications have the same name.
pub(super) fn has_same_name(one: Doc<'_>, other: Doc<'_>) -> bool {
    one.field("name").as_str() == other.field("name").as_str()
}

/// An index that was registered and is being built, kept while the operation that builds it is set
/// aside. Dropping it abandons the build: `Store::sweep_abandoned` removes the index.
pub struct IndexBuild {
    shared: Arc<Shared>,
    ns: Namespace,
    index: Arc<Index>,
    /// The index that it replaces, and what the log records of that.
    replaces: Option<(Arc<Index>, Option<Note>)>,
    filling: BuildProgress,
    /// Why the build failed; its index has to be removed.
    failed: Option<MongoError>,
    /// Beside other processes: the operation has found the collection again after it had
    /// registered the index.
    is_registered: bool,
    ended: bool,
    _new: NewIndex,
}

/// An index that is about to be built: as long as this lives, no sweep takes the index for one that
/// nobody builds any more.
struct NewIndex {
    shared: Arc<Shared>,
    index: Arc<Index>,
}

impl Drop for NewIndex {
    fn drop(&mut self) {
        self.shared.building.lock().remove(&self.index.ident());
    }
}

impl IndexBuild {
    fn new(coll: &Collection, new: NewIndex) -> IndexBuild {
        let index = Arc::clone(&new.index);
        // A column index is complete without segments.
        let filling = match index.is_columns() {
            true => BuildProgress::empty(),
            false => BuildProgress::new(coll),
        };
        IndexBuild {
            shared: Arc::clone(&coll.shared),
            ns: coll.ns.clone(),
            index,
            replaces: None,
            filling,
            failed: None,
            is_registered: false,
            ended: false,
            _new: new,
        }
    }

    fn is_of(&self, index: &Index) -> bool {
        self.index.ident() == index.ident()
    }
}

impl Drop for IndexBuild {
    fn drop(&mut self) {
        if !self.ended {
            self.index.abandon();
            self.shared.record_abandoned_build(&self.ns);
        }
    }
}

impl Writer<'_> {
    /// Builds an index from a complete specification, unless one of that name exists.
    ///
    /// # Errors
    /// As [`Writer::create_index_unless`].
    pub fn create_index(&self, spec: DocBuf) -> Result<()> {
        let wanted = spec.clone();
        let same = |old: Doc<'_>| Ok(has_same_name(old, wanted.doc()));
        self.create_index_unless(spec, &same, &|| Ok(()))
            .map(|_| ())
    }

    /// Builds an index, unless one that `same` recognises exists; waits for one that is being
    /// built. `go_on` is called every few documents.
    ///
    /// # Output
    /// False when it was there already.
    ///
    /// # Errors
    /// 11000 DuplicateKey when documents share a unique key, 171 parallel arrays, 67
    /// CannotCreateIndex for a key that cannot be indexed, 276 when the index or the collection is
    /// dropped meanwhile; those of `same` and `go_on`. Nothing of the index remains then.
    pub fn create_index_unless(
        &self,
        spec: DocBuf,
        same: &IndexEquality<'_>,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        self.create_index_with_progress(spec, same, &mut None, &|| {}, go_on)
    }

    /// As [`Writer::create_index_unless`], for an operation that may be set aside: it is called
    /// again with `build`. `on_progress` is called whenever `build` covers everything done so far.
    ///
    /// # Errors
    /// As [`Writer::create_index_unless`]; [`ErrorKind::SetAside`].
    pub fn create_index_with_progress(
        &self,
        spec: DocBuf,
        same: &IndexEquality<'_>,
        build: &mut Option<IndexBuild>,
        on_progress: &dyn Fn(),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        let mut own = match build.take() {
            Some(own) => own,
            None => match self.begin_build(spec, same, on_progress, go_on)? {
                Some(own) => own,
                None => return Ok(false),
            },
        };
        self.go_on_building(&mut own, on_progress, go_on)
            .inspect_err(|e| self.keep_build(own, e, build))
            .map(|()| true)
    }

    /// Keeps a build for the next run of its operation, if there will be one.
    fn keep_build(&self, own: IndexBuild, e: &MongoError, build: &mut Option<IndexBuild>) {
        if self.runs_again(e) {
            *build = Some(own);
        }
    }

    /// Whether the operation will run again after this error.
    fn runs_again(&self, e: &MongoError) -> bool {
        e.is(ErrorKind::SetAside) || (self.shared.has_joined && e.is_collection_gone())
    }

    fn go_on_building(
        &self,
        own: &mut IndexBuild,
        on_progress: &dyn Fn(),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        on_progress();
        if self.shared.has_joined && !self.state().indexes.iter().any(|i| own.is_of(i)) {
            // It was registered, or removed, after this handle was opened.
            if std::mem::replace(&mut own.is_registered, true) {
                own.ended = true;
                return Err(self.aborted_error(&own.index));
            }
            return Err(self.outdated_error(self.operation));
        }
        self.build(own, on_progress, go_on)
    }

    /// Registers a new index; `None` when it exists already.
    fn begin_build(
        &self,
        spec: DocBuf,
        same: &IndexEquality<'_>,
        on_progress: &dyn Fn(),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Option<IndexBuild>> {
        let new = self.new_index(spec)?;
        let index = &new.index;
        loop {
            // The operation has changed nothing so far, so it may be run again.
            on_progress();
            match self.register(index, same)? {
                None => return Ok(Some(IndexBuild::new(self, new))),
                Some(other) if other.is_ready() => return Ok(None),
                // An index whose build failed and could not remove it.
                Some(other) if other.is_abandoned() => self.remove_index(&other, false)?,
                Some(other) => {
                    go_on()?;
                    let built = |waker| other.wake_when_built(waker).filter(|_| !self.is_dropped());
                    Shared::wait_on_thread(self.operation, &built)?;
                    std::thread::sleep(BUILD_POLL);
                    if self.shared.has_joined {
                        // Its builder may be another process.
                        return Err(self.outdated_error(self.operation));
                    }
                }
            }
        }
    }

    fn new_index(&self, spec: DocBuf) -> Result<NewIndex> {
        let ident = self.shared.new_ident()?;
        let hooks = self.shared.hooks.as_ref();
        let index = Index::open(ident, spec, false, 0, hooks)?;
        self.shared.check_engine(&index)?;
        index.watch_changes(self.count());
        let builder = self.shared.has_joined.then_some(self.shared.peer);
        if let Some(builder) = builder {
            // Others remove the indexes of builders that are not alive.
            self.shared.say_alive(Peer(builder))?;
        }
        let index = Arc::new(index.with_builder(builder));
        self.shared.building.lock().insert(ident);
        Ok(NewIndex {
            shared: Arc::clone(&self.shared),
            index,
        })
    }

    /// Builds an index again under another specification while the old one stays in use; they are
    /// exchanged in one commit. `command` is what the log records. For an operation that may be set
    /// aside, as [`Writer::create_index_with_progress`].
    ///
    /// # Errors
    /// As [`Writer::create_index_with_progress`]; 27 IndexNotFound when there is no ready index of
    /// that name. The old index stays then.
    pub fn rebuild_index(
        &self,
        name: &str,
        spec: DocBuf,
        command: Option<DocBuf>,
        build: &mut Option<IndexBuild>,
        on_progress: &dyn Fn(),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let mut own = match build.take() {
            Some(own) => own,
            None => {
                let old = self.ready_index(name)?;
                let new = self.new_index(spec)?;
                // The operation has changed nothing so far, so it may be run again.
                on_progress();
                self.register(&new.index, &|_| Ok(false))?;
                let note = command.map(|o| Note { o, o2: None });
                let mut own = IndexBuild::new(self, new);
                own.replaces = Some((old, note));
                own
            }
        };
        self.go_on_building(&mut own, on_progress, go_on)
            .inspect_err(|e| self.keep_build(own, e, build))
    }

    /// Drops the index called `name`; false when there is none. A build of it ends with 276
    /// IndexBuildAborted.
    ///
    /// # Errors
    /// Engine failures.
    pub fn drop_index(&self, name: &str) -> Result<bool> {
        let named: Vec<_> = self
            .indexes()
            .iter()
            .filter(|i| i.name() == name)
            .cloned()
            .collect();
        if !named.is_empty() {
            self.check_write()?;
        }
        named.iter().try_for_each(|i| self.remove_index(i, true))?;
        Ok(!named.is_empty())
    }

    /// Replaces the specification of an index (collMod: hidden, expireAfterSeconds, ...) by one
    /// with the same entries. `command` is what the log records.
    ///
    /// # Errors
    /// As [`Index::open`]; 27 IndexNotFound when there is no ready index of that name; engine
    /// failures.
    pub fn respecify_index(&self, name: &str, spec: DocBuf, command: Option<DocBuf>) -> Result<()> {
        self.check_write()?;
        let note = command.map(|o| Note { o, o2: None });
        self.alter(None, note.as_ref(), |state, _| {
            let mut list = state.indexes.as_ref().clone();
            let old = list.iter_mut().find(|i| i.name() == name && i.is_ready());
            let old = old.ok_or_else(|| self.no_index(name))?;
            *old = Arc::new(old.with_spec(spec, self.shared.hooks.as_ref())?);
            state.indexes = Arc::new(list);
            Ok(())
        })
    }

    fn ready_index(&self, name: &str) -> Result<Arc<Index>> {
        let found = self
            .indexes()
            .iter()
            .find(|i| i.name() == name && i.is_ready())
            .cloned();
        found.ok_or_else(|| self.no_index(name))
    }

    fn no_index(&self, name: &str) -> MongoError {
        MongoError::new(
            code::INDEX_NOT_FOUND,
            format!("cannot find index {name} for ns {}", self.ns),
        )
    }

    /// Registers an unfinished index; writers maintain it from here on.
    ///
    /// # Output
    /// The index that `same` recognises, when there is one; nothing is registered then.
    fn register(&self, index: &Arc<Index>, same: &IndexEquality<'_>) -> Result<Option<Arc<Index>>> {
        let mut found = None;
        let registered = self.alter(None, None, |state, _| {
            for old in state.indexes.iter() {
                if same(old.spec())? {
                    found = Some(old.clone());
                    // An alteration that fails changes nothing.
                    return Err(MongoError::internal("an index stands in the way"));
                }
            }
            self.check_write()?;
            let mut list = state.indexes.as_ref().clone();
            list.push(index.clone());
            state.indexes = Arc::new(list);
            Ok(())
        });
        match found {
            Some(old) => Ok(Some(old)),
            None => registered.map(|()| None),
        }
    }

    /// Removes an index; `logged` says whether the log records it.
    fn remove_index(&self, index: &Arc<Index>, logged: bool) -> Result<()> {
        let note = (logged && index.is_ready()).then(|| {
            let note = Note::new(|w| {
                w.put("dropIndexes", self.ns.coll())
                    .put("index", index.name());
            });
            note.with_fields(|w| _ = w.put_all(index.spec()))
        });
        self.alter(None, note.as_ref(), |state, leftovers| {
            self.take_out(index, state, leftovers);
            Ok(())
        })
    }

    fn take_out(&self, index: &Arc<Index>, state: &mut State, leftovers: &mut Vec<Leftover>) {
        if state.indexes.iter().any(|i| i.ident() == index.ident()) {
            leftovers.push(self.leftover(index));
        }
        let other = state.indexes.iter().filter(|i| i.ident() != index.ident());
        state.indexes = Arc::new(other.cloned().collect());
    }

    /// Removes indexes whose builds were abandoned, without waiting for writers; false when writers
    /// prevented it.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn remove_abandoned(&self) -> Result<bool> {
        self.remove_unfinished(&|i| match self.shared.has_joined {
            // The handle of the builder belongs to an earlier generation.
            true => self.has_given_up(i, &|_| true),
            false => i.is_abandoned(),
        })
    }

    /// Whether nobody builds an unfinished index any more. `is_alive` tells it of the builder.
    pub(super) fn has_given_up(&self, index: &Index, is_alive: &dyn Fn(u64) -> bool) -> bool {
        !index.is_ready()
            && match index.builder() {
                Some(builder) if builder == self.shared.peer => {
                    !self.shared.building.lock().contains(&index.ident())
                }
                builder => !builder.is_some_and(is_alive),
            }
    }

    /// Removes the indexes for which `is_meant` is true, without waiting for writers; false when
    /// writers prevented it.
    ///
    /// # Errors
    /// Engine failures.
    pub(super) fn remove_unfinished(&self, is_meant: &dyn Fn(&Index) -> bool) -> Result<bool> {
        let indexes = self.indexes();
        for index in indexes.iter().filter(|i| is_meant(i)) {
            let now = Instant::now();
            let closing = self.gate.begin_closing(now);
            let Some(closed) = closing.filter(|c| c.is_alone_by(now)) else {
                return Ok(false);
            };
            if self.is_dropped() {
                return Ok(true);
            }
            self.alter_alone(closed, None, None, |state, leftovers| {
                self.take_out(index, state, leftovers);
                Ok(())
            })?;
        }
        Ok(true)
    }

    /// Fills a registered index and makes it ready; an index whose build fails is removed.
    fn build(
        &self,
        own: &mut IndexBuild,
        on_progress: &dyn Fn(),
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let e = match own.failed.clone() {
            Some(e) => e,
            None => {
                let IndexBuild { index, filling, .. } = own;
                let built = self.fill_index(index, filling, on_progress, go_on);
                match built.and_then(|()| self.make_ready(own)) {
                    Ok(()) => {
                        own.ended = true;
                        return Ok(());
                    }
                    Err(e) if self.runs_again(&e) => return Err(e),
                    Err(e) => e,
                }
            }
        };
        own.failed = Some(e.clone());
        on_progress();
        own.ended = e.code() == INDEX_BUILD_ABORTED || self.is_dropped();
        if !own.ended {
            match self.remove_index(&own.index, false) {
                Err(waits) if self.runs_again(&waits) => return Err(waits),
                removed => own.ended = removed.is_ok() || self.is_dropped(),
            }
        }
        let aborted = self.is_dropped() && e.code() == code::QUERY_PLAN_KILLED;
        Err(if aborted {
            self.aborted_error(&own.index)
        } else {
            e
        })
    }

    /// Makes a filled index ready and removes the one it replaces.
    fn make_ready(&self, build: &IndexBuild) -> Result<()> {
        let index = &build.index;
        let own = Note::index(self, index.spec());
        let (old, note) = match &build.replaces {
            Some((old, note)) => (Some(old), note.as_ref()),
            None => (None, None),
        };
        self.alter(Some(index), note.or(Some(&own)), |state, leftovers| {
            self.check_registered(state, index)?;
            let is_old = |i: &Arc<Index>| old.is_some_and(|o| o.ident() == i.ident());
            if let Some(old) = state.indexes.iter().find(|i| is_old(i)) {
                leftovers.push(self.leftover(old));
                let left = state.indexes.iter().filter(|i| !is_old(i));
                state.indexes = Arc::new(left.cloned().collect());
            }
            Ok(())
        })
    }
}
