//! The user's program that runs during a step: a backup, a migration, a report.
//!
//! Promises: the shell runs the program again and again while clients work. A program that still
//! runs at the end of the step is told to end, with all processes that it started. Its output is in
//! `program.log` of the run's folder.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab_kit::result::{Check, ProgramRuns};
use rustix::process::{Pid, Signal, kill_process_group};

/// The polling interval of the process.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a program may take to end after it was told to.
const END_MAX: Duration = Duration::from_secs(30);
/// The number of failed runs after which the program is not started again.
const FAILED_MAX: u64 = 3;

/// The program to run.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The command for the shell.
    pub(super) command: String,
    /// The address of the target.
    pub(super) target: String,
    /// The folder of the run.
    pub(super) folder: PathBuf,
}

/// A running program.
pub(super) struct Program {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<ProgramRuns, String>>,
}

/// How one execution ended.
enum ProgramOutcome {
    Whole,
    Failed,
    Killed,
}

impl Program {
    /// Starts the program.
    pub(super) fn begin(task: Task) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_over = is_over.clone();
            move || repeat(&task, &is_over)
        });
        Self { is_over, thread }
    }

    /// Tells the program to end, and returns the results of its runs.
    pub(super) async fn end(self) -> (ProgramRuns, Check) {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread;
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        let runs = match joined {
            Ok(Ok(runs)) => runs,
            _ => Err("it could not be observed".to_owned()),
        };
        let mut check = Check {
            name: "runs of the program that failed".to_owned(),
            expected: "0".to_owned(),
            ..Check::default()
        };
        match runs {
            Ok(runs) => {
                check.found = runs.failed.to_string();
                check.passed = Some(runs.failed == 0);
                check.remark = format!("{} whole; what it said is in program.log", runs.whole);
                (runs, check)
            }
            Err(reason) => {
                (check.found, check.passed) = (reason, Some(false));
                (ProgramRuns::default(), check)
            }
        }
    }
}

fn repeat(task: &Task, is_over: &AtomicBool) -> Result<ProgramRuns, String> {
    let mut out = ProgramRuns::default();
    let (cpu_before, mut seconds) = (cpu_of_children(), 0.0);
    for number in 1.. {
        let begun = Instant::now();
        let child = start(task, number).map_err(|error| format!("it cannot be run: {error}"))?;
        match wait(child, is_over).map_err(|error| format!("it cannot be waited for: {error}"))? {
            ProgramOutcome::Whole => {
                out.whole += 1;
                seconds += begun.elapsed().as_secs_f64();
            }
            ProgramOutcome::Failed => out.failed += 1,
            ProgramOutcome::Killed => out.was_ended = true,
        }
        if is_over.load(Ordering::Relaxed) || out.failed >= FAILED_MAX {
            break;
        }
    }
    out.seconds_mean = (out.whole > 0).then(|| seconds / out.whole as f64);
    out.cpu_seconds = (cpu_of_children() - cpu_before).max(0.0);
    Ok(out)
}

fn start(task: &Task, number: u64) -> std::io::Result<Child> {
    let log = open_log(&task.folder)?;
    Command::new("sh")
        .args(["-c", &task.command])
        .env("LAB_TARGET", &task.target)
        .env("LAB_NUMBER", number.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
}

fn open_log(folder: &Path) -> std::io::Result<File> {
    let path = folder.join("program.log");
    OpenOptions::new().create(true).append(true).open(path)
}

/// Waits until the program ends, or tells it to end.
fn wait(mut child: Child, is_over: &AtomicBool) -> std::io::Result<ProgramOutcome> {
    let mut told: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            let is_whole = status.success();
            return Ok(match told {
                // The program was told to end, so its status does not matter.
                Some(_) => ProgramOutcome::Killed,
                None if is_whole => ProgramOutcome::Whole,
                None => ProgramOutcome::Failed,
            });
        }
        let is_late = told.is_some_and(|told| told.elapsed() > END_MAX);
        if is_late || told.is_none() && is_over.load(Ordering::Relaxed) {
            let signal = if is_late { Signal::KILL } else { Signal::TERM };
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(pid, signal);
            }
            told.get_or_insert_with(Instant::now);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// CPU seconds of all processes that this one started and that have ended.
fn cpu_of_children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Fields 16 and 17 of the whole line; a tick is 10 ms on every Linux that the lab supports.
    let ticks = fields.split(' ').skip(13).take(2);
    let ticks: f64 = ticks.filter_map(|one| one.parse::<f64>().ok()).sum();
    ticks / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_for(command: &str, time: Duration) -> (ProgramRuns, Check, String) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let program = Program::begin(Task {
            command: command.to_owned(),
            target: "mongodb://here".to_owned(),
            folder: folder.path().to_owned(),
        });
        std::thread::sleep(time);
        let (runs, check) = runtime.block_on(program.end());
        let said = std::fs::read_to_string(folder.path().join("program.log")).unwrap();
        (runs, check, said)
    }

    #[test]
    fn a_program_that_ends_is_run_again_and_one_that_does_not_is_ended() {
        let command = "echo $LAB_TARGET $LAB_NUMBER; sleep 0.1";
        let (runs, check, said) = run_for(command, Duration::from_millis(700));
        assert!(runs.whole >= 2 && runs.failed == 0, "{runs:?}");
        assert!(said.starts_with("mongodb://here 1\nmongodb://here 2\n"));
        assert_eq!(check.passed, Some(true), "{check:?}");
        let begun = Instant::now();
        let (runs, check, _) = run_for("sleep 100 & sleep 100", Duration::from_millis(100));
        assert!(runs.was_ended && runs.whole == 0, "{runs:?}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(check.passed, Some(true), "{check:?}");
    }

    #[test]
    fn a_program_that_fails_makes_the_run_wrong() {
        let (runs, check, said) = run_for("echo no; exit 3", Duration::from_millis(500));
        assert_eq!((runs.failed, runs.whole), (FAILED_MAX, 0), "{runs:?}");
        assert_eq!(check.passed, Some(false), "{check:?}");
        assert_eq!(said, "no\n".repeat(3));
    }
}
