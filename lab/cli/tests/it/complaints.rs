//! Runs that cannot begin, end early or do wrong work: each gives one clear line and its own exit
//! status.

use mongodb::bson::doc;

use crate::fake::{FakeServer, Faults};
use crate::{run, run_into};

#[test]
fn a_server_that_loses_documents_is_found_out() {
    let fake = FakeServer::start(Faults {
        lose_every: Some(100),
        ..Faults::default()
    });
    let ended = run("insert", &fake.uri(), &["--rows", "1000"]);
    assert_eq!(ended.status(), Some(4));
    let complaint = ended.complaint();
    assert!(
        complaint.contains("expected 1000, found 990") && complaint.lines().count() == 1,
        "{complaint}"
    );
    assert!(
        std::fs::read_to_string(ended.folder().join("report.html"))
            .unwrap()
            .contains("work done wrong")
    );
}

#[test]
fn a_server_that_loses_updates_is_found_out() {
    let fake = FakeServer::start(Faults {
        skip_update_every: Some(50),
        ..Faults::default()
    });
    let ended = run(
        "hot",
        &fake.uri(),
        &["--rows", "10", "--warmup-seconds", "0", "--seconds", "1"],
    );
    assert_eq!(ended.status(), Some(4), "{}", ended.complaint());
    assert!(
        ended.complaint().contains("sum of k"),
        "{}",
        ended.complaint()
    );
}

#[test]
fn a_step_that_ends_in_its_warm_up_has_no_rate() {
    let fake = FakeServer::start(Faults::default());
    let warmup = ["--rows", "100", "--warmup-seconds", "60"];
    let ended = run("insert", &fake.uri(), &warmup);
    assert_eq!(ended.status(), Some(3), "{}", ended.complaint());
    let complaint = ended.complaint();
    assert!(
        complaint.contains("nothing was measured; give more --rows"),
        "{complaint}"
    );
    assert!(!ended.result().run.complete);
}

#[test]
fn a_server_that_dies_leaves_a_partial_report() {
    let fake = FakeServer::start(Faults {
        die_after_inserts: Some(20),
        ..Faults::default()
    });
    let ended = run(
        "insert",
        &fake.uri(),
        &["--rows", "100000", "--clients", "2", "--batch", "10"],
    );
    assert_eq!(ended.status(), Some(3));
    let complaint = ended.complaint();
    assert!(
        complaint.contains("run ended early: the target stopped answering")
            && complaint.lines().count() == 1,
        "{complaint}"
    );
    let result = ended.result();
    assert!(!result.run.complete && result.run.stopped_because.is_some());
    assert_eq!(result.main_step().unwrap().ops, 200);
    let check = &result.checks[0];
    assert_eq!((check.passed, check.found.as_str()), (None, "unknown"));
    assert!(check.expected.starts_with("200 to "), "{}", check.expected);
    assert!(
        std::fs::read_to_string(ended.folder().join("report.html"))
            .unwrap()
            .contains("ended early")
    );
}

#[test]
fn a_server_that_refuses_everything_ends_the_run() {
    let fake = FakeServer::start(Faults {
        refuse_after_inserts: Some(5),
        ..Faults::default()
    });
    let ended = run(
        "insert",
        &fake.uri(),
        &["--rows", "100000", "--clients", "1", "--batch", "10"],
    );
    assert_eq!(ended.status(), Some(3), "{}", ended.complaint());
    let result = ended.result();
    assert_eq!(
        result
            .main_step()
            .unwrap()
            .errors
            .get("14031 OutOfDiskSpace"),
        Some(&10)
    );
    assert_eq!(
        result.checks[0].passed,
        Some(true),
        "what was acknowledged is there: {:?}",
        result.checks
    );
}

#[test]
fn an_unreachable_target_is_reported_and_leaves_no_files() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let ended = run(
        "insert",
        &format!("mongodb://me:secret@127.0.0.1:{port}/?serverSelectionTimeoutMS=300"),
        &[],
    );
    assert_eq!(ended.status(), Some(1));
    let complaint = ended.complaint();
    assert!(
        complaint.starts_with("quarry-lab: cannot reach mongodb://me:***@127.0.0.1:"),
        "{complaint}"
    );
    assert!(!complaint.contains("secret"));
    assert_eq!(std::fs::read_dir(ended.out.path()).unwrap().count(), 0);
}

