//! `quarry convert` with the real binary: from engine to engine and back with equal contents,
//! killed in the middle and continued, and what it refuses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use engine_lmdb::LmdbEngine;
use model::{Doc, DocBuf, doc};
use storage::{CursorOpts, Durability, Engine, KeyRange, Reader, Table, WriteBatch};

use crate::client::Client;
use crate::driver::Process;
use crate::engines::present;

fn command(from: &Path, to: &Path, engine: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command
        .arg("convert")
        .arg("--from")
        .arg(from)
        .arg("--to")
        .arg(to);
    command.args(["--storageEngine", engine, "--memory", "256M"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run_conversion(from: &Path, to: &Path, engine: &str) -> String {
    let output = command(from, to, engine).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of a conversion that must fail.
fn conversion_error(output: Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

struct TestServer {
    server: Process,
    client: Client,
}

impl TestServer {
    fn start(data: &Path, engine: &str) -> TestServer {
        let server = Process::start_with(data, &["--storageEngine", engine]);
        let stream = std::net::TcpStream::connect(server.address()).unwrap();
        TestServer {
            client: Client::new(Box::new(stream)),
            server,
        }
    }

    fn ok(&mut self, command: &DocBuf) -> DocBuf {
        let answer = self.client.call(command.as_bytes());
        assert!(answer.is_ok(), "{:?}", Doc::new(&answer.body));
        Doc::new(&answer.body).unwrap().to_buf()
    }

    fn batch(&mut self, command: &DocBuf) -> Vec<DocBuf> {
        let reply = self.ok(command);
        let cursor = reply.doc().field("cursor").as_doc().unwrap().to_buf();
        assert_eq!(
            cursor.doc().field("id").as_i64_exact(),
            Some(0),
            "more than one batch"
        );
        let batch = cursor.doc().field("firstBatch").as_array().unwrap();
        batch.iter().map(|d| d.as_doc().unwrap().to_buf()).collect()
    }

    fn insert(&mut self, collection: &str, documents: &[DocBuf]) {
        let insert = DocBuf::build(|w| {
            w.put("insert", collection);
            let mut list = w.array("documents");
            documents.iter().for_each(|d| _ = list.push(d.doc()));
            drop(list);
            w.put("$db", "d");
        });
        self.ok(&insert);
    }

    /// Every collection with its options, indexes and documents, and the users.
    fn contents(&mut self) -> BTreeMap<String, Vec<DocBuf>> {
        let mut all = BTreeMap::new();
        let list = doc! { "listCollections": 1i32, "$db": "d" };
        for entry in self.batch(&list) {
            let name = entry.doc().field("name").as_str().unwrap().to_owned();
            let is_view = entry.doc().field("type").as_str() == Some("view");
            all.insert(format!("{name} entry"), vec![entry]);
            let find = doc! { "find": name.as_str(), "batchSize": 100_000i32, "$db": "d" };
            let found = self.batch(&find);
            assert!(!found.is_empty(), "{name}");
            all.insert(format!("{name} documents"), found);
            if !is_view {
                let indexes = doc! { "listIndexes": name.as_str(), "$db": "d" };
                let found = self.batch(&indexes);
                all.insert(format!("{name} indexes"), found);
                if !name.starts_with("system.") {
                    let validate = doc! { "validate": name.as_str(), "$db": "d" };
                    let valid = self.ok(&validate);
                    assert_eq!(
                        valid.doc().field("valid").as_bool(),
                        Some(true),
                        "{valid:?}"
                    );
                }
            }
        }
        let hinted = doc! { "find": "plain", "filter": { "long": { "$gt": "" } },
        "hint": "long", "batchSize": 100_000i32, "$db": "d" };
        all.insert("by index".to_owned(), self.batch(&hinted));
        let users = doc! { "usersInfo": 1i32, "showCredentials": true, "$db": "admin" };
        let users = self
            .ok(&users)
            .doc()
            .field("users")
            .as_array()
            .unwrap()
            .iter()
            .count();
        assert_eq!(users, 1);
        all
    }
}

fn fill(data: &Path) -> BTreeMap<String, Vec<DocBuf>> {
    let mut server = TestServer::start(data, "rocksdb");
    let long = |n: i32| format!("{}{n}", "x".repeat(if n % 3 == 0 { 700 } else { 5 }));
    let plain: Vec<DocBuf> = (0..300i32)
        .map(|n| {
            let long = long(n);
            doc! { "_id": n, "long": long.as_str(), "tags": [n % 7, n % 11], "text": "a red fox" }
        })
        .collect();
    server.insert("plain", &plain);
    server.ok(&doc! { "createIndexes": "plain", "indexes": [
        { "key": { "long": 1i32 }, "name": "long", "unique": true },
        { "key": { "tags": 1i32, "_id": -1i32 }, "name": "tags" },
        { "key": { "text": "text" }, "name": "words" },
    ], "$db": "d" });
    server.ok(
        &doc! { "create": "capped", "capped": true, "size": 100_000i32, "max": 20i32,
        "$db": "d" },
    );
    let few: Vec<DocBuf> = (0..50i32)
        .map(|n| doc! { "_id": 50i32 - n, "n": n })
        .collect();
    server.insert("capped", &few);
    server.ok(
        &doc! { "create": "series", "timeseries": { "timeField": "at", "metaField": "of" },
        "$db": "d" },
    );
    let at = |n: i32| model::Value::Date(1_700_000_000_000 + i64::from(n) * 1000);
    let series: Vec<DocBuf> = (0..200i32)
        .map(|n| doc! { "at": at(n), "of": n % 3, "value": f64::from(n) / 7.0 })
        .collect();
    server.insert("series", &series);
    server.ok(&doc! { "create": "view", "viewOn": "plain",
    "pipeline": [{ "$match": { "tags": 3i32 } }], "$db": "d" });
    server.insert("dropped", &few);
    server.ok(&doc! { "drop": "dropped", "$db": "d" });
    server.ok(&doc! { "createUser": "eva", "pwd": "secret", "roles": ["root"], "$db": "admin" });
    let contents = server.contents();
    server.server.stop();
    contents
}

/// Every file with its bytes.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap();
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
    entries.map(|e| read(e.unwrap().path())).collect()
}

#[test]
fn a_database_goes_to_another_engine_and_back() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let wanted = fill(&at("rocksdb"));
    let mut from = at("rocksdb");
    // To every other engine in turn, and back to the first.
    for (number, engine) in present()[1..].iter().chain(&["rocksdb"]).enumerate() {
        let to = at(&number.to_string());
        let before = files(&from);
        let told = run_conversion(&from, &to, engine);
        assert!(
            told.contains("verified doc: ") && told.contains("all checksums equal"),
            "{told}"
        );
        assert!(files(&from) == before, "the source of {engine} was changed");
        let mut server = TestServer::start(&to, engine);
        assert_eq!(server.contents(), wanted, "{engine}");
        server.server.stop();
        from = to;
    }
    let mut server = TestServer::start(&from, "rocksdb");
    // The result is an ordinary database.
    server.insert("plain", &[doc! { "_id": 1000i32, "long": "new" }]);
    server.server.stop();
}

#[test]
fn what_cannot_be_converted_is_one_line() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let server = Process::start(&at("from"));
    let busy = conversion_error(
        command(&at("from"), &at("to"), "lmdb").output().unwrap(),
        100,
    );
    assert!(busy.contains("in use by another process"), "{busy}");
    server.stop();

    let full = at("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("letter.txt"), "dear reader").unwrap();
    for (from, to, engine, code, words) in [
        (at("from"), full.clone(), "lmdb", 100, "letter.txt"),
        (full.clone(), at("new"), "lmdb", 100, "not a data directory"),
        (at("nowhere"), at("new"), "lmdb", 100, "nowhere"),
        (at("from"), at("from"), "lmdb", 2, "contains the other"),
        (
            at("from"),
            at("from").join("below"),
            "lmdb",
            2,
            "contains the other",
        ),
        (at("from"), at("new"), "memory", 2, "given memory"),
        (at("from"), at("new"), "btree", 2, "given btree"),
        // A conversion that was begun cannot be continued as a different one.
        (
            at("from"),
            at("to"),
            "rocksdb",
            100,
            "unfinished conversion",
        ),
    ] {
        let line = conversion_error(command(&from, &to, engine).output().unwrap(), code);
        assert!(line.contains(words), "{line}");
    }
    assert_eq!(
        std::fs::read_to_string(full.join("letter.txt")).unwrap(),
        "dear reader"
    );
    run_conversion(&at("from"), &at("to"), "lmdb");
    let mut encrypted = command(&at("from"), &at("other"), "lmdb");
    encrypted.arg("--encryptionKeyFile").arg(at("key"));
    let line = conversion_error(encrypted.output().unwrap(), 2);
    assert!(line.contains("would not be encrypted"), "{line}");
}

/// Enough for several parts of a copy.
fn fill_large(data: &Path) {
    let mut server = TestServer::start(data, "rocksdb");
    let text = "y".repeat(64 << 10);
    for hundred in 0..8i32 {
        let documents: Vec<DocBuf> = (0..100i32)
            .map(|n| doc! { "_id": hundred * 100 + n, "text": text.as_str() })
            .collect();
        server.insert("large", &documents);
    }
    server.server.stop();
}

/// Starts a conversion and kills it once a part is durable.
fn kill_conversion(from: &Path, to: &Path) {
    let mut child = command(from, to, "lmdb").spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let has_begun = |text: &str| {
        let phase = text.lines().nth(1).unwrap_or("");
        phase.starts_with("copy doc ") && phase.len() > "copy doc ".len()
    };
    loop {
        let progress = std::fs::read_to_string(to.join("QUARRY-CONVERSION/progress"));
        if progress.is_ok_and(|text| has_begun(&text)) {
            break;
        }
        assert!(Instant::now() < deadline, "nothing was copied");
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it ended before it was killed"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_conversion_goes_on_and_damage_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fill_large(&at("from"));
    for name in ["to", "damaged"] {
        kill_conversion(&at("from"), &at(name));
        let serve = Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args([
                "serve",
                "--nounixsocket",
                "--port",
                "0",
                "--storageEngine",
                "lmdb",
                "--dbpath",
            ])
            .arg(at(name))
            .output()
            .unwrap();
        assert!(conversion_error(serve, 100).contains("QUARRY-CONVERSION"));
    }
    run_conversion(&at("from"), &at("to"), "lmdb");
    assert!(!at("to").join("QUARRY-CONVERSION").exists());
    let mut server = TestServer::start(&at("to"), "lmdb");
    let count = server.ok(&doc! { "count": "large", "$db": "d" });
    assert_eq!(count.doc().field("n").as_i64_exact(), Some(800));
    server.server.stop();

    // A document in the copied part disappears.
    let data = at("damaged").join("QUARRY-CONVERSION/data");
    let engine = LmdbEngine::open(&engine_lmdb::Config::at(&data)).unwrap();
    let mut batch = WriteBatch::new();
    let mut cursor = engine
        .cursor(Table::Doc, KeyRange::ALL, CursorOpts::default())
        .unwrap();
    cursor
        .visit(usize::MAX, &mut |key, value| {
            if value.len() > 60_000 {
                batch.delete(Table::Doc, key);
            }
            batch.is_empty()
        })
        .unwrap();
    drop(cursor);
    assert_eq!(batch.len(), 1);
    engine.apply(&batch, Durability::Journaled).unwrap();
    engine.close().unwrap();
    drop(engine);
    for _ in 0..2 {
        let line = conversion_error(
            command(&at("from"), &at("damaged"), "lmdb")
                .output()
                .unwrap(),
            100,
        );
        assert!(line.contains("doc ") && line.contains("800 rows"), "{line}");
        assert!(
            line.contains("799 rows") && line.contains("start again"),
            "{line}"
        );
    }
}
