//! Options of the storage engine that keeps its data in a TiKV cluster. Must not know: the engine.

use crate::engines::{Cluster, ClusterTls};
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// Default retention of old versions: longer than the default lifetimes of a transaction and of an
/// idle cursor.
const KEEP_SECONDS: u64 = 1_200;
/// Smallest retention: the lifetime of a transaction.
const KEEP_SECONDS_MIN: u64 = 60;

/// Where TiKV is, and what of it is this database's.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TiKV")]
pub struct TikvArgs {
    /// Addresses of TiKV's placement drivers (PD), HOST:PORT separated by commas; needed for
    /// --storageEngine tikv
    #[arg(long = "tikvPd", value_name = "LIST")]
    pub tikv_pd: Option<String>,
    /// PEM file with the certificates of the authorities (CA) that sign the certificates of PD and
    /// the stores. With this option, --tikvCertificateFile and --tikvKeyFile, all connections to
    /// the cluster use TLS; one of the three needs the other two
    #[arg(long = "tikvCAFile", value_name = "FILE")]
    pub tikv_ca_file: Option<PathBuf>,
    /// PEM file with the certificate that this server shows to PD and the stores
    #[arg(long = "tikvCertificateFile", value_name = "FILE")]
    pub tikv_certificate_file: Option<PathBuf>,
    /// PEM file with the private key of that certificate, not encrypted
    #[arg(long = "tikvKeyFile", value_name = "FILE")]
    pub tikv_key_file: Option<PathBuf>,
    /// Name of this database in the TiKV cluster: 1 to 64 letters, digits, - and _ [default:
    /// quarry]
    #[arg(long = "tikvPrefix", value_name = "NAME")]
    pub tikv_prefix: Option<String>,
    /// If another server holds the database, wait until that server has gone instead of ending
    #[arg(long = "tikvStandby")]
    pub tikv_standby: bool,
    /// Addresses, as clients reach them, of all servers that may hold the database in turn,
    /// HOST:PORT separated by commas; clients try them all when the current server has gone
    #[arg(long = "tikvServers", value_name = "LIST")]
    pub tikv_servers: Option<String>,
    /// Address of this server, as the other servers of the database reach it. All servers with such
    /// an address listen at once, like mongos, and forward requests to the server that holds the
    /// database; when that server has gone, another takes over
    #[arg(long = "tikvAddress", value_name = "HOST:PORT")]
    pub tikv_address: Option<String>,
    /// Server that executes the reads that reach a server which does not hold the database: here
    /// (the server that they reach) or holder (the server that holds the database). Reads over TLS
    /// always go to the holder. Needs --tikvAddress [default: here]
    #[arg(long = "tikvReads", value_name = "WHERE")]
    pub tikv_reads: Option<String>,
    /// Server that executes the writes: holder (one server holds the database) or here (each server
    /// executes all requests that reach it; all servers of the database need this option, no
    /// --tikvAddress, and clients reach them like several mongos); either all of them keep an oplog
    /// or none (--oplogSize 0) [default: holder]
    #[arg(long = "tikvWrites", value_name = "WHERE")]
    pub tikv_writes: Option<String>,
    /// Seconds that TiKV keeps overwritten versions, at least 60; older cursors and snapshots end
    /// with an error. With 0 another program removes old versions, such as TiDB's garbage collector
    /// [default: 1200]
    #[arg(long = "tikvKeepSeconds", value_name = "N")]
    pub tikv_keep_seconds: Option<u64>,
}

/// The same in the configuration file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct TikvSection {
    pd: Option<String>,
    #[serde(rename = "CAFile")]
    ca_file: Option<PathBuf>,
    certificate_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    prefix: Option<String>,
    standby: bool,
    servers: Option<String>,
    address: Option<String>,
    reads: Option<String>,
    writes: Option<String>,
    keep_seconds: Option<u64>,
}

/// The options of the engine.
#[derive(Clone, Debug)]
pub struct Tikv {
    /// Addresses of the placement drivers (PD).
    pub pd: Vec<String>,
    /// Files for TLS to PD and the stores; without them everything is sent in the clear.
    pub tls: Option<ClusterTls>,
    /// Name of the database.
    pub prefix: String,
    /// Wait while another server holds it.
    pub standby: bool,
    /// The addresses, as clients reach them, of the servers that can hold the database in turn.
    pub servers: Vec<String>,
    /// This server as the others reach it; it hands its connections to the one that holds the
    /// database.
    pub address: Option<String>,
    /// While another server holds the database, this one executes reads itself.
    pub reads_here: bool,
    /// Each server of the database executes all requests that reach it.
    pub writes_here: bool,
    /// Seconds that old versions are kept; 0 leaves their removal to another program.
    pub keep_seconds: u64,
}

