//! Configuration of the command layer.

use identity_ldap::Directory;
use identity_oidc::Providers;
use logs::Log;
use memory::Budget;
use model::DocBuf;
use operators::Profile;
pub use query::segments::Sizes;
use std::path::PathBuf;
use std::sync::Arc;

/// Configuration of the command layer.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the replica set to present; `None` is the standalone profile.
    pub replica_set: Option<String>,
    /// The release of MongoDB that the server follows.
    pub profile: Profile,
    /// The address at which clients reach this server, `host:port`.
    pub host: String,
    /// All clients are told `host`, whichever address they connected to.
    pub is_host_advertised: bool,
    /// Other servers that clients should try when this one is not available, `host:port`.
    pub successors: Vec<String>,
    /// This server is one of several that clients may use at the same time, as they use the routers
    /// of a sharded cluster: all of them answer alike.
    pub is_one_of_equals: bool,
    /// The commit that the program was built from, for `buildInfo`.
    pub revision: &'static str,
    /// Command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// The options that were given at the start, for `getCmdLineOpts`.
    pub parsed: DocBuf,
    /// Compressors offered, best first: `zstd`, `zlib`, `snappy`.
    pub compressors: Vec<&'static str>,
    /// Most connections at a time.
    pub connections_max: u32,
    /// The server's log.
    pub log: Arc<Log>,
    /// The memory budget of all operations.
    pub memory: Arc<Budget>,
    /// Whether access is checked: users log in and may do what their roles allow.
    pub auth: bool,
    /// The identity providers whose tokens are accepted for logging in.
    pub oidc: Option<Arc<Providers>>,
    /// The directory that checks passwords.
    pub ldap: Option<Arc<Directory>>,
    /// Passwords for the directory may be sent over connections that are not encrypted.
    pub plain_without_tls: bool,
    /// Temporary files are encrypted.
    pub seals_files: bool,
    /// The folder of search indexes; `None` keeps them in memory.
    pub search_folder: Option<PathBuf>,
    /// Whether JavaScript runs; false corresponds to mongod's `--noscripting`.
    pub scripting: bool,
    /// Threads that may read for one aggregation or count; `None` is one per processor. The value
    /// applies to the whole process.
    pub scan_threads: Option<usize>,
    /// How many documents the segments of column indexes have. For tests; no option sets it.
    pub column_segments: Sizes,
    /// When false, aggregations run as written. For tests that compare results; no option sets it.
    pub optimize_pipelines: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            replica_set: Some("rs0".to_owned()),
            profile: Profile::default(),
            host: "localhost:27017".to_owned(),
            is_host_advertised: false,
            successors: Vec::new(),
            is_one_of_equals: false,
            revision: "unknown",
            argv: vec!["quarry".to_owned()],
            parsed: DocBuf::new(),
            compressors: vec!["zstd", "zlib", "snappy"],
            connections_max: 65536,
            log: Arc::new(Log::new()),
            memory: Arc::new(Budget::unlimited()),
            auth: false,
            oidc: None,
            ldap: None,
            plain_without_tls: false,
            seals_files: false,
            search_folder: None,
            scripting: true,
            scan_threads: None,
            column_segments: Sizes::default(),
            optimize_pipelines: true,
        }
    }
}
