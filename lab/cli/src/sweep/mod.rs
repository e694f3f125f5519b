//! Sweeps: several targets, repeats, own servers, and options given as lists, such as `--clients
//! 1,2,4,8`, are one run for each combination, in turn, and one page for all.
//!
//! Promises: each run is a separate process with its own folder, exactly as if started alone;
//! `resume` on the sweep's folder continues after an interruption. Runs of one repeat and target
//! that only read, and differ in nothing that the load depends on, share the load of the first run.

mod child;
mod expand;
mod find_rate;
mod own;
mod server;
mod sharing;

use std::path::{Path, PathBuf};

use lab_kit::compare::{REPEATS_MIN, SMALLEST_PERCENT, read_side, smallest_change};
use lab_kit::folder::{FolderError, read_result, write_whole};
use lab_kit::report::{summary_csv, workloads_page};
use lab_kit::workload::{Settings, Workload};
use serde::{Deserialize, Serialize};

use self::child::{CHANGED, resume_run, run_child};
use self::expand::{ENGINE_OPTIONS, Line, expand, option, replace_option};
use self::own::OwnSpec;
use self::server::{own_name, with_server};
use self::sharing::{is_read_only, is_same_load};
use crate::errors::LabError;
use crate::output::{make_folder, write_json, write_page};
use crate::run::{CHECKPOINT_FILE, LOADED, RunArguments};

pub(crate) use self::child::CODE_CHANGED;
pub(crate) use self::expand::hide_passwords;

const FILE: &str = "sweep.json";
const SCHEMA: &str = "quarry-lab/sweep 1";

/// A sweep and its progress.
#[derive(Debug, Serialize, Deserialize)]
struct Sweep {
    schema: String,
    /// The change in percent that the repeats must be able to detect; then no more repeats are
    /// made.
    #[serde(default)]
    find_change: Option<f64>,
    runs: Vec<SweepRun>,
}

/// One of its runs.
#[derive(Debug, Serialize, Deserialize)]
struct SweepRun {
    /// The command line after the program's name; in the file without a password.
    words: Vec<String>,
    /// Runs with the same number share the load of the first of them.
    load: usize,
    /// The number of the repeat, from 1.
    #[serde(default)]
    repeat: u32,
    /// The name of its folder; `None` before the run has begun.
    folder: Option<String>,
}

/// Makes the sweep, if the command line asks for one.
pub(crate) fn run_requested() -> Option<Result<(), LabError>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().map(String::as_str) != Some("run") {
        return None;
    }
    if find_rate::is_requested(&words) {
        let repeats = option(&words, "--repeats").and_then(|text| text.parse().ok());
        let lines = expand(&words).map_err(LabError::Words);
        return Some(lines.and_then(|lines| find_rate::search(&lines, repeats)));
    }
    match expand(&words) {
        Ok(lines)
            if lines.len() > 1
                || option(&words, ENGINE_OPTIONS).is_some()
                || lines.iter().any(|line| own_name(&line.words).is_some()) =>
        {
            Some(begin(lines))
        }
        Ok(_) => None,
        Err(reason) => Some(Err(LabError::Words(reason))),
    }
}

fn begin(lines: Vec<Line>) -> Result<(), LabError> {
    let mut plans: Vec<(Line, RunArguments, Settings, Workload)> = Vec::new();
    for line in lines {
        let words = line.words.get(1..).unwrap_or_default();
        // A wrong command line ends the program here with the parser's message.
        let arguments = RunArguments::parse_words(words).unwrap_or_else(|error| error.exit());
        if let Some(name) = own_name(&line.words) {
            OwnSpec::parse(name).map_err(LabError::Words)?;
        }
        let workload = Workload::load(&arguments.workload)?;
        let settings = workload.settings(&arguments.preset, arguments.overrides())?;
        plans.push((line, arguments, settings, workload));
    }
    let Some((_, first, _, workload)) = plans.first() else {
        return Ok(());
    };
    if first.plan {
        for (line, ..) in &plans {
            print_line!("{}", hide_passwords(&line.words));
        }
        return Ok(());
    }
    let started = lab_kit::environment::now();
    let is_one = plans
        .iter()
        .all(|(_, _, _, other)| other.name == workload.name);
    let name = if is_one {
        workload.name.as_str()
    } else {
        "workloads"
    };
    let id = lab_kit::environment::run_id(&started, &format!("sweep-{name}"), &first.preset);
    let folder = first.out.join(id);
    let runs = plan_runs(&plans);
    let find_change = first.find_change;
    check_find_change(find_change, &runs)?;
    make_folder(&folder)?;
    continue_sweep(
        &folder,
        Sweep {
            schema: SCHEMA.to_owned(),
            find_change,
            runs,
        },
    )
}

