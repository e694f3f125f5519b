//! The log as a collection: its entries as documents, forwards or backwards. Promises: a reader
//! whose position was removed gets an error. Must not know: who waits for new entries.

use crate::catalog::Shared;
use crate::error;
use crate::format::log as row;
use crate::format::record::Header;
use crate::log::{Log, LogMoment, LogReader, VisitResult};
use crate::view::rows::{Row, RowVisitor};
use model::{DocBuf, MongoError, Result, Timestamp, code};
use std::sync::Arc;
use storage::{CursorOpts, KeyRange, Reader, Table};

/// Commits read at a time.
const STEP_ROWS: usize = 16;

/// A scan of the log.
pub(crate) struct LogScan {
    shared: Arc<Shared>,
    log: Arc<Log>,
    reverse: bool,
    first: Timestamp,
    last: Timestamp,
    reader: Option<LogReader>,
    /// It has shown an entry, so it must not skip any from now on.
    shown: bool,
    /// The state that is read backwards where several processes write the log.
    moment: Option<LogMoment>,
}

impl LogScan {
    pub(crate) fn new(shared: Arc<Shared>, log: Arc<Log>, reverse: bool) -> LogScan {
        LogScan {
            shared,
            log,
            reverse,
            first: Timestamp::from_u64(0),
            last: Timestamp::from_u64(u64::MAX),
            reader: None,
            shown: false,
            moment: None,
        }
    }

    pub(crate) fn bound(&mut self, first: Timestamp, last: Timestamp) {
        (self.first, self.last) = (first, last);
    }

    pub(crate) fn pause(&mut self) {
        self.moment = None;
        if let Some(reader) = &mut self.reader {
            reader.pause();
        }
    }

    pub(crate) fn visit(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        if self.reverse {
            self.visit_backwards(max, f)
        } else {
            self.visit_forwards(max, f)
        }
    }

    fn visit_forwards(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        let (mut left, last) = (max, self.last);
        while left > 0 {
            let oldest = self.log.oldest();
            let reader = match &mut self.reader {
                Some(r) => r,
                none => {
                    let from = self.first.max(oldest);
                    none.insert(LogReader::new(
                        self.shared.engine.clone(),
                        self.log.clone(),
                        from,
                    ))
                }
            };
            let (mut wanted, mut beyond, ident) = (true, false, self.log.ident);
            let shown = &mut self.shown;
            let read = reader.visit(left.min(STEP_ROWS), &mut |time, doc| {
                if time > last {
                    beyond = true;
                    return false;
                }
                (*shown, left) = (true, left - 1);
                wanted = f(Row {
                    key: &row::key(ident, time.as_u64()),
                    header: header(time),
                    doc,
                    score: 0.0,
                });
                wanted && left > 0
            })?;
            match read {
                _ if beyond => return Ok(false),
                _ if !wanted => return Ok(true),
                VisitResult::More => {}
                VisitResult::End => return Ok(false),
                // Entries were removed before anything was shown: begin at the current beginning of
                // the log.
                VisitResult::Lost if !*shown => self.reader = None,
                VisitResult::Lost => return Err(position_error(reader.next())),
            }
        }
        Ok(true)
    }

    /// A row is decoded forwards only, so its entries are gathered before they are shown.
    fn visit_backwards(&mut self, max: usize, f: &mut RowVisitor<'_>) -> Result<bool> {
        if self.log.is_shared() && self.moment.is_none() {
            self.moment = self.log.look_at_all()?;
        }
        let end = self.last.min(self.readable_end()).as_u64();
        let oldest = self.log.oldest().max(self.first).as_u64();
        let mut left = max;
        while left > 0 {
            // The first row that ends at `end` or later contains `end`, if any row does.
            let last = if self.shown { self.last.as_u64() } else { end };
            if last < oldest {
                return Ok(false);
            }
            let Some(row) = self.row_before(last)? else {
                return Ok(false);
            };
            for (time, doc) in row.into_iter().rev() {
                if time > last {
                    continue;
                }
                if time < oldest {
                    return Ok(false);
                }
                if left == 0 {
                    return Ok(true);
                }
                left -= 1;
                self.shown = true;
                self.last = Timestamp::from_u64(time - 1);
                let wanted = f(Row {
                    key: &row::key(self.log.ident, time),
                    header: header(Timestamp::from_u64(time)),
                    doc: doc.doc(),
                    score: 0.0,
                });
                if !wanted {
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// The time of the last entry that can be read.
    fn readable_end(&self) -> Timestamp {
        match &self.moment {
            Some(moment) => Timestamp::from_u64(moment.horizon()),
            None => self.log.visible(),
        }
    }

    /// The entries of the last row that begins at or before a time.
    fn row_before(&self, time: u64) -> Result<Option<Entries>> {
        let Some(moment) = &self.moment else {
            return self.row_of_log(self.shared.engine.as_ref(), self.log.ident, time);
        };
        let mut last: Option<Entries> = None;
        for ident in moment.idents() {
            let row = self.row_of_log(moment.reader(), ident, time)?;
            let begin = |row: &Option<Entries>| row.as_ref()?.first().map(|(time, _)| *time);
            if begin(&row) > begin(&last) {
                last = row;
            }
        }
        Ok(last)
    }

    /// As [`LogScan::row_before`], of the log with this identifier.
    fn row_of_log(&self, reader: &dyn Reader, ident: u32, time: u64) -> Result<Option<Entries>> {
        let bounds = (
            row::key(ident, 0),
            row::key(ident, self.readable_end().as_u64() + 1),
        );
        let at = row::key(ident, time);
        // The row that ends at or after `time` may contain it; otherwise it is the row before.
        let ahead = KeyRange::new(&at, &bounds.1);
        let behind = KeyRange::new(&bounds.0, &at);
        for (range, reverse) in [(ahead, false), (behind, true)] {
            let opts = CursorOpts {
                reverse,
                limit_hint: 1,
                ..CursorOpts::default()
            };
            let mut cursor = reader
                .cursor(Table::Log, range, opts)
                .map_err(error::storage)?;
            let (mut found, mut read) = (Vec::new(), None);
            cursor
                .visit(1, &mut |key, value| {
                    read = row::time_of(key).map(|last| (last, value.to_vec()));
                    false
                })
                .map_err(error::storage)?;
            if let Some((last, value)) = read {
                let Some(value) = self.log.readable_row(reader, last, value)? else {
                    return Ok(None);
                };
                if let Some(mut entries) = row::Entries::of(last, &value) {
                    while let Some((time, entry)) = entries.next() {
                        found.push((time, DocBuf::build(|w| entry.write(w, false))));
                    }
                }
            }
            if found.first().is_some_and(|(first, _)| *first <= time) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// The entries of a row with their times.
type Entries = Vec<(u64, DocBuf)>;

fn header(time: Timestamp) -> Header {
    Header {
        insert_seq: time.as_u64(),
        version: 0,
        time: 0,
    }
}

fn position_error(next: Timestamp) -> MongoError {
    MongoError::new(
        code::CAPPED_POSITION_LOST,
        format!(
            "CollectionScan died due to position in capped collection being deleted. Last seen \
                record id: RecordId({})",
            next.as_u64().saturating_sub(1)
        ),
    )
}
