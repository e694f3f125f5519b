//! The rows of several logs in the order of their times. Promises: each row once, up to the end.
//! Must not know: what rows contain.

use super::moment::LogMoment;
use super::retention::damage_error;
use crate::error;
use crate::format::log as row;
use model::Result;
use std::time::{Duration, Instant};
use storage::{Cursor, CursorOpts, KeyRange, RowBatch, Table};

/// Rows and bytes that are read of one log at a time.
const STEP_ROWS: usize = 64;
const STEP_BYTES: usize = 256 << 10;
/// Engines keep a state for a minute at least.
const AGE_MAX: Duration = Duration::from_secs(20);

/// The rows of several logs from a time to an end.
pub(super) struct MergedRows {
    logs: Vec<LogRowsLeft>,
    end: u64,
    opened: Instant,
}

/// The rows of one log.
struct LogRowsLeft {
    cursor: Box<dyn Cursor>,
    read: RowBatch,
    /// Number of the next row among those that were read.
    at: usize,
    more: bool,
}

impl MergedRows {
    /// The rows with an entry from `from` on, up to the horizon.
    pub(super) fn open(moment: &LogMoment, from: u64) -> Result<MergedRows> {
        let end = moment.horizon();
        let open = |ident: u32| {
            let (lower, upper) = (row::key(ident, from), row::key(ident, end + 1));
            let opts = CursorOpts {
                fill_cache: true,
                ..CursorOpts::default()
            };
            let range = KeyRange::new(&lower, &upper);
            let cursor = moment.reader().cursor(Table::Log, range, opts);
            Ok(LogRowsLeft {
                cursor: cursor.map_err(error::storage)?,
                read: RowBatch::new(),
                at: 0,
                more: true,
            })
        };
        Ok(MergedRows {
            logs: moment.idents().map(open).collect::<Result<_>>()?,
            end,
            opened: Instant::now(),
        })
    }

    /// Every row up to this time is shown when none is left.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether it must be opened again, because the engine may not keep its state much longer.
    pub(super) fn is_old(&self) -> bool {
        self.opened.elapsed() > AGE_MAX
    }

    /// Shows the next row, with the time in its key; false when none is left.
    ///
    /// # Errors
    /// 1 InternalError for a damaged key; engine failures.
    pub(super) fn next(&mut self, f: &mut dyn FnMut(u64, &[u8])) -> Result<bool> {
        let mut first: Option<(u64, usize)> = None;
        for (n, log) in self.logs.iter_mut().enumerate() {
            if let Some(time) = log.next_time()?
                && first.is_none_or(|(least, _)| time < least)
            {
                first = Some((time, n));
            }
        }
        let Some((time, n)) = first else {
            return Ok(false);
        };
        if let Some(log) = self.logs.get_mut(n) {
            if let Some((_, value)) = log.read.get(log.at) {
                f(time, value);
            }
            log.at += 1;
        }
        Ok(true)
    }
}

impl LogRowsLeft {
    fn next_time(&mut self) -> Result<Option<u64>> {
        while self.at == self.read.len() && self.more {
            self.at = 0;
            self.more = self
                .cursor
                .next_batch(&mut self.read, STEP_ROWS, STEP_BYTES)
                .map_err(error::storage)?;
        }
        let Some((key, _)) = self.read.get(self.at) else {
            return Ok(None);
        };
        row::time_of(key).map(Some).ok_or_else(damage_error)
    }
}
