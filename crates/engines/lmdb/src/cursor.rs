//! Cursors: a view, and the place in the range as a key. Rows are copied before they are shown,
//! because a visitor may read the same view and may write.

use std::sync::Arc;

use storage::{Cursor, CursorOpts, KeyRange, Result, RowBatch, Table, Unread};

use crate::rows::Wanted;
use crate::view::View;

/// Rows copied at once: few at first, for a visit that ends early.
const ROWS_FIRST: usize = 16;
const ROWS_MAX: usize = 512;
const BYTES_MAX: usize = 256 << 10;

/// A cursor over a fixed state.
pub(crate) struct LmdbCursor {
    view: Arc<View>,
    table: Table,
    unread: Unread,
    opts: CursorOpts,
    rows: RowBatch,
    rows_next: usize,
}

impl LmdbCursor {
    pub(crate) fn new(
        view: Arc<View>,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> LmdbCursor {
        let first = match opts.limit_hint {
            0 => ROWS_FIRST,
            hint => hint.min(ROWS_MAX),
        };
        LmdbCursor {
            view,
            table,
            unread: Unread::new(range, opts.reverse),
            opts,
            rows: RowBatch::new(),
            rows_next: first,
        }
    }
}

impl Cursor for LmdbCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.unread.seek(key);
        Ok(())
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let mut left = rows_max;
        while left > 0 {
            let mut rows = std::mem::take(&mut self.rows);
            let wanted = Wanted {
                table: self.table,
                range: self.unread.range(),
                reverse: self.opts.reverse,
                keys_only: self.opts.keys_only,
                rows_max: left.min(self.rows_next),
                bytes_max: BYTES_MAX,
            };
            let more = self.view.rows(wanted, &mut rows)?;
            self.rows_next = (self.rows_next * 2).min(ROWS_MAX);
            left -= rows.len();
            let stopped = rows.iter().find(|(key, value)| !f(key, value));
            if let Some((key, _)) = stopped.or_else(|| rows.last()) {
                self.unread.go_on_behind(key);
            }
            let stopped = stopped.is_some();
            self.rows = rows;
            if stopped {
                return Ok(true);
            }
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
