//! Sweeps: an option given as a list, such as `--clients 1,2,4,8`, is one run for each value, in
//! order, and one page for all.
//!
//! Promises: each run is a process of its own with a folder of its own, exactly as if started
//! alone; `resume` on the sweep's folder goes on after an interruption. Runs that only read, and
//! differ in nothing that the load depends on, share what the first loaded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lab_kit::compare::read_side;
use lab_kit::folder::{FolderError, read_result};
use lab_kit::report::runs_page;
use lab_kit::workload::{Operation, Role, Settings, Step, Workload};
use serde::{Deserialize, Serialize};

use crate::errors::LabError;
use crate::interrupt::interrupted;
use crate::output::{make_folder, write_json, write_page};
use crate::run::{CHECKPOINT_FILE, LOADED, RunArguments};

const FILE: &str = "sweep.json";
const SCHEMA: &str = "quarry-lab/sweep 1";
const LISTS_MAX: usize = 2;
/// Polling interval for the end of a run.
const POLL: Duration = Duration::from_millis(100);
/// Options that may be lists.
const OPTIONS: [&str; 13] = [
    "--clients",
    "--payload",
    "--hot-rows",
    "--batch",
    "--rows",
    "--rate",
    "--indexes",
    "--tables",
    "--memory-mb",
    "--times-memory",
    "--rounds",
    "--extra-tables",
    "--seconds",
];

/// What a sweep is and how far it came.
#[derive(Debug, Serialize, Deserialize)]
struct Sweep {
    schema: String,
    runs: Vec<SweepRun>,
}

/// One of its runs.
#[derive(Debug, Serialize, Deserialize)]
struct SweepRun {
    /// The command line after the program's name; in the file without a password.
    words: Vec<String>,
    /// Runs of the same number share what the first of them loads.
    load: usize,
    /// The name of its folder, once it was begun.
    folder: Option<String>,
}

/// The command lines that `words` stands for, in order: the first list outermost.
///
/// # Errors
/// More lists than two, or a list with something else than numbers.
fn expand(words: &[String]) -> Result<Vec<Vec<String>>, String> {
    let mut out = vec![Vec::new()];
    let mut lists = 0;
    let mut option: Option<&str> = None;
    for word in words {
        let (name, value) = match (option.take(), word.split_once('=')) {
            (Some(name), _) => (name, word.as_str()),
            (None, Some((name, value))) if OPTIONS.contains(&name) => (name, value),
            _ => {
                option = OPTIONS.iter().find(|name| *name == word).copied();
                out.iter_mut()
                    .for_each(|line: &mut Vec<String>| line.push(word.clone()));
                continue;
            }
        };
        let values: Vec<&str> = value.split(',').collect();
        if let [_, _, ..] = values.as_slice() {
            lists += 1;
            if values.iter().any(|value| value.parse::<f64>().is_err()) {
                return Err(format!("{name} {value} is not a list of numbers"));
            }
        }
        let with = |line: &Vec<String>, value: &str| {
            let word = if word.contains('=') {
                format!("{name}={value}")
            } else {
                value.to_owned()
            };
            line.iter().cloned().chain([word]).collect::<Vec<String>>()
        };
        out = out
            .iter()
            .flat_map(|line| values.iter().map(move |value| with(line, value)))
            .collect();
    }
    if lists > LISTS_MAX {
        return Err(format!(
            "{lists} options are lists; at most {LISTS_MAX} may be"
        ));
    }
    Ok(out)
}

/// Whether the command line asks for a sweep; then it is made.
pub(crate) fn requested() -> Option<Result<(), LabError>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().map(String::as_str) != Some("run") {
        return None;
    }
    match expand(&words) {
        Ok(lines) if lines.len() > 1 => Some(begin(lines)),
        Ok(_) => None,
        Err(reason) => Some(Err(LabError::Sweep { reason })),
    }
}

