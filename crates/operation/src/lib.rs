//! An operation: one command or one piece of background work that is being executed. Promises: one
//! value holds the means to interrupt the operation, the account of its memory and its counters; it
//! is passed to the code that works for the operation, and the threads that do so share it (ADR
//! 0076). Must not know: commands, documents, collections, sockets.

mod clock;
mod interruption;
mod operation;
mod progress;
mod reads;
mod writes;

pub use clock::{Clock, ClockReading, SystemClock};
pub use interruption::{interrupted_error, is_interruption, split_set_aside};
pub use operation::{ConnectionId, Link, Operation, WriteGate};
pub use progress::Progress;
pub use reads::{AccessPath, Paths, ReadCounters, ReadTotals};
pub use writes::{OpaqueValue, Suspension, WriteCounters};
