//! Servers that return false answers: each one is detected, and a correct server passes.

use std::path::Path;
use std::time::Duration;

use crate::fake::{FakeServer, Faults, FindFault};
use crate::{FinishedRun, run};

/// Reads and writes of every kind whose answers can be checked.
pub(crate) const WORKLOAD: &str = r#"
name = "lies"
[data]
documents = "small"
collection = "lies"
[[step]]
name = "load"
work = { operation = "insert", batch = 10 }
stop = "rows"
[[step]]
name = "reads"
work = { operation = "mix", mix = [["point", 1], ["points", 1], ["range", 2]], limit = 5 }
stop = "seconds"
measured = true
[[step]]
name = "ranges-down"
work = { operation = "range", limit = 5, reverse = true }
stop = "seconds"
measured = true
[[step]]
name = "changes"
work = { operation = "mix", mix = [["update-inc", 6], ["update-set", 1]] }
stop = "seconds"
measured = true
[preset.smoke]
rows = 60
clients = 3
seconds = 1
payload = 40
"#;

pub(crate) fn write(directory: &Path, text: &str) -> String {
    let path = directory.join("lies.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn run_against(faults: Faults) -> FinishedRun {
    let directory = tempfile::tempdir().unwrap();
    let workload = write(directory.path(), WORKLOAD);
    let fake = FakeServer::start(faults);
    run(&workload, &fake.uri(), &["--warmup-seconds", "0"])
}

/// Checks that the lab reports the fault, also by its exit status.
fn check_detected(faults: Faults, said: &str) {
    let ended = run_against(faults);
    let complaint = ended.complaint();
    assert_eq!(ended.status(), Some(4), "{faults:?}: {complaint}");
    let checks = ended.result().checks;
    let failed = checks.iter().filter(|check| check.passed == Some(false));
    let told: Vec<String> = failed
        .map(|check| format!("{} {} {}", check.name, check.found, check.remark))
        .collect();
    let told = told.join("\n");
    assert!(told.contains(said), "{faults:?}: {told}");
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    assert!(page.contains("work done wrong"), "{faults:?}");
}

#[test]
fn a_server_that_does_not_lie_is_right() {
    let ended = run_against(Faults::default());
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let checks: Vec<(&str, Option<bool>)> = result
        .checks
        .iter()
        .map(|check| (check.name.as_str(), check.passed))
        .collect();
    assert_eq!(
        checks,
        [
            ("documents counted equal documents acknowledged", Some(true)),
            ("updates that were acknowledged are there", Some(true)),
            (
                "sum of k grew by one for each acknowledged $inc",
                Some(true)
            ),
            ("calls were answered, and rightly", Some(true)),
        ],
        "{:?}",
        result.checks
    );
    let untrusted = ["errors", "refused"];
    let warned = |code: &str| result.warnings.iter().any(|warning| warning.code == code);
    assert!(!untrusted.into_iter().any(warned), "{:?}", result.warnings);
}

#[test]
fn reads_that_lie_are_found_out() {
    for (fault, said) in [
        (FindFault::Empty, "document not found"),
        (FindFault::Fewer, "document not found"),
        (FindFault::OnlyId, "wrong contents"),
        (FindFault::Cut, "wrong contents"),
        (FindFault::Mixed, "wrong contents"),
        (FindFault::Doubled, "calls: wrong"),
        (FindFault::Reordered, "wrong order"),
    ] {
        let faults = Faults {
            finds: Some((fault, 20)),
            ..Faults::default()
        };
        check_detected(faults, said);
    }
}

#[test]
fn lost_and_repeated_writes_are_detected() {
    let lost = "updates that were acknowledged are there";
    for (faults, said) in [
        (
            Faults {
                lose_every: Some(20),
                ..Faults::default()
            },
            "documents counted equal documents acknowledged 57",
        ),
        (
            Faults {
                skip_sets_after: Some(5),
                ..Faults::default()
            },
            lost,
        ),
        (
            Faults {
                add_twice_every: Some(50),
                ..Faults::default()
            },
            "sum of k",
        ),
        (
            Faults {
                refuse_updates_of: Some("pad"),
                ..Faults::default()
            },
            "calls of update-set failed",
        ),
    ] {
        check_detected(faults, said);
    }
}

#[test]
fn a_statement_that_always_fails_in_a_mix_makes_the_run_wrong() {
    let text = r#"
name = "renames"
[data]
documents = "small"
collection = "lies"
[[statement]]
name = "rename"
update = { _id = "@existing()" }
change = { "$set" = { pad = "x" } }
[[step]]
name = "load"
work = { operation = "insert", batch = 10 }
stop = "rows"
[[step]]
name = "mixed"
work = { statements = [["point", 20], ["rename", 1]] }
stop = "seconds"
measured = true
[preset.smoke]
rows = 60
clients = 2
seconds = 1
"#;
    let directory = tempfile::tempdir().unwrap();
    let workload = write(directory.path(), text);
    let fake = FakeServer::start(Faults {
        refuse_updates_of: Some("pad"),
        ..Faults::default()
    });
    let ended = run(&workload, &fake.uri(), &["--warmup-seconds", "0"]);
    let complaint = ended.complaint();
    assert_eq!(ended.status(), Some(4), "{complaint}");
    assert!(complaint.contains("100 % of"), "{complaint}");
    assert!(complaint.contains("calls of rename failed"), "{complaint}");
}

#[test]
fn a_limit_on_connections_does_not_make_a_load_lose_rows() {
    let fake = FakeServer::start(Faults {
        connections_max: Some(6),
        ..Faults::default()
    });
    let more = ["--rows", "1600", "--clients", "16", "--batch", "10"];
    let ended = run("insert", &fake.uri(), &more);
    assert_eq!(fake.documents("purchases").len(), 1_600);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let refused = result.warnings.iter().find(|one| one.code == "refused");
    assert!(
        refused.is_some_and(|warning| warning.text.contains("refused")),
        "{:?}",
        result.warnings
    );
    assert_eq!(result.checks[0].found, "1600");
}

/// Of three servers that share a database one does not listen: a driver silently leaves it out.
#[test]
fn a_named_server_that_was_not_reached_is_detected() {
    let faults = Faults {
        is_router: true,
        ..Faults::default()
    };
    let fake = FakeServer::start(faults);
    let other = fake.add_server(faults);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = nobody.local_addr().unwrap().port();
    drop(nobody);
    let more = ["--rows", "200", "--clients", "8", "--seconds", "1"];
    let both = format!("mongodb://127.0.0.1:{},127.0.0.1:{other}/", fake.port);
    let ended = run("equal-servers", &both, &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let three = format!("{},127.0.0.1:{closed}/", both.trim_end_matches('/'));
    let ended = run("equal-servers", &three, &more);
    let complaint = ended.complaint();
    assert_eq!(ended.status(), Some(4), "{complaint}");
    assert!(
        complaint.contains("each server that was named"),
        "{complaint}"
    );
}

/// By default a driver leaves out servers that answer 15 ms later than the nearest one, which
/// happens on a busy machine. The lab uses all servers of the address.
#[test]
fn a_server_that_answers_later_gets_calls_too() {
    let faults = Faults {
        is_router: true,
        ..Faults::default()
    };
    let fake = FakeServer::start(faults);
    let other = fake.add_server(Faults {
        hello_takes: Some(Duration::from_millis(60)),
        ..faults
    });
    let both = format!("mongodb://127.0.0.1:{},127.0.0.1:{other}/", fake.port);
    let more = ["--rows", "200", "--clients", "8", "--seconds", "1"];
    let ended = run("equal-servers", &both, &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
}
