//! A proxy between the lab and a correct server: the lab detects every change that the proxy makes
//! to requests and replies, and reports nothing if there is no change.
//!
//! The server is Quarry if it is built in the same repository (or `QUARRY_BIN` names it), else the
//! fake server.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};

use crate::fake::data::tell_wrong;
use crate::fake::{FakeServer, Faults, FindFault, wire};
use crate::lies::{WORKLOAD, write};
use crate::servers::{Server, quarry};
use crate::{FinishedRun, lab, run};

/// The change that the proxy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProxyFault {
    /// Forwards everything.
    None,
    /// Changes every n-th reply to a find.
    Find(FindFault, usize),
    /// Acknowledges every n-th command of this name without forwarding it.
    Drop(&'static str, usize),
    /// After n commands of this name, acknowledges further ones without forwarding them.
    DropAfter(&'static str, usize),
    /// Forwards every n-th update twice.
    Double(usize),
    /// At the update with this number, forwards nothing for this time on any connection.
    Freeze(usize, Duration),
    /// Accepts at most this number of connections; closes further ones immediately.
    Connections(usize),
    /// Claims that the server has this revision.
    Revision(&'static str),
}

#[derive(Debug)]
struct Shared {
    lie: ProxyFault,
    /// The number of open connections.
    open: AtomicUsize,
    /// The number of received commands, by name.
    seen: Mutex<HashMap<String, usize>>,
    /// Locked for writing while nothing is forwarded.
    gate: RwLock<()>,
    /// The time for which nothing was forwarded.
    frozen: Mutex<Duration>,
}

/// A proxy that listens until the test ends.
struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    fn start(upstream: &str, lie: ProxyFault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            lie,
            open: AtomicUsize::new(0),
            seen: Mutex::default(),
            gate: RwLock::new(()),
            frozen: Mutex::default(),
        });
        let (all, upstream) = (shared.clone(), upstream.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = all.clone();
                if let ProxyFault::Connections(most) = shared.lie
                    && shared.open.load(Ordering::SeqCst) >= most
                {
                    continue;
                }
                shared.open.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(&upstream).unwrap();
                std::thread::spawn(move || {
                    pass(&client, &server, &shared);
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, shared }
    }

    fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/?directConnection=true", self.port)
    }
}

/// A received message.
struct Message {
    id: i32,
    answers: i32,
    code: i32,
    bytes: Vec<u8>,
}

fn read(mut stream: &TcpStream) -> Option<Message> {
    let mut bytes = vec![0_u8; 16];
    stream.read_exact(&mut bytes).ok()?;
    let number = |at: usize| i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (length, id, answers, code) = (number(0), number(4), number(8), number(12));
    bytes.resize(length as usize, 0);
    stream.read_exact(&mut bytes[16..]).ok()?;
    Some(Message {
        id,
        answers,
        code,
        bytes,
    })
}

const OP_MSG: i32 = 2_013;

/// A reply of one document.
fn reply_of(answers: i32, document: &Document) -> Vec<u8> {
    let document = document.to_vec().unwrap();
    let mut out = Vec::new();
    for number in [16 + 5 + document.len() as i32, 0, answers, OP_MSG, 0] {
        out.extend(number.to_le_bytes());
    }
    out.push(0);
    out.extend(document);
    out
}

/// A change of the reply to a request.
#[derive(Clone, Copy)]
enum Change {
    /// The reply is not forwarded.
    Swallow,
    /// The documents of the reply are changed.
    Find(FindFault),
    /// The reply names another revision.
    Revision(&'static str),
}

type Changes = Mutex<HashMap<i32, Change>>;

/// Forwards a connection's messages in both directions, until one side closes it.
fn pass(client: &TcpStream, server: &TcpStream, shared: &Shared) {
    let changes = Changes::default();
    // Only one thread at a time may write to the client: the proxy's replies or those of the
    // server.
    let to_client = Mutex::new(());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(message) = read(server) {
                let change = changes.lock().unwrap().remove(&message.answers);
                let bytes = change_message(message, change);
                let _one = to_client.lock().unwrap();
                let mut client = client;
                if client.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = client.shutdown(Shutdown::Both);
        });
        while let Some(message) = read(client) {
            let answer = request(&message, server, shared, &changes);
            let Some(answer) = answer else { continue };
            let _one = to_client.lock().unwrap();
            let mut client = client;
            if client.write_all(&answer).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    });
}

