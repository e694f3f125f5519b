//! The log and the process of the real binary: files, rotation, signals, running in the background.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::doc;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::client::Client;
use crate::process::{address, start_listening};

fn serve(dir: &Path, options: &[&str]) -> Command {
    serve_on("memory", dir, options)
}

fn serve_on(engine: &str, dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command
        .args(["serve", "--nounixsocket", "--memory", "128M", "--port", "0"])
        .args(["--storageEngine", engine, "--dbpath"])
        .arg(dir.join("data"))
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A server that is killed if a test fails.
struct ServerProcess {
    child: Child,
    address: String,
}

impl ServerProcess {
    fn start(dir: &Path, options: &[&str]) -> ServerProcess {
        let (child, address) = start_listening(&mut serve(dir, options));
        ServerProcess { child, address }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Stops it; returns its output on standard error.
    fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        errors
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str) {
    let stream = std::net::TcpStream::connect(address).unwrap();
    let mut client = Client::new(Box::new(stream));
    let body = doc! { "ping": 1i32, "$db": "admin" };
    assert!(client.call(body.as_bytes()).is_ok());
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The number of lines with this id.
fn count(text: &str, id: u32) -> usize {
    let field = format!("\"id\":{id},");
    text.lines().filter(|l| l.contains(&field)).count()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.is_file())
        .collect();
    all.sort();
    all
}

#[test]
fn a_log_file_is_complete_and_rotated_by_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let logs = tempfile::tempdir().unwrap();
    let path = logs.path().join("quarry.log");
    let pid = dir.path().join("pid");
    std::fs::write(&path, "of before\n").unwrap();
    let options = ["--logpath", path.to_str().unwrap(), "--pidfilepath"];
    let options = [&options[..], &[pid.to_str().unwrap()]].concat();
    let server = ServerProcess::start(dir.path(), &options);
    let read = || std::fs::read_to_string(&path).unwrap();
    let number = std::fs::read_to_string(&pid).unwrap();
    assert_eq!(number, format!("{}\n", server.child.id()));
    ask(&server.address);
    eventually("a connection comes and goes", || count(&read(), 22944) == 1);
    let first = read();
    for id in [20697, 4615611, 21951, 22120, 23015, 23016, 22943] {
        assert_eq!(count(&first, id), 1, "{id}: {first}");
    }
    // The existing file was renamed.
    assert!(!first.contains("of before") && files(logs.path()).len() == 2);
    server.signal(Signal::USR1);
    eventually("a new file", || files(logs.path()).len() == 3);
    eventually("an empty file", || {
        path.exists() && count(&read(), 4615611) == 0
    });
    ask(&server.address);
    eventually("the new file is written", || count(&read(), 22943) == 1);
    assert_eq!(server.stop(), "");
    let last = read();
    for id in [23377, 23381, 20565, 23138] {
        assert_eq!(count(&last, id), 1, "{id}: {last}");
    }
    assert!(last.lines().last().unwrap().contains("\"exitCode\":0"));
    assert!(!pid.exists());
    // With `--logappend` the log continues in the existing file.
    let options = [
        "--logpath",
        path.to_str().unwrap(),
        "--logappend",
        "--quiet",
    ];
    let server = ServerProcess::start(dir.path(), &options);
    ask(&server.address);
    server.stop();
    let whole = read();
    assert!(whole.starts_with(&last) && count(&whole, 4615611) == 1);
    // With `quiet` there is only the connection from before.
    assert_eq!(count(&whole, 22943), 1);
}

#[test]
fn without_a_file_the_log_is_on_standard_error_once_the_server_listens() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(dir.path(), &[]);
    let errors = server.stop();
    assert_eq!(count(&errors, 4615611), 1, "{errors}");
    // A failed start prints one line only.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.args([
        "serve",
        "--nounixsocket",
        "--storageEngine",
        "memory",
        "--port",
        &port,
    ]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(48));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn a_background_start_returns_once_the_server_listens() {
    let dir = tempfile::tempdir().unwrap();
    let (log, pid) = (dir.path().join("log"), dir.path().join("pid"));
    let paths = [log.to_str().unwrap(), pid.to_str().unwrap()];
    let options = ["--fork", "--logpath", paths[0], "--pidfilepath", paths[1]];
    let output = serve(dir.path(), &options).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("child process started successfully"),
        "{said}"
    );
    let number: i32 = std::fs::read_to_string(&pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let server = Pid::from_raw(number).unwrap();
    ask(&address(&said).unwrap());
    kill_process(server, Signal::TERM).unwrap();
    eventually("the server ends", || {
        test_kill_process(server).is_err() || !pid.exists()
    });
    let text = || std::fs::read_to_string(&log).unwrap();
    eventually("its last line", || count(&text(), 23138) == 1);
    // With `--fork` a failed start is reported by the command that started it.
    let file = dir.path().join("data-is-a-file");
    std::fs::write(&file, "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.args([
        "serve",
        "--fork",
        "--nounixsocket",
        "--port",
        "0",
        "--logpath",
    ]);
    let output = command
        .arg(&log)
        .arg("--dbpath")
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(100));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("data-is-a-file"), "{errors}");
}

pub(crate) fn get(address: &str, path: &str) -> (String, String) {
    get_of("localhost", address, path)
}

