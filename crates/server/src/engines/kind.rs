//! What the server knows of an engine: how it is opened, and what it can do. Must not know: which
//! engines there are.

use crate::forward::Holder;
use crate::key_source::KeySource;
use cipher::DataKey;
use logs::Log;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{Engine, Follower};

/// Opens or copies a directory; the path is a folder that the function may make.
type DirectoryFn<T> = fn(&EngineOptions<'_>, &Path) -> Result<T, String>;

/// Opens a database that another server writes.
type Follow = fn(&EngineOptions<'_>) -> Result<Arc<dyn Follower>, String>;

/// Opens what is left of a directory; the paths are two folders that the function may make.
type SalvageFn = fn(&EngineOptions<'_>, &Path, &Path) -> Result<SalvagedSource, String>;

/// An engine.
pub(super) struct EngineKind {
    /// Its name in options.
    pub(super) name: &'static str,
    /// Its data can be encrypted.
    pub(super) takes_key: bool,
    /// Its journal can be opened in spite of damage, with the commits before the damage.
    pub(super) repairs_journal: bool,
    /// Files it keeps open, under the present limit of the process.
    pub(super) open_files: fn(&EngineOptions<'_>) -> u64,
    /// Whether it needs a library that is not on this machine.
    pub(super) is_missing: fn() -> bool,
    /// Checks that its own options are consistent.
    pub(super) check: fn(&EngineOptions<'_>) -> Result<(), String>,
    pub(super) open: fn(&EngineOptions<'_>) -> Result<OpenedEngine, String>,
    /// Opens a database that another server writes, for reading; `None` if only one process can
    /// open it.
    pub(super) follow: Option<Follow>,
    /// Opens its directory for reading, with a scratch directory; `None` without a directory.
    pub(super) open_source: Option<DirectoryFn<Source>>,
    /// Opens what is left of a directory whose catalog of files cannot be read; `None` where all
    /// data lie in one file.
    pub(super) open_rest: Option<SalvageFn>,
    /// Copies the files of its directory without opening them; `None` if only the engine itself can
    /// do that.
    pub(super) lend: Option<DirectoryFn<LockedDirectory>>,
    /// Whether a file of its directory is never written again once it is complete.
    pub(super) is_fixed: fn(&Path) -> bool,
}

/// Files that most engines keep open, at most.
const FILES_OPEN: u64 = 128;

impl EngineKind {
    /// An engine with this name and function to open it, and the defaults of most engines.
    pub(super) const fn new(
        name: &'static str,
        open: fn(&EngineOptions<'_>) -> Result<OpenedEngine, String>,
    ) -> EngineKind {
        EngineKind {
            name,
            takes_key: false,
            repairs_journal: false,
            open_files: |_| FILES_OPEN,
            is_missing: || false,
            check: |_| Ok(()),
            open,
            follow: None,
            open_source: None,
            open_rest: None,
            lend: None,
            is_fixed: |_| false,
        }
    }

    /// See [`super::check`].
    pub(super) fn check(&self, options: &EngineOptions<'_>) -> Result<(), String> {
        if options.key.is_some() && !self.takes_key {
            return Err(format!(
                "only --storageEngine rocksdb encrypts data, given {}",
                options.name
            ));
        }
        if options.repair && !self.repairs_journal {
            return Err(format!(
                "--repair needs --storageEngine rocksdb, whose journal it repairs, given {}",
                options.name
            ));
        }
        (self.check)(options)
    }

    /// See [`super::open`].
    pub(super) fn open(&self, options: &EngineOptions<'_>) -> Result<OpenedEngine, String> {
        self.check(options)?;
        (self.open)(options)
    }

    /// See [`super::open_copy`].
    pub(super) fn open_copy(
        &self,
        options: &EngineOptions<'_>,
        copy: &Path,
    ) -> Result<Source, String> {
        if let (Some(open), Some(_)) = (self.open_source, self.lend) {
            return open(options, copy);
        }
        let lent = self.copy_files(options, copy)?;
        let opened = self.open(&EngineOptions {
            path: copy,
            ..*options
        })?;
        Ok(Source {
            engine: opened.engine,
            _lent: Some(lent),
        })
    }

    /// See [`super::copy_files`].
    pub(super) fn copy_files(
        &self,
        options: &EngineOptions<'_>,
        to: &Path,
    ) -> Result<LockedDirectory, String> {
        if let Some(lend) = self.lend {
            return lend(options, to);
        }
        let engine = self.open(options)?.engine;
        let copied = engine.checkpoint(to);
        copied.map_err(|e| format!("cannot copy {}: {e}", options.path.display()))?;
        Ok(LockedDirectory::of(engine))
    }
}

/// The options for opening an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions<'a> {
    /// Its name.
    pub name: &'a str,
    /// Directory of the data.
    pub path: &'a Path,
    /// Bytes of memory it may use.
    pub bytes: u64,
    /// Longest time a commit stays out of the durable journal.
    pub journal_commit_interval_ms: u64,
    /// Open a damaged journal with the commits before the damage.
    pub repair: bool,
    /// Where the master key is; the data is encrypted.
    pub key: Option<&'a KeySource>,
    /// WiredTiger's shared library; the system's when it is not named.
    pub wiredtiger_library: Option<&'a str>,
    /// Directory of its header; the compiler's own places when it is not named.
    pub wiredtiger_include: Option<&'a str>,
    /// The cluster, for the engine that lies in one.
    pub tikv: Option<Cluster<'a>>,
    /// Receives the address of the server whose lease this one waits for.
    pub awaited: Option<&'a Holder>,
    /// The files of the directory are links to files of a repository.
    pub linked: bool,
}

/// A database in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Addresses of its placement drivers.
    pub pd: &'a [String],
    /// Files for TLS to it; without them everything is sent in the clear.
    pub tls: Option<&'a ClusterTls>,
    /// Name of the database.
    pub prefix: &'a str,
    /// Wait while another server holds it.
    pub standby: bool,
    /// Where other servers reach this one.
    pub address: Option<&'a str>,
    /// This server writes the database beside others.
    pub joins: bool,
    /// Seconds that old versions are kept; 0 leaves their removal to another program.
    pub keep_seconds: u64,
    /// The log to which a standby reports, repeatedly, why it cannot reach the cluster.
    pub log: Option<&'a Log>,
}

/// Files for TLS to a cluster, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTls {
    /// Certificates of the authorities that sign those of the cluster's servers.
    pub ca: PathBuf,
    /// Certificate that this server shows.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// An engine that is open.
pub struct OpenedEngine {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// The same engine, if other servers write the database, too.
    pub follower: Option<Arc<dyn Follower>>,
    /// The key that encrypts its files.
    pub data_key: Option<Arc<DataKey>>,
    /// A weakness that the log reports when the engine serves data.
    pub remark: Option<String>,
}

impl OpenedEngine {
    pub(super) fn of(engine: impl Engine + 'static) -> OpenedEngine {
        OpenedEngine {
            engine: Arc::new(engine),
            follower: None,
            data_key: None,
            remark: None,
        }
    }

    /// An engine to which other servers write, too.
    #[cfg(feature = "tikv")]
    pub(super) fn of_several(engine: impl Follower + 'static) -> OpenedEngine {
        let follower: Arc<dyn Follower> = Arc::new(engine);
        OpenedEngine {
            engine: Arc::clone(&follower) as Arc<dyn Engine>,
            follower: Some(follower),
            data_key: None,
            remark: None,
        }
    }
}

/// A database that is only read.
pub struct Source {
    /// The engine; writes through it do not reach the directory.
    pub engine: Arc<dyn Engine>,
    // Declared after the engine, so that the engine is dropped first.
    pub(super) _lent: Option<LockedDirectory>,
}

impl Source {
    #[cfg(any(feature = "lmdb", feature = "wiredtiger"))]
    pub(super) fn of(engine: impl Engine + 'static) -> Source {
        Source {
            engine: Arc::new(engine),
            _lent: None,
        }
    }
}

/// The readable part of a directory whose catalog of files cannot be read.
pub struct SalvagedSource {
    /// What can be read.
    pub source: Source,
    /// Files that cannot be read to their end.
    pub left_out: Vec<String>,
}

/// A data directory whose lock is held until this is dropped, so that no server opens it.
pub struct LockedDirectory {
    _holds: Box<dyn Any + Send>,
}

impl LockedDirectory {
    pub(super) fn of(holds: impl Any + Send) -> LockedDirectory {
        LockedDirectory {
            _holds: Box::new(holds),
        }
    }
}
