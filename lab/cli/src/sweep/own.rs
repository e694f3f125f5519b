//! Servers that the lab starts for single runs of a sweep, new or with the data of a shared load,
//! with stated settings. They are stopped when the run has ended.
//!
//! Promises: only the measured server runs, and it ends with the run, however the run ends. Memory:
//! Quarry gets all of the limit, InnoDB half of it (its reads bypass the page cache), MyRocks an
//! eighth each for block cache and memtables (the system caches its files, too).

use std::any::Any;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::errors::LabError;
use crate::run::RunArguments;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// A running server.
pub(super) struct OwnServer {
    /// The address for `--target`.
    pub(super) address: String,
    /// The server and how it was started; its name in results.
    pub(super) label: String,
    /// The command that restarts the server, if it supports this.
    pub(super) restart_command: Option<String>,
    /// Dropping this stops the server.
    _running: Box<dyn Any>,
}

fn sweep_error(reason: impl std::fmt::Display) -> LabError {
    LabError::Sweep {
        reason: reason.to_string(),
    }
}

/// A value of `--own`: a server, and settings that differ from the lab's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnSpec {
    kind: String,
    settings: Vec<(String, String)>,
}

/// Servers that the lab can start for a run.
const KINDS: [&str; 3] = ["quarry", "innodb", "myrocks"];
const QUARRY_KEYS: [&str; 5] = ["memory-mb", "replica-set", "engine", "pd", PROGRAM];
/// The program that is started instead of the usual one.
const PROGRAM: &str = "program";
/// Its storage engines, as `--storageEngine` names them.
const QUARRY_ENGINES: [&str; 5] = ["rocksdb", "lmdb", "wiredTiger", "tikv", "memory"];
const MARIADB_KEYS: [&str; 6] = [
    "cache-mb",
    "durability",
    "page-kb",
    "change-log",
    "flush-neighbors",
    "allocator",
];

