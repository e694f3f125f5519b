//! The process as service managers see it: in the background, with its process id in a file.
//! Promises: with `--fork` the command exits with success once the server listens, and otherwise
//! with the server's own status and error line.

use crate::output::{print_error, print_line};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Environment variable that marks the background process.
const MARK: &str = "QUARRY_IN_BACKGROUND";

/// Whether this is the background process.
pub fn is_in_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Environment variable that marks a process that has replaced its own program.
const STARTED_AGAIN: &str = "QUARRY_STARTED_AGAIN";

/// Whether this process has replaced its program by [`start_again`].
pub(crate) fn is_restarted() -> bool {
    std::env::var_os(STARTED_AGAIN).is_some()
}

/// Replaces the program of this process by a new run with the same arguments. All threads end at
/// once, files and sockets are closed, clients have to connect again. Returns only on failure.
pub(crate) fn start_again() -> std::io::Error {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    // The file at the program's path may have been replaced; this names the running one.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(words).env(STARTED_AGAIN, "1");
    command.exec()
}

/// A port that is free now on the first host to listen on. It is chosen before anything is opened,
/// because the server tells clients its own address.
///
/// # Errors
/// One line.
pub(crate) fn free_port(host: Option<&String>) -> Result<u16, String> {
    let host = host.map_or("127.0.0.1", String::as_str);
    std::net::TcpListener::bind((host, 0))
        .and_then(|l| l.local_addr())
        .map(|a| a.port())
        .map_err(|e| format!("cannot find a free port on {host}: {e}"))
}

/// Starts this program again in the background and waits until it listens or exits. `ready`
/// recognizes the line that says that it listens.
///
/// # Errors
/// The status with which it exited.
pub fn start_in_background(ready: impl Fn(&str) -> bool) -> Result<(), Option<ExitStatus>> {
    let start = || -> std::io::Result<_> {
        Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(MARK, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
    };
    let mut child = start().map_err(|e| {
        print_error(format_args!("quarry: cannot start in the background: {e}"));
        None
    })?;
    print_line(format_args!(
        "about to fork child process, waiting until server is ready for connections."
    ));
    print_line(format_args!("forked process: {}", child.id()));
    if let Some(lines) = child.stdout.take() {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            print_line(format_args!("{line}"));
            if ready(&line) {
                print_line(format_args!(
                    "child process started successfully, parent exiting"
                ));
                return Ok(());
            }
        }
    }
    Err(child.wait().ok())
}

/// Makes files that this process creates readable by their owner only, as mongod does: 0600,
/// folders 0700.
pub fn keep_files_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Leaves the terminal's session; must be called first.
pub fn leave_terminal() {
    // Fails only for a process group leader, which a new child is not.
    let _ = rustix::process::setsid();
}

/// Closes the standard streams: the process that started the server has read all it needs.
pub fn detach_streams() {
    let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return;
    };
    let _ = rustix::stdio::dup2_stdin(&null);
    let _ = rustix::stdio::dup2_stdout(&null);
    let _ = rustix::stdio::dup2_stderr(&null);
}

/// A file that holds the process id; it is removed when this is dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file.
    ///
    /// # Errors
    /// One line.
    pub fn write(path: &Path) -> Result<PidFile, String> {
        // The process that supervises this one may run as another user.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::write(path, format!("{}\n", std::process::id()))
            .and_then(|()| std::fs::set_permissions(path, readable))
            .map(|()| PidFile(path.to_owned()))
            .map_err(|e| format!("cannot write the pid file {}: {e}", path.display()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
