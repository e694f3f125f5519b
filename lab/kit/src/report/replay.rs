//! The sections of a replay's page: latency by kind of operation beside the recorded one, and
//! answers that differ.
//!
//! Promises: a table in the study's layout (operations, P50 to P99, longest) and its charts:
//! operations by kind, mean and p99 by kind.

use std::fmt::Write;

use metrics::LatencyHistogram;

use super::axis::Quantity;
use super::bars::{BarSeries, Bars};
use super::html::escape;
use super::overlay::colour;
use crate::format;
use crate::result::ReplayResult;
use crate::result::{LatencySummary, RunResult, StepResult};

/// Percentiles of the study's report.
const PERCENTILES: [f64; 5] = [50.0, 70.0, 90.0, 95.0, 99.0];

/// Why one of the study's charts is missing.
const NO_SCATTER: &str = "How many documents an operation scanned does not pass over the wire, so \
    latency by documents scanned is not shown \
                          here; the workload scanned measures it.";

/// The section of a run's page; empty where the run is no replay.
pub(super) fn section(result: &RunResult) -> String {
    let Some((step, replay)) = result
        .main_step()
        .and_then(|step| Some((step, step.more.replay.as_ref()?)))
    else {
        return String::new();
    };
    let mut out = "<h2>By kind of operation</h2>\n<div class=\"charts\">\n".to_owned();
    let kinds: Vec<&String> = replay.kinds.keys().collect();
    let groups = || {
        kinds
            .iter()
            .map(|kind| short(kind).to_owned())
            .collect::<Vec<_>>()
    };
    let counts = BarSeries {
        name: "operations".to_owned(),
        colour: 1,
        values: replay
            .kinds
            .values()
            .map(|kind| Some(kind.ops as f64))
            .collect(),
        intervals: Vec::new(),
    };
    out.push_str(&bars(
        "Operations by kind",
        "operations",
        Quantity::Number,
        groups(),
        vec![counts],
        NO_SCATTER,
    ));
    for (title, of) in latency_charts() {
        let series =
            |name: &str, number, pick: fn(&crate::result::KindResult) -> &LatencySummary| {
                BarSeries {
                    name: name.to_owned(),
                    colour: colour(number),
                    values: replay.kinds.values().map(|kind| of(pick(kind))).collect(),
                    intervals: Vec::new(),
                }
            };
        let both = vec![
            series("as recorded", 1, |kind| &kind.recorded),
            series("replayed, from sending", 0, |kind| &kind.service),
        ];
        out.push_str(&bars(
            title,
            "latency",
            Quantity::LatencyUs,
            groups(),
            both,
            "As recorded: seen by the recorder, between driver and server.",
        ));
    }
    out.push_str("</div>\n<p></p>\n");
    write_kinds(&mut out, step, replay);
    write_answers(&mut out, replay);
    out
}

/// The settings of a replay, for the table of conditions.
pub(super) fn settings(result: &RunResult) -> Option<Vec<(String, String)>> {
    let replay = result.main_step()?.more.replay.as_ref()?;
    let pace = if replay.style == "real" {
        format!("at the recorded times, {} times as fast", replay.speed)
    } else {
        "as fast as the workers can".to_owned()
    };
    let rows = [
        ("style", replay.style.clone()),
        ("pacing", pace),
        ("order", replay.order.clone()),
        ("workers", result.settings.clients.to_string()),
        (
            "operations of the recording wanted",
            format::count(result.settings.rows),
        ),
        ("write concern", result.target.write_concern.clone()),
    ];
    Some(
        rows.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// The charts of several replays beside each other; empty if there are none.
pub(super) fn side_by_side(runs: &[RunResult]) -> String {
    let replays: Vec<(&RunResult, &ReplayResult)> = runs
        .iter()
        .filter_map(|run| Some((run, run.main_step()?.more.replay.as_ref()?)))
        .collect();
    let Some((_, first)) = replays.first() else {
        return String::new();
    };
    let mut kinds: Vec<&String> = replays
        .iter()
        .flat_map(|(_, replay)| replay.kinds.keys())
        .collect();
    kinds.sort();
    kinds.dedup();
    let mut out = "<h2>By kind of operation</h2>\n<div class=\"charts\">\n".to_owned();
    for (title, of) in latency_charts() {
        let recorded = kinds
            .iter()
            .map(|kind| of(&first.kinds.get(*kind)?.recorded))
            .collect();
        let mut series = vec![BarSeries {
            name: "as recorded".to_owned(),
            colour: colour(1),
            values: recorded,
            intervals: Vec::new(),
        }];
        for (number, (run, replay)) in replays.iter().enumerate().take(6) {
            let values = kinds
                .iter()
                .map(|kind| of(&replay.kinds.get(*kind)?.service))
                .collect();
            let number = if number == 0 { 0 } else { number + 1 };
            series.push(BarSeries {
                name: format!(
                    "{}, {}, {}",
                    run.target.name(),
                    run.target.uri,
                    replay.style
                ),
                colour: colour(number),
                values,
                intervals: Vec::new(),
            });
        }
        let groups = kinds.iter().map(|kind| short(kind).to_owned()).collect();
        out.push_str(&bars(
            title,
            "latency",
            Quantity::LatencyUs,
            groups,
            series,
            "From sending; the recorder saw its own between driver and server.",
        ));
    }
    out.push_str(
        "</div>\n<p></p>\n<div class=\"card scroll\"><h3>Answers</h3><table \
        class=\"right\"><thead><tr><th \
        scope=\"col\">run</th><th>target</th><th>operations</th><th>compared</th><th>\
        differences</th><th>errors</th></tr></thead><tbody>\n",
    );
    for (run, replay) in &replays {
        let total =
            |of: fn(&crate::result::KindResult) -> u64| replay.kinds.values().map(of).sum::<u64>();
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}, \
                {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&run.run.id),
            escape(&run.target.name()),
            escape(&run.target.uri),
            format::count(total(|kind| kind.ops)),
            format::count(replay.compared),
            format::count(replay.differences()),
            format::count(total(|kind| kind.errors))
        );
    }
    out.push_str("</tbody></table></div>\n");
    out
}

