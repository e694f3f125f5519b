//! Rows, tables and secondary indexes over an ordered engine.
//!
//! Promises: the same calls as a server gets; a change of one row and its index entries is one
//! batch; two changes of one row never lose each other (locks by row, taken here, because most
//! engines offer none without transactions). Must not know: which engine it is.

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
