//! One suite for every engine: the promises of `docs/storage-contract.md` as tests that run on
//! anything that implements [`Engine`]. Failures panic with the name of the broken promise.
//!
//! An engine crate calls [`run`] from one test; a new promise is added here and reaches all engines
//! at once.

mod basics;
mod cursors;
mod databases;
mod model;
mod tools;
mod writers;

pub use databases::{Databases, compare};
pub use model::random_operations;
pub use tools::Factory;

type Case = (&'static str, fn(&dyn Factory));

/// Every promise and its test.
const CASES: &[Case] = &[
    ("get, put, delete", |factory| {
        basics::get_put_delete(&*factory.fresh())
    }),
    ("tables are separate", |factory| {
        basics::tables_are_separate(&*factory.fresh())
    }),
    ("empty and large values", |factory| {
        basics::value_sizes(&*factory.fresh())
    }),
    ("operations in order", |factory| {
        basics::operations_in_order(&*factory.fresh())
    }),
    ("counters add up", |factory| {
        basics::counters(&*factory.fresh())
    }),
    ("multi_get", |factory| basics::multi_get(&*factory.fresh())),
    ("delete_range", |factory| {
        basics::delete_range(&*factory.fresh())
    }),
    ("limits are refused", |factory| {
        basics::limits(&*factory.fresh())
    }),
    ("positions grow", |factory| {
        basics::positions(&*factory.fresh())
    }),
    ("the last position is the newest commit's", |factory| {
        basics::last_pos(&*factory.fresh())
    }),
    ("closed engines refuse", |factory| {
        basics::check_closed(&*factory.fresh())
    }),
    ("dropped idents disappear", basics::check_dropped_idents),
    ("drop_range keeps neighbours", |factory| {
        basics::drop_range(&*factory.fresh())
    }),
    ("compact changes nothing that is seen", |factory| {
        basics::compact(&*factory.fresh())
    }),
    ("reopen keeps what was durable", basics::reopen),
    ("checkpoint does what the engine says of it", |factory| {
        basics::checkpoint(&*factory.fresh())
    }),
    ("cursor order and bounds", |factory| {
        cursors::order_and_bounds(&*factory.fresh())
    }),
    ("cursor batches", |factory| {
        cursors::batches(&*factory.fresh())
    }),
    ("cursor seek", |factory| cursors::seek(&*factory.fresh())),
    ("cursor is stable", |factory| {
        cursors::stable(&*factory.fresh())
    }),
    ("a visitor may write", |factory| {
        cursors::visitor_writes(&*factory.fresh())
    }),
    ("snapshots are isolated", |factory| {
        cursors::snapshots(&*factory.fresh())
    }),
    ("snapshots outlive the handle", |factory| {
        cursors::outlive(factory.fresh())
    }),
    ("concurrent writers", |factory| {
        writers::concurrent(factory.fresh())
    }),
    ("batches are atomic to readers", |factory| {
        writers::atomic(factory.fresh())
    }),
    ("the last position covers what was read", |factory| {
        writers::last_pos_covers_reads(factory.fresh())
    }),
    ("try_flush makes durable", |factory| {
        writers::turns(factory.fresh())
    }),
    ("durable waiters and hooks", |factory| {
        writers::durable(factory.fresh())
    }),
];

/// Runs all cases. The seed selects the random histories; the same seed gives the same operations.
///
/// # Panics
/// When the engine breaks the contract.
pub fn run(factory: &dyn Factory, seed: u64) {
    for (name, case) in CASES {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(factory)));
        if let Err(panic) = outcome {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("(no message)");
            panic!("conformance: {name}: {text}");
        }
    }
    for round in 0..8 {
        random_operations(factory, seed.wrapping_add(round), 600);
    }
}
