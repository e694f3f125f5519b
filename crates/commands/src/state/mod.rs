//! State of the server that commands read and set: profiling levels, locks against writes, cluster
//! parameters, plan filters.

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
pub mod parameters;
pub mod profile;
pub mod query_settings;
pub(crate) mod replica_set;
pub mod service;
pub mod sessions;
pub mod snapshots;
pub mod transactions;
pub mod ttl;
pub mod waiters;

use model::{DocBuf, OwnedValue};
use parameters::Parameters;
use parking_lot::Mutex;
use sessions::Sessions;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI64;
use transactions::TransactionCounts;

/// An index filter for one query shape.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFilter {
    /// Query of the shape.
    pub query: DocBuf,
    /// Sort of the shape.
    pub sort: DocBuf,
    /// Projection of the shape.
    pub projection: DocBuf,
    /// Collation of the shape.
    pub collation: DocBuf,
    /// Allowed indexes: key patterns or names.
    pub indexes: Vec<OwnedValue>,
}

/// What `autoCompact` set: free space target in MB and whether it runs once.
pub type AutoCompact = Option<(i64, bool)>;

/// Reads certificates again; the error is one line.
pub type RotateCertificates = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

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

/// Asks the network.
pub type NetworkFigures = Box<dyn Fn() -> Network + Send + Sync>;

/// Asks the file system; `None` when it does not answer.
pub type DiskBytes = Box<dyn Fn() -> Option<(u64, u64)> + Send + Sync>;

/// All of it.
pub struct State {
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
    /// Feature compatibility version.
    pub fcv: Mutex<String>,
    /// Which operations are recorded.
    pub profile: profile::Profile,
    /// What the network has done; set by the server that has one.
    pub network: OnceLock<NetworkFigures>,
    /// Times `fsync` locked against writes and was not undone.
    pub fsync_locks: AtomicI64,
    /// Background compaction.
    pub auto_compact: Mutex<AutoCompact>,
    /// Cluster parameters that were set, by name.
    pub cluster_parameters: Mutex<BTreeMap<&'static str, DocBuf>>,
    /// Settings of query shapes.
    pub query_settings: query_settings::QuerySettings,
    /// Index filters by namespace.
    pub plan_filters: Mutex<BTreeMap<String, Vec<PlanFilter>>>,
    /// Bytes used and all bytes of the file system the data is on; set by a server that has one.
    pub disk_bytes: OnceLock<DiskBytes>,
    /// Default read and write concern, as `setDefaultRWConcern` left them.
    pub default_concerns: concerns::DefaultConcerns,
}

impl Default for State {
    fn default() -> State {
        State {
            rotate_certificates: OnceLock::new(),
            parameters: Parameters::default(),
            sessions: Sessions::default(),
            transactions: TransactionCounts::default(),
            snapshots: snapshots::Snapshots::default(),
            failpoints: failpoints::FailPoints::default(),
            fcv: Mutex::new(crate::release::FCV.to_owned()),
            profile: profile::Profile::default(),
            network: OnceLock::new(),
            fsync_locks: AtomicI64::new(0),
            auto_compact: Mutex::default(),
            cluster_parameters: Mutex::default(),
            query_settings: Default::default(),
            plan_filters: Mutex::default(),
            disk_bytes: OnceLock::new(),
            default_concerns: concerns::DefaultConcerns::default(),
        }
    }
}
