//! Options of `run`, and the settings that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use lab_kit::seed::SeedMode;
use lab_kit::workload::{Assign, Ids, Overrides, Placement};
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, AgentProcess};
use crate::errors::LabError;
use crate::limit::LimitBy;

pub(crate) const EXAMPLES: &str = "\
Examples:
  quarry-lab run insert --target mongodb://127.0.0.1:27017 --preset smoke --out results
  quarry-lab run insert --target mongodb://127.0.0.1:27017 --preset laptop --indexes 3 --clients 4 \
  --journal true --out results
  quarry-lab run hot --target mongodb://127.0.0.1:27017 --preset smoke --clients 8 --seconds 20 \
  --out results
  quarry-lab run forestdb --target 'rocksdb:data/rocksdb?cache=64M' --preset smoke --out results
  quarry-lab run point --target mysql://root@127.0.0.1:3306/ --preset smoke --out results
  quarry-lab target mariadb --dir data/mariadb --engine rocksdb --cache-mb 512
  quarry-lab run point --own quarry,innodb --repeats 3 --clients 1,8 --out results
  quarry-lab run hot --target mongodb://127.0.0.1:27017 --clients 1,2,4,8 --hot-rows 1,2,4 --out \
  results

Several targets, --repeats, --own and one or two options with numbers as lists make one run for \
each combination, in turn, in a folder with one page for all; resume goes on with it.

Exit status: 0 complete and right; 1 could not run; 2 wrong command line; 3 ended early, partial \
report; 4 a check failed.";

