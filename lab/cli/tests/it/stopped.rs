//! Targets that are stopped by a signal at the beginning, in the middle and at the end of an open
//! and of a closed loop, on every kind of target: the lab shows the true numbers within 5 %.
//!
//! Servers are processes that are stopped under an open and a closed loop at once: the fake one in
//! any case, Quarry's where it is built beside the lab (or `QUARRY_BIN` names it), MariaDB where it
//! is installed. An engine is in the lab's process, which is stopped as a whole. At an exact call
//! only the fake server in this process can stand still, which then answers nobody for as long.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lab_kit::result::{RunResult, StepResult};
use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{Fake, Faults};
use crate::run;

/// Calls per second of an open loop.
const RATE: f64 = 200.0;
/// Seconds measured.
const SECONDS: f64 = 2.0;
/// For how long a target is stopped.
const STOP: f64 = 1.0;
/// When, since the measured step began: at the beginning, in the middle, across the end.
const AT: [f64; 3] = [0.1, 0.6, 1.5];

const COMMON: [&str; 8] = [
    "--rows",
    "100",
    "--clients",
    "2",
    "--warmup-seconds",
    "0",
    "--seconds",
    "2",
];

fn near(found: f64, wanted: f64, slack: f64, what: &str) {
    assert!(
        (found - wanted).abs() <= wanted * 0.05 + slack,
        "{what}: {found} is not {wanted}"
    );
}

/// What a thread of this machine waits for a processor when it wants to go on: near nothing where
/// the machine is free, and what the lab rightly shows on top of a stop where it is not.
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

    /// By how many seconds a call may be late: the client, the server, and the client's driver and
    /// the client again each wait for a processor.
    fn late(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap() * 4.0
    }
}

/// Does what may fail on a busy machine up to three times: there a process that goes on waits for a
/// processor first, which the lab rightly shows. What it misstates, it misstates each time.
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

/// The numbers of a step whose target stood still from `at` on for `stop` seconds, as they follow
/// from the schedule: each call due meanwhile waits for the end. On a busy machine each may be
/// `late` besides.
fn judge(step: &StepResult, at: f64, stop: f64, late: f64, is_open: bool) {
    let what = format!("stop at {at} s, open {is_open}");
    // Clients that end at the step's end are not waited for beyond the answer of their last call.
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
    let p50 = step.latency.percentile(50.0).unwrap() / 1e6;
    assert!(p50 < 0.05 + late, "{what}: median {p50}");
}

/// The mean latency of an open loop whose calls `waited` so long on average for the end of a stop,
/// and then for one another: the busier the machine, the longer.
fn judge_mean(step: &StepResult, waited: f64, what: &str) {
    let service = step.more.service.as_ref().unwrap();
    let slow = service.percentile(90.0).unwrap() / 1e6;
    let busy = (slow * RATE / 2.0).min(0.9);
    let (low, high) = (waited * 0.95, (waited / (1.0 - busy) + slow) * 1.05);
    let mean = mean_s(step);
    assert!(
        (low - 0.005..=high + 0.005).contains(&mean),
        "{what}: mean latency {mean} is not within {low} to {high}"
    );
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
            despite_a_busy_machine(|| {
                let fake = Fake::start(Faults {
                    freeze_at_update: Some((number.max(1), Duration::from_secs_f64(STOP))),
                    ..Faults::default()
                });
                let rate = RATE.to_string();
                let more: &[&str] = if is_open { &["--rate", &rate] } else { &[] };
                let witness = Witness::start();
                let ended = run("hot", &fake.uri(), &[&COMMON[..], more].concat());
                assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
                let (stop, late) = (fake.frozen_seconds(), witness.late());
                assert!(stop >= STOP, "it stood still for {stop} s");
                judge(measured(&ended.result()), at, stop, late, is_open);
            });
        }
    }
}

/// The lab as a process whose lines can be waited for.
struct Lab {
    child: Child,
    /// Each with the moment at which it was said.
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

    /// Waits until the measured step has begun; when that was.
    fn wait_for_step(&self) -> Instant {
        let until = Instant::now() + Duration::from_secs(60);
        let mut said = Vec::new();
        // Ends at once when the lab has ended.
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
fn judge_gap(result: &RunResult, stopped: f64, late: f64, what: &str) {
    let step = measured(result);
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
                judge_gap(&result, stopped, witness.late(), &what);
                if is_open {
                    let step = measured(&result);
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
            let fake = Fake::start(Faults::default());
            let (uri, rate) = (fake.uri(), RATE.to_string());
            let mut words = vec!["run", "hot", "--target", &uri];
            words.extend(COMMON);
            if is_open {
                words.extend(["--rate", &rate]);
            }
            let mut lab = Lab::start(&words);
            lab.wait_for_step();
            std::thread::sleep(Duration::from_secs_f64(0.4));
            let stopped = stop(lab.child.id(), 0.9);
            assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
            let result = lab.result();
            let (step, what) = (measured(&result), format!("open {is_open}"));
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

/// A server of its own in a process that can be stopped.
pub(crate) struct Server {
    /// What is told to end, and when it has.
    child: Child,
    pub(crate) address: String,
    pid: u32,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.pid, Signal::CONT);
        signal(self.child.id(), Signal::INT);
        let _ = self.child.wait();
    }
}

/// The lines of a server that is starting.
fn started(command: &mut Command) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok))
}

