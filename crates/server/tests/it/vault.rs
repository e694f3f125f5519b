//! The master key in Vault: a test server for Vault's API, with versions and faults, and the real
//! binary against it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::doc;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::encryption::{EncryptedServer, start_error};

const TOKEN: &str = "hvs.a-token-that-nobody-may-see";
const SECRET: &str = "kv/data/quarry/one";

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum VaultBehaviour {
    Well,
    Sealed,
    Garbage,
    Floods,
    /// It reports that it stored a version, but did not.
    Forgets,
    /// It redirects the client to another server.
    Redirects,
}

#[derive(Default)]
struct VaultState {
    /// The versions of the one secret; `None` for a deleted one.
    versions: Vec<Option<String>>,
    writes: usize,
}

struct Vault {
    port: u16,
    kept: Arc<Mutex<VaultState>>,
    manner: Arc<Mutex<VaultBehaviour>>,
}

fn certificate(name: &str) -> PathBuf {
    Path::new("tests/it/certificates").join(name)
}

impl Vault {
    fn start(sealed: bool) -> Vault {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let vault = Vault {
            port: listener.local_addr().unwrap().port(),
            kept: Arc::default(),
            manner: Arc::new(Mutex::new(VaultBehaviour::Well)),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(certificate("server.pem")).unwrap();
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let tls = Arc::new(tls);
        let (kept, manner) = (vault.kept.clone(), vault.manner.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, manner, tls) = (kept.clone(), manner.clone(), tls.clone());
                std::thread::spawn(move || {
                    let stream: TcpStream = stream.unwrap();
                    let patience = Some(Duration::from_secs(20));
                    stream.set_read_timeout(patience).unwrap();
                    if sealed {
                        let connection = ServerConnection::new(tls).unwrap();
                        serve(StreamOwned::new(connection, stream), &kept, &manner);
                    } else {
                        serve(stream, &kept, &manner);
                    }
                });
            }
        });
        vault
    }

    fn behave(&self, manner: VaultBehaviour) {
        *self.manner.lock() = manner;
    }
}

/// One request for each connection is enough for this client.
fn serve(mut stream: impl Read + Write, kept: &Mutex<VaultState>, manner: &Mutex<VaultBehaviour>) {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    let (head, body) = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let lower = head.to_lowercase();
            let len = lower.split_once("content-length: ").map_or(0, |(_, rest)| {
                rest.lines().next().unwrap().parse::<usize>().unwrap()
            });
            if bytes.len() >= end + 4 + len {
                break (head, bytes.split_off(end + 4));
            }
        }
        match stream.read(&mut part) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&part[..n]),
            _ => return,
        }
    };
    let manner = *manner.lock();
    if manner == VaultBehaviour::Floods {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        let mut more = stream.write_all(head.as_bytes()).is_ok();
        while more {
            more = stream.write_all(&[b'x'; 65_536]).is_ok();
        }
        return;
    }
    let (status, body) = answer(&head, &body, &mut kept.lock(), manner);
    let text = body.to_string();
    let more = match manner {
        VaultBehaviour::Redirects => "Location: http://127.0.0.1:1/v1/stolen\r\n",
        _ => "",
    };
    let whole = format!(
        "HTTP/1.1 {status} X\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream
        .write_all(whole.as_bytes())
        .and_then(|()| stream.flush());
}

