//! Readers of changes and documents that expire: a target that loses, doubles or swaps events, or
//! removes documents too early or never, is detected.

use std::time::Duration;

use crate::fake::{EventFault, FakeServer, Faults};
use crate::{FinishedRun, run};

const SMALL: [&str; 6] = ["--rows", "50", "--seconds", "1", "--warmup-seconds", "0"];

fn fan_out(events: Option<EventFault>) -> FinishedRun {
    let fake = FakeServer::start(Faults {
        events,
        ..Faults::default()
    });
    // With several writers, swapping events of different writers is not a fault.
    let rate = ["--rate", "500", "--call-timeout-seconds", "1"];
    let clients: &[&str] = if events.is_some() {
        &["--clients", "1"]
    } else {
        &[]
    };
    run(
        "fan-out",
        &fake.uri(),
        &[&SMALL[..], &rate, clients].concat(),
    )
}

#[test]
fn every_reader_is_given_every_event() {
    let ended = fan_out(None);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    for (step, readers) in [("readers-1", 1), ("readers-4", 4), ("readers-16", 16)] {
        let step = result.steps.iter().find(|one| one.name == step).unwrap();
        let found = step.more.fan_out.as_ref().unwrap();
        assert_eq!((found.readers, found.writers), (readers, 2));
        assert!(found.lag.calls >= 400 * u64::from(readers), "{found:?}");
        assert!(found.lag.percentile(99.0).unwrap() > 0.0);
        assert!(found.events <= found.lag.calls, "{found:?}");
        assert!(found.drain_seconds.is_some());
    }
    let alone = result.steps.iter().find(|one| one.name == "alone").unwrap();
    assert!(alone.more.fan_out.is_none());
    let checks: Vec<_> = result.checks.iter().map(|check| check.passed).collect();
    assert_eq!(checks, [Some(true); 11], "{:?}", result.checks);
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    assert!(page.contains("<h2>Readers of changes</h2>"));
    assert!(page.contains(">readers-16</th><td>16</td><td>2</td>"));
}

#[test]
fn lost_repeated_and_swapped_events_are_detected() {
    let wrong = "events given twice, out of order or of nothing written";
    let fewest = "events in order of the reader that was given the fewest";
    for (fault, what) in [
        (EventFault::Lost, fewest),
        (EventFault::Doubled, wrong),
        (EventFault::Swapped, fewest),
    ] {
        let ended = fan_out(Some(fault));
        assert_eq!(ended.status(), Some(4), "{fault:?}: {}", ended.complaint());
        let checks = ended.result().checks;
        let found = checks.iter().find(|check| check.name == what).unwrap();
        assert_eq!(found.passed, Some(false), "{fault:?}: {found:?}");
    }
}

fn ttl(expire_after: Option<f64>) -> FinishedRun {
    let fake = FakeServer::start(Faults {
        expire_after: expire_after.map(Duration::from_secs_f64),
        ..Faults::default()
    });
    let more = ["--seconds", "3", "--rate", "200", "--settle-seconds", "1"];
    run(
        "ttl",
        &fake.uri(),
        &[&SMALL[..2], &SMALL[4..], &more].concat(),
    )
}

#[test]
fn documents_that_expire_are_counted_and_lasting_ones_stay() {
    let ended = ttl(Some(1.0));
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let mut steps = result.steps.iter();
    let step = steps.find(|step| step.name == "beside-expiry").unwrap();
    let found = step.more.expiry.as_ref().unwrap();
    assert_eq!(found.after_seconds, 1);
    assert!(found.inserted > 100, "{found:?}");
    assert!(found.removed_meanwhile > 0, "{found:?}");
    assert!(found.removed_meanwhile < found.inserted, "{found:?}");
    assert!(found.gone_after_s.unwrap() > 0.5, "{found:?}");
    assert!(found.rate_percent.unwrap() > 50.0, "{found:?}");
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    assert!(page.contains("<h2>Documents that expire</h2>"));
}

#[test]
fn documents_removed_too_early_or_never_are_detected() {
    for (age, what) in [
        (Some(0.0), "documents that were gone before their time"),
        (None, "documents left when all that expire are gone"),
    ] {
        let ended = ttl(age);
        assert_eq!(ended.status(), Some(4), "{}", ended.complaint());
        let checks = ended.result().checks;
        let found = checks.iter().find(|check| check.name == what).unwrap();
        assert_eq!(found.passed, Some(false), "{found:?}");
    }
}
