//! A target that is paused: every scheduled call is counted, every stall is detected, and the lab
//! itself never hangs.

use std::time::{Duration, Instant};

use crate::fake::{FakeServer, Faults};
use crate::run;

fn start_freezing(at_update: usize, time: Duration) -> FakeServer {
    FakeServer::start(Faults {
        freeze_at_update: Some((at_update, time)),
        ..Faults::default()
    })
}

const COMMON: [&str; 8] = [
    "--rows",
    "10",
    "--clients",
    "2",
    "--warmup-seconds",
    "0",
    "--seconds",
    "3",
];

#[test]
fn an_open_loop_counts_the_calls_that_a_frozen_target_kept_from_being_sent() {
    // 200 calls a second for 3 s, and no answer from 2 s on until after the end.
    let fake = start_freezing(400, Duration::from_secs(3));
    let ended = run(
        "hot",
        &fake.uri(),
        &[&COMMON[..], &["--rate", "200"]].concat(),
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let step = result.main_step().unwrap();
    let calls = step.latency.calls;
    assert!((570..=630).contains(&calls), "{calls} of 600 calls");
    assert!(
        (150..=210).contains(&step.more.unsent_calls),
        "{} unsent",
        step.more.unsent_calls
    );
    // A third of the calls waited; those that were due first waited for the whole time.
    let p99 = step.latency.percentile(99.0).unwrap();
    assert!(p99 > 2_500_000.0, "p99 {p99} us");
    // The chart over time includes the same calls as the numbers, also those that were never sent.
    let in_chart: u64 = step.series.iter().map(|point| point.calls).sum();
    assert_eq!(in_chart, calls);
    // The end may fall a moment behind a tick, in an interval of its own without calls.
    let last = step.series.iter().rfind(|point| point.calls > 0).unwrap();
    assert!(last.latency_us_max > 2_500_000.0, "{last:?}");
    let p75 = step.latency.percentile(75.0).unwrap();
    assert!(p75 > 1_500_000.0, "p75 {p75} us");
    assert!(
        result
            .warnings
            .iter()
            .any(|warning| warning.code == "calls-unsent"),
        "{:?}",
        result.warnings
    );
}

#[test]
fn an_open_loop_at_an_easy_rate_leaves_nothing_unsent_and_tells_its_own_lateness() {
    let fake = FakeServer::start(Faults::default());
    let ended = run(
        "hot",
        &fake.uri(),
        &[&COMMON[..], &["--rate", "200"]].concat(),
    );
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let step = result.main_step().unwrap();
    let more = &step.more;
    assert!(
        (570..=600).contains(&step.latency.calls),
        "{}",
        step.latency.calls
    );
    let (service, lateness) = (
        more.service.as_ref().unwrap(),
        more.lateness.as_ref().unwrap(),
    );
    assert_eq!(lateness.calls, service.calls);
    // A call's latency is never less than the time from sending; neither includes the lab's
    // lateness.
    let p50 = |latency: &lab_kit::result::LatencySummary| latency.percentile(50.0).unwrap();
    assert!(p50(&step.latency) >= p50(service));
}

#[test]
fn a_freeze_of_less_than_a_second_is_a_stall() {
    let fake = start_freezing(500, Duration::from_millis(700));
    let ended = run("hot", &fake.uri(), &COMMON);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let stalls = &result.main_step().unwrap().stalls;
    assert!(stalls.count >= 1, "{stalls:?}");
    assert!(
        (0.65..=0.95).contains(&stalls.longest_gap_seconds),
        "{stalls:?}"
    );
    assert!(stalls.seconds_without_ops >= 0.65, "{stalls:?}");
}

#[test]
fn a_target_that_hangs_for_ever_ends_the_run_and_its_calls_count() {
    let fake = start_freezing(100, Duration::from_secs(3_600));
    let begun = Instant::now();
    let more = ["--rate", "200", "--call-timeout-seconds", "1"];
    let ended = run("hot", &fake.uri(), &[&COMMON[..], &more].concat());
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    assert_ne!(ended.status(), Some(0));
    let result = ended.result();
    let step = result.main_step().unwrap();
    assert!(step.errors.contains_key("no answer"), "{:?}", step.errors);
    assert!(step.latency.max_us > 900_000.0, "{}", step.latency.max_us);
}
