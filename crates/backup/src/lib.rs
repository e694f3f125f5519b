//! A repository of backups: pieces of files by content, one manifest per backup,
//! retention, restoring (docs/adr/0071-backup.md); and the log of changes between them
//! (docs/adr/0072-point-in-time.md).
//!
//! Promises: a backup is there whole or not at all; an end at any moment can be gone on from; what
//! is restored is what was stored, or it is refused with the file's name.
//! Must not know: engines, servers, documents. A source is a directory that nobody writes to.

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
mod reading;
mod repository;
mod restore;
mod shelf;
mod shipped;
mod verify;

pub use back_up::{Source, Stored, back_up};
pub use digest::Digest;
pub use error::{BackupError, Result};
pub use manifest::{FileEntry, FileIdentity, Manifest, Optime, Piece};
pub use manners::give_way;
pub use moment::Moment;
pub use pace::Pace;
pub use prune::{Pruned, Retention, prune};
pub use repository::{FORMAT, Location, Repository};
pub use restore::{Restored, link, restore};
pub use shelf::{Item, Moved, Shelf, digest_of};
pub use shipped::{Place, Segment, next_segment, reach};
pub use verify::{Verified, verify};

/// What a long call tells while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// So many bytes of a file were read or written.
    Moved(u64),
    /// A piece was put into the repository.
    Piece,
    /// A file is done.
    File(&'a str),
    /// All files are done, the manifest is written next.
    Manifest,
    /// Something that no backup needs any more was removed.
    Removed,
}

/// Called at each step; its error ends the backup, check or restore that calls it.
pub type Watch<'w> = dyn FnMut(Step<'_>) -> Result<()> + 'w;
