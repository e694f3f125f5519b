//! `quarry backup` and `quarry restore` with the real binary: a consistent snapshot of a server
//! under load, kills in the middle, damage, permissions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::{Doc, DocBuf, doc};

use crate::client::Client;
use crate::driver::Process;
use crate::encryption;
use crate::engines::present;

pub(crate) fn quarry(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub(crate) fn run_quarry(arguments: &[&str]) -> String {
    let output = quarry(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of a command that must fail.
pub(crate) fn command_error(arguments: &[&str]) -> String {
    let output: Output = quarry(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

struct TestServer {
    server: Process,
    client: Client,
}

impl TestServer {
    fn start(data: &Path, options: &[&str]) -> TestServer {
        let server = Process::start_with(data, options);
        TestServer {
            client: connect(server.address()),
            server,
        }
    }

    fn uri(&self) -> String {
        format!("mongodb://{}", self.server.address())
    }

    fn ok(&mut self, command: &DocBuf) -> DocBuf {
        ok(&mut self.client, command)
    }

    fn code(&mut self, command: &DocBuf) -> Option<i64> {
        let answer = self.client.call(command.as_bytes());
        Doc::new(&answer.body).unwrap().field("code").as_i64_exact()
    }

    fn batch(&mut self, command: &DocBuf) -> Vec<DocBuf> {
        let reply = self.ok(command);
        let cursor = reply.doc().field("cursor").as_doc().unwrap();
        let batch = cursor.field("firstBatch").as_array().unwrap();
        batch.iter().map(|d| d.as_doc().unwrap().to_buf()).collect()
    }

    fn validate(&mut self, collection: &str) {
        let reply = self.ok(&doc! { "validate": collection, "full": true, "$db": "d" });
        assert!(reply.doc().field("valid").truthy(), "{:?}", reply.doc());
    }

    fn insert(&mut self, collection: &str, from: i32, count: i32) {
        let pad = "x".repeat(900);
        for start in (from..from + count).step_by(500) {
            let end = (start + 500).min(from + count);
            let insert = DocBuf::build(|w| {
                w.put("insert", collection);
                let mut list = w.array("documents");
                for n in start..end {
                    // Not fully compressible, like real data.
                    let noise = format!("{:x}", md5ish(n));
                    let document = doc! { "_id": n, "n": n % 100, "noise": noise.as_str(),
                    "pad": pad.as_str() };
                    list.push(document.doc());
                }
                drop(list);
                w.put("$db", "d");
            });
            self.ok(&insert);
        }
    }
}

fn md5ish(n: i32) -> u128 {
    let seed = u128::from(n.unsigned_abs()) + 1;
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
}

pub(crate) fn connect(address: &str) -> Client {
    Client::new(Box::new(std::net::TcpStream::connect(address).unwrap()))
}

pub(crate) fn ok(client: &mut Client, command: &DocBuf) -> DocBuf {
    let answer = client.call(command.as_bytes());
    assert!(answer.is_ok(), "{:?}", Doc::new(&answer.body));
    Doc::new(&answer.body).unwrap().to_buf()
}

pub(crate) struct TestFolder {
    root: tempfile::TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> TestFolder {
        let root = tempfile::tempdir().unwrap();
        TestFolder { root }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }
}

fn start_restored(place: &TestFolder, engine: &str, name: &str) -> TestServer {
    let (repository, to) = (place.at("repository"), place.at(name));
    run_quarry(&["restore", text(&repository), "--dbpath", text(&to)]);
    TestServer::start(&to, &["--storageEngine", engine])
}

/// A writer that counts up `_id` and moves money between two accounts in transactions, so that
/// every consistent snapshot has a count without holes and a constant sum.
struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<i32>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    fn start(address: &str, number: i32) -> Writer {
        let (stop, acknowledged) = (Arc::<AtomicBool>::default(), Arc::<Mutex<i32>>::default());
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&acknowledged));
        let mut client = connect(address);
        let coll = format!("w{number}");
        let thread = std::thread::spawn(move || {
            let mut n = 0;
            while !stopped.load(Ordering::Relaxed) {
                let document = doc! { "_id": n, "k": n % 7 };
                let insert = DocBuf::build(|w| {
                    w.put("insert", coll.as_str());
                    w.array("documents").push(document.doc());
                    w.put("$db", "d");
                });
                ok(&mut client, &insert);
                n += 1;
                *counted.lock().unwrap() = n;
                transfer(&mut client, number, n);
            }
        });
        Writer {
            stop,
            acknowledged,
            thread: Some(thread),
        }
    }

    fn acknowledged_count(&self) -> i32 {
        *self.acknowledged.lock().unwrap()
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Moves one unit from one account to the other in a transaction.
fn transfer(client: &mut Client, number: i32, n: i32) {
    let session = u128::from(number.unsigned_abs()) + 1;
    let session = session.to_be_bytes();
    let id = model::Binary {
        subtype: 4,
        bytes: &session,
    };
    let lsid = doc! { "id": model::Value::Binary(id) };
    let update = |account: i32, by: i32| {
        let change = doc! { "q": { "_id": account }, "u": { "$inc": { "units": by } } };
        DocBuf::build(|w| {
            w.put("update", "accounts");
            w.array("updates").push(change.doc());
        })
    };
    let mut first = update(number * 2, -1);
    first.put("startTransaction", true);
    for (mut command, db) in [
        (first, "d"),
        (update(number * 2 + 1, 1), "d"),
        (doc! { "commitTransaction": 1i32 }, "admin"),
    ] {
        command
            .put("lsid", lsid.doc())
            .put("txnNumber", i64::from(n));
        command.put("autocommit", false).put("$db", db);
        ok(client, &command);
    }
}

fn rows(server: &mut TestServer, collection: &str) -> Vec<DocBuf> {
    let find = doc! { "find": collection, "sort": { "_id": 1i32 }, "batchSize": 1_000_000i32,
    "$db": "d" };
    server.batch(&find)
}

fn int(doc: &DocBuf, name: &str) -> i64 {
    doc.doc().field(name).as_i64_exact().unwrap()
}

#[test]
fn a_backup_under_writers_is_of_one_moment() {
    const WRITERS: i32 = 3;
    for engine in present() {
        let place = TestFolder::new();
        let mut server = TestServer::start(&place.at("data"), &["--storageEngine", engine]);
        let accounts = DocBuf::build(|w| {
            w.put("insert", "accounts");
            let mut list = w.array("documents");
            (0..WRITERS * 2).for_each(|n| _ = list.push(doc! { "_id": n, "units": 0i32 }.doc()));
            drop(list);
            w.put("$db", "d");
        });
        server.ok(&accounts);
        server.ok(&doc! { "createIndexes": "w0",
        "indexes": [{ "key": { "k": 1i32 }, "name": "k" }], "$db": "d" });
        let start = |n| Writer::start(server.server.address(), n);
        let writers: Vec<Writer> = (0..WRITERS).map(start).collect();
        let repository = place.at("repository");
        for round in 0..3 {
            std::thread::sleep(Duration::from_millis(200));
            let before: Vec<i32> = writers.iter().map(Writer::acknowledged_count).collect();
            run_quarry(&["backup", "make", text(&repository), "--uri", &server.uri()]);
            let after: Vec<i32> = writers.iter().map(|w| w.acknowledged_count() + 1).collect();
            let mut copy = start_restored(&place, engine, &format!("copy-{round}"));
            for n in 0..WRITERS {
                let name = format!("w{n}");
                let ids: Vec<i64> = (rows(&mut copy, &name).iter())
                    .map(|d| int(d, "_id"))
                    .collect();
                let count = i32::try_from(ids.len()).unwrap();
                let index = usize::try_from(n).unwrap();
                let (least, most) = (before[index], after[index]);
                assert!((least..=most).contains(&count), "{least} {count} {most}");
                assert!(
                    ids.into_iter().eq(0..i64::from(count)),
                    "{engine}: a hole in {name}"
                );
                copy.validate(&name);
            }
            let accounts = rows(&mut copy, "accounts");
            for pair in accounts.chunks(2) {
                let sum: i64 = pair.iter().map(|d| int(d, "units")).sum();
                assert_eq!(sum, 0, "{engine}: half of a transaction: {accounts:?}");
            }
        }
        writers.into_iter().for_each(Writer::end);
        let listed = run_quarry(&["backup", "list", text(&repository), "--json"]);
        assert_eq!(listed.lines().count(), 3, "{listed}");
        assert!(listed.lines().all(|l| l.starts_with('{')), "{listed}");
        run_quarry(&["backup", "verify", text(&repository)]);
        let left = fs::read_dir(place.at("data/.backup-cursor"));
        assert_eq!(
            left.unwrap().count(),
            0,
            "{engine}: the state was not let go"
        );
    }
}

/// The sizes in a backup's line `read X, stored Y`, in bytes.
fn sizes(line: &str) -> BTreeMap<String, f64> {
    let unit = |text: &str| match text {
        "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        other => panic!("{other}"),
    };
    let mut found = BTreeMap::new();
    let line = line.lines().find(|l| l.contains(": backup ")).unwrap();
    for part in line.split([',', ';']) {
        let words: Vec<&str> = part.split_whitespace().collect();
        if let [what @ ("read" | "stored"), number, size] = words.as_slice() {
            let number: f64 = number.parse().unwrap();
            found.insert((*what).to_owned(), number * unit(size));
        }
    }
    found
}

/// The nice value of a process.
fn niceness(process: u32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name, which may contain anything, comes the state; the nice value is 16 fields
    // later.
    let mut fields = stat.rsplit_once(')').unwrap().1.split_whitespace();
    fields.nth(16).unwrap().parse().unwrap()
}

#[test]
fn a_backup_gives_way_to_the_server() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    server.insert("c", 0, 5_000);
    let (repository, uri) = (place.at("repository"), server.uri());
    let mut make = quarry(&[
        "backup",
        "make",
        text(&repository),
        "--uri",
        &uri,
        "--rate",
        "1M",
    ]);
    let mut child = make.stdout(Stdio::piped()).spawn().unwrap();
    // It has begun to copy when it prints progress.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    let (own, found) = (niceness(std::process::id()), niceness(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("copying from"), "{line}");
    assert_eq!(found, (own + 10).min(19));
}

/// The length of the files of the journal.
fn journal_bytes(data: &Path) -> f64 {
    let files = fs::read_dir(data).unwrap().map(|file| file.unwrap());
    let journal = files.filter(|file| file.path().extension().is_some_and(|e| e == "log"));
    let bytes: u64 = journal.map(|file| file.metadata().unwrap().len()).sum();
    bytes as f64
}

#[test]
fn the_second_backup_moves_what_has_changed() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    // More than 8 MiB are in memtables now, and the first backup makes tables of them. Less would
    // be copied as journal, and as tables by the second.
    server.insert("c", 0, 50_000);
    let repository = place.at("repository");
    let make = |server: &TestServer| {
        let uri = server.uri();
        sizes(&run_quarry(&[
            "backup",
            "make",
            text(&repository),
            "--uri",
            &uri,
        ]))
    };
    let first = make(&server);
    server.insert("c", 50_000, 500);
    let second = make(&server);
    let moved = second["stored"] / first["stored"];
    assert!(
        moved < 0.04,
        "1 % more documents moved {moved}: {first:?} {second:?}"
    );
    // The journal is read completely each time.
    let journal = journal_bytes(&place.at("data"));
    let read = (second["read"] - journal) / first["stored"];
    assert!(read < 0.04, "{first:?} {second:?}");
    let mut copy = start_restored(&place, "rocksdb", "copy");
    let count = copy.ok(&doc! { "count": "c", "$db": "d" });
    assert_eq!(int(&count, "n"), 50_500);
    copy.validate("c");
}

pub(crate) fn kill_after(mut command: Command, delay: Duration) -> bool {
    // If it ends by itself, its error appears in the test's output.
    command.stdout(Stdio::null()).stderr(Stdio::inherit());
    let mut child: Child = command.spawn().unwrap();
    let deadline = Instant::now() + delay;
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    true
}

#[test]
fn killed_backups_and_restores_are_completed_by_a_later_run() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    server.insert("c", 0, 12_000);
    server.ok(&doc! { "fsync": 1i32, "$db": "admin" });
    let (repository, to) = (place.at("repository"), place.at("copy"));
    let uri = server.uri();
    let make = ["backup", "make", text(&repository), "--uri", &uri];
    let restore = ["restore", text(&repository), "--dbpath", text(&to)];
    let mut slowly = make.to_vec();
    slowly.extend(["--rate", "20K"]);
    let mut killed = 0;
    for delay in [30, 200, 500, 900, 1300] {
        let was = kill_after(quarry(&slowly), Duration::from_millis(delay));
        killed += usize::from(was);
    }
    assert!(killed >= 3, "only {killed} were killed");
    // The snapshot that the killed backup held open does not block the next one.
    run_quarry(&make);
    run_quarry(&["backup", "verify", text(&repository)]);
    let mut slowly = restore.to_vec();
    slowly.extend(["--rate", "20K"]);
    for delay in [30, 300, 800] {
        let was = kill_after(quarry(&slowly), Duration::from_millis(delay));
        // Before the restore began there was no folder that a server could refuse.
        if was && to.join("QUARRY-RESTORE").exists() {
            let serve = ["serve", "--port", "0", "--dbpath", text(&to)];
            let line = command_error(&serve);
            assert!(line.contains("is not a data directory"), "{line}");
        }
    }
    run_quarry(&restore);
    let mut copy = TestServer::start(&to, &[]);
    copy.validate("c");
    let count = copy.ok(&doc! { "count": "c", "$db": "d" });
    assert_eq!(int(&count, "n"), 12_000);
}

#[test]
fn a_killed_server_leaves_no_files_of_a_backup_behind() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    server.insert("c", 0, 10);
    let open = backup_cursor();
    let files = server.batch(&open);
    let metadata = files[0].doc().field("metadata").as_doc().unwrap();
    let folder = PathBuf::from(metadata.field("dbpath").as_str().unwrap());
    assert!(folder.join("QUARRY-ENGINE").exists());
    assert_eq!(server.code(&open), Some(50886), "one at a time");
    let status = server.ok(&doc! { "serverStatus": 1i32, "$db": "admin" });
    let engine = status.doc().field("storageEngine").as_doc().unwrap();
    assert!(engine.field("backupCursorOpen").truthy());
    drop(server);
    let mut server = TestServer::start(&place.at("data"), &[]);
    assert!(!folder.exists());
    assert!(server.batch(&open).len() > 3);
}

