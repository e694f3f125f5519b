//! TLS and the time before the login, on live sockets of the whole server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
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
    Path::new("tests/it/certificates").join(name)
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

fn serve(dbpath: &Path, options: &[String]) -> Process {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Process::start_with(dbpath, &options)
}

fn tcp(server: &Process) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
}

/// A TLS stream, with or without a client certificate.
fn open_stream(server: &Process, shows: bool) -> Box<dyn Stream> {
    open_tls(server, shows.then_some("client.pem"), "ca.pem")
}

/// A TLS stream with this client certificate, to a server whose certificate must be signed by this
/// authority.
fn open_tls(server: &Process, shows: Option<&str>, authority: &str) -> Box<dyn Stream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file(authority)).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if let Some(own) = shows {
        let chain = vec![CertificateDer::from_pem_file(file(own)).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file(own)).unwrap();
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
    // Data that the server still sends, such as an alert, comes before the end.
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
    let mut client = Client::new(open_stream(&server, true));
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
        is_closed_after(open_stream(&server, false), &hello),
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
        &mut Client::new(open_stream(&server, true)),
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
    let mut plain = Client::new(Box::new(tcp(&server)));
    let external = doc! { "createUser": SUBJECT, "roles": [ { "role": "root", "db": "admin" } ] };
    // The localhost exception does not allow granting roles of other databases, except roles of
    // `admin`.
    assert!(is_ok(&ask(&mut plain, "$external", external)));
    let login = || doc! { "authenticate": 1i32, "mechanism": "MONGODB-X509" };
    assert!(!is_ok(&ask(&mut plain, "$external", login())));
    let mut without = Client::new(open_stream(&server, false));
    assert!(!is_ok(&ask(&mut without, "$external", login())));
    let mut client = Client::new(open_stream(&server, true));
    assert!(!is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    let entered = ask(&mut client, "$external", login());
    assert_eq!(entered.doc().field("user").as_str(), Some(SUBJECT));
    assert!(is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    // The login is part of the greeting, which names no database.
    let mut client = Client::new(open_stream(&server, true));
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
    // The client's certificate is signed by an authority that the server does not know.
    let other = file("server.pem").display().to_string();
    let ca = all.iter_mut().find(|o| o.ends_with("ca.pem")).unwrap();
    *ca = other;
    all.extend(["--auth", "--tlsAllowInvalidCertificates"].map(str::to_owned));
    let server = serve(dir.path(), &all);
    let mut client = Client::new(open_stream(&server, true));
    let external = doc! { "createUser": SUBJECT, "roles": [ { "role": "root", "db": "admin" } ] };
    assert!(is_ok(&ask(&mut client, "$external", external)));
    let login = doc! { "authenticate": 1i32, "mechanism": "MONGODB-X509" };
    assert!(!is_ok(&ask(&mut client, "$external", login)));
    assert!(!is_ok(&ask(&mut client, "d", doc! { "find": "c" })));
    server.stop();
}

/// A message that declares this length and, if it is compressed, this uncompressed length.
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
    let mut client = Client::new(Box::new(tcp(&server)));
    let long = "x".repeat(10_000);
    let hello = doc! { "hello": 1i32, "comment": long.as_str() };
    assert!(is_ok(&ask(&mut client, "admin", hello)));
    server.stop();
}

/// A greeting of this length.
fn hello(len: usize) -> Vec<u8> {
    let build = |comment: &str| {
        let body = doc! { "hello": 1i32, "comment": comment, "$db": "admin" };
        wire::MessageBuilder::new(1)
            .flags(0)
            .body(body.as_bytes())
            .build()
    };
    let empty = build("").len();
    build(&"x".repeat(len.saturating_sub(empty)))
}

/// A greeting of a client that knows TLS up to this version, without extensions.
fn client_hello(version: [u8; 2]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    // No session, two cipher suites that all versions have, no compression.
    body.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    let len = |n: usize| u16::try_from(n).unwrap().to_be_bytes();
    let mut out = vec![0x16, version[0], version[1]];
    out.extend(len(body.len() + 4));
    out.extend([1, 0]);
    out.extend(len(body.len()));
    out.extend(body);
    out
}

/// A server whose log is a file.
struct LoggingServer {
    server: Process,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl LoggingServer {
    fn serve(options: &[String]) -> LoggingServer {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut all = options.to_vec();
        all.extend(["--logpath".to_owned(), path.display().to_string()]);
        let server = serve(&dir.path().join("data"), &all);
        LoggingServer {
            server,
            path,
            _dir: dir,
        }
    }

    fn lines(&self, id: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let wanted = format!("\"id\":{id},");
        let found = text.lines().filter(|l| l.contains(&wanted));
        found.map(str::to_owned).collect()
    }

    /// Checks that the server ends this connection and that the log gives these words as the
    /// reason.
    fn refuses(&self, stream: Box<dyn Stream>, bytes: &[u8], words: &str) {
        self.refuses_after(self.lines("22988").len(), stream, bytes, words);
    }

    /// The same; there were `before` such lines when the connection was made.
    fn refuses_after(&self, before: usize, stream: Box<dyn Stream>, bytes: &[u8], words: &str) {
        assert!(is_closed_after(stream, bytes), "{words}");
        let line = self.line_after(before, words);
        for part in [
            "\"c\":\"NETWORK\"",
            "\"msg\":\"Error receiving request from client. Ending connection from remote\"",
            "\"error\":{\"code\":141,\"codeName\":\"SSLHandshakeFailed\",\"errmsg\":",
            "\"remote\":\"127.0.0.1:",
            "\"connectionId\":",
            words,
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    fn line_after(&self, before: usize, words: &str) -> String {
        let until = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let all = self.lines("22988");
            assert!(all.len() <= before + 1, "told twice: {all:?}");
            match all.get(before) {
                Some(line) => return line.clone(),
                None => assert!(std::time::Instant::now() < until, "no line says: {words}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_log_says_why_a_connection_was_refused() {
    let log = LoggingServer::serve(&options("requireTLS"));
    let (server, hello) = (&log.server, hello(100));
    let no_certificate = "no SSL certificate provided by peer; connection rejected";
    log.refuses(open_stream(server, false), &hello, no_certificate);
    let unknown = "SSL peer certificate validation failed: no known authority has signed it";
    let stream = open_tls(server, Some("revoked.pem"), "ca.pem");
    log.refuses(stream, &hello, unknown);
    let distrusts = "the client ended the handshake with the alert UnknownCA";
    let stream = open_tls(server, Some("client.pem"), "other-ca.pem");
    log.refuses(stream, &hello, distrusts);
    let plain = "The server is configured to only allow SSL connections";
    log.refuses(Box::new(tcp(server)), &hello, plain);
    let old = "the client offers no version of TLS that is allowed: 1.2 and 1.3";
    log.refuses(Box::new(tcp(server)), &client_hello([3, 2]), old);
    log.refuses(Box::new(tcp(server)), &client_hello([3, 0]), old);
    let garbage = "what the client sent is no record of TLS";
    let bytes = [0x16, 3, 1, 0xff, 0xff, 0, 0];
    log.refuses(Box::new(tcp(server)), &bytes, garbage);
    let before = log.lines("22988").len();
    let cut = tcp(server);
    (&cut).write_all(&client_hello([3, 3])[..20]).unwrap();
    cut.shutdown(std::net::Shutdown::Write).unwrap();
    let gone = "the client ended the connection within the handshake";
    log.refuses_after(before, Box::new(cut), &[], gone);
    // A silent client and an accepted client cause no line.
    drop(tcp(server));
    let mut client = Client::new(open_stream(server, true));
    assert!(is_ok(&ask(&mut client, "admin", doc! { "ping": 1i32 })));
    drop(client);
    assert_eq!(log.lines("22988").len(), 8);
    log.server.stop();
}

#[test]
fn expired_and_revoked_certificates_are_distinguished() {
    let mut all = options("requireTLS");
    let ca = all.iter_mut().find(|o| o.ends_with("ca.pem")).unwrap();
    *ca = file("other-ca.pem").display().to_string();
    let crl = file("other-crl.pem").display().to_string();
    all.extend(["--tlsCRLFile".to_owned(), crl]);
    let log = LoggingServer::serve(&all);
    let hello = hello(100);
    for (name, words) in [
        ("expired.pem", "certificate has expired, "),
        ("revoked.pem", "certificate revoked"),
        ("client.pem", "no known authority has signed it"),
    ] {
        let words = format!("\"errmsg\":\"SSL peer certificate validation failed: {words}");
        let stream = open_tls(&log.server, Some(name), "ca.pem");
        log.refuses(stream, &hello, &words);
    }
    log.server.stop();
}

#[test]
fn a_handshake_with_a_server_without_tls_fails_at_once() {
    let log = LoggingServer::serve(&[]);
    let words = "SSL handshake received but server is started without SSL support";
    log.refuses(Box::new(tcp(&log.server)), &client_hello([3, 3]), words);
    log.refuses(open_stream(&log.server, true), &hello(100), words);
    log.server.stop();
}

#[test]
fn a_greeting_that_begins_like_a_handshake_is_answered() {
    // The length of this message, 790, has the same first bytes as a TLS record.
    let hello = hello(0x316);
    assert_eq!(hello[..4], [0x16, 3, 0, 0]);
    for options in [Vec::new(), options("preferTLS")] {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), &options);
        let mut stream = tcp(&server);
        stream.write_all(&hello).unwrap();
        let mut head = [0; 16];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[12..], 2013i32.to_le_bytes());
        server.stop();
    }
}

#[test]
fn an_attacker_does_not_fill_the_log_with_refusals() {
    let log = LoggingServer::serve(&options("requireTLS"));
    let attack = || {
        for _ in 0..100 {
            assert!(is_closed_after(Box::new(tcp(&log.server)), &hello(100)));
        }
    };
    attack();
    let told = |lines: &[String]| -> u64 {
        let after = |l: &String| Some(l.split_once("\"leftOut\":")?.1.to_owned());
        let numbers = lines.iter().filter_map(after).map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().unwrap()
        });
        numbers.sum()
    };
    // Connections without a line are counted in the end, although nothing more happens.
    let until = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let (each, rest) = (log.lines("22988"), log.lines("90000007"));
        let lines = u64::try_from(each.len()).unwrap();
        // A slow machine may need two periods of ten seconds.
        assert!(lines <= 60, "{lines}");
        if lines + told(&each) + told(&rest) == 100 && lines + told(&each) < 100 {
            break;
        }
        assert!(std::time::Instant::now() < until, "{each:?} {rest:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    log.server.stop();
}