/// The runs of a sweep. Runs that can share a load come one after the other, regardless of the
/// order of the lists.
fn plan_runs(plans: &[(Line, RunArguments, Settings, Workload)]) -> Vec<SweepRun> {
    let mut loads: Vec<((u32, String, String), Settings)> = Vec::new();
    let mut runs: Vec<SweepRun> = plans
        .iter()
        .map(|(line, arguments, settings, workload)| {
            let may_share = is_read_only(workload);
            let target = arguments.target.clone();
            let of = (line.repeat, target, workload.name.clone());
            let known = loads.iter().position(|(other_of, other)| {
                may_share && *other_of == of && is_same_load(other, settings)
            });
            let load = known.unwrap_or_else(|| {
                loads.push((of, settings.clone()));
                loads.len() - 1
            });
            SweepRun {
                words: remove_option(&line.words, "--find-change"),
                load,
                repeat: line.repeat,
                folder: None,
            }
        })
        .collect();
    runs.sort_by_key(|run| run.load);
    runs
}

fn check_find_change(percent: Option<f64>, runs: &[SweepRun]) -> Result<(), LabError> {
    let Some(percent) = percent else {
        return Ok(());
    };
    if !(SMALLEST_PERCENT..=100.0).contains(&percent) {
        return Err(LabError::Words(format!(
            "--find-change is {percent}; allowed is {SMALLEST_PERCENT} to 100 percent"
        )));
    }
    let repeats = runs.iter().map(|run| run.repeat).max();
    if repeats.is_none_or(|repeats| repeats <= REPEATS_MIN) {
        return Err(LabError::Words(format!(
            "--find-change needs --repeats {} or more, the most runs that it may make",
            REPEATS_MIN + 1
        )));
    }
    Ok(())
}

/// Continues the sweep in `folder`, if there is one; `target` replaces the address, whose password
/// was not stored.
pub(crate) fn resume(folder: &Path, target: Option<&str>) -> Option<Result<(), LabError>> {
    let path = folder.join(FILE);
    let text = std::fs::read_to_string(&path).ok()?;
    let wrong = |reason: String| FolderError::Format {
        path: path.clone(),
        reason,
    };
    Some(match serde_json::from_str::<Sweep>(&text) {
        Ok(mut sweep) if sweep.schema == SCHEMA => {
            if let Some(target) = target {
                take_target(&mut sweep, target);
            }
            continue_sweep(folder, sweep)
        }
        Ok(sweep) => Err(wrong(format!(
            "its schema is {}, this program reads {SCHEMA}",
            sweep.schema
        ))
        .into()),
        Err(error) => Err(wrong(error.to_string()).into()),
    })
}

/// Replaces the address without a password by `target`, which has one.
fn take_target(sweep: &mut Sweep, target: &str) {
    let known = crate::credentials::hide_password(target);
    let is_one = |run: &SweepRun| option(&run.words, "--target") == Some(known.as_str());
    // A sweep of one target may continue at another address.
    let first = sweep
        .runs
        .first()
        .and_then(|run| option(&run.words, "--target"));
    let is_only = sweep
        .runs
        .iter()
        .all(|run| option(&run.words, "--target") == first);
    for run in &mut sweep.runs {
        if is_only || is_one(run) {
            run.words = replace_option(&run.words, "--target", target);
        }
    }
}

fn continue_sweep(folder: &Path, mut sweep: Sweep) -> Result<(), LabError> {
    save(folder, &sweep, None)?;
    let total = sweep.runs.len();
    let mut ended = Ok(());
    for number in 0..total {
        let Some(run) = sweep.runs.get(number) else {
            break;
        };
        let at = run.folder.as_ref().map(|name| folder.join(name));
        if at.as_deref().is_some_and(is_complete) {
            continue;
        }
        if let Some(found) = detectable_change(folder, &sweep, number) {
            note_line!(
                "enough repeats: they detect a change of {found:.1} %; {} runs are not needed",
                total - number
            );
            break;
        }
        note_line!(
            "run {} of {total}: {}",
            number + 1,
            hide_passwords(&run.words)
        );
        let found = match at.filter(|at| at.join(CHECKPOINT_FILE).exists()) {
            Some(at) => take_up(folder, run, at),
            None => start(folder, &sweep, number, &mut |name| {
                save(folder, &sweep, Some((number, name)))
            }),
        };
        match found {
            Ok(at) => {
                let name = at
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned());
                if let Some(run) = sweep.runs.get_mut(number) {
                    run.folder = name;
                }
                save(folder, &sweep, None)?;
            }
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
    }
    if ended.is_ok() {
        remove_data(folder, &sweep);
    }
    // Runs that ended early are included: the page says why they ended.
    let runs = read_side(folder).unwrap_or_default();
    if !runs.is_empty() {
        write_whole(&folder.join("summary.csv"), &summary_csv(&runs))?;
        write_page(&folder.join("report.html"), &workloads_page(&runs)?)?;
    }
    ended.map_err(|error| match error {
        LabError::Sweep { reason } => LabError::SweepStopped {
            reason,
            folder: folder.to_owned(),
        },
        other => other,
    })
}

