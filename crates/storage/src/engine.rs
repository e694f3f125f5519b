//! The traits an engine implements. Object-safe, synchronous, batch-shaped: a local engine pays no
//! future per row, and a remote one can turn each call into one round trip.
//!
//! Rule for every callback (`get_with`, `multi_get`, `visit`, statistics): it runs while the engine
//! may hold a latch or a pinned block, so it must not call the engine and should be short.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::WriteBatch;
use crate::error::{Result, StorageError};
use crate::keys::{IdentSet, KeyRange, Table, prefix_end};
use crate::rows::RowBatch;

/// A position in the order of commits. Grows with every commit; equal or larger means "not
/// earlier". Valid within one open engine only: a reopened engine or a checkpoint counts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommitPos(pub u64);

/// How a journal flush ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushEvent {
    /// Commits up to this position are durable.
    Durable(CommitPos),
    /// The flush failed: commits up to this position that were not durable before are still not
    /// durable; a later flush may make them so.
    Failed(CommitPos),
    /// The journal itself has failed: whether commits that were not durable before survive is
    /// unknown and will stay so. No later flush is tried. A server should end its process, so that
    /// recovery can read what the journal holds.
    Lost,
}

/// The outcome of [`Engine::try_flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushOutcome {
    /// This thread had nothing to flush: the position is durable, or another thread is flushing and
    /// will cover it.
    Idle,
    /// This thread has flushed and called the hooks. When `more` is true, flush again before
    /// sleeping, or leave it to [`Engine::request_flush`].
    Flushed {
        /// Positions that this flush does not cover were requested meanwhile.
        more: bool,
    },
}

/// Called after each journal flush. Must not block.
pub type DurableHook = Box<dyn Fn(FlushEvent) + Send + Sync>;

/// Receives one named metric at a time, e.g. `doc.l0_files`; bytes end in `_bytes`, times in `_us`.
pub type StatSink<'a> = dyn FnMut(&str, i64) + 'a;

/// How durable a commit is when `apply` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The commit is not journaled: any crash loses it unless `flush` came after it. For scratch
    /// data and bulk loads.
    None,
    /// The commit is handed to the operating system: it survives the death of the process. The
    /// journal is flushed in the background.
    Buffered,
    /// `apply` returns once a journal flush covers the commit: it survives a loss of power.
    Journaled,
}

/// The class of a writer; background work is slowed down first when the engine falls behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteClass {
    /// A client waits for the write.
    Client,
    /// TTL, index builds, truncation, chunked deletes.
    Background,
}

/// The abilities and limits of an engine, as data for callers and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Name as users write it in the configuration.
    pub name: &'static str,
    /// Whether data outlives the process.
    pub persistent: bool,
    /// Longest key in bytes.
    pub key_bytes_max: usize,
    /// Longest value in bytes.
    pub value_bytes_max: usize,
    /// Largest batch in bytes, see `WriteBatch::byte_len`.
    pub batch_bytes_max: usize,
    /// Whether the engine supports `WriteBatch::delete_range`.
    pub delete_range: bool,
    /// Whether `checkpoint` works; otherwise it fails with `Unsupported`.
    pub checkpoint: bool,
    /// Reading this many rows costs about as much as reading one, because each call is a request to
    /// another machine; readers ask for this many rows at first. 1 where the rows are in this
    /// process.
    pub request_rows: usize,
    /// Whether documents of idents with [`crate::SPREAD`] are spread over several machines.
    pub spreads: bool,
}

impl Caps {
    /// Checks the limits that every engine checks before it applies a batch.
    ///
    /// # Errors
    /// [`StorageError::TooLarge`] or [`StorageError::KeyTooLong`], with the limit.
    pub fn check_sizes(&self, batch: &WriteBatch) -> Result<()> {
        let (len, max) = (batch.byte_len(), self.batch_bytes_max);
        if len > max {
            return Err(StorageError::TooLarge {
                what: "batch",
                len,
                max,
            });
        }
        let (len, max) = (batch.longest_key_bytes(), self.key_bytes_max);
        if len > max {
            return Err(StorageError::KeyTooLong { len, max });
        }
        Ok(())
    }
}

/// How a cursor will be used. Only `reverse` and `keys_only` change what it delivers; the rest are
/// hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorOpts {
    /// Deliver the largest key first.
    pub reverse: bool,
    /// Deliver keys only; values are empty.
    pub keys_only: bool,
    /// Whether blocks that are read may displace others in the cache. True lets the engine decide:
    /// it stops filling the cache once the scan has read more than a part of its size (see
    /// `bytes_before`). False is for scans that are certainly large.
    pub fill_cache: bool,
    /// Bytes to read ahead from the device; 0 lets the engine choose.
    pub readahead_bytes: usize,
    /// The caller expects to take this many rows; 0 when unknown.
    pub limit_hint: usize,
    /// Bytes of keys and values that earlier cursors of the same scan have read, for a scan that
    /// pauses and continues: only the sum shows how large the scan is.
    pub bytes_before: u64,
}

