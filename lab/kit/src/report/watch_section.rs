//! Deliveries of changes and documents that expire, on the page of a run.

use std::fmt::Write;

use super::html::escape;
use crate::format;
use crate::nearest::Recall;
use crate::result::{AgreementResult, Expiry, FanOut, ProgramRuns, RunResult, StepResult};

/// A table of all steps with readers and one of all in which documents expired.
pub(super) fn write(out: &mut String, result: &RunResult) {
    let readers = |step: &StepResult| step.more.fan_out.as_ref().map(fan_out_figures);
    write_table(out, "Readers of changes", result, readers);
    let expiry = |step: &StepResult| step.more.expiry.as_ref().map(expiry);
    write_table(out, "Documents that expire", result, expiry);
    let recall = |step: &StepResult| {
        let mut figures = recall(step.more.recall.as_ref()?);
        figures.push(("searches/s", format::number(step.rate.average)));
        Some(figures)
    };
    write_table(out, "Neighbours found", result, recall);
    let agreed = |step: &StepResult| agreement_figures(&step.more.agreed);
    write_table(out, "What had to agree after the work", result, agreed);
    let program = |step: &StepResult| step.more.program.as_ref().map(program);
    write_table(out, "The user's program beside the work", result, program);
}

type Figures = Vec<(&'static str, String)>;

fn recall(found: &Recall) -> Figures {
    vec![
        (
            "found of the exact neighbours",
            format!("{:.1} %", found.percent),
        ),
        ("of the worst search", format!("{:.1} %", found.percent_min)),
        ("neighbours asked for", found.neighbours.to_string()),
        ("searches compared", found.searches.to_string()),
        ("vectors", format::count(found.vectors)),
    ]
}

/// The workload chooses the names of its questions: they share one column.
fn agreement_figures(found: &[AgreementResult]) -> Option<Figures> {
    let line = |one: &AgreementResult| {
        let after = one.after_s.map(format::seconds);
        let after = after.map_or_else(|| "never".to_owned(), |after| format!("after {after}"));
        format!("{} {after}", one.name)
    };
    let lines: Vec<String> = found.iter().map(line).collect();
    (!lines.is_empty()).then(|| vec![("alike", lines.join("; "))])
}

fn program(found: &ProgramRuns) -> Figures {
    let last = if found.was_ended {
        "ended with the step"
    } else {
        "–"
    };
    vec![
        ("whole runs", found.whole.to_string()),
        ("failed runs", found.failed.to_string()),
        (
            "mean time",
            or_unknown(found.seconds_mean.map(format::seconds)),
        ),
        ("last run", last.to_owned()),
        ("CPU of all", format::seconds(found.cpu_seconds)),
    ]
}

fn write_table(
    out: &mut String,
    title: &str,
    result: &RunResult,
    of: impl Fn(&StepResult) -> Option<Figures>,
) {
    let steps: Vec<_> = result
        .steps
        .iter()
        .filter_map(|step| Some((step.name.as_str(), of(step)?)))
        .collect();
    let Some((_, first)) = steps.first() else {
        return;
    };
    let _ = write!(
        out,
        "<h2>{title}</h2>\n<div class=\"card scroll\"><table class=\"right steps\"><thead><tr><th \
            scope=\"col\">Step</th>"
    );
    for (name, _) in first {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (step, figures) in &steps {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(step));
        for (_, value) in figures {
            let _ = write!(out, "<td>{}</td>", escape(value));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn or_unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}

fn fan_out_figures(found: &FanOut) -> Figures {
    let lag = |percent: f64| or_unknown(found.lag.percentile(percent).map(format::latency_us));
    vec![
        ("readers", found.readers.to_string()),
        ("writers", found.writers.to_string()),
        (
            "events/s, all readers",
            format::number(found.events_per_second),
        ),
        (
            "events/s by reader",
            format!(
                "{} to {}",
                format::number(found.reader_min_per_second),
                format::number(found.reader_max_per_second)
            ),
        ),
        ("lag p50", lag(50.0)),
        ("lag p99", lag(99.0)),
        ("lag max", format::latency_us(found.lag.max_us)),
        (
            "until all had all",
            or_unknown(found.drain_seconds.map(format::seconds)),
        ),
        (
            "server CPU by event, writes included",
            or_unknown(found.server_cpu_us_per_event.map(format::latency_us)),
        ),
    ]
}

fn expiry(found: &Expiry) -> Figures {
    let rate = found.rate_percent.zip(found.rate_without);
    let rate = rate.map(|(percent, without)| {
        format!(
            "{} % of {}",
            format::number(percent),
            format::number(without)
        )
    });
    vec![
        ("age", format::seconds(f64::from(found.after_seconds))),
        ("stored to expire", format::count(found.inserted)),
        ("removed meanwhile", format::count(found.removed_meanwhile)),
        ("removed/s", format::number(found.removed_per_second)),
        ("past its time p50", format::seconds(found.lag_p50_s)),
        ("p99", format::seconds(found.lag_p99_s)),
        ("max", format::seconds(found.lag_max_s)),
        (
            "until all were gone",
            or_unknown(found.gone_after_s.map(format::seconds)),
        ),
        ("rate by that without expiry", or_unknown(rate)),
    ]
}

/// A line for each watcher of a step.
pub fn watch_lines(step: &StepResult) -> Vec<String> {
    let readers = step.more.fan_out.as_ref().map(fan_out_figures);
    let expired = step.more.expiry.as_ref().map(expiry);
    let line = |figures: Figures| {
        let words = figures
            .iter()
            .map(|(name, value)| format!("{name}: {value}"));
        words.collect::<Vec<_>>().join("; ")
    };
    let recall = step.more.recall.as_ref().map(recall);
    let agreed = agreement_figures(&step.more.agreed);
    let program = step.more.program.as_ref().map(program);
    let all = [readers, expired, recall, agreed, program];
    all.into_iter().flatten().map(line).collect()
}
