//! What tidy reports.

use std::fmt;

/// One thing that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Repository path of the file.
    pub(crate) file: String,
    /// Line number, from 1; 0 for the whole file.
    pub(crate) line: usize,
    /// The error and what is allowed.
    pub(crate) message: String,
}

impl Finding {
    pub(super) fn new(file: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.file, self.message),
            line => write!(out, "{}:{line}: {}", self.file, self.message),
        }
    }
}
