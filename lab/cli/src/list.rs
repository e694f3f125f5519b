//! The command `list`: workloads and presets.

use lab_kit::format;
use lab_kit::workload::Workload;

use crate::errors::LabError;

/// Prints workloads and presets.
pub(crate) fn run() -> Result<(), LabError> {
    for workload in Workload::all()? {
        println!("{}: {}", workload.name, workload.title);
        println!("  {}", workload.about);
        println!("  Source: {}", workload.source);
        for (name, settings) in workload.presets() {
            let seconds = settings
                .seconds
                .map_or_else(String::new, |seconds| format!(", {seconds} s"));
            println!(
                "    {name:<7} {} rows, {} clients, batch {}{seconds}",
                format::count(settings.rows),
                settings.clients,
                settings.batch
            );
        }
        println!();
    }
    Ok(())
}