impl Tikv {
    /// The options that the engine is opened with.
    pub(crate) fn cluster(&self) -> Cluster<'_> {
        Cluster {
            pd: &self.pd,
            tls: self.tls.as_ref(),
            prefix: &self.prefix,
            standby: self.standby,
            address: self.address.as_deref(),
            joins: self.writes_here,
            keep_seconds: self.keep_seconds,
            log: None,
        }
    }

    /// Checks how clients see the server.
    ///
    /// # Errors
    /// One line that says what a server that writes beside others cannot be.
    pub(super) fn check_role(&self, standalone: bool) -> Result<(), String> {
        match self.writes_here && standalone {
            true => Err(
                "with tikvWrites here a server appears like a mongos: leave out standalone; \
                 without an oplog is oplogSize 0"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }

    /// Merges the command line and the file; `engine` is the storage engine that was asked for.
    ///
    /// # Errors
    /// One line that says which option is missing or wrong.
    pub(super) fn of(engine: &str, args: &TikvArgs, file: TikvSection) -> Result<Tikv, String> {
        let pd = addresses("tikvPd", args.tikv_pd.as_ref().or(file.pd.as_ref()))?;
        if engine == "tikv" && pd.is_empty() {
            return Err("storage engine tikv needs --tikvPd HOST:PORT,...".to_owned());
        }
        if engine != "tikv" && !pd.is_empty() {
            return Err(format!(
                "tikvPd is for storage engine tikv, and the engine is {engine}"
            ));
        }
        let tls = tls(args, &file, engine, &pd)?;
        let servers = args.tikv_servers.as_ref().or(file.servers.as_ref());
        let servers = addresses("tikvServers", servers)?;
        let address = args.tikv_address.as_ref().or(file.address.as_ref());
        let address = match addresses("tikvAddress", address)?.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            more => {
                return Err(format!(
                    "tikvAddress takes one HOST:PORT, given {}",
                    more.join(",")
                ));
            }
        };
        if address.is_some() && (engine != "tikv" || !servers.is_empty()) {
            return Err(match engine {
                "tikv" => "tikvServers is for servers of which one serves at a time, tikvAddress \
                           for servers that serve at once; give one of the two"
                    .to_owned(),
                _ => format!("tikvAddress is for storage engine tikv, and the engine is {engine}"),
            });
        }
        let reads = args.tikv_reads.as_ref().or(file.reads.as_ref());
        let reads_here = parse_reads_here(reads, address.is_some())?;
        let writes = args.tikv_writes.as_ref().or(file.writes.as_ref());
        let writes_here = parse_writes_here(writes, engine)?;
        let standby = args.tikv_standby || file.standby || address.is_some();
        if writes_here && (standby || !servers.is_empty()) {
            return Err(
                "with tikvWrites here no server waits for another and none forwards: leave \
                        out tikvAddress, tikvServers and tikvStandby"
                    .to_owned(),
            );
        }
        let prefix = args.tikv_prefix.clone().or(file.prefix);
        let prefix = prefix.unwrap_or_else(|| "quarry".to_owned());
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(plain) {
            return Err(format!(
                "tikvPrefix takes 1 to 64 letters, digits, - and _, given {prefix}"
            ));
        }
        let keep_seconds = args.tikv_keep_seconds.or(file.keep_seconds);
        let keep_seconds = keep_seconds.unwrap_or(KEEP_SECONDS);
        if (1..KEEP_SECONDS_MIN).contains(&keep_seconds) {
            return Err(format!(
                "tikvKeepSeconds takes 0 or at least {KEEP_SECONDS_MIN}, given {keep_seconds}"
            ));
        }
        Ok(Tikv {
            pd,
            tls,
            prefix,
            standby,
            servers,
            address,
            reads_here,
            writes_here,
            keep_seconds,
        })
    }
}

