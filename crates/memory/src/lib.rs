//! One budget of memory for all operations of the process, and an account of each. Promises: what
//! an operation allocates (capacity of vectors, chunks of arenas, whoever asks for them) is charged
//! without a call at the place that allocates; a refusal is MongoDB's error 146; what was charged
//! is given back when the operation, the cursor or the connection that held it ends, however it
//! ends. Must not know: what operations do, sockets, the storage engine (its caches have bounds of
//! their own).
//!
//! An operation's [`Account`] is attached to the thread that works for it. Loops call
//! [`Account::check`], which compares the thread's count of bytes ([`heap::thread_bytes`]) with
//! what was charged and touches shared memory only when [`STEP_BYTES`] came together. So
//! operations that hold less are never refused, however short of memory the process is.

mod account;
mod budget;

pub use account::{Account, Attached};
pub use budget::{Budget, BudgetStats, Charge, Pressure, Resident};
pub use heap::Counting;

/// What an operation may hold or give back before its account is settled.
pub const STEP_BYTES: usize = 256 << 10;
