//! Every persistent engine of the build with the real binary: it is named in `serverStatus`, chosen
//! by the configuration file, and loses no acknowledged write after kill -9. An engine whose
//! library is missing is skipped with a line.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use model::{Doc, DocBuf, doc};

use crate::client::Client;
use crate::driver::Process;

/// The engines that can run here.
pub(crate) fn present() -> Vec<&'static str> {
    let mut names = vec!["rocksdb", "lmdb"];
    match engine_wiredtiger::Library::load(engine_wiredtiger::LIBRARY_NAME, None) {
        Ok(_) => names.push("wiredTiger"),
        Err(line) => eprintln!("skipped: {line}"),
    }
    names
}

fn ok(server: &Process, command: &DocBuf) -> DocBuf {
    let stream = std::net::TcpStream::connect(server.address()).unwrap();
    let answer = Client::new(Box::new(stream)).call(command.as_bytes());
    assert!(answer.is_ok(), "{:?}", Doc::new(&answer.body));
    Doc::new(&answer.body).unwrap().to_buf()
}

fn count(server: &Process, collection: &str) -> i64 {
    let reply = ok(server, &doc! { "count": collection, "$db": "d" });
    reply.doc().field("n").as_i64_exact().unwrap()
}

/// Starts the server with a configuration file, writes, and kills it during further writes.
fn write_until_killed(engine: &str, data: &Path, file: &Path, round: i32) {
    let text = format!(
        "storage:\n  engine: {engine}\n  dbPath: {}\n",
        data.display()
    );
    std::fs::write(file, text).unwrap();
    let server = Process::start_with(data, &["--config", file.to_str().unwrap()]);
    let status = ok(&server, &doc! { "serverStatus": 1i32, "$db": "admin" });
    let named = status.doc().field("storageEngine").as_doc().unwrap();
    assert_eq!(named.field("name").as_str(), Some(engine));
    assert_eq!(named.field("persistent").as_bool(), Some(true));
    let metrics = status
        .doc()
        .field("quarry")
        .as_doc()
        .unwrap()
        .field("engine");
    assert!(metrics.as_doc().unwrap().iter().count() > 5, "{metrics:?}");
    if round == 0 {
        let index = doc! { "createIndexes": "c", "indexes": [
            { "key": { "n": 1i32 }, "name": "n", "unique": true },
        ], "$db": "d" };
        ok(&server, &index);
    }
    for n in 0..50i32 {
        let n = round * 50 + n;
        let insert = doc! { "insert": "c", "documents": [{ "_id": n, "n": n }],
        "writeConcern": { "j": n % 2 == 0 }, "$db": "d" };
        ok(&server, &insert);
    }
    let more: Vec<DocBuf> = (0..20_000i32)
        .map(|n| doc! { "_id": round * 20_000 + n, "n": n })
        .collect();
    let insert = DocBuf::build(|w| {
        w.put("insert", "more");
        let mut list = w.array("documents");
        more.iter().for_each(|d| _ = list.push(d.doc()));
        drop(list);
        w.put("$db", "d");
    });
    let stream = std::net::TcpStream::connect(server.address()).unwrap();
    let mut client = Client::new(Box::new(stream));
    let message = wire::MessageBuilder::new(1)
        .flags(0)
        .body(insert.as_bytes())
        .build();
    client.stream.write_all(&message).unwrap();
    while count(&server, "more") == 0 {}
    drop(server);
}

#[test]
fn every_engine_keeps_what_it_acknowledged() {
    for engine in present() {
        let root = tempfile::tempdir().unwrap();
        let (data, file) = (root.path().join("data"), root.path().join("quarry.yaml"));
        for round in 0..3 {
            write_until_killed(engine, &data, &file, round);
        }
        let server = Process::start_with(&data, &["--storageEngine", engine]);
        assert_eq!(count(&server, "c"), 150, "{engine}");
        for collection in ["c", "more"] {
            let validate = doc! { "validate": collection, "$db": "d" };
            let valid = ok(&server, &validate);
            assert_eq!(
                valid.doc().field("valid").as_bool(),
                Some(true),
                "{engine}: {valid:?}"
            );
            let stored = valid.doc().field("nrecords").as_i64_exact();
            assert_eq!(stored, Some(count(&server, collection)), "{engine}");
        }
        server.stop();
    }
}

