//! An engine that only reads what another process writes. Must not know: what the rows mean.

use crate::{Engine, Result, Snapshot};
use std::sync::Arc;

/// A state of the data, and how its writer's announcements stand in it.
#[derive(Clone)]
pub struct Moment {
    /// The state.
    pub snapshot: Arc<dyn Snapshot>,
    /// Differs between two states whenever something was announced in between, see
    /// [`Engine::announce`]; equal bytes mean that nothing was.
    pub announced: Vec<u8>,
}

/// Reads what another process writes; what [`Engine`] calls the latest state is that of the newest
/// moment that was asked for, and every change is refused.
pub trait Follower: Engine {
    /// A state that has every commit which was acknowledged, by whichever process, before the call.
    ///
    /// # Errors
    /// [`crate::StorageError::Unsupported`] while the writer announces nothing;
    /// [`crate::StorageError::Busy`] while a commit is visible in parts.
    fn moment(&self) -> Result<Moment>;
}
