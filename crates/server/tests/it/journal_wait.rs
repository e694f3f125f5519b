//! The time for which an operation says it waited for a slow device, compared with its client's
//! waiting time.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use model::doc;

use crate::client::Client;
use crate::process::start_listening;

/// How long a flush takes.
const SYNC_MS: u64 = 300;

/// The library that makes flushes slow, compiled from the lab's source.
fn slow_sync(dir: &Path) -> std::path::PathBuf {
    let source = Path::new("../../lab/speed/slow_sync.c");
    let library = dir.join("slow_sync.so");
    let status = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success());
    library
}

fn number(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{name}: {line}"))
}

#[test]
fn a_slow_line_says_how_long_the_device_took() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let (mut server, address) = start_listening(
        Command::new(env!("CARGO_BIN_EXE_quarry"))
            .args(["serve", "--nounixsocket", "--memory", "256M", "--port", "0"])
            .arg("--dbpath")
            .arg(dir.path().join("data"))
            .arg("--logpath")
            .arg(&log)
            .env("LD_PRELOAD", slow_sync(dir.path()))
            .env("QUARRY_SYNC_US", (SYNC_MS * 1000).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let stream = std::net::TcpStream::connect(&address).unwrap();
    let mut client = Client::new(Box::new(stream));
    let body = |w: bool| {
        let comment = if w { "waits" } else { "does not" };
        let concern = doc! { "w": 1i32, "j": w };
        doc! { "insert": "c", "documents": [{ "x": 1i32 }], "comment": comment,
        "writeConcern": &concern, "$db": "test" }
    };
    // Creating the collection waits, too, so it is done before.
    assert!(client.call(body(false).as_bytes()).is_ok());
    let began = Instant::now();
    assert!(client.call(body(false).as_bytes()).is_ok());
    let at_once = began.elapsed();
    let began = Instant::now();
    assert!(client.call(body(true).as_bytes()).is_ok());
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap();
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    let text = std::fs::read_to_string(&log).unwrap();
    let slow = |comment: &str| {
        let wanted = format!("\"comment\":\"{comment}\"");
        let is_slow = |l: &&str| l.contains("\"id\":51803,") && l.contains(&wanted);
        text.lines().rfind(is_slow).map(str::to_owned)
    };
    let line = slow("waits").unwrap_or_else(|| panic!("{text}"));
    let waited_ms = number(&line, "waitForWriteConcernDurationMillis");
    // The write may arrive during a flush, and then waits for the next one.
    assert!(waited_ms >= SYNC_MS - 1 && waited_ms <= took_ms, "{line}");
    assert!(number(&line, "durationMillis") >= waited_ms, "{line}");
    assert!(number(&line, "durationMillis") <= took_ms, "{line}");
    if let Some(line) = slow("does not") {
        assert!(!line.contains("waitForWriteConcern"), "{line}");
        assert!(number(&line, "durationMillis") > 0 && at_once.as_millis() > 0);
    }
}
