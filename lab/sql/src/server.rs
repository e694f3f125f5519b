//! A private MariaDB server: created in its own directory, on a free port, with given settings, and
//! stopped at the end.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab_kit::kv::OwnDirectory;
use mysql::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, kill_process};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const SETTINGS_FILE: &str = "my.cnf";
const LOG_FILE: &str = "server.log";
const DATA: &str = "data";
const TEMPORARY: &str = "tmp";
const PID_FILE: &str = "server.pid";

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its directory.
    pub directory: PathBuf,
    /// `innodb` or `rocksdb`.
    pub engine: String,
    /// Cache of the engine, in MiB.
    pub cache_mb: u64,
    /// `none`, `lazy` or `sync`.
    pub durability: String,
    /// Page size of InnoDB, in KiB.
    pub page_kb: u32,
    /// Whether the binary log is written.
    pub change_log: bool,
    /// InnoDB's flushing of neighbours, 0 to 2.
    pub flush_neighbors: u8,
    /// Library of a memory allocator that is loaded first.
    pub allocator: Option<PathBuf>,
    /// Whether to start with the existing data of the directory.
    pub keep: bool,
}

/// A running server.
#[derive(Debug)]
pub struct MariaDb {
    child: Child,
    port: u16,
    engine: String,
    directory: PathBuf,
    /// The directory, kept locked while the server runs.
    _own: OwnDirectory,
}

fn refusal_error(what: &str, reason: impl std::fmt::Display) -> lab_kit::target::TargetError {
    lab_kit::target::TargetError::Refused {
        what: what.to_owned(),
        reason: reason.to_string(),
    }
}

