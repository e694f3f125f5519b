//! The metrics of the server for those who do not speak the protocol: as text for Prometheus, as
//! one document for a page. They are those of `serverStatus` and `top`, asked of the same
//! functions.
//! Must not know: who asks, and over what.

use crate::cmd::server_status::status;
use crate::dispatch::Dispatcher;
use crate::dispatch::spec::{Kinds, OpClass};
use metrics::{BUCKETS, LatencyCounts, bucket_us};
use model::{Doc, DocBuf, DocWriter, Value};
use std::fmt::Write as _;

/// Collections told of, those with the most time first.
const COLLECTIONS_MAX: usize = 200;
/// Slow operations on a page.
const SLOW_MAX: usize = 20;

const CLASSES: [(&str, OpClass); 6] = [
    ("query", OpClass::Query),
    ("getmore", OpClass::GetMore),
    ("insert", OpClass::Insert),
    ("update", OpClass::Update),
    ("remove", OpClass::Delete),
    ("command", OpClass::Command),
];

/// Sections of `serverStatus` that are told of in another form.
const OTHERWISE: [&str; 3] = ["commands", "opLatencies", "pid"];

/// Everything in the text format of Prometheus.
pub fn prometheus(server: &Dispatcher) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let status = status(server.service(), server.commands());
    numbers("quarry", status.doc(), &mut out);
    commands(server, &mut out);
    collections(server, &mut out);
    out
}

/// Each number by its path.
fn numbers(prefix: &str, d: Doc<'_>, out: &mut String) {
    for (name, v) in d.iter().filter(|(name, _)| !OTHERWISE.contains(name)) {
        let mut path = format!("{prefix}_");
        for c in name.chars() {
            match c {
                c if c.is_ascii_uppercase() => {
                    path.push('_');
                    path.push(c.to_ascii_lowercase());
                }
                c if c.is_ascii_alphanumeric() => path.push(c),
                _ => path.push('_'),
            }
        }
        let path = path.replace("__", "_");
        match v {
            Value::Document(d) => numbers(&path, d, out),
            Value::Bool(b) => sample(out, &path, i64::from(b) as f64),
            Value::Int32(_) | Value::Int64(_) | Value::Double(_) => {
                sample(out, &path, v.as_f64().unwrap_or(0.0));
            }
            _ => {}
        }
    }
}

fn sample(out: &mut String, name: &str, value: f64) {
    let _ = writeln!(out, "# TYPE {name} untyped\n{name} {value}");
}

/// Runs, failures and latencies of each command that was run.
fn commands(server: &Dispatcher, out: &mut String) {
    let rows: Vec<_> = server.commands().all().filter(|r| r.total() > 0).collect();
    out.push_str("# TYPE quarry_commands_total counter\n");
    for row in &rows {
        let (name, n) = (row.command.name, row.total());
        let _ = writeln!(out, "quarry_commands_total{{command=\"{name}\"}} {n}");
    }
    out.push_str("# TYPE quarry_commands_failed_total counter\n");
    for row in &rows {
        let (name, n) = (row.command.name, row.failed());
        let _ = writeln!(
            out,
            "quarry_commands_failed_total{{command=\"{name}\"}} {n}"
        );
    }
    let metric = "quarry_command_duration_seconds";
    let _ = writeln!(out, "# TYPE {metric} histogram");
    for row in &rows {
        let (name, counts) = (row.command.name, row.latency.counts());
        let mut below = 0;
        for (i, n) in counts.buckets.iter().enumerate().take(BUCKETS - 1) {
            below += n;
            let le = bucket_us(i + 1) as f64 / 1e6;
            let _ = writeln!(
                out,
                "{metric}_bucket{{command=\"{name}\",le=\"{le}\"}} {below}"
            );
        }
        let (count, sum) = (counts.count(), counts.sum_us as f64 / 1e6);
        let _ = writeln!(
            out,
            "{metric}_bucket{{command=\"{name}\",le=\"+Inf\"}} {count}\n\
             {metric}_sum{{command=\"{name}\"}} {sum}\n\
             {metric}_count{{command=\"{name}\"}} {count}"
        );
    }
}

/// Number and time of operations on each collection, those with the most time first.
fn busiest(server: &Dispatcher) -> Vec<(String, [(i64, i64); 6])> {
    let all = server.service().counters.namespaces();
    let mut all: Vec<_> = all
        .into_iter()
        .map(|(ns, used)| (ns, CLASSES.map(|(_, class)| used.tally(class))))
        .collect();
    let time = |tallies: &[(i64, i64); 6]| tallies.iter().map(|t| t.0).sum::<i64>();
    all.sort_by_key(|(_, tallies)| std::cmp::Reverse(time(tallies)));
    all.truncate(COLLECTIONS_MAX);
    all
}

fn collections(server: &Dispatcher, out: &mut String) {
    let all = busiest(server);
    for (metric, is_time) in [
        ("quarry_collection_operations_total", false),
        ("quarry_collection_seconds_total", true),
    ] {
        let _ = writeln!(out, "# TYPE {metric} counter");
        for (ns, tallies) in &all {
            let ns = ns
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            for ((class, _), (time_us, count)) in CLASSES.iter().zip(tallies) {
                let value = match is_time {
                    true => *time_us as f64 / 1e6,
                    false => *count as f64,
                };
                let labels = format!("namespace=\"{ns}\",operation=\"{class}\"");
                let _ = writeln!(out, "{metric}{{{labels}}} {value}");
            }
        }
    }
}

/// What a page draws: `serverStatus`, latencies of commands, collections, the last slow operations.
pub fn page(server: &Dispatcher) -> DocBuf {
    let service = server.service();
    let status = status(service, server.commands());
    let slow: Vec<String> = service
        .config
        .log
        .lines()
        .0
        .into_iter()
        .rev()
        .filter(|l| l.contains("\"id\":51803,"))
        .take(SLOW_MAX)
        .collect();
    DocBuf::build(|w| {
        w.put("status", &status);
        let mut commands = w.doc("commands");
        for row in server.commands().all() {
            let counts = row.latency.counts();
            if counts.count() > 0 {
                latency(&counts, row.kind, &mut commands.doc(row.command.name));
            }
        }
        drop(commands);
        let mut collections = w.array("collections");
        for (ns, tallies) in busiest(server).into_iter().take(SLOW_MAX) {
            let mut one = collections.doc();
            one.put("ns", ns.as_str());
            for ((class, _), (time_us, count)) in CLASSES.iter().zip(tallies) {
                one.doc(class).put("time", time_us).put("count", count);
            }
        }
        drop(collections);
        let mut lines = w.array("slow");
        for line in &slow {
            lines.push(line);
        }
    })
}

fn latency(counts: &LatencyCounts, kind: Kinds, w: &mut DocWriter<'_>) {
    let signed = crate::read::stats::signed;
    w.put("count", signed(counts.count()))
        .put("time", signed(counts.sum_us))
        .put("reads", kind == Kinds::Read);
    for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        w.put(name, signed(counts.quantile_us(share)));
    }
}