fn backup_cursor() -> DocBuf {
    DocBuf::build(|w| {
        w.put("aggregate", 1i32);
        w.array("pipeline").doc().doc("$backupCursor");
        w.doc("cursor");
        w.put("$db", "admin");
    })
}

#[test]
fn the_cursor_stays_open_behind_its_last_file_until_it_is_killed() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    let reply = server.ok(&backup_cursor());
    let cursor = reply.doc().field("cursor").as_doc().unwrap();
    let id = cursor.field("id").as_i64_exact().unwrap();
    assert_ne!(id, 0);
    let batch = cursor.field("firstBatch").as_array().unwrap();
    for file in batch.iter().skip(1) {
        let file = file.as_doc().unwrap();
        let path = PathBuf::from(file.field("filename").as_str().unwrap());
        let bytes = fs::metadata(&path).unwrap().len();
        let told = file.field("fileSize").as_i64_exact().unwrap();
        assert_eq!(u64::try_from(told).unwrap(), bytes, "{}", path.display());
    }
    let more = doc! { "getMore": id, "collection": "$cmd.aggregate", "$db": "admin" };
    for _ in 0..2 {
        let reply = server.ok(&more);
        let cursor = reply.doc().field("cursor").as_doc().unwrap();
        assert_eq!(cursor.field("id").as_i64_exact(), Some(id));
        assert_eq!(cursor.field("nextBatch").as_array().unwrap().len(), 0);
    }
    let kill = DocBuf::build(|w| {
        w.put("killCursors", "$cmd.aggregate");
        w.array("cursors").push(id);
        w.put("$db", "admin");
    });
    server.ok(&kill);
    let left = fs::read_dir(place.at("data/.backup-cursor")).unwrap();
    assert_eq!(left.count(), 0);
    server.ok(&doc! { "fsync": 1i32, "lock": true, "$db": "admin" });
    assert_eq!(server.code(&backup_cursor()), Some(50887));
}

