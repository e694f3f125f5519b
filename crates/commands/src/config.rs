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
    /// The release of MongoDB that is followed.
    pub profile: Profile,
    /// `host:port` clients reach us at.
    pub host: String,
    /// All clients are told `host`, whatever address they came in at.
    pub is_host_advertised: bool,
    /// Other servers that clients should try when this one is gone, `host:port`.
    pub successors: Vec<String>,
    /// One of several servers that clients may use at once, as routers of a sharded cluster: what
    /// one answers, each does.
    pub is_one_of_equals: bool,
    /// The commit that the program was built of, for `buildInfo`.
    pub revision: &'static str,
    /// Command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// The options that were given, for `getCmdLineOpts`.
    pub parsed: DocBuf,
    /// Compressors offered, best first: `zstd`, `zlib`, `snappy`.
    pub compressors: Vec<&'static str>,
    /// Most connections at a time.
    pub connections_max: u32,
    /// The log.
    pub log: Arc<Log>,
    /// The memory of all operations.
    pub memory: Arc<Budget>,
    /// Access is checked: users log in and do what their roles allow.
    pub auth: bool,
    /// Identity providers whose tokens log users in.
    pub oidc: Option<Arc<Providers>>,
    /// The directory that is asked for passwords.
    pub ldap: Option<Arc<Directory>>,
    /// Passwords for the directory may come over connections that are not encrypted.
    pub plain_without_tls: bool,
    /// Temporary files are encrypted.
    pub seals_files: bool,
    /// Where search indexes lie; `None` keeps them in memory.
    pub search_folder: Option<PathBuf>,
    /// JavaScript runs; mongod's `--noscripting` otherwise.
    pub scripting: bool,
    /// Threads that may read for one aggregation or count; `None` is one for each processor. It
    /// holds for the process.
    pub scan_threads: Option<usize>,
    /// How many documents segments of column indexes have. For tests; no option sets it.
    pub column_segments: Sizes,
    /// Aggregations run as written when false. For tests that compare; no option sets it.
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
