//! What a follower is told to do, and how it ended. Must not know: how it is done.

use crate::address::Address;
use crate::names::Names;
use std::time::Duration;

/// What is to be done.
#[derive(Clone)]
pub struct Settings {
    /// From where.
    pub source: Address,
    /// To where.
    pub target: Address,
    /// What, and under which names.
    pub names: Names,
    /// Most bytes a second that are copied.
    pub rate: Option<u64>,
    /// How long a write of the source's clients may take on average before copying gets slower.
    pub latency: Option<Duration>,
    /// Ranges copied at once.
    pub workers: usize,
    /// What an earlier one has copied is dropped first.
    pub restart: bool,
    /// The source's log is read in place of change streams.
    pub by_log: bool,
    /// Users and roles are moved at the cut-over.
    pub users: bool,
    /// The target is a standby of the source.
    pub standby: bool,
    /// After the cut-over the source is fed from the target.
    pub reverse: bool,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to; it can go on later.
    Stopped,
    /// The target is its own.
    Done,
}
