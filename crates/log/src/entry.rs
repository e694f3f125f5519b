//! A log entry, with the fields that mongod's tools look for. Must not know: where lines are
//! written.

use crate::json;
use crate::shorten::{Truncation, shorten};
use model::extjson::log_time;
use model::{DocBuf, DocWriter};

/// The severity of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A level from 1 to 5; shown if the verbosity is at least this level.
    Debug(u8),
    /// For information.
    Info,
    /// To be looked at.
    Warning,
    /// Something failed.
    Error,
    /// The process cannot continue, or a command broke an invariant of the server.
    Fatal,
}

impl Severity {
    /// As MongoDB writes it: `I`, `W`, `E`, `F`, `D1` to `D5`.
    pub fn letter(self) -> &'static str {
        match self {
            Severity::Debug(0 | 1) => "D1",
            Severity::Debug(2) => "D2",
            Severity::Debug(3) => "D3",
            Severity::Debug(4) => "D4",
            Severity::Debug(_) => "D5",
            Severity::Info => "I",
            Severity::Warning => "W",
            Severity::Error => "E",
            Severity::Fatal => "F",
        }
    }

    /// The severity for MongoDB's letter.
    pub fn of(letter: char) -> Severity {
        match letter {
            'W' => Severity::Warning,
            'E' => Severity::Error,
            'F' => Severity::Fatal,
            'D' => Severity::Debug(1),
            _ => Severity::Info,
        }
    }
}

/// MongoDB's names for the parts of a server.
#[allow(missing_docs)]
pub mod component {
    pub const ACCESS: &str = "ACCESS";
    pub const COMMAND: &str = "COMMAND";
    pub const CONTROL: &str = "CONTROL";
    pub const INDEX: &str = "INDEX";
    pub const NETWORK: &str = "NETWORK";
    pub const REPLICATION: &str = "REPL";
    pub const STORAGE: &str = "STORAGE";
}

/// Ids of entries. Those below 90,000,000 are MongoDB's, with its meaning; the others are Quarry's.
#[allow(missing_docs)]
pub mod id {
    pub const STARTING: u32 = 4_615_611;
    pub const BUILD_INFO: u32 = 23_403;
    pub const OPERATING_SYSTEM: u32 = 51_765;
    pub const OPTIONS: u32 = 21_951;
    pub const NO_ACCESS_CONTROL: u32 = 22_120;
    pub const RUNS_AS_ROOT: u32 = 22_138;
    pub const FEW_FILES: u32 = 22_184;
    pub const PRIMARY: u32 = 21_331;
    pub const LISTENING_ON: u32 = 23_015;
    pub const WAITING_FOR_CONNECTIONS: u32 = 23_016;
    pub const CONNECTION_ACCEPTED: u32 = 22_943;
    pub const CONNECTION_ENDED: u32 = 22_944;
    pub const CONNECTION_REFUSED: u32 = 22_942;
    pub const CONNECTION_BROKEN: u32 = 22_988;
    pub const CLIENT_METADATA: u32 = 51_800;
    pub const SLOW_QUERY: u32 = 51_803;
    pub const AUTHENTICATED: u32 = 5_286_306;
    pub const NOT_AUTHENTICATED: u32 = 5_286_307;
    pub const CREATE_COLLECTION: u32 = 20_320;
    pub const DROP: u32 = 518_070;
    pub const DROP_DATABASE_STARTS: u32 = 20_337;
    pub const DROP_DATABASE: u32 = 20_336;
    pub const RENAME: u32 = 20_400;
    pub const COLL_MOD: u32 = 5_324_200;
    pub const DROP_INDEXES: u32 = 51_806;
    pub const INDEX_STARTS: u32 = 20_384;
    pub const INDEX_GOES_ON: u32 = 51_773;
    pub const INDEX_DONE: u32 = 20_345;
    pub const INDEX_FAILED: u32 = 20_649;
    pub const SIGNAL: u32 = 23_377;
    pub const TERMINATES: u32 = 23_381;
    pub const NOW_EXITING: u32 = 20_565;
    pub const SHUTTING_DOWN: u32 = 23_138;
    pub const ROTATES: u32 = 23_166;
    pub const ROTATION_FAILED: u32 = 23_168;
    pub const RENAMED_OLD: u32 = 20_697;
    pub const APPLICATION_MESSAGE: u32 = 90_000_006;