impl MariaDb {
    /// Makes the data directory, starts the server and waits until it answers.
    ///
    /// # Errors
    /// A setting is wrong, MariaDB is not installed, the directory contains files that the lab did
    /// not make, or the server does not start.
    pub fn start(settings: &Settings) -> Result<Self, lab_kit::target::TargetError> {
        let directory = &settings.directory;
        let text =
            settings_text(settings).map_err(|reason| refusal_error("the settings", reason))?;
        let program = find(&["mariadbd", "mysqld"])?;
        let entries = [DATA, TEMPORARY, SETTINGS_FILE, LOG_FILE, PID_FILE];
        let own = OwnDirectory::take(directory, &entries, settings.keep)?;
        let directory = directory
            .canonicalize()
            .map_err(|error| refusal_error("the directory", error))?;
        let data = directory.join(DATA);
        let port = free_port().map_err(|error| refusal_error("a port", error))?;
        let file = directory.join(SETTINGS_FILE);
        // Servers that are initialised at the same time with the same folder for temporary files
        // delete each other's files.
        let temporary = directory.join(TEMPORARY);
        fs::create_dir_all(&temporary)
            .map_err(|error| refusal_error("the folder for temporary files", error))?;
        // The path of a socket may have at most 107 bytes, so it is relative to the data directory.
        let text = format!(
            "{text}datadir = {data}\ntmpdir = {tmp}\nsocket = server.sock\npid-file = \
                {directory}/{PID_FILE}\nport = {port}\nbind-address = 127.0.0.1\n",
            data = data.display(),
            tmp = temporary.display(),
            directory = directory.display()
        );
        fs::write(&file, text).map_err(|error| refusal_error("the settings file", error))?;
        if !data.exists() {
            install(&file, &data)?;
        }
        let log = fs::File::create(directory.join(LOG_FILE))
            .map_err(|error| refusal_error("the log file", error))?;
        let errors = log
            .try_clone()
            .map_err(|error| refusal_error("the log file", error))?;
        let mut command = Command::new(program);
        command.arg(format!("--defaults-file={}", file.display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        if let Some(library) = &settings.allocator {
            command.env("LD_PRELOAD", library);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Ctrl-C is for the lab, which stops the server itself.
            .process_group(0)
            .spawn()
            .map_err(|error| refusal_error("to start MariaDB", error))?;
        let mut server = Self {
            child,
            port,
            engine: settings.engine.clone(),
            directory,
            _own: own,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The address to give to `--target`.
    pub fn address(&self) -> String {
        format!(
            "mysql://root@127.0.0.1:{}/?engine={}",
            self.port, self.engine
        )
    }

    /// The server's process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A shell command that stops the server and starts it again with its data.
    ///
    /// # Errors
    /// MariaDB is no longer installed.
    pub fn restart_command(&self) -> Result<String, lab_kit::target::TargetError> {
        let program = find(&["mariadbd", "mysqld"])?;
        let user = if rustix::process::geteuid().is_root() {
            " --user=root"
        } else {
            ""
        };
        let path = |file: &str| self.directory.join(file).display().to_string();
        let (pid, settings, log) = (path(PID_FILE), path(SETTINGS_FILE), path(LOG_FILE));
        // The server removes its process number file when it has closed everything.
        let stop =
            format!("kill -TERM \"$(cat '{pid}')\" && while [ -e '{pid}' ]; do sleep 0.02; done");
        Ok(format!(
            "{stop}; exec '{}' '--defaults-file={settings}'{user} >> '{log}' 2>&1",
            program.display()
        ))
    }

    /// The process that a restart command started, if there is one.
    fn successor(&self) -> Option<u32> {
        let text = fs::read_to_string(self.directory.join(PID_FILE)).ok()?;
        let pid = text
            .trim()
            .parse()
            .ok()
            .filter(|pid| *pid != self.child.id())?;
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        // The number may have been reused by another process.
        words
            .contains(&*self.settings_file().to_string_lossy())
            .then_some(pid)
    }

    /// The file with the server's settings.
    pub fn settings_file(&self) -> PathBuf {
        self.directory.join(SETTINGS_FILE)
    }

    fn wait_until_ready(&mut self) -> Result<(), lab_kit::target::TargetError> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(refusal_error(
                    "to start MariaDB",
                    format!("it ended with {status}: {}", last_error(&self.directory)),
                ));
            }
            let options = OptsBuilder::new()
                .ip_or_hostname(Some("127.0.0.1"))
                .tcp_port(self.port)
                .user(Some("root"))
                .prefer_socket(false)
                .tcp_connect_timeout(Some(Duration::from_secs(1)));
            if Conn::new(options).is_ok() {
                return Ok(());
            }
            if begun.elapsed() > START_TIMEOUT {
                self.stop();
                return Err(refusal_error(
                    "to start MariaDB",
                    format!(
                        "no answer within {} s: {}",
                        START_TIMEOUT.as_secs(),
                        last_error(&self.directory)
                    ),
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the server ends by itself; returns its status.
    pub async fn wait_for_end(&mut self) -> String {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("{status}: {}", last_error(&self.directory)),
                Ok(None) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Asks the server to end and waits; if it does not end, it is killed.
    pub fn stop(&mut self) {
        let pid_of = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
        if let Some(successor) = self.successor() {
            if let Some(pid) = pid_of(successor) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let begun = Instant::now();
            while metrics::is_alive(successor) && begun.elapsed() < STOP_TIMEOUT {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        if let Some(pid) =
            pid_of(self.child.id()).filter(|_| matches!(self.child.try_wait(), Ok(None)))
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < STOP_TIMEOUT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.stop();
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The first of these programs that exists. Daemons may be in folders outside a user's search path.
fn find(names: &[&str]) -> Result<PathBuf, lab_kit::target::TargetError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/libexec"].map(PathBuf::from));
    folders
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            refusal_error(
                "to start MariaDB",
                format!(
                    "{} is not installed (Debian: mariadb-server)",
                    names.join(" or ")
                ),
            )
        })
}

fn install(file: &Path, data: &Path) -> Result<(), lab_kit::target::TargetError> {
    let program = find(&["mariadb-install-db", "mysql_install_db"])?;
    let mut command = Command::new(program);
    command.arg(format!("--defaults-file={}", file.display()));
    command.arg(format!("--datadir={}", data.display()));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| refusal_error("to create the data directory", error))?;
    if done.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&done.stderr);
    // The first error line has the cause; the last one only reports that the server gives up.
    let first = text.lines().find(|line| line.contains("[ERROR]"));
    let last = || text.lines().rfind(|line| !line.trim().is_empty());
    let reason = first.or_else(last).unwrap_or("no message");
    Err(refusal_error("to create the data directory", reason))
}

fn last_error(directory: &Path) -> String {
    let text = fs::read_to_string(directory.join(LOG_FILE)).unwrap_or_default();
    let line = text
        .lines()
        // The last error line only says that the server aborts.
        .rfind(|line| line.contains("[ERROR]") && !line.trim_end().ends_with("Aborting"))
        .or_else(|| text.lines().last());
    line.unwrap_or("no message").trim().to_owned()
}

/// The text of the settings file, with every setting that matters for measuring.
fn settings_text(settings: &Settings) -> Result<String, String> {
    let flush = match settings.durability.as_str() {
        "none" => 0,
        "lazy" => 2,
        "sync" => 1,
        given => {
            return Err(format!(
                "durability is '{given}'; allowed is none, lazy or sync"
            ));
        }
    };
    check(settings)?;
    let cache = settings.cache_mb;
    let mut out = String::from(
        "[mysqld]\nskip-name-resolve\nmax_connections = 4200\nmax_prepared_stmt_count = \
            1000000\nmax_allowed_packet = 256M\nquery_cache_type = 0\n",
    );
    out += &format!(
        "innodb_page_size = {}k\ninnodb_flush_log_at_trx_commit = {flush}\ninnodb_log_file_size = \
            512M\n",
        settings.page_kb
    );
    match settings.engine.as_str() {
        "innodb" => {
            out += &format!(
                "default_storage_engine = InnoDB\ninnodb_buffer_pool_size = \
                    {cache}M\ninnodb_flush_method = O_DIRECT\ninnodb_flush_neighbors = {}\n",
                settings.flush_neighbors
            )
        }
        "rocksdb" => {
            out += "plugin-load-add = ha_rocksdb\ndefault_storage_engine = \
                RocksDB\ninnodb_buffer_pool_size = 16M\n";
            out += &format!(
                "rocksdb_block_cache_size = {cache}M\nrocksdb_flush_log_at_trx_commit = {flush}\n"
            );
            // Memtables take as much as the cache, and creating an index takes two buffers at once:
            // with their defaults (64 MiB for each memtable, 64 MiB and 1 GiB for the buffers) the
            // server exceeds a small memory limit and is killed. Index blocks of files stay outside
            // the cache: one of them does not fit into a shard of a small cache, and each lookup
            // would read and decompress it again.
            out += &format!(
                "rocksdb_db_write_buffer_size = {cache}M\nrocksdb_default_cf_options = \
                    write_buffer_size={}m;\
                    block_based_table_factory={{cache_index_and_filter_blocks=0;\
                    filter_policy=bloomfilter:10:false;\
                    whole_key_filtering=1}}\nrocksdb_merge_buf_size = \
                    {}M\nrocksdb_merge_combine_read_size = {}M\n",
                (cache / 4).clamp(1, 64),
                (cache / 4).clamp(1, 64),
                cache.clamp(4, 1024)
            );
        }
        given => {
            return Err(format!(
                "the engine is '{given}'; allowed is innodb or rocksdb"
            ));
        }
    }
    if settings.change_log {
        out += &format!(
            "log-bin = change-log\nserver-id = 1\nsync_binlog = {}\n",
            u8::from(flush == 1)
        );
    }
    Ok(out)
}

/// Refuses settings that MariaDB would not start with.
fn check(settings: &Settings) -> Result<(), String> {
    if ![4, 8, 16, 32, 64].contains(&settings.page_kb) {
        return Err(format!(
            "the page size is {} KiB; allowed is 4, 8, 16, 32 or 64",
            settings.page_kb
        ));
    }
    if settings.flush_neighbors > 2 {
        return Err(format!(
            "flush_neighbors is {}; allowed is 0, 1 or 2",
            settings.flush_neighbors
        ));
    }
    if let Some(library) = settings
        .allocator
        .as_ref()
        .filter(|library| !library.is_file())
    {
        return Err(format!(
            "there is no allocator library {}",
            library.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(engine: &str) -> Settings {
        Settings {
            directory: PathBuf::from("unused"),
            engine: engine.to_owned(),
            cache_mb: 64,
            durability: "lazy".to_owned(),
            page_kb: 16,
            change_log: false,
            flush_neighbors: 0,
            allocator: None,
            keep: false,
        }
    }

    /// Servers once deleted each other's temporary files, and one in four could not be initialised.
    #[test]
    fn servers_are_made_at_the_same_time() {
        if find(&["mariadbd", "mysqld"]).is_err() {
            println!("skipped: MariaDB is not installed");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let directory = root.path().join(name);
            MariaDb::start(&Settings {
                directory,
                ..settings("innodb")
            })
            .map(|_| ())
        };
        std::thread::scope(|scope| {
            let made: Vec<_> = (0..6)
                .map(|n| {
                    let make = &make;
                    scope.spawn(move || make(n.to_string()))
                })
                .collect();
            for server in made {
                server.join().unwrap().unwrap();
            }
        });
    }

    #[test]
    fn settings_are_stated_and_wrong_ones_refused() {
        let text = settings_text(&settings("rocksdb")).unwrap();
        assert!(
            text.contains("rocksdb_block_cache_size = 64M")
                && text.contains("flush_log_at_trx_commit = 2"),
            "{text}"
        );
        assert!(
            settings_text(&Settings {
                change_log: true,
                ..settings("innodb")
            })
            .unwrap()
            .contains("log-bin")
        );
        for wrong in [
            settings("myisam"),
            Settings {
                page_kb: 5,
                ..settings("innodb")
            },
            Settings {
                flush_neighbors: 3,
                ..settings("innodb")
            },
            Settings {
                durability: "x".to_owned(),
                ..settings("innodb")
            },
        ] {
            assert!(settings_text(&wrong).unwrap_err().contains("allowed"));
        }
    }
}
