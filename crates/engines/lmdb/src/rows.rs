//! Reads the rows of a range, for cursors and for range deletes.

use storage::emulate::RowRequest;
use storage::{Result, RowBatch};

use crate::error::{classify, corrupt};
use crate::tables::{ReadTxn, Tables};
use storage::emulate::long_keys::{entries, is_bucket, stored_range};

/// Replaces `rows` with the first rows of the range. True when there may be more.
pub(crate) fn read(
    tables: &Tables,
    txn: &ReadTxn<'_>,
    wanted: RowRequest<'_>,
    rows: &mut RowBatch,
) -> Result<bool> {
    rows.clear();
    if wanted.range.is_empty() {
        return Ok(false);
    }
    let fail = |e| classify("a scan", e);
    let database = tables.database(wanted.table);
    let bounds = stored_range(wanted.range.lower, wanted.range.upper);
    if wanted.reverse {
        for entry in database.rev_range(txn, &bounds).map_err(fail)? {
            let (key, value) = entry.map_err(fail)?;
            if !take(wanted, key, value, rows)? {
                return Ok(true);
            }
        }
    } else {
        for entry in database.range(txn, &bounds).map_err(fail)? {
            let (key, value) = entry.map_err(fail)?;
            if !take(wanted, key, value, rows)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Adds the rows of one stored entry. False when no more are wanted.
fn take(wanted: RowRequest<'_>, stored: &[u8], value: &[u8], rows: &mut RowBatch) -> Result<bool> {
    let shown = |value| if wanted.keys_only { &[][..] } else { value };
    if !is_bucket(stored) {
        rows.push(stored, shown(value));
        return Ok(!wanted.is_full(rows));
    }
    let whole: Option<Vec<_>> = entries(value).collect();
    let mut whole = whole.ok_or_else(|| corrupt("a bucket of long keys is cut short"))?;
    if wanted.reverse {
        whole.reverse();
    }
    let mut key = Vec::new();
    for (rest, value) in whole {
        key.clear();
        key.extend_from_slice(stored);
        key.extend_from_slice(rest);
        if !wanted.range.contains(&key) {
            continue;
        }
        rows.push(&key, shown(value));
        if wanted.is_full(rows) {
            return Ok(false);
        }
    }
    Ok(true)
}
