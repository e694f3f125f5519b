//! How far a long operation has come, for those who look at it.

/// What an operation is doing, and how much of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub message: &'static str,
    /// Steps that are done.
    pub done: u64,
    /// Steps there will be, about.
    pub total: u64,
}
