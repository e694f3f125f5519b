//! The store of a process that reads the data of another one (`crate::follow`), or of one that
//! writes it beside others (ADR 0110). Promises: the former writes nothing; a write of the latter
//! commits only if the collection is still as the writer has found it. Must not know: how moments
//! are asked for.

use crate::catalog::{Collection, Shared};
use crate::error;
use crate::follow::{FollowerState, is_kept};
use crate::format::meta;
use crate::handles::Handles;
use crate::hooks::Hooks;
use crate::log::{Audience, Log, LogKeeper, end_time, position_of};
use crate::peers::Peer;
use crate::store::{JoinedData, Store, check_layout};
use crate::view::ReadView;
use crate::write::transaction::Transaction;
use model::{Namespace, Result, Timestamp, bail, code};
use operation::Operation;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use storage::{Engine, Follower, Moment, StorageError};

impl Store {
    /// Opens a store over an engine to which another process writes, at one of its moments.
    ///
    /// # Errors
    /// Engine failures.
    pub fn follow(
        engine: Arc<dyn Engine>,
        hooks: Arc<dyn Hooks>,
        moment: &Moment,
    ) -> Result<Store> {
        let shared = Arc::new(Shared::open_without_log(engine, hooks)?);
        Ok(Store {
            following: Some(FollowerState::begin(&shared, moment)),
            joined: None,
            handles: Handles::default(),
            shared,
        })
    }

    /// Opens a store over an engine to which this process and others write, each with a store like
    /// this one. Its collections are those of the newest view that [`Store::begin_moment`] has
    /// returned. A write to one that another process has changed since ends with 175
    /// QueryPlanKilled or [`model::ErrorKind::SetAside`], and so may a change of the catalog: the
    /// operation takes the view of a new moment, finds the collection again and goes on.
    ///
    /// Changes are logged together with those of the others (ADR 0114): see
    /// [`Store::keep_log`].
    ///
    /// # Errors
    /// 115 when changes are to be logged only for consumers, or when the others log theirs and this
    /// store would not; 20 IllegalOperation when an earlier log has times that the cluster has not
    /// reached; 12 UnsupportedFormat when the data has a newer layout; engine failures.
    pub fn join(follower: Arc<dyn Follower>, hooks: Arc<dyn Hooks>) -> Result<Store> {
        let settings = hooks.log();
        if settings
            .as_ref()
            .is_some_and(|log| log.audience == Audience::Consumers)
        {
            bail!(
                code::COMMAND_NOT_SUPPORTED,
                "a log of changes for search is for engines that one server writes to"
            );
        }
        let engine = Arc::clone(&follower) as Arc<dyn Engine>;
        check_layout(engine.as_ref())?;
        engine.announce(is_kept);
        engine.expect_counters(meta::is_counter);
        let mut shared = Shared::open_without_log(engine, hooks)?;
        shared.has_joined = true;
        let peer = Peer::new();
        shared.peer = peer.0;
        match settings {
            Some(settings) => {
                let log = Log::join(&follower, &mut || shared.new_ident(), &settings)?;
                shared.log = Some(Arc::new(log));
                shared.feed.clone_from(&shared.log);
            }
            None if Log::has_members(shared.engine.as_ref())? => bail!(
                code::COMMAND_NOT_SUPPORTED,
                "the servers of this database log their changes, so this one must, too"
            ),
            None => Log::abandon(shared.engine.as_ref())?,
        }
        let shared = Arc::new(shared);
        let moment = follower.moment().map_err(error::storage)?;
        let store = Store {
            following: Some(FollowerState::begin(&shared, &moment)),
            joined: Some(JoinedData {
                follower,
                peer,
                renewal: OnceLock::new(),
            }),
            handles: Handles::default(),
            shared,
        };
        store.show_log()?;
        Ok(store)
    }

    /// Starts the thread that publishes the logged changes of a store that has joined others, so
    /// that readers see them, and that looks for changes while readers wait; it ends when the
    /// output is dropped. `None` where it is not needed.
    pub fn keep_log(&self) -> Option<LogKeeper> {
        LogKeeper::start(self.shared.log.as_ref()?)
    }

    /// Publishes the logged changes of this process now.
    ///
    /// # Errors
    /// Engine failures.
    pub fn publish_log(&self) -> Result<()> {
        let log = self.shared.log.as_ref();
        log.map_or(Ok(()), |log| log.publish_all())
    }

    /// Publishes what any process has logged and not published for this long, because it has died.
    /// Whether there was anything.
    ///
    /// # Errors
    /// Engine failures.
    pub fn publish_left_log(&self, for_at_least: Duration) -> Result<bool> {
        let log = self.shared.log.as_ref();
        log.map_or(Ok(false), |log| log.publish_left(for_at_least))
    }

    /// Sets what brings the caches of the layers above to the state of the newest moment, see
    /// [`Store::view_of`]. The first call counts; it has no effect on a store that has not joined
    /// others.
    pub fn on_new_generation(&self, renewal: Box<dyn Fn() -> Result<()> + Send + Sync>) {
        if let Some(joined) = &self.joined {
            let _ = joined.renewal.set(renewal);
        }
    }

    /// The view of the data now, with every commit that any process has acknowledged; `None` for a
    /// store that has not joined others.
    ///
    /// # Errors
    /// As [`Store::view_of`]; engine failures.
    pub fn begin_moment(&self) -> Result<Option<ReadView>> {
        let Some(joined) = &self.joined else {
            return Ok(None);
        };
        let moment = joined.follower.moment().map_err(error::storage)?;
        let renew = &mut || joined.renewal.get().map_or(Ok(()), |renewal| renewal());
        self.view_of(&moment, renew).map(Some)
    }

