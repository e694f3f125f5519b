//! Cursors over RocksDB iterators. The iterator moves past a delivered row only when the next one
//! is requested, so a lookup of one row does not pay for a second one. A scan that turns out to be
//! large stops filling the block cache, so that it does not displace other readers' data.

use std::sync::Arc;

use storage::{Cursor, CursorOpts, KeyRange, Result, Table};

use crate::ffi::{Db, DbSnapshot, Iter, IterOpts};

enum CursorPosition {
    // Nothing was delivered and no seek was made: begin at the start of the range in the cursor's
    // direction.
    Start,
    // The iterator is at a row that was delivered.
    Delivered,
    // The iterator is at the next row to deliver, or is exhausted.
    Next,
    // The range is empty; the iterator is not used.
    Nothing,
}

pub(crate) struct RocksCursor {
    iter: Iter,
    opts: CursorOpts,
    place: CursorPosition,
    filling: Option<CacheFill>,
}

// A scan that still fills the cache, and what is needed to continue without.
struct CacheFill {
    bytes_left: u64,
    snap: Arc<DbSnapshot>,
    table: Table,
}

/// Bytes of rows that one scan may put into a cache of this size: an eighth, so that a few scans of
/// medium size find their data again and other readers keep most of theirs.
pub(crate) fn scan_fill_bytes(cache_bytes: usize) -> u64 {
    cache_bytes as u64 / 8
}

impl RocksCursor {
    pub(crate) fn new(
        db: &Arc<Db>,
        snap: Option<&Arc<DbSnapshot>>,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Self {
        let bytes_left = db.scan_fill_bytes().saturating_sub(opts.bytes_before);
        // A scan without a known end may be large. Its iterator may have to be replaced later by
        // one on the same state, which needs a snapshot: a tenth of a microsecond.
        let filling =
            (opts.fill_cache && opts.limit_hint == 0 && bytes_left > 0).then(|| CacheFill {
                bytes_left,
                snap: snap.map_or_else(|| Arc::new(DbSnapshot::take(db)), Arc::clone),
                table,
            });
        let how = IterOpts {
            fill_cache: filling.is_some() || (opts.fill_cache && bytes_left > 0),
            readahead_bytes: opts.readahead_bytes,
            keys_only: opts.keys_only,
            ..IterOpts::default()
        };
        let snap = filling.as_ref().map(|filling| &filling.snap).or(snap);
        let iter = Iter::new(db, snap, table, range.lower, range.upper, &how);
        Self {
            iter,
            opts,
            place: if range.is_empty() {
                CursorPosition::Nothing
            } else {
                CursorPosition::Start
            },
            filling,
        }
    }

    fn settle(&mut self) {
        match self.place {
            CursorPosition::Start if self.opts.reverse => self.iter.seek_to_last(),
            CursorPosition::Start => self.iter.seek_to_first(),
            CursorPosition::Delivered if self.iter.valid() => self.iter.step(self.opts.reverse),
            CursorPosition::Delivered | CursorPosition::Next | CursorPosition::Nothing => {}
        }
        if !matches!(self.place, CursorPosition::Nothing) {
            self.place = CursorPosition::Next;
        }
    }

    // Replaces the iterator by one at the same row that does not fill the cache.
    #[cold]
    fn stop_filling(&mut self) {
        let Some(CacheFill { snap, table, .. }) = self.filling.take() else {
            return;
        };
        let how = IterOpts {
            fill_cache: false,
            readahead_bytes: self.opts.readahead_bytes,
            keys_only: self.opts.keys_only,
            ..IterOpts::default()
        };
        let (lower, upper) = self.iter.bounds();
        let mut iter = Iter::new(snap.db(), Some(&snap), table, lower, upper, &how);
        if self.opts.reverse {
            iter.seek_for_prev(self.iter.key());
        } else {
            iter.seek(self.iter.key());
        }
        self.iter = iter;
    }
}

impl Cursor for RocksCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if matches!(self.place, CursorPosition::Nothing) {
            return Ok(());
        }
        // RocksDB clamps the target to the bounds of the iterator by itself.
        if self.opts.reverse {
            self.iter.seek_for_prev(key);
            if self.iter.valid() && self.iter.key() == key {
                self.iter.step(true);
            }
        } else {
            self.iter.seek(key);
        }
        self.place = CursorPosition::Next;
        if self.iter.valid() {
            Ok(())
        } else {
            self.iter.status()
        }
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        if rows_max == 0 {
            return Ok(!matches!(self.place, CursorPosition::Nothing));
        }
        self.settle();
        if matches!(self.place, CursorPosition::Nothing) {
            return Ok(false);
        }
        let (mut left, mut bytes) = (rows_max, 0);
        let mut bytes_left = self
            .filling
            .as_ref()
            .map_or(u64::MAX, |filling| filling.bytes_left);
        loop {
            if !self.iter.valid() {
                return self.iter.status().map(|()| false);
            }
            let key = self.iter.key();
            let value = if self.opts.keys_only {
                &[][..]
            } else {
                self.iter.value()
            };
            bytes += (key.len() + value.len()) as u64;
            let go_on = f(key, value);
            if bytes >= bytes_left {
                self.stop_filling();
                bytes_left = u64::MAX;
            }
            left -= 1;
            if left == 0 || !go_on {
                self.place = CursorPosition::Delivered;
                if let Some(filling) = &mut self.filling {
                    filling.bytes_left -= bytes;
                }
                return Ok(true);
            }
            // Not valid after a failed read in `stop_filling`, which the loop reports.
            if self.iter.valid() {
                self.iter.step(self.opts.reverse);
            }
        }
    }
}
