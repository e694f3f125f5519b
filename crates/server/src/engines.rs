//! The engine factory. A new engine is one arm here.

use crate::forward::Holder;
use crate::key_source::KeySource;
#[cfg(feature = "rocksdb")]
use crate::output::print_line;
use cipher::DataKey;
use logs::Log;
#[cfg(feature = "tikv")]
use logs::{Entry, Severity, component, id};
use std::path::Path;
use std::sync::Arc;
#[cfg(any(
    feature = "rocksdb",
    feature = "lmdb",
    feature = "wiredtiger",
    feature = "tikv"
))]
use storage::StorageError;
use storage::{Engine, MemoryEngine};

/// Engines of this build, the default one first.
pub const NAMES: &[&str] = &[
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    #[cfg(feature = "lmdb")]
    "lmdb",
    #[cfg(feature = "wiredtiger")]
    "wiredTiger",
    #[cfg(feature = "tikv")]
    "tikv",
    "memory",
];

/// What an engine is opened with.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions<'a> {
    /// One of [`NAMES`].
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

/// Files that engines other than RocksDB keep open, at most.
const FILES_OF_OTHERS: u64 = 128;

/// Files that an engine keeps open, under the present limit of the process.
pub fn open_files(options: &EngineOptions<'_>) -> u64 {
    match options.name {
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let bytes = usize::try_from(options.bytes).unwrap_or(usize::MAX);
            u64::from(engine_rocksdb::open_files_max(bytes))
        }
        "memory" => 0,
        _ => FILES_OF_OTHERS,
    }
}

/// Whether an engine of this build needs a library that is not on this machine.
pub fn is_missing(name: &str) -> bool {
    match name {
        #[cfg(feature = "wiredtiger")]
        "wiredTiger" => {
            let name = engine_wiredtiger::LIBRARY_NAME;
            engine_wiredtiger::Library::load(name, None).is_err()
        }
        _ => false,
    }
}

/// Whether the options of an engine go together, before anything of it is touched.
///
/// # Errors
/// One line that says what to do.
pub fn check(options: &EngineOptions<'_>) -> Result<(), String> {
    if options.key.is_some() && options.name != "rocksdb" {
        return Err(format!(
            "data is encrypted by --storageEngine rocksdb only, given {}",
            options.name
        ));
    }
    if options.repair && options.name != "rocksdb" {
        return Err(format!(
            "--repair is for the journal of rocksdb, given --storageEngine {}",
            options.name
        ));
    }
    #[cfg(feature = "wiredtiger")]
    if options.name == "wiredTiger" {
        wiredtiger_library(options)?;
    }
    Ok(())
}

/// Opens an engine.
///
/// # Errors
/// One line that says what to do.
pub fn open(options: &EngineOptions<'_>) -> Result<Opened, String> {
    check(options)?;
    match options.name {
        #[cfg(feature = "rocksdb")]
        "rocksdb" => open_rocksdb(options),
        #[cfg(feature = "lmdb")]
        "lmdb" => open_lmdb(options),
        #[cfg(feature = "wiredtiger")]
        "wiredTiger" => open_wiredtiger(options),
        #[cfg(feature = "tikv")]
        "tikv" => open_tikv(options),
        "memory" => Ok(Opened::plain(MemoryEngine::new())),
        other => Err(format!(
            "unknown storage engine {other}; this build has {}",
            NAMES.join(" and ")
        )),
    }
}

/// A database that is only read.
pub struct Source {
    /// The engine; what is written through it does not reach the directory.
    pub engine: Arc<dyn Engine>,
    // Behind the engine, which is to be dropped before.
    #[cfg(feature = "rocksdb")]
    _borrowed: Option<engine_rocksdb::Borrowed>,
    _lent: Option<Lent>,
}

impl Source {
    fn plain(engine: impl Engine + 'static) -> Source {
        Source::of(Arc::new(engine))
    }

