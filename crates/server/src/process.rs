//! The process as service managers see it: in the background, with its number in a file. Promises:
//! with `--fork` the command ends with success once the server listens, and with the server's own
//! status and line when it does not.

use crate::output::{print_error, print_line};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Tells the process in the background that it is that.
const MARK: &str = "QUARRY_IN_BACKGROUND";

/// Whether this is the process in the background.
pub fn is_in_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Tells the program that it has replaced itself.
const STARTED_AGAIN: &str = "QUARRY_STARTED_AGAIN";

/// Whether this process ran before, see [`start_again`].
pub(crate) fn was_started_again() -> bool {
    std::env::var_os(STARTED_AGAIN).is_some()
}

/// Replaces the program of this process by a new run of itself with the same arguments. Threads
/// end where they are, files and sockets are closed, clients have to connect again. Returns only
/// when that is not possible.
pub(crate) fn start_again() -> std::io::Error {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    // The file may have been replaced since the start; this names the one that runs.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(words).env(STARTED_AGAIN, "1");
    command.exec()
}

/// A port that is free now on the first host to listen on. Chosen before anything is opened,
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

/// Starts this program again in the background and waits until it listens or ends. `ready` knows
/// the line that says so.
///
/// # Errors
/// The status it ended with.
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

/// Has files that this process makes be its owner's alone, as mongod has: 0600, folders 0700.
pub fn keep_files_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Leaves the terminal; to be called first.
pub fn leave_terminal() {
    // Fails only for a leader of its group, which a child just started is not.
    let _ = rustix::process::setsid();
}

/// Lets go of the standard streams: who started the server has seen all that goes there.
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

/// A file that holds the number of this process until dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes it.
    ///
    /// # Errors
    /// One line.
    pub fn write(path: &Path) -> Result<PidFile, String> {
        // Whoever supervises the process may be another user.
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
