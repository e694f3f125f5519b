//! Reads a database that another server holds. Each moment is a time of the oracle, asked for after
//! the call began: every commit acknowledged before, by whichever server, is before it. The client
//! waits for locks that a read meets, or removes them.
//!
//! Promises: a moment shows each commit completely or not at all, and includes the holder's
//! announcements. Must not know: the lease's rules, commits.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use storage::emulate::{ChunkedCursor, FixedView, SharedView, check_order};
use storage::{
    Caps, CommitPos, Cursor, CursorOpts, Durability, DurableHook, Engine, Follower, IdentSet,
    KeyRange, Moment, Reader, Result, Snapshot, StatSink, StorageError, Table, VerifyReport,
    WriteBatch,
};

use crate::cluster::{Cluster, millis};
use crate::config::{Config, caps, check_format};
use crate::layout::Layout;
use crate::lease::announces;
use crate::moments::RequestCombiner;
use crate::oracle_clock::OracleClock;
use crate::requests;
use crate::view::View;

/// A database in a cluster, for a server that does not hold it.
pub struct TikvReader {
    cluster: Arc<Cluster>,
    layout: Layout,
    caps: Caps,
    /// The newest moment that was asked for.
    newest: AtomicU64,
    together: RequestCombiner<Result<Moment>>,
    clock: OracleClock,
    /// How long a moment may be read.
    kept: Option<Duration>,
    moments: AtomicU64,
    asked: AtomicU64,
    closed: AtomicBool,
}

fn refuse_write<T>() -> Result<T> {
    Err(StorageError::ReadOnly {
        context: "another server holds the database".to_owned(),
    })
}

impl TikvReader {
    /// Connects. Uses the options for the addresses, TLS, the prefix and how long overwritten
    /// versions can be read.
    ///
    /// # Errors
    /// [`StorageError::ForeignDirectory`], [`StorageError::NewerFormat`],
    /// [`StorageError::Unreachable`], [`StorageError::Untrusted`]
    pub fn connect(config: &Config) -> Result<TikvReader> {
        let cluster = Arc::new(Cluster::connect(&config.pd, config.tls.as_ref())?);
        let layout = Layout::new(&config.prefix);
        check_format(&cluster, &layout, &config.prefix)?;
        let now = cluster.fetch_timestamp()?;
        Ok(TikvReader {
            cluster,
            layout,
            caps: caps(),
            newest: AtomicU64::new(now),
            together: RequestCombiner::default(),
            clock: OracleClock::start(millis(now)),
            kept: config.keep_versions,
            moments: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    fn at(&self, ts: u64) -> Arc<View> {
        let view = View::at(&self.cluster, &self.layout, ts, self.kept);
        Arc::new(view)
    }

    fn latest(&self) -> Result<Arc<View>> {
        self.check_open()?;
        Ok(self.at(self.newest.load(Ordering::Acquire)))
    }

    fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(StorageError::Closed),
            false => Ok(()),
        }
    }

    /// Gets one time of the oracle, and makes one request to a store.
    fn ask(&self) -> Result<Moment> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let ts = self.cluster.fetch_timestamp()?;
        let view = self.at(ts);
        let keys = [
            self.layout.lease(),
            self.layout.decision_key(),
            self.layout.announcement_key(),
        ];
        let [mut lease, mut decided, mut announced] = [None, None, None];
        for (key, row) in self.cluster.batch_get(ts, &keys)? {
            match keys.iter().position(|k| *k == key) {
                Some(0) => lease = Some(row),
                Some(1) => decided = Some(row),
                Some(2) => announced = Some(row),
                _ => {}
            }
        }
        if decided.is_some_and(|row| !row.is_empty()) {
            let why = "a large write is being applied in parts".to_owned();
            return Err(StorageError::Busy(why));
        }
        let announced = announced.unwrap_or_default();
        if !announces(lease.as_deref(), &announced) {
            return Err(StorageError::Unsupported(
                "the server that holds the database does not announce its changes",
            ));
        }
        self.clock.set(millis(ts));
        self.newest.fetch_max(ts, Ordering::AcqRel);
        Ok(Moment {
            snapshot: Arc::new(SharedView(view)),
            announced,
        })
    }
}

impl Reader for TikvReader {
    fn get_with(&self, table: Table, key: &[u8], f: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.latest()?.get(table, key, f)
    }

    fn multi_get(
        &self,
        table: Table,
        keys: &[&[u8]],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.latest()?.multi_get(table, keys, each)
    }

    fn cursor(
        &self,
        table: Table,
        range: KeyRange<'_>,
        opts: CursorOpts,
    ) -> Result<Box<dyn Cursor>> {
        range.check()?;
        let view = self.latest()?;
        Ok(Box::new(ChunkedCursor::new(view, table, range, opts)))
    }
}

impl Follower for TikvReader {
    fn moment(&self) -> Result<Moment> {
        self.check_open()?;
        self.moments.fetch_add(1, Ordering::Relaxed);
        self.together.ask(|| self.ask())
    }
}

impl Engine for TikvReader {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(SharedView(self.latest()?)))
    }

    fn apply(&self, _: &WriteBatch, _: Durability) -> Result<CommitPos> {
        refuse_write()
    }

    fn last_pos(&self) -> CommitPos {
        CommitPos(self.newest.load(Ordering::Acquire))
    }

    fn durable_pos(&self) -> CommitPos {
        // Readable data is on a majority of the replicas.
        self.last_pos()
    }

    fn wait_durable(&self, _: CommitPos) -> Result<()> {
        self.check_open()
    }

    /// A reader never waits for durability.
    fn on_durable(&self, _: DurableHook) {}

    fn drop_range(&self, _: Table, _: KeyRange<'_>) -> Result<()> {
        refuse_write()
    }

    fn set_dropped(&self, _: Table, _: Arc<IdentSet>) {}

    fn is_gone(&self, _: Table, _: u32) -> Result<bool> {
        Ok(false)
    }

    fn approx_size(&self, _: Table, _: KeyRange<'_>) -> Result<u64> {
        Err(StorageError::Unsupported(
            "only the server that holds the database knows sizes",
        ))
    }

    fn shared_time_ms(&self) -> Option<u64> {
        Some(self.clock.now_ms())
    }

    fn stats(&self, sink: &mut StatSink<'_>) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        sink("moments", number(self.moments.load(Ordering::Relaxed)));
        sink("moments_asked", number(self.asked.load(Ordering::Relaxed)));
        requests::report_counts(&mut |name, count| {
            sink(&format!("requests.{name}"), number(count))
        });
    }

    fn checkpoint(&self, _: &Path) -> Result<()> {
        Err(StorageError::Unsupported(
            "a copy of a TiKV cluster is made with its own tools (br)",
        ))
    }

    fn verify(&self) -> Result<VerifyReport> {
        self.check_open()?;
        check_order(self)
    }

    fn flush(&self) -> Result<()> {
        self.check_open()
    }

    fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}