#[test]
fn a_directory_without_a_server_is_backed_up_and_one_with_a_server_is_not() {
    for engine in present() {
        let place = TestFolder::new();
        let data = place.at("data");
        let mut server = TestServer::start(&data, &["--storageEngine", engine]);
        server.insert("c", 0, 1_000);
        let repository = place.at("repository");
        let make = ["backup", "make", text(&repository), "--dbpath", text(&data)];
        let line = command_error(&make);
        assert!(line.contains("in use"), "{line}");
        // A kill: acknowledged writes are in the journal.
        drop(server);
        run_quarry(&make);
        assert!(!data.join(".backup-offline").exists());
        let mut copy = start_restored(&place, engine, "copy");
        copy.validate("c");
        let count = copy.ok(&doc! { "count": "c", "$db": "d" });
        assert_eq!(int(&count, "n"), 1_000, "{engine}");
    }
}

#[test]
fn an_altered_backup_is_refused_by_the_name_of_the_file() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    server.insert("c", 0, 1_000);
    let (repository, to) = (place.at("repository"), place.at("copy"));
    run_quarry(&["backup", "make", text(&repository), "--uri", &server.uri()]);
    let objects = repository.join("objects");
    let shelves = fs::read_dir(objects).unwrap();
    let all = shelves.flat_map(|s| fs::read_dir(s.unwrap().path()).unwrap());
    let largest = all.map(|f| f.unwrap().path());
    let largest = largest.max_by_key(|f| fs::metadata(f).unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&largest, bytes).unwrap();
    for arguments in [
        vec!["restore", text(&repository), "--dbpath", text(&to)],
        vec!["backup", "verify", text(&repository)],
    ] {
        let line = command_error(&arguments);
        assert!(
            line.contains(text(&largest)) && line.contains("altered"),
            "{line}"
        );
    }
    assert!(!to.join("QUARRY-ENGINE").exists());
}