/// The files for TLS to the cluster, of which the client needs all three: without one of them it
/// would do without TLS.
fn tls(
    args: &TikvArgs,
    file: &TikvSection,
    engine: &str,
    pd: &[String],
) -> Result<Option<ClusterTls>, String> {
    let ca = args.tikv_ca_file.as_ref().or(file.ca_file.as_ref());
    let certificate = args.tikv_certificate_file.as_ref();
    let certificate = certificate.or(file.certificate_file.as_ref());
    let key = args.tikv_key_file.as_ref().or(file.key_file.as_ref());
    let files = [
        ("tikvCAFile", ca),
        ("tikvCertificateFile", certificate),
        ("tikvKeyFile", key),
    ];
    let names = |given: bool| {
        let some = files.iter().filter(|(_, file)| file.is_some() == given);
        some.map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let (given, missing) = (names(true), names(false));
    let scheme = |scheme: &str| pd.iter().find(|address| address.starts_with(scheme));
    if given.is_empty() {
        return match scheme("https://") {
            Some(address) => Err(format!(
                "tikvPd names {address}, and TLS needs {}",
                missing.join(", ")
            )),
            None => Ok(None),
        };
    }
    if engine != "tikv" {
        let (names, are) = (
            given.join(", "),
            if given.len() == 1 { "is" } else { "are" },
        );
        return Err(format!(
            "{names} {are} for storage engine tikv, and the engine is {engine}"
        ));
    }
    let (Some(ca), Some(certificate), Some(key)) = (ca, certificate, key) else {
        let (given, missing) = (given.join(" and "), missing.join(" and "));
        return Err(format!("TLS to TiKV needs {missing} besides {given}"));
    };
    if let Some(address) = scheme("http://") {
        return Err(format!(
            "tikvPd names {address}, which is not over TLS, and {} are given",
            given.join(", ")
        ));
    }
    Ok(Some(ClusterTls {
        ca: ca.clone(),
        certificate: certificate.clone(),
        key: key.clone(),
    }))
}

/// Whether a server that does not hold the database executes reads itself.
fn parse_reads_here(given: Option<&String>, is_one_of_equals: bool) -> Result<bool, String> {
    let Some(given) = given else {
        return Ok(is_one_of_equals);
    };
    if !is_one_of_equals {
        return Err("tikvReads is for servers with --tikvAddress HOST:PORT".to_owned());
    }
    match given.as_str() {
        "here" => Ok(true),
        "holder" => Ok(false),
        other => Err(format!("tikvReads takes here or holder, given {other}")),
    }
}

/// Whether each server executes the writes that reach it.
fn parse_writes_here(given: Option<&String>, engine: &str) -> Result<bool, String> {
    match given.map(String::as_str) {
        None | Some("holder") => Ok(false),
        Some("here") if engine == "tikv" => Ok(true),
        Some("here") => Err(format!(
            "tikvWrites here is for storage engine tikv, and the engine is {engine}"
        )),
        Some(other) => Err(format!("tikvWrites takes here or holder, given {other}")),
    }
}

fn addresses(name: &str, given: Option<&String>) -> Result<Vec<String>, String> {
    let given = given.map(String::as_str).unwrap_or_default();
    let all = given.split(',').map(str::trim).filter(|a| !a.is_empty());
    let all: Vec<String> = all.map(str::to_owned).collect();
    let has_port = |a: &str| matches!(a.rsplit_once(':'), Some((_, p)) if p.parse::<u16>().is_ok());
    match all.iter().find(|address| !has_port(address)) {
        Some(bad) => Err(format!("{name} takes HOST:PORT,..., given {bad}")),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_checked() {
        let of = |engine, pd: Option<&str>, prefix: Option<&str>| {
            let args = TikvArgs {
                tikv_pd: pd.map(str::to_owned),
                tikv_prefix: prefix.map(str::to_owned),
                ..TikvArgs::default()
            };
            Tikv::of(engine, &args, TikvSection::default())
        };
        let both = of("tikv", Some("a:1, b:2"), None).unwrap();
        assert_eq!((both.pd.len(), both.prefix.as_str()), (2, "quarry"));
        assert!(of("rocksdb", None, None).is_ok());
        for (engine, pd, prefix, named) in [
            ("tikv", None, None, "needs --tikvPd"),
            ("rocksdb", Some("a:1"), None, "the engine is rocksdb"),
            ("tikv", Some("a"), None, "given a"),
            ("tikv", Some("a:1,b:x"), None, "given b:x"),
            ("tikv", Some("a:1"), Some("a/b"), "given a/b"),
        ] {
            let e = of(engine, pd, prefix).unwrap_err();
            assert!(e.contains(named), "{e}");
        }
    }

    #[test]
    fn tls_takes_all_three_files_and_a_cluster() {
        let of = |engine: &str, pd: &str, files: [bool; 3]| {
            let [ca, certificate, key] = files;
            let file = |given: bool, name: &str| given.then(|| PathBuf::from(name));
            let args = TikvArgs {
                tikv_pd: Some(pd.to_owned()).filter(|pd| !pd.is_empty()),
                tikv_ca_file: file(ca, "ca.pem"),
                tikv_key_file: file(key, "key.pem"),
                ..TikvArgs::default()
            };
            // From both places, where they are merged.
            let section = TikvSection {
                certificate_file: file(certificate, "own.pem"),
                ca_file: file(ca, "other.pem"),
                ..TikvSection::default()
            };
            Tikv::of(engine, &args, section).map(|tikv| tikv.tls)
        };
        let all = ClusterTls {
            ca: "ca.pem".into(),
            certificate: "own.pem".into(),
            key: "key.pem".into(),
        };
        let (every, none) = ([true; 3], [false; 3]);
        assert_eq!(of("tikv", "a:1", every), Ok(Some(all.clone())));
        assert_eq!(of("tikv", "https://a:1", every), Ok(Some(all)));
        assert_eq!(of("tikv", "a:1", none), Ok(None));
        assert_eq!(of("tikv", "http://a:1", none), Ok(None));
        for (engine, pd, files, named) in [
            (
                "tikv",
                "a:1",
                [true, false, false],
                "needs tikvCertificateFile and tikvKeyFile besides tikvCAFile",
            ),
            (
                "tikv",
                "a:1",
                [false, true, true],
                "needs tikvCAFile besides tikvCertificateFile and tikvKeyFile",
            ),
            ("tikv", "a:1", [true, true, false], "needs tikvKeyFile"),
            ("tikv", "https://a:1", none, "TLS needs tikvCAFile, "),
            ("tikv", "b:1,http://a:1", every, "names http://a:1"),
            ("rocksdb", "", every, "the engine is rocksdb"),
            ("rocksdb", "", [true, false, false], "tikvCAFile is for"),
        ] {
            let e = of(engine, pd, files).unwrap_err();
            assert!(e.contains(named), "{e}");
        }
    }

    #[test]
    fn reads_are_executed_by_the_server_that_they_reach_unless_asked_otherwise() {
        let of = |address: Option<&str>, reads: Option<&str>| {
            let args = TikvArgs {
                tikv_pd: Some("a:1".to_owned()),
                tikv_address: address.map(str::to_owned),
                tikv_reads: reads.map(str::to_owned),
                ..TikvArgs::default()
            };
            Tikv::of("tikv", &args, TikvSection::default()).map(|tikv| tikv.reads_here)
        };
        for (address, reads, here) in [
            (None, None, false),
            (Some("a:1"), None, true),
            (Some("a:1"), Some("here"), true),
            (Some("a:1"), Some("holder"), false),
        ] {
            assert_eq!(of(address, reads), Ok(here), "{address:?} {reads:?}");
        }
        let alone = of(None, Some("here")).unwrap_err();
        assert!(alone.contains("--tikvAddress"), "{alone}");
        let unknown = of(Some("a:1"), Some("there")).unwrap_err();
        assert!(unknown.contains("given there"), "{unknown}");
    }

    #[test]
    fn servers_that_all_write_neither_wait_nor_forward() {
        let of = |engine: &str, writes: &str, address: Option<&str>, standby| {
            let args = TikvArgs {
                tikv_pd: (engine == "tikv").then(|| "a:1".to_owned()),
                tikv_writes: Some(writes.to_owned()),
                tikv_address: address.map(str::to_owned),
                tikv_standby: standby,
                ..TikvArgs::default()
            };
            let tikv = Tikv::of(engine, &args, TikvSection::default())?;
            let as_standalone = tikv.check_role(true);
            assert_eq!(as_standalone.is_err(), tikv.writes_here);
            tikv.check_role(false).map(|()| tikv.writes_here)
        };
        assert_eq!(of("tikv", "here", None, false), Ok(true));
        assert_eq!(of("tikv", "holder", Some("a:1"), false), Ok(false));
        for (engine, writes, address, standby, named) in [
            ("tikv", "there", None, false, "given there"),
            ("tikv", "here", Some("a:1"), false, "leave out tikvAddress"),
            ("tikv", "here", None, true, "leave out tikvAddress"),
            ("rocksdb", "here", None, false, "the engine is rocksdb"),
        ] {
            let e = of(engine, writes, address, standby).unwrap_err();
            assert!(e.contains(named), "{e}");
        }
    }

    #[test]
    fn servers_that_serve_at_once_have_one_address_each() {
        let of = |engine, address: &str, servers: Option<&str>| {
            let args = TikvArgs {
                tikv_pd: (engine == "tikv").then(|| "a:1".to_owned()),
                tikv_address: Some(address.to_owned()),
                tikv_servers: servers.map(str::to_owned),
                ..TikvArgs::default()
            };
            Tikv::of(engine, &args, TikvSection::default())
        };
        let one = of("tikv", "a:1", None).unwrap();
        assert!(one.standby && one.address.as_deref() == Some("a:1"));
        for (engine, address, servers, named) in [
            ("tikv", "a", None, "given a"),
            (
                "tikv",
                "a:1,b:2",
                None,
                "takes one HOST:PORT, given a:1,b:2",
            ),
            ("tikv", "a:1", Some("a:1,b:2"), "give one of the two"),
            ("rocksdb", "a:1", None, "the engine is rocksdb"),
        ] {
            let e = of(engine, address, servers).unwrap_err();
            assert!(e.contains(named), "{e}");
        }
    }
}
