//! Options of the log, of the process and of what counts as slow. Promises: an option of mongod's
//! works as there or is refused by name.

use clap::{ArgAction, Args};
use logs::{Rotate, Target};
use serde::Deserialize;
use std::path::PathBuf;

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Log and process")]
pub struct LogArgs {
    /// Log file; an existing file is renamed unless --logappend is given [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub logpath: Option<PathBuf>,
    /// Append to an existing log file instead of renaming it
    #[arg(long)]
    pub logappend: bool,
    /// How logRotate and SIGUSR1 rotate the log file: rename renames it, reopen opens its name
    /// again after another program has renamed it [default: rename]
    #[arg(long = "logRotate", value_name = "HOW")]
    pub log_rotate: Option<String>,
    /// Do not log connections, client metadata, and dropped collections and indexes
    #[arg(long)]
    pub quiet: bool,
    /// Log more detail; repeat it up to five times (-vvvvv)
    #[arg(long, short = 'v', action = ArgAction::Count)]
    pub verbose: u8,
    /// Replace all values of clients in the log by ###
    #[arg(long = "redactClientLogData")]
    pub redact_client_log_data: bool,
    /// Run in the background; the command ends once the server listens. Needs --logpath
    #[arg(long)]
    pub fork: bool,
    /// File for the process id; the server removes it when it ends
    #[arg(long = "pidfilepath", value_name = "FILE")]
    pub pidfilepath: Option<PathBuf>,
    /// Operations that every database records in system.profile: 0 none, 1 slow ones, 2 all; the
    /// command profile changes the level of one database [default: 0]
    #[arg(long, value_name = "LEVEL")]
    pub profile: Option<i32>,
    /// Milliseconds after which an operation counts as slow [default: 100]
    #[arg(long, value_name = "MS")]
    pub slowms: Option<i32>,
    /// Share of the slow operations that is logged and recorded, from 0 to 1 [default: 1]
    #[arg(long = "slowOpSampleRate", value_name = "SHARE")]
    pub slow_op_sample_rate: Option<f64>,
    /// Not supported; give --logpath, or collect standard error
    #[arg(long, hide = true)]
    pub syslog: bool,
}

/// `systemLog` of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SystemLog {
    verbosity: Option<u8>,
    quiet: bool,
    trace_all_exceptions: bool,
    syslog_facility: Option<String>,
    path: Option<PathBuf>,
    log_append: bool,
    log_rotate: Option<String>,
    destination: Option<String>,
    time_stamp_format: Option<String>,
    component: Option<serde_yaml_ng::Value>,
}

/// `processManagement` of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ProcessManagement {
    fork: bool,
    pid_file_path: Option<PathBuf>,
}

/// `operationProfiling` of the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct OperationProfiling {
    mode: Option<String>,
    slow_op_threshold_ms: Option<i32>,
    slow_op_sample_rate: Option<f64>,
}

/// The sections of the file that say what [`LogArgs`] says.
pub(super) struct Sections {
    pub(super) log: Option<SystemLog>,
    pub(super) process: Option<ProcessManagement>,
    pub(super) profiling: Option<OperationProfiling>,
    pub(super) redact: bool,
}

/// The effective settings of the log.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct LogConfig {
    /// `None` is standard error.
    pub path: Option<PathBuf>,
    pub append: bool,
    pub rotate: Rotate,
    pub quiet: bool,
    pub verbosity: u8,
    pub redact: bool,
    pub fork: bool,
    pub pid_file: Option<PathBuf>,
    /// Level of every database's profile.
    pub profile: i32,
    pub slow_ms: Option<i32>,
    pub slow_sample_rate: Option<f64>,
}

