//! Snapshots as callers hold them: a view that cursors share.

use std::sync::Arc;
use std::time::Duration;

use storage::emulate::ChunkedCursor;
use storage::{CommitPos, Cursor, CursorOpts, KeyRange, Reader, Result, Snapshot, Table};

use crate::view::View;

/// A snapshot as callers hold it.
pub(crate) struct SharedView(pub(crate) Arc<View>);

impl Reader for SharedView {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            let shown = &mut |value: &[u8]| each(index, Some(value));
            if !self.0.get(table, key, shown)? {
                each(index, None);
            }
        }
        Ok(())
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        let view = Arc::clone(&self.0);
        Ok(Box::new(ChunkedCursor::new(view, table, range, opts)))
    }
}

impl Snapshot for SharedView {
    fn pos(&self) -> CommitPos {
        CommitPos(self.0.pos())
    }

    fn age(&self) -> Duration {
        self.0.age()
    }
}