/// Runs `compact` on collection `c`; returns this field of the reply.
fn run_compact(server: &Process, options: &DocBuf, answer: &str) -> i64 {
    let command = DocBuf::build(|w| {
        w.put("compact", "c");
        options
            .doc()
            .iter()
            .for_each(|(name, v)| _ = w.put(name, v));
        w.put("$db", "d");
    });
    let reply = ok(server, &command);
    reply.doc().field(answer).as_i64_exact().unwrap()
}

#[test]
fn compact_gives_back_what_the_engine_can_give_back() {
    for engine in present() {
        let root = tempfile::tempdir().unwrap();
        let server = Process::start_with(root.path(), &["--storageEngine", engine]);
        let index = doc! { "createIndexes": "c", "indexes": [
            { "key": { "n": 1i32 }, "name": "n" },
        ], "$db": "d" };
        ok(&server, &index);
        // Random letters: compressible data would take no space in the first place.
        let mut noise = 1u64;
        for batch in 0..30i32 {
            let insert = DocBuf::build(|w| {
                w.put("insert", "c");
                let mut list = w.array("documents");
                for n in batch * 100..(batch + 1) * 100 {
                    let text: String = (0..4_000)
                        .map(|_| {
                            noise = noise
                                .wrapping_mul(6_364_136_223_846_793_005)
                                .wrapping_add(1);
                            char::from(b'!' + (noise >> 58) as u8)
                        })
                        .collect();
                    list.push(doc! { "_id": n, "n": n, "text": &text }.doc());
                }
                drop(list);
                w.put("$db", "d");
            });
            ok(&server, &insert);
        }
        let storage = || {
            let stats = ok(&server, &doc! { "collStats": "c", "$db": "d" });
            stats.doc().field("totalSize").as_i64_exact().unwrap()
        };
        // No space is unused, so only data in memory is written.
        let one = doc! { "freeSpaceTargetMB": 1i32 };
        assert_eq!(run_compact(&server, &one, "bytesFreed"), 0, "{engine}");
        let filter = doc! { "n": { "$mod": [3i32, 1i32] } };
        let delete =
            doc! { "delete": "c", "deletes": [{ "q": &filter, "limit": 0i32 }], "$db": "d" };
        assert_eq!(
            ok(&server, &delete).doc().field("n").as_i64_exact(),
            Some(1_000)
        );
        let dry = doc! { "dryRun": true };
        assert!(
            run_compact(&server, &dry, "estimatedBytesFreed") >= 0,
            "{engine}"
        );
        let before = storage();
        // 4 MB of 12 are unused: less than the default target.
        assert_eq!(run_compact(&server, &doc! {}, "bytesFreed"), 0, "{engine}");
        let freed = run_compact(&server, &one, "bytesFreed");
        eprintln!("{engine}: {freed} bytes of {before} freed");
        match engine {
            "rocksdb" => {
                assert!((2 << 20..6 << 20).contains(&freed), "{freed}");
                assert!(before - storage() > 2 << 20, "{before}, {}", storage());
            }
            // It also shortens files by itself, and those of all collections at once.
            "wiredTiger" => assert!((0..64 << 20).contains(&freed), "{freed}"),
            _ => assert_eq!(freed, 0),
        }
        assert_eq!(count(&server, "c"), 2_000, "{engine}");
        let valid = ok(&server, &doc! { "validate": "c", "$db": "d" });
        assert_eq!(valid.doc().field("valid").as_bool(), Some(true), "{engine}");
        server.stop();
    }
}

#[test]
fn an_engine_whose_library_is_absent_is_one_line() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let output = Command::new(env!("CARGO_BIN_EXE_quarry"))
        .args([
            "serve",
            "--nounixsocket",
            "--port",
            "0",
            "--storageEngine",
            "wiredTiger",
        ])
        .args(["--wiredTigerLibrary", "libno-such.so", "--dbpath"])
        .arg(&data)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains(engine_wiredtiger::ADVICE), "{line}");
    assert!(!data.join("QUARRY-ENGINE").exists());
}
