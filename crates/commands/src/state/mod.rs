//! State of the server that commands read and set: profiling levels, locks against writes, cluster
//! parameters, plan filters.

pub mod concerns;
pub mod connections;
pub mod counters;
mod cursor_owner;
pub mod cursors;
pub mod engine_stats;
pub mod failpoints;
pub mod log;
pub(crate) mod machine;
pub(crate) mod operations;
pub mod parameters;
pub mod plan_filters;
pub mod query_settings;
pub(crate) mod replica_set;
pub mod service;
pub mod sessions;
pub mod snapshots;
pub mod transactions;
pub mod ttl;
pub mod user_writes;
pub mod waiters;

use log::LogLines;
use model::DocBuf;
use parameters::Parameters;
use parking_lot::Mutex;
use sessions::Sessions;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};
use store::Store;
use transactions::TransactionCounts;

/// Profiling of one database, as `profile` sets it.
#[derive(Clone, Debug, Default)]
pub struct ProfileLevel {
    /// 0 off, 1 slow operations, 2 all.
    pub level: i32,
    /// Only operations that match.
    pub filter: Option<DocBuf>,
}

/// Slow operations, for all databases.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// Milliseconds from which an operation is slow.
    pub ms: i32,
    /// Share of slow operations that is recorded.
    pub sample_rate: f64,
}

impl Default for Slow {
    fn default() -> Slow {
        Slow {
            ms: 100,
            sample_rate: 1.0,
        }
    }
}

/// What `autoCompact` set: free space target in MB and whether it runs once.
pub type AutoCompact = Option<(i64, bool)>;

/// Reads certificates again; the error is one line.
pub type RotateCertificates = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Asks the process to end.
pub type ShutDown = Box<dyn Fn() + Send + Sync>;

/// All of it.
pub struct State {
    /// What `shutdown` does; nothing where the server is a part of another process.
    pub shut_down: OnceLock<ShutDown>,
    /// What `rotateCertificates` does; nothing without TLS.
    pub rotate_certificates: OnceLock<RotateCertificates>,
    /// Server parameters.
    pub parameters: Parameters,
    /// Logical sessions.
    pub sessions: Sessions,
    /// Counts of transactions.
    pub transactions: TransactionCounts,
    /// States that clients may read again by cluster time.
    pub snapshots: snapshots::Snapshots,
    /// Failures asked for by a client that tests itself.
    pub failpoints: failpoints::FailPoints,
    /// Last log lines.
    pub log: LogLines,
    /// Feature compatibility version.
    pub fcv: Mutex<String>,
    /// Profiling levels by database.
    pub profile: Mutex<BTreeMap<String, ProfileLevel>>,
    /// What counts as slow.
    pub slow: Mutex<Slow>,
    /// Times `fsync` locked against writes and was not undone.
    pub fsync_locks: AtomicI64,
    /// Background compaction.
    pub auto_compact: Mutex<AutoCompact>,
    /// Cluster parameters that were set, by name.
    pub cluster_parameters: Mutex<BTreeMap<&'static str, DocBuf>>,
    /// Settings of query shapes.
    pub query_settings: query_settings::QuerySettings,
    /// Index filters.
    pub plan_filters: plan_filters::PlanFilters,
    /// Bytes used and all bytes of the file system; the server measures them now and then.
    pub disk_bytes: Mutex<(i64, i64)>,
    /// Default read and write concern, as `setDefaultRWConcern` left them.
    pub default_concerns: concerns::DefaultConcerns,
    /// Whether user writes are blocked.
    pub user_writes: Arc<user_writes::UserWrites>,
}

impl State {
    /// Reads the settings that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures; those of rows that cannot be understood.
    pub fn load(&self, store: &Store) -> model::Result<()> {
        self.default_concerns.load(store)?;
        self.query_settings.load(store)?;
        self.user_writes.load(store)
    }
}

impl Default for State {
    fn default() -> State {
        State {
            shut_down: OnceLock::new(),
            rotate_certificates: OnceLock::new(),
            parameters: Parameters::default(),
            sessions: Sessions::default(),
            transactions: TransactionCounts::default(),
            snapshots: snapshots::Snapshots::default(),
            failpoints: failpoints::FailPoints::default(),
            log: LogLines::default(),
            fcv: Mutex::new(crate::release::FCV.to_owned()),
            profile: Mutex::default(),
            slow: Mutex::default(),
            fsync_locks: AtomicI64::new(0),
            auto_compact: Mutex::default(),
            cluster_parameters: Mutex::default(),
            query_settings: Default::default(),
            plan_filters: Default::default(),
            disk_bytes: Mutex::default(),
            default_concerns: concerns::DefaultConcerns::default(),
            user_writes: Arc::default(),
        }
    }
}
