//! One memory budget for all operations of the process, and an account of each. Promises: whatever
//! an operation allocates (vectors, arenas, any other memory) is charged without a call where it is
//! allocated; a refusal is MongoDB's error 146; what was charged is given back when the operation,
//! cursor or connection that held it ends, however it ends. Must not know: what operations do,
//! sockets, the storage engine (its caches have limits of their own).
//!
//! An operation's [`Account`] is attached to the thread that works for it. Loops call
//! [`Account::check`], which compares the thread's byte count ([`heap::thread_bytes`]) with what
//! was charged, and touches shared memory only when [`STEP_BYTES`] have accumulated. So operations
//! that hold less are never refused, however short of memory the process is.

mod account;
mod budget;

pub use account::{Account, Attachment};
pub use budget::{Budget, BudgetStats, Charge, Pressure, ResidentMemory};
pub use heap::CountingAllocator;

/// Most bytes that an operation allocates or frees before its account is settled.
pub const STEP_BYTES: usize = 256 << 10;