#[test]
fn old_backups_go_by_the_rules() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &[]);
    let repository = place.at("repository");
    for n in 0..3 {
        server.insert("c", n * 100, 100);
        let uri = server.uri();
        run_quarry(&[
            "backup",
            "make",
            text(&repository),
            "--uri",
            &uri,
            "--keepLast",
            "2",
        ]);
    }
    let listed = run_quarry(&["backup", "list", text(&repository)]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    run_quarry(&["backup", "prune", text(&repository), "--keepDaily", "1"]);
    run_quarry(&["backup", "verify", text(&repository)]);
    let mut copy = start_restored(&place, "rocksdb", "copy");
    assert_eq!(int(&copy.ok(&doc! { "count": "c", "$db": "d" }), "n"), 300);
}

#[test]
fn the_right_to_fsync_is_needed_and_the_password_can_lie_in_a_file() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &["--auth"]);
    let user = |name: &str, role: &str| {
        DocBuf::build(|w| {
            w.put("createUser", name).put("pwd", "secret");
            w.array("roles").push(role);
            w.put("$db", "admin");
        })
    };
    server.ok(&user("root", "root"));
    let (repository, password) = (place.at("repository"), place.at("password"));
    fs::write(&password, "secret\n").unwrap();
    let address = server.server.address().to_owned();
    let uri = |name: &str| format!("mongodb://{name}@{address}/");
    let make = |uri: &str| {
        let password = ["--passwordFile", text(&password)].map(str::to_owned);
        let make = ["backup", "make", text(&repository), "--uri", uri].map(str::to_owned);
        make.into_iter().chain(password).collect::<Vec<String>>()
    };
    run_quarry(
        &make(&uri("root"))
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    let root = format!("mongodb://root:wrong@{address}/");
    let line = command_error(&make(&root).iter().map(String::as_str).collect::<Vec<_>>());
    assert!(
        line.contains("code 18") && !line.contains("wrong@"),
        "{line}"
    );
    let line = command_error(&["backup", "make", text(&repository), "--uri", &server.uri()]);
    assert!(line.contains("code 13"), "{line}");
}

