//! Rows, tables and secondary indexes over an ordered engine.
//!
//! Promises: an engine gets the same calls as a server; a change of one row and its index entries
//! is one batch; concurrent changes of one row are never lost (the lab locks rows, because most
//! engines have no locks without transactions). Must not know: which engine it is.

mod check;
mod directory;
mod encode;
mod session;
mod tables;
mod target;

pub use directory::{ENGINE_DATA, OwnDirectory};
pub use encode::add_to_row;
pub use session::{KvCall, KvSession};
pub use target::KvTarget;
