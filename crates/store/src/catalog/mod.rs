//! The catalog: its rows, identifiers, open collections, and the remains of dropped ones on disk.
//! Must not know: how documents are read or written.

pub(crate) mod buckets;
pub(crate) mod capped;
pub(crate) mod collection;
pub(crate) mod dropped;
mod idents;
mod indexes;
pub(crate) mod kept;
mod large;
mod last;
pub(crate) mod live;
mod opened;
pub(crate) mod pins;
mod reclaim;
pub mod row;
pub(crate) mod sequences;
pub(crate) mod shared;
mod space;
mod stats;

pub use collection::Collection;
pub(crate) use collection::State;
pub use large::LARGE_BYTES;
pub use row::{CatalogRow, IndexRow, Kind};
pub(crate) use shared::Shared;
pub use shared::asks_to_spread;
pub use stats::CollStats;
