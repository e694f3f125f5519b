//! Two engines that execute every call together: the first difference panics. One of them is
//! usually the memory engine. Ranges given to `drop_range` or `set_dropped` may differ afterwards;
//! the contract forbids reading them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::batch::WriteBatch;
use crate::engine::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, FlushOutcome, Reader,
    Snapshot, StatSink, VerifyReport, WriteClass,
};
use crate::error::{Result, StorageError};
use crate::keys::{IdentSet, KeyRange, Table};

/// Runs two engines at once. Its capabilities are those that both have; positions, durability and
/// statistics are those of the first.
pub struct Mirror {
    caps: Caps,
    first: Arc<dyn Engine>,
    second: Arc<dyn Engine>,
    // Writers exclude readers while only one of the two engines has applied a write.
    order: RwLock<()>,
}

impl Mirror {
    /// Both engines must hold the same data, e.g. none.
    pub fn new(first: Arc<dyn Engine>, second: Arc<dyn Engine>) -> Self {
        Self {
            caps: common(first.caps(), second.caps()),
            first,
            second,
            order: RwLock::new(()),
        }
    }
}

fn common(first: &Caps, second: &Caps) -> Caps {
    Caps {
        name: first.name,
        persistent: first.persistent && second.persistent,
        key_bytes_max: first.key_bytes_max.min(second.key_bytes_max),
        value_bytes_max: first.value_bytes_max.min(second.value_bytes_max),
        batch_bytes_max: first.batch_bytes_max.min(second.batch_bytes_max),
        delete_range: first.delete_range && second.delete_range,
        checkpoint: first.checkpoint && second.checkpoint,
        request_rows: first.request_rows.max(second.request_rows),
        spreads: first.spreads && second.spreads,
    }
}

// Both must succeed or both must fail with the same variant of error; its text may differ.
fn same<T>(call: &str, first: Result<T>, second: Result<T>) -> Result<(T, T)> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(first), Err(second)) => {
            assert_eq!(
                std::mem::discriminant(&first),
                std::mem::discriminant(&second),
                "{call}: {first} / {second}"
            );
            Err(first)
        }
        (first, second) => panic!("{call}: {:?} / {:?}", first.err(), second.err()),
    }
}

fn get_both(
    first: &dyn Reader,
    second: &dyn Reader,
    table: Table,
    key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let read = |engine: &dyn Reader| -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        Ok(engine.get(table, key, &mut out)?.then_some(out))
    };
    let (first, second) = same("get", read(first), read(second))?;
    assert_eq!(first, second, "get {table:?} {key:02x?}");
    Ok(first)
}

fn multi_get_both(
    first: &dyn Reader,
    second: &dyn Reader,
    table: Table,
    keys: &[&[u8]],
    each: &mut dyn FnMut(usize, Option<&[u8]>),
) -> Result<()> {
    let read = |engine: &dyn Reader| -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        engine.multi_get(table, keys, &mut |_, value| {
            values.push(value.map(<[u8]>::to_vec))
        })?;
        Ok(values)
    };
    let (first, second) = same("multi_get", read(first), read(second))?;
    assert_eq!(first, second, "multi_get {table:?} {keys:02x?}");
    for (index, value) in first.iter().enumerate() {
        each(index, value.as_deref());
    }
    Ok(())
}

fn cursor_both(
    first: &dyn Reader,
    second: &dyn Reader,
    table: Table,
    range: KeyRange<'_>,
    opts: CursorOpts,
) -> Result<Box<dyn Cursor>> {
    let (first, second) = same(
        "cursor",
        first.cursor(table, range, opts),
        second.cursor(table, range, opts),
    )?;
    Ok(Box::new(MirrorCursor { first, second }))
}

struct MirrorCursor {
    first: Box<dyn Cursor>,
    second: Box<dyn Cursor>,
}

impl Cursor for MirrorCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        same("seek", self.first.seek(key), self.second.seek(key)).map(|_| ())
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let mut rows = Vec::new();
        let mut last = true;
        let first = self.first.visit(rows_max, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            last = f(key, value);
            last
        });
        let (mut index, count) = (0, rows.len());
        let second = self.second.visit(rows_max, &mut |key, value| {
            let expected = rows
                .get(index)
                .map(|(key, value)| (key.as_slice(), value.as_slice()));
            assert_eq!(
                expected,
                Some((key, value)),
                "row {index} of a scan differs"
            );
            index += 1;
            last || index < count
        });
        let (first, second) = same("visit", first, second)?;
        assert_eq!(index, count, "the second engine delivers fewer rows");
        // "There may be more" is a hint: one engine may know the end while the other does not.
        Ok(first && second)
    }
}

