//! An engine that shows every call to an [`Observer`] before and after it; the observer may refuse
//! the call. The contract checker, the recorder and the fault injector are observers; none of them
//! forwards calls itself.

mod contract;
mod faulty;
mod held;
mod recording;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::WriteBatch;
use crate::engine::{
    Caps, CheckedUnit, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, FlushEvent,
    FlushOutcome, Reader, Snapshot, StatSink, VerifyReport, WriteClass,
};
use crate::error::{Result, StorageError};
use crate::keys::{IdentSet, KeyRange, Table};

pub use contract::Contract;
pub use faulty::{Fault, FaultInjector};
pub use held::HeldJournal;
pub use recording::{RecordedChange, Recorder};

/// One call on its way to the engine.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Call<'a> {
    Get {
        table: Table,
        key: &'a [u8],
    },
    MultiGet {
        table: Table,
        keys: &'a [&'a [u8]],
    },
    Cursor {
        table: Table,
        range: KeyRange<'a>,
        opts: CursorOpts,
    },
    Seek {
        key: &'a [u8],
    },
    Visit {
        rows_max: usize,
    },
    Snapshot,
    Apply {
        batch: &'a WriteBatch,
        durability: Durability,
    },
    WaitDurable {
        pos: CommitPos,
    },
    DropRange {
        table: Table,
        range: KeyRange<'a>,
    },
    SetDropped {
        table: Table,
        idents: &'a IdentSet,
    },
    ApproxSize {
        table: Table,
        range: KeyRange<'a>,
    },
    Checkpoint {
        path: &'a Path,
    },
    Verify,
    Flush,
    Close,
}

/// Receives the calls to an engine.
pub trait Observer: Send + Sync {
    /// Called before the engine; an error refuses the call, and the engine never sees it.
    fn before_call(&self, call: &Call<'_>, caps: &Caps) -> Result<()>;

    /// Called with the outcome (of `apply`: the position); may turn success into an error.
    fn after_call(
        &self,
        call: &Call<'_>,
        outcome: std::result::Result<CommitPos, &StorageError>,
    ) -> Result<()> {
        let _ = (call, outcome);
        Ok(())
    }

    /// Called when a writer announces its bytes, before it takes locks.
    fn note_admitted(&self, bytes: usize, class: WriteClass) {
        let _ = (bytes, class);
    }

    /// Called with the position that the engine reports as durable; may report a lower one.
    fn durable(&self, real: CommitPos) -> CommitPos {
        real
    }
}

/// An engine under observation. It panics when a cursor delivers rows out of order or out of
/// bounds, whichever observer it has.
pub struct ObservedEngine<O: Observer> {
    inner: Arc<dyn Engine>,
    observer: Arc<O>,
}

impl<O: Observer> ObservedEngine<O> {
    /// Puts `observer` before `inner`.
    pub fn new(inner: Arc<dyn Engine>, observer: O) -> Self {
        Self {
            inner,
            observer: Arc::new(observer),
        }
    }

    /// The observer, e.g. to ask for what it recorded.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    fn observe_call<T>(&self, call: Call<'_>, run: impl FnOnce() -> Result<T>) -> Result<T> {
        observe_call(
            &*self.observer,
            self.inner.caps(),
            &call,
            |_| CommitPos::default(),
            run,
        )
    }
}

fn observe_call<T>(
    observer: &dyn Observer,
    caps: &Caps,
    call: &Call<'_>,
    pos: impl FnOnce(&T) -> CommitPos,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    observer.before_call(call, caps)?;
    match run() {
        Ok(value) => observer.after_call(call, Ok(pos(&value))).map(|()| value),
        Err(error) => observer.after_call(call, Err(&error)).and(Err(error)),
    }
}

// Reads work the same way on an engine and on a snapshot.
struct ObservedReader<'a> {
    read: &'a dyn Reader,
    caps: &'a Caps,
    observer: Arc<dyn Observer>,
}

impl ObservedReader<'_> {
    fn observe_call<T>(&self, call: Call<'_>, run: impl FnOnce() -> Result<T>) -> Result<T> {
        observe_call(
            &*self.observer,
            self.caps,
            &call,
            |_| CommitPos::default(),
            run,
        )
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        let inner = self.observe_call(Call::Cursor { table, range, opts }, || {
            self.read.cursor(table, range, opts)
        })?;
        Ok(Box::new(ObservedCursor {
            inner,
            observer: Arc::clone(&self.observer),
            caps: self.caps.clone(),
            lower: range.lower.to_vec(),
            upper: range.upper.to_vec(),
            last: None,
            opts,
        }))
    }
}