fn begin(lines: Vec<Vec<String>>) -> Result<(), LabError> {
    let mut plans: Vec<(Vec<String>, RunArguments, Settings, Workload)> = Vec::new();
    for words in lines {
        // A wrong command line ends the program here with the parser's message.
        let arguments = RunArguments::parse_words(words.get(1..).unwrap_or_default())
            .unwrap_or_else(|error| error.exit());
        let workload = Workload::named(&arguments.workload)?;
        let settings = workload.settings(&arguments.preset, arguments.overrides())?;
        plans.push((words, arguments, settings, workload));
    }
    let Some((_, first, _, workload)) = plans.first() else {
        return Ok(());
    };
    let started = lab_kit::environment::now();
    let id =
        lab_kit::environment::run_id(&started, &format!("sweep-{}", workload.name), &first.preset);
    let folder = first.out.join(id);
    let may_share = only_reads(workload);
    // Runs that can share what was loaded stand together, whatever order the lists were given in.
    let mut loads: Vec<Settings> = Vec::new();
    let mut runs: Vec<SweepRun> = plans
        .iter()
        .map(|(words, _, settings, _)| {
            let known = loads
                .iter()
                .position(|other| may_share && is_same_load(other, settings));
            let load = known.unwrap_or_else(|| {
                loads.push(settings.clone());
                loads.len() - 1
            });
            SweepRun {
                words: words.clone(),
                load,
                folder: None,
            }
        })
        .collect();
    runs.sort_by_key(|run| run.load);
    make_folder(&folder)?;
    continue_sweep(
        &folder,
        Sweep {
            schema: SCHEMA.to_owned(),
            runs,
        },
    )
}