/// Options of `run`.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("agents").multiple(true)))]
pub(crate) struct RunArguments {
    /// Workload; `quarry-lab list` shows them, or a file of your own such as ./mine.toml; several
    /// with commas between, `ycsb` for A to F, are one page
    pub(crate) workload: String,
    /// What to measure: mongodb://HOST:PORT, mysql://USER@HOST:PORT/, or ENGINE:DIRECTORY with
    /// rocksdb, rocksdb-library, lmdb, fjall, redb, wiredtiger, forestdb or perconaft
    /// (ENGINE:DIRECTORY?cache=64M&durability=none|lazy|sync, and options of the engine's own);
    /// several times: one page for all
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: String,
    /// Start a private server for each run instead, with stated settings: quarry, innodb or
    /// myrocks (MariaDB), each with settings of its own (quarry:engine=lmdb, innodb:page-kb=4); a
    /// list or several times, also beside other targets
    #[arg(long, value_name = "SERVER")]
    #[serde(default)]
    pub(crate) own: Option<String>,
    /// Options of the engine's own under a name, for rocksdb:, rocksdb-library: and wiredtiger:
    /// targets: a string in its words, or @FILE (rocksdb:, its OPTIONS files); several times: a run
    /// for each, whose page has the settings that differ
    #[arg(long = "engine-options", value_name = "NAME=STRING")]
    #[serde(default)]
    pub(crate) engine_options: Vec<String>,
    /// Runs of each combination of targets and lists, which take turns: A, B, A, B
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[serde(default)]
    pub(crate) repeats: u32,
    /// Repeat only until a change of the rate of so many percent could be found: at least three
    /// times, at most --repeats times
    #[arg(long, value_name = "PERCENT")]
    #[serde(default)]
    pub(crate) find_change: Option<f64>,
    /// Search for the highest rate that keeps a condition, such as p99<10ms: runs at one rate after
    /// the other, --repeats (3) of each
    #[arg(long, value_name = "CONDITION", help_heading = "Load")]
    #[serde(default)]
    pub(crate) find_rate: Option<String>,
    /// Program of --own quarry; without it the one beside this program, or in the search path
    #[arg(long, value_name = "PATH")]
    #[serde(default)]
    pub(crate) quarry: Option<PathBuf>,
    /// Memory for an own server, in MiB, where --memory-mb does not say
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    #[serde(default)]
    pub(crate) own_memory_mb: u64,
    /// Agent on the server's machine (quarry-lab agent) that tells what the server uses
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "agent_token_file",
        group = "agents"
    )]
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// Agents on other machines (quarry-lab agent --load) that make the load of measured steps, a
    /// share of the clients each; with commas between
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        requires = "agent_token_file",
        group = "agents",
        help_heading = "Load"
    )]
    #[serde(default)]
    pub(crate) load_agent: Vec<String>,
    /// File with the secret that the agents have too
    #[arg(long, value_name = "FILE", requires = "agents")]
    #[serde(default)]
    pub(crate) agent_token_file: Option<PathBuf>,
    /// Sizes to start from: smoke, laptop, server or paper
    #[arg(long, default_value = "smoke")]
    pub(crate) preset: String,
    /// Folder for results; a folder per run is made in it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Concurrent clients; a list such as 1,2,4,8 makes a run for each
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) clients: Option<u32>,
    /// Documents per insert command
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) batch: Option<u32>,
    /// Documents to insert in all
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) rows: Option<u64>,
    /// Seconds to measure; an insert ends at --rows or --seconds, whichever comes first
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seconds: Option<u64>,
    /// Seconds to run before measuring
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) warmup_seconds: Option<u64>,
    /// Documents of so many times the memory limit, instead of --rows
    #[arg(long, value_name = "X", conflicts_with = "rows", help_heading = "Size")]
    pub(crate) times_memory: Option<f64>,
    /// Memory for the target and its page cache in MiB: a control group, or else a balloon that
    /// takes the rest
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) memory_mb: Option<u64>,
    /// How memory is limited: the first way that works, unless one is named
    #[arg(long, value_enum, value_name = "WAY", help_heading = "Size")]
    #[serde(default)]
    pub(crate) memory_limit_by: Option<LimitBy>,
    /// Collections
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) tables: Option<u32>,
    /// Databases that the collections lie in, in turn, on MongoDB's protocol
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) databases: Option<u32>,
    /// Bytes of the pad or value, for workloads whose documents have one
    #[arg(long, value_name = "BYTES", help_heading = "Size")]
    pub(crate) payload: Option<u32>,
    /// Rounds of a workload that has them
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) rounds: Option<u32>,
    /// Documents that the workload hot updates
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) hot_rows: Option<u32>,
    /// Whether each client keeps to one hot document or each operation picks one
    #[arg(long, value_enum, help_heading = "Variants of a workload")]
    pub(crate) assign: Option<AssignArgument>,
    /// Tables that the workload collections makes
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) extra_tables: Option<u32>,
    /// Secondary indexes (insert: 0 to 3)
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) indexes: Option<u32>,
    /// Secondary indexes, from the first on, that are unique (insert-grow: 0 or 1)
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) unique_indexes: Option<u32>,
    /// Who makes the ids: the lab in order, the target, or the lab without order
    #[arg(long, value_enum, help_heading = "Variants of a workload")]
    pub(crate) ids: Option<IdsArgument>,
    /// Point reads of neighbours in the order of insertion, one after the other
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) read_batch: Option<u32>,
    /// Whether each update is preceded by a read of its document
    #[arg(long, value_name = "BOOL", help_heading = "Variants of a workload")]
    pub(crate) prefetch: Option<bool>,
    /// Inserting clients wait for storage with every Nth call
    #[arg(long, value_name = "CALLS", help_heading = "Variants of a workload")]
    pub(crate) sync_every: Option<u32>,
    /// Wait after this step until the target is at rest
    #[arg(long, value_name = "STEP", help_heading = "Variants of a workload")]
    pub(crate) settle_after: Option<String>,
    /// Whether the collection of the workload capped is capped
    #[arg(long, value_name = "BOOL", help_heading = "Variants of a workload")]
    pub(crate) capped: Option<bool>,
    /// Whether clients insert into one collection or one each
    #[arg(long, value_enum, help_heading = "Load")]
    pub(crate) placement: Option<PlacementArgument>,
    /// Operations per second in all, on a schedule (open loop); without it each client sends as
    /// soon as it has its reply
    #[arg(long, value_name = "PER_SECOND", help_heading = "Load")]
    pub(crate) rate: Option<f64>,
    /// How calls of an open loop arrive: even, poisson, bursts:COUNT, or recorded:FILE with a time
    /// in seconds on each line
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    #[serde(default)]
    pub(crate) arrivals: Option<String>,
    /// Seed of all random data; by default taken from the clock, and always written into the result
    #[arg(long, value_name = "S", help_heading = "Load")]
    pub(crate) seed: Option<u64>,
    /// How the random data of clients and steps differ; all but fresh repeat themselves
    #[arg(long, value_enum, help_heading = "Load")]
    pub(crate) seed_mode: Option<SeedModeArgument>,
    /// What tells this run from others with the same settings, such as change-log=off; kept in the
    /// result
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    #[serde(default)]
    pub(crate) labels: Vec<(String, String)>,
    /// Shell command that stops the target and starts it again, for the workload collections
    #[arg(long, value_name = "COMMAND", help_heading = "Target")]
    pub(crate) restart_command: Option<String>,
    /// Shell command that runs beside the steps that have a place for it (follow, backup), again
    /// and again: LAB_TARGET is the address, LAB_NUMBER the number of its run; what still runs when
    /// the step ends is told to end
    #[arg(long, value_name = "COMMAND", help_heading = "Target")]
    #[serde(default)]
    pub(crate) program: Option<String>,
    /// Address of the server that the program copies to, which must have the same soon after
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "program",
        help_heading = "Target"
    )]
    #[serde(default)]
    pub(crate) copy: Option<String>,
    /// Write concern: a number or majority
    #[arg(
        long,
        alias = "writeConcern",
        value_name = "W",
        help_heading = "Target"
    )]
    pub(crate) write_concern: Option<String>,
    /// Whether each write waits for the journal (true or false); without it the server decides
    #[arg(long, value_name = "BOOL", help_heading = "Target")]
    pub(crate) journal: Option<bool>,
    /// Database to use
    #[arg(long, default_value = DEFAULT_DB, help_heading = "Target")]
    pub(crate) db: String,
    /// Delete what the workload's collections hold, even outside the default database
    #[arg(long, help_heading = "Target")]
    pub(crate) drop: bool,
    /// Check the command line and list the runs that it means; begin none of them
    #[arg(long, help_heading = "Run")]
    #[serde(skip)]
    pub(crate) plan: bool,
    /// Delete the data when the run has ended
    #[arg(long, help_heading = "Target")]
    pub(crate) clean: bool,
    /// Data directory of a local server, to watch its size and device; asked of the server when not
    /// given
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Seconds after which a call without a reply ends the run
    #[arg(long, value_name = "N", default_value_t = 60, help_heading = "Target")]
    pub(crate) call_timeout_seconds: u64,
    /// Longest wait of a settle step
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1200,
        help_heading = "Target"
    )]
    pub(crate) settle_seconds: u64,
    /// Read what the run in this folder loaded: a part of sweeps
    #[arg(long, value_name = "DIR", hide = true)]
    #[serde(default)]
    pub(crate) loaded_by: Option<PathBuf>,
    /// Keep the state after the load: a part of sweeps
    #[arg(long, hide = true)]
    #[serde(default)]
    pub(crate) keep_state: bool,
}