#[test]
fn data_without_files_are_refused_by_name() {
    let place = TestFolder::new();
    let mut server = TestServer::start(&place.at("data"), &["--storageEngine", "memory"]);
    assert_eq!(server.code(&backup_cursor()), Some(115));
    let repository = place.at("repository");
    let line = command_error(&["backup", "make", text(&repository), "--uri", &server.uri()]);
    assert!(
        line.contains("storage engine memory has no files"),
        "{line}"
    );
}

#[test]
fn a_mounted_backup_is_read_and_not_written_and_leaves_nothing_behind() {
    for engine in present() {
        let place = TestFolder::new();
        let mut server = TestServer::start(&place.at("data"), &["--storageEngine", engine]);
        server.insert("c", 0, 5_000);
        let (repository, folder) = (place.at("repository"), place.at("mounted"));
        run_quarry(&["backup", "make", text(&repository), "--uri", &server.uri()]);
        server.insert("c", 5_000, 10);
        let mount = [
            "mount",
            text(&repository),
            "--dbpath",
            text(&folder),
            "--port",
            "0",
        ];
        let mut command = quarry(&mount);
        command.args(["--nounixsocket", "--memory", "256M"]);
        let mut child = command.spawn().unwrap();
        let address = mounted_address(&mut child);
        let mut client = connect(&address);
        let count = ok(&mut client, &doc! { "count": "c", "$db": "d" });
        assert_eq!(int(&count, "n"), 5_000, "{engine}");
        for (command, code) in [
            (
                doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0i32 }], "$db": "d" },
                371,
            ),
            (doc! { "drop": "c", "$db": "d" }, 371),
        ] {
            let answer = client.call(command.as_bytes());
            let reply = Doc::new(&answer.body).unwrap();
            let errors = reply.field("writeErrors").as_array();
            let first = errors.and_then(|e| e.get(0)?.as_doc());
            let found = first.unwrap_or(reply).field("code").as_i64_exact();
            assert_eq!(found, Some(code), "{reply:?}");
        }
        // Compaction rewrites what it can and removes its links.
        let _ = client.call(doc! { "compact": "c", "$db": "d" }.as_bytes());
        end(child);
        assert!(!folder.exists());
        run_quarry(&["backup", "verify", text(&repository)]);
    }
}

