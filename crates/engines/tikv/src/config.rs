//! What every way to open a database has in common: options, limits, the version of the layout.
//! Must not know: leases, commits.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use storage::{Caps, Result, StorageError};

use crate::cluster::Cluster;
use crate::layout::{Layout, REQUEST_ROWS};
use crate::tls::TlsFiles;

/// Version of the layout without rows of members.
pub const DISK_FORMAT: u32 = 1;

/// Version of the layout with rows of members and parts of counters.
pub const MEMBER_FORMAT: u32 = 2;
/// Bytes that TiKV stores for a row in addition to key and value.
pub(crate) const ROW_OVERHEAD_BYTES: u64 = 30;
/// How much later than its end a lease may be renewed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options for opening.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses of PD, `host:port`.
    pub pd: Vec<String>,
    /// Files for TLS to PD and the stores; without them everything is sent in the clear.
    pub tls: Option<TlsFiles>,
    /// Name of the database in the cluster; see [`crate::is_prefix`].
    pub prefix: String,
    /// Name of this server, shown to servers that are refused because this one holds the lease.
    pub name: String,
    /// Address at which other servers reach this one, given to those that wait for it; may be
    /// empty.
    pub address: String,
    /// Receives the address of the server that this one waits for, while it waits; empty before the
    /// first answer and when that server gave none.
    pub awaited: Option<Arc<Mutex<String>>>,
    /// Wait while another server holds the lease, until this is set, instead of failing.
    pub standby: Option<Arc<AtomicBool>>,
    /// How long the lease holds when it is not renewed.
    pub lease: Duration,
    /// How long after its end a lease may still be renewed if no other server has taken it; after
    /// that the engine has lost the database. Zero where other servers wait for the lease.
    pub patience: Duration,
    /// How long older views can read overwritten versions; after that the cluster may remove them.
    /// `None` leaves the removal to another process, such as TiDB's garbage collector.
    pub keep_versions: Option<Duration>,
}

impl Config {
    /// Default options: a lease of ten seconds, versions for twenty minutes.
    pub fn at(pd: Vec<String>, prefix: impl Into<String>) -> Config {
        Config {
            pd,
            tls: None,
            prefix: prefix.into(),
            name: format!("process {}", std::process::id()),
            address: String::new(),
            awaited: None,
            standby: None,
            lease: Duration::from_secs(10),
            patience: PATIENCE,
            keep_versions: Some(Duration::from_secs(1_200)),
        }
    }
}

/// Starts a thread of the engine.
pub(crate) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|e| StorageError::io(format!("cannot start the thread {name}"), e))
}

pub(crate) fn format_row(format: u32) -> Vec<u8> {
    format!("quarry format {format}").into_bytes()
}

/// The version of the layout; 0 where there is no database yet.
pub(crate) fn check_format(cluster: &Cluster, layout: &Layout, prefix: &str) -> Result<u32> {
    let Some(row) = cluster.get(cluster.fetch_timestamp()?, &layout.format())? else {
        return Ok(0);
    };
    let found = std::str::from_utf8(&row).ok();
    let found = found.and_then(|row| row.strip_prefix("quarry format ")?.parse().ok());
    match found {
        Some(format) if format <= MEMBER_FORMAT => Ok(format),
        Some(found) => Err(StorageError::NewerFormat {
            found,
            supported: MEMBER_FORMAT,
        }),
        None => Err(StorageError::ForeignDirectory {
            path: format!("prefix {prefix} of the cluster"),
            found: "rows that Quarry did not write".to_owned(),
        }),
    }
}

pub(crate) fn caps() -> Caps {
    Caps {
        name: "tikv",
        persistent: true,
        key_bytes_max: 64 << 20,
        value_bytes_max: 64 << 20,
        batch_bytes_max: 128 << 20,
        delete_range: true,
        checkpoint: false,
        request_rows: REQUEST_ROWS,
        spreads: true,
    }
}
