//! Whom a log is kept for. Must not know: what it has.

/// Whom a log is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody: it tells of all changes, and a collection shows it.
    Everybody,
    /// Consumers alone: it tells of changes in collections with search indexes, and no client sees
    /// it.
    Consumers,
}