/// The smallest change that the repeats so far can detect, if it is small enough to end the sweep
/// before run `number`, the first run of the next repeat.
fn detectable_change(folder: &Path, sweep: &Sweep, number: usize) -> Option<f64> {
    let wanted = sweep.find_change?;
    let (run, before) = (
        sweep.runs.get(number)?,
        sweep.runs.get(number.checked_sub(1)?)?,
    );
    if run.repeat == before.repeat || run.folder.is_some() {
        return None;
    }
    let found = smallest_change(&read_side(folder).ok()?)?;
    (found <= wanted).then_some(found)
}

/// Writes the progress of the sweep, without passwords; `begun` is a run that has just made its
/// folder.
fn save(folder: &Path, sweep: &Sweep, begun: Option<(usize, &str)>) -> Result<(), LabError> {
    let planned = |(number, run): (usize, &SweepRun)| SweepRun {
        words: run
            .words
            .iter()
            .map(|word| crate::credentials::hide_password(word))
            .collect(),
        load: run.load,
        repeat: run.repeat,
        folder: begun
            .filter(|(at, _)| *at == number)
            .map_or_else(|| run.folder.clone(), |(_, name)| Some(name.to_owned())),
    };
    let kept = Sweep {
        schema: sweep.schema.clone(),
        find_change: sweep.find_change,
        runs: sweep.runs.iter().enumerate().map(planned).collect(),
    };
    Ok(write_json(&folder.join(FILE), &kept)?)
}

fn is_complete(folder: &Path) -> bool {
    read_result(folder).is_ok_and(|result| result.run.complete)
}

/// A command line without an option and its value.
fn remove_option(words: &[String], name: &str) -> Vec<String> {
    let mut out = Vec::with_capacity(words.len());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == name {
            words.next();
        } else if word
            .strip_prefix(name)
            .is_none_or(|rest| !rest.starts_with('='))
        {
            out.push(word.clone());
        }
    }
    out
}

/// Removes the data of own servers; their settings and logs stay.
fn remove_data(folder: &Path, sweep: &Sweep) {
    let names = sweep.runs.iter().filter_map(|run| own_name(&run.words));
    for spec in names.filter_map(|name| OwnSpec::parse(name).ok()) {
        let _ = std::fs::remove_dir_all(spec.folder(folder).join("data"));
    }
}

/// Resumes an interrupted run.
fn take_up(folder: &Path, run: &SweepRun, at: PathBuf) -> Result<PathBuf, LabError> {
    let (words, _server) = with_server(folder, &run.words, true)?;
    resume_run(&words, at)
}

/// Starts run `number` of a sweep and waits for its end; returns its folder.
fn start(
    folder: &Path,
    sweep: &Sweep,
    number: usize,
    began: &mut dyn FnMut(&str) -> Result<(), LabError>,
) -> Result<PathBuf, LabError> {
    let Some(run) = sweep.runs.get(number) else {
        return Err(LabError::Sweep {
            reason: "no such run".to_owned(),
        });
    };
    let others = || sweep.runs.iter().filter(|other| other.load == run.load);
    let loaded = others()
        .filter_map(|other| Some(folder.join(other.folder.as_ref()?)))
        .find(|other| other.join(LOADED).exists());
    let words = replace_option(&run.words, "--out", &folder.display().to_string());
    let (mut words, _server) = with_server(folder, &words, loaded.is_some())?;
    if let Some(loaded) = loaded {
        let shared: Vec<String> = words
            .iter()
            .cloned()
            .chain(["--loaded-by".to_owned(), loaded.display().to_string()])
            .collect();
        match run_child(&shared, folder, began) {
            Err(LabError::Sweep { reason }) if reason == CHANGED => {
                note_line!("{reason}: this run loads its own data")
            }
            done => return done,
        }
    }
    if others().count() > 1 {
        words.push("--keep-state".to_owned());
    }
    run_child(&words, folder, began)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_reading_workloads_share_their_load() {
        for (name, requested) in [
            ("point", true),
            ("point-uncached", true),
            ("ycsb-c", true),
            ("hot", false),
            ("update-inc", false),
            ("insert", false),
        ] {
            assert_eq!(
                is_read_only(&Workload::load(name).unwrap()),
                requested,
                "{name}"
            );
        }
    }

    #[test]
    fn clients_do_not_change_what_is_loaded_but_the_payload_does() {
        let workload = Workload::load("point").unwrap();
        let base = workload.settings("smoke", Default::default()).unwrap();
        let more = Settings {
            clients: 64,
            ..base.clone()
        };
        let larger = Settings {
            payload: base.payload + 1,
            ..base.clone()
        };
        assert!(is_same_load(&base, &more) && !is_same_load(&base, &larger));
    }

    #[test]
    fn no_password_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let line = words("run point --target mongodb://me:secret@h:1 --out x");
        let sweep = Sweep {
            find_change: None,
            schema: SCHEMA.to_owned(),
            runs: vec![SweepRun {
                repeat: 1,
                words: line,
                load: 0,
                folder: None,
            }],
        };
        save(dir.path(), &sweep, Some((0, "run-1"))).unwrap();
        let text = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(
            !text.contains("secret") && text.contains("me:***@h:1") && text.contains("\"run-1\""),
            "{text}"
        );
    }
}
