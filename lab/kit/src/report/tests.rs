//! The structure of the pages: what must be there, and what must never be (requests, broken
//! numbers, unbalanced elements). With `QUARRY_LAB_PAGES=DIR` the pages are written for looking at
//! them.

use super::*;
use crate::compare::compare;
use crate::result::RunResult;

fn run(id: &str, factor: f64) -> RunResult {
    let mut out: RunResult =
        serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
    out.run.id = id.to_owned();
    out.run.started_at = format!("2026-01-01T00:00:{id}Z");
    for step in out.steps.iter_mut().filter(|step| step.measured) {
        step.rate.average *= factor;
        for point in &mut step.series {
            point.ops = (point.ops as f64 * factor) as u64;
        }
        for (_, us) in &mut step.latency.percentiles_us {
            *us /= factor;
        }
    }
    out
}

/// Checks what no page may have, and what every page must have.
fn sound(name: &str, page: &str) {
    if let Ok(dir) = std::env::var("QUARRY_LAB_PAGES") {
        std::fs::write(std::path::Path::new(&dir).join(name), page).unwrap();
    }
    for request in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(!page.contains(request), "{name}: {request}");
    }
    assert!(
        !page.contains("NaN") && !page.contains("inf\"") && !page.contains(">null<"),
        "{name}: a number is broken"
    );
    for element in [
        "figure", "svg", "table", "details", "div", "ul", "script", "tr", "main", "thead", "tbody",
    ] {
        let opened = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        assert_eq!(
            opened,
            page.matches(&format!("</{element}>")).count(),
            "{name}: {element} is not balanced"
        );
    }
    let pictures = page.matches("<svg ").count();
    assert_eq!(
        page.matches("<desc>").count(),
        pictures,
        "{name}: a picture without description"
    );
    assert_eq!(
        page.matches("scale</title>").count() + page.matches("intervals</title>").count(),
        pictures,
        "{name}: a picture without title"
    );
    // A phone's screen has no space for the titles of the axes.
    assert_eq!(
        page.matches("<span class=\"axes\">").count() + page.matches("intervals</title>").count(),
        page.matches("<figure").count(),
        "{name}: a caption that does not name the axes"
    );
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains("<html lang=\"en\">")
            && page.ends_with("</html>\n"),
        "{name}"
    );
}

