//! Counters for `serverStatus`. Promises: relaxed atomics, one cache line per set of drivers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one set; [`NetStats`] is their sum.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counters {
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) refused_messages: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) long_requests: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// Counters of the network layer since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetStats {
    /// Open connections.
    pub current_connections: u64,
    /// Connections accepted.
    pub total_connections: u64,
    /// Connections refused because of `maxConns`.
    pub rejected_connections: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Requests given to the handler.
    pub requests: u64,
    /// Messages the codec refused.
    pub refused_messages: u64,
    /// Handler panics turned into error replies.
    pub panics: u64,
    /// Requests that ran on a thread of their own.
    pub long_requests: u64,
    /// Times a request blocked its set so long that a spare driver took the set over.
    pub spare_drivers: u64,
}

impl NetStats {
    pub(super) fn add(&mut self, c: &Counters) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.bytes_in += get(&c.bytes_in);
        self.bytes_out += get(&c.bytes_out);
        self.requests += get(&c.requests);
        self.refused_messages += get(&c.refused_messages);
        self.panics += get(&c.panics);
        self.long_requests += get(&c.long_requests);
    }
}
