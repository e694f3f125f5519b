//! The store of a process that reads what another one writes (`crate::follow`). Promises: nothing
//! is written. Must not know: how moments are asked for.

use crate::catalog::{Collection, Shared};
use crate::follow::Following;
use crate::handles::Handles;
use crate::hooks::Hooks;
use crate::store::Store;
use crate::view::ReadView;
use model::{Namespace, Result};
use std::sync::Arc;
use storage::{Engine, Moment};

impl Store {
    /// Opens over an engine that another process writes to, at a moment of it.
    ///
    /// # Errors
    /// Engine failures.
    pub fn follow(
        engine: Arc<dyn Engine>,
        hooks: Arc<dyn Hooks>,
        moment: &Moment,
    ) -> Result<Store> {
        let shared = Arc::new(Shared::beside_log(engine, hooks)?);
        Ok(Store {
            following: Some(Following::begin(&shared, moment)),
            handles: Handles::default(),
            shared,
        })
    }

    /// The view of a moment. Before it is the newest, `renew` brings what layers above keep of rows
    /// to the state of the moment: the store's latest state is at least that one then. It is called
    /// when something was announced since the newest moment.
    ///
    /// # Errors
    /// Those of `renew`; the next call calls it again.
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

    /// The collection of that name at the newest moment; `None` where no other process writes.
    pub(crate) fn followed(&self, ns: &Namespace) -> Option<Result<Option<Arc<Collection>>>> {
        let newest = self.following.as_ref()?.newest();
        Some(self.collection_in(&newest, ns))
    }
}