macro_rules! reads {
    () => {
        fn get(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
            let reader = self.reader();
            reader.observe_call(Call::Get { table, key }, || {
                reader.read.get(table, key, out)
            })
        }

        fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
            let reader = self.reader();
            reader.observe_call(Call::Get { table, key }, || {
                reader.read.get_with(table, key, f)
            })
        }

        fn multi_get(
            &self,
            table: Table,
            keys: &[&[u8]],
            each: &mut dyn FnMut(usize, Option<&[u8]>),
        ) -> Result<()> {
            let reader = self.reader();
            reader.observe_call(Call::MultiGet { table, keys }, || {
                reader.read.multi_get(table, keys, each)
            })
        }

        fn cursor(
            &self,
            table: Table,
            range: KeyRange<'_>,
            opts: CursorOpts,
        ) -> Result<Box<dyn Cursor>> {
            self.reader().cursor(table, range, opts)
        }
    };
}

struct ObservedSnapshot {
    inner: Arc<dyn Snapshot>,
    observer: Arc<dyn Observer>,
    caps: Caps,
}

impl ObservedSnapshot {
    fn reader(&self) -> ObservedReader<'_> {
        ObservedReader {
            read: &*self.inner,
            caps: &self.caps,
            observer: Arc::clone(&self.observer),
        }
    }
}

impl Reader for ObservedSnapshot {
    reads!();
}

impl Snapshot for ObservedSnapshot {
    fn pos(&self) -> CommitPos {
        self.inner.pos()
    }

    fn age(&self) -> Duration {
        self.inner.age()
    }
}

struct ObservedCursor {
    inner: Box<dyn Cursor>,
    observer: Arc<dyn Observer>,
    caps: Caps,
    lower: Vec<u8>,
    upper: Vec<u8>,
    last: Option<Vec<u8>>,
    opts: CursorOpts,
}

impl Cursor for ObservedCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let inner = &mut self.inner;
        observe_call(
            &*self.observer,
            &self.caps,
            &Call::Seek { key },
            |()| CommitPos::default(),
            || inner.seek(key),
        )?;
        self.last = None;
        Ok(())
    }

    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let Self {
            inner,
            observer,
            caps,
            lower,
            upper,
            last,
            opts,
        } = self;
        let mut taken = 0;
        let mut checked = |key: &[u8], value: &[u8]| {
            taken += 1;
            assert!(
                taken <= rows_max,
                "the cursor delivers more rows than asked for"
            );
            let inside = KeyRange::new(lower, upper).contains(key);
            assert!(
                inside,
                "the cursor leaves its range: {key:02x?} is not in {lower:02x?}..{upper:02x?}"
            );
            if let Some(last) = last {
                let ordered = if opts.reverse {
                    key < last.as_slice()
                } else {
                    key > last.as_slice()
                };
                assert!(ordered, "the cursor delivers {key:02x?} after {last:02x?}");
            }
            assert!(
                !opts.keys_only || value.is_empty(),
                "a cursor of keys delivers a value"
            );
            let kept = last.get_or_insert_default();
            kept.clear();
            kept.extend_from_slice(key);
            f(key, value)
        };
        let call = Call::Visit { rows_max };
        observe_call(
            &**observer,
            caps,
            &call,
            |_| CommitPos::default(),
            || inner.visit(rows_max, &mut checked),
        )
    }
}

impl<O: Observer + 'static> ObservedEngine<O> {
    fn dyn_observer(&self) -> Arc<dyn Observer> {
        let observer: Arc<O> = Arc::clone(&self.observer);
        observer
    }

    fn reader(&self) -> ObservedReader<'_> {
        ObservedReader {
            read: &*self.inner,
            caps: self.inner.caps(),
            observer: self.dyn_observer(),
        }
    }
}

impl<O: Observer + 'static> Reader for ObservedEngine<O> {
    reads!();
}

