//! What all scans can do: show rows in place, some at a time.

use model::Result;
use operators::Env;
use store::{Collection, IndexScan, RowVisitor};

/// A scan that runs in steps.
pub(super) trait Steps {
    /// Shows at most `max` rows; false at the end.
    fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool>;

    /// Index entries examined so far.
    fn keys_examined(&self) -> u64;

    /// Documents read so far, for a scan that does not read each row that it shows.
    fn documents_read(&self) -> Option<u64> {
        None
    }

    /// Releases the position in the store until the next step.
    fn pause(&mut self);
}

impl Steps for IndexScan {
    fn visit(
        &mut self,
        _: &Collection,
        _: &Env,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        IndexScan::visit(self, max, f)
    }
    fn keys_examined(&self) -> u64 {
        IndexScan::keys_examined(self)
    }
    fn pause(&mut self) {
        IndexScan::pause(self);
    }
}
