//! What the connections of a server share and commands read and set: cursors, sessions,
//! transactions, parameters, admission, audit, background workers.
//!
//! Promises: each part can be used from every thread. Must not know: which commands exist, how
//! requests are dispatched, the wire.

pub mod admission;
pub mod audit;
mod audited;
pub mod backups;
pub mod capped;
pub mod cluster_parameters;
mod collections;
pub mod concerns;
pub mod config;
pub mod connections;
pub mod counters;
mod cursor_owner;
pub mod cursors;
pub mod engine_stats;
pub mod events;
pub mod failpoints;
pub mod machine;
pub mod matcher;
pub mod operations;
pub mod pair;
pub mod parameters;
pub mod plan_filters;
pub mod profile;
pub mod query_settings;
pub mod reads_here;
pub mod release;
pub mod replica_set;
pub mod room;
pub mod search;
pub mod service;
pub mod sessions;
pub mod set_id;
pub mod snapshots;
mod startup_log;
pub mod temporary_names;
pub mod transactions;
pub mod ttl;
pub mod user_writes;
mod verbosity;
mod version;
pub mod waiters;
pub mod workers;

pub use config::Config;
pub use release::Release;

use parameters::Parameters;
use parking_lot::Mutex;
use sessions::Sessions;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};
use store::Store;
use transactions::TransactionCounts;

/// The setting of `autoCompact`: the free space target in MB, and whether it runs once.
pub type AutoCompact = Option<(i64, bool)>;

/// Reloads certificates or keys; the error is one line.
pub type RotateCertificates = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Asks the process to end.
pub type ShutDown = Box<dyn Fn() + Send + Sync>;

/// Counters of the network since the start.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Network {
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub requests: u64,
    pub rejected_connections: u64,
    pub open_connections: u64,
}

/// Most log lines, in each period, about connections that could not be opened.
const REFUSALS_MAX: u32 = 20;
const REFUSALS_STRETCH_US: u64 = 10_000_000;

/// Reads the counters of the network.
pub type NetworkMetrics = Box<dyn Fn() -> Network + Send + Sync>;

/// Used and total bytes of the file system; `None` when the file system does not answer.
pub type DiskBytes = Box<dyn Fn() -> Option<(u64, u64)> + Send + Sync>;

/// The state of the server.
pub struct State {
    /// The action of `shutdown`; empty when the server is part of another process.
    pub shut_down: OnceLock<ShutDown>,
    /// Admission of operations.
    pub admission: Arc<admission::Admission>,
    /// Limits how often the log reports connections that could not be opened.
    pub refusals: logs::Pace,
    /// The audit: events for operators about what users did.
    pub audit: audit::Audit,
    /// The action of `rotateCertificates`; empty without TLS.
    pub rotate_certificates: OnceLock<RotateCertificates>,
    /// The action of `rotateEncryptionKey`; empty when data is not encrypted.
    pub rotate_encryption_key: OnceLock<RotateCertificates>,
    /// Server parameters.
    pub parameters: Parameters,
    /// Logical sessions.
    pub sessions: Sessions,
    /// Background workers that were started.
    pub workers: workers::Workers,
    /// Counts of transactions.
    pub transactions: TransactionCounts,
    /// States that clients may read again by cluster time.
    pub snapshots: snapshots::Snapshots,
    /// Failures that a client requests in order to test itself.
    pub failpoints: failpoints::FailPoints,
    /// Feature compatibility version.
    pub fcv: Mutex<String>,
    /// Which operations are recorded.
    pub profile: profile::Profile,
    /// Reads the counters of the network; set by a server that has a network.
    pub network: OnceLock<NetworkMetrics>,
    /// How many `fsync` locks against writes are held.
    pub fsync_locks: AtomicI64,
    /// Background compaction.
    pub auto_compact: Mutex<AutoCompact>,
    /// The cluster parameters that were set, by name.
    pub cluster_parameters: cluster_parameters::ClusterParameters,
    /// Settings of query shapes.
    pub query_settings: query_settings::QuerySettings,
    /// The identifier of the replica set that this server presents.
    pub replica_set_id: set_id::SetId,
    /// Index filters.
    pub plan_filters: plan_filters::PlanFilters,
    /// Used and total bytes of the file system that holds the data; set by a server that has one.
    pub disk_bytes: OnceLock<DiskBytes>,
    /// Counts of requests on a server whose data another server holds.
    pub reads_here: reads_here::ForwardCounters,
    /// Whether a backup cursor is open.
    pub backups: Arc<backups::Backups>,
    /// Default read and write concern, set by `setDefaultRWConcern`.
    pub default_concerns: concerns::DefaultConcerns,
    /// How many writes are set aside until a transaction or a change of the catalog ends.
    pub queued_writers: Arc<AtomicI64>,
    /// Whether user writes are blocked.
    pub user_writes: Arc<user_writes::UserWrites>,
    /// Names for temporary collections.
    pub temporary_names: temporary_names::TemporaryNames,
}

impl State {
    /// Reads the settings that an earlier run has stored.
    ///
    /// # Errors
    /// Engine failures; those of rows that cannot be understood.
    pub fn load(&self, store: &Store) -> model::Result<()> {
        self.cluster_parameters.load(store)?;
        self.default_concerns.load(store)?;
        self.query_settings.load(store)?;
        self.user_writes.load(store)
    }
}

impl Default for State {
    fn default() -> State {
        State {
            shut_down: OnceLock::new(),
            admission: Arc::default(),
            refusals: logs::Pace::new(REFUSALS_MAX, REFUSALS_STRETCH_US),
            audit: audit::Audit::default(),
            rotate_certificates: OnceLock::new(),
            rotate_encryption_key: OnceLock::new(),
            parameters: Parameters::default(),
            sessions: Sessions::default(),
            workers: workers::Workers::default(),
            transactions: TransactionCounts::default(),
            snapshots: snapshots::Snapshots::default(),
            failpoints: failpoints::FailPoints::default(),
            fcv: Mutex::new(String::new()),
            profile: profile::Profile::default(),
            network: OnceLock::new(),
            fsync_locks: AtomicI64::new(0),
            auto_compact: Mutex::default(),
            cluster_parameters: cluster_parameters::ClusterParameters::default(),
            query_settings: Default::default(),
            replica_set_id: Default::default(),
            plan_filters: Default::default(),
            disk_bytes: OnceLock::new(),
            reads_here: reads_here::ForwardCounters::default(),
            backups: Arc::default(),
            default_concerns: concerns::DefaultConcerns::default(),
            queued_writers: Arc::default(),
            user_writes: Arc::default(),
            temporary_names: Default::default(),
        }
    }
}