impl Default for CursorOpts {
    fn default() -> Self {
        Self {
            reverse: false,
            keys_only: false,
            fill_cache: true,
            readahead_bytes: 0,
            limit_hint: 0,
            bytes_before: 0,
        }
    }
}

/// Reading, at the latest state ([`Engine`]) or at a fixed one ([`Snapshot`]).
pub trait Reader: Send + Sync {
    /// Reads one value into `out`, replacing what was there.
    ///
    /// # Output
    /// True when found; otherwise `out` is empty.
    ///
    /// # Cost
    /// One copy of the value. [`Reader::get_with`] makes none.
    fn get(&self, table: Table, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        self.get_with(table, key, &mut |value| out.extend_from_slice(value))
    }

    /// Reads one value in place: `f` sees the engine's own bytes, once, if the key exists.
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Reads many values from one state; `each` is called exactly once per key, in the order of
    /// `keys`. Sorted keys are cheaper on some engines.
    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()>;

    /// Opens a cursor over `range` on the data of the snapshot, or of the moment of the call.
    ///
    /// # Cost
    /// A cursor keeps files and old versions alive until it is dropped: do not keep one open
    /// without reading.
    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>>;
}

/// A fixed state of all tables. Cheap to take; while it is held the engine keeps the versions it
/// needs.
pub trait Snapshot: Reader {
    /// The position of the snapshot: it shows every commit up to here and none after it.
    fn pos(&self) -> CommitPos;

    /// How long the snapshot has been held.
    fn age(&self) -> Duration;

    /// Compares the announcements of the state with those that were expected, unless a read has
    /// done that; see [`crate::Follower::begin_moment`].
    ///
    /// # Errors
    /// [`StorageError::Outdated`] when they are others.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// A unit of work in an engine that detects conflicts: all its reads see the state at its
/// beginning.
pub trait CheckedUnit: Reader {
    /// Applies a batch, unless something that the unit has read has changed since the unit began.
    ///
    /// # Output
    /// The position of exactly this commit, a time of all processes: milliseconds since the epoch,
    /// shifted left by 18 bits, plus a number. It is later than [`Engine::last_pos`] was before,
    /// and so are the other ones that the batch takes ([`WriteBatch::take_positions`]), 1,024 at
    /// most, which are of the same millisecond.
    ///
    /// # Errors
    /// [`StorageError::Conflict`] when it has changed, and nothing was applied; the errors of
    /// [`Engine::apply`].
    fn commit(self: Box<Self>, batch: &WriteBatch, durability: Durability) -> Result<CommitPos>;

    /// The announcements up to the beginning of the unit, see [`crate::Moment::announced`].
    fn announced(&self) -> &[u8] {
        &[]
    }
}

/// Walks a range in key order, or in reverse.
pub trait Cursor: Send {
    /// Moves the cursor: forward to keys `>= key`, in reverse to keys `< key`, in either direction
    /// but never beyond the range it was opened with. So resuming after a delivered `key` takes
    /// `key + 0x00` forward and `key` itself in reverse.
    fn seek(&mut self, key: &[u8]) -> Result<()>;

    /// Shows up to `rows_max` rows in place; `f` returns false to stop after the row it was given.
    /// `f` may call the engine, and write through it: the cursor keeps its view.
    ///
    /// # Output
    /// False when the range is known to be exhausted, true when there may be more.
    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool>;

    /// Replaces the content of `rows` with the next rows: at most `rows_max`, ending with the row
    /// that reaches `bytes_max` (so one row always fits).
    ///
    /// # Output
    /// As [`Cursor::visit`].
    fn next_batch(
        &mut self,
        rows: &mut RowBatch,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<bool> {
        rows.clear();
        self.visit(rows_max, &mut |key, value| {
            rows.push(key, value);
            rows.byte_len() < bytes_max
        })
    }
}

/// The result of `verify`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Bytes read and checked.
    pub bytes: u64,
    /// One line for each defect found; empty means that everything is intact.
    pub findings: Vec<String>,
}

/// A storage engine: ordered byte keys, atomic batches, snapshots, a journal.
pub trait Engine: Reader {
    /// The abilities and limits of the engine.
    fn caps(&self) -> &Caps;

