//! TLS to PD and to the store, with certificates on both sides: through doors that let nothing else
//! pass.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_tikv::{Config, TikvEngine, TikvReader, TlsFiles};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use storage::{Engine, Follower, StorageError, Table};

use crate::doors::{TlsProxies, authority, certificate, file};
use crate::large;
use crate::tools::{config, get, key, open, pd, put, stand_by};

/// An answer that needs no other attempt comes within this time, also on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(15);
/// How long a request is retried, and the pauses around it.
const RETRIED: Duration = Duration::from_secs(60);

fn doors(of_pd: &str, of_stores: &str) -> Option<TlsProxies> {
    TlsProxies::open(&pd()?[0], of_pd, of_stores)
}

fn files(ca: &str, own: PathBuf) -> Option<TlsFiles> {
    Some(TlsFiles {
        ca: file(ca),
        certificate: own.clone(),
        key: own,
    })
}

fn tls_config(doors: &TlsProxies, ca: &str, own: &str) -> Config {
    Config {
        tls: files(ca, file(own)),
        ..config(std::slice::from_ref(&doors.pd))
    }
}

fn refusal(config: &Config) -> (StorageError, Duration) {
    let began = Instant::now();
    match TikvEngine::open(config) {
        Ok(_) => panic!("the engine opens"),
        Err(error) => (error, began.elapsed()),
    }
}

#[test]
fn all_connections_use_tls_and_show_the_certificate() {
    let Some(doors) = doors("server.pem", "server.pem") else {
        return;
    };
    let own = tls_config(&doors, "ca.pem", "client.pem");
    let first = open(&own);
    put(&first, 1, b"one").unwrap();
    assert_eq!(get(&first, 1).as_deref(), Some(&b"one"[..]));
    let reader = TikvReader::connect(&own).expect("a reader");
    let moment = reader.moment().expect("a moment");
    let found = moment.snapshot.get(Table::Doc, &key(1), &mut Vec::new());
    assert!(found.expect("a read"));
    let (standby, told) = stand_by(&own);
    assert!(told.recv_timeout(own.lease / 4).is_err());
    first.close().unwrap();
    told.recv_timeout(own.lease).expect("it takes over");
    let second = standby.join().unwrap();
    assert_eq!(get(&second, 1).as_deref(), Some(&b"one"[..]));
    second.close().unwrap();
    assert!(!doors.stores.is_empty());
    for door in doors.stores.iter().chain([&doors.pd]) {
        let shown = doors.certificates_at(door);
        // The holder, the reader and the standby have a client each.
        assert!(shown.len() >= 3, "{} connections to {door}", shown.len());
        assert!(shown.iter().all(|one| *one == certificate("client.pem")));
    }
}

#[test]
fn large_batches_go_over_tls() {
    let Some(doors) = doors("server.pem", "server.pem") else {
        return;
    };
    let engine = open(&tls_config(&doors, "ca.pem", "client.pem"));
    large::write(&engine, 7).unwrap();
    assert_eq!(large::read_number(&engine), Some(7));
    engine.close().unwrap();
}

#[test]
fn a_cluster_of_another_authority_is_refused_at_once() {
    let Some(doors) = doors("server.pem", "server.pem") else {
        return;
    };
    for standby in [None, Some(Arc::default())] {
        let own = Config {
            standby,
            ..tls_config(&doors, "other-ca.pem", "client.pem")
        };
        let (error, took) = refusal(&own);
        let line = error.to_string();
        assert!(matches!(error, StorageError::Untrusted { .. }), "{line}");
        assert!(
            line.contains(&doors.pd) && line.contains("UnknownIssuer"),
            "{line}"
        );
        assert!(took < AT_ONCE, "{took:?}");
        let error = TikvReader::connect(&own).err().expect("a refusal");
        assert!(matches!(error, StorageError::Untrusted { .. }), "{error}");
    }
    assert!(doors.certificates_at(&doors.pd).is_empty());
}

