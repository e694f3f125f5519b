//! Sends metrics to a collector: OTLP over HTTP, as JSON, on a thread of its own.
//!
//! Promises: the metrics are those of [`metrics_export`]; a collector that is down, slow or hostile
//! costs only this thread time and does not delay the server, not even at shutdown; the log gets
//! one line when sending begins to fail and one when it works again. Must not know: what the
//! metrics are.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use commands::Dispatcher;
use commands::metrics_export::{self, Family, Kind, MetricValue, Sample};
use logs::{Entry, Severity, component, id};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::config::Otlp;

/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Longest text of a collector that is logged.
const TEXT_CHARS_MAX: usize = 200;
/// Longest pause between two attempts after failures.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: since the start of the server.
const CUMULATIVE: i32 = 2;

/// A thread that sends metrics until dropped.
pub struct Exporter {
    shared: Arc<Shared>,
}

struct Shared {
    server: Weak<Dispatcher>,
    /// Locked while the server is read, so that no thread reads it while it shuts down.
    stopping: Mutex<bool>,
    wake: Condvar,
}

impl Shared {
    /// Calls `ask` with the server; `None` when it is shutting down.
    fn call_server<R>(&self, ask: impl FnOnce(&Dispatcher) -> R) -> Option<R> {
        let stopping = self.stopping.lock();
        if *stopping {
            return None;
        }
        Some(ask(self.server.upgrade()?.as_ref()))
    }

    /// Waits until `until` or until the server shuts down.
    fn wait(&self, until: Instant) {
        let mut stopping = self.stopping.lock();
        while !*stopping && !self.wake.wait_until(&mut stopping, until).timed_out() {}
    }
}

impl Exporter {
    /// Starts to send.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(otlp: Otlp, port: u16, server: &Arc<Dispatcher>) -> std::io::Result<Exporter> {
        let shared = Arc::new(Shared {
            server: Arc::downgrade(server),
            stopping: Mutex::new(false),
            wake: Condvar::new(),
        });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || send_all(&thread, &otlp, &resource(port)))?;
        Ok(Exporter { shared })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // A request on its way to the collector is not waited for.
        *self.shared.stopping.lock() = true;
        self.shared.wake.notify_all();
    }
}

fn send_all(shared: &Shared, otlp: &Otlp, resource: &Value) {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(otlp.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("quarry/", env!("CARGO_PKG_VERSION")))
        .build();
    let agent = config.new_agent();
    let mut failures = 0u32;
    loop {
        let began = Instant::now();
        let body = shared.call_server(|server| {
            let started_ms = server.service().started_ms;
            request(&metrics_export::families(server), resource, started_ms)
        });
        let Some(body) = body else { return };
        let result = push(&agent, otlp, &body.to_string());
        let late = match &result {
            Ok(()) => otlp.interval,
            Err(refused) => pause(otlp.interval, failures).max(refused.after),
        };
        let told = shared.call_server(|server| log_outcome(server, otlp, failures, result.err()));
        let Some(so_far) = told else { return };
        failures = so_far;
        shared.wait(began + late);
    }
}

/// The pause after this many failures: it doubles with each.
fn pause(interval: Duration, failures: u32) -> Duration {
    let longer = interval.saturating_mul(1 << failures.min(16));
    longer.min(RETRY_MAX.max(interval))
}

/// Logs a change between success and failure; returns the number of failures so far.
fn log_outcome(
    server: &Dispatcher,
    otlp: &Otlp,
    failures: u32,
    refused: Option<ExportError>,
) -> u32 {
    let uri = otlp.endpoint.parse::<ureq::http::Uri>();
    // Without path and query, which may hold a secret.
    let collector = uri
        .ok()
        .and_then(|u| u.authority().map(ToString::to_string))
        .unwrap_or_default();
    let entry = |id, message| Entry::info(id, component::NETWORK, "otlp", message);
    let service = server.service();
    match refused {
        None if failures > 0 => {
            let works = entry(id::EXPORT_WORKS, "Metrics reach the collector again");
            service.write_log(&works.attr(|w| {
                w.put("collector", collector.as_str())
                    .put("failures", i64::from(failures));
            }));
            0
        }
        None => 0,
        Some(refused) => {
            if failures == 0 {
                let message = "Metrics do not reach the collector; the server sends them again \
                               later";
                let fails = entry(id::EXPORT_FAILS, message).severity(Severity::Warning);
                service.write_log(&fails.attr(|w| {
                    w.put("collector", collector.as_str())
                        .put("reason", refused.why.as_str());
                }));
            }
            failures.saturating_add(1)
        }
    }
}

/// Why a collector did not take the metrics.
struct ExportError {
    why: String,
    /// The pause that the collector asked for.
    after: Duration,
}

impl ExportError {
    fn new(why: impl Into<String>) -> ExportError {
        ExportError {
            why: why.into(),
            after: Duration::ZERO,
        }
    }