    /// Takes a snapshot of the current state of all tables.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Waits until the engine can take another `bytes` of writes, at most a quarter of a second per
    /// call. To be called before any lock is taken.
    ///
    /// # Output
    /// The time it waited.
    fn admit(&self, bytes: usize, class: WriteClass) -> Duration {
        let _ = (bytes, class);
        Duration::ZERO
    }

    /// Applies a batch atomically over all tables, in the order of its operations.
    ///
    /// # Output
    /// A position that covers this commit; hand it to [`Engine::wait_durable`].
    fn apply(&self, batch: &WriteBatch, durability: Durability) -> Result<CommitPos>;

    /// As [`Reader::get_with`]. Where several processes write, it also looks for announcements, so
    /// that views of earlier times need not ask for theirs, see [`crate::Follower::begin_moment`].
    ///
    /// # Errors
    /// As [`Reader::get_with`].
    fn get_with_announcements(
        &self,
        table: Table,
        key: &[u8],
        f: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        self.get_with(table, key, f)
    }

    /// Begins a unit that detects conflicts. `None` for an engine to which one process writes:
    /// there the locks of the caller prevent conflicts. See [`crate::Unit`].
    fn begin_checked(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        Ok(None)
    }

    /// As [`Engine::begin_checked`], for a unit that may begin earlier: at the moment `at` of this
    /// process ([`crate::Follower`]), whose state it then reads. It may read the keys
    /// in the request with which it begins.
    fn begin_early(
        &self,
        at: CommitPos,
        keys: &[(Table, &[u8])],
    ) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        let _ = (at, keys);
        self.begin_checked()
    }

    /// As [`Engine::begin_checked`], for a change to what other processes keep in memory: with its
    /// commit, every unit conflicts that began before it and commits after it. Other units wait
    /// meanwhile, so it should be short. It may read ranges: its commit conflicts when one of them
    /// has changed since it began.
    fn begin_exclusive(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        Ok(None)
    }

    /// The first of `count` consecutive numbers, below 2^62, that nobody gets again. They are above
    /// those of all units that were committed, by any process, before the last state that this
    /// process has read. `None` for an engine to which one process writes, which numbers rows
    /// itself.
    fn number_rows(&self, count: usize) -> Option<u64> {
        let _ = count;
        None
    }

    /// The position of the commit that gave a key its value, which it did not have at `after`;
    /// `None` when the key has no value. For engines with several writing processes, where it is
    /// that of [`CheckedUnit::commit`].
    ///
    /// # Cost
    /// One read in memory; about thirty where the engine has to look at earlier states.
    ///
    /// # Errors
    /// [`StorageError::Unsupported`] for an engine to which one process writes.
    fn written_at(&self, table: Table, key: &[u8], after: CommitPos) -> Result<Option<CommitPos>> {
        let _ = (table, key, after);
        Err(StorageError::Unsupported(
            "the positions of earlier commits",
        ))
    }

    /// Position of the newest commit that a read begun now may see. All that a client can conclude
    /// from a read is durable once [`Engine::durable_pos`] has reached the `last_pos` asked for
    /// after that read.
    ///
    /// # Cost
    /// One atomic load where the engine allows it, so callers may ask on every request.
    fn last_pos(&self) -> CommitPos;

    /// Commits up to this position survive a loss of power.
    fn durable_pos(&self) -> CommitPos;

    /// Blocks until `pos` is durable. Flushes on the calling thread unless another thread is
    /// flushing; all threads that wait meanwhile share the next flush.
    fn wait_durable(&self, pos: CommitPos) -> Result<()>;

    /// Requests an early journal flush by a thread of the engine, without waiting for it (see
    /// [`Engine::on_durable`]).
    fn request_flush(&self, pos: CommitPos) {
        let _ = pos;
    }

    /// Flushes the journal up to `pos` on the calling thread, unless `pos` is durable or another
    /// thread is flushing. For a thread on which the replies of several clients depend: it never
    /// waits for the flush of another thread.
    fn try_flush(&self, pos: CommitPos) -> FlushOutcome {
        self.request_flush(pos);
        FlushOutcome::Idle
    }

    /// Adds a hook that is called after each journal flush, on the thread that flushed, for waiters
    /// that do not block a thread.
    fn on_durable(&self, hook: DurableHook);

    /// From now on, each commit that changes a row for which `kept` is true announces that to the
    /// processes that read the same data and keep such rows in memory, see [`crate::Follower`]. The
    /// default does nothing, for engines that no other process reads.
    fn announce(&self, kept: fn(Table, &[u8]) -> bool) {
        let _ = kept;
    }

    /// Only keys of [`Table::Meta`] for which `counters` is true are ever added to. The default
    /// does nothing, for engines in which a counter is one row.
    fn expect_counters(&self, counters: fn(&[u8]) -> bool) {
        let _ = counters;
    }

