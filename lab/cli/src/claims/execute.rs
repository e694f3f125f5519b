//! Makes the runs one after the other, shows the remaining time, and ends in good order if the user
//! or the system asks for it.

use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab_kit::format;
use lab_kit::result::RunResult;

use super::arguments::{ClaimsArguments, RUNS};
use super::plan::{ClaimsPlan, RunSpec, RunTarget};
use crate::errors::LabError;

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The folder of the servers that the lab starts.
const SERVERS: &str = "servers";

/// Makes the runs that `done` lacks; returns whether it was interrupted.
pub(super) fn runs(
    arguments: &ClaimsArguments,
    plan: ClaimsPlan,
    done: &[RunResult],
    out: &Path,
) -> Result<bool, LabError> {
    let (open, used) = plan.open(done);
    let again = if used > 0 {
        format!("; {used} exist already")
    } else {
        String::new()
    };
    note_line!(
        "runs to make: {}, preset {}{again}",
        open.len(),
        arguments.preset
    );
    let stop = watch_for_interrupts()?;
    let mut clock = Clock::default();
    for (number, spec) in open.iter().enumerate() {
        let left = clock.estimate_remaining(open.get(number..).unwrap_or_default());
        let left = left.map_or_else(String::new, |left| {
            format!(", about {} left", format::seconds(left.as_secs_f64()))
        });
        note_line!(
            "run {} of {}: {}{left}",
            number + 1,
            open.len(),
            spec.describe()
        );
        let begun = Instant::now();
        match make(arguments, spec, out, &stop) {
            Ok(None) => {}
            Ok(Some(problem)) => note_line!("that run {problem}; it does not count"),
            Err(error) => note_line!("that run failed: {error}"),
        }
        if stop.load(Ordering::Acquire) {
            note_line!(
                "interrupted; quarry-lab claims --resume {} continues",
                out.display()
            );
            return Ok(true);
        }
        clock.took(spec, begun.elapsed());
    }
    Ok(false)
}

/// Makes one run; returns its error, if there was one.
fn make(
    arguments: &ClaimsArguments,
    spec: &RunSpec,
    out: &Path,
    stop: &AtomicBool,
) -> Result<Option<String>, LabError> {
    let server = match &spec.target {
        RunTarget::Own(variant) => Some(variant.start(arguments, &out.join(SERVERS))?),
        RunTarget::Address(_) => None,
    };
    let address = match (&spec.target, &server) {
        (_, Some(server)) => &server.address,
        (RunTarget::Address(address), None) => address,
        (RunTarget::Own(variant), None) => {
            return Ok(Some(format!("has no server {}", variant.name())));
        }
    };
    let mut words = spec.command(arguments, address, &out.join(RUNS).display().to_string());
    if let Some(server) = &server {
        words.extend([
            "--restart-command".to_owned(),
            server.restart_command.clone(),
        ]);
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .spawn()?;
    let mut told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((!status.success())
                .then(|| format!("ended with status {}", status.code().unwrap_or(-1))));
        }
        if stop.load(Ordering::Acquire) && !told {
            end(&child);
            told = true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Asks a run to end; it writes a partial report and its checkpoint.
fn end(child: &Child) {
    // Ctrl-C in a terminal has already signalled the child; a second signal does no harm.
    let _ = rustix::process::kill_process(Pid::from_child(child), Signal::TERM);
}

/// Set once the user or the system asks for an end.
fn watch_for_interrupts() -> Result<Arc<AtomicBool>, LabError> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let flag = stop.clone();
    std::thread::spawn(move || {
        runtime.block_on(crate::interrupt::wait_interrupt());
        flag.store(true, Ordering::Release);
    });
    Ok(stop)
}

/// The durations of runs so far, for estimating the remaining time.
#[derive(Default)]
struct Clock {
    seen: BTreeMap<String, Duration>,
    total: Duration,
    runs: u32,
}

impl Clock {
    fn took(&mut self, spec: &RunSpec, time: Duration) {
        self.seen.insert(spec.describe(), time);
        self.total += time;
        self.runs += 1;
    }

    /// The estimated remaining time. A run takes as long as earlier runs of its kind, or else as
    /// long as the average.
    fn estimate_remaining(&self, open: &[&RunSpec]) -> Option<Duration> {
        let average = self.total.checked_div(self.runs)?;
        Some(
            open.iter()
                .map(|spec| self.seen.get(&spec.describe()).copied().unwrap_or(average))
                .sum(),
        )
    }
}
