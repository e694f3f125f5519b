//! `quarry backup ship` and `quarry restore --to`: compares restored moments of a server with a
//! model that knows every change of a writer. `QUARRY_POINTS` and `QUARRY_SEED` set the number of
//! moments and the changes (`make point-in-time`).

mod model;

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::model::{DocBuf, doc};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::backup::{TestFolder, command_error, connect, kill_after, quarry, run_quarry, text};
use crate::client::Client;
use crate::driver::Process;
use model::{State, Time, Writer, call, documents, read, time_of};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// A second writer, which counts up: its log entries lie between those of the first, also while a
/// backup takes its snapshot.
struct Counter {
    stop: Arc<AtomicBool>,
    /// The time that the server reported after each document.
    told: Arc<Mutex<Vec<Time>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Counter {
    fn start(address: &str) -> Counter {
        let (stop, told) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<Time>>>::default(),
        );
        let (stopped, noted) = (Arc::clone(&stop), Arc::clone(&told));
        let mut client = connect(address);
        let thread = std::thread::spawn(move || {
            let mut n = 0i32;
            while !stopped.load(Ordering::Relaxed) {
                let insert = DocBuf::build(|w| {
                    w.put("insert", "counter");
                    w.array("documents").push(doc! { "_id": n }.doc());
                    w.put("$db", "x");
                });
                let reply = call(&mut client, &insert);
                noted.lock().unwrap().push(time_of(&reply));
                n += 1;
            }
        });
        Counter {
            stop,
            told,
            thread: Some(thread),
        }
    }

    fn end(mut self) -> Vec<Time> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.told.lock().unwrap().clone()
    }
}

/// Arguments for restoring a moment.
fn restore<'a>(repository: &'a Path, copy: &'a Path, to: &'a str) -> [&'a str; 8] {
    let (from, into) = (text(repository), text(copy));
    [
        "restore", from, "--dbpath", into, "--to", to, "--memory", "256M",
    ]
}

/// Ships until it is killed.
struct ShipProcess(Child);

impl ShipProcess {
    fn start(repository: &Path, uri: &str) -> ShipProcess {
        let mut command = quarry(&["backup", "ship", text(repository), "--uri", uri]);
        command.args(["--every", "0.1"]).stdout(Stdio::null());
        ShipProcess(command.spawn().unwrap())
    }
}

impl Drop for ShipProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The results of a run.
struct Run {
    place: TestFolder,
    history: Vec<(Time, State)>,
    told: Vec<Time>,
    /// The first moment that can be restored.
    first: Time,
    seed: u64,
}

/// Writes, ships and backs up; shipping is killed now and then, and the server once.
fn run(seed: u64, changes: usize) -> Run {
    let place = TestFolder::new();
    let (data, repository) = (place.at("data"), place.at("repository"));
    let mut random = StdRng::seed_from_u64(seed ^ 0x5bd1_e995);
    let server = Process::start_with(&data, &[]);
    let uri = format!("mongodb://{}", server.address());
    let mut writer = Writer::new(connect(server.address()), seed);
    let counter = Counter::start(server.address());
    let mut shipping = ShipProcess::start(&repository, &uri);
    let make = ["backup", "make", text(&repository), "--uri", &uri];
    let mut first = None;
    for n in 0..changes {
        writer.step();
        if random.random_ratio(1, 60) {
            drop(shipping);
            shipping = ShipProcess::start(&repository, &uri);
        }
        if n == changes / 8 || n == changes / 2 {
            let mut making = quarry(&make).stdout(Stdio::null()).spawn().unwrap();
            while making.try_wait().unwrap().is_none() {
                writer.step();
            }
            assert!(making.wait().unwrap().success());
            // Writes from here on are later than the backup.
            let reply = call(
                &mut connect(server.address()),
                &doc! { "ping": 1i32, "$db": "d" },
            );
            first = first.or(Some(time_of(&reply)));
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..8)));
    }
    let told = counter.end();
    drop(shipping);
    // Waits until the last second is over.
    std::thread::sleep(Duration::from_millis(1_100));
    let note = doc! { "appendOplogNote": 1i32, "data": {}, "$db": "admin" };
    call(&mut connect(server.address()), &note);
    run_quarry(&["backup", "ship", text(&repository), "--uri", &uri, "--once"]);
    server.stop();
    Run {
        place,
        history: writer.history,
        told,
        first: first.unwrap(),
        seed,
    }
}

