//! One suite for every engine: what `docs/storage-contract.md` promises, as tests anybody can run
//! on anything that implements [`Engine`]. Failures panic with the name of the broken promise.
//!
//! An engine crate calls [`run`] from one test; a new promise is added here and reaches all engines
//! at once.

mod basics;
mod cursors;
mod model;
mod writers;

use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::engine::{CursorOpts, Durability, Engine, Reader};
use crate::keys::{KeyRange, Table};
use crate::rows::RowBatch;

pub use model::random_operations;

/// Makes engines for the suite.
pub trait Factory {
    /// A new engine on empty storage.
    fn fresh(&self) -> Arc<dyn Engine>;

    /// Opens the storage of the last `fresh` again, after that engine was closed and dropped.
    /// `None` for engines that keep nothing.
    fn reopen(&self) -> Option<Arc<dyn Engine>>;

    /// Makes the engine rewrite its files, so that dropped idents disappear; does nothing where
    /// there are no files.
    fn rewrite(&self, engine: &dyn Engine);
}

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
        basics::closed(&*factory.fresh())
    }),
    ("dropped idents disappear", basics::dropped_idents),
    ("drop_range keeps neighbours", |factory| {
        basics::drop_range(&*factory.fresh())
    }),
    ("reopen keeps what was durable", basics::reopen),
    ("checkpoint refuses an existing path", |factory| {
        basics::checkpoint_refusals(&*factory.fresh())
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

/// Runs everything. The seed selects the random histories; the same seed gives the same operations.
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

/// A key of a collection: ident, then body.
pub(crate) fn key(ident: u32, body: &str) -> Vec<u8> {
    let mut key = ident.to_be_bytes().to_vec();
    key.extend_from_slice(body.as_bytes());
    key
}

pub(crate) fn put(engine: &dyn Engine, table: Table, rows: &[(&[u8], &[u8])]) {
    let mut batch = WriteBatch::new();
    for (key, value) in rows {
        batch.put(table, key, value);
    }
    engine
        .apply(&batch, Durability::Buffered)
        .expect("a put succeeds");
}

pub(crate) fn get(engine: &dyn Reader, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    let mut out = b"left over".to_vec();
    let found = engine.get(table, key, &mut out).expect("a get succeeds");
    assert!(
        found || out.is_empty(),
        "the buffer is empty when nothing is found"
    );
    let mut shown = None;
    let also = engine
        .get_with(table, key, &mut |value| shown = Some(value.to_vec()))
        .expect("a get succeeds");
    assert_eq!(
        (found, found.then_some(&out)),
        (also, shown.as_ref()),
        "get and get_with agree"
    );
    shown
}

pub(crate) fn scan(
    engine: &dyn Reader,
    table: Table,
    range: KeyRange<'_>,
    opts: CursorOpts,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = engine.cursor(table, range, opts).expect("a cursor opens");
    let (mut rows, mut all) = (RowBatch::new(), Vec::new());
    while cursor
        .next_batch(&mut rows, 7, usize::MAX)
        .expect("a scan succeeds")
    {
        all.extend(
            rows.iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec())),
        );
    }
    all.extend(
        rows.iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec())),
    );
    all
}

pub(crate) fn scan_keys(engine: &dyn Reader, table: Table, range: KeyRange<'_>) -> Vec<Vec<u8>> {
    scan(engine, table, range, CursorOpts::default())
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}
