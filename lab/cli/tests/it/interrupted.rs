//! Interrupted runs continue where they stopped; a slow target is reported as slow.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{FakeServer, Faults};
use crate::{lab, run};

const ROUNDS: [&str; 8] = [
    "--rounds",
    "4",
    "--rows",
    "30000",
    "--batch",
    "20",
    "--clients",
    "2",
];

fn start(target: &str, out: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry-lab"));
    command
        .args([
            "run",
            "insert-rounds",
            "--target",
            target,
            "--out",
            out.to_str().unwrap(),
        ])
        .args(ROUNDS);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until the second round has begun, and returns the run's folder.
fn wait_for_second_round(out: &Path, child: &mut Child) -> PathBuf {
    let begun = Instant::now();
    loop {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the second round never began"
        );
        assert!(
            child.try_wait().unwrap().is_none(),
            "the run ended before it could be interrupted"
        );
        let folder = std::fs::read_dir(out)
            .ok()
            .and_then(|mut found| found.next()?.ok())
            .map(|entry| entry.path());
        let text = folder
            .as_ref()
            .and_then(|folder| std::fs::read_to_string(folder.join("checkpoint.json")).ok());
        if text.is_some_and(|text| text.contains("\"begun\":\"round.2\"")) {
            // By then some rows of the round are stored.
            std::thread::sleep(Duration::from_millis(100));
            return folder.unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn goes_on_after(signal: Signal, status: Option<i32>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let target = format!("fjall:{}", directory.path().join("data").display());
    let mut child = start(&target, &out);
    let folder = wait_for_second_round(&out, &mut child);
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_eq!(child.wait().unwrap().code(), status);
    if status.is_some() {
        let partial = lab_kit::folder::read_result(&folder).unwrap();
        assert!(!partial.run.complete && partial.run.stopped_because.is_some());
    }
    // Simulates a machine's clock that was set back since the interruption.
    let checkpoint = folder.join("checkpoint.json");
    let text = std::fs::read_to_string(&checkpoint).unwrap();
    let (before, after) = text.split_once("\"started_at\":\"2").unwrap();
    let later = format!("{before}\"started_at\":\"2{}", after.replacen("0", "9", 1));
    std::fs::write(&checkpoint, later).unwrap();
    let resumed = lab(&["resume", folder.to_str().unwrap()]);
    assert_eq!(
        resumed.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&resumed.stderr)
    );
    let result = lab_kit::folder::read_result(&folder).unwrap();
    assert_eq!(
        (result.checks[0].passed, result.checks[0].found.as_str()),
        (Some(true), "120000")
    );
    let facts = &result.run;
    assert!(facts.complete && facts.resumed_at.len() == 1);
    assert!(facts.started_at.starts_with("29"), "{}", facts.started_at);
    assert!(facts.resumed_at[0] >= facts.started_at, "{facts:?}");
    assert!(facts.finished_at >= facts.started_at, "{facts:?}");
    let names: Vec<&str> = result.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(
        names,
        ["create-indexes", "round.1", "round.2", "round.3", "round.4"]
    );
    let rows = std::fs::read_to_string(folder.join("intervals.csv")).unwrap();
    let of_second: u64 = rows
        .lines()
        .filter(|row| row.starts_with("round.2,"))
        .map(|row| row.split(',').nth(4).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(
        of_second, 30_000,
        "rows of the interrupted attempt are gone"
    );
    let again = lab(&["resume", folder.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is nothing to resume"));
}

#[test]
fn a_run_that_was_asked_to_end_goes_on() {
    goes_on_after(Signal::TERM, Some(3));
}

#[test]
fn a_run_that_was_killed_goes_on() {
    goes_on_after(Signal::KILL, None);
}

#[test]
fn a_stall_shows_in_latency_from_the_intended_start() {
    let fake = FakeServer::start(Faults {
        stall_updates_every: Some(100),
        ..Faults::default()
    });
    let more = [
        "--rows",
        "10",
        "--clients",
        "1",
        "--warmup-seconds",
        "0",
        "--seconds",
        "3",
        "--rate",
        "200",
    ];
    let ended = run("hot", &fake.uri(), &more);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let step = result.main_step().unwrap();
    let p90 = |latency: &lab_kit::result::LatencySummary| {
        latency
            .percentiles_us
            .iter()
            .find(|(percentile, _)| *percentile == 90.0)
            .unwrap()
            .1
    };
    let service = step.more.service.as_ref().unwrap();
    // One call in a hundred takes 300 ms; sixty of every hundred wait for it.
    assert!(p90(service) < 20_000.0, "{}", p90(service));
    assert!(p90(&step.latency) > 100_000.0, "{}", p90(&step.latency));
    // Every scheduled call was sent or counted as unsent; calls that were unsent because of the lab
    // have no latency.
    let (unsent, by_lab) = (step.more.unsent_calls, step.more.unsent_by_lab);
    assert_eq!(service.calls + unsent, 3 * 200);
    assert_eq!(service.calls + unsent, step.latency.calls + by_lab);
    assert!(step.finish.behind_schedule_seconds_max > 0.1);
}

#[test]
fn calls_left_unsent_by_the_lab_are_counted_separately() {
    let fake = FakeServer::start(Faults::default());
    let directory = tempfile::tempdir().unwrap();
    let (out, uri) = (directory.path().join("out"), fake.uri());
    // There is one call in 200 ms, so that none is under way in the middle between two calls.
    let settings = "--rows 10 --clients 1 --warmup-seconds 0 --seconds 3 --rate 5";
    let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
        .args(["run", "hot", "--target", &uri, "--out"])
        .arg(&out)
        .args(settings.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stored = || {
        let all = fake.collections();
        all.iter().map(|c| fake.documents(c)).collect::<Vec<_>>()
    };
    let wait = |what: &str, reached: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !reached() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let loaded = || stored().iter().map(Vec::len).sum::<usize>() == 10;
    wait("the documents never came", &loaded);
    let before = stored();
    wait("the updates never came", &|| stored() != before);
    // The lab is paused until the step should be over, while the target has nothing to do. If a
    // call were under way, the lab could not know which side delayed it.
    std::thread::sleep(Duration::from_millis(100));
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(3500));
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let folder = std::fs::read_dir(&out).unwrap().next().unwrap().unwrap();
    let result = lab_kit::folder::read_result(&folder.path()).unwrap();
    let step = result.main_step().unwrap();
    let (unsent, by_lab) = (step.more.unsent_calls, step.more.unsent_by_lab);
    assert!((8..15).contains(&by_lab), "{by_lab} of {unsent} unsent");
    let sent = step.more.service.as_ref().unwrap().calls;
    assert_eq!((sent + unsent, step.latency.calls + by_lab), (15, 15));
    let codes: Vec<&str> = result.warnings.iter().map(|w| w.code.as_str()).collect();
    assert!(codes.contains(&"calls-unsent-by-lab"), "{codes:?}");
    assert!(
        unsent > by_lab || !codes.contains(&"calls-unsent"),
        "{codes:?}"
    );
}