impl OwnSpec {
    /// `NAME` or `NAME:KEY=VALUE:KEY=VALUE`, or `quarry=PROGRAM` with more settings; a part without
    /// `=` belongs to the value before it, as in `pd=HOST:PORT`.
    ///
    /// # Errors
    /// The allowed forms.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let (kind, program) = match name.split_once('=') {
            Some(("quarry", path)) if !path.is_empty() => ("quarry".to_owned(), Some(path)),
            _ => (name.to_owned(), None),
        };
        if !KINDS.contains(&kind.as_str()) {
            return Err(format!("--own {kind}: allowed is {}", KINDS.join(", ")));
        }
        let keys: &[&str] = if kind == "quarry" {
            &QUARRY_KEYS
        } else {
            &MARIADB_KEYS
        };
        let mut settings: Vec<(String, String)> = Vec::new();
        settings.extend(program.map(|path| (PROGRAM.to_owned(), path.to_owned())));
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) if keys.contains(&key) && !value.is_empty() => {
                    settings.push((key.to_owned(), value.to_owned()));
                }
                None if !part.is_empty() && !settings.is_empty() => {
                    if let Some((_, value)) = settings.last_mut() {
                        *value += &format!(":{part}");
                    }
                }
                _ => {
                    return Err(format!(
                        "--own {kind}: '{part}' is not KEY=VALUE with one of {}",
                        keys.join(", ")
                    ));
                }
            }
        }
        let out = Self { kind, settings };
        for key in ["memory-mb", "cache-mb", "page-kb", "flush-neighbors"] {
            out.number(key, 0_u64)?;
        }
        out.switch("change-log")?;
        out.switch("replica-set")?;
        out.check_engine()?;
        Ok(out)
    }

    /// Checks that the engine exists, and that placement drivers are given for the engine that
    /// needs them.
    fn check_engine(&self) -> Result<(), String> {
        let engine = self.value("engine");
        if let Some(given) = engine.filter(|given| !QUARRY_ENGINES.contains(given)) {
            let allowed = QUARRY_ENGINES.join(", ");
            return Err(format!(
                "--own quarry: engine={given}; allowed is {allowed}"
            ));
        }
        if (engine == Some("tikv")) != self.value("pd").is_some() {
            return Err("--own quarry: engine=tikv and pd=HOST:PORT need each other".to_owned());
        }
        Ok(())
    }

    /// The arguments of `quarry serve` for the engine. A cluster keeps the data of earlier runs, so
    /// each new database has a new name there, kept in `directory`.
    fn engine_arguments(&self, directory: &Path) -> Result<Vec<String>, LabError> {
        let Some(engine) = self.value("engine") else {
            return Ok(Vec::new());
        };
        let mut out = vec!["--storageEngine".to_owned(), engine.to_owned()];
        if let Some(pd) = self.value("pd") {
            let file = directory.join("prefix");
            if !file.exists() {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .map_err(sweep_error)?;
                fs::write(
                    &file,
                    format!("lab-{}-{}", std::process::id(), now.as_nanos()),
                )?;
            }
            out.extend(["--tikvPd".to_owned(), pd.to_owned()]);
            out.extend(["--tikvPrefix".to_owned(), fs::read_to_string(&file)?]);
        }
        Ok(out)
    }

    /// The server's folder in the folder of the sweep.
    pub(super) fn folder(&self, sweep: &Path) -> PathBuf {
        let mut name = format!("own-{}", self.kind);
        for (key, value) in &self.settings {
            // A path may be too long for the name of a folder.
            let value = if key == PROGRAM {
                format!("{:016x}", lab_kit::row::contents::hash_of(value))
            } else {
                value.clone()
            };
            name += &format!("-{key}-{value}");
        }
        let letters = name.chars().map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => letter,
            _ => '_',
        });
        sweep.join(letters.collect::<String>())
    }

    fn value(&self, key: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    fn number<N: std::str::FromStr>(&self, key: &str, default: N) -> Result<N, String> {
        match self.value(key) {
            None => Ok(default),
            Some(given) => given.parse().map_err(|_| {
                format!(
                    "--own {}: {key}={given} is not an allowed number",
                    self.kind
                )
            }),
        }
    }

    fn switch(&self, key: &str) -> Result<bool, String> {
        match self.value(key) {
            None | Some("off") => Ok(false),
            Some("on") => Ok(true),
            Some(given) => Err(format!(
                "--own {}: {key}={given}; allowed is on or off",
                self.kind
            )),
        }
    }

    /// The settings as the user gave them, in words.
    fn label(&self, usual: &str) -> String {
        let mut out = format!("{} with {usual}", self.kind);
        for (key, value) in &self.settings {
            out += &format!(" and {key} {value}");
        }
        out
    }

    /// Starts the server in a folder of the sweep; with `keep`, on the existing data.
    pub(super) fn start(
        &self,
        arguments: &RunArguments,
        sweep: &Path,
        keep: bool,
    ) -> Result<OwnServer, LabError> {
        let directory = self.folder(sweep);
        let started = if self.kind == "quarry" {
            self.start_quarry(arguments, &directory, keep)
        } else {
            self.start_mariadb(arguments, directory, keep)
        };
        started.map_err(|error| LabError::Sweep {
            reason: format!("cannot start {}: {error}", self.kind),
        })
    }

    fn start_quarry(
        &self,
        arguments: &RunArguments,
        directory: &Path,
        keep: bool,
    ) -> Result<OwnServer, LabError> {
        if !keep && directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        let data = directory.join("data");
        fs::create_dir_all(&data)?;
        let memory = arguments.memory_mb.unwrap_or(arguments.own_memory_mb);
        let memory = self.number("memory-mb", memory).map_err(sweep_error)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        drop(listener);
        let program = match self.value(PROGRAM) {
            Some(path) => PathBuf::from(path),
            None => quarry(arguments)?,
        };
        let log = fs::File::create(directory.join("server.log"))?;
        let mut command = Command::new(&program);
        command
            .args(["serve", "--nounixsocket", "--dbpath"])
            .arg(&data)
            .args(["--port", &port.to_string()])
            .args(["--memory", &format!("{memory}M")])
            .args(self.engine_arguments(directory)?);
        if !self.switch("replica-set").map_err(sweep_error)? {
            command.arg("--standalone");
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for the lab, which stops the server when the run has written its report.
            .process_group(0)
            .spawn()
            .map_err(|error| sweep_error(format!("{}: {error}", program.display())))?;
        let mut process = Process(child);
        process.wait_for(port, directory)?;
        Ok(OwnServer {
            address: format!("mongodb://127.0.0.1:{port}"),
            label: self.label(&format!("{memory} MiB")),
            restart_command: None,
            _running: Box::new(process),
        })
    }

    #[cfg(feature = "mysql")]
    fn start_mariadb(
        &self,
        arguments: &RunArguments,
        directory: PathBuf,
        keep: bool,
    ) -> Result<OwnServer, LabError> {
        let is_innodb = self.kind == "innodb";
        let usual = match arguments.memory_mb {
            None => arguments.own_memory_mb,
            Some(limit) if is_innodb => (limit / 2).max(5),
            Some(limit) => (limit / 8).max(1),
        };
        let cache_mb = self.number("cache-mb", usual).map_err(sweep_error)?;
        let durability = self.value("durability").unwrap_or("lazy").to_owned();
        let settings = lab_sql::server::Settings {
            keep: keep && directory.join("data").exists(),
            directory,
            engine: if is_innodb { "innodb" } else { "rocksdb" }.to_owned(),
            cache_mb,
            durability,
            page_kb: self.number("page-kb", 16).map_err(sweep_error)?,
            change_log: self.switch("change-log").map_err(sweep_error)?,
            flush_neighbors: self.number("flush-neighbors", 0).map_err(sweep_error)?,
            allocator: self.value("allocator").map(PathBuf::from),
        };
        let server = lab_sql::server::MariaDb::start(&settings)?;
        Ok(OwnServer {
            address: server.address(),
            label: self.label(&format!("a cache of {cache_mb} MiB")),
            restart_command: Some(server.restart_command()?),
            _running: Box::new(server),
        })
    }

    #[cfg(not(feature = "mysql"))]
    fn start_mariadb(&self, _: &RunArguments, _: PathBuf, _: bool) -> Result<OwnServer, LabError> {
        Err(sweep_error(
            "this program was built without the feature mysql",
        ))
    }
}

/// The path of the program: as given, beside this program, or in the user's search path.
fn quarry(arguments: &RunArguments) -> Result<PathBuf, LabError> {
    if let Some(given) = &arguments.quarry {
        return Ok(given.clone());
    }
    let beside = std::env::current_exe()?.with_file_name("quarry");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(beside)
        .chain(std::env::split_paths(&path).map(|folder| folder.join("quarry")))
        .find(|program| program.is_file())
        .ok_or_else(|| sweep_error("the program does not exist; name it with --quarry PATH"))
}

/// A process that is told to end when this value is dropped.
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
                return Err(sweep_error(last));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_the_name() {
        let spec = OwnSpec::parse("innodb:page-kb=4:change-log=on").unwrap();
        assert_eq!(spec.number("page-kb", 16_u32), Ok(4));
        assert_eq!(spec.switch("change-log"), Ok(true));
        assert_eq!(
            spec.folder(Path::new("x")),
            Path::new("x/own-innodb-page-kb-4-change-log-on")
        );
        assert!(
            spec.label("y")
                .ends_with("y and page-kb 4 and change-log on")
        );
        let built = OwnSpec::parse("quarry=/a/quarry:engine=lmdb").unwrap();
        let other = OwnSpec::parse("quarry=/b/quarry:engine=lmdb").unwrap();
        assert_eq!(built.value(PROGRAM), Some("/a/quarry"));
        assert_eq!(built.value("engine"), Some("lmdb"));
        let folder = |spec: &OwnSpec| spec.folder(Path::new("x"));
        assert!(
            folder(&built) != folder(&other),
            "two builds have two folders"
        );
        for (given, reason) in [
            ("innodb=/usr/sbin/mysqld", "allowed is quarry"),
            ("quarry=", "allowed is quarry"),
            ("oracle", "quarry, innodb, myrocks"),
            ("innodb:pages=4", "page-kb"),
            ("innodb:page-kb=big", "is not an allowed number"),
            ("quarry:replica-set=yes", "on or off"),
            ("quarry:page-kb=4", "memory-mb, replica-set"),
            ("quarry:lmdb", "'lmdb' is not KEY=VALUE"),
            ("quarry:engine=mmapv1", "rocksdb, lmdb, wiredTiger, tikv"),
            ("quarry:engine=tikv", "pd=HOST:PORT"),
            ("quarry:engine=lmdb:pd=a:1", "need each other"),
        ] {
            let found = OwnSpec::parse(given).unwrap_err();
            assert!(found.contains(reason), "{given}: {found}");
        }
        let spec = OwnSpec::parse("quarry:engine=tikv:pd=127.0.0.1:2379:memory-mb=512").unwrap();
        assert_eq!(spec.value("pd"), Some("127.0.0.1:2379"));
        let directory = tempfile::tempdir().unwrap();
        let given = spec.engine_arguments(directory.path()).unwrap();
        assert_eq!(given, spec.engine_arguments(directory.path()).unwrap());
        assert_eq!(
            given[..4],
            ["--storageEngine", "tikv", "--tikvPd", "127.0.0.1:2379"]
        );
        assert!(given[5].starts_with("lab-"), "{given:?}");
    }
}
