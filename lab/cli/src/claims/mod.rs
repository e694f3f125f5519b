//! The command `claims`: makes the runs that claims need, one after the other, then judges the
//! claims from the folders.
//!
//! Promises: each run is a `quarry-lab run` in its own process, so that no run can disturb the
//! next. Failed runs are named, and the others are judged. However the program ends, the folder can
//! be judged and resumed.

mod arguments;
mod execute;
mod list;
mod own_server;
mod plan;

use std::path::Path;

use lab_kit::claims::{self, Judgement, judge};
use lab_kit::compare::{CompareError, read_side};
use lab_kit::report::claims_page;
use lab_kit::result::RunResult;

pub(crate) use arguments::ClaimsArguments;
use arguments::{RUNS, read_arguments, write_arguments};
use list::{list, print};
use plan::ClaimsPlan;

use crate::errors::LabError;
use crate::output::{make_folder, write_json, write_page};

/// Lists, runs or judges.
pub(crate) fn run(given: &ClaimsArguments) -> Result<(), LabError> {
    let (arguments, resumed) = match &given.resume {
        Some(folder) => (read_arguments(folder, given)?, true),
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
        let plan = ClaimsPlan::new(&arguments, &claims, cpus)?;
        let runs = out.join(RUNS);
        make_folder(&runs)?;
        write_arguments(&arguments, out)?;
        let done = if resumed {
            read_runs(&runs)?
        } else {
            Vec::new()
        };
        interrupted = execute::runs(&arguments, plan, &done, out)?;
        folders.push(runs);
    }
    let mut results = Vec::new();
    for folder in &folders {
        let runs = read_runs(folder)?;
        if runs.is_empty() {
            note_line!("{} holds no run", folder.display());
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
                reason: "interrupted; quarry-lab claims --resume continues".to_owned(),
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
