//! Reads the log by time. Promises: entries in the order of their times, each once, and none before
//! which an earlier one may still appear; a reader whose next entry may be removed gets
//! [`VisitResult::Lost`]. Between calls it keeps a position and nothing of the engine. Must not
//! know: what entries mean.

use super::merged::MergedRows;
use super::retention::damage_error;
use super::times::Log;
use crate::error;
use crate::format::log as row;
use crate::format::references;
use model::{Doc, DocWriter, Result, Timestamp};
use std::sync::Arc;
use storage::{Cursor, CursorOpts, Engine, KeyRange, Table};

/// Called with each entry and its time; false stops after it.
pub type LogVisitor<'f> = dyn FnMut(Timestamp, Doc<'_>) -> bool + 'f;

/// A position in the log from which entries are read.
pub struct LogReader {
    engine: Arc<dyn Engine>,
    log: Arc<Log>,
    /// Time of the first entry that was not shown.
    next: u64,
    /// Entries are shown with the documents before their changes.
    images: bool,
    cursor: Option<(Box<dyn Cursor>, u64)>,
    /// Used in place of the cursor where several processes write the log.
    merged: Option<MergedRows>,
    buf: Vec<u8>,
}

/// The result of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitResult {
    /// There are more entries.
    More,
    /// All entries that can be read now were shown.
    End,
    /// The next entry may have been removed.
    Lost,
}

impl LogReader {
    pub(crate) fn new(engine: Arc<dyn Engine>, log: Arc<Log>, from: Timestamp) -> LogReader {
        LogReader {
            engine,
            log,
            next: from.as_u64(),
            images: false,
            cursor: None,
            merged: None,
            buf: Vec::new(),
        }
    }

    /// Makes the reader show the documents before the changes where they were kept.
    #[must_use]
    pub fn with_images(self) -> LogReader {
        LogReader {
            images: true,
            ..self
        }
    }

    /// Every entry before this time was shown.
    pub fn next(&self) -> Timestamp {
        Timestamp::from_u64(self.next)
    }

    /// Skips everything before a time.
    pub fn skip_to(&mut self, time: Timestamp) {
        self.pause();
        self.next = self.next.max(time.as_u64());
    }

    /// Releases the resources of the engine.
    pub fn pause(&mut self) {
        (self.cursor, self.merged) = (None, None);
    }

    /// Shows entries, at most those of `rows_max` commits.
    ///
    /// # Errors
    /// 1 InternalError for a damaged row; engine failures.
    pub fn visit(&mut self, rows_max: usize, f: &mut LogVisitor<'_>) -> Result<VisitResult> {
        if self.log.is_shared() {
            return self.visit_merged(rows_max, f);
        }
        // The end is read before the state: everything up to it is in that state.
        if self.cursor.is_none() {
            let end = self.log.visible().as_u64();
            if end < self.next {
                return Ok(VisitResult::End);
            }
            let cursor = self.open_cursor(end)?;
            // Checked after the cursor is open: what it reads from here on was not removed before.
            if self.next < self.log.oldest().as_u64() {
                return Ok(VisitResult::Lost);
            }
            self.cursor = Some((cursor, end));
        }
        let Some((cursor, end)) = &mut self.cursor else {
            return Ok(VisitResult::End);
        };
        let end = *end;
        let mut shown = ShownEntries {
            next: &mut self.next,
            buf: &mut self.buf,
            images: self.images,
            f,
        };
        let (mut wanted, mut more, mut rows) = (true, true, 0);
        while wanted && more && rows < rows_max {
            let (mut sound, mut referring) = (true, None);
            more = cursor
                .visit(rows_max - rows, &mut |key, value| {
                    rows += 1;
                    let time = row::time_of(key).unwrap_or(0);
                    if references::is_row(value) {
                        referring = Some((time, value.to_vec()));
                        return false;
                    }
                    match shown.show(time, value) {
                        Some(more) => wanted = more,
                        None => sound = false,
                    }
                    wanted && sound
                })
                .map_err(error::storage)?;
            if let Some((time, value)) = referring {
                // Documents are looked up behind the row, not in the middle of a visit.
                let Some(value) = self.log.readable_row(self.engine.as_ref(), time, value)? else {
                    self.cursor = None;
                    return Ok(VisitResult::Lost);
                };
                wanted = shown.show(time, &value).ok_or_else(damage_error)?;
            }
            if !sound {
                return Err(damage_error());
            }
        }
        if !wanted {
            // The row may have further entries: the cursor is opened at it again.
            self.cursor = None;
            return Ok(VisitResult::More);
        }
        if more {
            return Ok(VisitResult::More);
        }
        self.cursor = None;
        self.next = self.next.max(end + 1);
        Ok(if self.log.visible().as_u64() < self.next {
            VisitResult::End
        } else {
            VisitResult::More
        })
    }
}

