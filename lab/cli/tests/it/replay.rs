//! Traffic recorded through the proxy and sent again: the contents and the answers are the same,
//! and every difference is detected.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lab_kit::result::ReplayResult;
use lab_kit::result::RunResult;
use mongodb::bson::{Document, doc};
use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{FakeServer, Faults};
use crate::{lab, run};

/// A proxy that records until it is told to end.
struct Recorder {
    child: Child,
    address: String,
    rest: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
}

impl Drop for Recorder {
    /// A failed test must not leave a proxy behind, which would keep the output open.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Recorder {
    fn start(upstream: &str, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
            .args([
                "record",
                "--listen",
                "127.0.0.1:0",
                "--upstream",
                upstream,
                "--out",
            ])
            .arg(directory.path().join("tape"))
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut rest = BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        rest.read_line(&mut address).unwrap();
        Self {
            child,
            address: address.trim().to_owned(),
            rest,
            directory,
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("tape")
    }

    /// Ends the recorder; returns its exit status and its output.
    fn end(&mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let status = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.rest.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

fn play(file: &Path, targets: &[&FakeServer], more: &[&str]) -> (Output, tempfile::TempDir) {
    let out = tempfile::tempdir().unwrap();
    let uris: Vec<String> = targets.iter().map(|fake| fake.uri()).collect();
    let mut words = vec![
        "replay",
        file.to_str().unwrap(),
        "--out",
        out.path().to_str().unwrap(),
    ];
    uris.iter().for_each(|uri| words.extend(["--target", uri]));
    words.extend(more);
    (lab(&words), out)
}

fn results(out: &Path) -> Vec<RunResult> {
    lab_kit::compare::read_side(out).unwrap()
}

fn only(out: &Path) -> (RunResult, ReplayResult) {
    let result = results(out).remove(0);
    let replay = result.main_step().unwrap().more.replay.clone().unwrap();
    (result, replay)
}

fn output_text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Records a small run of the workload point: inserts, then reads by id.
fn record_run(more: &[&str]) -> (FakeServer, Recorder) {
    let fake = FakeServer::start(Faults::default());
    let mut recorder = Recorder::start(&fake.uri(), more);
    let words = [
        "--rows",
        "300",
        "--clients",
        "3",
        "--warmup-seconds",
        "0",
        "--seconds",
        "1",
        "--rate",
        "200",
    ];
    let ended = run("point", &recorder.address, &words);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let (status, said) = recorder.end(Signal::TERM);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("operations and") && said.contains("not recorded: hello"),
        "{said}"
    );
    (fake, recorder)
}

#[test]
fn what_was_recorded_is_done_again() {
    let (fake, recorder) = record_run(&[]);
    for (style, faster) in [("real", "4"), ("stress", "1")] {
        let second = FakeServer::start(Faults::default());
        // The reads of one client follow the inserts of another: only the recorded order keeps them
        // apart.
        let (output, out) = play(
            &recorder.file(),
            &[&second],
            &[
                "--style",
                style,
                "--speed",
                faster,
                "--order",
                "recorded",
                "--slow-ms",
                "0",
            ],
        );
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        assert_eq!(
            second.stored_documents(),
            fake.stored_documents(),
            "{style}"
        );
        let (result, replay) = only(out.path());
        assert_eq!(
            (replay.differences(), replay.kinds["insert"].ops),
            (0, 3),
            "{style}"
        );
        let queries = &replay.kinds["query"];
        assert!(
            queries.ops >= 150
                && queries.returned == queries.ops
                && queries.recorded.calls == queries.ops,
            "{}",
            queries.ops
        );
        assert_eq!(
            replay.compared,
            replay.kinds.values().map(|kind| kind.ops).sum::<u64>()
        );
        assert!(result.run.complete && result.checks[0].passed == Some(true));
        let step = result.main_step().unwrap();
        assert_eq!(
            (
                step.name.as_str(),
                step.ops,
                step.more.by_operation["query"].calls
            ),
            (style, replay.compared, queries.ops)
        );
        // At four times the pace, a second of reads takes a quarter of a second and not less.
        assert!(style == "stress" || step.seconds > 0.2, "{}", step.seconds);
        let page =
            std::fs::read_to_string(out.path().join(&result.run.id).join("report.html")).unwrap();
        assert!(page.contains("<th>P70</th>") && page.contains("Latency by kind, p99"));
        let slow =
            std::fs::read_to_string(out.path().join(&result.run.id).join("slow.csv")).unwrap();
        assert_eq!(slow.lines().count() as u64, step.ops + 1);
    }
}

#[test]
fn a_target_with_faults_shows_differences() {
    let (_, recorder) = record_run(&[]);
    let good = FakeServer::start(Faults::default());
    let losing = FakeServer::start(Faults {
        lose_every: Some(3),
        ..Faults::default()
    });
    let (output, out) = play(
        &recorder.file(),
        &[&good, &losing],
        &["--order", "recorded", "--style", "stress", "--list", "5"],
    );
    assert_eq!(output.status.code(), Some(4), "{}", output_text(&output));
    let both = results(out.path());
    let of = |number: usize| {
        both[number]
            .main_step()
            .unwrap()
            .more
            .replay
            .clone()
            .unwrap()
    };
    let (good, losing) = if of(0).differences() == 0 {
        (of(0), of(1))
    } else {
        (of(1), of(0))
    };
    assert_eq!((good.differences(), losing.first_differences.len()), (0, 5));
    assert!(
        losing.differences["returned of query"] > 20,
        "{:?}",
        losing.differences
    );
    assert_eq!(
        (
            losing.first_differences[0].recorded.as_str(),
            losing.first_differences[0].replayed.as_str()
        ),
        ("1", "0")
    );
    let page = std::fs::read_to_string(out.path().join("replays.html")).unwrap();
    assert!(page.contains("as recorded") && page.matches("<h3>Answers</h3>").count() == 1);
    // A share of differences may be allowed; refusals count as errors, too.
    let refusing = FakeServer::start(Faults {
        refuse_after_inserts: Some(1),
        ..Faults::default()
    });
    let (output, out) = play(
        &recorder.file(),
        &[&refusing],
        &[
            "--style",
            "stress",
            "--allow-differences",
            "100",
            "--ops",
            "insert",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let (result, replay) = only(out.path());
    assert_eq!(replay.differences["error code of insert"], 2);
    assert_eq!(
        (
            result.main_step().unwrap().errors["14031 OutOfDiskSpace"],
            replay.kinds.len()
        ),
        (2, 1)
    );
}

/// Reads a whole collection in batches of 7 with a separate client, then drops a second cursor
/// before its end.
fn read_in_batches(address: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = mongodb::Client::with_uri_str(address).await.unwrap();
        let collection = client.database("d").collection::<Document>("c");
        let documents: Vec<Document> = (0..50)
            .map(|number| doc! { "n": number, "text": format!("text {number}") })
            .collect();
        collection.insert_many(documents).await.unwrap();
        let mut cursor = collection.find(doc! {}).batch_size(7).await.unwrap();
        let mut count = 0;
        while cursor.advance().await.unwrap() {
            count += 1;
        }
        assert_eq!(count, 50);
    });
}

/// Several clients that read at the same time, each in batches of 7.
fn read_side_by_side(address: &str, collection: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = mongodb::Client::with_uri_str(address).await.unwrap();
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let own = client.database("d").collection::<Document>(collection);
            readers.spawn(async move {
                for _ in 0..5 {
                    let mut cursor = own.find(doc! {}).batch_size(7).await.unwrap();
                    let mut count = 0;
                    while cursor.advance().await.unwrap() {
                        count += 1;
                    }
                    assert_eq!(count, 50);
                }
            });
        }
        readers.join_all().await;
    });
}

