//! The engines: each is a file here and a row of [`ALL`]. Must not know: what is done with data.

#[cfg(any(feature = "rocksdb", feature = "lmdb", feature = "wiredtiger"))]
mod advice;
#[cfg(feature = "lmdb")]
mod lmdb;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "tikv")]
mod tikv;
#[cfg(feature = "wiredtiger")]
mod wiredtiger;

use crate::forward::Holder;
use crate::key_source::KeySource;
use cipher::DataKey;
use logs::Log;
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use storage::Engine;

/// Engines of this build, the default one first.
pub static ALL: &[&EngineKind] = &[
    #[cfg(feature = "rocksdb")]
    &rocksdb::KIND,
    #[cfg(feature = "lmdb")]
    &lmdb::KIND,
    #[cfg(feature = "wiredtiger")]
    &wiredtiger::KIND,
    #[cfg(feature = "tikv")]
    &tikv::KIND,
    &memory::KIND,
];

/// An engine: how it is opened, and what it can do.
pub struct EngineKind {
    /// What options call it.
    pub name: &'static str,
    /// Its data can be encrypted.
    takes_key: bool,
    /// It has a journal that can be opened with the commits before a damage.
    repairs_journal: bool,
    /// Files it keeps open, under the present limit of the process.
    open_files: fn(&EngineOptions<'_>) -> u64,
    /// Whether it needs a library that is not on this machine.
    is_missing: fn() -> bool,
    /// Whether its own options go together.
    check: fn(&EngineOptions<'_>) -> Result<(), String>,
    open: fn(&EngineOptions<'_>) -> Result<Opened, String>,
    /// Opens its directory for reading; `None` without a directory.
    open_source: Option<fn(&EngineOptions<'_>, &Path) -> Result<Source, String>>,
    open_copy: fn(&EngineOptions<'_>, &Path) -> Result<Source, String>,
    lend: fn(&EngineOptions<'_>, &Path) -> Result<Lent, String>,
    /// Whether a file of its directory is never written again once it is complete.
    is_fixed: fn(&Path) -> bool,
}

/// Files that most engines keep open, at most.
const FILES_OPEN: u64 = 128;

impl EngineKind {
    /// An engine that can be opened, and does everything else as most do.
    const fn new(
        name: &'static str,
        open: fn(&EngineOptions<'_>) -> Result<Opened, String>,
    ) -> EngineKind {
        EngineKind {
            name,
            takes_key: false,
            repairs_journal: false,
            open_files: |_| FILES_OPEN,
            is_missing: || false,
            check: |_| Ok(()),
            open,
            open_source: None,
            open_copy: open_checkpoint,
            lend: lend_checkpoint,
            is_fixed: |_| false,
        }
    }
}

/// The names of all engines of this build, for people.
pub fn list() -> String {
    let names: Vec<&str> = ALL.iter().map(|kind| kind.name).collect();
    names.join(" and ")
}

/// Whether this build has an engine.
pub fn is_known(name: &str) -> bool {
    ALL.iter().any(|kind| kind.name == name)
}

/// Whether an engine of this build keeps data in a directory.
pub fn has_directory(name: &str) -> bool {
    find(name).is_ok_and(|kind| kind.open_source.is_some())
}

fn find(name: &str) -> Result<&'static EngineKind, String> {
    let kind = ALL.iter().copied().find(|kind| kind.name == name);
    kind.ok_or_else(|| format!("unknown storage engine {name}; this build has {}", list()))
}

/// What an engine is opened with.
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
    /// Gets the address of the server that is waited for.
    pub awaited: Option<&'a Holder>,
    /// Files of the directory are links to somebody else's.
    pub linked: bool,
}

/// A database in a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Addresses of its placement drivers.
    pub pd: &'a [String],
    /// Name of the database.
    pub prefix: &'a str,
    /// Wait while another server holds it.
    pub standby: bool,
    /// Where other servers reach this one.
    pub address: Option<&'a str>,
    /// Seconds that old versions are kept; 0 leaves them to somebody else.
    pub keep_seconds: u64,
    /// Gets the reason why a standby cannot reach the cluster, again and again.
    pub log: Option<&'a Log>,
}

/// An engine that is open.
pub struct Opened {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// What its files are sealed with.
    pub data_key: Option<Arc<DataKey>>,
    /// What it cannot do well, for whoever serves data with it.
    pub remark: Option<String>,
}

impl Opened {
    fn plain(engine: impl Engine + 'static) -> Opened {
        Opened {
            engine: Arc::new(engine),
            data_key: None,
            remark: None,
        }
    }
}

/// Files that an engine keeps open, under the present limit of the process.
pub fn open_files(options: &EngineOptions<'_>) -> u64 {
    find(options.name).map_or(0, |kind| (kind.open_files)(options))
}

/// Whether an engine of this build needs a library that is not on this machine.
pub fn is_missing(name: &str) -> bool {
    find(name).is_ok_and(|kind| (kind.is_missing)())
}

/// Whether the options of an engine go together, before anything of it is touched.
///
/// # Errors
/// One line that says what to do.
pub fn check(options: &EngineOptions<'_>) -> Result<(), String> {
    let kind = find(options.name)?;
    if options.key.is_some() && !kind.takes_key {
        return Err(format!(
            "data is encrypted by --storageEngine rocksdb only, given {}",
            options.name
        ));
    }
    if options.repair && !kind.repairs_journal {
        return Err(format!(
            "--repair is for the journal of rocksdb, given --storageEngine {}",
            options.name
        ));
    }
    (kind.check)(options)
}

/// Opens an engine.
///
/// # Errors
/// One line that says what to do.
pub fn open(options: &EngineOptions<'_>) -> Result<Opened, String> {
    check(options)?;
    (find(options.name)?.open)(options)
}

/// A database that is only read.
pub struct Source {
    /// The engine; what is written through it does not reach the directory.
    pub engine: Arc<dyn Engine>,
    // Behind the engine, which is to be dropped before.
    _lent: Option<Lent>,
}

impl Source {
    #[cfg(any(feature = "lmdb", feature = "wiredtiger"))]
    fn plain(engine: impl Engine + 'static) -> Source {
        Source {
            engine: Arc::new(engine),
            _lent: None,
        }
    }
}

/// Opens an engine for reading: nothing in its directory changes, and no server can open it
/// meanwhile. `scratch` is a directory that may be made and is removed again.
///
/// # Errors
/// One line that says what to do.
pub fn open_source(options: &EngineOptions<'_>, scratch: &Path) -> Result<Source, String> {
    match find(options.name)?.open_source {
        Some(open) => open(options, scratch),
        None => Err(format!(
            "storage engine {} has no directory to read",
            options.name
        )),
    }
}

/// Opens a copy of a data directory, which is not changed and stays locked; `copy` is made, and
/// removed by the caller.
///
/// # Errors
/// One line that says what to do.
pub fn open_copy(options: &EngineOptions<'_>, copy: &Path) -> Result<Source, String> {
    (find(options.name)?.open_copy)(options, copy)
}

/// Opens a checkpoint of a directory.
fn open_checkpoint(options: &EngineOptions<'_>, copy: &Path) -> Result<Source, String> {
    let lent = lend(options, copy)?;
    let opened = open(&EngineOptions {
        path: copy,
        ..*options
    })?;
    Ok(Source {
        engine: opened.engine,
        _lent: Some(lent),
    })
}

/// A data directory whose lock is held until this is dropped, so that no server opens it.
pub struct Lent {
    _holds: Box<dyn Any + Send>,
}

impl Lent {
    fn of(holds: impl Any + Send) -> Lent {
        Lent {
            _holds: Box::new(holds),
        }
    }
}

/// Makes `to` a copy of the files of a data directory, that nobody changes; fixed files are links.
///
/// # Errors
/// One line that says what to do.
pub fn lend(options: &EngineOptions<'_>, to: &Path) -> Result<Lent, String> {
    (find(options.name)?.lend)(options, to)
}

/// Opens a directory and has its engine copy it.
fn lend_checkpoint(options: &EngineOptions<'_>, to: &Path) -> Result<Lent, String> {
    let engine = open(options)?.engine;
    let copied = engine.checkpoint(to);
    copied.map_err(|e| format!("cannot copy {}: {e}", options.path.display()))?;
    Ok(Lent::of(engine))
}

/// Whether a file of a data directory is never written again once it is complete.
pub fn is_fixed(file: &Path) -> bool {
    ALL.iter().any(|kind| (kind.is_fixed)(file))
}
