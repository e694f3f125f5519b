//! `quarry follow`: live migration into a server, and the commands for a migration that runs
//! (docs/adr/0073-follow.md).
//!
//! Promises: no line has a password. Must not know: how the source is followed.

mod show;

use crate::failure::Failure;
use crate::output::print_line;
use ::follow::{Address, Cause, Document, FollowError, FollowOutcome, Names, Settings};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// Options of `quarry follow`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FollowArgs {
    /// A command to a running follower.
    #[command(subcommand)]
    pub command: Option<FollowCommand>,
    /// Source of the data: a replica set or sharded cluster of MongoDB 4.2 or later, or another
    /// Quarry, as mongodb://USER@HOST:PORT/ or mongodb+srv://
    #[arg(value_name = "SOURCE", required = true)]
    pub source: Option<String>,
    /// The target.
    #[command(flatten)]
    pub target: Option<TargetArgs>,
    /// File that holds the password of the user in SOURCE
    #[arg(long = "sourcePasswordFile", value_name = "FILE")]
    pub source_password_file: Option<PathBuf>,
    /// Drop the data that an unfinished migration has copied, and start again
    #[arg(long)]
    pub restart: bool,
    /// Read the source's log (local.oplog.rs) instead of change streams, for a source without them;
    /// its user needs to read the database local
    #[arg(long = "by-oplog")]
    pub by_oplog: bool,
    /// Keep the target as a standby of the source, which must be a Quarry: it accepts no writes
    /// until it is promoted
    #[arg(long, conflicts_with_all = ["include", "exclude", "rename"])]
    pub standby: bool,
    /// After the cut-over, continue and copy the target's changes to the source, so that you can go
    /// back; the user in SOURCE then needs to write
    #[arg(long, conflicts_with_all = ["include", "exclude", "rename", "standby"])]
    pub reverse: bool,
    /// The namespaces to follow.
    #[command(flatten)]
    pub names: NamesArgs,
    /// Limits of the load on the source.
    #[command(flatten)]
    pub cost: CostArgs,
}

/// The target.
#[derive(Args, Clone, Debug)]
pub struct TargetArgs {
    /// Server to which the data is copied, as mongodb://USER@HOST:PORT/
    #[arg(long = "to", value_name = "TARGET")]
    pub to: String,
    /// File that holds the password of the user in TARGET
    #[arg(long = "targetPasswordFile", value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// A choice of namespaces.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is followed")]
pub struct NamesArgs {
    /// Database or namespace to copy, in which * stands for any characters; repeat the option for
    /// several [default: all]
    #[arg(long, value_name = "NAME")]
    pub include: Vec<String>,
    /// Database or namespace to leave out, in which * stands for any characters; repeat the option
    /// for several
    #[arg(long, value_name = "NAME")]
    pub exclude: Vec<String>,
    /// Name in the target that differs from the source's, as DB=DB or DB.COLLECTION=DB.COLLECTION;
    /// repeat the option for several
    #[arg(long, value_name = "FROM=TO")]
    pub rename: Vec<String>,
    /// Copy users and roles, too, at the cut-over; those that the target already has are not
    /// changed
    #[arg(long)]
    pub users: bool,
}

/// Bounds.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "What it may cost")]
pub struct CostArgs {
    /// Limit of the copying rate in bytes per second, such as 50M [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<String>,
    /// Highest average latency of the source's writes in milliseconds; while it is exceeded,
    /// copying and comparing slow down [default: no limit]
    #[arg(long = "max-latency", value_name = "MS",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub max_latency: Option<u32>,
    /// Parts of the data that are copied at once, 1 to 64
    #[arg(long, value_name = "COUNT", default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub parallel: u16,
}

/// Commands to a running follower.
#[derive(Subcommand, Clone, Debug)]
pub enum FollowCommand {
    /// Show the progress of the follower
    Status(StatusArgs),
    /// Promote a standby to primary
    Promote(PromoteArgs),
    /// Apply the last change, compare source and target, and end the following
    Cutover(CutoverArgs),
    /// Stop the follower; the same `quarry follow` command continues its work
    Stop(TargetArgs),
}

/// Options of `quarry follow status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// The target.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `quarry follow cutover`.
#[derive(Args, Clone, Debug)]
pub struct CutoverArgs {
    /// The target.
    #[command(flatten)]
    pub target: TargetArgs,
    /// How writes to the source are stopped.
    #[command(flatten)]
    pub quiet: QuietArgs,
}

/// Options of `quarry follow promote`.
#[derive(Args, Clone, Debug)]
pub struct PromoteArgs {
    /// The standby.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Promote even if the source does not answer or the standby is behind; writes that the source
    /// has acknowledged may be lost
    #[arg(long)]
    pub force: bool,
}

/// How writes to the source are stopped: one of the two ways.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct QuietArgs {
    /// Confirm that you have stopped all writes to the source
    #[arg(long = "source-is-quiet")]
    pub source_is_quiet: bool,
    /// Block the source's writes by setUserWriteBlockMode or, before 6.0, fsyncLock; they stay
    /// blocked afterwards
    #[arg(long)]
    pub fence: bool,
}

