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

Several targets, --repeats, --own and lists of numbers in one or two options make one run for each \
combination. The runs take turns and share a folder and a page; `quarry-lab resume` continues them.

Exit status: 0 complete, all checks passed; 1 could not run; 2 wrong command line; 3 ended early, \
with a partial report; 4 a check failed.";

/// Options of `run`.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("agents").multiple(true)))]
pub(crate) struct RunArguments {
    /// Workload: a name that `quarry-lab list` shows, `ycsb` for the workloads A to F of YCSB, or a
    /// file such as ./mine.toml; several, separated by commas, share one page
    pub(crate) workload: String,
    /// Target to measure: mongodb://HOST:PORT, mysql://USER@HOST:PORT/, or ENGINE:DIRECTORY, where
    /// ENGINE is rocksdb, rocksdb-library, lmdb, fjall, redb, wiredtiger, forestdb or perconaft;
    /// options follow the directory (ENGINE:DIRECTORY?cache=64M&durability=none|lazy|sync). Repeat
    /// the option to measure several targets on one page
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: String,
    /// Start a private server with known settings for each run: quarry, innodb or myrocks (both of
    /// MariaDB), with options after a colon (quarry:engine=lmdb, innodb:page-kb=4). Give several as
    /// a list or by repeating the option, also together with --target
    #[arg(long, value_name = "SERVER")]
    #[serde(default)]
    pub(crate) own: Option<String>,
    /// Options of the engine under a name, for rocksdb:, rocksdb-library: and wiredtiger: targets,
    /// in the engine's own syntax; @FILE names an OPTIONS file of RocksDB (rocksdb: only). Each
    /// repetition of the option makes a run of its own; the page lists the settings that differ
    #[arg(long = "engine-options", value_name = "NAME=STRING")]
    #[serde(default)]
    pub(crate) engine_options: Vec<String>,
    /// Number of runs of each combination of targets and lists; combinations take turns (A, B, A,
    /// B)
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[serde(default)]
    pub(crate) repeats: u32,
    /// Stop repeating when the runs are enough to detect a change of the rate by PERCENT; at least
    /// three runs, at most --repeats
    #[arg(long, value_name = "PERCENT")]
    #[serde(default)]
    pub(crate) find_change: Option<f64>,
    /// Search for the highest rate that fulfils a condition such as p99<10ms; each rate is run
    /// --repeats times (3 unless given)
    #[arg(long, value_name = "CONDITION", help_heading = "Load")]
    #[serde(default)]
    pub(crate) find_rate: Option<String>,
    /// Program file of the server of --own quarry [default: quarry beside this program, or in PATH]
    #[arg(long, value_name = "PATH")]
    #[serde(default)]
    pub(crate) quarry: Option<PathBuf>,
    /// Memory of a server of --own in MiB, if --memory-mb is not given
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    #[serde(default)]
    pub(crate) own_memory_mb: u64,
    /// Agent on the target's machine (quarry-lab agent) that reports the resources that the target
    /// uses
    #[arg(
        long,
        value_name = "HOST:PORT",
        requires = "agent_token_file",
        group = "agents"
    )]
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// Agents on other machines (quarry-lab agent --load), separated by commas, that generate the
    /// load of measured steps; each runs a share of the clients
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
    /// File with the secret that the agents share with this program
    #[arg(long, value_name = "FILE", requires = "agents")]
    #[serde(default)]
    pub(crate) agent_token_file: Option<PathBuf>,
    /// Preset of sizes, which other options change: smoke, laptop, server or paper
    #[arg(long, default_value = "smoke")]
    pub(crate) preset: String,
    /// Folder for results; each run creates a folder in it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Number of concurrent clients; a list such as 1,2,4,8 makes a run for each number
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) clients: Option<u32>,
    /// Documents per insert command
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) batch: Option<u32>,
    /// Total number of documents to insert
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) rows: Option<u64>,
    /// Seconds to measure; an insert ends at --rows or --seconds, whichever is reached first
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seconds: Option<u64>,
    /// Seconds to run before measuring
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) warmup_seconds: Option<u64>,
    /// Size of the data as a multiple of --memory-mb, instead of --rows
    #[arg(long, value_name = "X", conflicts_with = "rows", help_heading = "Size")]
    pub(crate) times_memory: Option<f64>,
    /// Memory limit of the target and its page cache in MiB, enforced by a control group or by a
    /// balloon, a process that holds the rest of the machine's memory
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) memory_mb: Option<u64>,
    /// How the memory is limited [default: the first way that works]
    #[arg(long, value_enum, value_name = "WAY", help_heading = "Size")]
    #[serde(default)]
    pub(crate) memory_limit_by: Option<LimitBy>,
    /// Number of collections
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) tables: Option<u32>,
    /// Number of databases over which the collections are spread in turn (mongodb:// targets only)
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) databases: Option<u32>,
    /// Bytes of the field pad or value, for workloads whose documents have one
    #[arg(long, value_name = "BYTES", help_heading = "Size")]
    pub(crate) payload: Option<u32>,
    /// Number of rounds, for workloads with rounds
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) rounds: Option<u32>,
    /// Number of documents that the workload hot updates
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) hot_rows: Option<u32>,
    /// How the workload hot assigns documents to clients
    #[arg(long, value_enum, help_heading = "Variants of a workload")]
    pub(crate) assign: Option<AssignArgument>,
    /// Number of collections that the workload collections creates
    #[arg(long, value_name = "N", help_heading = "Size")]
    pub(crate) extra_tables: Option<u32>,
    /// Number of secondary indexes (workload insert: 0 to 3)
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) indexes: Option<u32>,
    /// Number of unique secondary indexes, counted from the first (workload insert-grow: 0 or 1)
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) unique_indexes: Option<u32>,
    /// How document ids are generated [default: as the workload says]
    #[arg(long, value_enum, help_heading = "Variants of a workload")]
    pub(crate) ids: Option<IdsArgument>,
    /// Number of point reads in a batch; a batch reads neighbours in the order of insertion, one
    /// after the other
    #[arg(long, value_name = "N", help_heading = "Variants of a workload")]
    pub(crate) read_batch: Option<u32>,
    /// Read each document before it is updated (true or false)
    #[arg(long, value_name = "BOOL", help_heading = "Variants of a workload")]
    pub(crate) prefetch: Option<bool>,
    /// Wait until the data is on storage with every CALLS-th call of an inserting client
    #[arg(long, value_name = "CALLS", help_heading = "Variants of a workload")]
    pub(crate) sync_every: Option<u32>,
    /// Wait after this step until the target is idle
    #[arg(long, value_name = "STEP", help_heading = "Variants of a workload")]
    pub(crate) settle_after: Option<String>,
    /// Create a capped collection in the workload capped (true or false) [default: true]
    #[arg(long, value_name = "BOOL", help_heading = "Variants of a workload")]
    pub(crate) capped: Option<bool>,
    /// How clients share collections
    #[arg(long, value_enum, help_heading = "Load")]
    pub(crate) placement: Option<PlacementArgument>,
    /// Operations per second of all clients together, sent on a schedule (open loop) [default: each
    /// client sends when it has its reply]
    #[arg(long, value_name = "PER_SECOND", help_heading = "Load")]
    pub(crate) rate: Option<f64>,
    /// How the calls of --rate arrive: even, poisson, bursts:COUNT, or recorded:FILE, a file with
    /// one time in seconds on each line [default: even]
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    #[serde(default)]
    pub(crate) arrivals: Option<String>,
    /// Seed of all random data; the result records it [default: from the clock, or 1 for a
    /// --seed-mode other than fresh]
    #[arg(long, value_name = "S", help_heading = "Load")]
    pub(crate) seed: Option<u64>,
    /// In what the random data of runs, steps and clients differ [default: fresh]
    #[arg(long, value_enum, help_heading = "Load")]
    pub(crate) seed_mode: Option<SeedModeArgument>,
    /// Property that distinguishes this run from others with the same settings, such as
    /// change-log=off; the result records it. Repeat the option for several
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    #[serde(default)]
    pub(crate) labels: Vec<(String, String)>,
    /// Shell command that restarts the target, for the workload collections
    #[arg(long, value_name = "COMMAND", help_heading = "Target")]
    pub(crate) restart_command: Option<String>,
    /// Shell command that runs again and again during the step beside-program (workloads follow and
    /// backup), with the target's address in LAB_TARGET and the number of the run in LAB_NUMBER; it
    /// gets SIGTERM if it still runs when the step ends
    #[arg(long, value_name = "COMMAND", help_heading = "Target")]
    #[serde(default)]
    pub(crate) program: Option<String>,
    /// Address of the server to which --program copies; the lab checks that it has the same
    /// documents soon after the last write
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
    /// Wait for the journal with each write (true or false) [default: the server's setting]
    #[arg(long, value_name = "BOOL", help_heading = "Target")]
    pub(crate) journal: Option<bool>,
    /// Database to use
    #[arg(long, default_value = DEFAULT_DB, help_heading = "Target")]
    pub(crate) db: String,
    /// Delete the documents of the workload's collections before the run, even in a --db other than
    /// the default
    #[arg(long, help_heading = "Target")]
    pub(crate) drop: bool,
    /// Check the command line and list its runs without starting them
    #[arg(long, help_heading = "Run")]
    #[serde(skip)]
    pub(crate) plan: bool,
    /// Delete the data when the run has ended
    #[arg(long, help_heading = "Target")]
    pub(crate) clean: bool,
    /// Data directory of a local server, whose size and device are recorded [default: the directory
    /// that the server reports]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Seconds after which a call without a reply fails and ends the run
    #[arg(long, value_name = "N", default_value_t = 60, help_heading = "Target")]
    pub(crate) call_timeout_seconds: u64,
    /// Most seconds that a step waits until the target is idle
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1200,
        help_heading = "Target"
    )]
    pub(crate) settle_seconds: u64,
    /// Use the data that the run in this folder has loaded; for sweeps
    #[arg(long, value_name = "DIR", hide = true)]
    #[serde(default)]
    pub(crate) loaded_by: Option<PathBuf>,
    /// Keep the state after the load; for sweeps
    #[arg(long, hide = true)]
    #[serde(default)]
    pub(crate) keep_state: bool,
}

/// The database that belongs to the lab: its collections are dropped without asking.
pub(crate) const DEFAULT_DB: &str = "quarry_lab";

/// How clients share hot documents.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum AssignArgument {
    /// One for each client
    Pinned,
    /// Each operation picks one at random
    Any,
}

/// How clients share collections.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum PlacementArgument {
    /// One for all clients
    Shared,
    /// One for each client
    PerClient,
}

/// Who makes ids.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum IdsArgument {
    /// The lab generates ascending ids
    Lab,
    /// The target or its driver generates ids
    Target,
    /// The lab generates ids without order
    Random,
}

/// How streams of random data differ.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
pub(crate) enum SeedModeArgument {
    /// Different in each run, step and client
    Fresh,
    /// Different in each step and client, the same in every run
    Fixed,
    /// Different in each step, the same for all clients
    SharedAcrossThreads,
    /// Different for each client, the same in every step and run
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
    /// The error of the parser.
    pub(crate) fn parse_words(words: &[String]) -> Result<Self, clap::Error> {
        RunCommandLine::try_parse_from(words).map(|line| line.run)
    }
}