fn mounted_address(child: &mut Child) -> String {
    use std::io::BufRead;
    let mut out = BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended");
        if let Some(address) = crate::process::address(&line) {
            // Keeps the pipe open to the end.
            child.stdout = Some(out.into_inner());
            return address;
        }
    }
}

fn end(mut child: Child) {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_drill_tells_whether_a_backup_can_be_relied_on() {
    for engine in present() {
        let place = TestFolder::new();
        let mut server = TestServer::start(&place.at("data"), &["--storageEngine", engine]);
        server.insert("c", 0, 2_000);
        server.ok(&doc! { "createIndexes": "c",
        "indexes": [{ "key": { "n": 1i32 }, "name": "n" }], "$db": "d" });
        let (repository, scratch) = (place.at("repository"), place.at("scratch"));
        run_quarry(&["backup", "make", text(&repository), "--uri", &server.uri()]);
        let drill = [
            "backup",
            "drill",
            text(&repository),
            "--scratch",
            text(&scratch),
        ];
        let drill = [&drill[..], &["--memory", "256M"]].concat();
        let said = run_quarry(&drill);
        assert!(
            said.contains("d.c: 2000 documents, 2000 index entries, 0 findings"),
            "{said}"
        );
        assert!(said.contains("can be relied on"), "{said}");
        assert!(!scratch.exists());
    }
}

#[test]
fn validating_a_directory_changes_nothing_and_finds_damage() {
    let place = TestFolder::new();
    let data = place.at("data");
    let mut server = TestServer::start(&data, &[]);
    server.insert("c", 0, 3_000);
    server.ok(&doc! { "fsync": 1i32, "$db": "admin" });
    let validate = ["validate", "--dbpath", text(&data), "--memory", "256M"];
    assert!(command_error(&validate).contains("in use"));
    drop(server);
    let before = listing(&data);
    let said = run_quarry(&validate);
    assert!(
        said.contains("d.c: 3000 documents, 0 index entries, 0 findings"),
        "{said}"
    );
    assert_eq!(listing(&data), before);
    let tables = before.keys().filter(|name| name.ends_with(".sst"));
    let largest = tables.max_by_key(|name| before[*name]).unwrap();
    let path = data.join(largest);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let line = command_error(&validate);
    assert!(
        line.contains("orrupt") || line.contains("checksum"),
        "{line}"
    );
}

/// Names and sizes of the files of a folder.
fn listing(folder: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let named = entries.map(|e| {
        let name = e.file_name().into_string().unwrap();
        (name, e.metadata().unwrap().len())
    });
    named.collect()
}

#[test]
fn encrypted_data_stay_encrypted_in_a_backup_and_open_with_their_key_alone() {
    let place = TestFolder::new();
    let key = place.at("key");
    encryption::key_file(&key, 'k');
    let options = ["--enableEncryption", "--encryptionKeyFile", text(&key)];
    let (data, repository, copy) = (place.at("data"), place.at("repository"), place.at("copy"));
    let mut server = encryption::EncryptedServer::start(&data, &options);
    encryption::load(&mut server);
    let uri = format!("mongodb://{}", server.address());
    run_quarry(&["backup", "make", text(&repository), "--uri", &uri]);
    server.kill();
    run_quarry(&["backup", "make", text(&repository), "--dbpath", text(&data)]);
    let shelves = fs::read_dir(repository.join("objects")).unwrap();
    for shelf in shelves {
        let showing = encryption::list_readable(&shelf.unwrap().path());
        assert!(showing.is_empty(), "{showing:?}");
    }
    run_quarry(&["restore", text(&repository), "--dbpath", text(&copy)]);
    let line = encryption::start_error(&copy, &[]);
    assert!(line.contains("ncrypt"), "{line}");
    let mut server = encryption::EncryptedServer::start(&copy, &options);
    assert_eq!(encryption::count(&mut server), 2_000);
}

#[test]
fn the_log_of_encrypted_data_is_encrypted_too() {
    let place = TestFolder::new();
    let (key, other) = (place.at("key"), place.at("other"));
    encryption::key_file(&key, 'k');
    encryption::key_file(&other, 'o');
    let options = ["--enableEncryption", "--encryptionKeyFile", text(&key)];
    let (data, repository, copy) = (place.at("data"), place.at("repository"), place.at("copy"));
    let mut server = encryption::EncryptedServer::start(&data, &options);
    let uri = format!("mongodb://{}", server.address());
    run_quarry(&["backup", "make", text(&repository), "--uri", &uri]);
    encryption::load(&mut server);
    let ship = ["backup", "ship", text(&repository), "--uri", &uri, "--once"];
    let with = |arguments: &[&str], key: &Path| {
        let all = arguments.iter().map(|a| (*a).to_owned());
        let key = ["--encryptionKeyFile", text(key)].map(str::to_owned);
        all.chain(key).collect::<Vec<String>>()
    };
    let all = |list: &[String]| run_quarry(&list.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(command_error(&ship).contains("give --encryptionKeyFile"));
    all(&with(&ship, &key));
    let showing = encryption::list_readable(&repository.join("log"));
    assert!(showing.is_empty(), "{showing:?}");
    let restore = [
        "restore",
        text(&repository),
        "--dbpath",
        text(&copy),
        "--to",
        "newest",
    ];
    assert!(command_error(&restore).contains("encrypt"));
    let wrong = with(&restore, &other);
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
    assert!(command_error(&wrong).contains("does not fit"));
    all(&with(&restore, &key));
    server.kill();
    let mut server = encryption::EncryptedServer::start(&copy, &options);
    assert_eq!(encryption::count(&mut server), 2_000);
}
