//! Configuration: the command line overrides the configuration file, which overrides the defaults.
//! Options that mongod has keep mongod's names.

mod audit;
mod compat;
mod document;
mod engine;
mod error_line;
mod foreign;
mod given;
mod identity;
mod ldap;
mod logging;
mod metrics;
mod network;
mod otlp;
mod parameters;
mod security;
mod tikv;
mod tls;
mod vault;

pub use audit::{AuditArgs, AuditConfig};
pub use foreign::leave_out;
pub use given::OptionFields;
pub use identity::IdentityProviders;
pub use ldap::LdapArgs;
pub use logging::{LogArgs, LogConfig};
pub use metrics::{Metrics, MetricsArgs};
pub use otlp::{Otlp, OtlpArgs};
pub use parameters::list_of;
pub use security::SecurityArgs;
pub use tikv::{Tikv, TikvArgs};

use crate::engines::EngineOptions;
use crate::net::TlsMode;
use crate::tls::TlsFiles;
use audit::AuditSection;
use clap::Args;
use commands::Profile;
use compat::profile;
use engine::choose_engine;
use error_line::one_line;
use foreign::leave_out_keys;
use ldap::OwnLdap;
use logging::{OperationProfiling, ProcessManagement, Sections, SystemLog};
use model::DocBuf;
use network::{Net, advertised_address, known_compressors, listen_addresses};
use parameters::parameters;
use security::{Security, checks_access, encryption};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tikv::TikvSection;
use tls::tls;

pub use crate::key_source::KeySource;
pub use tls::TlsArgs;
pub use vault::{VaultArgs, VaultSection};

