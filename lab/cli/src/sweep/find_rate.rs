//! `--find-rate`: makes runs at different rates until the highest rate at which a condition holds
//! is known.
//!
//! Promises: each attempt is a separate run with its own folder; the attempts so far are written
//! after each.

use std::path::{Path, PathBuf};

use lab_kit::folder::read_result;
use lab_kit::rate_search::{Condition, RateSearch, RateTrial};
use lab_kit::report::rate_page;
use lab_kit::result::RunResult;
use lab_kit::workload::Workload;

use super::child::{CHANGED, run_child};
use super::expand::{Line, hide_passwords, option, replace_option};
use super::server::with_server;
use super::sharing::is_read_only;
use crate::errors::LabError;
use crate::output::{make_folder, write_json, write_page};
use crate::run::{LOADED, RunArguments};

const FILE: &str = "find-rate.json";
/// The repeats of each rate, if the user does not set them.
const REPEATS: u32 = 3;

fn words_error(reason: &str) -> LabError {
    LabError::Words(reason.to_owned())
}

/// Searches, for one command line with `--find-rate`; `repeats` of each rate, if given.
pub(super) fn search(lines: &[Line], repeats: Option<u32>) -> Result<(), LabError> {
    let [line] = lines
        .iter()
        .filter(|line| line.repeat == 1)
        .collect::<Vec<_>>()[..]
    else {
        return Err(words_error(
            "--find-rate needs one target and allows no lists",
        ));
    };
    let words = line.words.get(1..).unwrap_or_default();
    let arguments = RunArguments::parse_words(words).unwrap_or_else(|error| error.exit());
    let condition = arguments.find_rate.as_deref().unwrap_or_default();
    let condition = Condition::parse(condition).map_err(|reason| words_error(&reason))?;
    if arguments.rate.is_some() {
        return Err(words_error(
            "--find-rate searches for the rate; leave --rate out",
        ));
    }
    let workload = Workload::load(&arguments.workload)?;
    workload.settings(&arguments.preset, arguments.overrides())?;
    let words = remove_find_rate(&line.words);
    if arguments.plan {
        // The following rates depend on the result of this first run.
        print_line!("{}", hide_passwords(&words));
        return Ok(());
    }
    let id = lab_kit::environment::run_id(
        &lab_kit::environment::now(),
        &format!("find-rate-{}", workload.name),
        &arguments.preset,
    );
    let folder = arguments.out.join(id);
    make_folder(&folder)?;
    let mut tries = RateTrials {
        words: replace_option(&words, "--out", &folder.display().to_string()),
        may_share: is_read_only(&workload),
        loaded: None,
        runs: Vec::new(),
        folder,
    };
    note_line!("closed loop");
    let closed = tries.run(None)?;
    let Some(step) = closed.main_step().filter(|_| closed.run.complete) else {
        return Err(words_error(
            "the closed loop, from which the search starts, ended early",
        ));
    };
    let mut search = RateSearch::new(condition, step.rate.average);
    let repeats = repeats.unwrap_or(REPEATS);
    while let Some(rate) = search.next_rate() {
        let tried = tries.rate(&search.condition, rate, repeats)?;
        let kept = if tried.is_kept { "kept" } else { "not kept" };
        note_line!("{} calls a second: {kept}", lab_kit::format::number(rate));
        search.tried.push(tried);
        write_json(&tries.folder.join(FILE), &search)?;
    }
    print_line!("{}", search.outcome());
    write_page(
        &tries.folder.join("report.html"),
        &rate_page(&search, &tries.runs),
    )
}

/// The command line of an attempt.
fn remove_find_rate(words: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--find-rate" {
            words.next();
        } else if !word.starts_with("--find-rate=") {
            out.push(word.clone());
        }
    }
    out
}

/// The common state of all attempts.
struct RateTrials {
    words: Vec<String>,
    may_share: bool,
    /// The run whose data the others read.
    loaded: Option<PathBuf>,
    runs: Vec<RunResult>,
    folder: PathBuf,
}

impl RateTrials {
    /// Tries a rate until most of its repeats agree.
    fn rate(
        &mut self,
        condition: &Condition,
        rate: f64,
        repeats: u32,
    ) -> Result<RateTrial, LabError> {
        let mut out = RateTrial {
            rate,
            is_kept: false,
            repeats: Vec::new(),
            runs: Vec::new(),
        };
        let most = repeats as usize / 2 + 1;
        loop {
            let run = self.run(Some(rate))?;
            out.repeats.push(condition.judge(&run, rate));
            out.runs.push(run.run.id.clone());
            let kept = out.repeats.iter().filter(|judged| judged.is_kept).count();
            if kept >= most || out.repeats.len() - kept >= most {
                out.is_kept = kept >= most;
                return Ok(out);
            }
        }
    }

    /// Makes one run; a run that ended early counts as a result, too.
    fn run(&mut self, rate: Option<f64>) -> Result<RunResult, LabError> {
        let (mut words, _server) = with_server(&self.folder, &self.words, self.loaded.is_some())?;
        if let Some(rate) = rate {
            words.extend(["--rate".to_owned(), rate.to_string()]);
        }
        let mut shared = words.clone();
        match &self.loaded {
            Some(loaded) => {
                shared.extend(["--loaded-by".to_owned(), loaded.display().to_string()]);
            }
            None if self.may_share => shared.push("--keep-state".to_owned()),
            None => {}
        }
        let done = match make_run(&shared, &self.folder) {
            Err(LabError::Sweep { reason }) if reason == CHANGED => {
                note_line!("{reason}: this run loads its own data");
                make_run(&words, &self.folder)
            }
            done => done,
        };
        let at = done?;
        let result = read_result(&at)?;
        if result.run.stopped_because.as_deref() == Some("interrupted") {
            return Err(LabError::SweepStopped {
                reason: "interrupted".to_owned(),
                folder: self.folder.clone(),
            });
        }
        if self.may_share && self.loaded.is_none() && at.join(LOADED).exists() {
            self.loaded = Some(at);
        }
        self.runs.push(result.clone());
        Ok(result)
    }
}

/// Makes a run and returns its folder, also if the run ended early or failed its checks.
fn make_run(words: &[String], folder: &Path) -> Result<PathBuf, LabError> {
    let mut name = None;
    let done = run_child(words, folder, &mut |found| {
        name = Some(found.to_owned());
        Ok(())
    });
    match (done, name.map(|name| folder.join(name))) {
        (Err(LabError::Sweep { reason }), Some(at))
            if reason != CHANGED && at.join("result.json").exists() =>
        {
            Ok(at)
        }
        (done, _) => done,
    }
}

/// Whether the command line asks for a search.
pub(super) fn is_requested(words: &[String]) -> bool {
    option(words, "--find-rate").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_do_not_search_themselves() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            remove_find_rate(&words("run hot --find-rate p99<1ms --out x")),
            words("run hot --out x")
        );
        assert_eq!(
            remove_find_rate(&words("run hot --find-rate=p99<1ms")),
            words("run hot")
        );
    }
}
