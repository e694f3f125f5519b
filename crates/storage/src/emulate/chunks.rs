//! Cursors for engines whose views only one thread may use at a time: rows are copied before they
//! are shown, because a visitor may read the same view and may write.

use std::sync::Arc;

use crate::engine::{Cursor, CursorOpts};
use crate::error::Result;
use crate::keys::{KeyRange, Table};
use crate::rows::RowBatch;
use crate::unread::UnreadRange;

/// Most rows copied at a time.
const ROWS_MAX: usize = 512;
const BYTES_MAX: usize = 256 << 10;

/// The rows to read.
#[derive(Debug, Clone, Copy)]
pub struct RowRequest<'a> {
    /// Table to read.
    pub table: Table,
    /// Range of keys.
    pub range: KeyRange<'a>,
    /// Read the largest key first.
    pub reverse: bool,
    /// Leave values empty.
    pub keys_only: bool,
    /// Stop after this many rows ...
    pub rows_max: usize,
    /// ... or after the row that reaches this many bytes.
    pub bytes_max: usize,
}

impl RowRequest<'_> {
    /// Whether `rows` has reached a limit.
    pub fn is_full(&self, rows: &RowBatch) -> bool {
        rows.len() >= self.rows_max || rows.byte_len() >= self.bytes_max
    }
}

/// A fixed state of the data from which rows are copied.
pub trait RowSource: Send + Sync {
    /// How many rows to copy at first: few, for a visit that ends early.
    fn rows_at_first(&self) -> usize {
        16
    }

    /// Replaces `rows` with the first rows of the range.
    ///
    /// # Output
    /// False when the range is known to be exhausted.
    fn rows(&self, wanted: RowRequest<'_>, rows: &mut RowBatch) -> Result<bool>;
}

/// A cursor over a fixed state.
pub struct ChunkedCursor<S> {
    source: Arc<S>,
    table: Table,
    unread: UnreadRange,
    opts: CursorOpts,
    rows: RowBatch,
    rows_next: usize,
}

impl<S: RowSource> ChunkedCursor<S> {
    /// A cursor over a range that was checked before.
    pub fn new(source: Arc<S>, table: Table, range: KeyRange<'_>, opts: CursorOpts) -> Self {
        let first = match opts.limit_hint {
            0 => source.rows_at_first(),
            hint => hint.min(ROWS_MAX),
        };
        Self {
            source,
            table,
            unread: UnreadRange::new(range, opts.reverse),
            opts,
            rows: RowBatch::new(),
            rows_next: first,
        }
    }
}

impl<S: RowSource> Cursor for ChunkedCursor<S> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.unread.seek(key);
        Ok(())
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let mut left = rows_max;
        while left > 0 {
            let mut rows = std::mem::take(&mut self.rows);
            let wanted = RowRequest {
                table: self.table,
                range: self.unread.range(),
                reverse: self.opts.reverse,
                keys_only: self.opts.keys_only,
                rows_max: left.min(self.rows_next),
                bytes_max: BYTES_MAX,
            };
            let more = self.source.rows(wanted, &mut rows)?;
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

    /// Requests all rows at once: a batch is never stopped in the middle.
    fn next_batch(
        &mut self,
        rows: &mut RowBatch,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<bool> {
        if rows_max == 0 {
            rows.clear();
            return Ok(true);
        }
        let wanted = RowRequest {
            table: self.table,
            range: self.unread.range(),
            reverse: self.opts.reverse,
            keys_only: self.opts.keys_only,
            rows_max,
            bytes_max,
        };
        // A source may deliver more rows than it was asked for.
        let more = self.source.rows(wanted, rows)? | rows.cut_at(bytes_max);
        if let Some((key, _)) = rows.last() {
            self.unread.go_on_behind(key);
        }
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A source of ten-byte rows that counts requests.
    struct CountingSource(AtomicUsize);

    impl RowSource for CountingSource {
        fn rows(&self, wanted: RowRequest<'_>, rows: &mut RowBatch) -> Result<bool> {
            self.0.fetch_add(1, Ordering::Relaxed);
            rows.clear();
            for n in 0u32..1000 {
                let key = n.to_be_bytes();
                if rows.len() == wanted.rows_max {
                    return Ok(true);
                }
                if wanted.range.contains(&key) {
                    rows.push(&key, b"sixsix");
                }
            }
            Ok(false)
        }
    }

    #[test]
    fn a_batch_is_one_request_and_ends_at_its_bytes() {
        let source = Arc::new(CountingSource(AtomicUsize::new(0)));
        let opts = CursorOpts::default();
        let (lower, upper) = (0u32.to_be_bytes(), u32::MAX.to_be_bytes());
        let range = KeyRange::new(&lower, &upper);
        let mut cursor = ChunkedCursor::new(Arc::clone(&source), Table::Doc, range, opts);
        let mut rows = RowBatch::new();
        assert!(cursor.next_batch(&mut rows, 200, usize::MAX).unwrap());
        assert_eq!((rows.len(), source.0.load(Ordering::Relaxed)), (200, 1));
        // The tenth row reaches 95 bytes; the source has delivered more.
        assert!(cursor.next_batch(&mut rows, 200, 95).unwrap());
        assert_eq!(rows.len(), 10);
        assert_eq!(rows.get(0).unwrap().0, &200u32.to_be_bytes());
        assert!(cursor.next_batch(&mut rows, 0, 95).unwrap() && rows.is_empty());
        assert!(!cursor.next_batch(&mut rows, 5000, usize::MAX).unwrap());
        assert_eq!(rows.len(), 1000 - 210);
        assert_eq!(source.0.load(Ordering::Relaxed), 3);
    }
}
