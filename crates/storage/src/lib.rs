//! The contract between Quarry and a storage engine: ordered byte keys in six tables, atomic
//! batches, explicit snapshots.
//!
//! This crate promises one object-safe trait ([`Engine`]), typed errors, a memory engine that is
//! the model of the contract, test engines (contract checker, mirror, recorder, fault injector) and
//! one conformance suite. It must not know documents, BSON, MongoDB error codes, or any particular
//! engine: an engine bug has to be reproducible with bytes alone. The contract in prose:
//! `docs/storage-contract.md`.
//!
//! Above: `store` builds documents and indexes from bytes. Below: `engines/*`, one implementation
//! each.

mod batch;
pub mod conformance;
mod directory;
pub mod emulate;
mod engine;
mod error;
mod follower;
mod keys;
mod memory;
mod mirror;
pub mod observe;
mod place;
mod rows;
mod salvage;
mod unit;
mod unread;

pub use batch::{
    BatchIter, BatchOp, COUNTER_BYTES, PutOffsets, Savepoint, WriteBatch, counter_add,
    counter_decode, counter_encode,
};
pub use directory::{MARKER, Marker, engine_of, make_directory};
pub use engine::{
    Caps, CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, FlushEvent,
    FlushOutcome, Reader, Snapshot, StatSink, VerifyReport, WriteClass,
};
pub use error::{Cause, Result, StorageError};
pub use follower::{Follower, Moment};
pub use keys::{IDENT_BYTES, IdentSet, KeyRange, MAX_KEY, SPREAD, Table, prefix_end};
pub use memory::MemoryEngine;
pub use mirror::Mirror;
pub use observe::{
    Contract, Fault, FaultInjector, HeldJournal, ObservedEngine, RecordedChange, Recorder,
};
pub use place::FileLocation;
pub use rows::RowBatch;
pub use salvage::{Gap, Salvage, is_damage, salvage};
pub use unit::Unit;
pub use unread::UnreadRange;