#[test]
fn fetches_of_cursors_side_by_side_go_in_their_own_sessions() {
    let fake = FakeServer::start(Faults::default());
    let second = FakeServer::start(Faults::default());
    for number in 0..50_i64 {
        let document = doc! { "_id": number, "n": number };
        fake.store("c", document.clone());
        second.store("c", document);
    }
    let mut recorder = Recorder::start(&fake.uri(), &[]);
    read_side_by_side(&recorder.address, "c");
    assert_eq!(recorder.end(Signal::TERM).0, Some(0));
    for style in ["real", "stress"] {
        let (output, out) = play(&recorder.file(), &[&second], &["--style", style]);
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        let (result, replay) = only(out.path());
        let step = result.main_step().unwrap();
        assert!(step.errors.is_empty(), "{style}: {:?}", step.errors);
        let fetches = &replay.kinds["getMore"];
        assert_eq!(
            (fetches.ops, fetches.returned),
            (30 * 7, 30 * 43),
            "{style}"
        );
        assert_eq!(replay.differences(), 0, "{style}");
    }
}

#[test]
fn fetches_follow_their_cursors_though_ids_differ() {
    let fake = FakeServer::start(Faults::default());
    let mut recorder = Recorder::start(&fake.uri(), &["--anonymise"]);
    read_in_batches(&recorder.address);
    assert_eq!(recorder.end(Signal::TERM).0, Some(0));
    let second = FakeServer::start(Faults::default());
    let (output, out) = play(&recorder.file(), &[&second], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let (result, replay) = only(out.path());
    assert_eq!(
        (
            replay.kinds["getMore"].ops,
            replay.kinds["getMore"].returned,
            replay.kinds["query"].returned
        ),
        (7, 43, 7)
    );
    assert!(
        replay.recording.anonymised
            && result
                .warnings
                .iter()
                .any(|warning| warning.code == "anonymised")
    );
    let texts: Vec<String> = second
        .documents("c")
        .iter()
        .map(|document| document.get_str("text").unwrap().to_owned())
        .collect();
    assert!(
        texts.len() == 50
            && texts.iter().all(|text| !text.starts_with("text "))
            && texts[10].len() == "text 10".len(),
        "{texts:?}"
    );
    // If documents are missing, the total of the cursor counts as one difference; unnecessary
    // fetches are not sent.
    let losing = FakeServer::start(Faults {
        lose_every: Some(2),
        ..Faults::default()
    });
    let (output, out) = play(&recorder.file(), &[&losing], &[]);
    assert_eq!(output.status.code(), Some(4), "{}", output_text(&output));
    let (_, replay) = only(out.path());
    assert_eq!(
        (
            replay.differences(),
            replay.differences.get("returned of getMore")
        ),
        (1, Some(&1)),
        "{:?}",
        replay.first_differences
    );
    assert_eq!(
        (
            replay.first_differences[0].recorded.as_str(),
            replay.first_differences[0].replayed.as_str()
        ),
        ("50", "25")
    );
    assert_eq!(
        (
            replay.kinds["getMore"].ops,
            replay.not_replayed.values().sum::<u64>() >= 4
        ),
        (3, true),
        "{:?}",
        replay.not_replayed
    );
    // Without the operation that opens it, a cursor is unknown.
    let (_, out) = replay_ops(&recorder, &FakeServer::start(Faults::default()), "getMore");
    let (_, replay) = only(out.path());
    assert!(
        replay.kinds.is_empty()
            && replay
                .not_replayed
                .keys()
                .any(|because| because.starts_with("its cursor was opened before"))
    );
}

fn replay_ops(recorder: &Recorder, fake: &FakeServer, ops: &str) -> (Output, tempfile::TempDir) {
    play(&recorder.file(), &[fake], &["--ops", ops])
}

#[test]
fn a_killed_recorder_leaves_a_file_that_is_replayed_as_far_as_it_goes() {
    let fake = FakeServer::start(Faults::default());
    let mut recorder = Recorder::start(&fake.uri(), &[]);
    read_in_batches(&recorder.address);
    // The file is written every second.
    std::thread::sleep(Duration::from_millis(2_500));
    recorder.end(Signal::KILL);
    let (output, out) = play(
        &recorder.file(),
        &[&FakeServer::start(Faults::default())],
        &["--style", "stress"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let (result, replay) = only(out.path());
    assert!(replay.kinds["getMore"].ops == 7 && replay.recording.cut.is_some());
    assert!(
        result
            .warnings
            .iter()
            .any(|warning| warning.code == "recording-cut")
    );
    let whole = std::fs::read(recorder.file()).unwrap();
    let file = recorder.directory.path().join("cut");
    std::fs::write(&file, &whole[..20]).unwrap();
    let (output, _) = replay_file(&file);
    assert!(
        output.status.code() == Some(1) && output_text(&output).contains("is not a recording"),
        "{}",
        output_text(&output)
    );
    let (output, _) = replay_file(&recorder.directory.path().join("absent"));
    assert_eq!(output.status.code(), Some(1));
}

fn replay_file(file: &Path) -> (Output, tempfile::TempDir) {
    play(file, &[&FakeServer::start(Faults::default())], &[])
}

#[test]
fn hostile_frames_pass_and_the_proxy_lives_on() {
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = format!("mongodb://{}", echo.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in echo.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let _ = stream.write_all(&bytes[..length]);
                }
            });
        }
    });
    let mut recorder = Recorder::start(&upstream, &[]);
    let address = recorder
        .address
        .trim_start_matches("mongodb://")
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let header = |length: i32, code: i32| [length, 1, 0, code].map(i32::to_le_bytes).concat();
    let mut sent: Vec<Vec<u8>> = vec![
        vec![0xff; 100],
        header(-1, 2_013),
        header(15, 2_013),
        header(i32::MAX, 2_013),
        header(16, 2_012),
        header(16, 2_013),
        header(21, 2_004),
    ];
    for claimed in [5, 0, -7, i32::MAX] {
        let mut message = header(16 + 4 + 1 + 4 + 20, 2_013);
        message.extend([0, 0, 0, 0, 1]);
        message.extend(i32::to_le_bytes(claimed));
        message.extend([b'x'; 20]);
        sent.push(message);
    }
    for bytes in &sent {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert_eq!(&back, bytes);
    }
    let (status, said) = recorder.end(Signal::TERM);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("streams that are no messages")
            && said.contains("messages that are no command"),
        "{said}"
    );
}

