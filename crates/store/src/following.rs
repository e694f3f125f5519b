//! The store of a process that reads the data of another one (`crate::follow`). Promises: nothing
//! is written. Must not know: how moments are asked for.

use crate::catalog::{Collection, Shared};
use crate::follow::FollowerState;
use crate::handles::Handles;
use crate::hooks::Hooks;
use crate::store::Store;
use crate::view::ReadView;
use model::{Namespace, Result};
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

    /// Whether another process writes the data.
    pub fn follows(&self) -> bool {
        self.following.is_some()
    }

    /// The collection of that name at the newest moment; `None` when this store does not follow.
    pub(crate) fn newest_collection(
        &self,
        ns: &Namespace,
    ) -> Option<Result<Option<Arc<Collection>>>> {
        let newest = self.following.as_ref()?.newest();
        Some(self.collection_in(&newest, ns))
    }
}
