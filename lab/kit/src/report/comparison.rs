//! The page of a comparison: verdicts first, then intervals, then both sides over time.

use std::fmt::Write;

use super::axis::{Quantity, round_ticks};
use super::html::{escape, foot, head};
use super::overlay::{LegendStep, percentiles, throughput};
use crate::compare::{Comparison, MetricComparison, StepComparison, Verdict, change, smallest};
use crate::format;
use crate::result::{RunResult, StepResult};
use crate::statistics::Estimate;

/// The most lines over time; readers cannot distinguish more.
const PAIRS_SHOWN: usize = 4;

/// The page.
pub fn comparison_page(comparison: &Comparison, a: &[RunResult], b: &[RunResult]) -> String {
    let title = format!("Comparison: {}", comparison.workload);
    let mut out = head(&title);
    let pairs = comparison.pairs.len();
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\"><span>quarry-lab</span><span>comparison of {pairs} \
            {}</span></div>\n<h1>{}</h1>\n<p class=\"verdict\">{}</p>",
        if pairs == 1 { "pair" } else { "pairs" },
        escape(&title),
        escape(&summary(comparison))
    );
    let _ = writeln!(
        out,
        "<div class=\"columns\"><div class=\"card\"><h3><i class=\"swatch \
            b1\"></i>A</h3><p>{}</p><p class=\"muted\">{}</p></div>\
         <div class=\"card\"><h3><i class=\"swatch b2\"></i>B</h3><p>{}</p><p \
         class=\"muted\">{}</p></div></div>",
        escape(&comparison.names[0]),
        escape(&a.first().map_or_else(String::new, |run| run.target.name())),
        escape(&comparison.names[1]),
        escape(&b.first().map_or_else(String::new, |run| run.target.name())),
    );
    if !comparison.remarks.is_empty() {
        out.push_str("<ul class=\"notes\" aria-label=\"Remarks\">\n");
        for remark in &comparison.remarks {
            let _ = writeln!(out, "<li>{}</li>", escape(remark));
        }
        out.push_str("</ul>\n");
    }
    for step in &comparison.steps {
        write_step(&mut out, step, a, b);
    }
    out.push_str(
        "<h2>Method</h2>\n<p>Repeats are pairs in the order of time. The change is the geometric \
            mean of the pairs' ratios B by A; its interval \
         holds with 95 % (Student's t on their logarithms; where a value is zero, on plain \
         differences). Better or worse: the interval \
         excludes no change and the change is at least 1 %. No difference seen is not the same as \
         no difference: \"found from\" is the smallest change that these repeats could have found, \
         half the width of the interval; more repeats make it smaller.</p>\n",
    );
    out.push_str(
        "<h2>Pairs</h2>\n<div class=\"card\"><table><thead><tr><th \
        scope=\"col\">A</th><th scope=\"col\">B</th></tr></thead><tbody>\n",
    );
    for [a, b] in &comparison.pairs {
        let _ = writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", escape(a), escape(b));
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str(&foot(
        "All numbers are in comparison.json beside this page.",
    ));
    out
}

fn summary(comparison: &Comparison) -> String {
    let metrics = || comparison.steps.iter().flat_map(|step| &step.metrics);
    if comparison.pairs.len() < 2 {
        return "One pair: the differences below may be chance, so there is no verdict.".to_owned();
    }
    let count = |wanted: Verdict| metrics().filter(|metric| metric.verdict == wanted).count();
    format!(
        "B against A: {} metrics better, {} worse, {} without a difference seen.",
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::NoDifferenceSeen)
    )
}

