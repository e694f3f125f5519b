//! What a reply tells its client of stored data, from which follows what has to be durable before
//! the reply may be sent (`crate::dispatch::durability`).

use store::CommitPos;

/// What a reply tells its client of data. Filled in by the command while it runs, so that it also
/// holds for its error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reported {
    pub(crate) own: CommitPos,
    pub(crate) others: bool,
    pub(crate) wrote: bool,
    pub(crate) durable_reads: bool,
}

impl Reported {
    /// The command wrote, and this position covers it.
    pub fn own_write(&mut self, pos: CommitPos) {
        self.own = self.own.max(pos);
        self.wrote = true;
    }
    /// The reply tells of more than its own writes: what was found, not found, refused or left as
    /// it was.
    pub fn others(&mut self) {
        self.others = true;
    }
    /// The command writes, or may have written, and does not know where.
    pub fn writes_somewhere(&mut self) {
        self.wrote = true;
        self.others = true;
    }
    /// It goes on with a read whose read concern promised durable data.
    pub fn durable_reads(&mut self, promised: bool) {
        self.durable_reads |= promised;
    }
    /// True when the command wrote or may have written.
    pub fn has_written(&self) -> bool {
        self.wrote
    }
}