/// The answer according to the API's documentation.
fn answer(head: &str, body: &[u8], kept: &mut VaultState, manner: VaultBehaviour) -> (u16, Value) {
    // If a server repeats a request's content, that must not get into the log.
    let errors = json!({ "errors": [format!("token {TOKEN} \n refused")] });
    match manner {
        VaultBehaviour::Sealed => return (503, errors),
        VaultBehaviour::Redirects => return (307, json!({})),
        VaultBehaviour::Garbage => return (200, json!(["neither", TOKEN])),
        _ => {}
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let lower = head.to_lowercase();
    if !lower.contains(&format!("x-vault-token: {TOKEN}").to_lowercase()) {
        return (403, errors);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != format!("/v1/{SECRET}") {
        return (403, errors);
    }
    if method == "POST" {
        let sent: Value = serde_json::from_slice(body).unwrap();
        let newest = u64::try_from(kept.versions.len()).unwrap();
        if sent["options"]["cas"].as_u64() != Some(newest) {
            return (400, errors);
        }
        kept.writes += 1;
        if manner != VaultBehaviour::Forgets {
            let value = sent["data"]["value"].as_str().unwrap();
            kept.versions.push(Some(value.to_owned()));
        }
        return (200, json!({ "data": { "version": newest + 1 } }));
    }
    let version = match query.strip_prefix("version=") {
        Some(n) => n.parse().unwrap(),
        None => kept.versions.len(),
    };
    match version.checked_sub(1).and_then(|at| kept.versions.get(at)) {
        None => (404, json!({ "errors": [] })),
        Some(None) => (
            404,
            json!({ "data": { "data": null, "metadata": { "version": version } } }),
        ),
        Some(Some(value)) => (
            200,
            json!({ "data": { "data": { "value": value }, "metadata": { "version": version } } }),
        ),
    }
}

/// The data directory of a test, its token, and the options.
struct TestFolder {
    root: tempfile::TempDir,
    options: Vec<String>,
}

impl TestFolder {
    fn new(vault: &Vault, sealed: bool) -> TestFolder {
        let root = tempfile::tempdir().unwrap();
        let token = root.path().join("token");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let port = vault.port.to_string();
        let (token, ca) = (token.display().to_string(), certificate("ca.pem"));
        let mut options: Vec<String> = [
            "--enableEncryption",
            "--vaultServerName",
            "localhost",
            "--vaultPort",
            &port,
            "--vaultTokenFile",
            &token,
            "--vaultSecret",
            SECRET,
        ]
        .map(str::to_owned)
        .to_vec();
        match sealed {
            true => options.extend(["--vaultServerCAFile".into(), ca.display().to_string()]),
            false => options.push("--vaultDisableTLSForTesting".into()),
        }
        TestFolder { root, options }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn options(&self) -> Vec<&str> {
        self.options.iter().map(String::as_str).collect()
    }

    fn start(&self) -> EncryptedServer {
        EncryptedServer::start(&self.data(), &self.options())
    }

    /// The one line of a failed start; it contains no secrets.
    fn start_error(&self) -> String {
        let line = start_error(&self.data(), &self.options());
        assert!(!line.contains(TOKEN), "{line}");
        line
    }
}

fn insert(server: &mut EncryptedServer, id: i32) {
    let insert = doc! { "insert": "c", "documents": [{ "_id": id }], "$db": "d",
    "writeConcern": { "w": 1i32, "j": true } };
    server.ok(&insert);
}

fn count(server: &mut EncryptedServer) -> i64 {
    let reply = server.ok(&doc! { "count": "c", "$db": "d" });
    reply.doc().field("n").as_i64_exact().unwrap()
}

#[test]
fn a_key_is_made_in_vault_and_replaced_there_while_the_server_runs() {
    for sealed in [true, false] {
        let vault = Vault::start(sealed);
        let place = TestFolder::new(&vault, sealed);
        let mut server = place.start();
        assert_eq!(vault.kept.lock().versions.len(), 1, "made");
        insert(&mut server, 1);
        server.ok(&doc! { "rotateEncryptionKey": 1i32, "$db": "admin" });
        assert_eq!(vault.kept.lock().versions.len(), 2);
        insert(&mut server, 2);
        server.kill();
        let mut server = place.start();
        assert_eq!(count(&mut server), 2);
        server.kill();
        // The previous key does not decrypt the data any more.
        vault.kept.lock().versions[1] = None;
        assert!(place.start_error().contains("holds no key"));
        let first = vault.kept.lock().versions[0].clone();
        vault.kept.lock().versions[1] = first;
        let line = place.start_error();
        assert!(
            line.contains("does not fit") && line.contains("versions 1 to 2"),
            "{line}"
        );
    }
}

#[test]
fn a_rotation_that_was_cut_off_leaves_a_directory_that_opens() {
    let vault = Vault::start(true);
    let place = TestFolder::new(&vault, true);
    let mut server = place.start();
    insert(&mut server, 1);
    server.kill();
    // Vault has newer keys than the directory, from interrupted rotations or from servers that
    // share the secret.
    let key = "A".repeat(42) + "E=";
    for _ in 0..3 {
        vault.kept.lock().versions.push(Some(key.clone()));
    }
    vault.kept.lock().versions[1] = None;
    let mut server = place.start();
    assert_eq!(count(&mut server), 1);
    // From here on the directory uses the newest key.
    server.ok(&doc! { "rotateEncryptionKey": 1i32, "$db": "admin" });
    server.kill();
    vault.kept.lock().versions[0] = None;
    let mut server = place.start();
    assert_eq!(count(&mut server), 1);
    // A failed rotation changes nothing.
    for manner in [
        VaultBehaviour::Forgets,
        VaultBehaviour::Sealed,
        VaultBehaviour::Garbage,
    ] {
        vault.behave(manner);
        let command = doc! { "rotateEncryptionKey": 1i32, "$db": "admin" };
        assert!(!server.try_run(&command), "{manner:?}");
    }
    vault.behave(VaultBehaviour::Well);
    server.kill();
    assert_eq!(count(&mut place.start()), 1);
}

#[test]
fn each_thing_that_is_wrong_is_one_line() {
    let vault = Vault::start(true);
    let mut place = TestFolder::new(&vault, true);
    let mut server = place.start();
    insert(&mut server, 1);
    server.kill();
    for (manner, words) in [
        (
            VaultBehaviour::Sealed,
            "is sealed or in maintenance (status 503)",
        ),
        (
            VaultBehaviour::Garbage,
            "does not answer as KV version 2 does",
        ),
        (VaultBehaviour::Floods, "more than 65536 bytes"),
        (VaultBehaviour::Redirects, "is a standby (status 307)"),
    ] {
        vault.behave(manner);
        let line = place.start_error();
        assert!(line.contains(words), "{manner:?}: {line}");
    }
    vault.behave(VaultBehaviour::Well);
    let versions = std::mem::take(&mut vault.kept.lock().versions);
    let line = place.start_error();
    assert!(line.contains("has no secret kv/data/quarry/one"), "{line}");
    vault.kept.lock().versions = vec![Some("no key".to_owned())];
    assert!(
        place
            .start_error()
            .contains("holds no key: its field \"value\"")
    );
    vault.kept.lock().versions = versions;
    assert_eq!(
        vault.kept.lock().writes,
        1,
        "a start that fails writes nothing"
    );

    let token = place.root.path().join("token");
    std::fs::write(&token, "another").unwrap();
    let line = place.start_error();
    assert!(
        line.contains("does not allow the token in") && line.contains("403"),
        "{line}"
    );
    std::fs::write(&token, "two words").unwrap();
    assert!(
        place
            .start_error()
            .contains("must hold a token and nothing else")
    );
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(place.start_error().contains("chmod 600"));
    std::fs::remove_file(&token).unwrap();
    assert!(place.start_error().contains("cannot read vaultTokenFile"));
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();

    // The certificate of another authority.
    let ca = place.options.iter_mut().find(|o| o.ends_with("/ca.pem"));
    let good = std::mem::replace(
        ca.unwrap(),
        certificate("other-ca.pem").display().to_string(),
    );
    let line = place.start_error();
    assert!(line.contains("cannot reach Vault at localhost:"), "{line}");
    let ca = place
        .options
        .iter_mut()
        .find(|o| o.ends_with("/other-ca.pem"));
    *ca.unwrap() = good;
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = closed.local_addr().unwrap().port().to_string();
    drop(closed);
    let mine = vault.port.to_string();
    let at = place.options.iter().position(|o| *o == mine).unwrap();
    place.options[at] = port;
    assert!(
        place
            .start_error()
            .contains("cannot reach Vault at localhost:")
    );
    place.options[at] = mine;
    assert_eq!(count(&mut place.start()), 1, "nothing was changed");
}