    fn of(e: &ureq::Error, otlp: &Otlp) -> ExportError {
        ExportError::new(match e {
            ureq::Error::Timeout(_) => {
                format!("it did not answer within {} ms", otlp.timeout.as_millis())
            }
            ureq::Error::Io(e) => e.to_string(),
            ureq::Error::HostNotFound => "its name is not known".to_owned(),
            ureq::Error::ConnectionFailed => "there is no connection".to_owned(),
            ureq::Error::BodyExceedsLimit(most) => {
                format!("it answered with more than {most} bytes")
            }
            _ => "its answer cannot be understood".to_owned(),
        })
    }
}

fn push(agent: &ureq::Agent, otlp: &Otlp, body: &str) -> Result<(), ExportError> {
    let sent = agent
        .post(&otlp.endpoint)
        .content_type("application/json")
        .send(body);
    let mut response = sent.map_err(|e| ExportError::of(&e, otlp))?;
    let status = response.status().as_u16();
    if !(200..300).contains(&status) {
        let after = response.headers().get("retry-after");
        let after = after.and_then(|v| v.to_str().ok()?.parse().ok());
        return Err(ExportError {
            why: format!("it answered with status {status}"),
            after: after
                .map_or(Duration::ZERO, Duration::from_secs)
                .min(RETRY_MAX),
        });
    }
    let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
    let answer = body.read_to_vec().map_err(|e| ExportError::of(&e, otlp))?;
    // A body in another format is ignored; the status still counts.
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let Some(partial) = answer.get("partialSuccess") else {
        return Ok(());
    };
    let rejected = partial.get("rejectedDataPoints").map_or(0, |n| match n {
        Value::String(digits) => digits.parse().unwrap_or(0),
        n => n.as_u64().unwrap_or(0),
    });
    if rejected == 0 {
        return Ok(());
    }
    let text = partial.get("errorMessage").and_then(Value::as_str);
    let text: String = text.unwrap_or("").chars().take(TEXT_CHARS_MAX).collect();
    Err(ExportError::new(format!(
        "it rejected {rejected} values: {text}"
    )))
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// The OTLP resource: this server.
fn resource(port: u16) -> Value {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    json!({ "attributes": [
        text("service.name", "quarry"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", &format!("{host}:{port}")),
        text("host.name", &host),
    ] })
}

/// An `ExportMetricsServiceRequest` in OTLP's JSON encoding, which writes 64-bit integers as
/// strings.
fn request(families: &[Family], resource: &Value, started_ms: i64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let times = Times {
        start: format!("{started_ms}000000"),
        now: now.map_or(0, |d| d.as_nanos()).to_string(),
    };
    let filled = families.iter().filter(|f| !f.samples.is_empty());
    let metrics: Vec<Value> = filled.map(|f| metric(f, &times)).collect();
    json!({ "resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{
            "scope": { "name": "quarry", "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics,
        }],
    }] })
}

struct Times {
    start: String,
    now: String,
}

fn metric(family: &Family, times: &Times) -> Value {
    let points = family.samples.iter().filter_map(|s| point(s, times));
    let points: Vec<Value> = points.collect();
    let (shape, data) = match family.kind {
        Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        Kind::Counter => (
            "sum",
            json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE,
                    "isMonotonic": true }),
        ),
        Kind::Histogram => (
            "histogram",
            json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }),
        ),
    };
    json!({ "name": family.name, "description": family.help, shape: data })
}

fn point(sample: &Sample, times: &Times) -> Option<Value> {
    let labels = sample.labels.iter().map(|(key, value)| text(key, value));
    let labels: Vec<Value> = labels.collect();
    Some(match &sample.value {
        // JSON has no infinities and no NaN.
        MetricValue::Number(n) if !n.is_finite() => return None,
        MetricValue::Number(n) => json!({
            "attributes": labels, "startTimeUnixNano": times.start, "timeUnixNano": times.now,
            "asDouble": n,
        }),
        MetricValue::Latency(counts) => {
            let buckets = counts.buckets.iter().map(u64::to_string);
            json!({
                "attributes": labels, "startTimeUnixNano": times.start, "timeUnixNano": times.now,
                "count": counts.count().to_string(), "sum": counts.sum_us as f64 / 1e6,
                "bucketCounts": buckets.collect::<Vec<_>>(),
                "explicitBounds": metrics_export::bounds().collect::<Vec<_>>(),
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_are_never_shorter_than_the_interval() {
        let seconds = |n| Duration::from_secs(n);
        assert_eq!(pause(seconds(10), 0), seconds(10));
        assert_eq!(pause(seconds(10), 3), seconds(80));
        assert_eq!(pause(seconds(10), 5), RETRY_MAX);
        assert_eq!(pause(seconds(10), u32::MAX), RETRY_MAX);
        assert_eq!(pause(seconds(3600), 9), seconds(3600));
    }
}
