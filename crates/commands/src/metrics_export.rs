//! The metrics of the server for monitoring systems that do not speak the protocol: as a list for
//! any exporter, as text for Prometheus, as one document for a web page. The values come from the
//! functions that answer `serverStatus` and `top`.
//! Must not know: the transport, the recipients.

use crate::cmd::server_status::status;
use context::read::metric_help::help;
use dispatch::Dispatcher;
use metrics::{BUCKETS, LatencyCounts, bucket_us};
use model::{Doc, DocBuf, DocWriter, Value};
use request::spec::{CommandCounters, LatencyKind, OpClass};
use std::fmt::Write as _;

/// Most collections reported, those with the most time first.
const COLLECTIONS_MAX: usize = 200;
/// Most slow operations on the page.
const SLOW_MAX: usize = 20;

const CLASSES: [(&str, OpClass); 6] = [
    ("query", OpClass::Query),
    ("getmore", OpClass::GetMore),
    ("insert", OpClass::Insert),
    ("update", OpClass::Update),
    ("remove", OpClass::Delete),
    ("command", OpClass::Command),
];

/// Sections of `serverStatus` that are exported in another form.
const OTHERWISE: [&str; 3] = ["commands", "opLatencies", "pid"];

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that rises and falls, or a number of `serverStatus` whose name does not show that it
    /// only grows.
    Gauge,
    /// A value that only grows.
    Counter,
    /// A distribution of durations.
    Histogram,
}

/// A metric and all its values at one moment.
#[derive(Clone, Debug)]
pub struct Family {
    /// Name, in the format of Prometheus.
    pub name: String,
    /// The type of the metric.
    pub kind: Kind,
    /// A description in one line.
    pub help: String,
    /// The values.
    pub samples: Vec<Sample>,
}

/// One value of a metric.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The labels that identify the value.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// A measured value.
#[derive(Clone, Debug)]
pub enum MetricValue {
    /// A number.
    Number(f64),
    /// A latency histogram.
    Latency(Box<LatencyCounts>),
}

/// All metrics at this moment, as every exporter reports them.
pub fn families(server: &Dispatcher) -> Vec<Family> {
    let mut all = Vec::with_capacity(512);
    let status = status(server.service(), server.commands());
    numbers(&mut Vec::new(), status.doc(), &mut all);
    commands(server, &mut all);
    collections(server, &mut all);
    all
}

/// All metrics in the text format of Prometheus.
pub fn prometheus(server: &Dispatcher) -> String {
    let mut out = String::with_capacity(64 * 1024);
    for family in families(server) {
        let kind = match family.kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        let name = &family.name;
        let _ = writeln!(out, "# HELP {name} {}", family.help.replace('\\', "\\\\"));
        let _ = writeln!(out, "# TYPE {name} {kind}");
        for sample in &family.samples {
            match &sample.value {
                MetricValue::Number(n) => write_line(&mut out, name, &sample.labels, None, *n),
                MetricValue::Latency(counts) => histogram(&mut out, name, &sample.labels, counts),
            }
        }
    }
    out
}

