//! Documents and indexes over a storage engine.
//!
//! Promises: documents are clustered by `_id` (one read per point lookup); secondary index entries are put blindly; a
//! document, its index entries, the multikey marks and the counters change in one atomic batch; counts are exact after
//! any crash; a collection is opened by one read of its catalog row.
//! Must not know: operators, queries, commands, sockets, which engine is below.
//!
//! Way of a write: `Collection::{insert, modify}` -> `locks` -> `format::{keys, record}` -> `storage::Batch` -> engine.

mod capped;
pub mod catalog;
pub mod collection;
pub mod error;
pub mod format;
pub mod hooks;
pub mod index;
mod index_build;
mod insert;
pub mod locks;
mod modify;
pub mod scan;
mod series;
mod session;
mod store;
mod text;
mod validate;

pub use collection::{CollStats, Collection};
pub use format::record::Header;
pub use hooks::{Hooks, NoHooks, Predicate, Terms};
pub use index::{FieldKind, Index, IndexField};
pub use insert::Inserted;
pub use modify::{Change, Modified};
pub use scan::{EachEntry, IndexScan, KeyInterval, Row, Scan};
pub use session::{Begun, Effect, Keep, Noted, SessionId, SessionRecord};
pub use store::{CollectionEntry, Store};
pub use text::{TermsScan, TextPart};
pub use validate::Validation;

/// Position of a commit in the journal; hand it to [`Store::wait_durable`].
pub use storage::CommitPos;
/// Who writes, for the engine's admission.
pub use storage::WriteClass;