/// Options of `quarry serve`.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Data directory; the server creates it if it does not exist [default: ./data]
    #[arg(long, value_name = "DIR", help_heading = "Data")]
    pub dbpath: Option<PathBuf>,
    /// TCP port to listen on; 0 takes any free port [default: 27017]
    #[arg(long, value_name = "N", help_heading = "Network")]
    pub port: Option<u16>,
    /// Addresses or host names to listen on, separated by commas [default: 127.0.0.1]
    #[arg(long = "bind_ip", value_name = "A", help_heading = "Network")]
    pub bind_ip: Option<String>,
    /// Listen on all addresses: 0.0.0.0, and with --ipv6 also ::
    #[arg(
        long = "bind_ip_all",
        conflicts_with = "bind_ip",
        help_heading = "Network"
    )]
    pub bind_ip_all: bool,
    /// HOST or HOST:PORT that the server tells clients to use, such as that of a forwarded port
    /// [default: the address to which each client connected; its port is that of --port]
    #[arg(long, value_name = "HOST:PORT", help_heading = "Network")]
    pub advertise: Option<String>,
    /// Listen on IPv6 addresses, too
    #[arg(long, help_heading = "Network")]
    pub ipv6: bool,
    /// Release of MongoDB to follow where releases differ: 8.2 or 9.0 [default: 8.2]
    #[arg(long, value_name = "VERSION", help_heading = "Replica set")]
    pub compat: Option<String>,
    /// Appear to clients as a standalone server instead of the primary of a replica set
    #[arg(long, help_heading = "Replica set")]
    pub standalone: bool,
    /// Name of the replica set that clients see [default: rs0]
    #[arg(
        long = "replSet",
        value_name = "NAME",
        conflicts_with = "standalone",
        help_heading = "Replica set"
    )]
    pub repl_set: Option<String>,
    /// Size of a new oplog in megabytes, at least 1 [default: 5 % of the free disk space, within
    /// 990 to 51200 and at most a quarter of the free space]. With --tikvWrites here 0 is allowed:
    /// no oplog and no change streams
    #[arg(
        long = "oplogSize",
        value_name = "MB",
        conflicts_with = "standalone",
        help_heading = "Replica set"
    )]
    pub oplog_size: Option<u64>,
    /// Limit of resident memory, such as 512M or 4G, at least 128M [default: half of the memory
    /// that this process may use]
    #[arg(long, value_name = "SIZE", help_heading = "Data")]
    pub memory: Option<String>,
    /// Most threads that read for one aggregation or count [default: one for each processor]
    #[arg(
        long = "scanThreads",
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..),
        help_heading = "Data"
    )]
    pub scan_threads: Option<u16>,
    /// Storage engine: rocksdb, lmdb, wiredTiger, tikv or memory [default: the engine of the
    /// existing data, rocksdb for a new directory]
    #[arg(long = "storageEngine", value_name = "NAME", help_heading = "Data")]
    pub storage_engine: Option<String>,
    /// The location of WiredTiger.
    #[command(flatten)]
    pub wiredtiger: WiredTigerArgs,
    /// The location of TiKV.
    #[command(flatten)]
    pub tikv: TikvArgs,
    /// Milliseconds after which a commit that no client waits for is flushed to the journal at the
    /// latest, 1 to 500 [default: 100]
    #[arg(
        long = "journalCommitInterval",
        value_name = "MS",
        help_heading = "Data"
    )]
    pub journal_commit_interval: Option<u64>,
    /// Open data with a damaged journal by the commits before the damage, and report the lost
    /// commits
    #[arg(long, help_heading = "Data")]
    pub repair: bool,
    /// Disable JavaScript: the server refuses $where, $function, $accumulator and mapReduce
    #[arg(long)]
    pub noscripting: bool,
    /// YAML configuration file in mongod's layout; options of the command line override it
    #[arg(long, short = 'f', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of the unix socket [default: /tmp]
    #[arg(
        long = "unixSocketPrefix",
        value_name = "DIR",
        help_heading = "Network"
    )]
    pub unix_socket_prefix: Option<PathBuf>,
    /// Do not listen on a unix socket
    #[arg(long, help_heading = "Network")]
    pub nounixsocket: bool,
    /// Most client connections at a time; a low limit of open files reduces it [default: 65536]
    #[arg(long = "maxConns", value_name = "N", help_heading = "Network")]
    pub max_conns: Option<u32>,
    /// Compressors for clients, separated by commas, or disabled [default: zstd,zlib,snappy]
    #[arg(
        long = "networkMessageCompressors",
        value_name = "LIST",
        help_heading = "Network"
    )]
    pub network_message_compressors: Option<String>,
    /// Access, and encryption of the data.
    #[command(flatten)]
    pub security: SecurityArgs,
    /// The directory that checks passwords.
    #[command(flatten)]
    pub ldap: LdapArgs,
    /// TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Allow addresses that other machines reach although access control is off
    #[arg(long = "allowOpenAccess", help_heading = "Network")]
    pub allow_open_access: bool,
    /// Server parameter, such as enableTestCommands=1; repeat the option for several parameters
    #[arg(long = "setParameter", value_name = "NAME=VALUE")]
    pub set_parameter: Vec<String>,
    /// The port for metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Metrics for a collector.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// The log, the process, slow operations.
    #[command(flatten)]
    pub log: LogArgs,
    /// The audit.
    #[command(flatten)]
    pub audit: AuditArgs,
    /// Options of mongod that were given and have no effect.
    #[arg(skip)]
    pub without_effect: Vec<String>,
    /// The program was called as mongod.
    #[arg(skip)]
    pub as_mongod: bool,
    /// What the command line gave, as it is shown.
    #[arg(skip)]
    pub given: OptionFields,
}

/// Options for an engine that is the user's own.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "WiredTiger")]
pub struct WiredTigerArgs {
    /// WiredTiger's shared library: a path, or a name that the dynamic linker finds [default:
    /// libwiredtiger.so]
    #[arg(long = "wiredTigerLibrary", value_name = "FILE")]
    pub wiredtiger_library: Option<String>,
    /// Directory of WiredTiger's header wiredtiger.h [default: the C compiler's include path]
    #[arg(long = "wiredTigerInclude", value_name = "DIR")]
    pub wiredtiger_include: Option<String>,
}