impl LogConfig {
    /// From the command line and the file.
    pub(super) fn of(args: &LogArgs, file: Sections) -> Result<LogConfig, String> {
        let (log, process) = (
            file.log.unwrap_or_default(),
            file.process.unwrap_or_default(),
        );
        let profiling = file.profiling.unwrap_or_default();
        refuse(args, &log)?;
        let path = args.logpath.clone().or(log.path);
        let rotate = args.log_rotate.clone().or(log.log_rotate);
        let logging = LogConfig {
            append: args.logappend || log.log_append,
            rotate: rotation(rotate.as_deref())?,
            quiet: args.quiet || log.quiet,
            verbosity: args.verbose.max(log.verbosity.unwrap_or(0)),
            redact: args.redact_client_log_data || file.redact,
            fork: args.fork || process.fork,
            pid_file: args.pidfilepath.clone().or(process.pid_file_path),
            profile: profile_level(args.profile, profiling.mode.as_deref())?,
            slow_ms: args.slowms.or(profiling.slow_op_threshold_ms),
            slow_sample_rate: args.slow_op_sample_rate.or(profiling.slow_op_sample_rate),
            path,
        };
        logging.check()?;
        Ok(logging)
    }

    fn check(&self) -> Result<(), String> {
        if self.path.is_none() {
            let needs = [
                (self.fork, "fork"),
                (self.append, "logappend"),
                (self.rotate == Rotate::Reopen, "logRotate reopen"),
            ];
            if let Some((_, name)) = needs.iter().find(|(given, _)| *given) {
                return Err(format!("{name} needs a log file: give --logpath"));
            }
        }
        if self.rotate == Rotate::Reopen && !self.append {
            return Err("logRotate reopen needs logappend".to_owned());
        }
        if self.verbosity > 5 {
            let given = self.verbosity;
            return Err(format!(
                "the log's verbosity must be from 0 to 5, given {given}"
            ));
        }
        match self.slow_sample_rate {
            Some(rate) if !(0.0..=1.0).contains(&rate) => Err(format!(
                "slowOpSampleRate must be from 0 to 1, given {rate}"
            )),
            _ => Ok(()),
        }
    }

    /// Where log lines go.
    pub fn target(&self) -> Target {
        match &self.path {
            None => Target::Stderr,
            Some(path) => Target::File {
                path: path.clone(),
                append: self.append,
                rotate: self.rotate,
            },
        }
    }
}

/// Refuses options that mongod has and this server has not.
fn refuse(args: &LogArgs, log: &SystemLog) -> Result<(), String> {
    let to_syslog = log.destination.as_deref() == Some("syslog");
    if args.syslog || to_syslog || log.syslog_facility.is_some() {
        return Err("syslog is not supported: give --logpath, or collect standard error".into());
    }
    match log.destination.as_deref() {
        None | Some("file") => {}
        Some(other) => {
            return Err(format!(
                "systemLog.destination must be file, given {other}; without it the log goes to \
                 standard error"
            ));
        }
    }
    if log.destination.is_some() && log.path.is_none() && args.logpath.is_none() {
        return Err("systemLog.destination file needs systemLog.path".to_owned());
    }
    if log.trace_all_exceptions {
        return Err("systemLog.traceAllExceptions is not supported".to_owned());
    }
    if log.component.is_some() {
        return Err(
            "systemLog.component is not supported: systemLog.verbosity is that of all \
                    components"
                .to_owned(),
        );
    }
    match log.time_stamp_format.as_deref() {
        None | Some("iso8601-utc") => Ok(()),
        Some(other) => Err(format!(
            "systemLog.timeStampFormat {other} is not supported: times are iso8601-utc"
        )),
    }
}

fn rotation(how: Option<&str>) -> Result<Rotate, String> {
    match how {
        None | Some("rename") => Ok(Rotate::Rename),
        Some("reopen") => Ok(Rotate::Reopen),
        Some(other) => Err(format!("logRotate must be rename or reopen, given {other}")),
    }
}

fn profile_level(level: Option<i32>, mode: Option<&str>) -> Result<i32, String> {
    let of_file = match mode {
        None | Some("off") => 0,
        Some("slowOp") => 1,
        Some("all") => 2,
        Some(other) => {
            return Err(format!(
                "operationProfiling.mode must be off, slowOp or all, given {other}"
            ));
        }
    };
    let level = level.unwrap_or(of_file);
    if (0..=2).contains(&level) {
        Ok(level)
    } else {
        Err(format!("profile must be 0, 1 or 2, given {level}"))
    }
}
