//! Servers in separate processes, which a test may stop by a signal: always the fake server, Quarry
//! if it is built in the same repository (or `QUARRY_BIN` names it), MariaDB if it is installed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{FakeServer, Faults};

pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// A server in a separate process.
pub(crate) struct Server {
    /// The process of the server.
    child: Child,
    pub(crate) address: String,
    pub(crate) pid: u32,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.pid, Signal::CONT);
        signal(self.child.id(), Signal::INT);
        let _ = self.child.wait();
    }
}

/// The lines of a server that is starting.
fn start_server(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok))
}

/// The prefix of the line in which [`the_fake_process`] prints its address.
const FAKE_AT: &str = "fake at ";

/// The process of the fake server, which other tests start and stop.
#[test]
#[ignore = "the process of another test; it ends with its standard input"]
fn the_fake_process() {
    let fake = FakeServer::start(Faults::default());
    println!("\n{FAKE_AT}{}", fake.uri());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

pub(crate) fn fake_server() -> Server {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--nocapture", "--exact"])
        .arg("servers::the_fake_process")
        .stdin(Stdio::piped());
    let (child, mut lines) = start_server(&mut command);
    let address = lines.find_map(|line| line.strip_prefix(FAKE_AT).map(str::to_owned));
    Server {
        pid: child.id(),
        child,
        address: address.unwrap(),
        _dir: tempfile::tempdir().unwrap(),
    }
}

pub(crate) fn quarry() -> Option<Server> {
    let beside = Path::new(env!("CARGO_BIN_EXE_quarry-lab")).with_file_name("quarry");
    let binary = std::env::var_os("QUARRY_BIN").map_or(beside, Into::into);
    if !binary.exists() {
        println!("skipped: no server beside the lab, and QUARRY_BIN names none");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary);
    command
        .args([
            "serve",
            "--nounixsocket",
            "--port",
            "0",
            "--memory",
            "256M",
            "--dbpath",
        ])
        .arg(dir.path());
    let (child, mut lines) = start_server(&mut command);
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once(": listening on ")?;
        rest.split_once(',').map(|(address, _)| address.to_owned())
    });
    // A process stops when it writes to a full pipe without a reader.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Server {
        pid: child.id(),
        child,
        address: format!("{}/?directConnection=true", address.unwrap()),
        _dir: dir,
    })
}

pub(crate) fn mariadb() -> Option<Server> {
    let is_there = [
        "/usr/sbin/mariadbd",
        "/usr/bin/mariadbd",
        "/usr/local/bin/mariadbd",
    ];
    if !is_there.iter().any(|path| Path::new(path).exists()) {
        println!("skipped: MariaDB is not installed");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry-lab"));
    command
        .args(["target", "mariadb", "--cache-mb", "32", "--dir"])
        .arg(&data);
    let (child, mut lines) = start_server(&mut command);
    let address = lines.next().unwrap();
    let pid = std::fs::read_to_string(data.join("server.pid")).unwrap();
    Some(Server {
        child,
        address: address.trim().to_owned(),
        pid: pid.trim().parse().unwrap(),
        _dir: dir,
    })
}