impl From<FollowError> for Failure {
    fn from(e: FollowError) -> Failure {
        match e.cause {
            Cause::Options => Failure::of_options(e.message),
            Cause::Network => Failure::of_network(e.message),
            Cause::Data => Failure::of_data(e.message),
        }
    }
}

fn address(uri: &str, password_file: Option<&Path>) -> Result<Address, Failure> {
    let read = |file: &Path| {
        let text = std::fs::read_to_string(file);
        let text =
            text.map_err(|e| Failure::of_options(format!("cannot read {}: {e}", file.display())))?;
        Ok::<_, Failure>(text.trim_end_matches(['\r', '\n']).to_owned())
    };
    let password = password_file.map(read).transpose()?;
    Ok(Address::new(uri, password.as_deref()))
}

impl TargetArgs {
    fn address(&self) -> Result<Address, Failure> {
        address(&self.to, self.password_file.as_deref())
    }
}

impl FollowArgs {
    fn settings(&self) -> Result<Settings, Failure> {
        let missing = |what: &str| Failure::of_options(format!("{what} is missing"));
        let source = self.source.as_deref().ok_or_else(|| missing("SOURCE"))?;
        let target = self.target.as_ref().ok_or_else(|| missing("--to"))?;
        let rate = self.cost.rate.as_deref().map(|text| {
            let bytes = crate::memory::size(text).filter(|bytes| *bytes > 0);
            bytes.ok_or_else(|| {
                Failure::of_options(format!(
                    "rate must be a number of bytes per second above 0, such as 50M, given {text}"
                ))
            })
        });
        let names = &self.names;
        Ok(Settings {
            source: address(source, self.source_password_file.as_deref())?,
            target: target.address()?,
            names: Names::new(&names.include, &names.exclude, &names.rename)?,
            rate: rate.transpose()?,
            latency: { self.cost.max_latency }
                .map(|ms| std::time::Duration::from_millis(u64::from(ms))),
            workers: usize::from(self.cost.parallel),
            restart: self.restart,
            by_log: self.by_oplog,
            users: names.users,
            standby: self.standby,
            reverse: self.reverse,
        })
    }
}

/// Runs the command; `tell` is given lines for people.
///
/// # Errors
/// One line and an exit code.
pub fn run(args: &FollowArgs, print_message: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    match &args.command {
        None => match ::follow::run(&args.settings()?, print_message)? {
            FollowOutcome::Stopped | FollowOutcome::Done => Ok(()),
        },
        Some(FollowCommand::Stop(target)) => Ok(::follow::stop(&target.address()?, print_message)?),
        Some(FollowCommand::Cutover(args)) => {
            let target = args.target.address()?;
            let report = ::follow::cut_over(&target, args.quiet.fence, print_message)?;
            show::report(&report)
                .iter()
                .for_each(|line| print_message(line));
            Ok(())
        }
        Some(FollowCommand::Promote(args)) => {
            let report = ::follow::promote(&args.target.address()?, args.force)?;
            print_message(&show::promotion(&report));
            Ok(())
        }
        Some(FollowCommand::Status(args)) => {
            let status: Document = ::follow::status(&args.target.address()?)?;
            match args.json {
                true => print_line(format_args!("{}", show::json(&status))),
                false => show::status(&status)
                    .iter()
                    .for_each(|line| print_message(line)),
            }
            Ok(())
        }
    }
}
