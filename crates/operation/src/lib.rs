//! An operation: one command at work. Promises: one value holds what interrupts it, the account of
//! its memory and what it has counted; it is passed to whatever works for it, and threads that work
//! for it together share it (ADR 0076). Must not know: commands, documents, collections, sockets.

mod clock;
mod interruption;
mod operation;
mod progress;
mod reads;
mod writes;

pub use clock::{Clock, SystemClock};
pub use interruption::{ended, interrupted, is_interruption};
pub use operation::{ConnectionId, Link, Operation, WriteGate};
pub use progress::Progress;
pub use reads::{AccessPath, Examined, Paths, Reads};
pub use writes::{OpaqueValue, SetAside, Writes};
