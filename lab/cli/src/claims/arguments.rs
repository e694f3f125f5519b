//! Options of `claims`, and the file that keeps them for `--resume`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lab_kit::claims::DIFFERENCES;
use lab_kit::folder::FolderError;
use serde::{Deserialize, Serialize};

use crate::credentials::hide_password;
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
  quarry-lab claims --only C08,C45 --own innodb --out claims            (starts MariaDB \
  twice, with different settings)
  quarry-lab claims --resume claims                                     (continues interrupted \
  claims)
  quarry-lab claims --judge results --judge more-results --out claims   (judges earlier runs)")]
pub(crate) struct ClaimsArguments {
    /// Claims to run and judge, separated by commas, such as C33,C34 [default: all]
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// List the claims, the runs that they need, and what these targets lack, without running
    /// anything
    #[arg(long)]
    #[serde(skip)]
    pub(crate) list: bool,
    /// Target to run against; repeat the option for claims that compare two kinds of system
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Vec<String>,
    /// Target that differs from --target in the one property that --differ names
    #[arg(long, value_name = "ADDRESS", requires = "differ")]
    pub(crate) versus: Option<String>,
    /// Property in which --target and --versus differ: change-log, journal, durability, allocator,
    /// build, page-size, flush-neighbors, interface, read-lock, alignment, read-size or throttling.
    /// --list names the side of --target first
    #[arg(long, value_name = "THING", requires = "versus", value_parser = parse_difference)]
    pub(crate) differ: Option<String>,
    /// Start a server of this kind in --out for each run, with the settings that the claim needs
    #[arg(long, value_enum)]
    pub(crate) own: Option<OwnServer>,
    /// Cache of the servers of --own in MiB
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) own_cache_mb: u64,
    /// Library of a memory allocator to compare with the system's [default: jemalloc or tcmalloc,
    /// if installed]
    #[arg(long, value_name = "PATH")]
    pub(crate) own_allocator: Option<PathBuf>,
    /// Preset of sizes of the runs; smoke only shows that a claim can be judged, its verdict does
    /// not hold for large data
    #[arg(long, default_value = "smoke")]
    pub(crate) preset: String,
    /// Number of repeats of each run, 1 to 100; with fewer than three no claim is decided
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Folder of earlier runs to judge, instead of new runs or in addition to them; repeat the
    /// option for several
    #[arg(long, value_name = "DIR")]
    pub(crate) judge: Vec<PathBuf>,
    /// Folder for runs, claims.html and claims.json
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Continue the interrupted claims in this folder without repeating complete runs; give targets
    /// whose address has a password again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "only",
        "preset", "repeats", "own", "differ", "more", "judge"])]
    #[serde(skip)]
    pub(crate) resume: Option<PathBuf>,
    /// Further options of `quarry-lab run` after two dashes, such as -- --memory-mb 256
    /// --times-memory 4
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) more: Vec<String>,
}

fn parse_difference(text: &str) -> Result<String, String> {
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
        *address = hide_password(address);
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
