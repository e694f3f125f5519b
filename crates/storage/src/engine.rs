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
pub enum Flushed {
    /// Everything up to here is durable.
    Durable(CommitPos),
    /// It failed: commits up to here that were not durable before are not yet; a later flush may
    /// cover them.
    Failed(CommitPos),
    /// The journal itself has failed: whether commits that were not durable before survive is
    /// unknown and will stay so. No later flush is tried. Whoever serves data should end the
    /// process and let recovery read what is there.
    Lost,
}

/// The outcome of [`Engine::try_flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushTurn {
    /// There was nothing to do: it is durable, or another thread is flushing and sees to it that
    /// this is covered.
    Idle,
    /// This thread has flushed, hooks included. With `more`, later positions were asked for
    /// meanwhile: flush again before sleeping, or leave it to [`Engine::request_flush`].
    Flushed {
        /// Positions were asked for that this flush does not cover.
        more: bool,
    },
}

/// Called after each journal flush. Must not block.
pub type DurableHook = Box<dyn Fn(Flushed) + Send + Sync>;

/// Receives one named metric at a time, e.g. `doc.l0_files`; bytes end in `_bytes`, times in `_us`.
pub type StatSink<'a> = dyn FnMut(&str, i64) + 'a;

/// When a commit counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Not journaled at all: lost in any crash unless `flush` came after it. For scratch and bulk
    /// loads.
    None,
    /// Handed to the operating system: survives the death of the process; the journal flush follows
    /// in the background.
    Buffered,
    /// Returns once a journal flush covers it: survives loss of power.
    Journaled,
}

/// Who is writing; background work gives way first when the engine falls behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteClass {
    /// A client waits for it.
    Client,
    /// TTL, index builds, truncation, chunked deletes.
    Background,
}

/// What an engine can do, as data: callers ask, tests enumerate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// Name as users write it in the configuration.
    pub name: &'static str,
    /// Data outlives the process.
    pub persistent: bool,
    /// Longest key in bytes.
    pub key_bytes_max: usize,
    /// Longest value in bytes.
    pub value_bytes_max: usize,
    /// Largest batch in bytes, see `WriteBatch::byte_len`.
    pub batch_bytes_max: usize,
    /// `WriteBatch::delete_range` is understood.
    pub delete_range: bool,
    /// `checkpoint` works; otherwise it answers `Unsupported`.
    pub checkpoint: bool,
    /// So many rows cost about as much as one, because each visit to the engine is a request to
    /// another machine: readers ask for that many at first. 1 where rows lie in this process.
    pub request_rows: usize,
}

impl Caps {
    /// What every engine refuses before it applies a batch.
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

/// How a cursor will be used; all hints except `reverse` and `keys_only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorOpts {
    /// Largest key first.
    pub reverse: bool,
    /// Values are delivered empty.
    pub keys_only: bool,
    /// Blocks read may push others out of the cache. True lets the engine decide: it stops filling
    /// once the scan has read more than a part of the cache (see `bytes_before`). False for scans
    /// that are certainly large.
    pub fill_cache: bool,
    /// Bytes to read ahead from the device; 0 lets the engine choose.
    pub readahead_bytes: usize,
    /// The caller expects to take this many rows; 0 when unknown.
    pub limit_hint: usize,
    /// Bytes of keys and values that the same scan has taken through earlier cursors, for a scan
    /// that pauses and goes on: how large it is shows only in the sum.
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

    /// Reads many values; `each` is called exactly once per key, in the order of `keys`.
    /// All are read from one state. Sorted keys are cheaper on some engines.
    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()>;

    /// Opens a cursor over `range` as the data is at this moment (of the snapshot or of the call).
    ///
    /// # Cost
    /// Holds files and old versions alive until dropped: do not park one for long.
    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>>;
}

/// A fixed state of all tables. Cheap to take; releases its claim on old versions when dropped.
pub trait Snapshot: Reader {
    /// Every commit up to here is visible, none after it.
    fn pos(&self) -> CommitPos;

