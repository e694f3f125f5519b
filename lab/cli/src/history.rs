//! The command `history`: finds the points at which results over many days changed, and draws a
//! page of trends.
//!
//! Promises: it measures nothing. With `--fail-on-worse` the exit status tells whether a recent
//! change made a metric worse.

use std::path::{Path, PathBuf};

use clap::Args;
use lab_kit::folder::read_result;
use lab_kit::history::{csv, prometheus, read, series_of, values};
use lab_kit::report::history_page;
use lab_kit::result::RunResult;

use crate::errors::LabError;
use crate::output::{make_folder, write_page};

/// The largest depth of nested folders: days, sweeps, runs.
const DEPTH_MAX: usize = 5;

/// Options of `history`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  quarry-lab history results --out history      (history.html, history.csv, history.prom)")]
pub(crate) struct HistoryArguments {
    /// Folder with runs, at any depth up to five folders
    pub(crate) folder: PathBuf,
    /// Folder for history.html, history.csv and history.prom [default: the folder of the runs]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A history.csv with values of earlier runs, to which those of these runs are added
    #[arg(long, value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// Exit with status 4 if the last change of a series made it worse and is at most RUNS runs old
    #[arg(long, value_name = "RUNS")]
    pub(crate) fail_on_worse: Option<usize>,
}

/// Reads the results, finds the changes and writes the files.
pub(crate) fn run(arguments: &HistoryArguments) -> Result<(), LabError> {
    let mut runs = Vec::new();
    collect(&arguments.folder, 0, &mut runs);
    if runs.is_empty() {
        return Err(lab_kit::compare::CompareError::Empty(arguments.folder.clone()).into());
    }
    let mut found = values(&runs);
    if let Some(file) = &arguments.values
        && file.exists()
    {
        let text = std::fs::read_to_string(file)?;
        let wrong = |reason| LabError::Words(format!("{}: {reason}", file.display()));
        found.extend(read(&text).map_err(wrong)?);
    }
    let all = series_of(found);
    if let Some(file) = &arguments.values {
        lab_kit::folder::write_whole(file, &csv(&all))?;
    }
    for line in all.iter().flat_map(lab_kit::history::Series::lines) {
        print_line!("{line}");
    }
    let out = arguments.out.as_ref().unwrap_or(&arguments.folder);
    make_folder(out)?;
    lab_kit::folder::write_whole(&out.join("history.csv"), &csv(&all))?;
    lab_kit::folder::write_whole(&out.join("history.prom"), &prometheus(&all))?;
    write_page(&out.join("history.html"), &history_page(&all))?;
    let is_recent = |one: &&lab_kit::history::Series| {
        let last = one.changes.last().filter(|change| !change.is_better);
        let age = last.map(|change| one.entries.len() - change.at);
        age.zip(arguments.fail_on_worse)
            .is_some_and(|(age, most)| age <= most)
    };
    match all.iter().find(is_recent) {
        Some(one) => Err(LabError::Wrong {
            what: one.lines().last().cloned().unwrap_or_default(),
            folder: out.clone(),
        }),
        None => Ok(()),
    }
}

/// Collects the runs in a folder. Runs that cannot be read are reported and skipped.
fn collect(folder: &Path, depth: usize, out: &mut Vec<RunResult>) {
    if folder.join("result.json").is_file() {
        match read_result(folder) {
            Ok(run) => out.push(run),
            Err(error) => note_line!("left out: {error}"),
        }
        return;
    }
    if depth >= DEPTH_MAX {
        return;
    }
    let mut inner: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    inner.sort();
    for path in inner {
        collect(&path, depth + 1, out);
    }
}
