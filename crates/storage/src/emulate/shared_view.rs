//! Snapshots over a fixed state of an engine that they share with their cursors.

use super::chunks::{ChunkedCursor, RowSource};
use crate::{CommitPos, Cursor, CursorOpts, KeyRange, Reader, Result, Snapshot, Table};
use std::sync::Arc;
use std::time::Duration;

/// A fixed state of an engine.
pub trait FixedView: RowSource + 'static {
    /// Passes the value of a key to `f`; false when there is none.
    ///
    /// # Errors
    /// Those of the engine.
    fn get(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes the values of several keys to `each`, in their order.
    ///
    /// # Errors
    /// Those of the engine.
    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            let shown = &mut |value: &[u8]| each(index, Some(value));
            if !self.get(table, key, shown)? {
                each(index, None);
            }
        }
        Ok(())
    }

    /// The newest commit in the view.
    fn pos(&self) -> CommitPos;

    /// How long the view has been held.
    fn age(&self) -> Duration;

    /// See [`Snapshot::check`].
    ///
    /// # Errors
    /// As [`Snapshot::check`].
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A snapshot that shares its view with its cursors.
pub struct SharedView<V>(pub Arc<V>);

impl<V: FixedView> Reader for SharedView<V> {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.0.multi_get(table, keys, each)
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

impl<V: FixedView> Snapshot for SharedView<V> {
    fn pos(&self) -> CommitPos {
        self.0.pos()
    }

    fn age(&self) -> Duration {
        self.0.age()
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }
}
