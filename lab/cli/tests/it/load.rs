//! Agents that generate load: several together do the same work as one lab, and if an agent is
//! lost, its reported work still counts.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use lab_kit::result::{RunResult, StepResult};
use metrics::LatencyHistogram;
use rustix::process::{Pid, Signal, kill_process};

use crate::agent::{Agent, TOKEN};
use crate::fake::{FakeServer, Faults};
use crate::{FinishedRun, run};

fn agents(count: usize) -> Vec<Agent> {
    (0..count).map(|_| Agent::start_with(&["--load"])).collect()
}

fn addresses(agents: &[Agent]) -> String {
    let addresses: Vec<&str> = agents.iter().map(|agent| agent.address.as_str()).collect();
    addresses.join(",")
}

/// Makes a run whose load the agents generate.
fn run_by_agents(agents: &[Agent], workload: &str, target: &str, more: &[&str]) -> FinishedRun {
    let (addresses, token) = (addresses(agents), agents[0].token());
    let load = [
        "--load-agent",
        &addresses,
        "--agent-token-file",
        token.to_str().unwrap(),
    ];
    run(workload, target, &[&load[..], more].concat())
}

fn whole(ended: &FinishedRun) -> RunResult {
    let output = String::from_utf8_lossy(&ended.output.stderr);
    assert_eq!(ended.status(), Some(0), "{output}");
    let result = ended.result();
    for check in &result.checks {
        assert_eq!(check.passed, Some(true), "{check:?}");
    }
    assert!(!result.checks.is_empty());
    result
}

/// Checks that the percentiles of the step are those of the generators' samples together.
fn assert_merged(step: &StepResult) {
    let mut merged = LatencyHistogram::new();
    let mut ops = 0;
    for generator in &step.more.generators {
        merged.merge(&LatencyHistogram::from_base64(&generator.latency.hdr).unwrap());
        ops += generator.ops;
    }
    assert_eq!((ops, merged.count()), (step.ops, step.calls));
    for (percentile, us) in &step.latency.percentiles_us {
        let found = merged.percentile_us(*percentile);
        // One side knows the longest latency exactly, and the other only its bucket.
        assert!(
            (found - us).abs() <= us * 0.001,
            "p{percentile}: {found} is not {us}"
        );
    }
}

