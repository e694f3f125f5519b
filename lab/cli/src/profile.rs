//! The command `profile`: takes stacks of a running process with perf or, if the user asks for it,
//! with gdb.
//!
//! Promises: it affects only the given process; a missing tool or a process of another user is one
//! clear error line. perf slows its target a little, and gdb stops it for each sample, so metrics
//! measured meanwhile should not be quoted.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use lab_kit::folder::write_whole;
use lab_kit::profile::StackCounts;

use crate::errors::LabError;
use crate::output::{make_folder, write_page};

/// Options of `profile`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example, while a run measures the same process:
  quarry-lab profile --pid 4711 --seconds 10 --out profile

Writes stacks.txt (counts in the format of the studies), stacks.collapsed (for other tools) and \
flamegraph.svg.")]
pub(crate) struct ProfileArguments {
    /// Id of the process to profile
    #[arg(long, value_name = "PID")]
    pub(crate) pid: u32,
    /// Seconds to profile, 1 to 3600
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Samples per second, 1 to 999: of each CPU with perf; gdb takes one per second at most,
    /// because it stops the process for each
    #[arg(long, value_name = "N", default_value_t = 49,
        value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) frequency: u32,
    /// Tool that takes the stacks
    #[arg(long, value_enum, default_value = "perf")]
    pub(crate) with: Tool,
    /// Folder for the results
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// What takes the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// perf samples threads that use a CPU
    Perf,
    /// gdb samples all threads, also waiting ones, and stops the process for each sample
    Gdb,
}

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Gdb => "gdb",
        }
    }

    fn run(self, command: &mut Command) -> Result<Output, LabError> {
        command.stdin(Stdio::null()).output().map_err(|error| {
            let text = match (error.kind(), self) {
                (std::io::ErrorKind::NotFound, Self::Perf) => {
                    "perf is not installed; install it (Debian: linux-perf), or use --with gdb"
                        .to_owned()
                }
                (std::io::ErrorKind::NotFound, Self::Gdb) => "gdb is not installed".to_owned(),
                _ => format!("{} cannot be started: {error}", self.name()),
            };
            LabError::Profile(text)
        })
    }

    fn tool_error(self, pid: u32, output: &Output) -> LabError {
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or("it gave no reason")
            .to_owned();
        LabError::Profile(format!(
            "{} cannot profile process {pid}: {reason}",
            self.name()
        ))
    }
}

/// Takes stacks and writes the results.
pub(crate) fn run(arguments: &ProfileArguments) -> Result<(), LabError> {
    let (pid, seconds) = (arguments.pid, arguments.seconds);
    let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm")) else {
        return Err(LabError::Profile(format!("there is no process {pid}")));
    };
    make_folder(&arguments.out)?;
    note_line!("profiling process {pid} ({}) for {seconds} s", name.trim());
    let stacks = match arguments.with {
        Tool::Perf => perf(arguments)?,
        Tool::Gdb => gdb(arguments)?,
    };
    let title = format!("{} (process {pid})", name.trim());
    let kind = match arguments.with {
        Tool::Perf => "samples on CPU",
        Tool::Gdb => "stacks of all threads",
    };
    let about = format!("{} {kind} in {seconds} s", stacks.samples());
    print_line!("{about}");
    write_whole(
        &arguments.out.join("stacks.collapsed"),
        &stacks.format_collapsed(),
    )?;
    write_page(
        &arguments.out.join("stacks.txt"),
        &stacks.as_studies_print(),
    )?;
    write_page(
        &arguments.out.join("flamegraph.svg"),
        &stacks.flame_graph(&title, &about)?,
    )
}

fn perf(arguments: &ProfileArguments) -> Result<StackCounts, LabError> {
    let (data, pid) = (arguments.out.join("perf.data"), arguments.pid.to_string());
    let frequency = arguments.frequency.to_string();
    // Samples the CPU clock, because virtual machines often lack the CPU's counters, and uses
    // DWARF, because release builds have no frame pointers.
    let mut record = Command::new("perf");
    record
        .args([
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "-F",
            &frequency,
            "--call-graph",
            "dwarf,16384",
            "-p",
            &pid,
            "-o",
        ])
        .arg(&data);
    record.args(["--", "sleep", &arguments.seconds.to_string()]);
    let output = Tool::Perf.run(&mut record)?;
    let stacks = if output.status.success() {
        perf_script(&data, arguments.pid)
    } else {
        Err(Tool::Perf.tool_error(arguments.pid, &output))
    };
    // Raw stacks are large and contain nothing else of use.
    let _ = std::fs::remove_file(&data);
    stacks
}

fn perf_script(data: &Path, pid: u32) -> Result<StackCounts, LabError> {
    // Inlined functions are left out, because looking them up takes minutes on large programs.
    let output = Tool::Perf.run(
        Command::new("perf")
            .args([
                "script",
                "--no-inline",
                "-F",
                "comm,pid,tid,time,event,ip,sym,dso",
                "-i",
            ])
            .arg(data),
    )?;
    if !output.status.success() {
        return Err(Tool::Perf.tool_error(pid, &output));
    }
    Ok(StackCounts::from_perf_script(&output.stdout)?)
}

fn gdb(arguments: &ProfileArguments) -> Result<StackCounts, LabError> {
    let pid = arguments.pid.to_string();
    let mut text = String::new();
    for _ in 0..arguments.seconds {
        let mut command = Command::new("gdb");
        command.args([
            "-p",
            &pid,
            "-batch",
            "-nx",
            "-ex",
            "set pagination off",
            "-ex",
            "thread apply all bt 64",
        ]);
        let output = Tool::Gdb.run(&mut command)?;
        let seen = String::from_utf8_lossy(&output.stdout);
        if !seen.contains("#0") {
            return Err(Tool::Gdb.tool_error(arguments.pid, &output));
        }
        text.push_str(&seen);
        text.push('\n');
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(StackCounts::from_gdb(&text)?)
}
