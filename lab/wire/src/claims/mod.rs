//! The command `claims`: makes the runs that claims need, in turn, then judges from their folders.
//!
//! Promises: each run is one of `quarry-lab run` in a process of its own, so that no run can
//! disturb the next; what failed is named and the rest judged. Whenever it ends, its folder can be
//! judged and taken up again.

mod make;
mod own;
mod plan;

use std::path::{Path, PathBuf};

use clap::Args;
use lab_kit::claims::{self, Claim, DIFFERENCES, Judgement, Needed, Outcome, judge};
use lab_kit::compare::{CompareError, read_side};
use lab_kit::folder::FolderError;
use lab_kit::report::claims_page;
use lab_kit::result::RunResult;
use serde::{Deserialize, Serialize};

use crate::address::without_password;
use crate::compare::{make_folder, write_json, write_page};
use crate::errors::LabError;
use plan::Plan;

/// What a folder of claims was asked for, so that it can be taken up again.
const ORDERS: &str = "claims-orders.json";
/// Where the runs are.
const RUNS: &str = "runs";

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
    /// Claims to look at, such as C33,C34; without it all
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
    pub(crate) own: Option<own::Kind>,
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
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Folder of runs to judge from, instead of running or beside it
    #[arg(long, value_name = "DIR")]
    pub(crate) judge: Vec<PathBuf>,
    /// Folder for runs, claims.html and claims.json
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on in this folder with what it was asked for; complete runs are not repeated. Targets
    /// whose address had a password must be given again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "only", "preset", "repeats", "own", "differ", "more", "judge"])]
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

/// Lists, runs or judges.
pub(crate) fn run(given: &ClaimsArguments) -> Result<(), LabError> {
    let (arguments, resumed) = match &given.resume {
        Some(folder) => (orders(folder, given)?, true),
        None => (given.clone(), false),
    };
    let claims = claims::only(&arguments.only)?;
    let cpus = std::thread::available_parallelism()?.get();
    let runs_something = !arguments.target.is_empty() || arguments.own.is_some();
    if arguments.list || (!runs_something && arguments.judge.is_empty()) {
        list(&arguments, &claims, cpus);
        return Ok(());
    }
    let mut folders = arguments.judge.clone();
    let mut interrupted = false;
    if runs_something {
        let Some(out) = &arguments.out else {
            return Err(LabError::NeedsOut);
        };
        let plan = Plan::new(&arguments, &claims, cpus)?;
        let runs = out.join(RUNS);
        make_folder(&runs)?;
        write_orders(&arguments, out)?;
        let done = if resumed {
            read_runs(&runs)?
        } else {
            Vec::new()
        };
        interrupted = make::runs(&arguments, plan, &done, out)?;
        folders.push(runs);
    }
    let mut results = Vec::new();
    for folder in &folders {
        let runs = read_runs(folder)?;
        if runs.is_empty() {
            eprintln!("{} holds no run", folder.display());
        }
        results.extend(runs);
    }
    let judgements: Vec<Judgement> = claims
        .iter()
        .flat_map(|claim| judge(claim, &results, cpus))
        .collect();
    print(&judgements);
    if let Some(out) = &arguments.out {
        make_folder(out)?;
        write_json(&out.join("claims.json"), &judgements)?;
        write_page(
            &out.join("claims.html"),
            &claims_page(&judgements, &results),
        )?;
        if interrupted {
            return Err(LabError::Partial {
                reason: "interrupted; quarry-lab claims --resume goes on".to_owned(),
                folder: out.clone(),
            });
        }
    }
    Ok(())
}

fn read_runs(folder: &Path) -> Result<Vec<RunResult>, LabError> {
    match read_side(folder) {
        Err(CompareError::Empty(_)) => Ok(Vec::new()),
        other => Ok(other?),
    }
}

fn write_orders(arguments: &ClaimsArguments, out: &Path) -> Result<(), LabError> {
    let mut kept = arguments.clone();
    for address in kept.target.iter_mut().chain(&mut kept.versus) {
        *address = without_password(address);
    }
    Ok(write_json(&out.join(ORDERS), &kept)?)
}

/// What a folder was asked for, with addresses given anew where these are.
fn orders(folder: &Path, given: &ClaimsArguments) -> Result<ClaimsArguments, LabError> {
    let path = folder.join(ORDERS);
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

fn list(arguments: &ClaimsArguments, claims: &[Claim], cpus: usize) {
    let has_targets = !arguments.target.is_empty() || arguments.own.is_some();
    for claim in claims {
        println!("{} {}", claim.id, claim.statement);
        if let Some(needs) = &claim.needs {
            println!("    not runnable yet: needs {needs}");
            continue;
        }
        let needed = claim.needed(cpus);
        let mut runs: Vec<String> = needed.iter().map(words).collect();
        runs.dedup();
        let systems = claim.systems();
        let of = if systems.is_empty() {
            String::new()
        } else {
            format!("; targets of the kinds {}", systems.join(", "))
        };
        println!("    runs: {}{of}", runs.join("; "));
        if let Some(difference) = claim.differ.as_deref().and_then(claims::difference) {
            let [first, second] = difference.sides;
            println!(
                "    two targets that differ in {} ({}): --target is {first}, --versus is {second}",
                difference.name, difference.about
            );
        }
        if has_targets && let Some(missing) = plan::missing(arguments, claim) {
            println!("    missing: {missing}");
        }
    }
    let open = claims.iter().filter(|claim| !claim.is_runnable()).count();
    println!(
        "{} claims, {} runnable, {open} not yet",
        claims.len(),
        claims.len() - open
    );
}

fn words(needed: &Needed) -> String {
    let settings: Vec<String> = needed
        .settings
        .iter()
        .map(|(name, value)| format!("--{} {value}", name.replace('_', "-")))
        .collect();
    format!("{} {}", needed.workload, settings.join(" "))
        .trim()
        .to_owned()
}

fn print(judgements: &[Judgement]) {
    for judgement in judgements {
        let target = if judgement.target.is_empty() {
            String::new()
        } else {
            format!(" [{}]", judgement.target)
        };
        println!(
            "{} {}{target}: {}",
            judgement.id,
            judgement.outcome.name(),
            judgement.statement
        );
        for finding in &judgement.findings {
            let found = finding.found.map_or_else(
                || "nothing".to_owned(),
                |found| {
                    let number = lab_kit::format::number;
                    format!(
                        "{} ({} to {})",
                        number(found.mean),
                        number(found.low),
                        number(found.high)
                    )
                },
            );
            println!(
                "    {}: {found}, rule {}: {}; {}",
                finding.what,
                finding.rule,
                finding.outcome.name(),
                finding.because
            );
        }
        if !judgement.remark.is_empty() {
            println!("    {}", judgement.remark);
        }
    }
    let count = |wanted: Outcome| {
        judgements
            .iter()
            .filter(|judgement| judgement.outcome == wanted)
            .count()
    };
    let all = [
        Outcome::Confirmed,
        Outcome::Refuted,
        Outcome::Inconclusive,
        Outcome::NotRun,
        Outcome::NotRunnable,
    ];
    let counts: Vec<String> = all
        .iter()
        .map(|outcome| format!("{} {}", count(*outcome), outcome.name()))
        .collect();
    println!("{}", counts.join(", "));
}
