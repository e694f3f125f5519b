//! A handler with a command for each behaviour that the network layer must support.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::{Doc, DocBuf, Value};
use parking_lot::Mutex;
use server::net::{Class, Config, ConnHandle, Handler, NextAction, PeerInfo, Server, Watermark};

#[derive(Default)]
pub(crate) struct Toy {
    /// Handles of connections inside `wait`, for the `wake` command.
    waiting: Mutex<Vec<ConnHandle>>,
    pub(crate) connected: AtomicUsize,
    pub(crate) disconnected: AtomicUsize,
    pub(crate) panics: Mutex<Vec<String>>,
    pub(crate) without_reply: AtomicUsize,
    pub(crate) gave_up: AtomicUsize,
    /// Clients must log in, and none can.
    pub(crate) is_closed: AtomicBool,
}

pub(crate) struct ToyConn {
    handle: ConnHandle,
    id: i64,
    /// Replies left of the stream, and how long to wait before each.
    stream: i32,
    pause: Duration,
    waits_until: Option<Instant>,
}

fn number(request: &wire::Request<'_>, name: &str) -> i32 {
    match Doc::new(request.body).and_then(|d| d.get(name)) {
        Some(Value::Int32(n)) => n,
        _ => 0,
    }
}

fn ok(reply: &mut Vec<u8>, name: &str, value: i32) -> NextAction {
    let mut doc = DocBuf::new();
    doc.put("ok", Value::Double(1.0));
    doc.put(name, Value::Int32(value));
    reply.extend_from_slice(doc.as_bytes());
    NextAction::Reply
}

impl Handler for Toy {
    type Conn = ToyConn;

    fn connect(&self, peer: &PeerInfo) -> ToyConn {
        self.connected.fetch_add(1, Ordering::SeqCst);
        let id = peer.connection_id as i64;
        ToyConn {
            handle: peer.handle.clone(),
            id,
            stream: 0,
            pause: Duration::ZERO,
            waits_until: None,
        }
    }

    fn class(&self, _: &ToyConn, request: &wire::Request<'_>) -> Class {
        if request.command_name() == "slow" {
            Class::Long
        } else {
            Class::Short
        }
    }

    fn must_log_in(&self, _: &ToyConn) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn handle(
        &self,
        conn: &mut ToyConn,
        request: &wire::Request<'_>,
        reply: &mut Vec<u8>,
    ) -> NextAction {
        let name = request.command_name();
        let n = number(request, name);
        match name {
            "hello" | "isMaster" | "ismaster" => ok(reply, "connectionId", conn.id as i32),
            "ping" => ok(reply, "pong", n),
            "echo" => {
                reply.extend_from_slice(request.body);
                NextAction::Reply
            }
            // `block` is declared short but blocks its driver.
            "slow" | "block" => {
                std::thread::sleep(Duration::from_millis(n as u64));
                ok(reply, "slept", n)
            }
            "untilGone" => {
                while !conn.handle.is_hung_up() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                self.gave_up.fetch_add(1, Ordering::SeqCst);
                ok(reply, "gone", 1)
            }
            "big" => {
                let bytes = vec![b'b'; n as usize];
                let mut doc = DocBuf::new();
                doc.put("big", Value::String(std::str::from_utf8(&bytes).unwrap()));
                reply.extend_from_slice(doc.as_bytes());
                NextAction::Reply
            }
            "panic" => {
                reply.extend_from_slice(b"half a reply");
                panic!("toy panic {n}")
            }
            "nothing" => NextAction::Reply,
            "quiet" => {
                self.without_reply.fetch_add(1, Ordering::SeqCst);
                ok(reply, "never", 1)
            }
            "wait" => {
                let until = Instant::now() + Duration::from_millis(n as u64);
                conn.waits_until = Some(until);
                self.waiting.lock().push(conn.handle.clone());
                NextAction::Wait { until }
            }
            "wake" => {
                let woken = std::mem::take(&mut *self.waiting.lock());
                woken.iter().for_each(ConnHandle::wake);
                ok(reply, "woken", woken.len() as i32)
            }
            "durable" => {
                ok(reply, "at", n);
                NextAction::Durable(n as u64)
            }
            "stream" => {
                conn.stream = n;
                conn.pause = Duration::from_millis(number(request, "pause") as u64);
                ok(reply, "left", n);
                NextAction::Stream
            }
            "bye" => {
                ok(reply, "bye", 1);
                NextAction::Close
            }
            "drop" => NextAction::Close,
            other => {
                let mut doc = DocBuf::new();
                doc.put("ok", Value::Double(0.0));
                doc.put(
                    "errmsg",
                    Value::String(&format!("no such command: '{other}'")),
                );
                doc.put("code", Value::Int32(59));
                reply.extend_from_slice(doc.as_bytes());
                NextAction::Reply
            }
        }
    }

    fn resume(&self, conn: &mut ToyConn, reply: &mut Vec<u8>) -> NextAction {
        if let Some(until) = conn.waits_until.take() {
            let late = i32::from(Instant::now() >= until);
            if conn.stream == 0 {
                return ok(reply, "timedOut", late);
            }
        } else if !conn.pause.is_zero() {
            let until = Instant::now() + conn.pause;
            conn.waits_until = Some(until);
            return NextAction::Wait { until };
        }
        conn.stream -= 1;
        ok(reply, "left", conn.stream);
        if conn.stream > 0 {
            NextAction::Stream
        } else {
            NextAction::Reply
        }
    }

    fn disconnect(&self, _: ToyConn) {
        self.disconnected.fetch_add(1, Ordering::SeqCst);
    }

    fn report_panic(&self, command: &str, panic: &str) {
        self.panics.lock().push(format!("{command}: {panic}"));
    }
}

/// A server on a free port with its unix socket in a folder of its own.
pub(crate) struct ToyServer {
    pub(crate) server: Option<Server<Toy>>,
    pub(crate) watermark: Arc<Watermark>,
    pub(crate) folder: tempfile::TempDir,
}

impl ToyServer {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub(crate) fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config {
            port: 0,
            unix_socket_prefix: Some(folder.path().to_path_buf()),
            drivers: 2,
            ..Config::default()
        };
        change(&mut config);
        let watermark = Watermark::new();
        let server = Server::start(&config, Toy::default(), Arc::clone(&watermark)).unwrap();
        Self {
            server: Some(server),
            watermark,
            folder,
        }
    }

    pub(crate) fn server(&self) -> &Server<Toy> {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn toy(&self) -> &Toy {
        self.server().handler()
    }
}

/// Waits for something that another thread will do.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !done() {
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// For tests that measure the memory of the whole process: true in a process of its own, which the
/// first call starts and whose result it returns.
pub(crate) fn run_alone(test: &str) -> bool {
    const MARK: &str = "QUARRY_TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(MARK, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test} failed in its own process");
    false
}