#[test]
fn a_certificate_of_another_authority_is_refused_at_once() {
    let Some(doors) = doors("server.pem", "server.pem") else {
        return;
    };
    let (error, took) = refusal(&tls_config(&doors, "ca.pem", "revoked.pem"));
    let line = error.to_string();
    assert!(matches!(error, StorageError::Untrusted { .. }), "{line}");
    assert!(line.contains("refuses this server's certificate"), "{line}");
    assert!(took < AT_ONCE, "{took:?}");
    assert!(doors.certificates_at(&doors.pd).is_empty());
}

#[test]
fn nobody_passes_without_a_certificate() {
    let Some(doors) = doors("server.pem", "server.pem") else {
        return;
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authority("ca.pem"))
        .with_no_client_auth();
    config.alpn_protocols.push(b"h2".to_vec());
    let config = Arc::new(config);
    for door in doors.stores.iter().chain([&doors.pd]) {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(door).unwrap());
        let refused = stream.read(&mut [0]).unwrap_err();
        assert!(
            refused.to_string().contains("CertificateRequired"),
            "{refused}"
        );
        assert!(doors.certificates_at(door).is_empty());
    }
}

/// PD is trusted and the store is not: nothing is read from it, and the error says why.
#[test]
fn a_store_of_another_authority_is_not_waited_for_endlessly() {
    let Some(doors) = doors("server.pem", "revoked.pem") else {
        return;
    };
    let (error, took) = refusal(&tls_config(&doors, "ca.pem", "client.pem"));
    let line = error.to_string();
    assert!(matches!(error, StorageError::Unreachable(_)), "{line}");
    assert!(line.contains("invalid peer certificate"), "{line}");
    assert!(took < RETRIED, "{took:?}");
}

/// Without TLS the library would connect in the clear when a file is empty.
#[test]
fn files_that_cannot_be_used_open_no_connection() {
    let Some(pd) = pd() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let all = files("ca.pem", file("client.pem")).expect("files");
    for tls in [
        TlsFiles {
            ca: empty.clone(),
            ..all.clone()
        },
        TlsFiles {
            key: empty.clone(),
            ..all.clone()
        },
        TlsFiles {
            certificate: empty,
            ..all
        },
    ] {
        let (error, took) = refusal(&Config {
            tls: Some(tls),
            ..config(&pd)
        });
        assert!(matches!(error, StorageError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("empty.pem"), "{error}");
        assert!(took < AT_ONCE, "{took:?}");
    }
}

/// A certificate that is replaced in its file is used without a restart, and no write fails.
#[test]
fn a_renewed_certificate_is_taken_from_its_file() {
    let Some(doors) = doors("server.pem", "server.pem") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.pem");
    fs::copy(file("client.pem"), &own).unwrap();
    let engine = open(&Config {
        tls: files("ca.pem", own.clone()),
        ..tls_config(&doors, "ca.pem", "client.pem")
    });
    put(&engine, 0, b"before").unwrap();
    let next = folder.path().join("next.pem");
    // A file that cannot be used changes nothing.
    fs::write(&own, "").unwrap();
    let until = Instant::now() + Duration::from_secs(12);
    let mut written = 1;
    while Instant::now() < until {
        put(&engine, written, b"meanwhile").unwrap();
        written += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::copy(file("server.pem"), &next).unwrap();
    fs::rename(&next, &own).unwrap();
    let renewed = certificate("server.pem");
    let until = Instant::now() + RETRIED;
    for door in doors.stores.iter().chain([&doors.pd]) {
        while !doors.certificates_at(door).contains(&renewed) {
            assert!(Instant::now() < until, "the old certificate is shown");
            put(&engine, written, b"meanwhile").unwrap();
            written += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    assert!((0..written).all(|n| get(&engine, n).is_some()));
    engine.close().unwrap();
}
