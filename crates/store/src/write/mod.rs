//! Writing documents. Promises: a document, its index entries, the counters and the session's row
//! change in one commit (`crate::commit`); a refused document changes nothing; a multikey mark is
//! on disk before an entry that needs it.
//! Must not know: the catalog's changes (`ddl`).
//!
//! A statement commits by itself, or puts its writes into a [`transaction::Transaction`].

pub(crate) mod capped;
pub(crate) mod capped_order;
pub(crate) mod change;
mod chunk;
pub(crate) mod duplicate;
mod end;
pub(crate) mod entries;
mod fill;
pub(crate) mod insert;
mod logged;
mod mode;
pub(crate) mod modify;
pub(crate) mod reads;
pub(crate) mod segments;
mod series;
mod series_change;
mod series_restore;
mod series_shared;
pub(crate) mod session;
mod session_fence;
pub(crate) mod session_sweep;
mod touched;
pub(crate) mod transaction;
mod unit;
pub(crate) mod writer;
