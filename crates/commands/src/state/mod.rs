//! State of the server that commands read and set: profiling levels, locks against writes, cluster
//! parameters, plan filters.

pub mod admission;
pub mod audit;
mod audited;
pub mod backups;
pub(crate) mod capped;
pub mod cluster_parameters;
mod collections;
pub mod concerns;
pub mod connections;
pub mod counters;
mod cursor_owner;
pub mod cursors;
pub mod engine_stats;
pub mod events;
pub mod failpoints;
pub(crate) mod machine;
pub(crate) mod operations;
pub mod pair;
pub mod parameters;
pub mod plan_filters;
pub mod profile;
pub mod query_settings;
pub mod reads_here;
pub(crate) mod replica_set;
pub mod room;
pub mod search;
pub mod service;
pub mod sessions;
pub mod set_id;
pub mod snapshots;
mod startup_log;
pub mod transactions;
pub mod ttl;
pub mod user_writes;
mod verbosity;
mod version;
pub mod waiters;
pub mod workers;

use parameters::Parameters;
use parking_lot::Mutex;
use sessions::Sessions;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};
use store::Store;
use transactions::TransactionCounts;

/// What `autoCompact` set: free space target in MB and whether it runs once.
pub type AutoCompact = Option<(i64, bool)>;

/// Reads certificates or keys again; the error is one line.
pub type RotateCertificates = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Asks the process to end.
pub type ShutDown = Box<dyn Fn() + Send + Sync>;

/// What the network has done since the start.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Network {
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub requests: u64,
    pub rejected_connections: u64,
    pub open_connections: u64,
}

/// Lines about connections that could not be begun, at most, in each stretch of time.
const REFUSALS_MAX: u32 = 20;
const REFUSALS_STRETCH_US: u64 = 10_000_000;

/// Asks the network.
pub type NetworkMetrics = Box<dyn Fn() -> Network + Send + Sync>;

/// Asks the file system; `None` when it does not answer.
pub type DiskBytes = Box<dyn Fn() -> Option<(u64, u64)> + Send + Sync>;

/// All of it.
pub struct State {
    /// What `shutdown` does; nothing where the server is a part of another process.
    pub shut_down: OnceLock<ShutDown>,
    /// Who may run now.
    pub admission: Arc<admission::Admission>,
    /// How often the log tells of connections that could not be begun.
    pub refusals: logs::Pace,
    /// What operators are told of who did what.
    pub audit: audit::Audit,
    /// What `rotateCertificates` does; nothing without TLS.
    pub rotate_certificates: OnceLock<RotateCertificates>,
    /// What `rotateEncryptionKey` does; nothing where data is not encrypted.
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
    /// Failures asked for by a client that tests itself.
    pub failpoints: failpoints::FailPoints,
    /// Feature compatibility version.
    pub fcv: Mutex<String>,
    /// Which operations are recorded.
    pub profile: profile::Profile,
    /// What the network has done; set by the server that has one.
    pub network: OnceLock<NetworkMetrics>,
    /// Times `fsync` locked against writes and was not undone.
    pub fsync_locks: AtomicI64,
    /// Background compaction.
    pub auto_compact: Mutex<AutoCompact>,
    /// Cluster parameters that were set, by name.
    pub cluster_parameters: cluster_parameters::ClusterParameters,
    /// Settings of query shapes.
    pub query_settings: query_settings::QuerySettings,
    /// The identifier of the set this server presents.
    pub replica_set_id: set_id::SetId,
    /// Index filters.
    pub plan_filters: plan_filters::PlanFilters,
    /// Bytes used and all bytes of the file system the data is on; set by a server that has one.
    pub disk_bytes: OnceLock<DiskBytes>,
    /// What was read here of data that another server holds.
    pub reads_here: reads_here::ReadsHere,
    /// Whether a backup cursor is open.
    pub backups: Arc<backups::Backups>,
    /// Default read and write concern, as `setDefaultRWConcern` left them.
    pub default_concerns: concerns::DefaultConcerns,
    /// Writes that were set aside until a transaction or a change of the catalog is over.
    pub queued_writers: Arc<AtomicI64>,
    /// Whether user writes are blocked.
    pub user_writes: Arc<user_writes::UserWrites>,
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
            reads_here: reads_here::ReadsHere::default(),
            backups: Arc::default(),
            default_concerns: concerns::DefaultConcerns::default(),
            queued_writers: Arc::default(),
            user_writes: Arc::default(),
        }
    }
}