/// Forwards a request, or answers it.
fn request(
    message: &Message,
    mut server: &TcpStream,
    shared: &Shared,
    changes: &Changes,
) -> Option<Vec<u8>> {
    let command = wire::parse(message.code, &message.bytes[16..]).unwrap();
    let name = command.keys().next().unwrap().clone();
    let number = {
        let mut seen = shared.seen.lock().unwrap();
        let number = seen.entry(name.clone()).or_insert(0);
        *number += 1;
        *number
    };
    let is_due = |every: usize| number.is_multiple_of(every);
    let change = |change| changes.lock().unwrap().insert(message.id, change);
    match shared.lie {
        ProxyFault::Find(fault, every) if name == "find" && is_due(every) => {
            change(Change::Find(fault));
        }
        ProxyFault::Revision(revision) if name == "buildInfo" => {
            change(Change::Revision(revision));
        }
        ProxyFault::Drop(dropped, every) if name == dropped && is_due(every) => {
            return Some(acknowledge(message, &command));
        }
        ProxyFault::DropAfter(dropped, passed) if name == dropped && number > passed => {
            return Some(acknowledge(message, &command));
        }
        ProxyFault::Double(every) if name == "update" && is_due(every) => {
            let second = -message.id;
            changes.lock().unwrap().insert(second, Change::Swallow);
            let mut again = message.bytes.clone();
            again[4..8].copy_from_slice(&second.to_le_bytes());
            server.write_all(&again).unwrap();
        }
        ProxyFault::Freeze(at, time) if name == "update" && number == at => {
            let _nobody = shared.gate.write().unwrap();
            let begun = Instant::now();
            std::thread::sleep(time);
            *shared.frozen.lock().unwrap() = begun.elapsed();
        }
        _ => {}
    }
    let _open = shared.gate.read().unwrap();
    // The thread that reads the replies notices if the server closed the connection.
    let _ = server.write_all(&message.bytes);
    None
}

/// The reply to a write that was done.
fn acknowledge(message: &Message, command: &Document) -> Vec<u8> {
    let items = command.get_array("documents");
    let n = items.map_or(1, Vec::len) as i32;
    let reply = doc! { "n": n, "nModified": n, "ok": 1.0 };
    reply_of(message.id, &reply)
}

fn change_message(message: Message, change: Option<Change>) -> Vec<u8> {
    let Some(change) = change else {
        return message.bytes;
    };
    let mut reply = wire::parse(message.code, &message.bytes[16..]).unwrap();
    match change {
        Change::Swallow => return Vec::new(),
        Change::Revision(revision) => {
            reply.insert("gitVersion", revision);
        }
        Change::Find(fault) => {
            let cursor = reply.get_document_mut("cursor").unwrap();
            let Ok(batch) = cursor.get_array_mut("firstBatch") else {
                return message.bytes;
            };
            let mut documents: Vec<Document> = batch
                .iter()
                .map(|item| item.as_document().unwrap().clone())
                .collect();
            tell_wrong(fault, &mut documents, &[]);
            *batch = documents.into_iter().map(Bson::Document).collect();
        }
    }
    reply_of(message.answers, &reply)
}

/// A correct server.
enum BackingServer {
    Quarry(Server),
    Fake(FakeServer),
}

impl BackingServer {
    fn start() -> Self {
        quarry().map_or_else(
            || Self::Fake(FakeServer::start(Faults::default())),
            Self::Quarry,
        )
    }

    fn address(&self) -> String {
        match self {
            Self::Fake(fake) => format!("127.0.0.1:{}", fake.port),
            Self::Quarry(server) => {
                let rest = server.address.strip_prefix("mongodb://");
                let rest = rest.unwrap_or(&server.address);
                rest.split('/').next().unwrap().to_owned()
            }
        }
    }
}

fn run_through(proxy: &Proxy, workload: &str, more: &[&str]) -> FinishedRun {
    let options = [&["--warmup-seconds", "0", "--drop"], more].concat();
    run(workload, &proxy.uri(), &options)
}

/// Runs the workload with checkable answers through a proxy.
fn run_with_fault(server: &BackingServer, lie: ProxyFault) -> FinishedRun {
    let directory = tempfile::tempdir().unwrap();
    let workload = write(directory.path(), WORKLOAD);
    run_through(&Proxy::start(&server.address(), lie), &workload, &[])
}

fn failed_checks(ended: &FinishedRun) -> String {
    let checks = ended.result().checks;
    let failed = checks.iter().filter(|check| check.passed == Some(false));
    let lines: Vec<String> = failed
        .map(|check| format!("{} {} {}", check.name, check.found, check.remark))
        .collect();
    lines.join("\n")
}