/// What [`the_fake_process`] says before its address.
const FAKE_AT: &str = "fake at ";

/// The fake server as a process, which the test below starts and stops.
#[test]
#[ignore = "the process of another test; it ends with its standard input"]
fn the_fake_process() {
    let fake = Fake::start(Faults::default());
    println!("\n{FAKE_AT}{}", fake.uri());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

fn fake_server() -> Server {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--nocapture", "--exact"])
        .arg("stopped::the_fake_process")
        .stdin(Stdio::piped());
    let (child, mut lines) = started(&mut command);
    let address = lines.find_map(|line| line.strip_prefix(FAKE_AT).map(str::to_owned));
    Server {
        pid: child.id(),
        child,
        address: address.unwrap(),
        _dir: tempfile::tempdir().unwrap(),
    }
}

pub(crate) fn quarry() -> Option<Server> {
    let beside = Path::new(env!("CARGO_BIN_EXE_quarry-lab")).with_file_name("quarry");
    let binary = std::env::var_os("QUARRY_BIN").map_or(beside, Into::into);
    if !binary.exists() {
        println!("skipped: no server beside the lab, and QUARRY_BIN names none");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary);
    command
        .args([
            "serve",
            "--nounixsocket",
            "--port",
            "0",
            "--memory",
            "256M",
            "--dbpath",
        ])
        .arg(dir.path());
    let (child, mut lines) = started(&mut command);
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once(": listening on ")?;
        rest.split_once(',').map(|(address, _)| address.to_owned())
    });
    // Whoever writes to a pipe that nobody reads is stopped by it.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Server {
        pid: child.id(),
        child,
        address: format!("{}/?directConnection=true", address.unwrap()),
        _dir: dir,
    })
}

fn mariadb() -> Option<Server> {
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry-lab"));
    command
        .args(["target", "mariadb", "--cache-mb", "32", "--dir"])
        .arg(&data);
    let (child, mut lines) = started(&mut command);
    let address = lines.next().unwrap();
    let pid = std::fs::read_to_string(data.join("server.pid")).unwrap();
    Some(Server {
        child,
        address: address.trim().to_owned(),
        pid: pid.trim().parse().unwrap(),
        _dir: dir,
    })
}

/// A run on a server, in a database of its own.
fn lab_on(server: &Server, database: &str, more: &[&str]) -> Lab {
    let mut words = vec!["run", "hot", "--target", &server.address];
    words.extend(["--db", database, "--drop"]);
    words.extend(COMMON.iter().chain(more));
    Lab::start(&words)
}

/// Stops a server under an open and a closed loop, at each time.
fn stop_under_both_loops(server: &Server) {
    for at in AT {
        despite_a_busy_machine(|| {
            // On a busy machine the one may be over when the other begins.
            if !stop_under(server, at, &[true, false]) {
                for is_open in [true, false] {
                    let is_met = stop_under(server, at, &[is_open]);
                    assert!(
                        is_met,
                        "a stop at {at} s began after the step, open {is_open}"
                    );
                }
            }
        });
    }
}

/// Stops a server under open and closed loops at once, so long after the last of them began, and
/// judges them; false if one was over by then.
fn stop_under(server: &Server, at: f64, loops: &[bool]) -> bool {
    let rate = RATE.to_string();
    let start = |is_open: bool| match is_open {
        true => lab_on(server, "open", &["--rate", &rate]),
        false => lab_on(server, "closed", &[]),
    };
    let mut labs: Vec<(Lab, bool)> = loops
        .iter()
        .map(|is_open| (start(*is_open), *is_open))
        .collect();
    let begun: Vec<Instant> = labs.iter().map(|(lab, _)| lab.wait_for_step()).collect();
    let witness = Witness::start();
    std::thread::sleep(Duration::from_secs_f64(at).saturating_sub(begun.last().unwrap().elapsed()));
    let is_over = |begun: &Instant| begun.elapsed().as_secs_f64() > SECONDS - 0.1;
    let is_missed = begun.iter().any(is_over);
    let stopped = stop(server.pid, STOP);
    for (lab, _) in &mut labs {
        assert_eq!(lab.end(Duration::from_secs(60)), Some(0));
    }
    let late = witness.late();
    if is_missed {
        return false;
    }
    for (lab, is_open) in labs {
        let what = format!("open {is_open}, at {at}");
        let result = lab.result();
        judge_gap(&result, stopped, late, &what);
        if is_open {
            let calls = measured(&result).latency.calls as f64;
            near(calls, RATE * SECONDS, 2.0, "calls");
        }
    }
    true
}

/// Stops a server for ever: before a run, within the measured step, and at its end.
fn stop_for_ever(server: &Server) {
    for (at, is_before) in [(0.0, true), (0.6, false), (1.9, false)] {
        // The last stop is 0.1 s before the end: on a busy machine it may come after the run.
        despite_a_busy_machine(|| {
            if is_before {
                signal(server.pid, Signal::STOP);
            }
            let mut lab = lab_on(server, "closed", &["--call-timeout-seconds", "1"]);
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
