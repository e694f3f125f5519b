//! Shared parts of the suite's tests: the factory of engines, and functions that put, read and list
//! rows. Must not know: which tests there are.

use std::sync::Arc;

use crate::batch::WriteBatch;
use crate::engine::{CursorOpts, Durability, Engine, Reader};
use crate::keys::{KeyRange, Table};
use crate::rows::RowBatch;

/// Makes engines for the suite.
pub trait Factory {
    /// A new engine on empty storage.
    fn fresh(&self) -> Arc<dyn Engine>;

    /// Opens the storage of the last `fresh` again, after that engine was closed and dropped.
    /// `None` for engines that keep nothing.
    fn reopen(&self) -> Option<Arc<dyn Engine>>;

    /// Makes the engine rewrite its files, so that the keys of dropped idents disappear; does
    /// nothing where there are no files.
    fn rewrite(&self, engine: &dyn Engine);
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