impl LogReader {
    /// A cursor over the rows up to a time.
    fn open_cursor(&self, end: u64) -> Result<Box<dyn Cursor>> {
        let lower = row::key(self.log.ident, self.next);
        let upper = row::key(self.log.ident, end + 1);
        let opts = CursorOpts {
            fill_cache: true,
            ..CursorOpts::default()
        };
        self.engine
            .cursor(Table::Log, KeyRange::new(&lower, &upper), opts)
            .map_err(error::storage)
    }

    /// As [`LogReader::visit`], where several processes write the log: each opening takes a state.
    fn visit_merged(&mut self, rows_max: usize, f: &mut LogVisitor<'_>) -> Result<VisitResult> {
        if self.merged.as_ref().is_none_or(MergedRows::is_old) {
            self.merged = None;
            let Some(moment) = self.log.look_at_all()? else {
                return Ok(VisitResult::End);
            };
            if self.next < moment.oldest() {
                return Ok(VisitResult::Lost);
            }
            if moment.horizon() < self.next {
                return Ok(VisitResult::End);
            }
            self.merged = Some(MergedRows::open(&moment, self.next)?);
        }
        let Some(merged) = &mut self.merged else {
            return Ok(VisitResult::End);
        };
        let end = merged.end();
        let mut shown = ShownEntries {
            next: &mut self.next,
            buf: &mut self.buf,
            images: self.images,
            f,
        };
        for _ in 0..rows_max {
            let mut wanted = Some(true);
            let more = merged.next(&mut |time, value| wanted = shown.show(time, value))?;
            if !wanted.ok_or_else(damage_error)? {
                // The row may have further entries: it is read again.
                self.merged = None;
                return Ok(VisitResult::More);
            }
            if !more {
                self.merged = None;
                self.next = self.next.max(end + 1);
                return Ok(match self.log.visible().as_u64() < self.next {
                    true => VisitResult::End,
                    false => VisitResult::More,
                });
            }
        }
        Ok(VisitResult::More)
    }
}

/// Shows the entries of rows from a time on.
struct ShownEntries<'s, 'f> {
    next: &'s mut u64,
    buf: &'s mut Vec<u8>,
    images: bool,
    f: &'s mut LogVisitor<'f>,
}

impl ShownEntries<'_, '_> {
    /// Shows the entries of a row; whether more are wanted, or `None` when it is damaged.
    fn show(&mut self, time: u64, value: &[u8]) -> Option<bool> {
        let mut entries = row::Entries::of(time, value)?;
        let mut wanted = true;
        while let (Some((time, entry)), true) = (entries.next(), wanted) {
            if time < *self.next {
                continue;
            }
            self.buf.clear();
            entry.write(&mut DocWriter::new(self.buf), self.images);
            *self.next = time + 1;
            wanted = (self.f)(Timestamp::from_u64(time), Doc::from_prefix(self.buf));
        }
        Some(wanted)
    }
}
