//! Encrypted data with the real binary: no file contains plain data after load, kill and recovery;
//! wrong keys are refused; the master key is changed while the server runs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use model::{Doc, DocBuf, doc};

use crate::client::Client;
use crate::process::start_listening;

/// The files are searched for twelve bytes of it.
const CANARY: &str = "Zq8vK2xW-canary-of-the-encryption-test";

pub(crate) fn serve(data: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command
        .args(["serve", "--nounixsocket", "--memory", "128M", "--port", "0"])
        .arg("--dbpath")
        .arg(data)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) struct EncryptedServer {
    child: Child,
    address: String,
    client: Client,
}

impl EncryptedServer {
    pub(crate) fn start(data: &Path, options: &[&str]) -> EncryptedServer {
        let (child, address) = start_listening(&mut serve(data, options));
        let stream = std::net::TcpStream::connect(&address).unwrap();
        EncryptedServer {
            child,
            address,
            client: Client::new(Box::new(stream)),
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn ok(&mut self, command: &DocBuf) -> DocBuf {
        let answer = self.client.call(command.as_bytes());
        assert!(answer.is_ok(), "{:?}", Doc::new(&answer.body));
        Doc::new(&answer.body).unwrap().to_buf()
    }

    /// Whether the command succeeded.
    pub(crate) fn try_run(&mut self, command: &DocBuf) -> bool {
        self.client.call(command.as_bytes()).is_ok()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for EncryptedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn key_file(path: &Path, letter: char) {
    let text: String = std::iter::repeat_n(letter, 42)
        .chain("E=\n".chars())
        .collect();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

pub(crate) fn load(server: &mut EncryptedServer) {
    let index = doc! { "createIndexes": "c",
    "indexes": [{ "key": { "secret": 1i32 }, "name": "s" }], "$db": "d" };
    server.ok(&index);
    for round in 0..20i32 {
        let documents: Vec<DocBuf> = (0..100i32)
            .map(|n| {
                let secret = format!("{CANARY}-{round}-{n}");
                let id = format!("{CANARY}-id-{round}-{n}");
                doc! { "_id": id.as_str(), "secret": secret.as_str() }
            })
            .collect();
        let insert = DocBuf::build(|w| {
            w.put("insert", "c");
            let mut list = w.array("documents");
            documents.iter().for_each(|d| _ = list.push(d.doc()));
            drop(list);
            w.put("$db", "d").doc("writeConcern").put("j", true);
        });
        server.ok(&insert);
    }
    // Writes tables, in addition to the journal.
    server.ok(&doc! { "fsync": 1i32, "$db": "admin" });
}

pub(crate) fn count(server: &mut EncryptedServer) -> i32 {
    let count = doc! { "count": "c", "query": { "secret": { "$gte": CANARY } }, "$db": "d" };
    let reply = server.ok(&count);
    let n = reply.doc().field("n").as_i64_exact().unwrap();
    i32::try_from(n).unwrap()
}

pub(crate) fn list_readable(folder: &Path) -> Vec<PathBuf> {
    let wanted = &CANARY.as_bytes()[..12];
    let shows = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(wanted.len()).any(|w| w == wanted)
    };
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().path()).filter(shows).collect()
}

pub(crate) fn start_error(data: &Path, options: &[&str]) -> String {
    let output: Output = serve(data, options).output().unwrap();
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

#[test]
fn no_file_shows_the_data_and_only_the_right_key_opens_it() {
    let root = tempfile::tempdir().unwrap();
    let (data, key, open) = (
        root.path().join("data"),
        root.path().join("key"),
        root.path().join("open"),
    );
    let log = root.path().join("quarry.log");
    key_file(&key, 'A');
    let at = key.to_str().unwrap();
    let encrypted = ["--enableEncryption", "--encryptionKeyFile", at];
    let logged = ["--redactClientLogData", "--logpath", log.to_str().unwrap()];
    let options = [&encrypted[..], &logged[..]].concat();

    let mut clear = EncryptedServer::start(&open, &[]);
    load(&mut clear);
    clear.kill();
    assert!(
        !list_readable(&open).is_empty(),
        "the search finds nothing at all"
    );

    let mut server = EncryptedServer::start(&data, &options);
    load(&mut server);
    assert_eq!(list_readable(&data), Vec::<PathBuf>::new());
    server.kill();
    assert_eq!(list_readable(&data), Vec::<PathBuf>::new());
    let mut server = EncryptedServer::start(&data, &options);
    assert_eq!(count(&mut server), 2000);
    assert_eq!(list_readable(&data), Vec::<PathBuf>::new());
    assert_eq!(list_readable(root.path()), Vec::<PathBuf>::new(), "the log");

    // Another master key, while the server runs.
    key_file(&key, 'B');
    server.ok(&doc! { "rotateEncryptionKey": 1i32, "$db": "admin" });
    server.kill();
    let mut server = EncryptedServer::start(&data, &options);
    assert_eq!(count(&mut server), 2000);
    server.kill();
    key_file(&key, 'A');
    assert!(start_error(&data, &encrypted).contains("does not fit"));
    assert!(start_error(&data, &[]).contains("no encryption key was given"));
    key_file(&key, 'B');
    assert!(start_error(&open, &encrypted).contains("is not encrypted"));
    let lmdb = [&encrypted[..], &["--storageEngine", "memory"]].concat();
    assert!(start_error(&open, &lmdb).contains("only --storageEngine rocksdb"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(start_error(&data, &encrypted).contains("chmod 600"));
    let none = ["--enableEncryption", "--encryptionKeyFile", "/no/such/key"];
    assert!(start_error(&data, &none).contains("/no/such/key"));
    assert!(start_error(&data, &none[..1]).contains("needs encryptionKeyFile"));
}