    fn of(engine: Arc<dyn Engine>) -> Source {
        Source {
            engine,
            #[cfg(feature = "rocksdb")]
            _borrowed: None,
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
    match options.name {
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let failed = |e| advice(&e, &options.path.display().to_string());
            let config = rocksdb_config(options)?;
            let borrowed = engine_rocksdb::Borrowed::make(options.path, scratch).map_err(failed)?;
            Ok(Source {
                engine: Arc::new(borrowed.open(config).map_err(failed)?),
                _borrowed: Some(borrowed),
                _lent: None,
            })
        }
        #[cfg(feature = "lmdb")]
        "lmdb" => {
            let config = engine_lmdb::Config {
                read_only: true,
                ..engine_lmdb::Config::at(options.path)
            };
            match engine_lmdb::LmdbEngine::open(&config) {
                Ok(engine) => Ok(Source::plain(engine)),
                Err(e) => Err(advice(&e, &options.path.display().to_string())),
            }
        }
        #[cfg(feature = "wiredtiger")]
        "wiredTiger" => {
            let config = engine_wiredtiger::Config {
                read_only: true,
                ..wiredtiger_config(options)
            };
            match engine_wiredtiger::WiredTigerEngine::open(&config, &wiredtiger_library(options)?)
            {
                Ok(engine) => Ok(Source::plain(engine)),
                Err(e) => Err(advice(&e, &options.path.display().to_string())),
            }
        }
        other => {
            let _ = scratch;
            Err(format!("storage engine {other} has no directory to read"))
        }
    }
}

/// Opens a copy of a data directory, which is not changed and stays locked; `copy` is made, and
/// removed by the caller.
///
/// # Errors
/// One line that says what to do.
pub fn open_copy(options: &EngineOptions<'_>, copy: &Path) -> Result<Source, String> {
    if options.name == "rocksdb" {
        return open_source(options, copy);
    }
    let lent = lend(options, copy)?;
    let opened = open(&EngineOptions {
        path: copy,
        ..*options
    })?;
    Ok(Source {
        _lent: Some(lent),
        ..Source::of(opened.engine)
    })
}

/// A data directory whose lock is held, so that no server opens it.
pub struct Lent {
    // Closed when dropped.
    _engine: Option<Arc<dyn Engine>>,
    #[cfg(feature = "rocksdb")]
    _borrowed: Option<engine_rocksdb::Borrowed>,
}

/// Makes `to` a copy of the files of a data directory, that nobody changes; fixed files are links.
/// RocksDB's files are not opened, so no key is needed for encrypted ones.
///
/// # Errors
/// One line that says what to do.
pub fn lend(options: &EngineOptions<'_>, to: &Path) -> Result<Lent, String> {
    let shown = options.path.display().to_string();
    #[cfg(feature = "rocksdb")]
    if options.name == "rocksdb" {
        let borrowed = engine_rocksdb::Borrowed::make(options.path, to);
        return Ok(Lent {
            _engine: None,
            _borrowed: Some(borrowed.map_err(|e| advice(&e, &shown))?),
        });
    }
    let engine = open(options)?.engine;
    let copied = engine.checkpoint(to);
    copied.map_err(|e| format!("cannot copy {shown}: {e}"))?;
    Ok(Lent {
        _engine: Some(engine),
        #[cfg(feature = "rocksdb")]
        _borrowed: None,
    })
}

/// Whether a file of a data directory is never written again once it is complete.
pub fn is_fixed(file: &Path) -> bool {
    #[cfg(feature = "rocksdb")]
    if engine_rocksdb::is_final(file) {
        return true;
    }
    let _ = file;
    false
}

#[cfg(feature = "rocksdb")]
fn rocksdb_config(options: &EngineOptions<'_>) -> Result<engine_rocksdb::Config, String> {
    engine_rocksdb::raise_open_files_limit();
    let bytes = usize::try_from(options.bytes).unwrap_or(usize::MAX);
    let mut config = engine_rocksdb::Config::with_budget(options.path, bytes);
    config.journal_commit_interval_ms = options.journal_commit_interval_ms;
    config.repair = options.repair;
    if options.linked {
        // Obsolete files are otherwise shortened before they go.
        config.delete_bytes_per_s = 0;
    }
    if let Some(source) = options.key {
        config.master_key = Some(Arc::new(source.key_of(options.path)?));
    }
    Ok(config)
}

#[cfg(feature = "rocksdb")]
fn open_rocksdb(options: &EngineOptions<'_>) -> Result<Opened, String> {
    let path = options.path;
    match engine_rocksdb::RocksEngine::open(rocksdb_config(options)?) {
        Ok(engine) => {
            if let Some(report) = engine.repaired() {
                print_line(format_args!(
                    "quarry: repaired {}: {report}",
                    path.display()
                ));
            }
            Ok(Opened {
                data_key: engine.data_key(),
                ..Opened::plain(engine)
            })
        }
        Err(e) => Err(advice(&e, &path.display().to_string())),
    }
}

#[cfg(feature = "lmdb")]
const LMDB_REMARK: &str = "lmdb flushes every commit, whatever write concern asks for; its cache \
    is the system's page cache, outside of --memory; its file does not shrink";

#[cfg(feature = "lmdb")]
fn open_lmdb(options: &EngineOptions<'_>) -> Result<Opened, String> {
    match engine_lmdb::LmdbEngine::open(&engine_lmdb::Config::at(options.path)) {
        Ok(engine) => Ok(Opened {
            remark: Some(LMDB_REMARK.to_owned()),
            ..Opened::plain(engine)
        }),
        Err(e) => Err(advice(&e, &options.path.display().to_string())),
    }
}

/// Of its part of the memory, what the cache takes; the rest is for sessions and what a checkpoint
/// needs.
#[cfg(feature = "wiredtiger")]
const WIREDTIGER_CACHE_PERCENT: u64 = 80;

#[cfg(feature = "wiredtiger")]
fn wiredtiger_config(options: &EngineOptions<'_>) -> engine_wiredtiger::Config {
    let cache = options.bytes / 100 * WIREDTIGER_CACHE_PERCENT;
    let mut config = engine_wiredtiger::Config::at(options.path, cache);
    config.journal_commit_interval_ms = options.journal_commit_interval_ms;
    config
}

#[cfg(feature = "wiredtiger")]
fn wiredtiger_library(options: &EngineOptions<'_>) -> Result<engine_wiredtiger::Library, String> {
    let name = options.wiredtiger_library;
    let name = name.unwrap_or(engine_wiredtiger::LIBRARY_NAME);
    engine_wiredtiger::Library::load(name, options.wiredtiger_include)
}

#[cfg(feature = "wiredtiger")]
fn open_wiredtiger(options: &EngineOptions<'_>) -> Result<Opened, String> {
    let library = wiredtiger_library(options)?;
    match engine_wiredtiger::WiredTigerEngine::open(&wiredtiger_config(options), &library) {
        Ok(engine) => Ok(Opened {
            remark: Some(format!(
                "wiredTiger is {}, loaded from this machine; commits queue, data is not \
                 compressed, and a snapshot that is held fills the cache",
                library.version()
            )),
            ..Opened::plain(engine)
        }),
        Err(e) => Err(advice(&e, &options.path.display().to_string())),
    }
}

/// How long a standby waits before it tries again to reach a cluster that does not answer.
#[cfg(feature = "tikv")]
const OUTAGE_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

/// Tells the log that the cluster does not answer.
#[cfg(feature = "tikv")]
fn report_outage(tikv: &Cluster<'_>, error: &StorageError) {
    let Some(log) = tikv.log else {
        return;
    };
    let message = format!(
        "the cluster at {} does not answer: {}; trying again",
        tikv.pd.join(","),
        crate::failure::with_cause(error)
    );
    let entry = Entry::info(id::MESSAGE, component::STORAGE, "engine", &message);
    log.write(&entry.severity(Severity::Warning));
}

/// Opens a database in a cluster; while another server holds it a standby waits, until this process
/// is told to end.
#[cfg(feature = "tikv")]
fn open_tikv(options: &EngineOptions<'_>) -> Result<Opened, String> {
    use std::sync::atomic::{AtomicBool, Ordering};
    let tikv = options.tikv.ok_or("storage engine tikv needs --tikvPd")?;
    let mut config = engine_tikv::Config::at(tikv.pd.to_vec(), tikv.prefix);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    config.name = format!("process {} of {host}", std::process::id());
    let seconds = Some(tikv.keep_seconds).filter(|s| *s > 0);
    config.address = tikv.address.unwrap_or_default().to_owned();
    config.awaited = options.awaited.cloned();
    config.keep_versions = seconds.map(std::time::Duration::from_secs);
    if tikv.standby {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGHUP,
        ] {
            signal_hook::flag::register(signal, Arc::clone(&told))
                .map_err(|e| format!("cannot wait for signals: {e}"))?;
        }
        config.standby = Some(told);
    }
    // Others have waited for the lease; who is alone can still renew it.
    if tikv.standby {
        config.patience = std::time::Duration::ZERO;
    }
    let ended = config.standby.clone();
    let ended = || {
        ended
            .as_ref()
            .is_some_and(|told| told.load(Ordering::Relaxed))
    };
    let opened = loop {
        match engine_tikv::TikvEngine::open(&config) {
            // A standby outlives an outage of the cluster, however long it is.
            Err(e @ StorageError::Io { .. }) if tikv.standby && !ended() => {
                report_outage(&tikv, &e);
                std::thread::sleep(OUTAGE_PAUSE);
            }
            opened => break opened,
        }
    };
    match opened {
        Ok(engine) => Ok(Opened {
            remark: Some(format!(
                "tikv is {} of the cluster at {}; this server {}, and every commit is durable, \
                 whatever write concern asks for",
                tikv.prefix,
                tikv.pd.join(","),
                match tikv.address {
                    Some(_) => "holds it, and others hand it their connections",
                    None => "is the only one on it",
                }
            )),
            ..Opened::plain(engine)
        }),
        Err(StorageError::Locked { .. }) if ended() => {
            Err("ended while another server held the database".to_owned())
        }
        Err(e @ StorageError::Locked { .. }) => Err(format!(
            "{e}; stop that server, start this one with --tikvStandby to take over when it is \
             gone, or choose another --tikvPrefix"
        )),
        Err(e) => {
            let cause = std::error::Error::source(&e).map(|c| format!(" ({c})"));
            let (pd, cause) = (tikv.pd.join(","), cause.unwrap_or_default());
            Err(format!("cannot open {} at {pd}: {e}{cause}", tikv.prefix))
        }
    }
}

