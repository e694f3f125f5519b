//! Targets of every kind are stopped by a signal at the beginning, in the middle and at the end of
//! an open and of a closed loop: the lab reports the correct numbers within 5 %.
//!
//! Servers are separate processes, which are stopped while an open and a closed loop run at the
//! same time: always the fake server, Quarry if it is built in the same repository (or `QUARRY_BIN`
//! names it), MariaDB if it is installed. An engine is in the lab's process, which is stopped as a
//! whole. Only the fake server in this process can pause at an exact call; it then answers no
//! client for a given time.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lab_kit::result::{RunResult, StepResult};
use rustix::process::Signal;

use crate::fake::{FakeServer, Faults};
use crate::run;
use crate::servers::{Server, fake_server, mariadb, quarry, signal};

/// Calls per second of an open loop.
const RATE: f64 = 200.0;
/// Seconds measured.
const SECONDS: f64 = 2.0;
/// The time for which a target is stopped, in seconds.
const STOP: f64 = 1.0;
/// A measured step of [`SECONDS`].
const SHORT: [&str; 2] = ["--seconds", "2"];
/// When the target is stopped, in seconds since the measured step began: at the beginning, in the
/// middle, across the end.
const AT: [f64; 3] = [0.1, 0.6, 1.5];

const COMMON: [&str; 6] = ["--rows", "100", "--clients", "2", "--warmup-seconds", "0"];

fn near(found: f64, wanted: f64, slack: f64, what: &str) {
    assert!(
        (found - wanted).abs() <= wanted * 0.05 + slack,
        "{what}: {found} is not {wanted}"
    );
}

/// Measures how long a thread of this machine waits for a processor, which is almost nothing on an
/// idle machine. On a busy machine the lab correctly reports this time in addition to a stop.
struct Witness {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<f64>,
}

impl Witness {
    fn start() -> Self {
        const PAUSE: Duration = Duration::from_millis(2);
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_over = is_over.clone();
            move || {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    std::thread::sleep(PAUSE);
                    longest = longest.max(begun.elapsed().saturating_sub(PAUSE));
                }
                longest.as_secs_f64()
            }
        });
        Self { is_over, thread }
    }

    /// The number of seconds by which a call may be late: the client, the server, the client's
    /// driver and again the client each wait for a processor.
    fn end(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap() * 4.0
    }
}

/// Makes up to three attempts of a check that may fail on a busy machine. There a continued process
/// first waits for a processor, and the lab correctly reports this time. A wrong report of the lab
/// would fail each time.
fn despite_a_busy_machine(cell: impl Fn()) {
    for attempt in 1.. {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(&cell)) {
            Ok(()) => return,
            Err(panic) if attempt == 3 => std::panic::resume_unwind(panic),
            Err(_) => {}
        }
    }
}

fn mean_s(step: &StepResult) -> f64 {
    step.latency.mean_us / 1e6
}

