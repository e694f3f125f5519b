//! Options of `claims`, and the file that keeps them for `--resume`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab_kit::claims::DIFFERENCES;
use lab_kit::folder::FolderError;
use serde::{Deserialize, Serialize};

use crate::credentials::without_password;
use crate::errors::LabError;
use crate::output::write_json;

/// The file with the arguments of a folder of claims, for resuming.
const ARGUMENTS_FILE: &str = "claims-arguments.json";

/// The folder of the runs.
pub(super) const RUNS: &str = "runs";

/// Options of `claims`.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  quarry-lab claims                                                     (lists the claims and what \
  they need)
  quarry-lab claims --only C33,C34 --target mongodb://127.0.0.1:27017 --out claims
  quarry-lab claims --only C08 --target mongodb://127.0.0.1:27017 --versus \
  mongodb://127.0.0.1:27018 --differ change-log --out claims
  quarry-lab claims --only C08,C45 --own innodb --out claims            (starts MariaDB itself, \
  twice with different settings)
  quarry-lab claims --resume claims                                     (goes on where it was \
  interrupted)
  quarry-lab claims --judge results --judge more-results --out claims   (judges from runs that \
  were made before)")]
pub(crate) struct ClaimsArguments {
    /// Claims to run and judge, such as C33,C34; without it all
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// List the claims, the runs they need and what is missing with these targets; run nothing
    #[arg(long)]
    #[serde(skip)]
    pub(crate) list: bool,
    /// Target to run against; some claims tell kinds of system apart and need two
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Vec<String>,
    /// A target that differs from --target in one thing, which --differ names
    #[arg(long, value_name = "ADDRESS", requires = "differ")]
    pub(crate) versus: Option<String>,
    /// What --target and --versus differ in: change-log, journal, durability, allocator, build,
    /// page-size, flush-neighbors, interface, read-lock, alignment, read-size or throttling.
    /// --target is the side named first by --list
    #[arg(long, value_name = "THING", requires = "versus", value_parser = thing)]
    pub(crate) differ: Option<String>,
    /// Start a server of this kind for each run, in --out, with the settings that the claim asks
    /// for
    #[arg(long, value_enum)]
    pub(crate) own: Option<OwnServer>,
    /// Cache of servers of its own, in MiB
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) own_cache_mb: u64,
    /// Library of a memory allocator to compare with the system's; otherwise jemalloc or tcmalloc
    /// if installed
    #[arg(long, value_name = "PATH")]
    pub(crate) own_allocator: Option<PathBuf>,
    /// Sizes of the runs; smoke sizes show that a claim can be judged, not that the verdict holds
    /// for large data
    #[arg(long, default_value = "smoke")]
    pub(crate) preset: String,
    /// Repeats of each run; below three nothing is decided
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Folder of runs to judge from, instead of running or beside it
    #[arg(long, value_name = "DIR")]
    pub(crate) judge: Vec<PathBuf>,
    /// Folder for runs, claims.html and claims.json
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on in this folder with what it was asked for; complete runs are not repeated. Targets
    /// whose address had a password must be given again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "only",
        "preset", "repeats", "own", "differ", "more", "judge"])]
    #[serde(skip)]
    pub(crate) resume: Option<PathBuf>,
    /// More options of `quarry-lab run`, after two dashes: -- --memory-mb 256 --times-memory 4
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) more: Vec<String>,
}

fn thing(text: &str) -> Result<String, String> {
    let names: Vec<&str> = DIFFERENCES
        .iter()
        .map(|difference| difference.name)
        .collect();
    if names.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("allowed is {}", names.join(", ")))
    }
}

pub(super) fn write_arguments(arguments: &ClaimsArguments, out: &Path) -> Result<(), LabError> {
    let mut kept = arguments.clone();
    for address in kept.target.iter_mut().chain(&mut kept.versus) {
        *address = without_password(address);
    }
    Ok(write_json(&out.join(ARGUMENTS_FILE), &kept)?)
}

/// Reads the arguments of a folder; addresses of this command line replace the stored ones.
pub(super) fn read_arguments(
    folder: &Path,
    given: &ClaimsArguments,
) -> Result<ClaimsArguments, LabError> {
    let path = folder.join(ARGUMENTS_FILE);
    let text = std::fs::read_to_string(&path).map_err(|source| FolderError::Read {
        path: path.clone(),
        source,
    })?;
    let mut kept: ClaimsArguments =
        serde_json::from_str(&text).map_err(|error| FolderError::Format {
            path,
            reason: error.to_string(),
        })?;
    kept.out = Some(folder.to_owned());
    kept.list = given.list;
    if !given.target.is_empty() {
        kept.target = given.target.clone();
    }
    kept.versus = given.versus.clone().or(kept.versus);
    Ok(kept)
}

/// The server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub(crate) enum OwnServer {
    /// MariaDB with InnoDB
    Innodb,
    /// MariaDB with MyRocks
    Myrocks,
}

impl OwnServer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Innodb => "innodb",
            Self::Myrocks => "myrocks",
        }
    }

    /// The kinds of system of this server.
    pub(super) fn systems(self) -> Vec<&'static str> {
        let engine = if self == Self::Innodb {
            "innodb"
        } else {
            "rocksdb"
        };
        lab_kit::claims::systems_at(&format!("mysql://root@127.0.0.1/?engine={engine}"))
            .unwrap_or_default()
    }
}
