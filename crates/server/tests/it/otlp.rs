//! Metrics sent to a collector: they equal those for Prometheus, and a collector that is down or
//! hostile disturbs nobody.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::doc;
use parking_lot::Mutex;
use serde_json::Value;

use crate::client::Client;
use crate::driver::Process;

/// How the collector treats a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CollectorBehaviour {
    Takes,
    /// Reads and never replies.
    Hangs,
    /// Answers with a status.
    Refuses(u16),
    /// Sends an endless body.
    Floods,
    /// Sends an endless head.
    FloodsHead,
    /// Accepts a part.
    TakesSome,
    /// Replies with something that is not HTTP.
    Babbles,
    Hangsup,
}

/// A collector with the functions that this test needs.
struct Collector {
    port: u16,
    manner: Arc<Mutex<CollectorBehaviour>>,
    bodies: Arc<Mutex<Vec<Value>>>,
    stopping: Arc<AtomicBool>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let collector = Collector {
            port: listener.local_addr().unwrap().port(),
            manner: Arc::new(Mutex::new(CollectorBehaviour::Takes)),
            bodies: Arc::default(),
            stopping: Arc::default(),
        };
        let (manner, bodies) = (collector.manner.clone(), collector.bodies.clone());
        let stopping = collector.stopping.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (manner, bodies) = (manner.clone(), bodies.clone());
                let stopping = stopping.clone();
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    while let Some(body) = request(&mut stream) {
                        let manner = *manner.lock();
                        bodies.lock().push(body);
                        if !answer(&mut stream, manner, &stopping) {
                            return;
                        }
                    }
                });
            }
        });
        collector
    }

    fn behave(&self, manner: CollectorBehaviour) {
        *self.manner.lock() = manner;
    }

    /// A body that arrives after this call.
    fn next(&self) -> Value {
        let before = self.bodies.lock().len();
        let mut found = None;
        eventually("a request", || {
            // The next one may have been built before the call.
            found = self.bodies.lock().get(before + 1).cloned();
            found.is_some()
        });
        found.unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

fn request(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let head = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            assert!(
                text.starts_with("post /v1/metrics?key=secret http/1.1\r\n"),
                "{text}"
            );
            assert!(text.contains("content-type: application/json"), "{text}");
            let (_, rest) = text.split_once("content-length: ").unwrap();
            let len: usize = rest.lines().next().unwrap().parse().unwrap();
            if bytes.len() >= head + 4 + len {
                return Some(serde_json::from_slice(&bytes[head + 4..]).unwrap());
            }
        }
        match stream.read(&mut part) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&part[..n]),
            _ => return None,
        }
    }
}

/// False when the connection ends.
fn answer(stream: &mut TcpStream, manner: CollectorBehaviour, stopping: &AtomicBool) -> bool {
    let whole = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        )
    };
    let text = match manner {
        CollectorBehaviour::Takes => whole("200 OK", "{}"),
        CollectorBehaviour::TakesSome => whole(
            "200 OK",
            r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too \n\" old"}}"#,
        ),
        CollectorBehaviour::Refuses(status) => whole(&format!("{status} No"), "no"),
        CollectorBehaviour::Babbles => "\0\0\0\x16garbage\r\n\r\n".repeat(10),
        CollectorBehaviour::Hangsup => return false,
        CollectorBehaviour::Hangs => {
            while !stopping.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            return false;
        }
        CollectorBehaviour::Floods | CollectorBehaviour::FloodsHead => {
            let head = match manner {
                CollectorBehaviour::Floods => {
                    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
                }
                _ => "HTTP/1.1 200 OK\r\nX: ",
            };
            let mut more = stream.write_all(head.as_bytes()).is_ok();
            while more && !stopping.load(Ordering::Relaxed) {
                more = stream.write_all(&[b'x'; 65_536]).is_ok();
            }
            return false;
        }
    };
    stream.write_all(text.as_bytes()).is_ok() && !matches!(manner, CollectorBehaviour::Babbles)
}

fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < until, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct ExportingServer {
    server: Process,
    metrics: String,
    log: PathBuf,
    _dir: tempfile::TempDir,
}

impl ExportingServer {
    fn start(port: u16) -> ExportingServer {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let metrics = free.local_addr().unwrap();
        drop(free);
        let log = dir.path().join("log");
        let server = Process::start_with(
            &dir.path().join("data"),
            &[
                "--otlpEndpoint",
                &format!("http://127.0.0.1:{port}/v1/metrics?key=secret"),
                "--otlpIntervalMS",
                "100",
                "--otlpTimeoutMS",
                "300",
                "--metricsPort",
                &metrics.port().to_string(),
                "--logpath",
                log.to_str().unwrap(),
            ],
        );
        ExportingServer {
            server,
            metrics: metrics.to_string(),
            log,
            _dir: dir,
        }
    }

    fn lines(&self, id: &str) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let wanted = format!("\"id\":{id},");
        let found = text.lines().filter(|l| l.contains(&wanted));
        found.map(str::to_owned).collect()
    }

    fn prometheus(&self) -> String {
        let mut stream = TcpStream::connect(&self.metrics).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut whole = String::new();
        stream.read_to_string(&mut whole).unwrap();
        whole.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn ping(&self) {
        let stream = TcpStream::connect(self.server.address()).unwrap();
        let mut client = Client::new(Box::new(stream));
        let ping = doc! { "ping": 1i32, "$db": "admin" };
        assert!(client.call(ping.as_bytes()).is_ok());
    }
}

fn number(v: &Value) -> f64 {
    match v {
        Value::String(digits) => digits.parse().unwrap(),
        v => v.as_f64().unwrap(),
    }
}

/// Rounds the bound of a bucket, so that two notations of a number agree.
fn round_bound(key: &str) -> String {
    let Some((before, rest)) = key.split_once("le=\"") else {
        return key.to_owned();
    };
    let (bound, after) = rest.split_once('"').unwrap();
    match bound {
        "+Inf" => key.to_owned(),
        n => format!("{before}le=\"{:.6}\"{after}", n.parse::<f64>().unwrap()),
    }
}

/// The received metrics as lines of Prometheus: name with labels, and value.
fn as_lines(body: &Value) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    for metric in metrics.as_array().unwrap() {
        let name = metric["name"].as_str().unwrap();
        let shapes = ["gauge", "sum", "histogram"];
        let (shape, data) = shapes
            .iter()
            .find_map(|s| Some((*s, metric.get(*s)?)))
            .unwrap();
        if shape != "gauge" {
            assert_eq!(data["aggregationTemporality"], 2);
        }
        for point in data["dataPoints"].as_array().unwrap() {
            let attributes = point["attributes"].as_array().unwrap();
            let labels: Vec<String> = attributes
                .iter()
                .map(|a| {
                    let value = a["value"]["stringValue"].as_str().unwrap();
                    format!("{}=\"{value}\"", a["key"].as_str().unwrap())
                })
                .collect();
            let labels = labels.join(",");
            let mut put = |name: String, labels: String, n: f64| {
                let key = match labels.is_empty() {
                    true => name,
                    false => format!("{name}{{{labels}}}"),
                };
                assert!(all.insert(key.clone(), n).is_none(), "twice: {key}");
            };
            if shape != "histogram" {
                put(name.to_owned(), labels, number(&point["asDouble"]));
                continue;
            }
            let counts = point["bucketCounts"].as_array().unwrap();
            let bounds = point["explicitBounds"].as_array().unwrap();
            assert_eq!(counts.len(), bounds.len() + 1);
            let les = bounds.iter().map(|b| number(b).to_string());
            let mut below = 0.0;
            for (le, n) in les.chain(["+Inf".to_owned()]).zip(counts) {
                below += number(n);
                put(
                    format!("{name}_bucket"),
                    round_bound(&format!("{labels},le=\"{le}\"")),
                    below,
                );
            }
            assert_eq!(below, number(&point["count"]));
            put(format!("{name}_sum"), labels.clone(), number(&point["sum"]));
            put(format!("{name}_count"), labels, below);
        }
    }
    all
}