fn write_step(out: &mut String, step: &StepComparison, a: &[RunResult], b: &[RunResult]) {
    let _ = writeln!(
        out,
        "<h2>Step {}</h2>\n<div class=\"card scroll\"><table class=\"right steps\"><thead><tr><th \
            scope=\"col\">metric</th><th scope=\"col\">A</th>\
         <th scope=\"col\">B</th><th scope=\"col\">change (95 % interval)</th><th \
         scope=\"col\">found from</th><th scope=\"col\">verdict</th></tr></thead><tbody>",
        escape(&step.step)
    );
    for metric in &step.metrics {
        let class = match metric.verdict {
            Verdict::Better => "good",
            Verdict::Worse => "bad",
            _ => "plain",
        };
        let value = |value: f64| {
            if metric.unit == "bytes" {
                format::bytes(value)
            } else {
                format!("{} {}", format::number(value), metric.unit)
            }
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                <td><span class=\"pill \
                {class}\">{}</span></td></tr>",
            escape(&metric.name),
            escape(value(metric.a).trim()),
            escape(value(metric.b).trim()),
            escape(&change(metric)),
            escape(&smallest(metric)),
            metric.verdict.name()
        );
    }
    out.push_str("</tbody></table></div>\n<div class=\"charts\">\n");
    out.push_str(&forest(&step.metrics));
    let of = |run: &'_ RunResult| run.steps.iter().position(|other| other.name == step.step);
    let mut named = Vec::new();
    for (side, colours, runs) in [("A", [1, 3, 5, 7], a), ("B", [2, 4, 6, 8], b)] {
        for (number, (run, colour)) in runs.iter().zip(colours).take(PAIRS_SHOWN).enumerate() {
            if let Some(found) = of(run).and_then(|at| run.steps.get(at)) {
                named.push(LegendStep {
                    name: format!("{side}{}", number + 1),
                    colour,
                    step: found,
                });
            }
        }
    }
    if named.iter().any(|one| !one.step.series.is_empty()) {
        out.push_str(&throughput(&named, &step.unit));
        let side = |runs: &'_ [RunResult]| -> Vec<StepResult> {
            runs.iter()
                .filter_map(|run| run.steps.get(of(run)?).cloned())
                .collect()
        };
        let (side_a, side_b) = (side(a), side(b));
        let groups = [
            ("A, all runs".to_owned(), 1, side_a.iter().collect()),
            ("B, all runs".to_owned(), 2, side_b.iter().collect()),
        ];
        out.push_str(&percentiles(&groups).render());
    }
    out.push_str("</div>\n");
}

/// The end of the axis in percent: one very uncertain metric must not hide all others.
fn bound_of(shown: &[(&MetricComparison, Estimate)]) -> f64 {
    let mut ends: Vec<f64> = shown
        .iter()
        .map(|(_, change)| change.low.abs().max(change.high.abs()))
        .collect();
    ends.sort_by(f64::total_cmp);
    let middle = ends.get(ends.len() / 2).copied().unwrap_or(1.0);
    let largest = shown
        .iter()
        .map(|(_, change)| change.mean.abs())
        .fold(0.0, f64::max);
    (middle * 3.0)
        .max(largest * 1.1)
        .max(2.0)
        .min(ends.last().copied().unwrap_or(2.0).max(2.0) * 1.05)
}

/// Changes and their intervals as a picture: a dot and a bar for each metric, no change in the
/// middle.
fn forest(metrics: &[MetricComparison]) -> String {
    let shown: Vec<_> = metrics
        .iter()
        .filter_map(|metric| Some((metric, metric.change_percent?)))
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let bound = bound_of(&shown);
    let (left, right, row) = (330.0, 1040.0, 24.0);
    let height = shown.len() as f64 * row + 58.0;
    let x = |percent: f64| {
        left + (percent.clamp(-bound, bound) + bound) / (2.0 * bound) * (right - left)
    };
    let mut out = format!(
        "<figure>\n<div class=\"head\"><h3>Changes with their intervals</h3></div>\n<div \
            class=\"plot\" tabindex=\"0\">\n\
         <svg viewBox=\"0 0 1060 {height}\" role=\"img\"><title>Changes from A to B in percent, \
         with 95 % intervals</title>\n\
         <desc>The same numbers as in the table above.</desc>\n"
    );
    let step = Quantity::Number.round_step(bound / 3.0);
    for percent in round_ticks(-bound, bound, step) {
        let at = x(percent);
        let text = if percent.abs() < 1e-9 {
            "no change".to_owned()
        } else {
            format!("{percent:+.0} %").replace('-', "−")
        };
        let class = if percent.abs() < 1e-9 {
            "reference"
        } else {
            "grid"
        };
        let _ = writeln!(
            out,
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"10\" y2=\"{}\"/><text \
                x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            height - 40.0,
            height - 22.0
        );
    }
    for (number, (metric, change)) in shown.iter().enumerate() {
        let y = 22.0 + number as f64 * row;
        let colour = match metric.verdict {
            Verdict::Better => "3",
            Verdict::Worse => "2",
            _ => "0",
        };
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n<line class=\"interval \
                c{colour}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y}\" y2=\"{y}\"/>\
             <circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{y}\" r=\"5\"/>",
            left - 14.0,
            y + 4.5,
            escape(&metric.name),
            x(change.low),
            x(change.high),
            x(change.mean)
        );
    }
    out.push_str(
        "</svg></div>\n<figcaption>Intervals that leave the picture end at its edge. \
        Green: better; orange: worse; grey: no difference seen.</figcaption>\n</figure>\n",
    );
    out
}
