//! Counts of operations, as `serverStatus` shows them. Plain relaxed atomics.

use crate::registry::OpClass;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Runs and failures of one command.
#[derive(Debug, Default)]
pub struct CommandCount {
    /// Runs.
    pub total: AtomicI64,
    /// Runs that ended in an error.
    pub failed: AtomicI64,
}

/// All counts of a service.
#[derive(Debug, Default)]
pub struct Counters {
    classes: [AtomicI64; 6],
    commands: Box<[CommandCount]>,
    unknown: AtomicI64,
    /// Requests received.
    pub requests: AtomicI64,
    /// Bytes received; moved by the server.
    pub bytes_in: AtomicI64,
    /// Bytes sent; moved by the server.
    pub bytes_out: AtomicI64,
    /// Commands running now.
    pub active: AtomicI64,
    /// Errors a client caused.
    pub user_asserts: AtomicI64,
}

impl Counters {
    /// Zeroes for so many commands.
    pub fn new(commands: usize) -> Counters {
        Counters { commands: (0..commands).map(|_| CommandCount::default()).collect(), ..Counters::default() }
    }
    pub(crate) fn begin(&self, command: usize, class: OpClass) {
        self.requests.fetch_add(1, Relaxed);
        self.active.fetch_add(1, Relaxed);
        self.add(class, 1);
        if let Some(c) = self.commands.get(command) {
            c.total.fetch_add(1, Relaxed);
        }
    }
    pub(crate) fn end(&self, command: usize, failed: bool) {
        self.active.fetch_sub(1, Relaxed);
        if failed {
            self.user_asserts.fetch_add(1, Relaxed);
            if let Some(c) = self.commands.get(command) {
                c.failed.fetch_add(1, Relaxed);
            }
        }
    }
    pub(crate) fn unknown_command(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.user_asserts.fetch_add(1, Relaxed);
        self.unknown.fetch_add(1, Relaxed);
    }
    /// Moves a class by more than its one command, as an insert of many documents does.
    pub fn add(&self, class: OpClass, n: i64) {
        self.classes[class as usize].fetch_add(n, Relaxed);
    }
    /// Count of a class.
    pub fn class(&self, class: OpClass) -> i64 {
        self.classes[class as usize].load(Relaxed)
    }
    /// Counts of a command by its number in the registry.
    pub fn command(&self, number: usize) -> Option<&CommandCount> {
        self.commands.get(number)
    }
    /// Requests for commands that do not exist.
    pub fn unknown(&self) -> i64 {
        self.unknown.load(Relaxed)
    }
}
