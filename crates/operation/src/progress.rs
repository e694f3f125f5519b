//! The progress of a long operation, as reports show it.

/// What an operation is doing, and how much of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub message: &'static str,
    /// Steps that are done.
    pub done: u64,
    /// Estimated number of all steps.
    pub total: u64,
}