    /// A message of a background thread; messages differ by their text.
    pub const MESSAGE: u32 = 90_000_001;
    pub const LOST_LINES: u32 = 90_000_002;
    pub const PANIC: u32 = 90_000_003;
    pub const STALL: u32 = 90_000_004;
    pub const OPEN_TO_ALL: u32 = 90_000_005;
    pub const LEFT_OUT: u32 = 90_000_007;
    pub const EXPORT_FAILS: u32 = 90_000_008;
    pub const EXPORT_WORKS: u32 = 90_000_009;
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(crate) severity: Severity,
    pub(crate) component: &'static str,
    pub(crate) id: u32,
    pub(crate) context: String,
    pub(crate) message: String,
    pub(crate) attr: DocBuf,
    /// Where attributes were truncated, if they were.
    pub(crate) cut: Option<Truncation>,
    pub(crate) of_start: bool,
}

impl Entry {
    /// An informational entry. `context` names the thread or connection, such as `conn12`.
    pub fn info(id: u32, component: &'static str, context: &str, message: &str) -> Entry {
        Entry {
            severity: Severity::Info,
            component,
            id,
            context: context.to_owned(),
            message: message.to_owned(),
            attr: DocBuf::new(),
            cut: None,
            of_start: false,
        }
    }

    /// Sets the severity.
    #[must_use]
    pub fn severity(self, severity: Severity) -> Entry {
        Entry { severity, ..self }
    }

    /// Adds attributes.
    #[must_use]
    pub fn attr(mut self, write: impl FnOnce(&mut DocWriter<'_>)) -> Entry {
        self.attr = DocBuf::build(write);
        if let Some((attr, cut)) = shorten(self.attr.doc()) {
            self.attr = attr;
            self.cut = Some(cut);
        }
        self
    }

    /// Marks it as a warning of the start, which `getLog: "startupWarnings"` also shows.
    #[must_use]
    pub fn of_start(self) -> Entry {
        Entry {
            severity: Severity::Warning,
            of_start: true,
            ..self
        }
    }

    /// The line, as mongod writes it.
    pub(crate) fn line(&self, now_ms: i64) -> String {
        let mut out = String::with_capacity(192 + self.attr.doc().len_bytes() * 2);
        out.push_str("{\"t\":{\"$date\":\"");
        out.push_str(&log_time(now_ms));
        out.push_str("\"},\"s\":\"");
        out.push_str(self.severity.letter());
        let pad = |out: &mut String, from: usize, width: usize| {
            while out.len() < from + width {
                out.push(' ');
            }
        };
        // Padded to mongod's columns, for human readers.
        let from = out.len() - self.severity.letter().len();
        out.push_str("\",");
        pad(&mut out, from, 5);
        out.push_str("\"c\":");
        let from = out.len();
        json::string(&mut out, self.component);
        out.push(',');
        pad(&mut out, from, 12);
        out.push_str("\"id\":");
        let from = out.len();
        out.push_str(&self.id.to_string());
        out.push(',');
        pad(&mut out, from, 9);
        out.push_str("\"ctx\":");
        json::string(&mut out, &self.context);
        out.push_str(",\"msg\":");
        json::string(&mut out, &self.message);
        if !self.attr.doc().is_empty() {
            out.push_str(",\"attr\":");
            json::append_document(&mut out, self.attr.doc());
        }
        if self.of_start {
            out.push_str(",\"tags\":[\"startupWarnings\"]");
        }
        if let Some(cut) = &self.cut {
            out.push_str(",\"truncated\":");
            json::append_document(&mut out, cut.truncated.doc());
            out.push_str(",\"size\":");
            json::append_document(&mut out, cut.size.doc());
        }
        out.push('}');
        out
    }

    /// The line for a reader at a terminal.
    pub(crate) fn readable(&self, now_ms: i64) -> String {
        let mut out = String::with_capacity(128);
        out.push_str(&log_time(now_ms));
        // The time up to the second, without the zone, which is always UTC.
        out.truncate(19);
        let (severity, component, context) =
            (self.severity.letter(), self.component, &self.context);
        out.push_str(&format!("Z {severity:<2} {component:<8} [{context}] "));
        out.push_str(&self.message);
        if !self.attr.doc().is_empty() {
            out.push(' ');
            json::append_document(&mut out, self.attr.doc());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_fields_of_mongod_in_its_order() {
        let entry =
            Entry::info(id::CONNECTION_ACCEPTED, "NETWORK", "listener", "a \"b\"").attr(|w| {
                w.put("connectionId", 7i64);
            });
        assert_eq!(
            entry.line(0),
            concat!(
                r#"{"t":{"$date":"1970-01-01T00:00:00.000+00:00"},"s":"I",  "c":"NETWORK",  "#,
                r#""id":22943,   "ctx":"listener","msg":"a \"b\"","attr":{"connectionId":7}}"#
            )
        );
        let warning = Entry::info(1, "CONTROL", "main", "m").of_start().line(0);
        assert!(
            warning.ends_with(",\"tags\":[\"startupWarnings\"]}"),
            "{warning}"
        );
        assert!(warning.contains("\"s\":\"W\""), "{warning}");
    }
}