#[test]
fn a_collector_gets_the_same_metrics_as_prometheus() {
    let collector = Collector::start();
    let server = ExportingServer::start(collector.port);
    for _ in 0..3 {
        server.ping();
    }
    let body = collector.next();
    let (sent, asked) = (as_lines(&body), server.prometheus());
    let asked: BTreeMap<String, f64> = asked
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| {
            let (key, value) = l.rsplit_once(' ').unwrap();
            (round_bound(key), value.parse().unwrap())
        })
        .collect();
    let keys = |all: &BTreeMap<String, f64>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&sent), keys(&asked));
    for (key, n) in &sent {
        let of_ping = key.contains("command=\"ping\"");
        if of_ping || key == "quarry_connections_total_created" {
            assert_eq!(asked[key], *n, "{key}");
        }
    }
    assert_eq!(sent["quarry_commands_total{command=\"ping\"}"], 3.0);
    assert_eq!(
        sent["quarry_command_duration_seconds_bucket{command=\"ping\",le=\"+Inf\"}"],
        3.0
    );
    let text = body.to_string();
    for wanted in [
        r#"{"key":"service.name","value":{"stringValue":"quarry"}}"#,
        r#""key":"service.instance.id""#,
        r#""isMonotonic":true"#,
        r#""startTimeUnixNano":"1"#,
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(server.lines("90000008").is_empty());
    server.server.stop();
}

#[test]
fn a_failing_collector_is_reported_once_and_delays_nobody() {
    let collector = Collector::start();
    let server = ExportingServer::start(collector.port);
    collector.next();
    let manners = [
        (
            CollectorBehaviour::Refuses(500),
            "it answered with status 500",
        ),
        (CollectorBehaviour::Hangs, "it did not answer within 300 ms"),
        (CollectorBehaviour::Floods, "it "),
        (CollectorBehaviour::FloodsHead, "it"),
        (
            CollectorBehaviour::TakesSome,
            "it rejected 7 values: too \\n\\\" old",
        ),
        (
            CollectorBehaviour::Babbles,
            "its answer cannot be understood",
        ),
        (CollectorBehaviour::Hangsup, ""),
        (
            CollectorBehaviour::Refuses(404),
            "it answered with status 404",
        ),
    ];
    for (i, (manner, reason)) in manners.into_iter().enumerate() {
        collector.behave(manner);
        eventually(reason, || server.lines("90000008").len() > i);
        // Sending fails more than once; nobody is disturbed meanwhile.
        collector.next();
        let began = Instant::now();
        server.ping();
        assert!(began.elapsed() < Duration::from_secs(5), "{manner:?}");
        let fails = server.lines("90000008");
        assert_eq!(fails.len(), i + 1, "told twice: {fails:?}");
        let line = fails.last().unwrap();
        let wanted = format!("\"reason\":\"{reason}");
        assert!(line.contains(&wanted), "{manner:?}: {line}");
        let named = format!("\"collector\":\"127.0.0.1:{}\"", collector.port);
        assert!(line.contains(&named), "{line}");
        collector.behave(CollectorBehaviour::Takes);
        eventually("recovery", || server.lines("90000009").len() == i + 1);
    }
    // A collector that hangs does not keep the server from exiting.
    collector.behave(CollectorBehaviour::Hangs);
    collector.next();
    server.server.stop();
}

#[test]
fn a_server_starts_without_its_collector_and_finds_it_later() {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = ExportingServer::start(port);
    eventually("a line", || server.lines("90000008").len() == 1);
    let line = server.lines("90000008").remove(0);
    assert!(
        line.contains("refused") || line.contains("no connection"),
        "{line}"
    );
    server.ping();
    server.server.stop();
}