#[test]
fn a_run_has_its_charts_their_numbers_and_the_published_results() {
    let text = page(&run("01", 1.0));
    sound("run.html", &text);
    for wanted in [
        "<h3>Throughput</h3>",
        "<h3>Cumulative average</h3>",
        "<h3>Latency by percentile</h3>",
        "Numbers of this chart",
        "warm-up, not measured",
        "Published results",
        "Small Datum, 2014-04-22",
        "mongo26",
        "class=\"new\"",
        "data-scale=\"log\"",
        "The other steps in full",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

#[test]
fn a_smoke_run_does_not_stand_among_published_results() {
    let mut smoke = run("01", 1.0);
    smoke.settings.preset = "smoke".to_owned();
    let text = page(&smoke);
    assert!(text.contains("too short to stand in these tables"));
    assert!(!text.contains("this run: "), "no row of its own");
}

#[test]
fn a_run_of_many_steps_shows_them_side_by_side() {
    let mut many = run("01", 1.0);
    let measured = many
        .steps
        .iter()
        .find(|step| step.measured)
        .unwrap()
        .clone();
    many.run.workload = "scanned".to_owned();
    many.steps.clear();
    for (number, limit) in [1_u32, 10, 100, 1_000, 10_000].iter().enumerate() {
        let mut step = measured.clone();
        step.name = format!("scan-{limit}");
        step.sizes.directory_bytes = Some(1 << (20 + number));
        for point in &mut step.series {
            point.latency_us_p50 *= f64::from(*limit);
        }
        many.steps.push(step);
    }
    let text = page(&many);
    sound("steps.html", &text);
    for wanted in [
        "All measured steps",
        // At 390 pixels all of its figures are in sight, stalls among them.
        "<table class=\"right steps\">",
        "Data directory after each step",
        "Throughput on a shared scale",
        "<h3>Throughput: scan-100</h3>",
        "<h3>Latency by documents scanned</h3>",
        "<circle",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    let forest = {
        many.run.workload = "forestdb".to_owned();
        many.steps = [
            "load", "ows.1", "ows.n", "pqw.1", "pqw.n", "rqw.1", "rqw.n", "pq.1", "pq.n", "rq.1",
            "rq.n", "owa.1", "owa.n",
        ]
        .map(|name| {
            let mut step = measured.clone();
            step.name = name.to_owned();
            step
        })
        .to_vec();
        page(&many)
    };
    sound("forestdb.html", &forest);
    assert!(forest.contains("Steps 9 to 13") && forest.contains("600M documents, SSD"));
}

#[test]
fn an_open_loop_of_the_workload_is_named_and_one_interval_has_no_deviation() {
    let mut open = run("open", 1.0);
    let is_measured = |step: &&mut crate::result::StepResult| step.measured;
    for step in open.steps.iter_mut().filter(is_measured) {
        step.pacing = "open".to_owned();
        step.rate.intervals = 1;
        step.more.unsent_calls = 4_321;
        step.more.lateness = Some(step.latency.clone());
    }
    let text = page(&open);
    assert!(text.contains("open loop, at the rate of the workload"));
    assert!(!text.contains("<td>closed loop</td>"));
    assert!(!text.contains("tandard deviation"));
    assert!(text.contains("4,321"));
}

#[test]
fn runs_against_other_targets_are_no_repeats() {
    let same = || run("one", 1.0);
    let mut moved = run("two", 2.0);
    moved.target.uri = "mongodb://127.0.0.1:1/".to_owned();
    let mut limited = run("three", 3.0);
    limited.memory_limit = Some(crate::result::MemoryLimit {
        bytes: 1 << 28,
        ..Default::default()
    });
    let mut labelled = run("four", 4.0);
    let label = ("allocator".to_owned(), "system".to_owned());
    labelled.run.labels.insert(label.0, label.1);
    for (other, shown) in [
        (moved, "at mongodb://127.0.0.1:1/"),
        (limited, "memory limit 268435456 bytes"),
        (labelled, "allocator system"),
    ] {
        let text = runs_page(&[same(), same(), other]).unwrap();
        assert!(text.contains(shown), "{shown}");
    }
    // A comparison is unfair if one target flushes before it acknowledges and the other does not.
    let flushed = |is_flushed| {
        let mut one = run("flushed", 1.0);
        one.target.product = format!("{is_flushed:?}");
        one.target.is_flushed = is_flushed;
        one
    };
    for (a, b, differs) in [
        (Some(true), Some(false), true),
        (Some(true), Some(true), false),
        (Some(true), None, false),
    ] {
        let text = runs_page(&[flushed(a), flushed(b)]).unwrap();
        assert_eq!(text.contains("Durability differs"), differs, "{a:?}, {b:?}");
    }
    // The lab's own servers listen on another port each time.
    let own = |port: u32| {
        let mut own = run("own", 1.0);
        own.target.uri = format!("mongodb://127.0.0.1:{port}/");
        own.run.labels.insert("own".to_owned(), "quarry".to_owned());
        own
    };
    let text = runs_page(&[own(1), own(2)]).unwrap();
    assert!(
        !text.contains("at mongodb://127.0.0.1:2/"),
        "one configuration"
    );
}

#[test]
fn runs_of_other_builds_or_options_are_no_repeats() {
    let changed = |build: &str, memory: &str| {
        let mut one = run(&format!("{build}{memory}"), 1.0);
        one.target.build = Some(build.to_owned());
        let option = ("memory".to_owned(), memory.to_owned());
        one.target.options = [option].into_iter().collect();
        one
    };
    let configurations = |runs: &[RunResult]| {
        let page = runs_page(runs).unwrap();
        let rows = page.matches("<td>1</td>").count();
        (
            page.contains("build program"),
            page.contains("option memory"),
            rows > 0,
        )
    };
    let (old, new) = ("program 1111", "program 2222");
    assert_eq!(
        configurations(&[changed(old, "512M"), changed(new, "512M")]),
        (true, false, true)
    );
    assert_eq!(
        configurations(&[changed(old, "512M"), changed(old, "1G")]),
        (false, true, true)
    );
    let mut repeat = changed(old, "512M");
    repeat.run.id = "again".to_owned();
    assert_eq!(
        configurations(&[changed(old, "512M"), repeat]),
        (false, false, false)
    );
}

#[test]
fn several_runs_stand_by_clients_and_relative_to_the_first() {
    let mut runs = Vec::new();
    for (number, clients) in [1, 2, 4, 1, 2, 4].into_iter().enumerate() {
        let mut one = run(
            &format!("{number:02}"),
            f64::from(clients) * if number < 3 { 1.0 } else { 1.3 },
        );
        one.settings.clients = clients;
        one.steps
            .iter_mut()
            .filter(|step| step.measured)
            .for_each(|step| step.clients = clients);
        if number >= 3 {
            one.target.product = "Other".to_owned();
        }
        runs.push(one);
    }
    let text = runs_page(&runs).unwrap();
    sound("runs.html", &text);
    for wanted in [
        "Throughput by clients",
        "Relative to the first",
        "Step point, 4 clients",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(!text.contains("Over time: "));
    let marked = "class=\"up\"";
    assert!(!text.contains(marked), "one run each has no interval");
    let many: Vec<RunResult> = runs.iter().chain(&runs).cloned().collect();
    let repeated = runs_page(&many).unwrap();
    assert!(repeated.contains("Over time: 4 of 12 runs, those with 4 clients"));
    assert!(repeated.contains(marked), "two repeats each have one");
    runs[1].run.workload = "hot".to_owned();
    let message = runs_page(&runs).unwrap_err().to_string();
    assert!(
        message.contains("01") && message.contains("hot") && !message.contains('\n'),
        "{message}"
    );
    assert!(runs_page(&[]).is_err());
}

#[test]
fn a_comparison_shows_verdicts_intervals_and_both_sides() {
    let a = [run("01", 1.0), run("03", 1.02), run("05", 0.98)];
    let b = [run("02", 1.2), run("04", 1.23), run("06", 1.19)];
    let found = compare(["old".to_owned(), "new".to_owned()], &a, &b, &[]).unwrap();
    let text = comparison_page(&found, &a, &b);
    sound("comparison.html", &text);
    for wanted in [
        "<span class=\"pill good\">better</span>",
        "Changes with their intervals",
        "A, all runs",
        "<td>03</td><td>04</td>",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

#[test]
fn claims_are_shown_with_their_metrics() {
    let mut runs: Vec<RunResult> = (0..6)
        .map(|number| run(&format!("{number:02}"), 1.0 + f64::from(number) * 0.01))
        .collect();
    for one in &mut runs {
        one.settings.preset = "smoke".to_owned();
    }
    runs.iter_mut()
        .take(3)
        .for_each(|run| run.settings.clients = 40);
    let claims = crate::claims::all().unwrap();
    let judgements: Vec<_> = claims
        .iter()
        .flat_map(|claim| crate::claims::judge(claim, &runs, 2))
        .collect();
    let text = claims_page(&judgements, &runs);
    sound("claims.html", &text);
    assert_eq!(text.matches("<strong>C").count(), 60);
    assert!(text.contains("without a verdict</summary>") && text.contains("smoke size"));
    assert!(
        text.contains("<th scope=\"col\">because</th>")
            && text.contains("None of the interval is at most 0.6"),
        "why each verdict is what it is"
    );
}
