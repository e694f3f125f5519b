//! A repository of backups: pieces of files by content, one manifest per backup,
//! retention, restoring (docs/adr/0071-backup.md); and the log of changes between them
//! (docs/adr/0072-point-in-time.md).
//!
//! Promises: a backup is added completely or not at all; every operation can be continued after an
//! interruption at any moment; restored data equals the stored data, or the restore is refused with
//! the file's name. Must not know: engines, servers, documents. A source is a directory to which
//! nobody writes.

mod back_up;
mod digest;
mod error;
mod folder;
mod known;
mod manifest;
mod manners;
mod moment;
mod objects;
mod pace;
mod prune;
mod quiet;
mod reading;
mod repository;
mod restore;
mod shelf;
mod shipped;
mod verify;

pub use back_up::{BackupResult, Source, back_up};
pub use digest::Digest;
pub use error::{BackupError, Result};
pub use manifest::{FileEntry, FileIdentity, Manifest, Optime, Piece};
pub use manners::give_way;
pub use moment::Moment;
pub use pace::Pace;
pub use prune::{PruneResult, Retention, prune};
pub use repository::{FORMAT, Location, Repository};
pub use restore::{RestoreResult, link, restore};
pub use shelf::{Item, ObjectStore, TransferCallback, digest_of};
pub use shipped::{Segment, ShipPosition, next_segment, reach};
pub use verify::{VerifyResult, verify};

/// The progress that a long call reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressEvent<'a> {
    /// This many bytes of a file were read or written.
    Moved(u64),
    /// A piece was added to the repository.
    Piece,
    /// A file is complete.
    File(&'a str),
    /// All files are complete, the manifest is written next.
    Manifest,
    /// Something that no backup needs was removed.
    Removed,
}

/// Called at each step; its error ends the backup, check or restore.
pub type ProgressCallback<'w> = dyn FnMut(ProgressEvent<'_>) -> Result<()> + 'w;
