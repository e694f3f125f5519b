//! The latest lines, for `getLog`.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Most lines kept.
pub const LINES_MAX: usize = 1024;
/// Most bytes of lines kept.
const BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<String>,
    bytes: usize,
    written: i64,
    warnings: Vec<String>,
}

/// A ring of the latest lines, and all warnings of the start.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<Ring>);

impl Lines {
    pub(crate) fn push(&self, line: String, of_start: bool) {
        let mut kept = self.0.lock();
        if of_start {
            kept.warnings.push(line.clone());
        }
        kept.written += 1;
        kept.bytes += line.len();
        kept.lines.push_back(line);
        while kept.lines.len() > LINES_MAX || kept.bytes > BYTES_MAX && kept.lines.len() > 1 {
            let gone = kept.lines.pop_front().map_or(0, |l| l.len());
            kept.bytes -= gone;
        }
    }

    /// The lines, oldest first, and the number of lines ever written.
    pub(crate) fn all(&self) -> (Vec<String>, i64) {
        let kept = self.0.lock();
        (kept.lines.iter().cloned().collect(), kept.written)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.0.lock().warnings.clone()
    }
}