fn get_of(host: &str, address: &str, path: &str) -> (String, String) {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut whole = String::new();
    stream.read_to_string(&mut whole).unwrap();
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn metrics_over_http_are_those_of_the_server_and_silent_clients_delay_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let server = ServerProcess::start(dir.path(), &["--metricsPort", &port]);
    let metrics = format!("127.0.0.1:{port}");
    // These clients never send anything.
    let connect = |_| std::net::TcpStream::connect(&metrics).unwrap();
    let _silent: Vec<_> = (0..8).map(connect).collect();
    for _ in 0..3 {
        ask(&server.address);
    }
    let began = Instant::now();
    let (head, text) = get(&metrics, "/metrics");
    assert!(began.elapsed() < Duration::from_secs(1), "it had to wait");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    // A web page of another site whose name was rebound to this address.
    let (foreign, _) = get_of("evil.example", &metrics, "/metrics");
    assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");
    for wanted in [
        "quarry_commands_total{command=\"ping\"} 3\n",
        "quarry_command_duration_seconds_count{command=\"ping\"} 3\n",
        "quarry_command_duration_seconds_bucket{command=\"ping\",le=\"+Inf\"} 3\n",
        "\nquarry_opcounters_command 3\n",
        "\nquarry_connections_total_created 3\n",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(
            value.parse::<f64>().is_ok() && name.starts_with("quarry_"),
            "{line}"
        );
    }
    let (_, page) = get(&metrics, "/");
    assert!(page.contains("<svg") && !page.contains("http"), "{page}");
    let (_, json) = get(&metrics, "/metrics.json");
    for wanted in [
        "\"commands\":{\"ping\":{\"count\":3,",
        // What the page subtracts for a time range, and the limits that it draws.
        "\"buckets\":[[",
        "\"memoryLimit\":",
        "Access control is not enabled",
    ] {
        assert!(json.contains(wanted), "{wanted}: {json}");
    }
    assert!(get(&metrics, "/other").0.starts_with("HTTP/1.1 404"));
    server.stop();
}

#[cfg(feature = "rocksdb")]
#[test]
fn the_page_finds_the_figures_of_the_default_engine() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let mut command = serve_on("rocksdb", dir.path(), &["--metricsPort", &port]);
    let (child, address) = start_listening(&mut command);
    let server = ServerProcess { child, address };
    let metrics = format!("127.0.0.1:{port}");
    let (_, page) = get(&metrics, "/");
    let (_, json) = get(&metrics, "/metrics.json");
    // Every engine metric that the page shows exists, for all tables together or for each.
    for name in [
        "running_compactions",
        "sst_bytes",
        "memtable_bytes",
        "pending_compaction_bytes",
        "block_cache_usage_bytes",
        "free_bytes",
        "reserve_bytes",
        "journal_flushes",
        "journal_flush_us_last",
        "journal_failing",
        "stall_stops",
        "admission_waits",
        "admission_wait_us_max",
        "space_short",
        "background_errors",
    ] {
        let of_engine = [format!("\"{name}\":"), format!("\"doc.{name}\":")];
        assert!(page.contains(name), "{name} is not on the page");
        assert!(of_engine.iter().any(|key| json.contains(key)), "{name}");
    }
    server.stop();
}

#[test]
fn the_audit_log_is_complete_and_required() {
    let dir = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.json");
    let at = path.to_str().unwrap();
    let options = ["--auditDestination", "file", "--auditPath", at];
    let server = ServerProcess::start(dir.path(), &options);
    let read = || std::fs::read_to_string(&path).unwrap();
    let has = |text: &str, atype: &str| text.contains(&format!("{{\"atype\":\"{atype}\","));
    let first = read();
    assert!(has(&first, "startup") && first.contains("isSystemUser"));
    assert!(
        first.contains("\"auditLog\":{\"destination\":\"file\""),
        "{first}"
    );
    create(&server.address, "before");
    assert!(has(&read(), "createCollection"), "{}", read());
    server.signal(Signal::USR1);
    eventually("a new file", || files(folder.path()).len() == 2);
    eventually("the new file begins", || has(&read(), "rotateLog"));
    create(&server.address, "after");
    let text = read();
    assert!(text.contains("\"test.after\"") && !text.contains("\"test.before\""));
    assert!(text.contains("\"ip\":\"127.0.0.1\""), "{text}");
    server.stop();
    assert!(has(&read(), "shutdown"), "{}", read());

    // If the device is full the server exits before it serves a client.
    let options = ["--auditDestination", "file", "--auditPath", "/dev/full"];
    let output = serve(dir.path(), &options).output().unwrap();
    assert_eq!(output.status.code(), Some(14));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("no operation may go unaudited"), "{errors}");
    // A file or filter that cannot be used gives one line.
    for (more, named) in [
        (["--auditPath", "/no/such/audit"], "/no/such/audit"),
        (["--auditFilter", "{a: {$no: 1}}"], "$no"),
    ] {
        let options = [
            &["--auditDestination", "file", "--auditPath", at],
            &more[..],
        ]
        .concat();
        let options = match more[0] {
            "--auditPath" => [&options[..2], &more].concat(),
            _ => options,
        };
        let output = serve(dir.path(), &options).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8(output.stderr).unwrap();
        let last = errors.lines().last().unwrap();
        assert!(last.contains(named), "{errors}");
    }
}

fn create(address: &str, name: &str) {
    let stream = std::net::TcpStream::connect(address).unwrap();
    let mut client = Client::new(Box::new(stream));
    let body = doc! { "create": name, "$db": "test" };
    assert!(client.call(body.as_bytes()).is_ok());
}
