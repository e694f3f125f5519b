//! What scans have in common: they show rows in place, a number of them at a time.

use model::Result;
use operators::Env;
use store::{Collection, EachRow, IndexScan};

/// A scan that is stepped.
pub(super) trait Steps {
    /// Shows no more than `max` rows; false when nothing is left.
    fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut EachRow<'_>,
    ) -> Result<bool>;

    /// Index entries looked at so far.
    fn keys_examined(&self) -> u64;

    /// Lets go of the position in the store, until the next step.
    fn pause(&mut self);
}

impl Steps for IndexScan {
    fn visit(&mut self, _: &Collection, _: &Env, max: usize, f: &mut EachRow<'_>) -> Result<bool> {
        IndexScan::visit(self, max, f)
    }
    fn keys_examined(&self) -> u64 {
        IndexScan::keys_examined(self)
    }
    fn pause(&mut self) {
        IndexScan::pause(self);
    }
}
