//! The result of a replay: its step, its settings, its check, and how the program ends.

use std::path::Path;
use std::time::Duration;

use lab_kit::folder::RunFolder;
use lab_kit::format;
use lab_kit::recorder::{ClientSummary, latency_summary};
use lab_kit::result::{
    Check, LatencySummary, RecordingFacts, ReplayResult, RunResult, Sizes, StepResult, Warning,
};
use lab_kit::workload::Settings;

use super::arguments::{Order, ReplayArguments, ReplayMode};
use super::counts::ReplayCounts;
use super::summary::RecordingSummary;
use crate::errors::LabError;
use crate::run::summary_line;
use crate::sampler::SampledRole;

pub(super) fn step(
    arguments: &ReplayArguments,
    sampled_role: SampledRole,
    folder: &RunFolder,
    sizes: Sizes,
    active: Duration,
    counts: &ReplayCounts,
    recording: &RecordingFacts,
) -> Result<StepResult, LabError> {
    let (by_operation, replay) = counts.result();
    let summary = ClientSummary {
        ops: replay.kinds.values().map(|kind| kind.ops).sum(),
        active,
        behind: counts.behind,
    };
    let mut step =
        sampled_role
            .recorder
            .finish(folder, &[summary], counts.errors.clone(), sizes)?;
    step.more.rows_returned = counts.returned;
    step.more.rows_per_second = if step.seconds > 0.0 {
        counts.returned as f64 / step.seconds
    } else {
        0.0
    };
    step.more.service =
        (arguments.style == ReplayMode::Real).then(|| latency_summary(&counts.service));
    step.more.by_operation = by_operation;
    step.more.replay = Some(ReplayResult {
        style: arguments.style.name().to_owned(),
        speed: arguments.speed,
        order: match arguments.order() {
            Order::Connection => "connection",
            Order::Recorded => "recorded",
        }
        .to_owned(),
        recording: recording.clone(),
        ..replay
    });
    Ok(step)
}

/// The settings of a replay in the form of any run's settings; settings that a replay does not have
/// keep their defaults.
pub(super) fn settings(
    arguments: &ReplayArguments,
    summary: &RecordingSummary,
) -> Result<Settings, LabError> {
    let given = serde_json::json!({
        "preset": arguments.style.name(),
        "rows": summary.wanted,
        "clients": arguments.workers,
        "batch": 1,
        "seconds": arguments.seconds,
        "warmup_seconds": 0,
        "indexes": 0,
        "placement": "shared",
        "rate": null,
    });
    serde_json::from_value(given).map_err(|error| LabError::Replay(format!("settings: {error}")))
}

pub(super) fn describe_pace(arguments: &ReplayArguments, facts: &RecordingFacts) -> String {
    let pace = match arguments.style {
        ReplayMode::Real if arguments.speed == 1.0 => "at the recorded times".to_owned(),
        ReplayMode::Real => format!("at {} times the recorded pace", arguments.speed),
        ReplayMode::Stress => "as fast as the workers can".to_owned(),
    };
    format!(
        "{} operations recorded in {} at {}, sent again {pace} by {} workers, in order within each \
            recorded connection.",
        format::count(facts.ops),
        format::seconds(facts.seconds),
        facts.upstream,
        arguments.workers
    )
}

pub(super) fn warning(code: &str, text: &str) -> Warning {
    Warning {
        code: code.to_owned(),
        text: text.to_owned(),
    }
}

pub(super) fn of_recording(facts: &RecordingFacts) -> Vec<Warning> {
    let mut out = Vec::new();
    if let Some(cut) = &facts.cut {
        out.push(warning(
            "recording-cut",
            &format!("The recording ends early ({cut}): later operations were not replayed."),
        ));
    }
    if facts.anonymised {
        out.push(warning(
            "anonymised",
            "Strings of the recording are hashes: their order, and the results of regular \
             expressions, differ from the original.",
        ));
    }
    out
}

pub(super) fn checks(arguments: &ReplayArguments, step: &StepResult) -> Vec<Check> {
    let Some(replay) = &step.more.replay else {
        return Vec::new();
    };
    let found = replay.differences();
    let allowed = (arguments.allow_differences / 100.0 * replay.compared as f64) as u64;
    let mut kinds: Vec<String> = replay
        .differences
        .iter()
        .map(|(what, count)| format!("{what} {}", format::count(*count)))
        .collect();
    if found > 0 && arguments.order() == Order::Connection {
        kinds.push(
            "operations of different connections may have overtaken each other: --order \
            recorded keeps them apart"
                .to_owned(),
        );
    }
    vec![Check {
        name: "answers as recorded".to_owned(),
        expected: if allowed > 0 {
            format!("at most {} differences", format::count(allowed))
        } else {
            "0 differences".to_owned()
        },
        found: format!(
            "{} differences in {} answers",
            format::count(found),
            format::count(replay.compared)
        ),
        passed: (replay.compared > 0).then_some(found <= allowed),
        remark: kinds.join(", "),
    }]
}

/// Prints the results of the report, and decides the exit status.
pub(super) fn conclude(result: &RunResult, folder: &Path) -> Result<(), LabError> {
    for warning in &result.warnings {
        print_line!("warning: {}", warning.text);
    }
    if let Some(step) = result.main_step() {
        print_line!("{}", summary_line(step));
        let replay = step.more.replay.iter();
        for (kind, of) in replay.clone().flat_map(|replay| &replay.kinds) {
            let mean = |latency: &LatencySummary| format::latency_us(latency.mean_us);
            print_line!(
                "  {kind}: {}, mean {}, max {}; recorded mean {}",
                format::count(of.ops),
                mean(&of.service),
                format::latency_us(of.service.max_us),
                mean(&of.recorded)
            );
        }
        for (because, count) in replay.clone().flat_map(|replay| &replay.not_replayed) {
            print_line!("not replayed: {} ({because})", format::count(*count));
        }
        for one in replay.flat_map(|replay| &replay.first_differences) {
            print_line!(
                "operation {} ({} {}): {} was {}, is {}",
                one.op,
                one.kind,
                one.namespace,
                one.what,
                one.recorded,
                one.replayed
            );
        }
    }
    if let Some(reason) = &result.run.stopped_because {
        return Err(LabError::Partial {
            reason: reason.clone(),
            folder: folder.to_owned(),
        });
    }
    if let Some(check) = result
        .checks
        .iter()
        .find(|check| check.passed == Some(false))
    {
        let what = format!(
            "{}: expected {}, found {} ({})",
            check.name, check.expected, check.found, check.remark
        );
        return Err(LabError::Wrong {
            what,
            folder: folder.to_owned(),
        });
    }
    for check in &result.checks {
        print_line!(
            "{}: {} ({})",
            if check.passed.is_some() {
                "right"
            } else {
                "not checked"
            },
            check.name,
            check.found
        );
    }
    print_line!("{}", folder.join("report.html").display());
    Ok(())
}