#[test]
fn wrong_words_say_what_is_allowed() {
    for (workload, uri, more, operation) in [
        (
            "bogus",
            "mongodb://127.0.0.1:1",
            vec![],
            "there is no workload 'bogus'; there are: insert",
        ),
        (
            "insert",
            "127.0.0.1",
            vec![],
            "--target '127.0.0.1' is not a usable address: it is none of mongodb://",
        ),
        (
            "insert",
            "mongodb://127.0.0.1:1",
            vec!["--indexes", "4"],
            "--indexes is 4; allowed is 0 to 3",
        ),
        (
            "hot",
            "mongodb://127.0.0.1:1",
            vec!["--placement", "per-client"],
            "--placement is per-client",
        ),
    ] {
        let ended = run(workload, uri, &more);
        assert_eq!(ended.status(), Some(2), "{}", ended.complaint());
        assert!(
            ended.complaint().contains(operation) && ended.complaint().lines().count() == 1,
            "{}",
            ended.complaint()
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("data");
    let words = ["target", "mariadb", "--engine", "lunch", "--dir"];
    let output = crate::lab(&[&words[..], &[place.to_str().unwrap()]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("innodb, rocksdb"), "{told}");
}

#[test]
fn results_that_cannot_be_written_stop_a_run_before_it_begins() {
    let fake = FakeServer::start(Faults::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = run_into(file.path(), "insert", &fake.uri(), &["--rows", "10"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        complaint.starts_with("quarry-lab: cannot write ") && complaint.lines().count() == 1,
        "{complaint}"
    );
    assert!(fake.documents("purchases").is_empty());
}

#[test]
fn data_of_others_is_not_dropped() {
    let fake = FakeServer::start(Faults::default());
    fake.store("purchases", doc! { "precious": true });
    let ended = run(
        "insert",
        &fake.uri(),
        &["--rows", "10", "--db", "production"],
    );
    assert_eq!(ended.status(), Some(1));
    assert!(
        ended
            .complaint()
            .contains("production.purchases already holds 1 documents"),
        "{}",
        ended.complaint()
    );
    assert_eq!(fake.documents("purchases").len(), 1);
    let ended = run(
        "insert",
        &fake.uri(),
        &["--rows", "10", "--db", "production", "--drop"],
    );
    assert_eq!(
        (ended.status(), fake.documents("purchases").len()),
        (Some(0), 10)
    );
}

#[test]
fn files_of_others_are_not_deleted_for_an_engine() {
    let directory = tempfile::tempdir().unwrap();
    let precious = directory.path().join("thesis.tex");
    std::fs::write(&precious, "years of work").unwrap();
    let target = format!("redb:{}", directory.path().display());
    for more in [&[][..], &["--drop"][..]] {
        let ended = run("insert", &target, &[&["--rows", "10"], more].concat());
        assert_eq!(ended.status(), Some(1), "{more:?}");
        let complaint = ended.complaint();
        assert!(
            complaint.contains("did not create ('thesis.tex')") && complaint.lines().count() == 1,
            "{complaint}"
        );
    }
    let own = directory.path().join("own");
    let target = format!("redb:{}", own.display());
    for _ in 0..2 {
        let ended = run("insert", &target, &["--rows", "10"]);
        assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
        std::fs::write(own.join("notes.txt"), "mine").unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(own.join("notes.txt")).unwrap(),
        "mine"
    );
    assert_eq!(std::fs::read_to_string(precious).unwrap(), "years of work");
}

#[test]
fn two_labs_do_not_measure_one_database() {
    let fake = FakeServer::start(Faults::default());
    let more = ["--rows", "10", "--clients", "1", "--seconds", "3"];
    let first = std::thread::spawn({
        let uri = fake.uri();
        move || {
            run(
                "hot",
                &uri,
                &[&more[..], &["--warmup-seconds", "0"]].concat(),
            )
        }
    });
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while fake.updates() == 0 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let second = run("hot", &fake.uri(), &more);
    assert_eq!(second.status(), Some(1));
    let complaint = second.complaint();
    assert!(complaint.contains("another lab uses it"), "{complaint}");
    let first = first.join().unwrap();
    assert_eq!(first.status(), Some(0), "{}", first.complaint());
}
