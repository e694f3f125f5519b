//! A run of a sweep as a separate process: started or resumed, and waited for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::expand::option;
use crate::errors::LabError;
use crate::interrupt::wait_interrupt;

/// Polling interval for the end of a run.
const POLL: Duration = Duration::from_millis(100);
/// The message of a run when the data of a shared load are gone.
pub(super) const CHANGED: &str = "the loaded data no longer exists";

/// Starts a run, whose folder is named after its process number, and waits for its end.
pub(super) fn run_child(
    words: &[String],
    folder: &Path,
    began: &mut dyn FnMut(&str) -> Result<(), LabError>,
) -> Result<PathBuf, LabError> {
    let child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .spawn()?;
    let mark = format!("-{}", child.id());
    let find = || {
        let mut entries = std::fs::read_dir(folder).ok()?.flatten();
        entries.find_map(|entry| {
            entry
                .file_name()
                .to_str()
                .filter(|name| name.ends_with(&mark))
                .map(str::to_owned)
        })
    };
    let code = wait(child, &mut || {
        let Some(name) = find() else { return Ok(false) };
        began(&name)?;
        Ok(true)
    })?;
    match (find(), code) {
        (Some(name), 0) => Ok(folder.join(name)),
        (_, code) if code == i32::from(CODE_CHANGED) => Err(LabError::Sweep {
            reason: CHANGED.to_owned(),
        }),
        (_, code) => Err(LabError::Sweep {
            reason: format!("a run ended with status {code}"),
        }),
    }
}

/// Exit status of a run that does not find the data that another run loaded.
pub(crate) const CODE_CHANGED: u8 = 5;

/// Resumes the run in `at` and waits for its end.
pub(super) fn resume_run(words: &[String], at: PathBuf) -> Result<PathBuf, LabError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("resume").arg(&at);
    // Only the address in these words contains the target's password.
    let target = option(words, "--target");
    if let Some(target) = target.filter(|target| !target.contains(":***@")) {
        command.args(["--target", target]);
    }
    match wait(command.stdin(Stdio::null()).spawn()?, &mut || Ok(true))? {
        0 => Ok(at),
        code => Err(LabError::Sweep {
            reason: format!("a run ended with status {code}"),
        }),
    }
}

/// Waits for the end of a run. An interrupt also reaches the run, which then writes its partial
/// results. `began` is called until it returns `true`.
fn wait(
    mut child: std::process::Child,
    began: &mut dyn FnMut() -> Result<bool, LabError>,
) -> Result<i32, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let interrupt = wait_interrupt();
        tokio::pin!(interrupt);
        let (mut has_begun, mut is_told) = (false, false);
        loop {
            if let Some(status) = child.try_wait()? {
                return match status.code() {
                    Some(code) if !is_told || code != 0 => Ok(code),
                    _ => Err(LabError::Sweep {
                        reason: "interrupted".to_owned(),
                    }),
                };
            }
            if !has_begun {
                has_begun = began()?;
            }
            tokio::select! {
                () = &mut interrupt, if !is_told => {
                    is_told = true;
                    let number = i32::try_from(child.id()).ok();
                    if let Some(pid) = number.and_then(rustix::process::Pid::from_raw) {
                        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
                    }
                }
                () = tokio::time::sleep(POLL) => {}
            }
        }
    })
}
