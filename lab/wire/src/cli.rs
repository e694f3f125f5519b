//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use lab_kit::format;
use lab_kit::workload::{Overrides, Placement, Workload};

use crate::errors::LabError;

const EXAMPLES: &str = "\
Examples:
  quarry-lab run insert --target mongodb://127.0.0.1:27017 --preset smoke --out results
  quarry-lab run insert --target mongodb://127.0.0.1:27017 --preset laptop --indexes 3 --clients 4 --journal true --out results
  quarry-lab run hot --target mongodb://127.0.0.1:27017 --preset smoke --clients 8 --seconds 20 --out results

Exit status: 0 complete and right; 1 could not run; 2 wrong command line; 3 ended early, partial report; 4 a check failed.";

/// The benchmark lab of Quarry.
#[derive(Debug, Parser)]
#[command(name = "quarry-lab", version, about, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a workload and write its report
    Run(Box<RunArguments>),
    /// List workloads and presets
    List,
    /// Draw report.html again from a result
    Report {
        /// Folder of a run (with result.json), or the file itself
        folder: PathBuf,
    },
}

/// Options of `run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArguments {
    /// Workload; `quarry-lab list` shows them
    pub(crate) workload: String,
    /// Connection string of the server to measure
    #[arg(long, value_name = "URI")]
    pub(crate) target: String,
    /// Sizes to start from: smoke, laptop, server or paper
    #[arg(long, default_value = "smoke")]
    pub(crate) preset: String,
    /// Folder for results; a folder per run is made in it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Concurrent clients
    #[arg(long, value_name = "N")]
    pub(crate) clients: Option<u32>,
    /// Documents per insert command
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u32>,
    /// Documents to insert in all
    #[arg(long, value_name = "N")]
    pub(crate) rows: Option<u64>,
    /// Seconds to measure; an insert ends at --rows or --seconds, whichever comes first
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Seconds to run before measuring
    #[arg(long, value_name = "N")]
    pub(crate) warmup_seconds: Option<u64>,
    /// Secondary indexes to make before the load (insert: 0 to 3)
    #[arg(long, value_name = "N")]
    pub(crate) indexes: Option<u32>,
    /// Whether clients insert into one collection or one each
    #[arg(long, value_enum)]
    pub(crate) placement: Option<PlacementArgument>,
    /// Operations per second in all, on a schedule (open loop); without it each client sends as soon as it has its reply
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// Seed of all random data; by default taken from the clock, and always written into the result
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Write concern: a number or majority
    #[arg(long, alias = "writeConcern", value_name = "W")]
    pub(crate) write_concern: Option<String>,
    /// Whether each write waits for the journal (true or false); without it the server decides
    #[arg(long, value_name = "BOOL")]
    pub(crate) journal: Option<bool>,
    /// Database to use
    #[arg(long, default_value = DEFAULT_DB)]
    pub(crate) db: String,
    /// Delete what the workload's collections hold, even outside the default database
    #[arg(long)]
    pub(crate) drop: bool,
    /// Delete the data when the run has ended
    #[arg(long)]
    pub(crate) clean: bool,
    /// Data directory of a local server, to watch its size and device; asked of the server when not given
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Seconds after which a call without a reply ends the run
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) call_timeout_seconds: u64,
}

/// The database that belongs to the lab: its collections are dropped without asking.
pub(crate) const DEFAULT_DB: &str = "quarry_lab";

/// How clients share collections.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PlacementArgument {
    /// All in one
    Shared,
    /// One each
    PerClient,
}

impl RunArguments {
    /// The settings given on the command line.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            rows: self.rows,
            clients: self.clients,
            batch: self.batch,
            seconds: self.seconds,
            warmup_seconds: self.warmup_seconds,
            indexes: self.indexes,
            placement: self.placement.map(|placement| match placement {
                PlacementArgument::Shared => Placement::Shared,
                PlacementArgument::PerClient => Placement::PerClient,
            }),
            rate: self.rate,
        }
    }
}

/// Prints workloads and presets.
pub(crate) fn list() -> Result<(), LabError> {
    for workload in Workload::all()? {
        println!("{}: {}", workload.name, workload.title);
        println!("  {}", workload.about);
        println!("  Source: {}", workload.source);
        for (name, settings) in workload.presets() {
            let seconds = settings
                .seconds
                .map_or_else(String::new, |seconds| format!(", {seconds} s"));
            println!(
                "    {name:<7} {} rows, {} clients, batch {}{seconds}",
                format::count(settings.rows),
                settings.clients,
                settings.batch
            );
        }
        println!();
    }
    Ok(())
}

/// Draws a page again.
pub(crate) fn report(folder: &Path) -> Result<(), LabError> {
    let result = lab_kit::folder::read_result(folder)?;
    let directory = if folder.is_dir() {
        folder
    } else {
        folder.parent().unwrap_or(Path::new("."))
    };
    let page = directory.join("report.html");
    lab_kit::folder::write_whole(&page, &lab_kit::report::page(&result))?;
    println!("{}", page.display());
    Ok(())
}