/// Files that a data directory of mongod has.
const FILES_OF_MONGOD: [&str; 2] = ["WiredTiger", "storage.bson"];

/// What to do with a directory that is not of the engine.
#[cfg(any(feature = "rocksdb", feature = "lmdb", feature = "wiredtiger"))]
fn advice_on_data(path: &str) -> String {
    let directory = Path::new(path);
    match storage::engine_of(directory) {
        Ok(Some(engine)) => format!(
            "start with --storageEngine {engine}, or copy the data into another --dbpath with \
             quarry convert"
        ),
        Ok(None)
            if FILES_OF_MONGOD
                .iter()
                .any(|file| directory.join(file).exists()) =>
        {
            "it is of mongod: choose an empty directory for --dbpath, start mongod on this one, \
             and copy with mongodump and mongorestore"
                .to_owned()
        }
        _ => "choose an empty directory for --dbpath".to_owned(),
    }
}

/// The error and what to do about it.
#[cfg(any(feature = "rocksdb", feature = "lmdb", feature = "wiredtiger"))]
fn advice(e: &StorageError, path: &str) -> String {
    match e {
        StorageError::Locked { .. } => {
            format!("{e}; stop the other server or choose another --dbpath")
        }
        StorageError::ForeignDirectory { .. } => format!("{e}; {}", advice_on_data(path)),
        StorageError::NotUnlocked { .. } => {
            format!("{e}; see --enableEncryption and --encryptionKeyFile; nothing was changed")
        }
        StorageError::NewerFormat { .. } => format!("cannot open {path}: {e}; use a newer quarry"),
        StorageError::Full { .. } => format!("cannot open {path}: {e}; free some space"),
        StorageError::JournalDamaged { .. } => format!(
            "cannot open {path}: {e}; restore a backup, or start once with --repair to open with \
                the commits before the damage; \
             nothing was changed"
        ),
        StorageError::Corrupt { .. } => {
            let cause = std::error::Error::source(e)
                .map(|c| format!(" ({c})"))
                .unwrap_or_default();
            format!("cannot open {path}: {e}{cause}; restore a backup, nothing was changed")
        }
        _ => {
            let cause = std::error::Error::source(e)
                .map(|c| format!(" ({c})"))
                .unwrap_or_default();
            format!("cannot open {path}: {e}{cause}")
        }
    }
}
