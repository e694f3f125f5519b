//! The readers of a log. Must not know: its entries.

/// The readers for which a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All readers: the log has all changes, and a collection shows it.
    Everybody,
    /// Only consumers: the log has the changes of collections with search indexes, and no client
    /// sees it.
    Consumers,
}