#[test]
fn two_generators_of_a_closed_loop_are_one_run() {
    let (agents, fake) = (agents(2), FakeServer::start(Faults::default()));
    let seconds = ["--warmup-seconds", "1", "--seconds", "3"];
    let small = ["--rows", "100", "--clients", "5"];
    let ended = run_by_agents(
        &agents,
        "hot",
        &fake.uri(),
        &[&small[..], &seconds].concat(),
    );
    let result = whole(&ended);
    let step = result.main_step().unwrap();
    assert_eq!(step.ops + step.warmup_ops, fake.updates());
    assert!(step.warmup_ops > 0 && step.ops > 100, "{} ops", step.ops);
    assert_eq!((step.clients, step.more.seeds.len()), (5, 5));
    assert!((2.9..3.5).contains(&step.seconds), "{}", step.seconds);
    assert_merged(step);
    let clients: Vec<u32> = step.more.generators.iter().map(|one| one.clients).collect();
    assert_eq!(clients, [3, 2]);
    for (generator, agent) in step.more.generators.iter().zip(&agents) {
        assert_eq!(generator.address, agent.address);
        assert!(
            generator.cpu_cores > 0.0 && generator.cpus > 0,
            "{generator:?}"
        );
        assert!(generator.clock_ahead_ms.abs() < 100.0, "{generator:?}");
        assert!(generator.start_error_us < 50_000.0, "{generator:?}");
        assert!(generator.lost.is_none(), "{generator:?}");
    }
    assert_eq!(result.run.load_agents.len(), 2);
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    assert!(page.contains("Load generators") && page.contains(&agents[1].address));
    // Every operation is in one tick of one generator.
    let csv = std::fs::read_to_string(ended.folder().join("generators.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    let ticked: u64 = rows.iter().map(|row| row[5].parse::<u64>().unwrap()).sum();
    assert_eq!(ticked, fake.updates());
    let of_first = rows
        .iter()
        .filter(|row| row[1] == agents[0].address)
        .count();
    assert!(of_first >= 35, "{of_first} ticks in 4 s");
    // The same agent serves several runs, one after the other.
    let ended = run_by_agents(
        &agents[..1],
        "hot",
        &fake.uri(),
        &["--rows", "100", "--seconds", "1"],
    );
    assert_eq!(whole(&ended).main_step().unwrap().more.generators.len(), 1);
}

#[test]
fn a_schedule_is_split_evenly_and_its_sum_is_the_schedule() {
    let (agents, fake) = (agents(3), FakeServer::start(Faults::default()));
    let run = |schedule: &[&str]| {
        let common = "--clients 6 --rows 100 --warmup-seconds 0";
        let words: Vec<&str> = common.split(' ').chain(schedule.iter().copied()).collect();
        whole(&run_by_agents(&agents, "update-inc", &fake.uri(), &words))
    };
    let result = run(&["--rate", "200", "--seconds", "3"]);
    let step = result.main_step().unwrap();
    assert_eq!(step.pacing, "open");
    assert_eq!(
        fake.updates() + step.more.unsent_calls,
        600,
        "{:?}",
        step.more.unsent_calls
    );
    assert_merged(step);
    for generator in &step.more.generators {
        assert_eq!(generator.clients, 2);
        let unsent = generator.unsent_by_lab as f64;
        assert!(
            (generator.ops as f64 + unsent - 200.0).abs() <= 2.0,
            "{generator:?}"
        );
        assert!(
            generator
                .lateness
                .as_ref()
                .is_some_and(|late| late.calls > 150)
        );
    }
    let lateness = step.more.lateness.as_ref().unwrap();
    assert_eq!(lateness.calls, fake.updates());
    // Only the lab reads recorded arrivals, which are divided among the agents, too.
    let dir = tempfile::tempdir().unwrap();
    let times = dir.path().join("times");
    let text: String = (0..90)
        .map(|call| format!("{:.3}\n", f64::from(call) * 0.02))
        .collect();
    std::fs::write(&times, text).unwrap();
    let before = fake.updates();
    let arrivals = format!("recorded:{}", times.display());
    let result = run(&["--arrivals", &arrivals, "--seconds", "2"]);
    let step = result.main_step().unwrap();
    assert_eq!(fake.updates() - before + step.more.unsent_calls, 90);
    let each: Vec<u64> = step.more.generators.iter().map(|one| one.ops).collect();
    assert_eq!(each, [30, 30, 30]);
}

/// A workload of reads with background inserts, without its warm-up.
const INSERTS: &str = r#"
name = "beside"
[data]
collection = "beside"

[[step]]
name = "load"
work = { operation = "insert", batch = 50 }

[[step]]
name = "mixed"
measured = true
work = { mix = [["insert", 1.0], ["point", 1.0]], draw = "latest" }
background = [{ operation = "insert", clients = 1, batch = 3, rate = 30.0 }]

[[step]]
name = "again"
measured = true
work = { mix = [["insert", 1.0], ["point", 1.0]] }

[defaults]
rows = 200
seconds = 1
clients = 4
"#;

#[test]
fn inserts_of_generators_never_collide_and_are_those_of_one_lab() {
    let agents = agents(2);
    let load = [
        "--rows",
        "2003",
        "--clients",
        "3",
        "--batch",
        "10",
        "--seed",
        "7",
    ];
    let alone = FakeServer::start(Faults::default());
    let ended = run("insert", &alone.uri(), &load);
    whole(&ended);
    let together = FakeServer::start(Faults::default());
    let ended = run_by_agents(&agents, "insert", &together.uri(), &load);
    let result = whole(&ended);
    assert_eq!(result.main_step().unwrap().ops, 2_003);
    let stored = |fake: &FakeServer| -> Vec<String> {
        let documents = fake.collections();
        let documents = documents.iter().flat_map(|name| fake.documents(name));
        let mut out: Vec<String> = documents.map(|one| one.to_string()).collect();
        out.sort();
        out
    };
    assert_eq!(stored(&alone).len(), 2_003);
    assert_eq!(
        stored(&alone),
        stored(&together),
        "other documents than one lab's"
    );

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("beside.toml");
    std::fs::write(&file, INSERTS).unwrap();
    let fake = FakeServer::start(Faults::default());
    let ended = run_by_agents(&agents, file.to_str().unwrap(), &fake.uri(), &[]);
    let result = whole(&ended);
    let documents = fake.documents("beside");
    let mut ids: Vec<i64> = documents
        .iter()
        .map(|one| one.get_i64("_id").unwrap())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "two generators inserted the same id");
    for step in result.steps.iter().filter(|step| step.measured) {
        assert!(step.errors.is_empty(), "{}: {:?}", step.name, step.errors);
        assert!(
            step.more.by_operation.len() == 2 && step.ops > 50,
            "{}",
            step.name
        );
    }
    let beside = &result.steps[1].more.background[0];
    assert!((20..=40).contains(&beside.ops), "{beside:?}");
}

/// Starts a run during which a test stops or kills one of the agents.
fn begin_run(agents: &[Agent], target: &str, out: &std::path::Path, seconds: &str) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
        .args([
            "run",
            "hot",
            "--target",
            target,
            "--rows",
            "100",
            "--seconds",
            seconds,
        ])
        .args([
            "--warmup-seconds",
            "0",
            "--clients",
            "4",
            "--call-timeout-seconds",
            "3",
        ])
        .args(["--load-agent", &addresses(agents), "--agent-token-file"])
        .arg(agents[0].token())
        .arg("--out")
        .arg(out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.unwrap()
}

/// Waits until the load has begun.
fn wait_for_updates(fake: &FakeServer) {
    let begun = Instant::now();
    while fake.updates() < 200 {
        assert!(begun.elapsed() < Duration::from_secs(30), "no load");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(700));
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_generator_that_dies_or_hangs_ends_the_run_which_names_it() {
    for (which, reasons) in [
        (Signal::KILL, &["closed the connection", "reset"][..]),
        (
            Signal::STOP,
            &["said nothing for 5 s", "no tick came for 5 s"][..],
        ),
    ] {
        let (agents, fake) = (agents(2), FakeServer::start(Faults::default()));
        let out = tempfile::tempdir().unwrap();
        let child = begin_run(&agents, &fake.uri(), out.path(), "30");
        wait_for_updates(&fake);
        let asked = Instant::now();
        signal(agents[1].pid(), which);
        let output = child.wait_with_output().unwrap();
        let took = asked.elapsed();
        let ended = FinishedRun { output, out };
        let told = ended.complaint();
        assert_eq!(ended.status(), Some(3), "{told}");
        assert!(took < Duration::from_secs(25), "{which:?} took {took:?}");
        assert!(
            told.contains(&format!("load generator {} was lost", agents[1].address)),
            "{told}"
        );
        assert!(reasons.iter().any(|reason| told.contains(reason)), "{told}");
        let result = ended.result();
        assert!(!result.run.complete);
        let step = result.main_step().unwrap();
        let [first, lost] = &step.more.generators[..] else {
            panic!("{:?}", step.more.generators);
        };
        // The work that the lost agent had reported is in the sum and in the message.
        assert!(first.lost.is_none() && lost.ops > 0, "{lost:?}");
        assert_eq!(first.ops + lost.ops, step.ops);
        assert!(
            told.contains(&format!("reported {} operations", lost.ops)),
            "{told}"
        );
        assert!(step.ops <= fake.updates(), "more than the target did");
        // A check whose value is unknown does not fail.
        let failed = result
            .checks
            .iter()
            .any(|check| check.passed == Some(false));
        assert!(!failed, "{:?}", result.checks);
        // The other agent has stopped its load and can be used again.
        let after = fake.updates();
        if which == Signal::KILL {
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(fake.updates(), after, "load goes on");
            let small = ["--rows", "100", "--seconds", "1"];
            whole(&run_by_agents(&agents[..1], "hot", &fake.uri(), &small));
        } else {
            signal(agents[1].pid(), Signal::CONT);
        }
    }
}

#[test]
fn a_generator_that_stands_still_charges_no_server_with_it() {
    let (agents, fake) = (agents(2), FakeServer::start(Faults::default()));
    let out = tempfile::tempdir().unwrap();
    let child = begin_run(&agents, &fake.uri(), out.path(), "6");
    wait_for_updates(&fake);
    signal(agents[1].pid(), Signal::STOP);
    std::thread::sleep(Duration::from_secs(2));
    signal(agents[1].pid(), Signal::CONT);
    let output = child.wait_with_output().unwrap();
    let ended = FinishedRun { output, out };
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let step = result.main_step().unwrap();
    let longest = step.latency.max_us / 1e6;
    assert!(longest < 1.0, "the longest call took {longest} s");
    let disturbed = step.more.disturbed_calls;
    assert!(
        (1..=2).contains(&disturbed),
        "{disturbed} calls of 2 clients"
    );
    let warned = |code: &str| result.warnings.iter().any(|one| one.code == code);
    assert!(warned("lab-stood-still"), "{:?}", result.warnings);
}

#[test]
fn load_ends_with_the_lab_that_asked_for_it() {
    let (agents, fake) = (agents(1), FakeServer::start(Faults::default()));
    let out = tempfile::tempdir().unwrap();
    let mut child = begin_run(&agents, &fake.uri(), out.path(), "30");
    wait_for_updates(&fake);
    // Meanwhile the agent serves no other lab, for any database.
    let ended = run_by_agents(
        &agents,
        "hot",
        &fake.uri(),
        &["--rows", "100", "--seconds", "1", "--db", "other"],
    );
    assert!(
        ended.complaint().contains("generates load for another run"),
        "{}",
        ended.complaint()
    );
    child.kill().unwrap();
    child.wait().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let after = fake.updates();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(fake.updates(), after, "load goes on without a lab");
    whole(&run_by_agents(
        &agents,
        "hot",
        &fake.uri(),
        &["--rows", "100", "--seconds", "1"],
    ));
    // A signal also ends an agent that has generated load.
    signal(agents[0].pid(), Signal::TERM);
    let begun = Instant::now();
    while TcpStream::connect(&agents[0].address).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn bad_load_agents_and_steps_they_cannot_share_are_refused_before_the_run() {
    let (both, fake) = (agents(2), FakeServer::start(Faults::default()));
    let plain = Agent::start_with(&[]);
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), "another secret of many bytes").unwrap();
    let token = both[0].token();
    let token = token.to_str().unwrap();
    let (one, two) = (both[0].address.as_str(), addresses(&both));
    let twice = format!("{one},{one}");
    let target = fake.uri();
    let other = other.path().to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let engine = format!("redb:{}", dir.path().join("data").display());
    for (workload, target, load, token, reason) in [
        ("hot", target.as_str(), one, other, "the token is wrong"),
        (
            "hot",
            &target,
            &plain.address,
            token,
            "start it with --load",
        ),
        ("hot", &target, &twice, token, "given twice"),
        (
            "hot",
            &target,
            "192.0.2.1:9",
            token,
            "means another machine",
        ),
        ("hot", &engine, one, token, "needs a server"),
        (
            "db-bench",
            &target,
            one,
            token,
            "fill-random cannot be shared",
        ),
        (
            "insert-modern",
            &target,
            &two,
            token,
            "delete-oldest cannot be shared by 2",
        ),
        ("fan-out", &target, one, token, "readers of changes cannot"),
        ("ttl", &target, one, token, "documents that expire cannot"),
    ] {
        let words = ["--load-agent", load, "--agent-token-file", token];
        let ended = run(workload, target, &words);
        let told = ended.complaint();
        assert_eq!(ended.status(), Some(1), "{workload}: {told}");
        assert!(told.contains(reason), "{workload}: {told}");
        let left = std::fs::read_dir(ended.out.path()).unwrap().count();
        assert_eq!(left, 0, "{workload}: a folder of a run that never began");
        assert!(fake.collections().is_empty(), "{workload}");
    }
    for words in [&["--load-agent", one][..], &["--agent-token-file", token]] {
        let ended = run("hot", &target, words);
        assert_eq!(ended.status(), Some(2), "{words:?}");
    }
}

/// The agent's answer to a client that knows the token and asks for load with this version, and its
/// answer to some further bytes.
fn request_load(agent: &Agent, version: &str, bytes: &[u8]) -> (String, usize) {
    let (mut stream, mut reader, greeting) = agent.read_greeting();
    let number = greeting.trim_end().rsplit(' ').next().unwrap();
    let wanted = format!("load 17 {version}");
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(TOKEN.as_bytes()).unwrap();
    mac.update(format!("{number} {wanted}").as_bytes());
    let proof = mac.finalize().into_bytes();
    let proof: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
    stream
        .write_all(format!("{proof} {wanted}\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    reader.read_line(&mut answer).unwrap();
    let _ = stream.write_all(bytes);
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    (answer, rest.len())
}

#[test]
fn other_versions_and_hostile_bytes_are_refused_and_the_agent_goes_on() {
    let (agents, fake) = (agents(1), FakeServer::start(Faults::default()));
    let own = format!("{}/1", env!("CARGO_PKG_VERSION"));
    let refused = format!(
        "refused: it has version {own}, but the lab has version 9.9.9/1: both must be the same\n"
    );
    assert_eq!(request_load(&agents[0], "9.9.9/1", b"").0, refused);
    assert!(
        request_load(&agents[0], "", b"")
            .0
            .starts_with("refused: it has version")
    );
    for bytes in [
        &[0xff; 64][..],
        &[0; 4096],
        b"\x10\0\0\0not sealed bytes",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let begun = Instant::now();
        let (answer, rest) = request_load(&agents[0], &own, bytes);
        assert_eq!(answer, "load\n");
        // The rest is at most a sealed message that the connection ends.
        assert!(rest < 1_000, "{rest} bytes");
        assert!(begun.elapsed() < Duration::from_secs(10), "{bytes:?}");
    }
    whole(&run_by_agents(
        &agents,
        "hot",
        &fake.uri(),
        &["--rows", "100", "--seconds", "1"],
    ));
}
