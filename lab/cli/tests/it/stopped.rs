//! Targets that are stopped by a signal at the beginning, in the middle and at the end of an open
//! and of a closed loop, on every kind of target: the lab shows the true numbers within 5 %.
//!
//! The fake server cannot be stopped by itself: it answers nobody for as long, which is the same
//! to the lab. MariaDB is stopped where it is installed. An engine is in the lab's process, which
//! is stopped as a whole.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lab_kit::result::{RunResult, StepResult};
use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{Fake, Faults};
use crate::run;

/// Calls per second of an open loop.
const RATE: f64 = 200.0;
/// Seconds measured.
const SECONDS: f64 = 3.0;
/// For how long a target is stopped.
const STOP: f64 = 1.0;
/// When, since the measured step began: at the beginning, in the middle, across the end.
const AT: [f64; 3] = [0.1, 1.2, 2.5];

const COMMON: [&str; 8] = [
    "--rows",
    "100",
    "--clients",
    "2",
    "--warmup-seconds",
    "0",
    "--seconds",
    "3",
];

fn near(found: f64, wanted: f64, slack: f64, what: &str) {
    assert!(
        (found - wanted).abs() <= wanted * 0.05 + slack,
        "{what}: {found} is not {wanted}"
    );
}

fn mean_s(step: &StepResult) -> f64 {
    step.latency.mean_us / 1e6
}

/// The numbers of a step whose target stood still from `at` on for `stop` seconds, as they follow
/// from the schedule: each call due meanwhile waits for the end.
fn judge(step: &StepResult, at: f64, stop: f64, is_open: bool) {
    let what = format!("stop at {at} s, open {is_open}");
    // Clients that end at the step's end are not waited for beyond the answer of their last call.
    let gap = step.stalls.longest_gap_seconds;
    near(gap, stop, 0.03, &format!("{what}: gap"));
    near(
        step.latency.max_us / 1e6,
        stop,
        0.03,
        &format!("{what}: longest call"),
    );
    if !is_open {
        return;
    }
    let calls = RATE * SECONDS;
    near(
        step.latency.calls as f64,
        calls,
        1.0,
        &format!("{what}: calls"),
    );
    let due = (SECONDS - at).min(stop);
    let waited = due * (stop - due / 2.0) * RATE;
    near(
        mean_s(step),
        waited / calls,
        0.01,
        &format!("{what}: mean latency"),
    );
    let p50 = step.latency.percentile(50.0).unwrap();
    assert!(p50 < 50_000.0, "{what}: median {p50}");
}

fn measured(result: &RunResult) -> &StepResult {
    result.main_step().unwrap()
}

#[test]
fn a_server_that_answers_nobody_for_a_second() {
    for at in AT {
        for is_open in [true, false] {
            // Of an open loop the number of the call tells when it is made; a closed loop is
            // paced by nothing, so its stop is at a number of calls near the beginning only.
            let number = if is_open { (at * RATE) as usize } else { 20 };
            if !is_open && at != AT[0] {
                continue;
            }
            let fake = Fake::start(Faults {
                freeze_at_update: Some((number.max(1), Duration::from_secs_f64(STOP))),
                ..Faults::default()
            });
            let rate = RATE.to_string();
            let more: &[&str] = if is_open { &["--rate", &rate] } else { &[] };
            let ended = run("hot", &fake.uri(), &[&COMMON[..], more].concat());
            assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
            judge(measured(&ended.result()), at, STOP, is_open);
        }
    }
}

/// The lab as a process whose lines can be waited for.
struct Lab {
    child: Child,
    lines: mpsc::Receiver<String>,
    out: tempfile::TempDir,
}

