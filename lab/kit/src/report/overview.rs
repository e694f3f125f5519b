//! The overview of a run with several measured steps: averages, latency, sizes after each step,
//! charts over time, scatter.

use std::fmt::Write;

use super::axis::Quantity;
use super::html::escape;
use super::overlay::{self, COLOURS, LegendStep, colour};
use crate::metric;
use crate::result::{RunResult, StepResult};
use crate::workload::Workload;

/// Writes the section; nothing for runs of one measured step.
pub(super) fn write(out: &mut String, result: &RunResult) {
    let measured: Vec<&StepResult> = result.steps.iter().filter(|step| step.measured).collect();
    if !result.skipped.is_empty() {
        out.push_str("<ul class=\"notes\" aria-label=\"Steps left out\">\n");
        for skipped in &result.skipped {
            let _ = writeln!(
                out,
                "<li>Step {} was left out: {}.</li>",
                escape(&skipped.step),
                escape(&skipped.because)
            );
        }
        out.push_str("</ul>\n");
    }
    if measured.len() < 2 {
        return;
    }
    out.push_str("<h2>All measured steps</h2>\n");
    out.push_str("<div class=\"charts\">\n");
    let bars = |title: &str, unit: &str, quantity, id: &str| {
        let values: Vec<(String, Option<f64>)> = measured
            .iter()
            .map(|step| {
                (
                    step.name.clone(),
                    metric::find(id).and_then(|metric| metric.value(step)),
                )
            })
            .collect();
        let mut bars = overlay::bars(title, unit, quantity, &values);
        bars.half = false;
        bars.render()
    };
    out.push_str(&bars(
        "Average throughput of each step",
        "operations per second",
        Quantity::Number,
        "rate",
    ));
    out.push_str(&bars(
        "Latency of each step, p99",
        "p99",
        Quantity::LatencyUs,
        "latency_us_p99",
    ));
    out.push_str(&bars(
        "Data directory after each step",
        "bytes",
        Quantity::Bytes,
        "directory_bytes",
    ));
    if let Some(chart) = overlay::scatter(&scan_steps(result)) {
        out.push_str(&chart.render());
    }
    for (number, group) in measured.chunks(COLOURS).enumerate() {
        let named: Vec<LegendStep<'_>> = group
            .iter()
            .enumerate()
            .map(|(at, step)| LegendStep {
                name: step.name.clone(),
                colour: colour(at),
                step,
            })
            .collect();
        if named.iter().all(|one| one.step.series.is_empty()) {
            continue;
        }
        if measured.len() > COLOURS {
            let _ = writeln!(
                out,
                "<h3 class=\"part\">Steps {} to {}</h3>",
                number * COLOURS + 1,
                number * COLOURS + group.len()
            );
        }
        out.push_str(&overlay::throughput(&named, "operations"));
    }
    out.push_str("</div>\n");
}

/// Steps that look at a number of documents, with that number as the workload file says.
fn scan_steps(result: &RunResult) -> Vec<(u32, &StepResult)> {
    let Ok(workload) = Workload::load(&result.run.workload) else {
        return Vec::new();
    };
    let limit = |name: &str| {
        let step = workload.steps.iter().find(|step| step.name == name)?;
        (step.work.operation == crate::workload::Operation::Scan).then_some(step.work.limit?)
    };
    result
        .steps
        .iter()
        .filter_map(|step| Some((limit(&step.name)?, step)))
        .collect()
}