/// Compares the numbers of a step whose target was stopped from `at` on for `stop` seconds with
/// those that the schedule predicts: each call due during the stop waits for its end. On a busy
/// machine each call may also be late by `late` seconds.
fn judge(step: &StepResult, at: f64, stop: f64, late: f64, is_open: bool) {
    let what = format!("stop at {at} s, open {is_open}");
    // At the end of the step the lab waits only for the answers to the clients' last calls.
    let gap = step.stalls.longest_gap_seconds;
    near(gap, stop, 0.03 + late, &format!("{what}: gap"));
    near(
        step.latency.max_us / 1e6,
        stop,
        0.03 + late,
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
    judge_mean(step, due * (stop - due / 2.0) / SECONDS, &what);
    // No stop begins so that one of these lies between calls that waited and calls that did not.
    for percent in [25.0, 50.0, 90.0, 95.0] {
        judge_percentile(step, percent, at, stop, late, &what);
    }
}

/// The 90th percentile of a call's own time in seconds, and the part of the clients' time that
/// the calls of an open loop take.
fn load(step: &StepResult) -> (f64, f64) {
    let service = step.more.service.as_ref().unwrap();
    let slow = service.percentile(90.0).unwrap() / 1e6;
    (slow, (slow * RATE / 2.0).min(0.9))
}

/// Checks the mean latency of an open loop. Its calls `waited` on average this long for the end of
/// a stop, and then for one another, which takes longer on a busier machine.
fn judge_mean(step: &StepResult, waited: f64, what: &str) {
    let (slow, busy) = load(step);
    let (low, high) = (waited * 0.95, (waited / (1.0 - busy) + slow) * 1.05);
    let mean = mean_s(step);
    assert!(
        (low - 0.005..=high + 0.005).contains(&mean),
        "{what}: mean latency {mean} is not within {low} to {high}"
    );
}

/// Checks a percentile of the latencies of an open loop. The first call of the stop waits for all
/// of it. Each later second of the schedule brings calls that wait one second less, if answers
/// take no time; if they occupy the clients for the part `busy`, then by `1 - busy` seconds less.
/// The calls after those that waited take only their own time.
fn judge_percentile(step: &StepResult, percent: f64, at: f64, stop: f64, late: f64, what: &str) {
    let (slow, busy) = load(step);
    // The seconds of the schedule whose calls take longer than this percentile.
    let longer = SECONDS * (1.0 - percent / 100.0);
    let expected = |busy: f64| {
        if longer < SECONDS - at {
            (stop - (1.0 - busy) * longer).max(0.0)
        } else {
            0.0
        }
    };
    let (low, high) = (expected(0.0) * 0.95, (expected(busy) + slow) * 1.05);
    let found = step.latency.percentile(percent).unwrap() / 1e6;
    assert!(
        (low - 0.03..=high + 0.03 + late).contains(&found),
        "{what}: the latency at {percent} % is {found}, which is not within {low} to {high}"
    );
}

fn main_step(result: &RunResult) -> &StepResult {
    result.main_step().unwrap()
}

#[test]
fn a_server_that_answers_nobody_for_a_second() {
    for at in AT {
        for is_open in [true, false] {
            // In an open loop the number of a call determines its time. A closed loop has no
            // schedule, so its stop is after a number of calls near the beginning.
            let number = if is_open { (at * RATE) as usize } else { 20 };
            if !is_open && at != AT[0] {
                continue;
            }
            despite_a_busy_machine(|| {
                let fake = FakeServer::start(Faults {
                    freeze_at_update: Some((number.max(1), Duration::from_secs_f64(STOP))),
                    ..Faults::default()
                });
                let rate = RATE.to_string();
                let more: &[&str] = if is_open { &["--rate", &rate] } else { &[] };
                let witness = Witness::start();
                let ended = run("hot", &fake.uri(), &[&COMMON[..], &SHORT, more].concat());
                assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
                let (stop, late) = (fake.frozen_seconds(), witness.end());
                assert!(stop >= STOP, "it stood still for {stop} s");
                judge(main_step(&ended.result()), at, stop, late, is_open);
            });
        }
    }
}

/// The lab as a process; tests can wait for lines of its output.
struct Lab {
    child: Child,
    /// The lines of its output, each with its time.
    lines: mpsc::Receiver<(String, Instant)>,
    out: tempfile::TempDir,
}

impl Lab {
    fn start(words: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
            .args(words)
            .args(["--out", out.path().to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = send.send((line, Instant::now()));
            }
        });
        Self { child, lines, out }
    }

    /// Waits until the measured step has begun, and returns the time.
    fn wait_for_step(&self) -> Instant {
        let until = Instant::now() + Duration::from_secs(60);
        let mut said = Vec::new();
        // The loop ends immediately if the lab has ended.
        while let Ok((line, at)) = self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if line == "hot" {
                return at;
            }
            said.push(line);
        }
        panic!("the step did not begin: {said:?}");
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

/// Stops a process for a time; returns how long it was really stopped, in seconds.
fn stop(pid: u32, seconds: f64) -> f64 {
    signal(pid, Signal::STOP);
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    signal(pid, Signal::CONT);
    begun.elapsed().as_secs_f64()
}

/// Checks the gap that the lab reports for a stop that did not begin at an exact time.
fn judge_gap(result: &RunResult, stopped: f64, late: f64, what: &str) {
    let step = main_step(result);
    near(
        step.stalls.longest_gap_seconds,
        stopped,
        0.05 + late,
        &format!("{what}: gap"),
    );
    near(
        step.latency.max_us / 1e6,
        stopped,
        0.05 + late,
        &format!("{what}: longest call"),
    );
}

#[test]
fn an_engine_that_stands_still_with_the_lab() {
    for is_open in [true, false] {
        for at in [0.1, 0.6, 1.2] {
            despite_a_busy_machine(|| {
                let dir = tempfile::tempdir().unwrap();
                let target = format!("redb:{}", dir.path().join("db").display());
                let rate = RATE.to_string();
                let mut words = vec!["run", "hot", "--target", &target];
                words.extend(COMMON);
                words.extend(SHORT);
                if is_open {
                    words.extend(["--rate", &rate]);
                }
                let mut lab = Lab::start(&words);
                lab.wait_for_step();
                let witness = Witness::start();
                std::thread::sleep(Duration::from_secs_f64(at));
                let stopped = stop(lab.child.id(), 0.7);
                assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
                let result = lab.result();
                let what = format!("open {is_open}, at {at}");
                judge_gap(&result, stopped, witness.end(), &what);
                if is_open {
                    let step = main_step(&result);
                    near(step.latency.calls as f64, RATE * SECONDS, 2.0, "calls");
                    judge_mean(step, stopped * stopped / 2.0 / SECONDS, &what);
                }
            });
        }
    }
}

#[test]
fn a_lab_that_stands_still_charges_no_server_with_it() {
    for is_open in [true, false] {
        despite_a_busy_machine(|| {
            let fake = FakeServer::start(Faults::default());
            let (uri, rate) = (fake.uri(), RATE.to_string());
            let mut words = vec!["run", "hot", "--target", &uri];
            words.extend(COMMON);
            words.extend(SHORT);
            if is_open {
                words.extend(["--rate", &rate]);
            }
            let mut lab = Lab::start(&words);
            lab.wait_for_step();
            std::thread::sleep(Duration::from_secs_f64(0.4));
            let stopped = stop(lab.child.id(), 0.9);
            assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
            let result = lab.result();
            let (step, what) = (main_step(&result), format!("open {is_open}"));
            let still = step.more.lab_stood_still_seconds;
            near(
                still,
                stopped,
                0.05,
                &format!("{what}: the lab stood still"),
            );
            let longest = step.latency.max_us / 1e6;
            assert!(longest < stopped / 2.0, "{what}: longest call {longest}");
            let gap = step.stalls.longest_gap_seconds;
            assert!(gap < stopped / 2.0, "{what}: gap {gap}");
            let warned = |code: &str| result.warnings.iter().any(|one| one.code == code);
            assert!(
                warned("lab-stood-still") && !warned("behind-schedule"),
                "{what}"
            );
            if !is_open {
                let seconds = format!("{what}: seconds");
                near(step.seconds, SECONDS - stopped, 0.1, &seconds);
            }
        });
    }
}

/// Starts a run of `seconds` seconds on a server, in a separate database.
fn lab_on(server: &Server, database: &str, seconds: f64, more: &[&str]) -> Lab {
    let seconds = seconds.to_string();
    let mut words = vec!["run", "hot", "--target", &server.address];
    words.extend(["--db", database, "--drop", "--seconds", &seconds]);
    words.extend(COMMON.iter().chain(more));
    Lab::start(&words)
}

/// Stops a server during an open and a closed loop, at each of the times.
fn stop_under_both_loops(server: &Server) {
    // The pace is measured again after a failure, because the machine may have become busier.
    let kept = Cell::new(None);
    for at in AT {
        despite_a_busy_machine(|| {
            let pace = kept.take().unwrap_or_else(|| Pace::measure_kept(server));
            // On a busy machine one loop may be over before the other begins.
            if !stop_under(server, at, &pace, &[true, false]) {
                for is_open in [true, false] {
                    let is_met = stop_under(server, at, &pace, &[is_open]);
                    assert!(
                        is_met,
                        "a stop at {at} s began after the step, open {is_open}"
                    );
                }
            }
            kept.set(Some(pace));
        });
    }
}

/// The load that a server sustains while the machine is as busy as now.
#[derive(Debug)]
struct Pace {
    /// Calls per second of an open loop that are answered in time: a quarter of the rate of each of
    /// two closed loops, at most [`RATE`]. At a higher rate calls wait for one another, and the
    /// longest call correctly takes longer than the stop.
    rate: f64,
    /// The factor by which all times, also of stops, are longer than on an idle machine. Calls
    /// further apart than the tolerance cannot show the length of a stop, so 20 calls must be due
    /// during a stop.
    times: f64,
}

impl Pace {
    fn measure_kept(server: &Server) -> Self {
        let labs = ["open", "closed"].map(|name| lab_on(server, name, SECONDS, &[]));
        let rates = labs.map(|mut lab| {
            assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
            main_step(&lab.result()).rate.average
        });
        let rate = (rates[0].min(rates[1]) / 4.0).clamp(5.0, RATE).floor();
        Self {
            rate,
            times: (20.0 / rate).ceil().max(1.0),
        }
    }
}

/// Stops a server during open and closed loops that run at the same time, `at` seconds after the
/// last of them began, and checks their results; `false` if one of them had already ended.
fn stop_under(server: &Server, at: f64, pace: &Pace, loops: &[bool]) -> bool {
    let (seconds, given) = (SECONDS * pace.times, pace.rate.to_string());
    let start = |is_open: bool| match is_open {
        true => lab_on(server, "open", seconds, &["--rate", &given]),
        false => lab_on(server, "closed", seconds, &[]),
    };
    let mut labs: Vec<(Lab, bool)> = loops
        .iter()
        .map(|is_open| (start(*is_open), *is_open))
        .collect();
    let begun: Vec<Instant> = labs.iter().map(|(lab, _)| lab.wait_for_step()).collect();
    let witness = Witness::start();
    let begin = Duration::from_secs_f64(at * pace.times);
    std::thread::sleep(begin.saturating_sub(begun.last().unwrap().elapsed()));
    let is_over = |begun: &Instant| begun.elapsed().as_secs_f64() > seconds - 0.1;
    let is_missed = begun.iter().any(is_over);
    let stopped = stop(server.pid, STOP * pace.times);
    for (lab, _) in &mut labs {
        assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
    }
    let late = witness.end();
    if is_missed {
        return false;
    }
    for (lab, is_open) in labs {
        let what = format!("open {is_open}, at {at}, {pace:?}");
        let result = lab.result();
        judge_gap(&result, stopped, late, &what);
        if is_open {
            let step = main_step(&result);
            near(step.latency.calls as f64, pace.rate * seconds, 2.0, "calls");
            let service = step.more.service.as_ref().unwrap().max_us / 1e6;
            near(service, stopped, 0.05 + late, "longest from sending");
        }
    }
    true
}

/// Stops a server for good: before a run, within the measured step, and at its end.
fn stop_for_ever(server: &Server) {
    for (at, is_before) in [(0.0, true), (0.6, false), (1.9, false)] {
        // The last stop is 0.1 s before the end; on a busy machine it may come after the run.
        despite_a_busy_machine(|| {
            if is_before {
                signal(server.pid, Signal::STOP);
            }
            let limit = ["--call-timeout-seconds", "1"];
            let mut lab = lab_on(server, "closed", SECONDS, &limit);
            if !is_before {
                lab.wait_for_step();
                std::thread::sleep(Duration::from_secs_f64(at));
                signal(server.pid, Signal::STOP);
            }
            let status = lab.end(Duration::from_secs(60));
            signal(server.pid, Signal::CONT);
            assert!(matches!(status, Some(1 | 3)), "{status:?} at {at}");
        });
    }
}

#[test]
fn a_stopped_fake_server_shows_the_true_numbers() {
    stop_under_both_loops(&fake_server());
}

#[test]
fn a_stopped_quarry_shows_the_true_numbers() {
    if let Some(server) = quarry() {
        stop_under_both_loops(&server);
    }
}

#[test]
fn a_stopped_mariadb_shows_the_true_numbers() {
    if let Some(server) = mariadb() {
        stop_under_both_loops(&server);
    }
}

#[test]
fn a_fake_server_stopped_for_ever_never_hangs_the_lab() {
    stop_for_ever(&fake_server());
}

#[test]
fn a_quarry_stopped_for_ever_never_hangs_the_lab() {
    if let Some(server) = quarry() {
        stop_for_ever(&server);
    }
}

#[test]
fn a_mariadb_stopped_for_ever_never_hangs_the_lab() {
    if let Some(server) = mariadb() {
        stop_for_ever(&server);
    }
}
