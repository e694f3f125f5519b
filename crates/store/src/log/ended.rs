//! Ends the log of several processes, when one process opens the data alone. Promises: no reader
//! goes on across the end without noticing; after a crash the end is completed at the next opening.
//! Must not know: readers.

use super::commit_times::end_time;
use super::member::SharedIdents;
use super::retention::{StoredRetention, last_row};
use crate::commit::{WriteUnit, commit};
use crate::error;
use crate::format::meta;
use model::Result;
use storage::{CursorOpts, Engine, KeyRange, Table, WriteBatch};

/// Removes the rows of all members; the log begins behind them. Nothing happens when no members
/// have written it.
pub(super) fn end_member_logs(
    engine: &dyn Engine,
    stored: StoredRetention,
) -> Result<StoredRetention> {
    let Some(shared) = SharedIdents::read(engine)? else {
        return Ok(stored);
    };
    let logs = member_idents(engine)?;
    // Rows without a time would have had an earlier one than this.
    let mut last = end_time(engine.last_pos()).max(stored.oldest);
    for ident in &logs {
        last = last.max(last_row(engine, *ident)?.0);
    }
    let ended = StoredRetention {
        oldest: last.saturating_add(2),
        ..stored
    };
    let mut batch = WriteBatch::new();
    ended.put(&mut batch);
    commit(engine, WriteUnit::new(&batch).durable())?;
    let mut batch = WriteBatch::new();
    for ident in logs.iter().copied().chain([shared.marks, shared.raw]) {
        let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
        engine
            .drop_range(Table::Log, KeyRange::new(&lower, &upper))
            .map_err(error::storage)?;
    }
    for ident in logs {
        batch.delete(Table::Meta, &meta::member_log(ident));
    }
    batch.delete(Table::Meta, meta::LOG_MARKS);
    commit(engine, WriteUnit::new(&batch)).map(|_| ended)
}

fn member_idents(engine: &dyn Engine) -> Result<Vec<u32>> {
    let range = KeyRange::new(meta::MEMBER_LOGS.0, meta::MEMBER_LOGS.1);
    let mut cursor = engine
        .cursor(Table::Meta, range, CursorOpts::default())
        .map_err(error::storage)?;
    let mut idents = Vec::new();
    while cursor
        .visit(256, &mut |key, _| {
            idents.extend(meta::member_log_of(key));
            true
        })
        .map_err(error::storage)?
    {}
    Ok(idents)
}