#[test]
fn an_interrupted_replay_reports_what_it_saw() {
    let (_, recorder) = record_run(&[]);
    let fake = FakeServer::start(Faults::default());
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_quarry-lab"))
        .args([
            "replay",
            recorder.file().to_str().unwrap(),
            "--target",
            &fake.uri(),
            "--speed",
            "0.05",
            "--out",
            out.path().to_str().unwrap(),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(
        child.try_wait().unwrap().is_none(),
        "a replay at a twentieth of the pace takes longer"
    );
    let begun = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(8));
    let (result, replay) = only(out.path());
    assert!(!result.run.complete && result.run.stopped_because.as_deref() == Some("interrupted"));
    assert!(
        replay.compared > 0 && replay.compared < 200,
        "{}",
        replay.compared
    );
}

#[test]
fn complaints_are_one_line() {
    for (words, operation) in [
        (
            vec![
                "record",
                "--listen",
                "127.0.0.1:0",
                "--upstream",
                "mongodb://127.0.0.1:1",
                "--out",
                "x",
            ],
            "cannot reach",
        ),
        (
            vec![
                "record",
                "--listen",
                "127.0.0.1:0",
                "--upstream",
                "mysql://127.0.0.1:1",
                "--out",
                "x",
            ],
            "--upstream must be mongodb://HOST:PORT",
        ),
        (
            vec![
                "replay",
                "x",
                "--target",
                "mongodb://127.0.0.1:1",
                "--out",
                "y",
                "--speed",
                "0",
            ],
            "--speed is 0",
        ),
        (
            vec![
                "replay",
                "x",
                "--target",
                "mongodb://127.0.0.1:1",
                "--out",
                "y",
                "--ops",
                "insert,dance",
            ],
            "--ops has 'dance'",
        ),
    ] {
        let output = lab(&words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            matches!(output.status.code(), Some(1 | 2))
                && text.trim().lines().count() == 1
                && text.contains(operation),
            "{words:?}: {text}"
        );
    }
}