impl<O: Observer + 'static> Engine for ObservedEngine<O> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let inner = self.observe_call(Call::Snapshot, || self.inner.snapshot())?;
        Ok(Arc::new(ObservedSnapshot {
            inner,
            observer: self.dyn_observer(),
            caps: self.inner.caps().clone(),
        }))
    }

    fn admit(&self, bytes: usize, class: WriteClass) -> Duration {
        self.observer.note_admitted(bytes, class);
        self.inner.admit(bytes, class)
    }

    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos> {
        let call = Call::Apply { batch, durability };
        observe_call(
            &*self.observer,
            self.inner.caps(),
            &call,
            |pos| *pos,
            || self.inner.apply(batch, durability),
        )
    }

    fn last_pos(&self) -> CommitPos {
        self.inner.last_pos()
    }

    fn durable_pos(&self) -> CommitPos {
        self.observer.durable(self.inner.durable_pos())
    }

    fn wait_durable(&self, pos: CommitPos) -> Result<()> {
        self.observe_call(Call::WaitDurable { pos }, || self.inner.wait_durable(pos))
    }

    fn request_flush(&self, pos: CommitPos) {
        self.inner.request_flush(pos);
    }

    fn try_flush(&self, pos: CommitPos) -> FlushOutcome {
        self.inner.try_flush(pos)
    }

    fn on_durable(&self, hook: DurableHook) {
        let observer = Arc::clone(&self.observer);
        self.inner.on_durable(Box::new(move |flushed| {
            hook(match flushed {
                FlushEvent::Durable(pos) => FlushEvent::Durable(observer.durable(pos)),
                other => other,
            });
        }));
    }

    /// Calls on a checked unit are not shown to the observer.
    fn begin_checked(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        self.inner.begin_checked()
    }

    fn begin_early(
        &self,
        at: CommitPos,
        keys: &[(Table, &[u8])],
    ) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        self.inner.begin_early(at, keys)
    }

    fn number_rows(&self, count: usize) -> Option<u64> {
        self.inner.number_rows(count)
    }

    fn written_at(&self, table: Table, key: &[u8], after: CommitPos) -> Result<Option<CommitPos>> {
        self.inner.written_at(table, key, after)
    }

    fn begin_exclusive(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        self.inner.begin_exclusive()
    }

    fn announce(&self, kept: fn(Table, &[u8]) -> bool) {
        self.inner.announce(kept);
    }

    fn announce_now(&self) -> Result<()> {
        self.inner.announce_now()
    }

    fn expect_counters(&self, counters: fn(&[u8]) -> bool) {
        self.inner.expect_counters(counters);
    }

    fn expect_size(&self, table: Table, bytes: u64) {
        self.inner.expect_size(table, bytes);
    }

    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()> {
        self.observe_call(Call::DropRange { table, range }, || {
            self.inner.drop_range(table, range)
        })
    }

    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>) {
        // This call cannot fail, so the observer cannot refuse it either.
        let _ = self.observer.before_call(
            &Call::SetDropped {
                table,
                idents: &idents,
            },
            self.inner.caps(),
        );
        self.inner.set_dropped(table, idents);
    }

    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        self.inner.is_gone(table, ident)
    }

    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64> {
        self.observe_call(Call::ApproxSize { table, range }, || {
            self.inner.approx_size(table, range)
        })
    }

    fn next_part(&self, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
        self.inner.next_part(table, range)
    }

    fn undamaged(&self, path: &Path) -> Result<Option<Arc<dyn Engine>>> {
        self.inner.undamaged(path)
    }

    fn unused_size(&self, table: Table, range: KeyRange<'_>, rows: Option<u64>) -> Result<u64> {
        self.inner.unused_size(table, range, rows)
    }

    fn compact(&self, table: Table, range: KeyRange<'_>, stop: &dyn Fn() -> bool) -> Result<u64> {
        self.inner.compact(table, range, stop)
    }

    fn shared_time_ms(&self) -> Option<u64> {
        self.inner.shared_time_ms()
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        self.inner.stats(sink);
    }

    fn checkpoint(&self, path: &Path) -> Result<()> {
        self.observe_call(Call::Checkpoint { path }, || self.inner.checkpoint(path))
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.observe_call(Call::Verify, || self.inner.verify())
    }

    fn flush(&self) -> Result<()> {
        self.observe_call(Call::Flush, || self.inner.flush())
    }

    fn close(&self) -> Result<()> {
        self.observe_call(Call::Close, || self.inner.close())
    }
}