/// The database that belongs to the lab: its collections are dropped without asking.
pub(crate) const DEFAULT_DB: &str = "quarry_lab";

/// How clients share hot documents.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum AssignArgument {
    /// One each
    Pinned,
    /// Each operation picks one
    Any,
}

/// How clients share collections.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum PlacementArgument {
    /// All in one
    Shared,
    /// One each
    PerClient,
}

/// Who makes ids.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum IdsArgument {
    /// The lab, in order
    Lab,
    /// The target or its driver
    Target,
    /// The lab, without order
    Random,
}

/// How streams of random data differ.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum SeedModeArgument {
    /// By run, step and client
    Fresh,
    /// By step and client
    Fixed,
    /// By run and step
    SharedAcrossThreads,
    /// By client
    LegacyConstant,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("allowed is NAME=VALUE".to_owned()),
    }
}

impl RunArguments {
    /// Longest wait for a reply.
    pub(crate) fn call_timeout(&self) -> Duration {
        Duration::from_secs(self.call_timeout_seconds.max(1))
    }

    /// Longest wait for rest.
    pub(crate) fn settle_time(&self) -> Duration {
        Duration::from_secs(self.settle_seconds)
    }

    /// The server's process by the agent on its machine, if one was given.
    ///
    /// # Errors
    /// The agent is not there, does not know the token, or sees no such process.
    pub(crate) fn agent(&self) -> Result<Option<AgentProcess>, LabError> {
        let given = self.agent.as_deref().zip(self.agent_token_file.as_deref());
        let agent = given.map(|(address, file)| Agent::new(address, file, &self.target));
        agent.transpose()?.map(|agent| agent.open()).transpose()
    }

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
            arrivals: self.arrivals.clone(),
            times_memory: self.times_memory,
            memory_mb: self.memory_mb,
            tables: self.tables,
            databases: self.databases,
            payload: self.payload,
            rounds: self.rounds,
            hot_rows: self.hot_rows,
            assign: self.assign.map(|assign| match assign {
                AssignArgument::Pinned => Assign::Pinned,
                AssignArgument::Any => Assign::Any,
            }),
            limit: None,
            extra_tables: self.extra_tables,
            unique_indexes: self.unique_indexes,
            ids: self.ids.map(|ids| match ids {
                IdsArgument::Lab => Ids::Lab,
                IdsArgument::Target => Ids::Target,
                IdsArgument::Random => Ids::Random,
            }),
            read_batch: self.read_batch,
            seed_mode: self.seed_mode.map(|mode| match mode {
                SeedModeArgument::Fresh => SeedMode::Fresh,
                SeedModeArgument::Fixed => SeedMode::Fixed,
                SeedModeArgument::SharedAcrossThreads => SeedMode::SharedAcrossThreads,
                SeedModeArgument::LegacyConstant => SeedMode::LegacyConstant,
            }),
            sync_every: self.sync_every,
            settle_after: self.settle_after.clone(),
            prefetch: self.prefetch,
            capped: self.capped,
        }
    }
}

/// The command line of a single run, without the program's other subcommands.
#[derive(Debug, Parser)]
#[command(name = "quarry-lab", no_binary_name = true)]
struct RunCommandLine {
    #[command(flatten)]
    run: RunArguments,
}

impl RunArguments {
    /// Parses the words that follow `quarry-lab run`.
    ///
    /// # Errors
    /// The first line of what the parser says.
    pub(crate) fn parse_words(words: &[String]) -> Result<Self, clap::Error> {
        RunCommandLine::try_parse_from(words).map(|line| line.run)
    }
}
