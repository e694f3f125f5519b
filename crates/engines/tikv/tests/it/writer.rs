//! A process that writes until it is ended, and reports what was acknowledged. It is this test
//! binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine_tikv::{Config, TikvMember};
use rustix::process::{Pid, Signal, kill_process};
use storage::{Engine, FlushEvent, Table};

use crate::large;
use crate::tools::{get, open, put};

const CHILD: &str = "QUARRY_TIKV_CHILD";
/// A short lease keeps the tests short.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Longer than any pause of a busy machine.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The code that the process runs.
#[test]
fn writes_until_it_is_ended() {
    let Ok(arguments) = std::env::var(CHILD) else {
        return;
    };
    let words: Vec<&str> = arguments.split(' ').collect();
    let [kind, pd, prefix] = words[..] else {
        panic!("{arguments}");
    };
    let config = Config {
        lease: LEASE,
        ..Config::at(vec![pd.to_owned()], prefix)
    };
    if kind == "turn" {
        return hold_turn(&config);
    }
    let engine = open(&config);
    engine.on_durable(Box::new(|flushed| {
        if flushed == FlushEvent::Lost {
            eprintln!("lost");
        }
    }));
    let first = match kind {
        "large" => large::read_number(&engine).map_or(0, |n| n + 1),
        _ => (0..).find(|n| get(&engine, *n).is_none()).unwrap(),
    };
    for n in first.. {
        if kind == "asked" && std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
            return;
        }
        let written = match kind {
            "large" => large::write(&engine, n),
            _ => put(&engine, n, b"value"),
        };
        if let Err(e) = written {
            eprintln!("refused {e}");
            return;
        }
        eprintln!("acknowledged {n}");
    }
}

/// Takes a member's turn until the process is killed.
fn hold_turn(config: &Config) {
    let member = TikvMember::join(config).unwrap();
    let turn = member.begin_exclusive().unwrap();
    eprintln!("acknowledged 0");
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(turn);
}

/// The writing process.
pub(crate) struct Writer {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Writer {
    /// Starts a process that writes to a database.
    pub(crate) fn start(kind: &str, config: &Config) -> Writer {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer::writes_until_it_is_ended", "--nocapture"])
            .env(CHILD, format!("{kind} {} {}", config.pd[0], config.prefix))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, lines) = mpsc::channel();
        let output = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if line.is_err() || tell.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Writer { child, lines }
    }

    /// Waits until this many writes are acknowledged; the output is their number.
    pub(crate) fn wait_acknowledged(&self, count: u32) -> u32 {
        loop {
            let line = self.lines.recv_timeout(SILENCE_MAX);
            let number = parse_acknowledged(&line.expect("the writer goes on"));
            if let Some(number) = number.filter(|n| *n >= count) {
                return number;
            }
        }
    }

    /// Tells a process that writes on request to write once.
    pub(crate) fn ask(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Kills it. The output is the last number that it reported since the request, if any.
    pub(crate) fn kill(mut self) -> Option<u32> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines
            .iter()
            .filter_map(|line| parse_acknowledged(&line))
            .last()
    }

    /// Waits until it ends by itself. The output is the rest of its reports.
    pub(crate) fn end(mut self) -> Vec<String> {
        let until = Instant::now() + SILENCE_MAX;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
                None => {
                    self.child.kill().unwrap();
                    panic!("the writer goes on");
                }
            }
        };
        assert!(status.success());
        self.lines.iter().collect()
    }
}

/// The number that a line acknowledges.
pub(crate) fn parse_acknowledged(line: &str) -> Option<u32> {
    line.strip_prefix("acknowledged ")?.parse().ok()
}

/// Checks that everything up to a number is there, and that the counter agrees.
pub(crate) fn check(engine: &dyn Engine, acknowledged: u32) {
    let stored = (0..).take_while(|n| get(engine, *n).is_some()).count();
    assert!(
        stored > acknowledged as usize,
        "{acknowledged} was acknowledged, {stored} are there"
    );
    let mut count = Vec::new();
    engine.get(Table::Meta, b"count", &mut count).unwrap();
    let count = storage::counter_decode(&count)[0];
    assert_eq!(count, i64::try_from(stored).unwrap());
}