    /// How long it has been held.
    fn age(&self) -> Duration;
}

/// A unit of an engine that detects conflicts: all of it reads the state of its beginning.
pub trait CheckedUnit: Reader {
    /// Applies a batch, unless something that the unit has read has changed since it began.
    ///
    /// # Errors
    /// [`StorageError::Conflict`] then, and nothing was applied; those of
    /// [`Engine::apply`].
    fn commit(self: Box<Self>, batch: &WriteBatch, durability: Durability) -> Result<CommitPos>;
}

/// Walks a range in key order, or backwards.
pub trait Cursor: Send {
    /// Narrows what is left: forward to keys `>= key`, in reverse to keys `< key` (never beyond the
    /// range it was opened with). So resuming after a delivered `key` takes `key + 0x00` forward
    /// and `key` itself in reverse. May move in both directions.
    fn seek(&mut self, key: &[u8]) -> Result<()>;

    /// Shows up to `rows_max` rows in place; `f` returns false to stop after the row it was given.
    /// `f` may call the engine, and write through it: the cursor keeps its view.
    ///
    /// # Output
    /// False when the range is known to be exhausted, true when there may be more.
    fn visit(&mut self, rows_max: usize, f: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<bool>;

    /// Replaces the content of `rows` by the next rows: at most `rows_max`, and it stops after the
    /// row that reaches `bytes_max` (so one row always fits).
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

/// What `verify` looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes read and checked.
    pub bytes: u64,
    /// One line per trouble found; empty means sound.
    pub findings: Vec<String>,
}

/// A storage engine: ordered byte keys, atomic batches, snapshots, a journal.
pub trait Engine: Reader {
    /// Abilities and limits.
    fn caps(&self) -> &Caps;

    /// Fixes the present state of all tables.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>>;

    /// Waits, before any lock is taken, until the engine wants another `bytes` of writes. Bounded:
    /// a quarter of a second per call at most.
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

    /// Begins a unit that detects conflicts; `None` for an engine that leaves them to the locks of
    /// its caller, as one does that a single process writes to. See [`crate::Unit`].
    fn begin_checked(&self) -> Result<Option<Box<dyn CheckedUnit + '_>>> {
        Ok(None)
    }

    /// Position of the newest commit that a read begun now may see. What a client can conclude from
    /// a read is durable once [`Engine::durable_pos`] has reached the position asked for after that
    /// read.
    ///
    /// # Cost
    /// One atomic load where the engine allows it: it may be asked for on every request.
    fn last_pos(&self) -> CommitPos;

    /// Everything up to here survives a loss of power.
    fn durable_pos(&self) -> CommitPos;

    /// Blocks until `pos` is durable. Flushes on the calling thread unless another thread is
    /// flushing; all who wait meanwhile share the next flush.
    fn wait_durable(&self, pos: CommitPos) -> Result<()>;

    /// Asks for an early journal flush by a thread of the engine, without waiting for it (see
    /// [`Engine::on_durable`]).
    fn request_flush(&self, pos: CommitPos) {
        let _ = pos;
    }

    /// Flushes the journal up to `pos` on the calling thread, unless it is durable or another
    /// thread is flushing. For a thread that holds replies of several waiters back: it may be
    /// blocked for one flush, never for that of another thread.
    fn try_flush(&self, pos: CommitPos) -> FlushTurn {
        self.request_flush(pos);
        FlushTurn::Idle
    }

    /// Adds a hook that is called after each journal flush, on the thread that flushed, for waiters
    /// that do not block a thread.
    fn on_durable(&self, hook: DurableHook);

    /// From here on each commit of rows that are `kept` tells so to processes which read the same
    /// data and keep such rows in memory, see [`crate::Follower`]. The default is for engines that
    /// nobody else reads.
    fn announce(&self, kept: fn(Table, &[u8]) -> bool) {
        let _ = kept;
    }

    /// The same for what was committed before and is no row of that kind; returns when the next
    /// moment of every reader shows it.
    fn announce_now(&self) -> Result<()> {
        Ok(())
    }

