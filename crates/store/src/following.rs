//! The store of a process that reads the data of another one (`crate::follow`), or of one that
//! writes it beside others (ADR 0110). Promises: the former writes nothing; a write of the latter
//! commits only if the collection is still as the writer has found it. Must not know: how moments
//! are asked for.

use crate::catalog::{Collection, Shared};
use crate::follow::{FollowerState, is_kept};
use crate::format::meta;
use crate::handles::Handles;
use crate::hooks::Hooks;
use crate::store::{Store, check_layout};
use crate::view::ReadView;
use model::{Namespace, Result, bail, code};
use std::sync::Arc;
use storage::{Engine, Moment};

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
            handles: Handles::default(),
            shared,
        })
    }

    /// Opens a store over an engine to which this process and others write, each with a store like
    /// this one, at one of its moments. Its collections are those of the newest moment. A write to
    /// one that another process has changed since, and each change of the catalog, ends with 175
    /// QueryPlanKilled or [`model::ErrorKind::SetAside`]: the operation takes the view of a new
    /// moment, finds the collection again and goes on.
    ///
    /// # Errors
    /// 115 when changes are to be logged; 12 UnsupportedFormat when the data has a newer layout;
    /// engine failures.
    pub fn join(engine: Arc<dyn Engine>, hooks: Arc<dyn Hooks>, moment: &Moment) -> Result<Store> {
        if hooks.log().is_some() {
            bail!(
                code::COMMAND_NOT_SUPPORTED,
                "a log of changes is for engines that one server writes to"
            );
        }
        check_layout(engine.as_ref())?;
        engine.announce(is_kept);
        engine.expect_counters(meta::is_counter);
        let mut shared = Shared::open_without_log(engine, hooks)?;
        shared.has_joined = true;
        let shared = Arc::new(shared);
        Ok(Store {
            following: Some(FollowerState::begin(&shared, moment)),
            handles: Handles::default(),
            shared,
        })
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
