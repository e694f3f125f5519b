//! The settings of a follower, and how it ended. Must not know: how it works.

use crate::address::Address;
use crate::names::Names;
use std::time::Duration;

/// The settings of a follower.
#[derive(Clone)]
pub struct Settings {
    /// The source.
    pub source: Address,
    /// The target.
    pub target: Address,
    /// The namespaces and their new names.
    pub names: Names,
    /// Most bytes a second that are copied.
    pub rate: Option<u64>,
    /// Longest average time of a client's write to the source before copying gets slower.
    pub latency: Option<Duration>,
    /// Number of ranges copied at once.
    pub workers: usize,
    /// Drop what an earlier run has copied first.
    pub restart: bool,
    /// Read the source's log instead of change streams.
    pub by_log: bool,
    /// Copy users and roles at the cut-over.
    pub users: bool,
    /// Keep the target as a standby of the source.
    pub standby: bool,
    /// After the cut-over the source follows the target.
    pub reverse: bool,
}

/// How a follower ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowOutcome {
    /// It was stopped; it can continue later.
    Stopped,
    /// The target is independent.
    Done,
}