    /// Gives back the space of a range that nobody reads any more, now or in any snapshot. Keys may
    /// remain for a while, old versions may even reappear: never read such a range again. What is
    /// left dies through [`Engine::set_dropped`].
    fn drop_range(&self, table: Table, range: KeyRange<'_>) -> Result<()>;

    /// Tells the engine that [`Engine::drop_range`] keeps a table to about this many bytes, so that
    /// the engine does not gather more than a part of that before it can be given back.
    fn expect_size(&self, table: Table, bytes: u64) {
        let _ = (table, bytes);
    }

    /// Replaces the set of idents whose keys the engine removes whenever it rewrites data.
    fn set_dropped(&self, table: Table, idents: Arc<IdentSet>);

    /// True when no key of a dropped ident is left: it may leave the set given to
    /// [`Engine::set_dropped`], for good. False when one is left or when it would take long to be
    /// sure; ask again later. Only for an ident that nobody writes any more and whose ranges went
    /// through [`Engine::drop_range`].
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

    /// Estimated bytes of a range on the device that hold nothing any more: deleted rows, old
    /// versions. `rows` is how many rows are there, where the caller knows. What is only in memory
    /// is left out.
    ///
    /// # Output
    /// 0 also where the engine cannot tell, or gives space back by itself or never.
    fn unused_size(&self, table: Table, range: KeyRange<'_>, rows: Option<u64>) -> Result<u64> {
        let _ = (table, range, rows);
        Ok(0)
    }

    /// Gives back what [`Engine::unused_size`] tells of, where the engine can do it on demand. What
    /// a reader sees stays the same; other calls go on beside it.
    ///
    /// # Output
    /// How many bytes were given back, as well as the engine can tell.
    ///
    /// # Cost
    /// The range is read and written, in pieces; before each of them `stop` is asked whether to
    /// end here.
    fn compact(&self, table: Table, range: KeyRange<'_>, stop: &dyn Fn() -> bool) -> Result<u64> {
        let _ = (table, range, stop);
        Ok(0)
    }

    /// Bytes that this thread has read from files since it began, where the engine counts them:
    /// the difference of two calls is what was read between them.
    fn bytes_read_here(&self) -> Option<u64> {
        None
    }

    /// Milliseconds since 1970 by the clock that all users of the same data share, such as the
    /// oracle of a cluster; never goes back, costs no request. `None` where the machine's clock is
    /// the only one.
    fn shared_time_ms(&self) -> Option<u64> {
        None
    }

    /// Reports metrics for serverStatus and benchmarks.
    fn stats(&self, sink: &mut StatSink<'_>);

    /// Writes a consistent copy that can be opened by itself into `path`, which must not exist.
    fn checkpoint(&self, path: &Path) -> Result<()>;

    /// Where behind the beginning of a range the next part of the files begins that is read and
    /// checked by itself, so that whoever meets damage can go on there. `None` when there is no
    /// further part in the range, and where the engine cannot tell.
    ///
    /// # Cost
    /// Some hundred estimates of a size; no data are read.
    fn next_part(&self, table: Table, range: KeyRange<'_>) -> Result<Option<Vec<u8>>> {
        let _ = (table, range);
        Ok(None)
    }

    /// An engine over those files of this one that are whole, in `path`, which is made: it shows
    /// what a damaged file hides of others, which may be older than what was lost. `None` where
    /// files are not read by themselves. To be called on a copy that nobody writes to.
    fn undamaged(&self, path: &Path) -> Result<Option<Arc<dyn Engine>>> {
        let _ = path;
        Ok(None)
    }

    /// Reads everything and checks checksums.
    fn verify(&self) -> Result<Verified>;

    /// Writes all that is in memory to its final place and makes it durable.
    fn flush(&self) -> Result<()>;

    /// Flushes and stops. Calls after it fail with `Closed`; a second close is fine.
    fn close(&self) -> Result<()>;
}
