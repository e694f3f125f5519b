//! Servers that the lab starts for single runs of a sweep: fresh or on what they loaded, with
//! stated settings, and stopped when the run has ended.
//!
//! Promises: only the server that is measured runs; it ends with the run, however that ends. Memory:
//! Quarry gets all of the limit, InnoDB half of it (its reads bypass the page cache), MyRocks an
//! eighth each for block cache and memtables (the system caches its files, too).

use std::any::Any;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::errors::LabError;
use crate::run::RunArguments;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// A running server.
pub(super) struct OwnServer {
    /// For `--target`.
    pub(super) address: String,
    /// What it is and how it was started; its name in results.
    pub(super) label: String,
    /// Restarts it, where it can.
    pub(super) restart_command: Option<String>,
    /// Held until the run has ended: dropping it stops the server.
    _running: Box<dyn Any>,
}

/// The folder of a server in that of the sweep.
pub(super) fn folder(sweep: &Path, name: &str) -> PathBuf {
    sweep.join(format!("own-{name}"))
}

fn failed(name: &str, reason: impl std::fmt::Display) -> LabError {
    LabError::Sweep {
        reason: format!("cannot start {name}: {reason}"),
    }
}

impl OwnServer {
    /// Starts server `name` in a folder of the sweep; `keep`: on the data that are there.
    pub(super) fn start(
        name: &str,
        arguments: &RunArguments,
        sweep: &Path,
        keep: bool,
    ) -> Result<Self, LabError> {
        let directory = folder(sweep, name);
        match name {
            "quarry" => start_quarry(arguments, &directory, keep),
            _ => start_mariadb(name, arguments, directory, keep),
        }
    }
}

fn start_quarry(
    arguments: &RunArguments,
    directory: &Path,
    keep: bool,
) -> Result<OwnServer, LabError> {
    let wrong = |error: std::io::Error| failed("quarry", error);
    if !keep && directory.exists() {
        fs::remove_dir_all(directory).map_err(wrong)?;
    }
    let data = directory.join("data");
    fs::create_dir_all(&data).map_err(wrong)?;
    let memory = arguments.memory_mb.unwrap_or(arguments.own_memory_mb);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    let port = listener.local_addr().map_err(wrong)?.port();
    drop(listener);
    let program = quarry(arguments)?;
    let log = fs::File::create(directory.join("server.log")).map_err(wrong)?;
    let mut command = Command::new(&program);
    command
        .args(["serve", "--nounixsocket", "--standalone", "--dbpath"])
        .arg(&data)
        .args(["--port", &port.to_string()])
        .args(["--memory", &format!("{memory}M")]);
    let child = command
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(wrong)?)
        .stderr(log)
        // Ctrl-C is for the lab, which stops the server when the run has written its report.
        .process_group(0)
        .spawn()
        .map_err(|error| failed("quarry", format!("{}: {error}", program.display())))?;
    let mut process = Process(child);
    process.wait_for(port, directory)?;
    Ok(OwnServer {
        address: format!("mongodb://127.0.0.1:{port}"),
        label: format!("quarry with {memory} MiB"),
        restart_command: None,
        _running: Box::new(process),
    })
}

/// The program: as given, beside this one, or where the user's search path leads.
fn quarry(arguments: &RunArguments) -> Result<PathBuf, LabError> {
    if let Some(given) = &arguments.quarry {
        return Ok(given.clone());
    }
    let beside = std::env::current_exe()?.with_file_name("quarry");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(beside)
        .chain(std::env::split_paths(&path).map(|folder| folder.join("quarry")))
        .find(|program| program.is_file())
        .ok_or_else(|| failed("quarry", "no such program; name it with --quarry PATH"))
}

/// A process that is told to end when this is dropped.
struct Process(Child);

impl Process {
    fn wait_for(&mut self, port: u16, directory: &Path) -> Result<(), LabError> {
        let begun = Instant::now();
        loop {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            let ended = self.0.try_wait()?;
            if ended.is_some() || begun.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(directory.join("server.log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or("no message");
                return Err(failed("quarry", last));
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP_TIMEOUT {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(feature = "mysql")]
fn start_mariadb(
    name: &str,
    arguments: &RunArguments,
    directory: PathBuf,
    keep: bool,
) -> Result<OwnServer, LabError> {
    let is_innodb = name == "innodb";
    let cache_mb = match arguments.memory_mb {
        None => arguments.own_memory_mb,
        Some(limit) if is_innodb => (limit / 2).max(5),
        Some(limit) => (limit / 8).max(1),
    };
    let settings = lab_sql::server::Settings {
        keep: keep && directory.join("data").exists(),
        directory,
        engine: if is_innodb { "innodb" } else { "rocksdb" }.to_owned(),
        cache_mb,
        durability: "lazy".to_owned(),
        page_kb: 16,
        change_log: false,
        flush_neighbors: 0,
        allocator: None,
    };
    let server = lab_sql::server::MariaDb::start(&settings)?;
    Ok(OwnServer {
        address: server.address(),
        label: format!("{name} with a cache of {cache_mb} MiB and lazy"),
        restart_command: Some(server.restart_command()?),
        _running: Box::new(server),
    })
}

#[cfg(not(feature = "mysql"))]
fn start_mariadb(name: &str, _: &RunArguments, _: PathBuf, _: bool) -> Result<OwnServer, LabError> {
    Err(failed(
        name,
        "this program was built without the feature mysql",
    ))
}
