//! The progress of a long operation, as reports show it.

/// The current activity of an operation, and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current activity.
    pub message: &'static str,
    /// Steps that are done.
    pub done: u64,
    /// Estimated number of all steps.
    pub total: u64,
}
