//! The page of a history: the changes, and each series over time with the means between changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::axis::Quantity;
use super::chart::{Chart, Line};
use super::html::{capital, escape, foot, head};
use crate::format;
use crate::history::{Build, Series, builds};

/// A series of fewer runs has no trend to be drawn.
const RUNS_MIN: usize = 2;
/// Charts on one page; the CSV has all.
const CHARTS_MAX: usize = 120;

/// The page.
pub fn history_page(all: &[Series]) -> String {
    let entries = all.iter().flat_map(|one| &one.entries);
    let runs: BTreeSet<&str> = entries.map(|entry| entry.run.as_str()).collect();
    let runs = runs.len();
    let mut out = head("History of runs");
    let worse = changes(all, false);
    let better = changes(all, true);
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\"><span>quarry-lab</span><span>history</span><span>{runs} \
            runs</span></div>\n<h1>History of runs</h1>\n<p class=\"verdict\">{} for the worse, {} \
            for the better in {} series.</p>\n<p class=\"muted\">A series holds runs of one \
            workload with the same settings, labels, kind of target, machine and build; versions \
            may differ. Changes are found by energy statistics (E-divisive): the split that sets \
            both sides furthest apart, kept if none of 999 permutations does as well and \
            the means differ by 1 %. Three runs or more stand on each side.</p>",
        capital(&count(worse.len())),
        count(better.len()),
        all.len()
    );
    for (class, lines) in [("bad", worse), ("good", better)] {
        if lines.is_empty() {
            continue;
        }
        out.push_str("<ul class=\"notes\" aria-label=\"Changes\">\n");
        for line in lines {
            let _ = writeln!(out, "<li class=\"{class}\">{}</li>", escape(&line));
        }
        out.push_str("</ul>\n");
    }
    write_builds(&mut out, all);
    let mut groups: BTreeMap<(&str, &str), Vec<&Series>> = BTreeMap::new();
    let shown = all.iter().filter(|one| one.entries.len() >= RUNS_MIN);
    for one in shown.take(CHARTS_MAX) {
        groups.entry((&one.name, &one.step)).or_default().push(one);
    }
    for ((name, step), series) in groups {
        let _ = writeln!(
            out,
            "<h2>{}, step {}</h2>\n<div class=\"charts\">",
            escape(name),
            escape(step)
        );
        for one in series {
            out.push_str(&chart(one).render());
        }
        out.push_str("</div>\n");
    }
    out.push_str(&foot(
        "All values are in history.csv, the last in history.prom.",
    ));
    out
}

/// Rate and CPU by build: a row for each build of a workload's step, with the ratio to the previous
/// build.
fn write_builds(out: &mut String, all: &[Series]) {
    let of = |id: &'static str| all.iter().filter(move |one| one.metric.id == id);
    let several: Vec<&Series> = of("rate").filter(|one| builds(one).len() > 1).collect();
    if several.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Rate and CPU by build</h2>\n<p class=\"muted\">Builds in the order in which they were \
            measured first; in brackets what a build is by the one above it, with an interval of \
            95 %, bold where that excludes no change and the change is 1 % or more.</p>\n<div \
            class=\"card scroll\"><table class=\"right\"><thead><tr><th scope=\"col\">workload, \
            step</th><th scope=\"col\">build</th><th scope=\"col\">measured</th><th \
            scope=\"col\">runs</th><th scope=\"col\">operations/s</th><th scope=\"col\">server CPU \
            by operation</th></tr></thead><tbody>\n",
    );
    for rate in several {
        let same = |other: &&Series| {
            (&other.name, &other.conditions, &other.step)
                == (&rate.name, &rate.conditions, &rate.step)
        };
        let cpu = of("server_cpu_us_per_op").find(same);
        let cpu: Vec<Build> = cpu.map(builds).unwrap_or_default();
        for (at, build) in builds(rate).iter().enumerate() {
            let name = match at {
                0 => format!("{}, {}", rate.name, rate.step),
                _ => String::new(),
            };
            let cost = cpu.iter().find(|one| one.name == build.name);
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td>{}{}</tr>",
                escape(&name),
                escape(&build.name),
                escape(build.at.get(..10).unwrap_or(&build.at)),
                build.runs,
                cell(Some(build), format::number),
                cell(cost, format::latency_us)
            );
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn cell(build: Option<&Build>, shown: impl Fn(f64) -> String) -> String {
    let Some(build) = build else {
        return "<td>–</td>".to_owned();
    };
    let ratio = build.ratio.map_or_else(String::new, |ratio| {
        let text = format!("{:.3} ({:.3} to {:.3})", ratio.mean, ratio.low, ratio.high);
        match build.verdict {
            Some(true) => format!(" <b class=\"better\">{text}</b>"),
            Some(false) => format!(" <b class=\"worse\">{text}</b>"),
            None => format!(" {text}"),
        }
    });
    format!("<td>{}{ratio}</td>", escape(&shown(build.mean)))
}

fn count(changes: usize) -> String {
    match changes {
        0 => "no change".to_owned(),
        1 => "1 change".to_owned(),
        many => format!("{many} changes"),
    }
}

fn changes(all: &[Series], is_better: bool) -> Vec<String> {
    let mut out = Vec::new();
    for one in all {
        let lines = one.lines().into_iter().zip(&one.changes);
        out.extend(
            lines
                .filter(|(_, change)| change.is_better == is_better)
                .map(|(line, _)| line),
        );
    }
    out
}

fn chart(one: &Series) -> Chart {
    let values: Vec<f64> = one.entries.iter().map(|entry| entry.value).collect();
    let mut bounds = vec![0];
    bounds.extend(one.changes.iter().map(|change| change.at));
    bounds.push(values.len());
    let mut means = Vec::new();
    for pair in bounds.windows(2) {
        let &[begin, end] = pair else { continue };
        let side = values.get(begin..end).unwrap_or_default();
        let mean = side.iter().sum::<f64>() / side.len().max(1) as f64;
        means.extend(side.iter().map(|_| Some(mean)));
    }
    let unit = one.metric.unit_for(&one.unit);
    let is_latency = unit == "µs";
    let last = values.len();
    Chart {
        title: capital(one.metric.name),
        caption: "Each point is a run, in order of time; the line is the mean between changes."
            .to_owned(),
        half: true,
        x_title: "Run".to_owned(),
        x: (1..=last).map(|number| number as f64).collect(),
        x_readout: one
            .entries
            .iter()
            .map(|entry| format!("{}, {}", entry.at, entry.version))
            .collect(),
        x_range: (0.5, last as f64 + 0.5),
        x_ticks: None,
        y_title: unit,
        quantity: if is_latency {
            Quantity::LatencyUs
        } else {
            Quantity::Number
        },
        lines: vec![
            Line {
                name: "runs".to_owned(),
                colour: 1,
                values: values.into_iter().map(Some).collect(),
                is_dots: true,
            },
            Line {
                name: "mean between changes".to_owned(),
                colour: 2,
                values: means,
                is_dots: false,
            },
        ],
        band: None,
        reference: None,
        warmup_end: 0.0,
        stalls: Vec::new(),
        opens_logarithmic: false,
    }
}