type LatencyField = fn(&LatencySummary) -> Option<f64>;

fn latency_charts() -> [(&'static str, LatencyField); 2] {
    let p99 = |latency: &LatencySummary| {
        latency
            .percentiles_us
            .iter()
            .find(|(percentile, _)| *percentile == 99.0)
            .map(|(_, us)| *us)
            .filter(|_| latency.calls > 0)
    };
    [
        ("Mean latency by kind", |latency| {
            (latency.calls > 0).then_some(latency.mean_us)
        }),
        ("Latency by kind, p99", p99),
    ]
}

fn short(kind: &str) -> &str {
    kind.strip_prefix("command.").unwrap_or(kind)
}

fn bars(
    title: &str,
    y_title: &str,
    quantity: Quantity,
    groups: Vec<String>,
    series: Vec<BarSeries>,
    caption: &str,
) -> String {
    let bars = Bars {
        title: title.to_owned(),
        caption: caption.to_owned(),
        x_title: "kind of operation".to_owned(),
        groups,
        y_title: y_title.to_owned(),
        quantity,
        series,
        half: false,
    };
    bars.render()
}

fn write_kinds(out: &mut String, step: &StepResult, replay: &ReplayResult) {
    out.push_str(
        "<div class=\"card scroll\"><h3>Latency by kind of operation</h3><table \
        class=\"right\"><thead><tr><th \
        scope=\"col\">kind</th><th>operations</th><th>errors</th><th>returned</th><th>mean</th>",
    );
    for percentile in PERCENTILES {
        let _ = write!(out, "<th>P{percentile}</th>");
    }
    out.push_str("<th>longest</th></tr></thead><tbody>\n");
    for (kind, of) in &replay.kinds {
        let mut line = |name: &str, counts: [String; 3], latency: &LatencySummary| {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
            // A histogram that cannot be read back has no percentiles; the other figures are shown.
            let histogram = LatencyHistogram::from_base64(&latency.hdr)
                .ok()
                .filter(|_| latency.calls > 0);
            let time = |us: Option<f64>| us.map_or_else(|| "–".to_owned(), format::latency_us);
            let percentiles = PERCENTILES.iter().map(|percentile| {
                time(
                    histogram
                        .as_ref()
                        .map(|histogram| histogram.percentile_us(*percentile)),
                )
            });
            let known = |us: f64| time((latency.calls > 0).then_some(us));
            let cells = counts
                .into_iter()
                .chain([known(latency.mean_us)])
                .chain(percentiles)
                .chain([known(latency.max_us)]);
            for cell in cells {
                let _ = write!(out, "<td>{}</td>", escape(&cell));
            }
            out.push_str("</tr>\n");
        };
        let none = || [const { String::new() }; 3];
        line(
            kind,
            [
                format::count(of.ops),
                format::count(of.errors),
                format::count(of.returned),
            ],
            &of.service,
        );
        if let Some(due) = step
            .more
            .by_operation
            .get(kind)
            .filter(|_| replay.style == "real")
        {
            line("… from the intended start", none(), due);
        }
        line("… as recorded", none(), &of.recorded);
    }
    out.push_str("</tbody></table>\n");
    let late = replay.timer_late_us_p99.map_or_else(String::new, |us| {
        format!(
            " The lab's own timer woke 99 % of waiting operations within {}.",
            format::latency_us(us)
        )
    });
    let _ = writeln!(
        out,
        "<p class=\"muted\">The first line of each kind counts from sending.{}</p></div>",
        escape(&late)
    );
}

fn write_answers(out: &mut String, replay: &ReplayResult) {
    let recording = &replay.recording;
    out.push_str("<div class=\"columns\">\n");
    let mut rows = vec![
        ("file", recording.file.clone()),
        ("fingerprint", recording.fingerprint.clone()),
        ("recorded", recording.started_at.clone()),
        ("of", recording.upstream.clone()),
        ("operations", format::count(recording.ops)),
        ("time", format::seconds(recording.seconds)),
        (
            "anonymised",
            if recording.anonymised { "yes" } else { "no" }.to_owned(),
        ),
        ("order", replay.order.clone()),
    ];
    rows.extend(recording.cut.clone().map(|cut| ("ends early", cut)));
    card(
        out,
        "Recording",
        rows.into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    let counts = |map: &std::collections::BTreeMap<String, u64>| {
        map.iter()
            .map(|(what, count)| (what.clone(), format::count(*count)))
            .collect::<Vec<_>>()
    };
    let mut rows = vec![
        ("compared".to_owned(), format::count(replay.compared)),
        ("differ".to_owned(), format::count(replay.differences())),
    ];
    rows.extend(counts(&replay.differences));
    if replay.more_fetches > 0 {
        rows.push((
            "fetches beyond those recorded".to_owned(),
            format::count(replay.more_fetches),
        ));
    }
    card(out, "Answers", rows.into_iter());
    for (title, map) in [
        ("Not compared", &replay.not_compared),
        ("Not replayed", &replay.not_replayed),
    ] {
        if !map.is_empty() {
            card(out, title, counts(map).into_iter());
        }
    }
    out.push_str("</div>\n");
    if replay.first_differences.is_empty() {
        return;
    }
    out.push_str(
        "<p></p>\n<div class=\"card scroll\"><h3>First \
        differences</h3><table><thead><tr><th>operation</th><th>kind</th><th>collection</th><th>\
        what</th><th>recorded</th><th>replayed</th></tr></thead><tbody>\n",
    );
    for one in &replay.first_differences {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            one.op,
            escape(&one.kind),
            escape(&one.namespace),
            escape(&one.what),
            escape(&one.recorded),
            escape(&one.replayed)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn card(out: &mut String, title: &str, rows: impl Iterator<Item = (String, String)>) {
    let _ = writeln!(
        out,
        "<div class=\"card\"><h3>{}</h3><table><tbody>",
        escape(title)
    );
    for (name, value) in rows {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(&name),
            escape(&value)
        );
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::recorder::latency_summary;
    use crate::result::{AnswerDifference, KindResult};

    fn replay_result(us: u64) -> RunResult {
        let mut run: RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        let latency = |us: u64| {
            let mut histogram = LatencyHistogram::default();
            (1..=100).for_each(|number| histogram.record(Duration::from_micros(us * number)));
            latency_summary(&histogram)
        };
        let kind = |us| KindResult {
            ops: 100,
            service: latency(us),
            recorded: latency(2),
            ..KindResult::default()
        };
        let replay = ReplayResult {
            style: "real".to_owned(),
            kinds: [
                ("insert".to_owned(), kind(us)),
                ("query".to_owned(), kind(3)),
                ("command.count".to_owned(), KindResult::default()),
            ]
            .into(),
            differences: [("n of insert".to_owned(), 7)].into(),
            first_differences: vec![AnswerDifference {
                namespace: "d.<b>".to_owned(),
                ..AnswerDifference::default()
            }],
            ..ReplayResult::default()
        };
        for step in &mut run.steps {
            step.more.replay = Some(replay.clone());
        }
        run
    }

    #[test]
    fn a_replay_has_its_table_its_bars_and_its_differences() {
        let run = replay_result(50);
        let html = section(&run);
        for text in [
            "<th>P70</th>",
            "3.50 ms",
            "Latency by kind, p99",
            "Operations by kind",
            "d.&lt;b&gt;",
            "n of insert</th><td>7",
            NO_SCATTER,
        ] {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(!html.contains("NaN"));
        let page = side_by_side(&[replay_result(50), replay_result(70)]);
        assert!(
            page.matches("<figure").count() == 2 && page.contains("as recorded"),
            "{page}"
        );
        let other: RunResult =
            serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap();
        assert_eq!(
            (section(&other), side_by_side(std::slice::from_ref(&other))),
            (String::new(), String::new())
        );
    }

    #[test]
    fn writes_are_judged_by_their_slowest_kind_from_sending() {
        let run = replay_result(50);
        let step = run.main_step().unwrap();
        let value = |id: &str| crate::metric::find(id).unwrap().value(step).unwrap();
        assert!(
            (value("write_kind_us_max") - 5_000.0).abs() < 10.0,
            "queries do not count"
        );
        assert!((value("write_kind_us_p99_max") - 4_950.0).abs() < 60.0);
        assert_eq!(value("differences"), 7.0);
    }
}
