//! Facts about the server before the run: its build, its process on this machine, its data
//! directory.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use lab_kit::result::TargetFacts;
use lab_kit::target::TargetInfo;
use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{ServerAddress, WriteConcern};

use super::reply::integer;

/// A connection, and what the user told about the server.
pub(super) struct Connection<'a> {
    /// The database `admin`.
    pub(super) admin: Database,
    /// Connection string without its password.
    pub(super) uri: &'a str,
    /// The address of the server.
    pub(super) address: &'a ServerAddress,
    /// Write concern of every write, if one was given.
    pub(super) write_concern: Option<&'a WriteConcern>,
    /// Data directory, if the user gave one.
    pub(super) data_dir: Option<&'a Path>,
}

/// Asks the server and this machine.
pub(super) async fn gather(connection: &Connection<'_>) -> TargetInfo {
    let ask = async |command: Document| {
        connection
            .admin
            .run_command(command)
            .await
            .unwrap_or_default()
    };
    let build = ask(doc! { "buildInfo": 1 }).await;
    let status = ask(doc! { "serverStatus": 1 }).await;
    let options = ask(doc! { "getCmdLineOpts": 1 }).await;
    let defaults = ask(doc! { "getDefaultRWConcern": 1 }).await;
    let (pid, not_watched_because) = match server_process(connection.address, &status) {
        Ok(pid) => (Some(pid), None),
        Err(reason) => (None, Some(reason)),
    };
    let told = || {
        options
            .get_document("parsed")
            .ok()?
            .get_document("storage")
            .ok()?
            .get_str("dbPath")
            .ok()
            .map(PathBuf::from)
    };
    let directory = connection.data_dir.map(Path::to_owned).or_else(told);
    // A relative path of a server is relative to where the server was started.
    let data = pid.zip(directory).and_then(|(pid, directory)| {
        Path::new(&format!("/proc/{pid}/cwd"))
            .join(directory)
            .canonicalize()
            .ok()
    });
    let product = product(&build, &status);
    let is_flushed = is_flushed(connection.write_concern, &defaults, &product);
    let facts = TargetFacts {
        uri: connection.uri.to_owned(),
        product,
        version: build.get_str("version").unwrap_or("unknown").to_owned(),
        storage_engine: status
            .get_document("storageEngine")
            .ok()
            .and_then(|engine| engine.get_str("name").ok())
            .map(str::to_owned),
        pid,
        not_watched_because,
        watched: None,
        data_directory: data.as_ref().map(|path| path.display().to_string()),
        device: None,
        write_concern: connection
            .write_concern
            .map_or_else(|| "server default".to_owned(), describe_concern),
        is_flushed,
        build: build_of(&build, pid),
        options: options_of(&options),
        build_info: serde_json::to_value(&build).unwrap_or_default(),
    };
    TargetInfo { facts, pid, data }
}

/// The identity of a server's build: its revision, and the checksum of its program.
fn build_of(build: &Document, pid: Option<u32>) -> Option<String> {
    let revision = build.get_str("gitVersion").ok();
    let revision = revision.filter(|text| !text.is_empty() && *text != "unknown");
    let revision = revision.map(|text| format!("revision {text}"));
    let program = pid.and_then(checksum_of_program);
    let program = program.map(|checksum| format!("program {checksum}"));
    let parts: Vec<String> = revision.into_iter().chain(program).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The first digits of the SHA-256 of the program that a process runs.
fn checksum_of_program(pid: u32) -> Option<String> {
    let mut file = std::fs::File::open(format!("/proc/{pid}/exe")).ok()?;
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            count => context.update(buffer.get(..count)?),
        }
    }
    let digest = context.finish();
    let digits = digest.as_ref().iter().take(6);
    Some(digits.map(|byte| format!("{byte:02x}")).collect())
}

/// Options that describe the place of a server and do not change how it works.
const OF_PLACE: [&str; 8] = [
    "net.port",
    "net.bindIp",
    "net.unixDomainSocket",
    "storage.dbPath",
    "systemLog",
    "processManagement",
    "security.keyFile",
    "config",
];

