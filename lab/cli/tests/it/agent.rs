//! The agent: a lab with an agent's address shows the figures of the agent's process; a client that
//! does not know the token, or sends anything else, gets no figures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fake::{FakeServer, Faults};
use crate::{FinishedRun, run};

pub(crate) const TOKEN: &str = "a secret of two dozen bytes";

pub(crate) struct Agent {
    child: Child,
    pub(crate) address: String,
    dir: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
            .args(["agent", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(&token)
            .args(more)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("agent at ").unwrap().to_owned();
        Self {
            child,
            address,
            dir,
        }
    }

    pub(crate) fn token(&self) -> PathBuf {
        self.dir.path().join("token")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection and the agent's greeting.
    pub(crate) fn read_greeting(&self) -> (TcpStream, BufReader<TcpStream>, String) {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut greeting = String::new();
        reader.read_line(&mut greeting).unwrap();
        (stream, reader, greeting)
    }

    /// Sends bytes after the agent's greeting; returns its answer until it disconnects.
    fn send_bytes(&self, bytes: &[u8]) -> String {
        let (mut stream, mut reader, greeting) = self.read_greeting();
        assert!(greeting.starts_with("quarry-lab agent 1 "), "{greeting}");
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut out = Vec::new();
        let _ = reader.read_to_end(&mut out);
        String::from_utf8(out).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run_with(agent: &str, token: &Path, target: &str) -> FinishedRun {
    let token = token.to_str().unwrap();
    let small = ["--rows", "100", "--clients", "2", "--warmup-seconds", "0"];
    let agent = [
        "--seconds",
        "2",
        "--agent",
        agent,
        "--agent-token-file",
        token,
    ];
    run("hot", target, &[&small[..], &agent[..]].concat())
}

#[test]
fn a_run_shows_what_the_agent_tells_of_the_server() {
    let agent = Agent::start();
    let fake = FakeServer::start(Faults::default());
    let ended = run_with(&agent.address, &agent.token(), &fake.uri());
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let watched = result.target.watched.clone().unwrap();
    // The fake server listens in this process.
    let own = format!(
        "process {} by the agent at {}",
        std::process::id(),
        agent.address
    );
    assert_eq!(watched, own);
    assert_eq!(result.target.pid, None);
    let server = result.main_step().unwrap().server.clone().unwrap();
    assert!(server.cpu_us_per_op.unwrap() > 0.0, "{server:?}");
    assert!(server.rss_bytes_max > 1_000_000, "{server:?}");
    assert!(server.threads_max > 2, "{server:?}");
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    assert!(page.contains(&watched), "the page does not say who watched");
    let text = std::fs::read_to_string(ended.folder().join("result.json")).unwrap();
    assert!(!text.contains("a secret of"), "the token is in the result");
}

#[test]
fn a_run_with_an_agent_that_it_cannot_use_does_not_begin() {
    let agent = Agent::start();
    let fake = FakeServer::start(Faults::default());
    let other = agent.dir.path().join("other");
    std::fs::write(&other, "another secret of many bytes").unwrap();
    let short = agent.dir.path().join("short");
    std::fs::write(&short, "short").unwrap();
    for (address, token, target, reason) in [
        (
            agent.address.as_str(),
            &other,
            fake.uri(),
            "the token is wrong",
        ),
        (
            agent.address.as_str(),
            &short,
            fake.uri(),
            "at least 16 bytes",
        ),
        (
            fake.uri().trim_start_matches("mongodb://"),
            &agent.token(),
            fake.uri(),
            "agent 127",
        ),
    ] {
        let ended = run_with(address, token, &target);
        assert_eq!(ended.status(), Some(1), "{}", ended.complaint());
        assert!(ended.complaint().contains(reason), "{}", ended.complaint());
        let left = std::fs::read_dir(ended.out.path()).unwrap().count();
        assert_eq!(left, 0, "a folder of a run that never began");
    }
}

#[test]
fn strangers_learn_nothing_and_the_agent_continues() {
    let agent = Agent::start();
    let zeros = "0".repeat(64);
    let refused = "refused: the token is wrong\n";
    for bytes in [
        b"\n".to_vec(),
        b"sample\n".to_vec(),
        format!("{zeros} port 27017\n").into_bytes(),
        format!("{zeros} process 1\n").into_bytes(),
        format!("{} process 1\n", "é".repeat(32)).into_bytes(),
    ] {
        assert_eq!(agent.send_bytes(&bytes), refused, "{bytes:?}");
    }
    // Requests that are too long, not text or truncated are disconnected without an answer.
    for bytes in [vec![b'a'; 1_000_000], vec![0xff, b'\n'], b"half".to_vec()] {
        assert_eq!(agent.send_bytes(&bytes), "", "{} bytes", bytes.len());
    }
    // The agent disconnects further clients; silent connections end by themselves.
    let held: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(&agent.address).unwrap())
        .collect();
    std::thread::sleep(Duration::from_secs(6));
    drop(held);
    assert_eq!(agent.send_bytes(b"sample\n"), refused);
}
