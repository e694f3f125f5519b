//! Cursors over RocksDB iterators. A row delivered last is stepped over only when the next one is asked for, so a
//! lookup of one row pays for one row.

use std::sync::Arc;

use storage::{Cursor, CursorOpts, KeyRange, Result, Table};

use crate::ffi::{Db, Iter, IterOpts, Snap};

enum Place {
    // Nothing delivered yet and no seek: position at the end the direction begins with.
    Start,
    // The iterator stands on a row that was delivered.
    Delivered,
    // The iterator stands on the next row to deliver, or is exhausted.
    Next,
    // An empty range; the iterator is never asked.
    Nothing,
}

pub(crate) struct RocksCursor {
    iter: Iter,
    opts: CursorOpts,
    place: Place,
}

impl RocksCursor {
    pub(crate) fn new(
        db: &Arc<Db>,
        snap: Option<&Arc<Snap>>,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Self {
        let how = IterOpts {
            fill_cache: opts.fill_cache,
            readahead_bytes: opts.readahead_bytes,
        };
        let iter = Iter::new(db, snap, table, range.lower, range.upper, &how);
        Self {
            iter,
            opts,
            place: if range.is_empty() { Place::Nothing } else { Place::Start },
        }
    }

    fn settle(&mut self) {
        match self.place {
            Place::Start if self.opts.reverse => self.iter.seek_to_last(),
            Place::Start => self.iter.seek_to_first(),
            Place::Delivered if self.iter.valid() => self.iter.step(self.opts.reverse),
            Place::Delivered | Place::Next | Place::Nothing => {}
        }
        if !matches!(self.place, Place::Nothing) {
            self.place = Place::Next;
        }
    }
}

impl Cursor for RocksCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        if matches!(self.place, Place::Nothing) {
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
        self.place = Place::Next;
        if self.iter.valid() { Ok(()) } else { self.iter.status() }
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        if rows_max == 0 {
            return Ok(!matches!(self.place, Place::Nothing));
        }
        self.settle();
        if matches!(self.place, Place::Nothing) {
            return Ok(false);
        }
        let mut left = rows_max;
        loop {
            if !self.iter.valid() {
                return self.iter.status().map(|()| false);
            }
            let value = if self.opts.keys_only {
                &[][..]
            } else {
                self.iter.value()
            };
            let go_on = f(self.iter.key(), value);
            left -= 1;
            if left == 0 || !go_on {
                self.place = Place::Delivered;
                return Ok(true);
            }
            self.iter.step(self.opts.reverse);
        }
    }
}