    /// Announces earlier commits that changed no such row; returns when the next moment of every
    /// reader shows the announcement.
    fn announce_now(&self) -> Result<()> {
        Ok(())
    }

    /// Frees the space of a range that no reader and no snapshot needs any more. Keys may remain
    /// for a while and old versions may even reappear: never read such a range again. The keys that
    /// remain are removed by [`Engine::set_dropped`].
    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()>;

    /// Tells the engine that the caller keeps a table at about this many bytes with
    /// [`Engine::drop_range`], so that the engine does not collect more than a part of that size
    /// before it can be freed.
    fn expect_size(&self, table: Table, bytes: u64) {
        let _ = (table, bytes);
    }

    /// Replaces the set of idents whose keys the engine removes whenever it rewrites data.
    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>);

    /// True when no key of a dropped ident is left: the ident may then leave the set given to
    /// [`Engine::set_dropped`] for good. False when a key is left or when finding out would take
    /// long; ask again later. Only for an ident that nobody writes any more and whose ranges were
    /// passed to [`Engine::drop_range`].
    ///
    /// # Cost
    /// One seek; bounded, however many deleted keys lie in the way.
    fn is_gone(&self, table: Table, ident: u32) -> Result<bool> {
        let lower = ident.to_be_bytes();
        let mut upper = Vec::new();
        prefix_end(&lower, &mut upper);
        let opts = CursorOpts {
            keys_only: true,
            fill_cache: false,
            limit_hint: 1,
            ..CursorOpts::default()
        };
        let mut any = false;
        self.cursor(table, KeyRange::new(&lower, &upper), opts)?
            .visit(1, &mut |_, _| {
                any = true;
                false
            })?;
        Ok(!any)
    }

    /// Estimated bytes a range occupies on the device, including recent writes.
    fn approx_size(&self, table: Table, range: KeyRange<'_>) -> Result<u64>;

    /// Estimated bytes that a range occupies on the device for deleted rows and old versions.
    /// `rows` is the number of rows in the range, where the caller knows it. Data that is only in
    /// memory is not counted.
    ///
    /// # Output
    /// 0 also where the engine cannot tell, where it frees space by itself, and where it never
    /// does.
    fn unused_size(&self, table: Table, range: KeyRange<'_>, rows: Option<u64>) -> Result<u64> {
        let _ = (table, range, rows);
        Ok(0)
    }

    /// Frees the space that [`Engine::unused_size`] reports, where the engine can do it on demand.
    /// Readers see the same data as before; other calls run concurrently.
    ///
    /// # Output
    /// The number of bytes freed, as far as the engine knows it.
    ///
    /// # Cost
    /// The range is read and rewritten in pieces; `stop` is asked before each piece whether to end.
    fn compact(&self, table: Table, range: KeyRange<'_>, stop: &dyn Fn() -> bool) -> Result<u64> {
        let _ = (table, range, stop);
        Ok(0)
    }

    /// Bytes that this thread has read from files since it started, where the engine counts them;
    /// the difference of two calls is what was read between them.
    fn bytes_read_here(&self) -> Option<u64> {
        None
    }

    /// Milliseconds since 1970 by the clock that all processes with the same data share, such as
    /// the oracle of a cluster; it never goes back and costs no request. `None` where the machine's
    /// clock is the only one.
    fn shared_time_ms(&self) -> Option<u64> {
        None
    }

    /// Reports metrics for serverStatus and benchmarks.
    fn stats(&self, sink: &mut StatSink<'_>);

    /// Writes a consistent copy that can be opened by itself into `path`, which must not exist.
    fn checkpoint(&self, path: &Path) -> Result<()>;

    /// The first key, after the beginning of the range, of the next part of the files that is read
    /// and checked by itself: a reader that meets damage can continue there. `None` when the range
    /// has no further part, and where the engine cannot tell.
    ///
    /// # Cost
    /// Several hundred size estimates; no data is read.
    fn next_part(&self, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
        let _ = (table, range);
        Ok(None)
    }

    /// Opens an engine over the undamaged files of this one, in the new directory `path`. It shows
    /// rows that a damaged file hides; they may be older than the rows that were lost. `None` where
    /// the engine cannot read its files one by one. To be called on a copy to which nobody writes.
    fn undamaged(&self, path: &Path) -> Result<Option<Arc<dyn Engine>>> {
        let _ = path;
        Ok(None)
    }

    /// Reads everything and checks checksums.
    fn verify(&self) -> Result<VerifyReport>;

    /// Writes everything in memory to its final place and makes it durable.
    fn flush(&self) -> Result<()>;

    /// Flushes and stops. Calls after it fail with `Closed`; a second close is fine.
    fn close(&self) -> Result<()>;
}
