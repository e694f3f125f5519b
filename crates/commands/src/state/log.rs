//! The last lines of the server's log, for `getLog`. The server writes them here and to its own
//! sink.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Lines kept.
pub const LINES_MAX: usize = 1024;

/// Ring of lines.
#[derive(Default)]
pub struct LogLines {
    ring: Mutex<(VecDeque<String>, i64)>,
}

impl LogLines {
    /// Appends a line.
    pub fn push(&self, line: String) {
        let mut ring = self.ring.lock();
        if ring.0.len() == LINES_MAX {
            ring.0.pop_front();
        }
        ring.0.push_back(line);
        ring.1 += 1;
    }
    /// The lines kept, oldest first, and how many were ever written.
    pub fn lines(&self) -> (Vec<String>, i64) {
        let ring = self.ring.lock();
        (ring.0.iter().cloned().collect(), ring.1)
    }
    /// Forgets the lines kept.
    pub fn clear(&self) {
        *self.ring.lock() = (VecDeque::new(), 0);
    }
}

/// One line in the structured form MongoDB's tools parse.
pub fn line(now_ms: i64, severity: char, component: &str, context: &str, message: &str) -> String {
    let escape = |s: &str| {
        s.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let time = format!(r#"{{"$date":{{"$numberLong":"{now_ms}"}}}}"#);
    format!(
        r#"{{"t":{time},"s":"{severity}","c":"{}","ctx":"{}","msg":"{}"}}"#,
        escape(component),
        escape(context),
        escape(message)
    )
}