impl WiredTigerArgs {
    fn or(&self, library: Option<String>, include: Option<String>) -> WiredTigerArgs {
        WiredTigerArgs {
            wiredtiger_library: self.wiredtiger_library.clone().or(library),
            wiredtiger_include: self.wiredtiger_include.clone().or(include),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct File {
    net: Net,
    storage: Storage,
    security: Security,
    replication: Replication,
    quarry: QuarrySection,
    #[serde(rename = "setParameter")]
    set_parameter: BTreeMap<String, serde_yaml_ng::Value>,
    #[serde(rename = "systemLog")]
    system_log: Option<SystemLog>,
    #[serde(rename = "processManagement")]
    process_management: Option<ProcessManagement>,
    #[serde(rename = "operationProfiling")]
    operation_profiling: Option<OperationProfiling>,
    #[serde(rename = "auditLog")]
    audit_log: AuditSection,
    /// Keys of mongod that have no effect here.
    #[serde(skip)]
    without_effect: Vec<String>,
    /// The whole file, for showing it.
    #[serde(skip)]
    given: Option<serde_yaml_ng::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Storage {
    db_path: Option<PathBuf>,
    engine: Option<String>,
    journal: Journal,
    repair: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Journal {
    commit_interval_ms: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Replication {
    repl_set_name: Option<String>,
    #[serde(rename = "oplogSizeMB")]
    oplog_size_mb: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct QuarrySection {
    memory: Option<String>,
    scan_threads: Option<std::num::NonZero<u16>>,
    standalone: bool,
    compat: Option<String>,
    allow_open_access: bool,
    ldap: OwnLdap,
    metrics_port: Option<u16>,
    metrics_bind_ip: Option<IpAddr>,
    metrics_token_file: Option<PathBuf>,
    metrics_hosts: Option<String>,
    otlp: otlp::OtlpSection,
    #[serde(rename = "wiredTigerLibrary")]
    wiredtiger_library: Option<String>,
    #[serde(rename = "wiredTigerInclude")]
    wiredtiger_include: Option<String>,
    tikv: TikvSection,
}

impl QuarrySection {
    /// The options of the metrics port from the file.
    fn metrics(&self) -> MetricsArgs {
        MetricsArgs {
            metrics_port: self.metrics_port,
            metrics_bind_ip: self.metrics_bind_ip,
            metrics_token_file: self.metrics_token_file.clone(),
            metrics_hosts: self.metrics_hosts.clone(),
        }
    }
}

/// The effective configuration of the server.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Settings {
    pub dbpath: PathBuf,
    pub port: u16,
    pub bind_ip: Vec<String>,
    /// What all clients are told to use, `HOST:PORT`; `None` tells each the address it came in at.
    pub advertised: Option<String>,
    pub ipv6: bool,
    /// The release of MongoDB that is followed.
    pub profile: Profile,
    /// `None` is the standalone profile.
    pub replica_set: Option<String>,
    /// The directory holds a backup, whose files are mostly links: the server only reads it.
    pub mounted: bool,
    /// Size of a new oplog; `None` derives it from the free space.
    pub oplog_bytes: Option<u64>,
    pub memory_bytes: u64,
    /// Threads that may read for one operation; `None` is one for each processor.
    pub scan_threads: Option<usize>,
    pub storage_engine: String,
    pub wiredtiger: WiredTigerArgs,
    pub tikv: Tikv,
    pub journal_commit_interval_ms: u64,
    pub repair: bool,
    /// Server-side JavaScript is allowed.
    pub scripting: bool,
    pub unix_socket_prefix: Option<PathBuf>,
    pub connections_max: u32,
    /// Most clients beyond the connection limit that may wait for the error that refuses them.
    pub turned_away_max: usize,
    /// The connection limit was set explicitly.
    pub connections_given: bool,
    pub compressors: Vec<String>,
    /// Access is checked.
    pub auth: bool,
    pub allow_open_access: bool,
    /// Identity providers besides this server's own users.
    pub elsewhere: IdentityProviders,
    /// Where the master key is; `None` if the data is not encrypted.
    pub encryption_key: Option<KeySource>,
    /// `None` without TLS.
    pub tls: Option<(TlsMode, TlsFiles)>,
    /// Server parameters, name and value as they were written.
    pub parameters: Vec<(String, String)>,
    /// Options of mongod's, by their names, that have no effect here.
    pub without_effect: Vec<String>,
    /// All options that were given, at their places in mongod's file.
    pub given: DocBuf,
    /// The port for metrics; `None` without one.
    pub metrics: Option<Metrics>,
    /// Where metrics are sent; `None` sends none.
    pub otlp: Option<Otlp>,
    /// The log, the process, slow operations.
    pub log: LogConfig,
    /// `None` without an audit.
    pub audit: Option<AuditConfig>,
    /// The program was called as mongod: the log goes where mongod's goes.
    pub as_mongod: bool,
}

impl Settings {
    /// Merges the command line with the file it names.
    ///
    /// # Errors
    /// One line that says which option is wrong and what is allowed.
    pub fn of(args: &ServeArgs) -> Result<Settings, String> {
        Settings::read(args).map_err(|e| one_line(&e))
    }

    fn read(args: &ServeArgs) -> Result<Settings, String> {
        let mut file = File::read(args.config.as_deref())?;
        let ipv6 = args.ipv6 || file.net.ipv6;
        let addresses = listen_addresses(args.bind_ip_all, args.bind_ip.as_ref(), &file.net, ipv6);
        let (metrics, sections) = (file.quarry.metrics(), file.sections_of_log());
        let unix = !args.nounixsocket && file.net.unix_domain_socket.enabled.unwrap_or(true);
        let prefix = args.unix_socket_prefix.clone();
        let prefix = prefix.or(file.net.unix_domain_socket.path_prefix);
        let compressors = args.network_message_compressors.as_deref();
        let compressors = compressors.or(file.net.compression.compressors.as_deref());
        let path = args.dbpath.clone().or(file.storage.db_path);
        let path = path.unwrap_or_else(|| PathBuf::from("data"));
        let set = args.repl_set.clone().or(file.replication.repl_set_name);
        let standalone = args.standalone || file.quarry.standalone;
        let connections = args.max_conns.or(file.net.max_incoming_connections);
        let port = args.port.or(file.net.port).unwrap_or(27017);
        let told = args.advertise.clone().or(file.net.advertised_address);
        let auth = checks_access(&args.security, &file.security)?;
        let encryption_key = encryption(&args.security, &file.security)?;
        let allow_open_access = args.allow_open_access || file.quarry.allow_open_access;
        let mut without_effect = [args.without_effect.clone(), file.without_effect].concat();
        let wiredtiger = (args.wiredtiger).or(
            file.quarry.wiredtiger_library,
            file.quarry.wiredtiger_include,
        );
        let is_named = wiredtiger.wiredtiger_library.is_some();
        let engine = args.storage_engine.clone().or(file.storage.engine);
        let engine = choose_engine(engine, &path, is_named, &mut without_effect)?;
        let oplog = args.oplog_size.or(file.replication.oplog_size_mb);
        let tikv = Tikv::of(&engine, &args.tikv, file.quarry.tikv)?;
        tikv.check_role(standalone)?;
        let parameters = parameters(&file.set_parameter, &args.set_parameter)?;
        let log = LogConfig::of(&args.log, sections)?;
        let interval = file.storage.journal.commit_interval_ms;
        Ok(Settings {
            given: args.given.clone().add_file(file.given).document()?,
            without_effect,
            mounted: false,
            as_mongod: args.as_mongod,
            audit: AuditConfig::of(&args.audit, file.audit_log, log.rotate)?,
            metrics: Metrics::of(&args.metrics, metrics, allow_open_access)?,
            otlp: Otlp::of(&args.otlp, file.quarry.otlp)?,
            log,
            tls: tls(&args.tls, file.net.tls)?,
            auth,
            allow_open_access,
            elsewhere: IdentityProviders::of(
                &parameters,
                &args.ldap,
                file.security.ldap,
                file.quarry.ldap,
            )?,
            parameters,
            encryption_key,
            dbpath: path,
            port,
            advertised: told
                .map(|told| advertised_address(&told, port))
                .transpose()?,
            bind_ip: addresses,
            ipv6,
            profile: profile(args.compat.as_deref().or(file.quarry.compat.as_deref()))?,
            replica_set: (!standalone).then(|| set.unwrap_or_else(|| "rs0".to_owned())),
            oplog_bytes: oplog_bytes(oplog, tikv.writes_here)?,
            memory_bytes: memory_bytes(args.memory.clone().or(file.quarry.memory).as_deref())?,
            scan_threads: scan_threads(args.scan_threads, file.quarry.scan_threads),
            tikv,
            storage_engine: engine,
            wiredtiger,
            journal_commit_interval_ms: commit_interval(args.journal_commit_interval.or(interval))?,
            repair: args.repair || file.storage.repair,
            scripting: !args.noscripting && file.security.javascript_enabled.unwrap_or(true),
            unix_socket_prefix: unix.then(|| prefix.unwrap_or_else(|| PathBuf::from("/tmp"))),
            connections_max: connections.unwrap_or(65_536),
            turned_away_max: 64,
            connections_given: connections.is_some(),
            compressors: known_compressors(compressors)?,
        })
    }

    /// The options for opening the storage engine.
    pub fn engine(&self) -> EngineOptions<'_> {
        EngineOptions {
            name: &self.storage_engine,
            path: &self.dbpath,
            bytes: crate::memory::MemoryShares::of(self.memory_bytes).engine,
            journal_commit_interval_ms: self.journal_commit_interval_ms,
            repair: self.repair,
            key: self.encryption_key.as_ref(),
            wiredtiger_library: self.wiredtiger.wiredtiger_library.as_deref(),
            wiredtiger_include: self.wiredtiger.wiredtiger_include.as_deref(),
            tikv: Some(self.tikv.cluster()),
            awaited: None,
            linked: self.mounted,
        }
    }

    /// Whether the data lies in a directory of this machine.
    pub fn has_directory(&self) -> bool {
        crate::engines::has_directory(&self.storage_engine)
    }

    /// The folder of search indexes. They are not encrypted, so with encrypted data, and with data
    /// in memory, they stay in memory: `None`.
    pub fn search_folder(&self) -> Option<PathBuf> {
        let on_disk = self.has_directory() && self.encryption_key.is_none();
        on_disk.then(|| self.dbpath.join("search"))
    }
}

impl Settings {
    /// Whether clients of other machines can connect.
    pub fn listens_beyond_localhost(&self) -> bool {
        let local = |host: &String| {
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        !self.bind_ip.iter().all(local)
    }
}

impl File {
    fn sections_of_log(&mut self) -> Sections {
        Sections {
            log: self.system_log.take(),
            process: self.process_management.take(),
            profiling: self.operation_profiling.take(),
            redact: self.security.redact_client_log_data,
        }
    }

    fn read(path: Option<&Path>) -> Result<File, String> {
        let Some(path) = path else {
            return Ok(File::default());
        };
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read the configuration file {}: {e}", path.display()))?;
        if text.trim().is_empty() {
            return Ok(File::default());
        }
        let wrong = |e| format!("the configuration file {} is wrong: {e}", path.display());
        let mut value: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text).map_err(wrong)?;
        let given = Some(value.clone());
        let without_effect = leave_out_keys(&mut value)
            .map_err(|e| format!("the configuration file {}: {e}", path.display()))?;
        if without_effect.is_empty() {
            // The error has the line number.
            let file = serde_yaml_ng::from_str(&text).map_err(wrong)?;
            return Ok(File { given, ..file });
        }
        let file = serde_yaml_ng::from_value(value).map_err(wrong)?;
        Ok(File {
            without_effect,
            given,
            ..file
        })
    }
}

fn commit_interval(given: Option<u64>) -> Result<u64, String> {
    match given.unwrap_or(100) {
        interval @ 1..=500 => Ok(interval),
        other => Err(format!(
            "journalCommitInterval must be from 1 to 500 milliseconds, given {other}"
        )),
    }
}

/// Smallest size of an oplog, in megabytes.
const OPLOG_MB_MIN: u64 = 1;
/// The bounds of the default size, in megabytes.
const OPLOG_MB_DEFAULT: std::ops::RangeInclusive<u64> = 990..=51_200;

/// The size that was given; 0, for none, only for a server that writes beside others.
fn oplog_bytes(megabytes: Option<u64>, may_be_none: bool) -> Result<Option<u64>, String> {
    match megabytes {
        Some(0) if may_be_none => Ok(Some(0)),
        Some(n) if !(OPLOG_MB_MIN..=1 << 30).contains(&n) => Err(format!(
            "oplogSize must be {OPLOG_MB_MIN} or more, given {n}"
        )),
        other => Ok(other.map(|n| n << 20)),
    }
}

/// The default size of a new oplog: a twentieth of the free space, within `OPLOG_MB_DEFAULT`, and
/// on a small device no more than a quarter of it.
pub fn oplog_bytes_default(free_bytes: u64) -> u64 {
    let (min, max) = OPLOG_MB_DEFAULT.into_inner();
    (free_bytes / 20)
        .clamp(min << 20, max << 20)
        .min(free_bytes / 4)
        .max(OPLOG_MB_MIN << 20)
}

/// The number of threads from the command line, otherwise from the file.
fn scan_threads(given: Option<u16>, file: Option<std::num::NonZero<u16>>) -> Option<usize> {
    given.or(file.map(Into::into)).map(usize::from)
}

/// The memory limit that was given, otherwise half of what the process may use.
fn memory_bytes(given: Option<&str>) -> Result<u64, String> {
    match given {
        Some(text) => crate::memory::parse(text),
        None => Ok(crate::memory::available_bytes() / 2),
    }
}

#[cfg(test)]
mod tests;
