//! What a reply reports of stored data. It decides what has to be durable before the reply may be
//! sent (`durability` of the dispatcher).

use store::CommitPos;

/// What a reply reports of stored data. The command sets it while it runs, so that it also applies
/// to an error reply.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyState {
    /// The position of the last commit of the command itself.
    pub own: CommitPos,
    /// The reply shows what others wrote.
    pub others: bool,
    /// The command wrote.
    pub wrote: bool,
    /// What the reply shows must be durable before it is sent.
    pub durable_reads: bool,
}

impl ReplyState {
    /// The command has written, and this position covers its writes.
    pub fn own_write(&mut self, pos: CommitPos) {
        self.own = self.own.max(pos);
        self.wrote = true;
    }
    /// The reply reports more than its own writes: data that was found, not found, refused or left
    /// unchanged.
    pub fn add_other_data(&mut self) {
        self.others = true;
    }
    /// The command writes or may have written, at an unknown position.
    pub fn writes_somewhere(&mut self) {
        self.wrote = true;
        self.others = true;
    }
    /// The command continues a read whose read concern promised durable data.
    pub fn durable_reads(&mut self, promised: bool) {
        self.durable_reads |= promised;
    }
    /// True when the command wrote or may have written.
    pub fn has_written(&self) -> bool {
        self.wrote
    }
}