struct MirrorSnapshot {
    first: Arc<dyn Snapshot>,
    second: Arc<dyn Snapshot>,
}

impl Reader for MirrorSnapshot {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(get_both(&*self.first, &*self.second, table, key)?
            .map(|value| f(&value))
            .is_some())
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        multi_get_both(&*self.first, &*self.second, table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        cursor_both(&*self.first, &*self.second, table, range, opts)
    }
}

impl Snapshot for MirrorSnapshot {
    fn pos(&self) -> CommitPos {
        self.first.pos()
    }

    fn age(&self) -> Duration {
        self.first.age()
    }
}

impl Reader for Mirror {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let _order = self.order.read();
        Ok(get_both(&*self.first, &*self.second, table, key)?
            .map(|value| f(&value))
            .is_some())
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let _order = self.order.read();
        multi_get_both(&*self.first, &*self.second, table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        let _order = self.order.read();
        cursor_both(&*self.first, &*self.second, table, range, opts)
    }
}

impl Engine for Mirror {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let _order = self.order.read();
        let (first, second) = same("snapshot", self.first.snapshot(), self.second.snapshot())?;
        Ok(Arc::new(MirrorSnapshot { first, second }))
    }

    fn admit(&self, bytes: usize, class: WriteClass) -> Duration {
        self.first.admit(bytes, class)
    }

    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        let _order = self.order.write();
        let first = self.first.apply(batch, durability);
        // The first engine refused before it changed anything, by a limit or a condition of its
        // own: the second must not apply the batch alone.
        if let Err(error) = &first
            && error.is_clean_refusal()
        {
            return first;
        }
        same("apply", first, self.second.apply(batch, durability)).map(|(pos, _)| pos)
    }

    fn last_pos(&self) -> CommitPos {
        self.first.last_pos()
    }

    fn durable_pos(&self) -> CommitPos {
        self.first.durable_pos()
    }

    fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.first.wait_durable(pos)
    }

    fn request_flush(&self, pos: CommitPos) {
        self.first.request_flush(pos);
    }

    fn try_flush(&self, pos: CommitPos) -> FlushOutcome {
        self.first.try_flush(pos)
    }

    fn on_durable(&self, hook: DurableHook) {
        self.first.on_durable(hook);
    }

    fn expect_size(&self, table: Table, bytes: u64) {
        self.first.expect_size(table, bytes);
        self.second.expect_size(table, bytes);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        let _order = self.order.write();
        same(
            "drop_range",
            self.first.drop_range(table, range),
            self.second.drop_range(table, range),
        )
        .map(|_| ())
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        let _order = self.order.write();
        self.first.set_dropped(table, Arc::clone(&idents));
        self.second.set_dropped(table, idents);
    }

    // They may remove keys at different times; the set is common, so an ident is gone when both say
    // so.
    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        Ok(self.first.is_gone(table, ident)? && self.second.is_gone(table, ident)?)
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.first.approx_size(table, range)
    }

    fn unused_size(&self, table: Table, range: KeyRange<'_>, rows: Option<u64>) -> Result<u64> {
        self.first.unused_size(table, range, rows)
    }

    fn compact(&self, table: Table, range: KeyRange<'_>, stop: &dyn Fn() -> bool) -> Result<u64> {
        let first = self.first.compact(table, range, stop)?;
        self.second.compact(table, range, stop).map(|_| first)
    }

    fn bytes_read_here(&self) -> Option<u64> {
        self.first.bytes_read_here()
    }

    fn shared_time_ms(&self) -> Option<u64> {
        self.first.shared_time_ms()
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        self.first.stats(sink);
    }

    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.first.checkpoint(path)
    }

    fn verify(&self) -> Result<VerifyReport> {
        let (mut first, second) = same("verify", self.first.verify(), self.second.verify())?;
        first.findings.extend(second.findings);
        Ok(first)
    }

    fn flush(&self) -> Result<()> {
        let _order = self.order.write();
        same("flush", self.first.flush(), self.second.flush()).map(|_| ())
    }

    fn close(&self) -> Result<()> {
        let _order = self.order.write();
        same("close", self.first.close(), self.second.close()).map(|_| ())
    }
}

impl Mirror {
    /// Compares every table of the two engines in full, except for ranges that were given up.
    ///
    /// # Errors
    /// [`StorageError`] of a failing scan; differences panic.
    pub fn compare_all(&self) -> std::result::Result<u64, StorageError> {
        let mut rows = 0;
        for table in Table::ALL {
            let mut cursor = self.cursor(table, KeyRange::ALL, CursorOpts::default())?;
            while cursor.visit(1024, &mut |_, _| {
                rows += 1;
                true
            })? {}
        }
        Ok(rows)
    }
}
