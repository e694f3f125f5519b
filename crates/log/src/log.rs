//! The log: which entries are written, and to which sink.

use crate::entry::{Entry, Severity};
use crate::lines::Lines;
use crate::sink::Sink;
use model::{ArrayWriter, Doc, DocBuf, DocWriter, Value};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Replaces a client's value if the log may not contain any.
pub const REDACTED: &str = "###";

/// The log.
#[derive(Debug, Default)]
pub struct Log {
    lines: Lines,
    sink: OnceLock<Sink>,
    verbosity: AtomicU8,
    quiet: AtomicBool,
    redacts: AtomicBool,
}

impl Log {
    /// A log that only keeps the latest lines in memory.
    pub fn new() -> Log {
        Log::default()
    }

    /// Writes further lines to `sink`, too. Only the first call has an effect.
    pub fn to(&self, sink: Sink) {
        let _ = self.sink.set(sink);
    }

    /// Shows debug entries up to this level.
    pub fn set_verbosity(&self, level: u8) {
        self.verbosity.store(level, Relaxed);
    }

    /// Whether debug entries of this level are shown.
    pub fn shows(&self, level: u8) -> bool {
        self.verbosity.load(Relaxed) >= level
    }

    /// Leaves out entries about connections and about commands that change the catalog, as mongod's
    /// `quiet`.
    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Relaxed);
    }

    /// See [`Log::set_quiet`].
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Relaxed)
    }

    /// Sets whether entries may not contain values of clients.
    pub fn set_redacts(&self, redacts: bool) {
        self.redacts.store(redacts, Relaxed);
    }

    /// See [`Log::set_redacts`]. The code that writes an entry must ask.
    pub fn redacts(&self) -> bool {
        self.redacts.load(Relaxed)
    }

    /// Writes an entry. Never waits for a device.
    pub fn write(&self, entry: &Entry) {
        if let Severity::Debug(level) = entry.severity
            && !self.shows(level)
        {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
        let line = entry.line(now_ms);
        if let Some(sink) = self.sink.get() {
            sink.write(&line, || entry.readable(now_ms));
        }
        self.lines.push(line, entry.of_start);
    }

    /// The latest lines, oldest first, and the number of lines ever written.
    pub fn lines(&self) -> (Vec<String>, i64) {
        self.lines.all()
    }

    /// The warnings of the start.
    pub fn startup_warnings(&self) -> Vec<String> {
        self.lines.warnings()
    }

    /// Starts a new file, if the log has one. The old lines are in a file with the returned name,
    /// or somebody else has renamed it.
    ///
    /// # Errors
    /// One line; the log continues in the old file.
    pub fn rotate(&self) -> Result<Option<PathBuf>, String> {
        self.sink.get().map_or(Ok(None), Sink::rotate)
    }

    /// Waits, up to a bound, until everything is written.
    pub fn flush(&self, at_most: Duration) {
        if let Some(sink) = self.sink.get() {
            sink.flush(at_most);
        }
    }

    /// Lines that were dropped because the device was too slow.
    pub fn lost_lines(&self) -> u64 {
        self.sink.get().map_or(0, Sink::lost_lines)
    }
}

/// The document with every value in it replaced.
pub fn redact_document(doc: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| redact_fields(doc, w))
}

fn redact_fields(doc: Doc<'_>, w: &mut DocWriter<'_>) {
    for (name, v) in doc.iter() {
        match v {
            Value::Document(d) => redact_fields(d, &mut w.doc(name)),
            Value::Array(a) => redact_items(a, &mut w.array(name)),
            _ => {
                w.put(name, REDACTED);
            }
        }
    }
}

fn redact_items(items: model::Array<'_>, w: &mut ArrayWriter<'_>) {
    for v in items.iter() {
        match v {
            Value::Document(d) => redact_fields(d, &mut w.doc()),
            Value::Array(a) => redact_items(a, &mut w.array()),
            _ => {
                w.push(REDACTED);
            }
        }
    }
}
