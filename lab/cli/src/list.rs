//! The command `list`: workloads and presets.

use lab_kit::format;
use lab_kit::workload::{Settings, Workload};

use crate::errors::LabError;

/// Options of `list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Print a JSON array of the workloads with all settings of their presets
    #[arg(long)]
    json: bool,
}

/// A workload as JSON.
#[derive(serde::Serialize)]
struct WorkloadEntry<'a> {
    name: &'a str,
    title: &'a str,
    about: &'a str,
    source: &'a str,
    steps: Vec<&'a str>,
    presets: Vec<Settings>,
}

/// Prints workloads and presets.
pub(crate) fn run(arguments: &ListArguments) -> Result<(), LabError> {
    let all = Workload::all()?;
    if arguments.json {
        let listed: Vec<WorkloadEntry<'_>> = all.iter().map(describe_workload).collect();
        let text = serde_json::to_string_pretty(&listed).map_err(std::io::Error::other)?;
        print_line!("{text}");
        return Ok(());
    }
    for workload in all {
        print_line!("{}: {}", workload.name, workload.title);
        print_line!("  {}", workload.about);
        print_line!("  Source: {}", workload.source);
        for (name, settings) in workload.presets() {
            let seconds = settings
                .seconds
                .map_or_else(String::new, |seconds| format!(", {seconds} s"));
            print_line!(
                "    {name:<7} {} rows, {} clients, batch {}{seconds}",
                format::count(settings.rows),
                settings.clients,
                settings.batch
            );
        }
        print_line!("");
    }
    Ok(())
}

fn describe_workload(workload: &Workload) -> WorkloadEntry<'_> {
    let presets = workload.presets().into_iter();
    WorkloadEntry {
        name: &workload.name,
        title: &workload.title,
        about: workload.about.trim(),
        source: workload.source.trim(),
        steps: workload
            .steps
            .iter()
            .map(|step| step.name.as_str())
            .collect(),
        presets: presets.map(|(_, settings)| settings).collect(),
    }
}
