//! The command `claims`: makes the runs that claims need, in turn, then judges from their folders.
//!
//! Promises: each run is one of `quarry-lab run` in a process of its own, so that no run can disturb the next; what failed is named
//! and the rest judged.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use lab_kit::claims::{self, Claim, Judgement, Needed, Outcome, judge};
use lab_kit::compare::{CompareError, read_side};
use lab_kit::report::claims_page;

use crate::compare::{make_folder, write_json, write_page};
use crate::errors::LabError;

/// Options of `claims`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  quarry-lab claims                                                     (lists the claims and what they need)
  quarry-lab claims --only C33,C34 --target mongodb://127.0.0.1:27017 --out claims
  quarry-lab claims --judge results --judge more-results --out claims   (judges from runs that were made before)")]
pub(crate) struct ClaimsArguments {
    /// Claims to look at, such as C33,C34; without it all
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Target to run against; some claims tell kinds of system apart and need two
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) target: Vec<String>,
    /// Sizes of the runs; smoke sizes show that a claim can be judged, not that the verdict holds for large data
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
    /// More options of `quarry-lab run`, after two dashes: -- --memory-mb 256 --times-memory 4
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) more: Vec<String>,
}

/// Lists, runs or judges.
pub(crate) fn run(arguments: &ClaimsArguments) -> Result<(), LabError> {
    let claims = claims::only(&arguments.only)?;
    let cpus = std::thread::available_parallelism()?.get();
    if arguments.target.is_empty() && arguments.judge.is_empty() {
        list(&claims, cpus);
        return Ok(());
    }
    let mut folders = arguments.judge.clone();
    if !arguments.target.is_empty() {
        let Some(out) = &arguments.out else { return Err(LabError::NeedsOut) };
        let runs = out.join("runs");
        make_folder(&runs)?;
        make_runs(arguments, &claims, cpus, &runs)?;
        folders.push(runs);
    }
    let mut results = Vec::new();
    for folder in &folders {
        match read_side(folder) {
            Ok(runs) => results.extend(runs),
            Err(CompareError::Empty(path)) => eprintln!("{} holds no run", path.display()),
            Err(error) => return Err(error.into()),
        }
    }
    let judgements: Vec<Judgement> = claims.iter().flat_map(|claim| judge(claim, &results, cpus)).collect();
    print(&judgements);
    if let Some(out) = &arguments.out {
        make_folder(out)?;
        write_json(&out.join("claims.json"), &judgements)?;
        write_page(&out.join("claims.html"), &claims_page(&judgements, &results))?;
    }
    Ok(())
}

fn list(claims: &[Claim], cpus: usize) {
    for claim in claims {
        println!("{} {}", claim.id, claim.statement);
        match &claim.needs {
            Some(needs) => println!("    not runnable yet: needs {needs}"),
            None => {
                let runs: Vec<String> = claim.needed(cpus).iter().map(words).collect();
                let systems = claim.systems();
                let of = if systems.is_empty() { String::new() } else { format!("; targets of the kinds {}", systems.join(", ")) };
                println!("    runs: {}{of}", runs.join("; "));
            }
        }
    }
}

fn words(needed: &Needed) -> String {
    let settings: Vec<String> = needed.settings.iter().map(|(name, value)| format!("--{} {value}", name.replace('_', "-"))).collect();
    format!("{} {}", needed.workload, settings.join(" ")).trim().to_owned()
}

/// All runs that the claims need, each once per repeat and target; repeats outermost, so that a drift hits all alike.
fn make_runs(arguments: &ClaimsArguments, claims: &[Claim], cpus: usize, out: &std::path::Path) -> Result<(), LabError> {
    let mut needed: Vec<Needed> = claims.iter().flat_map(|claim| claim.needed(cpus)).collect();
    needed.sort();
    needed.dedup();
    if needed.iter().any(|run| run.workload == lab_kit::replay::WORKLOAD) {
        needed.retain(|run| run.workload != lab_kit::replay::WORKLOAD);
        eprintln!("replays need a recording: make them with quarry-lab replay, and judge their folders with --judge");
    }
    let program = std::env::current_exe()?;
    let total = needed.len() * arguments.target.len() * arguments.repeats as usize;
    eprintln!("{total} runs of preset {}", arguments.preset);
    let mut number = 0;
    for _ in 0..arguments.repeats {
        for run in &needed {
            for target in &arguments.target {
                number += 1;
                eprintln!("run {number} of {total}: {}", words(run));
                let mut command = Command::new(&program);
                command.arg("run").arg(&run.workload).args(["--target", target, "--preset", &arguments.preset, "--out"]).arg(out);
                for (name, value) in &run.settings {
                    command.arg(format!("--{}", name.replace('_', "-"))).arg(value);
                }
                command.args(&arguments.more);
                let status = command.stdin(Stdio::null()).status()?;
                if !status.success() {
                    eprintln!("that run ended with status {}; it does not count", status.code().unwrap_or(-1));
                }
            }
        }
    }
    Ok(())
}

fn print(judgements: &[Judgement]) {
    for judgement in judgements {
        let target = if judgement.target.is_empty() { String::new() } else { format!(" [{}]", judgement.target) };
        println!("{} {}{target}: {}", judgement.id, judgement.outcome.name(), judgement.statement);
        for finding in &judgement.findings {
            let found = finding.found.map_or_else(
                || "nothing".to_owned(),
                |found| {
                    let number = lab_kit::format::number;
                    format!("{} ({} to {})", number(found.mean), number(found.low), number(found.high))
                },
            );
            let because = if finding.because.is_empty() { String::new() } else { format!("; {}", finding.because) };
            println!("    {}: {found}, rule {}: {}{because}", finding.what, finding.rule, finding.outcome.name());
        }
        if !judgement.remark.is_empty() {
            println!("    {}", judgement.remark);
        }
    }
    let count = |wanted: Outcome| judgements.iter().filter(|judgement| judgement.outcome == wanted).count();
    let all = [Outcome::Confirmed, Outcome::Refuted, Outcome::Inconclusive, Outcome::NotRun, Outcome::NotRunnable];
    let counts: Vec<String> = all.iter().map(|outcome| format!("{} {}", count(*outcome), outcome.name())).collect();
    println!("{}", counts.join(", "));
}
