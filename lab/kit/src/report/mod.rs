//! The report: one self-contained HTML page per run, readable without a network and without scripts.
//!
//! Promises: no number without its unit, no average without its interval series, conditions and warnings on the same page.

mod chart;
mod charts;
mod tables;

use std::fmt::Write;

use crate::format;
use crate::result::{RunResult, StepResult};

/// The page.
pub fn page(result: &RunResult) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let run = &result.run;
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{} – {} {}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n",
        escape(&run.title),
        escape(&result.target.product),
        escape(&run.started_at),
        include_str!("page.css"),
    );
    write_header(&mut out, result);
    if let Some(step) = result.main_step() {
        out.push_str("<div class=\"tiles\">\n");
        tables::write_tiles(&mut out, result, step);
        out.push_str("</div>\n");
        tables::write_warnings(&mut out, result);
        let _ = writeln!(
            out,
            "<h2>Step {} over time</h2>\n<div class=\"charts\">",
            escape(&step.name)
        );
        for chart in charts::of_step(result, step) {
            out.push_str(&chart.render());
        }
        out.push_str("</div>\n");
        tables::write_step(&mut out, step);
    } else {
        tables::write_warnings(&mut out, result);
    }
    tables::write_run(&mut out, result);
    let _ = write!(
        out,
        "<footer>Written by quarry-lab {}. All numbers are in result.json and intervals.csv beside this page.</footer>\n</main>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        escape(&run.lab_version),
        include_str!("page.js"),
    );
    out
}

fn write_header(out: &mut String, result: &RunResult) {
    let run = &result.run;
    let pill = if run.complete {
        "<span class=\"pill good\">complete</span>"
    } else {
        "<span class=\"pill bad\">ended early</span>"
    };
    let is_wrong = result
        .checks
        .iter()
        .any(|check| check.passed == Some(false));
    let wrong = if is_wrong {
        "<span class=\"pill bad\">work done wrong</span>"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<div class=\"eyebrow\">{pill}{wrong}<span>quarry-lab</span><span>workload {}, preset {}</span><span>{}</span></div>\n<h1>{}</h1>",
        escape(&run.workload),
        escape(&result.settings.preset),
        escape(&run.started_at.replace('T', " ").replace('Z', " UTC")),
        escape(&run.title),
    );
    if let Some(step) = result.main_step() {
        let _ = writeln!(
            out,
            "<p class=\"verdict\">{}</p>",
            escape(&verdict(result, step))
        );
    }
    let _ = writeln!(
        out,
        "<p class=\"muted\">{} {}</p>",
        escape(&run.about),
        escape(&run.source)
    );
}

/// The run in one or two sentences.
fn verdict(result: &RunResult, step: &StepResult) -> String {
    let settings = &result.settings;
    let indexes = match settings.indexes {
        0 => "no secondary index".to_owned(),
        1 => "1 secondary index".to_owned(),
        count => format!("{count} secondary indexes"),
    };
    let how = if step.batch > 1 {
        format!("in batches of {}, {indexes}", step.batch)
    } else {
        indexes
    };
    let mut out = format!(
        "{} {} per second on average over {}, from {} {} ({how}), against {}.",
        format::number(step.rate.average),
        step.unit,
        format::seconds(step.seconds),
        step.clients,
        if step.clients == 1 {
            "client"
        } else {
            "clients"
        },
        result.target.name(),
    );
    if let Some(reason) = &result.run.stopped_because {
        let _ = write!(out, " The run ended early: {reason}.");
    }
    out
}

/// Text for HTML, inside elements and attributes alike.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