impl Lab {
    fn start(words: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
            .args(words)
            .args(["--out", out.path().to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines, out }
    }

    fn wait_for(&self, beginning: &str) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if let Ok(line) = self.lines.recv_timeout(Duration::from_secs(60))
                && line.starts_with(beginning)
            {
                return;
            }
        }
        panic!("no line {beginning}");
    }

    fn end(&mut self, timeout: Duration) -> Option<i32> {
        let begun = Instant::now();
        while begun.elapsed() < timeout {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        panic!("the lab hangs");
    }

    fn result(&self) -> RunResult {
        let folder = std::fs::read_dir(self.out.path()).unwrap().flatten().next();
        lab_kit::folder::read_result(&folder.unwrap().path()).unwrap()
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Stops a process; how long it stood still, in seconds.
fn stop(pid: u32, seconds: f64) -> f64 {
    signal(pid, Signal::STOP);
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    signal(pid, Signal::CONT);
    begun.elapsed().as_secs_f64()
}

/// The gap that the lab must show, where the stop need not begin at an exact time.
fn judge_gap(result: &RunResult, stopped: f64, what: &str) {
    let step = measured(result);
    near(
        step.stalls.longest_gap_seconds,
        stopped,
        0.05,
        &format!("{what}: gap"),
    );
    near(
        step.latency.max_us / 1e6,
        stopped,
        0.05,
        &format!("{what}: longest call"),
    );
}

#[test]
fn an_engine_that_stands_still_with_the_lab() {
    for is_open in [true, false] {
        for at in [0.7, 1.3, 2.0] {
            let dir = tempfile::tempdir().unwrap();
            let target = format!("redb:{}", dir.path().join("db").display());
            let rate = RATE.to_string();
            let mut words = vec!["run", "hot", "--target", &target];
            words.extend(COMMON);
            if is_open {
                words.extend(["--rate", &rate]);
            }
            let mut lab = Lab::start(&words);
            lab.wait_for("load:");
            std::thread::sleep(Duration::from_secs_f64(at));
            let stopped = stop(lab.child.id(), 0.7);
            assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
            let result = lab.result();
            judge_gap(&result, stopped, &format!("open {is_open}, at {at}"));
            if is_open {
                let step = measured(&result);
                near(step.latency.calls as f64, RATE * SECONDS, 2.0, "calls");
                let wanted = stopped * stopped / 2.0 * RATE / (RATE * SECONDS);
                near(mean_s(step), wanted, 0.01, "mean latency");
            }
        }
    }
}

/// A private MariaDB, where it is installed.
struct MariaDb {
    lab: Lab,
    address: String,
    pid: u32,
    _dir: tempfile::TempDir,
}

impl MariaDb {
    fn start() -> Option<Self> {
        let is_there = [
            "/usr/sbin/mariadbd",
            "/usr/bin/mariadbd",
            "/usr/local/bin/mariadbd",
        ];
        if !is_there.iter().any(|path| Path::new(path).exists()) {
            println!("skipped: MariaDB is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
            .args(["target", "mariadb", "--cache-mb", "32", "--dir"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let pid = std::fs::read_to_string(data.join("server.pid")).unwrap();
        Some(Self {
            lab: Lab {
                child,
                lines: mpsc::channel().1,
                out: tempfile::tempdir().unwrap(),
            },
            address: line.trim().to_owned(),
            pid: pid.trim().parse().unwrap(),
            _dir: dir,
        })
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        signal(self.pid, Signal::CONT);
        signal(self.lab.child.id(), Signal::INT);
        let _ = self.lab.child.wait();
    }
}

#[test]
fn a_stopped_mariadb_shows_the_true_numbers_and_never_hangs_the_lab() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let rate = RATE.to_string();
    let words = |more: &[&'static str]| {
        let mut out = vec!["run".to_owned(), "hot".to_owned(), "--target".to_owned()];
        out.push(server.address.clone());
        out.extend(COMMON.iter().chain(more).map(|word| (*word).to_owned()));
        out
    };
    for is_open in [true, false] {
        for at in [0.5, 1.3, 2.6] {
            let mut words = words(&[]);
            if is_open {
                words.extend(["--rate".to_owned(), rate.clone()]);
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let mut lab = Lab::start(&words);
            lab.wait_for("load:");
            std::thread::sleep(Duration::from_secs_f64(at));
            let stopped = stop(server.pid, STOP);
            assert_eq!(lab.end(Duration::from_secs(60)), Some(0), "at {at}");
            let result = lab.result();
            judge_gap(&result, stopped, &format!("open {is_open}, at {at}"));
            if is_open {
                let calls = measured(&result).latency.calls as f64;
                near(calls, RATE * SECONDS, 2.0, "calls");
            }
        }
    }
    // Stopped for ever: before the run, within the measured step, and after it.
    for (at, is_before) in [(0.0, true), (1.0, false), (2.9, false)] {
        if is_before {
            signal(server.pid, Signal::STOP);
        }
        let words = words(&["--call-timeout-seconds", "2"]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut lab = Lab::start(&words);
        if !is_before {
            lab.wait_for("load:");
            std::thread::sleep(Duration::from_secs_f64(at));
            signal(server.pid, Signal::STOP);
        }
        let status = lab.end(Duration::from_secs(60));
        assert!(matches!(status, Some(1 | 3)), "{status:?} at {at}");
        signal(server.pid, Signal::CONT);
    }
}