/// Goes on with the sweep in `folder`, if there is one; `target` stands in for the address, whose
/// password was not stored.
pub(crate) fn resume(folder: &Path, target: Option<&str>) -> Option<Result<(), LabError>> {
    let path = folder.join(FILE);
    let text = std::fs::read_to_string(&path).ok()?;
    let wrong = |reason: String| FolderError::Format {
        path: path.clone(),
        reason,
    };
    Some(match serde_json::from_str::<Sweep>(&text) {
        Ok(mut sweep) if sweep.schema == SCHEMA => {
            let lines = sweep.runs.iter_mut().map(|run| &mut run.words);
            if let Some(target) = target {
                lines.for_each(|words| *words = with(words, "--target", target));
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

/// Whether everything after the load only reads, so that the next run finds what this one found.
fn only_reads(workload: &Workload) -> bool {
    let reads = |operation: Operation| {
        matches!(
            operation,
            Operation::Point
                | Operation::Points
                | Operation::Range
                | Operation::IndexRange
                | Operation::Scan
                | Operation::Settle
        )
    };
    let role_reads = |role: &Role| {
        if role.operation == Operation::Mix {
            role.mix.iter().all(|(operation, _)| reads(*operation))
        } else {
            reads(role.operation)
        }
    };
    let steps = workload.steps(1);
    let first = steps.iter().position(|step| step.measured).unwrap_or(0);
    let mut rest = steps.iter().skip(first);
    first > 0
        && rest.all(|step: &Step| role_reads(&step.work) && step.background.iter().all(role_reads))
}

/// Whether the load of one run is good for the other.
fn is_same_load(one: &Settings, other: &Settings) -> bool {
    let mut other = other.clone();
    other.clients = one.clients;
    other.hot_rows = one.hot_rows;
    other.rate = one.rate;
    other.seconds = one.seconds;
    other.warmup_seconds = one.warmup_seconds;
    other.assign = one.assign;
    other.memory_mb = one.memory_mb;
    *one == other
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
        eprintln!("run {} of {total}: {}", number + 1, shown(&run.words));
        let found = match at.filter(|at| at.join(CHECKPOINT_FILE).exists()) {
            Some(at) => resume_run(&run.words, at),
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
    let runs: Vec<_> = read_side(folder)
        .unwrap_or_default()
        .into_iter()
        .filter(|run| run.run.complete)
        .collect();
    if !runs.is_empty() {
        write_page(&folder.join("report.html"), &runs_page(&runs)?)?;
    }
    ended.map_err(|error| match error {
        LabError::Sweep { reason } => LabError::SweepStopped {
            reason,
            folder: folder.to_owned(),
        },
        other => other,
    })
}

/// Writes how far the sweep came, without passwords; `begun` is a run that has just made its
/// folder.
fn save(folder: &Path, sweep: &Sweep, begun: Option<(usize, &str)>) -> Result<(), LabError> {
    let planned = |(number, run): (usize, &SweepRun)| SweepRun {
        words: run
            .words
            .iter()
            .map(|word| crate::credentials::without_password(word))
            .collect(),
        load: run.load,
        folder: begun
            .filter(|(at, _)| *at == number)
            .map_or_else(|| run.folder.clone(), |(_, name)| Some(name.to_owned())),
    };
    let kept = Sweep {
        schema: sweep.schema.clone(),
        runs: sweep.runs.iter().enumerate().map(planned).collect(),
    };
    Ok(write_json(&folder.join(FILE), &kept)?)
}

fn is_complete(folder: &Path) -> bool {
    read_result(folder).is_ok_and(|result| result.run.complete)
}

fn shown(words: &[String]) -> String {
    words
        .iter()
        .map(|word| crate::credentials::without_password(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Starts run `number` of a sweep and waits for its end; its folder.
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
    let mut words = with(&run.words, "--out", &folder.display().to_string());
    let loaded = others()
        .filter_map(|other| Some(folder.join(other.folder.as_ref()?)))
        .find(|other| other.join(LOADED).exists());
    if let Some(loaded) = loaded {
        let shared: Vec<String> = words
            .iter()
            .cloned()
            .chain(["--loaded-by".to_owned(), loaded.display().to_string()])
            .collect();
        match run_child(&shared, folder, began) {
            Err(LabError::Sweep { reason }) if reason == CHANGED => {
                eprintln!("{reason}: this run loads its own data")
            }
            done => return done,
        }
    }
    if others().count() > 1 {
        words.push("--keep-state".to_owned());
    }
    run_child(&words, folder, began)
}

const CHANGED: &str = "the data that were loaded are no longer there";

/// The command line with another value of an option that it has.
fn with(words: &[String], option: &str, value: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let is_value = out.last().is_some_and(|last| last == option);
        let is_both = word.split_once('=').is_some_and(|(name, _)| name == option);
        out.push(if is_value {
            value.to_owned()
        } else if is_both {
            format!("{option}={value}")
        } else {
            word.clone()
        });
    }
    out
}

/// Starts a run whose folder bears the number of its process, and waits.
fn run_child(
    words: &[String],
    folder: &Path,
    began: &mut dyn FnMut(&str) -> Result<(), LabError>,
) -> Result<PathBuf, LabError> {
    let child = Command::new(std::env::current_exe()?)
        .args(words)
        .stdin(Stdio::null())
        .spawn()?;
    let mark = format!("-{}", child.id());
    let find = || {
        let mut entries = std::fs::read_dir(folder).ok()?.flatten();
        entries.find_map(|entry| {
            entry
                .file_name()
                .to_str()
                .filter(|name| name.ends_with(&mark))
                .map(str::to_owned)
        })
    };
    let code = wait(child, &mut || {
        let Some(name) = find() else { return Ok(false) };
        began(&name)?;
        Ok(true)
    })?;
    match (find(), code) {
        (Some(name), 0) => Ok(folder.join(name)),
        (_, code) if code == i32::from(CODE_CHANGED) => Err(LabError::Sweep {
            reason: CHANGED.to_owned(),
        }),
        (_, code) => Err(LabError::Sweep {
            reason: format!("a run ended with status {code}"),
        }),
    }
}

/// Exit status of a run that does not find what another loaded.
pub(crate) const CODE_CHANGED: u8 = 5;

/// Goes on with the run in `at` and waits.
fn resume_run(words: &[String], at: PathBuf) -> Result<PathBuf, LabError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("resume").arg(&at);
    // Its password stands nowhere but here.
    let target = words
        .iter()
        .skip_while(|word| *word != "--target")
        .nth(1)
        .cloned();
    let target = target.or_else(|| {
        words
            .iter()
            .find_map(|word| word.strip_prefix("--target=").map(str::to_owned))
    });
    if let Some(target) = target.filter(|target| !target.contains(":***@")) {
        command.args(["--target", &target]);
    }
    match wait(command.stdin(Stdio::null()).spawn()?, &mut || Ok(true))? {
        0 => Ok(at),
        code => Err(LabError::Sweep {
            reason: format!("a run ended with status {code}"),
        }),
    }
}

/// Waits for the end of a run; an interrupt reaches the run, too, which then writes what it saw.
/// `began` is asked until it says yes.
fn wait(
    mut child: std::process::Child,
    began: &mut dyn FnMut() -> Result<bool, LabError>,
) -> Result<i32, LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let interrupt = interrupted();
        tokio::pin!(interrupt);
        let (mut has_begun, mut is_told) = (false, false);
        loop {
            if let Some(status) = child.try_wait()? {
                return match status.code() {
                    Some(code) if !is_told || code != 0 => Ok(code),
                    _ => Err(LabError::Sweep {
                        reason: "interrupted".to_owned(),
                    }),
                };
            }
            if !has_begun {
                has_begun = began()?;
            }
            tokio::select! {
                () = &mut interrupt, if !is_told => {
                    is_told = true;
                    let number = i32::try_from(child.id()).ok();
                    if let Some(pid) = number.and_then(rustix::process::Pid::from_raw) {
                        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
                    }
                }
                () = tokio::time::sleep(POLL) => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_list_is_one_command_line_for_each_value() {
        let lines = expand(&words(
            "run hot --clients 1,2 --out x --hot-rows=1,4 --rows 500",
        ))
        .unwrap();
        let requested = [
            "run hot --clients 1 --out x --hot-rows=1 --rows 500",
            "run hot --clients 1 --out x --hot-rows=4 --rows 500",
            "run hot --clients 2 --out x --hot-rows=1 --rows 500",
            "run hot --clients 2 --out x --hot-rows=4 --rows 500",
        ];
        assert_eq!(lines, requested.map(words));
        // A comma elsewhere is no list.
        assert_eq!(
            expand(&words("run hot --target mongodb://a,b --out x,y"))
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn refuses_three_lists_and_what_is_not_a_number() {
        assert!(
            expand(&words("run x --clients 1,2 --batch 1,2 --rows 1,2"))
                .unwrap_err()
                .contains("3 options")
        );
        assert_eq!(
            expand(&words("run x --clients 1,two")).unwrap_err(),
            "--clients 1,two is not a list of numbers"
        );
        assert!(expand(&words("run x --clients 1,")).is_err());
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
                only_reads(&Workload::named(name).unwrap()),
                requested,
                "{name}"
            );
        }
    }

    #[test]
    fn clients_do_not_change_what_is_loaded_but_the_payload_does() {
        let workload = Workload::named("point").unwrap();
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
    fn results_go_into_the_folder_of_the_sweep() {
        assert_eq!(
            with(&words("run x --out a --rows 1"), "--out", "s"),
            words("run x --out s --rows 1")
        );
        assert_eq!(
            with(&words("run x --out=a"), "--out", "s"),
            words("run x --out=s")
        );
    }

    #[test]
    fn no_password_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let line = words("run point --target mongodb://me:secret@h:1 --out x");
        let sweep = Sweep {
            schema: SCHEMA.to_owned(),
            runs: vec![SweepRun {
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
