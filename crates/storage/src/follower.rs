//! An engine that only reads what another process writes. Must not know: what the rows mean.

use crate::{CommitPos, Engine, Result, Snapshot};
use std::sync::Arc;

/// A state of the data, and the announcements of its writer up to there.
#[derive(Clone)]
pub struct Moment {
    /// The state of the data.
    pub snapshot: Arc<dyn Snapshot>,
    /// Two states have different bytes when something was announced between them, see
    /// [`Engine::announce`]; equal bytes mean that nothing was.
    pub announced: Vec<u8>,
}

/// Reads the data that another process writes. The latest state in the sense of [`Engine`] is the
/// newest moment that was asked for; every change is refused.
pub trait Follower: Engine {
    /// A state with every commit that any process had acknowledged before the call.
    ///
    /// # Errors
    /// [`crate::StorageError::Unsupported`] while the writer announces nothing;
    /// [`crate::StorageError::Busy`] while a commit is only partly visible.
    fn moment(&self) -> Result<Moment>;

    /// As [`Follower::moment`], without asking for the announcements: they are expected to be those
    /// of an earlier moment. The first read of the state compares them, and fails with
    /// [`crate::StorageError::Outdated`] when they are others; so does [`Snapshot::check`]. `None`
    /// when they are known to be others, or when the engine always asks.
    ///
    /// # Errors
    /// As [`Follower::moment`].
    fn begin_moment(&self, announced: &[u8]) -> Result<Option<Arc<dyn Snapshot>>> {
        let _ = announced;
        Ok(None)
    }

    /// The state at an earlier position, with the announcements up to there.
    ///
    /// # Errors
    /// [`crate::StorageError::SnapshotTooOld`] when it is not kept any more;
    /// [`crate::StorageError::Unsupported`] for an engine that keeps only states that are in use.
    fn moment_at(&self, pos: CommitPos) -> Result<Moment> {
        let _ = pos;
        Err(crate::StorageError::Unsupported("earlier states"))
    }
}
