//! TLS and what comes before logging in, on live sockets of the whole server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::{DocBuf, doc};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Client, Stream};
use crate::driver::Process;

const SUBJECT: &str = "CN=the client,OU=client,O=Quarry tests,C=DE";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/certificates")
        .join(name)
}

fn options(mode: &str) -> Vec<String> {
    let path = |name: &str| file(name).display().to_string();
    let (key, ca) = (path("server.pem"), path("ca.pem"));
    let all = [
        "--tlsMode",
        mode,
        "--tlsCertificateKeyFile",
        &key,
        "--tlsCAFile",
        &ca,
    ];
    all.map(str::to_owned).to_vec()
}

fn serve(dbpath: &std::path::Path, options: &[String]) -> Process {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Process::with(dbpath, &options)
}

fn tcp(server: &Process) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
}

/// A TLS stream, with the certificate of the client or without.
fn sealed(server: &Process, shows: bool) -> Box<dyn Stream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("ca.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if shows {
        let chain = vec![CertificateDer::from_pem_file(file("client.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("client.pem")).unwrap();
        builder.with_client_auth_cert(chain, key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Box::new(StreamOwned::new(connection, tcp(server)))
}

fn ask(client: &mut Client, db: &str, mut command: DocBuf) -> DocBuf {
    command.put("$db", db);
    DocBuf::from_bytes(client.call(command.as_bytes()).body).unwrap()
}

fn is_ok(d: &DocBuf) -> bool {
    d.doc().field("ok").as_f64() == Some(1.0)
}

/// Whether the server ends the connection after these bytes.
fn is_closed_after(mut stream: Box<dyn Stream>, bytes: &[u8]) -> bool {
    if stream
        .write_all(bytes)
        .and_then(|()| stream.flush())
        .is_err()
    {
        return true;
    }
    // What the server still says, an alert perhaps, comes before the end.
    loop {
        match stream.read(&mut [0; 64]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => {
                let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
                return !waits.contains(&e.kind());
            }
        }
    }
}

#[test]
fn messages_of_any_length_go_through_tls_and_plain_ones_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &options("requireTLS"));
    let mut client = Client::over(sealed(&server, true));
    for bytes in [1, 16_000, 70_000, 3_000_000, 15_000_000] {
        let text = "x".repeat(bytes);
        let insert = doc! { "insert": "c", "documents": [
        { "_id": i32::try_from(bytes).unwrap(), "x": text.as_str() } ] };
        assert!(is_ok(&ask(&mut client, "d", insert)), "{bytes}");
        let find = doc! { "find": "c", "filter": { "_id": i32::try_from(bytes).unwrap() } };
        let found = ask(&mut client, "d", find);
        assert!(found.as_bytes().len() > bytes, "{bytes}");
    }
    let hello = wire::MessageBuilder::new(1)
        .flags(0)
        .body(doc! { "hello": 1i32, "$db": "admin" }.as_bytes())
        .build();
    assert!(
        is_closed_after(Box::new(tcp(&server)), &hello),
        "downgraded to plain"
    );
    assert!(
        is_closed_after(sealed(&server, false), &hello),
        "without a certificate"
    );
    assert!(is_closed_after(
        Box::new(tcp(&server)),
        &[0x16, 3, 1, 0xff, 0xff, 0, 0]
    ));
    assert!(is_ok(&ask(
        &mut client,
        "admin",
        doc! { "rotateCertificates": 1i32 }
    )));
    assert!(is_ok(&ask(&mut client, "admin", doc! { "ping": 1i32 })));
    assert!(is_ok(&ask(
        &mut Client::over(sealed(&server, true)),
        "admin",
        doc! { "ping": 1i32 }
    )));
    server.stop();
}

#[test]
fn a_certificate_logs_its_subject_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = options("preferTLS");
    all.push("--auth".to_owned());
    all.push("--tlsAllowConnectionsWithoutCertificates".to_owned());
    let server = serve(dir.path(), &all);
    let mut plain = Client::over(Box::new(tcp(&server)));
    let external = doc! { "createUser": SUBJECT, "roles": [ { "role": "root", "db": "admin" } ] };
    // The exception lets nobody give roles of other databases, but `root` is of `admin`.
    assert!(is_ok(&ask(&mut plain, "$external", external)));
    let login = || doc! { "authenticate": 1i32, "mechanism": "MONGODB-X509" };
    assert!(!is_ok(&ask(&mut plain, "$external", login())));
    let mut without = Client::over(sealed(&server, false));
    assert!(!is_ok(&ask(&mut without, "$external", login())));
    let mut client = Client::over(sealed(&server, true));
    assert!(!is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    let entered = ask(&mut client, "$external", login());
    assert_eq!(entered.doc().field("user").as_str(), Some(SUBJECT));
    assert!(is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    // Within the greeting, which names no database.
    let mut client = Client::over(sealed(&server, true));
    let hello = doc! { "hello": 1i32, "speculativeAuthenticate": {
    "authenticate": 1i32, "mechanism": "MONGODB-X509" } };
    let greeted = ask(&mut client, "admin", hello);
    let begun = greeted.doc().field("speculativeAuthenticate").as_doc();
    assert_eq!(begun.unwrap().field("user").as_str(), Some(SUBJECT));
    assert!(is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    server.stop();
}

#[test]
fn a_certificate_that_is_let_in_although_it_is_invalid_logs_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = options("requireTLS");
    // No authority that the server knows has signed the client's certificate.
    let other = file("server.pem").display().to_string();
    let ca = all.iter_mut().find(|o| o.ends_with("ca.pem")).unwrap();
    *ca = other;
    all.extend(["--auth", "--tlsAllowInvalidCertificates"].map(str::to_owned));
    let server = serve(dir.path(), &all);
    let mut client = Client::over(sealed(&server, true));
    let external = doc! { "createUser": SUBJECT, "roles": [ { "role": "root", "db": "admin" } ] };
    assert!(is_ok(&ask(&mut client, "$external", external)));
    let login = doc! { "authenticate": 1i32, "mechanism": "MONGODB-X509" };
    assert!(!is_ok(&ask(&mut client, "$external", login)));
    assert!(!is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    server.stop();
}

/// A message that declares this length, and, when compressed, this length inside.
fn declares(len: i32, inside: Option<i32>) -> Vec<u8> {
    let op = if inside.is_some() { 2012 } else { 2013 };
    let mut out = [len, 1, 0, op].map(i32::to_le_bytes).concat();
    if let Some(inside) = inside {
        out.extend_from_slice(&2013i32.to_le_bytes());
        out.extend_from_slice(&inside.to_le_bytes());
        out.push(3);
    }
    out.resize(out.len().max(64), 0);
    out
}

#[test]
fn who_has_not_logged_in_sends_short_messages() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--auth".to_owned()]);
    let closed = |bytes: &[u8]| is_closed_after(Box::new(tcp(&server)), bytes);
    assert!(closed(&declares(16 * 1024 + 1, None)));
    assert!(closed(&declares(48_000_000, None)));
    assert!(closed(&declares(64, Some(30_000_000))), "a compressed bomb");
    let mut client = Client::over(Box::new(tcp(&server)));
    let long = "x".repeat(10_000);
    let hello = doc! { "hello": 1i32, "comment": long.as_str() };
    assert!(is_ok(&ask(&mut client, "admin", hello)));
    server.stop();
}