impl Run {
    /// Restores a moment and compares everything; `to` is the moment as an argument.
    fn compare(&self, at: Time, to: &str) {
        let (repository, copy) = (self.place.at("repository"), self.place.at("copy"));
        let said = run_quarry(&restore(&repository, &copy, to));
        let server = Process::start_with(&copy, &[]);
        let mut client = connect(server.address());
        let found = read(&mut client);
        let behind = self.history.partition_point(|(time, _)| *time <= at);
        // A second may end between the time of a change and the time that the server reported.
        let may_be_more = usize::from(at.1 == u32::MAX);
        let fits = self.history.get(behind - 1..=behind - 1 + may_be_more);
        let is_one = |fits: &[(Time, State)]| fits.iter().any(|(_, state)| *state == found);
        assert!(
            fits.or(self.history.get(behind - 1..)).is_some_and(is_one),
            "seed {}, {to} ({said}): found {found:#?}, not {fits:#?}",
            self.seed
        );
        self.compare_counter(&mut client, at, to);
        server.stop();
        std::fs::remove_dir_all(&copy).unwrap();
    }

    /// Every document reported before the moment must be present, and at most one more that was
    /// being written.
    fn compare_counter(&self, client: &mut Client, at: Time, to: &str) {
        let counted = documents(client, "x", "counter");
        let ids = counted.iter().map(|d| d.doc().field("_id").as_i64_exact());
        let count = counted.len();
        assert!(ids.eq((0..count as i64).map(Some)), "{to}: a hole");
        let least = self.told.iter().filter(|told| **told <= at).count();
        assert!(
            (least..=least + 1).contains(&count),
            "seed {}, {to}: {count}, not {least}",
            self.seed
        );
    }
}

#[test]
fn moments_are_restored_as_a_model_has_them() {
    let points = number("QUARRY_POINTS", 4);
    let seed = number("QUARRY_SEED", 1);
    let run = run(seed, 400.max(usize::try_from(points).unwrap() * 12));
    let mut random = StdRng::seed_from_u64(seed);
    let after: Vec<Time> = (run.history.iter().map(|(time, _)| *time))
        .filter(|time| *time > run.first)
        .collect();
    let last = *after.last().unwrap();
    for n in 0..points {
        match n % 2 {
            0 => {
                let (time, increment) = after[random.random_range(0..after.len())];
                run.compare((time, increment), &format!("{time}:{increment}"));
            }
            _ => {
                let second = random.random_range(run.first.0 + 1..=last.0);
                run.compare((second, u32::MAX), &second.to_string());
            }
        }
    }
    run.compare((u32::MAX, 0), "newest");
    let repository = run.place.at("repository");
    let nowhere = Path::new("/nowhere");
    let line = command_error(&restore(&repository, nowhere, "1:1"));
    assert!(
        line.contains("cannot restore optime 1:1: it can restore "),
        "{line}"
    );
    let line = command_error(&restore(&repository, nowhere, "4000000000"));
    assert!(line.contains("cannot restore second 4000000000"), "{line}");
    let listed = run_quarry(&["backup", "list", text(&repository)]);
    assert!(listed.contains("log: up to optime"), "{listed}");
}

#[test]
fn killed_restores_begin_anew_and_damage_is_refused() {
    let run = run(7, 200);
    let (repository, copy) = (run.place.at("repository"), run.place.at("copy"));
    let (time, increment) = run.history.last().unwrap().0;
    let to = format!("{time}:{increment}");
    for delay in [5, 40, 120, 250, 400, 600] {
        let restoring = quarry(&restore(&repository, &copy, &to));
        kill_after(restoring, Duration::from_millis(delay));
        if copy.join("QUARRY-REPLAY").exists() {
            let serve = ["serve", "--port", "0", "--dbpath", text(&copy)];
            assert!(command_error(&serve).contains("is not a data directory"));
            let other = ["restore", text(&repository), "--dbpath", text(&copy)];
            assert!(command_error(&other).contains("unfinished restore"));
        }
        if copy.join("QUARRY-ENGINE").exists() && !copy.join("QUARRY-REPLAY").exists() {
            std::fs::remove_dir_all(&copy).unwrap();
        }
    }
    run.compare((time, increment), &to);
    run_quarry(&["backup", "verify", text(&repository)]);
    let segments = std::fs::read_dir(repository.join("log")).unwrap();
    let segments = segments.map(|e| e.unwrap().path());
    let segment = segments
        .filter(|p| p.extension().is_some_and(|e| e == "log"))
        .max();
    let segment = segment.unwrap();
    let whole = std::fs::read(&segment).unwrap();
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    for damaged in [&altered, &whole[..whole.len() - 3].to_vec()] {
        std::fs::write(&segment, damaged).unwrap();
        let newest = restore(&repository, &copy, "newest");
        for arguments in [&newest[..], &["backup", "verify", text(&repository)]] {
            let line = command_error(arguments);
            let named = line.contains(text(&segment)) && line.contains("altered or truncated");
            assert!(named, "{line}");
        }
        assert!(!copy.join("QUARRY-ENGINE").exists());
    }
}
