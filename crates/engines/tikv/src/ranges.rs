//! Removes ranges of keys, a number of them in each commit. Must not know: the cluster.

use storage::{CursorOpts, Durability, Engine, KeyRange, Result, Table, WriteBatch, prefix_end};

/// Keys removed in one commit.
const ROWS_AT_ONCE: usize = 1_000;

/// Removes a range.
///
/// # Errors
/// Those of the engine.
pub(crate) fn remove(engine: &dyn Engine, table: Table, range: KeyRange<'_>) -> Result<()> {
    while remove_some(engine, table, range)? {}
    Ok(())
}

/// Removes the first keys of a range in one commit. False when no key was left.
///
/// # Errors
/// Those of the engine.
pub(crate) fn remove_some(engine: &dyn Engine, table: Table, range: KeyRange<'_>) -> Result<bool> {
    let opts = CursorOpts {
        keys_only: true,
        limit_hint: ROWS_AT_ONCE,
        ..CursorOpts::default()
    };
    let mut batch = WriteBatch::new();
    engine
        .cursor(table, range, opts)?
        .visit(ROWS_AT_ONCE, &mut |key, _| {
            batch.delete(table, key);
            true
        })?;
    if batch.is_empty() {
        return Ok(false);
    }
    engine.apply(&batch, Durability::Buffered).map(|_| true)
}

/// Passes the range of an ident's keys.
///
/// # Errors
/// Those of `f`.
pub(crate) fn with_ident<T>(ident: u32, f: impl FnOnce(KeyRange<'_>) -> Result<T>) -> Result<T> {
    let lower = ident.to_be_bytes();
    let mut upper = Vec::new();
    prefix_end(&lower, &mut upper);
    f(KeyRange::new(&lower, &upper))
}
