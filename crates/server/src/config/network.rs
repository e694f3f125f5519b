//! The network: section `net` of the configuration file, the address that clients are told, the
//! compressors.

use std::path::PathBuf;

use serde::Deserialize;

use super::document::list;
use super::tls::TlsSection;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Net {
    pub(super) port: Option<u16>,
    pub(super) bind_ip: Option<String>,
    pub(super) bind_ip_all: bool,
    pub(super) advertised_address: Option<String>,
    pub(super) ipv6: bool,
    pub(super) max_incoming_connections: Option<u32>,
    pub(super) unix_domain_socket: UnixSocket,
    pub(super) tls: TlsSection,
    pub(super) compression: Compression,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct UnixSocket {
    pub(super) enabled: Option<bool>,
    pub(super) path_prefix: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Compression {
    pub(super) compressors: Option<String>,
}

/// Where to listen: what the command line says, otherwise the file.
pub(super) fn listen_addresses(
    everywhere: bool,
    given: Option<&String>,
    file: &Net,
    ipv6: bool,
) -> Vec<String> {
    let given = given.or(file.bind_ip.as_ref());
    list(match (everywhere || file.bind_ip_all, ipv6) {
        (true, true) => "::,0.0.0.0",
        (true, false) => "0.0.0.0",
        (false, _) => given.map_or("127.0.0.1", String::as_str),
    })
}

/// The address, `HOST:PORT`, that all clients are told. Without a port in `given` it is this
/// server's own port.
///
/// # Errors
/// One line that says what is wrong.
pub(super) fn advertised_address(given: &str, own_port: u16) -> Result<String, String> {
    let wrong = |why: &str| {
        Err(format!(
            "advertise must be HOST:PORT, as clients reach this server, such as \
             db.example.com:27017 or [fd00::7]:27017, given {given}: {why}"
        ))
    };
    let (host, port) = match given.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, rest))) => match host.parse::<std::net::Ipv6Addr>() {
            Ok(_) => (format!("[{host}]"), rest.strip_prefix(':')),
            Err(_) => return wrong("the text in brackets is not an IPv6 address"),
        },
        Some(None) => return wrong("the closing bracket is missing"),
        None => match given.split_once(':') {
            Some((_, rest)) if rest.contains(':') => {
                return wrong("an IPv6 address must be in brackets");
            }
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (given.to_owned(), None),
        },
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !host.starts_with('[') && (host.is_empty() || !host.chars().all(is_plain)) {
        return wrong("this is not a host name");
    }
    if matches!(host.as_str(), "0.0.0.0" | "[::]") {
        return wrong("clients cannot connect to this address");
    }
    match port.map(str::parse::<u16>) {
        None => Ok(format!("{host}:{own_port}")),
        Some(Ok(port)) if port > 0 => Ok(format!("{host}:{port}")),
        Some(_) => wrong("the port must be from 1 to 65535"),
    }
}

/// The names of compressors in the given order; empty when compression is disabled.
///
/// # Errors
/// One line: a name that is not known.
pub(super) fn known_compressors(given: Option<&str>) -> Result<Vec<String>, String> {
    let names = list(given.unwrap_or("zstd,zlib,snappy"));
    let known = |name: &str| matches!(name, "zstd" | "zlib" | "snappy" | "disabled");
    if let Some(bad) = names.iter().find(|c| !known(c)) {
        return Err(format!(
            "unknown compressor {bad}; zstd, zlib and snappy are known, disabled turns them off"
        ));
    }
    let disabled = names.iter().any(|c| c == "disabled");
    Ok(if disabled { Vec::new() } else { names })
}

#[cfg(test)]
mod tests {
    use super::advertised_address;

    #[test]
    fn an_advertised_address_is_a_host_and_a_port() {
        for (given, told) in [
            ("db.example.com:27018", "db.example.com:27018"),
            ("db", "db:5"),
            ("10.0.0.7", "10.0.0.7:5"),
            ("[fd00::7]", "[fd00::7]:5"),
            ("[fd00::7]:9", "[fd00::7]:9"),
        ] {
            assert_eq!(advertised_address(given, 5).as_deref(), Ok(told));
        }
        for given in [
            "",
            ":27017",
            "a:0",
            "a:65536",
            "a:",
            "a b:1",
            "fd00::7",
            "[fd00::7",
            "[x]:1",
            "mongodb://a:1",
            "a:1,b:2",
            "0.0.0.0:1",
            "[::]:1",
        ] {
            let error = advertised_address(given, 5).unwrap_err();
            assert!(error.contains("HOST:PORT"), "{given}: {error}");
        }
    }
}