/// The options of a server's start, from the reply of `getCmdLineOpts`.
fn options_of(told: &Document) -> BTreeMap<String, String> {
    fn flatten(prefix: &str, document: &Document, out: &mut BTreeMap<String, String>) {
        for (key, value) in document {
            let name = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            let is_of_place = OF_PLACE.iter().any(|other| {
                name.strip_prefix(other)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            if is_of_place || name.to_lowercase().contains("password") {
                continue;
            }
            match value {
                Bson::Document(inner) => flatten(&name, inner, out),
                Bson::String(text) => _ = out.insert(name, text.clone()),
                other => _ = out.insert(name, other.to_string()),
            }
        }
    }
    let mut out = BTreeMap::new();
    if let Ok(parsed) = told.get_document("parsed") {
        flatten("", parsed, &mut out);
    }
    out
}

/// Whether an acknowledged write is on the device, by the requested write concern or else by the
/// server's default. MongoDB and Quarry without a replica set report no default and do not wait for
/// the device.
fn is_flushed(asked: Option<&WriteConcern>, defaults: &Document, product: &str) -> Option<bool> {
    if let Some(journal) = asked.and_then(|concern| concern.journal) {
        return Some(journal);
    }
    let default = defaults.get_document("defaultWriteConcern");
    match (asked.and_then(|concern| concern.w.as_ref()), default) {
        (Some(mongodb::options::Acknowledgment::Majority), _) => Some(true),
        (Some(mongodb::options::Acknowledgment::Nodes(_)), _) => Some(false),
        (Some(_), _) => None,
        (None, Ok(default)) => match (default.get_bool("j"), default.get_str("w")) {
            (Ok(journal), _) => Some(journal),
            (Err(_), Ok(w)) => (w == "majority").then_some(true),
            (Err(_), Err(_)) => Some(false),
        },
        (None, Err(_)) if product == "mongod" || product.starts_with("Quarry") => Some(false),
        (None, Err(_)) => None,
    }
}

fn describe_concern(concern: &WriteConcern) -> String {
    let w = concern.w.as_ref().map_or_else(
        || "default".to_owned(),
        |w| match w {
            mongodb::options::Acknowledgment::Nodes(nodes) => nodes.to_string(),
            mongodb::options::Acknowledgment::Majority => "majority".to_owned(),
            other => format!("{other:?}"),
        },
    );
    format!(
        "w: {w}, journal: {}",
        concern
            .journal
            .map_or_else(|| "default".to_owned(), |journal| journal.to_string())
    )
}

/// The product. Compatible servers name themselves in `buildInfo`, each under its own key.
fn product(build: &Document, status: &Document) -> String {
    for (key, name) in [
        ("quarry", "Quarry"),
        ("quarryVersion", "Quarry"),
        ("ferretdb", "FerretDB"),
        ("ferretdbVersion", "FerretDB"),
    ] {
        let Some(value) = build.get(key) else {
            continue;
        };
        let version = value
            .as_str()
            .or_else(|| value.as_document()?.get_str("version").ok())
            .unwrap_or_default();
        return format!("{name} {version}").trim().to_owned();
    }
    status.get_str("process").unwrap_or("server").to_owned()
}

/// The server's process, or why it cannot be observed.
fn server_process(address: &ServerAddress, status: &Document) -> Result<u32, String> {
    let reported = integer(status, "pid").and_then(|pid| u32::try_from(pid).ok());
    let (is_local, listening) = match address {
        ServerAddress::Tcp { host, port } => (
            is_this_machine(host),
            metrics::listening_process(port.unwrap_or(27_017)),
        ),
        // A socket file can only be on this machine.
        _ => (true, None),
    };
    if !is_local {
        return Err("not local".to_owned());
    }
    // The process that listens on the port is better evidence than the number that the server
    // reports, because the server may be in another process namespace.
    let pid = listening
        .or(reported)
        .ok_or("local, but its process id is not known")?;
    metrics::ProcessSampler::new(pid)
        .map(|_| pid)
        .map_err(|error| format!("process {pid} cannot be read: {error}"))
}

/// Whether an address is of this machine: only then can it be bound.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let Ok(addresses) = (host.trim_matches(['[', ']']), 0).to_socket_addrs() else {
        return false;
    };
    addresses
        .map(|address| address.ip())
        .any(|ip: IpAddr| ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_and_options_are_told_apart() {
        let unknown = doc! { "gitVersion": "unknown" };
        assert_eq!(build_of(&unknown, None), None);
        let known = build_of(&doc! { "gitVersion": "abc" }, None);
        assert_eq!(known.as_deref(), Some("revision abc"));
        let own = build_of(&unknown, Some(std::process::id())).unwrap();
        assert!(own.starts_with("program ") && own.len() == 20, "{own}");
        let told = doc! { "parsed": {
            "net": { "port": 27_018, "tls": { "mode": "disabled" } },
            "storage": { "dbPath": "/data", "engine": "lmdb" },
            "security": { "adminPassword": "secret" },
            "memory": "512M",
        } };
        let options: Vec<(String, String)> = options_of(&told).into_iter().collect();
        let wanted = [
            ("memory", "512M"),
            ("net.tls.mode", "disabled"),
            ("storage.engine", "lmdb"),
        ];
        assert_eq!(
            options,
            wanted.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn knows_its_own_machine() {
        assert!(
            is_this_machine("127.0.0.1")
                && is_this_machine("localhost")
                && is_this_machine("[::1]")
        );
        assert!(!is_this_machine("192.0.2.7"));
    }

    #[test]
    fn a_remote_server_is_not_watched() {
        let address = ServerAddress::Tcp {
            host: "192.0.2.7".to_owned(),
            port: Some(27_017),
        };
        assert_eq!(
            server_process(&address, &doc! { "pid": 1 }),
            Err("not local".to_owned())
        );
    }

    #[test]
    fn write_concerns_tell_whether_a_write_is_flushed() {
        let majority = doc! { "defaultWriteConcern": { "w": "majority", "wtimeout": 0 } };
        let one = doc! { "defaultWriteConcern": { "w": 1, "wtimeout": 0 } };
        let journal = doc! { "defaultWriteConcern": { "w": 1, "j": true } };
        let nothing = doc! {};
        let by_default = |defaults, product| is_flushed(None, defaults, product);
        assert_eq!(by_default(&majority, "mongod"), Some(true));
        assert_eq!(by_default(&one, "mongod"), Some(false));
        assert_eq!(by_default(&journal, "mongod"), Some(true));
        assert_eq!(by_default(&nothing, "Quarry 0.1.0"), Some(false));
        assert_eq!(by_default(&nothing, "FerretDB v2"), None);
        let asked = |concern: WriteConcern| is_flushed(Some(&concern), &majority, "mongod");
        assert_eq!(asked(WriteConcern::nodes(1)), Some(false));
        assert_eq!(asked(WriteConcern::majority()), Some(true));
        let journal = WriteConcern::builder().journal(true).build();
        assert_eq!(asked(journal), Some(true));
    }

    #[test]
    fn servers_are_called_by_their_names() {
        assert_eq!(
            product(&doc! { "ferretdb": { "version": "v1.24.0" } }, &doc! {}),
            "FerretDB v1.24.0"
        );
        assert_eq!(product(&doc! {}, &doc! { "process": "mongod" }), "mongod");
    }
}
