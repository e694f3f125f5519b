//! The page of one run.

use std::fmt::Write;

use super::html::{escape, foot, head};
use super::{
    charts, conditions, generators_section, notes, overload_section, overview, published_tables,
    replay, step_numbers, tiles, watch_section,
};
use crate::format;
use crate::result::{RunResult, StepResult};

/// The page of a run.
pub fn page(result: &RunResult) -> String {
    let run = &result.run;
    let mut out = head(&format!(
        "{} – {} {}",
        run.title, result.target.product, run.started_at
    ));
    write_header(&mut out, result);
    match result.main_step() {
        Some(step) => {
            let measured: Vec<&StepResult> =
                result.steps.iter().filter(|step| step.measured).collect();
            if measured.len() > 1 {
                tiles::write_steps(&mut out, result, &measured);
            } else {
                out.push_str("<div class=\"tiles\">\n");
                tiles::write_tiles(&mut out, result, step);
                out.push_str("</div>\n");
            }
            overload_section::write(&mut out, result);
            watch_section::write(&mut out, result);
            generators_section::write(&mut out, result);
            notes::write_warnings(&mut out, result);
            overview::write(&mut out, result);
            out.push_str(&replay::section(result));
            write_charts(&mut out, result, step);
            step_numbers::write_step(&mut out, step);
            out.push_str(&published_tables::section(result));
            let others = result
                .steps
                .iter()
                .filter(|other| !std::ptr::eq(*other, step) && !other.series.is_empty());
            let others: Vec<&StepResult> = others.collect();
            if !others.is_empty() {
                out.push_str("<h2>The other steps in full</h2>\n");
            }
            for other in others {
                let measured = if other.measured { "" } else { " (prepares)" };
                let _ = writeln!(
                    out,
                    "<details class=\"step\"><summary>Step {}{measured}: {} {} per \
                        second</summary>",
                    escape(&other.name),
                    format::number(other.rate.average),
                    other.unit
                );
                write_charts(&mut out, result, other);
                step_numbers::write_step(&mut out, other);
                out.push_str("</details>\n");
            }
        }
        None => notes::write_warnings(&mut out, result),
    }
    conditions::write_run(&mut out, result);
    out.push_str(&foot(
        "All numbers are in result.json and intervals.csv beside this page.",
    ));
    out
}

fn write_charts(out: &mut String, result: &RunResult, step: &StepResult) {
    let _ = writeln!(
        out,
        "<h2>Step {} over time</h2>\n<div class=\"charts\">",
        escape(&step.name)
    );
    for chart in charts::of_step(result, step) {
        out.push_str(&chart.render());
    }
    out.push_str("</div>\n");
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
        "<div class=\"eyebrow\">{pill}{wrong}<span>quarry-lab</span><span>workload {}, preset \
            {}</span><span>{}</span></div>\n<h1>{}</h1>",
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
    let how = if let Some(replay) = &step.more.replay {
        format!(
            "{} style, {} differences in {} answers",
            replay.style,
            format::count(replay.differences()),
            format::count(replay.compared)
        )
    } else if step.batch > 1 {
        format!("in batches of {}, {indexes}", step.batch)
    } else {
        indexes
    };
    let count = result.steps.iter().filter(|step| step.measured).count();
    let mut out = if count > 1 {
        format!("{count} measured steps; step {}: ", step.name)
    } else {
        String::new()
    };
    let _ = write!(
        out,
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