#[test]
fn every_proxy_fault_is_detected_and_an_honest_proxy_passes() {
    let server = BackingServer::start();
    let honest = run_with_fault(&server, ProxyFault::None);
    assert_eq!(honest.status(), Some(0), "{}", honest.complaint());
    assert_eq!(failed_checks(&honest), "");
    for (lie, found) in [
        (ProxyFault::Find(FindFault::Empty, 20), "document not found"),
        (ProxyFault::Find(FindFault::Fewer, 20), "document not found"),
        (ProxyFault::Find(FindFault::Cut, 20), "wrong contents"),
        (ProxyFault::Find(FindFault::OnlyId, 20), "wrong contents"),
        (ProxyFault::Find(FindFault::Doubled, 20), "calls: wrong"),
        (ProxyFault::Find(FindFault::Reordered, 20), "wrong order"),
        (ProxyFault::Drop("insert", 5), "documents counted equal"),
        (ProxyFault::Drop("update", 20), "sum of k"),
        // Only the last value of a field is checked: a lost update shows only if no other update
        // follows.
        (
            ProxyFault::DropAfter("update", 50),
            "updates that were acknowledged",
        ),
        (ProxyFault::Double(20), "sum of k"),
    ] {
        let ended = run_with_fault(&server, lie);
        assert_eq!(ended.status(), Some(4), "{lie:?}: {}", ended.complaint());
        let failed = failed_checks(&ended);
        assert!(failed.contains(found), "{lie:?}: {failed}");
    }
}

#[test]
fn a_proxy_that_stands_still_is_a_stall_and_nothing_wrong() {
    let server = BackingServer::start();
    let lie = ProxyFault::Freeze(50, Duration::from_secs(1));
    let proxy = Proxy::start(&server.address(), lie);
    let more = ["--rows", "100", "--clients", "2", "--seconds", "3"];
    let ended = run_through(&proxy, "hot", &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let frozen = proxy.shared.frozen.lock().unwrap().as_secs_f64();
    let result = ended.result();
    let step = result.main_step().unwrap();
    assert!(frozen >= 1.0, "it stood still for {frozen} s");
    let gap = step.stalls.longest_gap_seconds;
    assert!(gap >= frozen * 0.95, "{gap} of {frozen} s");
    assert!(step.latency.max_us / 1e6 >= frozen * 0.95);
}

#[test]
fn a_proxy_with_a_limit_on_connections_loses_no_rows() {
    let server = BackingServer::start();
    let proxy = Proxy::start(&server.address(), ProxyFault::Connections(6));
    let more = ["--rows", "1600", "--clients", "16", "--batch", "10"];
    let ended = run_through(&proxy, "insert", &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    assert_eq!(result.checks[0].found, "1600");
    assert!(
        result.warnings.iter().any(|one| one.code == "refused"),
        "{:?}",
        result.warnings
    );
}

#[test]
fn runs_of_another_build_behind_one_address_are_not_averaged() {
    let server = BackingServer::start();
    let (old, new) = (ProxyFault::Revision("0abc"), ProxyFault::Revision("0def"));
    let more = ["--rows", "100", "--seconds", "1"];
    let runs: Vec<FinishedRun> = [old, new]
        .map(|lie| run_through(&Proxy::start(&server.address(), lie), "hot", &more))
        .into();
    for (ended, revision) in runs.iter().zip(["0abc", "0def"]) {
        assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
        let build = ended.result().target.build.unwrap();
        assert!(build.contains(&format!("revision {revision}")), "{build}");
    }
    let folders: Vec<_> = runs.iter().map(FinishedRun::folder).collect();
    // Both runs have the same address, as of two servers that used it one after the other.
    let addresses: Vec<String> = runs.iter().map(|one| one.result().target.uri).collect();
    let path = folders[1].join("result.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&addresses[1], &addresses[0])).unwrap();
    let [one, other] = [0, 1].map(|at| lab_kit::folder::read_result(&folders[at]).unwrap());
    assert_eq!(one.place(), other.place());
    assert_ne!(one.configuration(), other.configuration());
    let out = tempfile::tempdir().unwrap();
    let page = out.path().join("both.html");
    let mut words = vec!["report"];
    words.extend(folders.iter().map(|folder| folder.to_str().unwrap()));
    words.extend(["--out", page.to_str().unwrap()]);
    let output = lab(&words);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("0abc") && page.contains("0def"));
}
