//! The page of a search for a rate: the outcome, the latency curve, and every rate that was tried.

use std::fmt::Write;

use super::axis::Quantity;
use super::chart::{Chart, Line};
use super::html::{escape, foot, head};
use crate::format;
use crate::rate_search::RateSearch;
use crate::result::{RunResult, StepResult};
use crate::statistics::mean;

const PERCENTILES: [(f64, &str); 4] =
    [(50.0, "p50"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99.9")];

/// The page; `runs` are the runs of the search.
pub fn rate_page(search: &RateSearch, runs: &[RunResult]) -> String {
    let first = runs.first();
    let title = first.map_or_else(String::new, |run| run.run.title.clone());
    let target = first.map_or_else(String::new, |run| run.target.name());
    let mut out = head(&format!("{title}: rate for {}", search.condition.text));
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\"><span>quarry-lab</span><span>search for a rate</span><span>{} \
            runs</span></div>\n<h1>{}: {}</h1>\n<p class=\"verdict\">{}</p>\n<p \
            class=\"muted\">Against {}. Each rate was tried as an open loop, its calls due on a \
            schedule; latency counts from when a call was due. A rate is kept if most of its \
            repeats were complete, right, without errors, reached 95 % of the rate and kept the \
            condition. The closed loop of as many clients reached {}/s.</p>",
        runs.len(),
        escape(&title),
        escape(&search.condition.text),
        escape(&search.outcome()),
        escape(&target),
        format::number(search.closed_loop_rate)
    );
    out.push_str("<div class=\"charts\">\n");
    out.push_str(&curve(search, runs).render());
    out.push_str("</div>\n");
    write_rates(&mut out, search);
    out.push_str("<h2>Runs</h2>\n<div class=\"card\"><table><tbody>\n");
    for run in runs {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td><code>{}</code></td></tr>",
            escape(&run.run.id),
            escape(&run.run.command_line)
        );
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str(&foot(
        "Each run's folder holds its own page and all numbers.",
    ));
    out
}

fn steps(runs: &[RunResult], rate: f64) -> impl Iterator<Item = &StepResult> {
    runs.iter()
        .filter(move |run| run.settings.rate == Some(rate))
        .filter_map(RunResult::main_step)
}

/// Latency by rate, the mean over repeats.
fn curve(search: &RateSearch, runs: &[RunResult]) -> Chart {
    let mut rates: Vec<f64> = search.tried.iter().map(|one| one.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let at = |rate: f64, of: &dyn Fn(&StepResult) -> Option<f64>| {
        mean(&steps(runs, rate).filter_map(of).collect::<Vec<_>>())
    };
    let lines = PERCENTILES
        .iter()
        .enumerate()
        .map(|(number, (percentile, name))| Line {
            name: (*name).to_owned(),
            colour: super::overlay::colour(number),
            values: rates
                .iter()
                .map(|rate| at(*rate, &|step| step.latency.percentile(*percentile)))
                .collect(),
            is_dots: false,
        });
    let highest = rates.last().copied().unwrap_or(1.0);
    Chart {
        title: "Latency by rate".to_owned(),
        caption: "The mean over repeats of each rate. Dashed: the condition.".to_owned(),
        half: false,
        x_title: "Calls per second asked for".to_owned(),
        x_readout: rates
            .iter()
            .map(|rate| format!("{}/s", format::number(*rate)))
            .collect(),
        x_range: (0.0, highest * 1.03),
        x: rates.clone(),
        x_ticks: None,
        y_title: "latency".to_owned(),
        quantity: Quantity::LatencyUs,
        lines: lines.collect(),
        band: None,
        reference: Some((search.condition.limit_us(), search.condition.text.clone())),
        warmup_end: 0.0,
        stalls: Vec::new(),
        opens_logarithmic: true,
    }
}

fn write_rates(out: &mut String, search: &RateSearch) {
    out.push_str(
        "<h2>Rates tried</h2>\n<div class=\"card scroll\"><table class=\"right steps\">\
            <thead><tr><th \
            scope=\"col\">calls/s</th><th scope=\"col\">kept</th><th scope=\"col\">latency of each \
            repeat</th><th scope=\"col\">why not</th></tr></thead><tbody>\n",
    );
    for one in &search.tried {
        let latencies: Vec<String> = one
            .repeats
            .iter()
            .map(|judged| {
                judged
                    .latency_us
                    .map_or_else(|| "–".to_owned(), format::latency_us)
            })
            .collect();
        let mut reasons: Vec<&str> = one
            .repeats
            .iter()
            .map(|judged| judged.because.as_str())
            .filter(|because| !because.is_empty())
            .collect();
        reasons.dedup();
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"{}\">{}</td><td>{}</td><td>{}</td></tr>",
            format::number(one.rate),
            if one.is_kept { "up" } else { "down" },
            if one.is_kept { "yes" } else { "no" },
            escape(&latencies.join(", ")),
            escape(&reasons.join(", "))
        );
    }
    out.push_str("</tbody></table></div>\n");
}