type Labels = [(&'static str, String)];

fn write_line(out: &mut String, name: &str, labels: &Labels, le: Option<&str>, value: f64) {
    let more = le.map(|le| ("le", le));
    let all = labels.iter().map(|(l, v)| (*l, v.as_str())).chain(more);
    out.push_str(name);
    for (i, (label, text)) in all.enumerate() {
        let text = text
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let before = if i == 0 { '{' } else { ',' };
        let _ = write!(out, "{before}{label}=\"{text}\"");
    }
    if le.is_some() || !labels.is_empty() {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

fn histogram(out: &mut String, name: &str, labels: &Labels, counts: &LatencyCounts) {
    let bucket = format!("{name}_bucket");
    let mut below = 0;
    for (le, n) in bounds().zip(&counts.buckets) {
        below += n;
        write_line(out, &bucket, labels, Some(&le.to_string()), below as f64);
    }
    let count = counts.count() as f64;
    write_line(out, &bucket, labels, Some("+Inf"), count);
    let sum = counts.sum_us as f64 / 1e6;
    write_line(out, &format!("{name}_sum"), labels, None, sum);
    write_line(out, &format!("{name}_count"), labels, None, count);
}

/// Upper bounds in seconds of all latency buckets except the last, which has none.
pub fn bounds() -> impl Iterator<Item = f64> {
    (1..BUCKETS).map(|i| bucket_us(i) as f64 / 1e6)
}

/// Numbers of `serverStatus` that can fall although their names look like counters.
const GAUGES: [&str; 1] = ["quarry_metrics_cursor_open_total"];

fn single(path: &[&str], n: f64) -> Family {
    let name = name_of(path);
    let grows = name.ends_with("_total") && !GAUGES.contains(&name.as_str());
    let help = help(path).unwrap_or("a number of the server");
    Family {
        kind: if grows { Kind::Counter } else { Kind::Gauge },
        help: format!("serverStatus.{}: {help}", path.join(".")),
        name,
        samples: vec![Sample {
            labels: Vec::new(),
            value: MetricValue::Number(n),
        }],
    }
}

/// The name of a number of `serverStatus` in the format of Prometheus.
fn name_of(path: &[&str]) -> String {
    let mut name = "quarry".to_owned();
    for part in path {
        name.push('_');
        // The names of lock modes and their intents differ only in upper and lower case.
        let part = match *part {
            "R" => "shared",
            "W" => "exclusive",
            part => part,
        };
        for c in part.chars() {
            match c {
                c if c.is_ascii_uppercase() => {
                    name.push('_');
                    name.push(c.to_ascii_lowercase());
                }
                c if c.is_ascii_alphanumeric() => name.push(c),
                _ => name.push('_'),
            }
        }
        name = name.replace("__", "_");
    }
    name
}

/// Collects each number with its path.
fn numbers<'a>(path: &mut Vec<&'a str>, d: Doc<'a>, out: &mut Vec<Family>) {
    for (name, v) in d.iter().filter(|(name, _)| !OTHERWISE.contains(name)) {
        path.push(name);
        match v {
            Value::Document(d) => numbers(path, d, out),
            Value::Bool(b) => out.push(single(path, i64::from(b) as f64)),
            Value::Int32(_) | Value::Int64(_) | Value::Double(_) => {
                out.push(single(path, v.as_f64().unwrap_or(0.0)));
            }
            _ => {}
        }
        path.pop();
    }
}

/// Executions, failures and latencies of each command that was executed.
fn commands(server: &Dispatcher, out: &mut Vec<Family>) {
    let rows: Vec<_> = server.commands().all().filter(|r| r.total() > 0).collect();
    let mut add =
        |name: &str, kind, help: &str, value: &dyn Fn(&CommandCounters) -> MetricValue| {
            let samples = rows.iter().map(|&row| Sample {
                labels: vec![("command", row.command.name.to_owned())],
                value: value(row),
            });
            out.push(Family {
                name: name.to_owned(),
                kind,
                help: help.to_owned(),
                samples: samples.collect(),
            });
        };
    let runs = "runs of a command";
    add("quarry_commands_total", Kind::Counter, runs, &|row| {
        MetricValue::Number(row.total() as f64)
    });
    let failed = "runs of a command that ended in an error";
    add(
        "quarry_commands_failed_total",
        Kind::Counter,
        failed,
        &|row| MetricValue::Number(row.failure_count() as f64),
    );
    let time = "how long runs of a command took";
    add(
        "quarry_command_duration_seconds",
        Kind::Histogram,
        time,
        &|row| MetricValue::Latency(Box::new(row.latency.counts())),
    );
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

fn collections(server: &Dispatcher, out: &mut Vec<Family>) {
    let all = busiest(server);
    for (metric, is_time, help) in [
        (
            "quarry_collection_operations_total",
            false,
            "operations on a collection, of those that took the most time",
        ),
        (
            "quarry_collection_seconds_total",
            true,
            "time of operations on a collection, of those that took the most",
        ),
    ] {
        let mut samples = Vec::with_capacity(all.len() * CLASSES.len());
        for (ns, tallies) in &all {
            for ((class, _), (time_us, count)) in CLASSES.iter().zip(tallies) {
                let value = match is_time {
                    true => *time_us as f64 / 1e6,
                    false => *count as f64,
                };
                samples.push(Sample {
                    labels: vec![
                        ("namespace", ns.clone()),
                        ("operation", (*class).to_owned()),
                    ],
                    value: MetricValue::Number(value),
                });
            }
        }
        out.push(Family {
            name: metric.to_owned(),
            kind: Kind::Counter,
            help: help.to_owned(),
            samples,
        });
    }
}

/// The data of the web page: `serverStatus`, latency histograms of commands, collections, the last
/// slow operations, the warnings of the start, and the memory limit in bytes.
pub fn page(server: &Dispatcher, memory_bytes: u64) -> DocBuf {
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
                latency(
                    &counts,
                    row.command.kind,
                    &mut commands.doc(row.command.name),
                );
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
        drop(lines);
        let mut warnings = w.array("warnings");
        for line in &service.config.log.startup_warnings() {
            warnings.push(line);
        }
        drop(warnings);
        w.put("memoryLimit", context::read::stats::to_signed(memory_bytes));
    })
}

fn latency(counts: &LatencyCounts, kind: LatencyKind, w: &mut DocWriter<'_>) {
    let signed = context::read::stats::to_signed;
    w.put("count", signed(counts.count()))
        .put("time", signed(counts.sum_us))
        .put("reads", kind == LatencyKind::Read);
    // The upper bound of each bucket in microseconds and its operations. The difference of two such
    // lists gives the operations between them.
    let mut buckets = w.array("buckets");
    for (i, n) in counts.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
        let mut bucket = buckets.array();
        bucket.push(signed(bucket_us((i + 1).min(BUCKETS - 1))));
        bucket.push(signed(*n));
    }
}
