//! Options of the metrics that are sent to a collector.

use clap::Args;
use serde::Deserialize;
use std::time::Duration;

/// Options of the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Metrics")]
pub struct OtlpArgs {
    /// Collector to which the server sends metrics by OTLP over plain HTTP, such as
    /// http://127.0.0.1:4318/v1/metrics [default: none]
    #[arg(long = "otlpEndpoint", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Milliseconds between two reports to the collector, 100 to 3600000 [default: 10000]
    #[arg(long = "otlpIntervalMS", value_name = "MS")]
    pub otlp_interval_ms: Option<u64>,
    /// Milliseconds that the collector has to answer a report, 10 to 60000 [default: 2000]
    #[arg(long = "otlpTimeoutMS", value_name = "MS")]
    pub otlp_timeout_ms: Option<u64>,
}

/// The same options in the file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OtlpSection {
    endpoint: Option<String>,
    #[serde(rename = "intervalMS")]
    interval_ms: Option<u64>,
    #[serde(rename = "timeoutMS")]
    timeout_ms: Option<u64>,
}

/// Where metrics are sent, and how often.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// An address by plain HTTP, without a user in it.
    pub endpoint: String,
    /// Time from one sending to the next.
    pub interval: Duration,
    /// How long the collector may take.
    pub timeout: Duration,
}

/// A duration that an option sets, with its bounds.
struct Period {
    default_ms: u64,
    allowed_ms: std::ops::RangeInclusive<u64>,
}

const INTERVAL: Period = Period {
    default_ms: 10_000,
    allowed_ms: 100..=3_600_000,
};
const TIMEOUT: Period = Period {
    default_ms: 2_000,
    allowed_ms: 10..=60_000,
};

impl Otlp {
    pub(super) fn of(args: &OtlpArgs, file: OtlpSection) -> Result<Option<Otlp>, String> {
        let interval = args.otlp_interval_ms.or(file.interval_ms);
        let timeout = args.otlp_timeout_ms.or(file.timeout_ms);
        let Some(endpoint) = args.otlp_endpoint.clone().or(file.endpoint) else {
            return match (interval, timeout) {
                (None, None) => Ok(None),
                (Some(_), _) => Err("otlpIntervalMS needs otlpEndpoint".to_owned()),
                (None, Some(_)) => Err("otlpTimeoutMS needs otlpEndpoint".to_owned()),
            };
        };
        Ok(Some(Otlp {
            endpoint: check_endpoint(endpoint)?,
            interval: duration("otlpIntervalMS", interval, &INTERVAL)?,
            timeout: duration("otlpTimeoutMS", timeout, &TIMEOUT)?,
        }))
    }
}

fn duration(name: &str, given: Option<u64>, period: &Period) -> Result<Duration, String> {
    let ms = given.unwrap_or(period.default_ms);
    let allowed = &period.allowed_ms;
    if !allowed.contains(&ms) {
        let (least, most) = (allowed.start(), allowed.end());
        return Err(format!(
            "{name} must be from {least} to {most} milliseconds, given {ms}"
        ));
    }
    Ok(Duration::from_millis(ms))
}

/// Checks that `endpoint` is an address. It may hold a secret and is not shown in the error.
fn check_endpoint(endpoint: String) -> Result<String, String> {
    let wanted = "otlpEndpoint must be like http://HOST:4318/v1/metrics";
    let Some(rest) = endpoint.strip_prefix("http://") else {
        return Err(format!(
            "{wanted}: only plain HTTP is supported; to reach another machine, run a collector \
             on this one"
        ));
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    if host.contains('@') {
        return Err(format!("{wanted}, without a user"));
    }
    match endpoint.parse::<ureq::http::Uri>() {
        Ok(uri) if uri.host().is_some_and(|h| !h.is_empty()) => Ok(endpoint),
        _ => Err(wanted.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(endpoint: Option<&str>, interval_ms: Option<u64>) -> Result<Option<Otlp>, String> {
        let args = OtlpArgs {
            otlp_endpoint: endpoint.map(str::to_owned),
            otlp_interval_ms: interval_ms,
            otlp_timeout_ms: None,
        };
        Otlp::of(&args, OtlpSection::default())
    }

    #[test]
    fn invalid_addresses_and_intervals_are_refused_with_the_reason() {
        assert!(of(None, None).unwrap().is_none());
        let good = of(Some("http://[::1]:4318/v1/metrics"), None);
        assert_eq!(good.unwrap().unwrap().interval, Duration::from_secs(10));
        for (endpoint, named) in [
            ("https://c:4318/v1/metrics", "only plain HTTP"),
            ("c:4318", "only plain HTTP"),
            ("http://user:secret@c:4318/v1/metrics", "without a user"),
            ("http://", "must be like"),
            ("http:///v1/metrics", "must be like"),
            ("http://a b/", "must be like"),
        ] {
            let e = of(Some(endpoint), None).unwrap_err();
            assert!(
                e.contains(named) && !e.contains("secret"),
                "{endpoint}: {e}"
            );
        }
        assert!(of(Some("http://c/"), Some(99)).unwrap_err().contains("100"));
        assert!(of(None, Some(100)).unwrap_err().contains("otlpEndpoint"));
    }
}