    /// As [`Store::begin_moment`], for an operation that can be run again: the first read of the
    /// view may fail with [`model::ErrorKind::Outdated`], and so may [`Store::end_moment`], which
    /// has to be called at the end of the operation. Then nothing was read, and nothing was written
    /// by an operation that was told of the view ([`Operation::expect`],
    /// [`Operation::set_moment`]).
    ///
    /// # Cost
    /// It spares the request for the announcements, which goes with the first read.
    ///
    /// # Errors
    /// As [`Store::begin_moment`].
    pub fn expect_moment(&self) -> Result<Option<ReadView>> {
        if let (Some(following), Some(joined)) = (&self.following, &self.joined)
            && let Some(view) = following.expect_view(&self.shared, joined.follower.as_ref())?
        {
            return Ok(Some(view));
        }
        self.begin_moment()
    }

    /// Checks the view of an operation, see [`Store::expect_moment`], and what its first unit has
    /// found.
    ///
    /// # Cost
    /// None after the view was read.
    ///
    /// # Errors
    /// [`model::ErrorKind::Outdated`] when it does not belong to the generation that was expected;
    /// engine failures.
    pub fn end_moment(&self, view: &ReadView, operation: &Operation) -> Result<()> {
        if operation.is_outdated() {
            return Err(error::storage(StorageError::Outdated));
        }
        view.check()?;
        if let Some(following) = &self.following {
            following.keep(view);
        }
        Ok(())
    }

    /// Checks the collections to which a transaction writes, after a statement of it has run that
    /// did not know of the last announcements. `writes`: so does the statement.
    ///
    /// # Errors
    /// 112 WriteConflict when one of them has changed; why the operation may not write to one;
    /// engine failures.
    pub fn check_collections(
        &self,
        transaction: &Transaction,
        operation: &Operation,
        writes: bool,
    ) -> Result<()> {
        transaction.check_collections(operation, writes, &|ns| self.collection(ns))
    }

    /// The view of a moment. `renew` is called when something was announced since the newest
    /// moment: it brings the caches of the layers above to the state of this moment, before the
    /// moment becomes the newest. Afterwards the store's latest state is this one or a later one.
    ///
    /// # Errors
    /// Those of `renew`; the next call runs it again.
    pub fn view_of(
        &self,
        moment: &Moment,
        renew: &mut dyn FnMut() -> Result<()>,
    ) -> Result<ReadView> {
        match &self.following {
            Some(following) => following.view_of(&self.shared, moment, renew),
            None => self.snapshot(),
        }
    }

    /// The time of a view of this store, for [`Store::view_at`] of any store that has joined the
    /// same others; `None` for a store that has joined none.
    pub fn time_of(&self, view: &ReadView) -> Option<Timestamp> {
        let pos = view.pos().filter(|_| self.joined.is_some())?;
        Some(Timestamp::from_u64(end_time(pos)))
    }

    /// The view at an earlier time, whichever process has told it. `None` for a store that has
    /// joined no others, and where the engine keeps only states that are in use.
    ///
    /// # Errors
    /// 246 SnapshotUnavailable for a time to come, 239 SnapshotTooOld when the state is not kept
    /// any more; engine failures.
    pub fn view_at(&self, at: Timestamp) -> Result<Option<ReadView>> {
        let Some(joined) = &self.joined else {
            return Ok(None);
        };
        let pos = position_of(at.as_u64());
        let now = joined.follower.moment().map_err(error::storage)?;
        if pos > now.snapshot.pos() {
            bail!(
                code::SNAPSHOT_UNAVAILABLE,
                "atClusterTime {at} is later than the current state"
            );
        }
        let moment = match joined.follower.moment_at(pos) {
            Err(StorageError::Unsupported(_)) => return Ok(None),
            moment => moment.map_err(error::storage)?,
        };
        let renew = &mut || joined.renewal.get().map_or(Ok(()), |renewal| renewal());
        self.view_of(&moment, renew).map(Some)
    }

    /// The collections that readers use and for which `is_meant` is true: the open ones, or where
    /// another process writes those of the newest moment. `is_meant` must not call the store.
    pub fn collections_in_use(
        &self,
        is_meant: &dyn Fn(&Collection) -> bool,
    ) -> Vec<Arc<Collection>> {
        match &self.following {
            Some(following) => following.list(is_meant),
            None => self.open_collections(is_meant),
        }
    }

    /// The collection as it is now. Beside other processes a handle is outdated after a change of
    /// the catalog, also by its own user.
    ///
    /// # Errors
    /// 175 QueryPlanKilled when it was dropped or renamed; engine failures.
    pub fn renew(&self, coll: &Arc<Collection>) -> Result<Arc<Collection>> {
        if self.begin_moment()?.is_none() {
            return Ok(Arc::clone(coll));
        }
        let now = self.collection(coll.ns())?;
        now.filter(|now| now.ident == coll.ident)
            .ok_or_else(|| coll.gone_error())
    }

    /// Whether this process writes the data beside others.
    pub fn is_beside_others(&self) -> bool {
        self.joined.is_some()
    }

    /// Whether only another process writes the data.
    pub fn follows(&self) -> bool {
        self.following.is_some() && !self.shared.has_joined
    }

    /// The collection of that name at the newest moment; `None` when no other process writes.
    pub(crate) fn newest_collection(
        &self,
        ns: &Namespace,
    ) -> Option<Result<Option<Arc<Collection>>>> {
        let newest = self.following.as_ref()?.newest();
        Some(self.collection_in(&newest, ns))
    }
}
