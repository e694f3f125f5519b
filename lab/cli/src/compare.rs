//! The commands `report` and `compare`, which draw pages from folders of runs.
//!
//! Promises: they measure nothing, so they may run on any machine and at any time after the runs.

use std::path::{Path, PathBuf};

use clap::Args;
use lab_kit::compare::{Comparison, compare, read_side, text};
use lab_kit::folder::read_result;
use lab_kit::report::{comparison_page, page, runs_page};

use crate::errors::LabError;
use crate::output::{make_folder, write_json, write_page};

/// Options of `report`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  quarry-lab report results/<run id>                                 (draws report.html of a run \
  again)
  quarry-lab report results/clients-1 results/clients-8 --out hot.html  (one page for several runs \
  of a workload)")]
pub(crate) struct ReportArguments {
    /// Folders of runs (with result.json), or folders that contain such folders
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// HTML file to write; needed for several runs [default: report.html in the folder of the run]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Options of `compare`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example, with three runs of each side that took turns (A, B, A, B, A, B):
  quarry-lab compare results/old results/new --out comparison

A and B are folders of runs, or folders of one run. Both need the same number of runs, which are \
compared in pairs in order of time. A verdict says how B differs from A.
Exit status: 0 compared; 1 not comparable (one line says why).")]
pub(crate) struct CompareArguments {
    /// Baseline: a folder of runs, or the folder of one run
    pub(crate) a: PathBuf,
    /// Side that is compared with the baseline: a folder of runs, or the folder of one run
    pub(crate) b: PathBuf,
    /// Folder for comparison.html and comparison.json
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Settings that may differ between the sides, separated by commas, because the comparison is
    /// about them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
}

/// Draws pages from results.
pub(crate) fn report(arguments: &ReportArguments) -> Result<(), LabError> {
    if let ([folder], None) = (arguments.folders.as_slice(), &arguments.out)
        && (folder.is_file() || folder.join("result.json").is_file())
    {
        let result = read_result(folder)?;
        let directory = if folder.is_dir() {
            folder
        } else {
            folder.parent().unwrap_or(Path::new("."))
        };
        return write_page(&directory.join("report.html"), &page(&result));
    }
    let Some(out) = &arguments.out else {
        return Err(LabError::NeedsOut);
    };
    let mut runs = Vec::new();
    for folder in &arguments.folders {
        runs.extend(read_side(folder)?);
    }
    write_page(out, &runs_page(&runs)?)
}

/// Compares two sides.
pub(crate) fn run(arguments: &CompareArguments) -> Result<(), LabError> {
    let (a, b) = (read_side(&arguments.a)?, read_side(&arguments.b)?);
    let names = [&arguments.a, &arguments.b].map(|path| path.display().to_string());
    let comparison: Comparison = compare(names, &a, &b, &arguments.allow)?;
    crate::terminal::print(format_args!("{}", text(&comparison)));
    if let Some(out) = &arguments.out {
        make_folder(out)?;
        write_json(&out.join("comparison.json"), &comparison)?;
        write_page(
            &out.join("comparison.html"),
            &comparison_page(&comparison, &a, &b),
        )?;
    }
    Ok(())
}
