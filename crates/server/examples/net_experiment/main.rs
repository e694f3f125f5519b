//! Measures threading models for the network layer; docs/adr/0003-threading-model.md holds the
//! result.
//!
//! `cargo run --release -p quarry-server --example net_experiment` runs all models in turn, each in
//! a server process of its own, and prints one Markdown row per case. Promises: every model does
//! the same work per request (decode, about 5 microseconds of arithmetic, encode). Must not know:
//! the product's network layer, which came after the decision.

mod client;
mod models;
mod work;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use client::{Addr, Case, Style};

const MODELS: [&str; 6] = [
    "threads",
    "tokio",
    "epoll-own",
    "epoll-own-try",
    "epoll-shared",
    "product",
];
const CASES: [Case; 6] = [
    Case {
        name: "1",
        connections: 1,
        active: 1,
        in_flight: 1,
        style: Style::Poll,
    },
    Case {
        name: "16 blocking clients",
        connections: 16,
        active: 16,
        in_flight: 16,
        style: Style::Threads,
    },
    Case {
        name: "16",
        connections: 16,
        active: 16,
        in_flight: 16,
        style: Style::Poll,
    },
    Case {
        name: "256",
        connections: 256,
        active: 256,
        in_flight: 256,
        style: Style::Poll,
    },
    Case {
        name: "5000, 16 active",
        connections: 5000,
        active: 16,
        in_flight: 16,
        style: Style::Poll,
    },
    Case {
        name: "5000 round-robin",
        connections: 5000,
        active: 5000,
        in_flight: 64,
        style: Style::Poll,
    },
];

/// A server process under measurement; ends when its standard input closes.
struct Server {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    addr: Addr,
}

impl Server {
    fn start(model: &str, transport: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve", model, transport])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let addr = Addr::parse(line.trim());
        Self { child, lines, addr }
    }

    fn sample(&mut self) -> work::Sample {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"sample\n")
            .unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        work::Sample::parse(line.trim())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        if let Addr::Unix(path) = &self.addr {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "serve") {
        return models::serve(&args[1], &args[2]);
    }
    let seconds: f64 = args.first().and_then(|a| a.parse().ok()).unwrap_or(1.5);
    let rounds: usize = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(3);
    let only = args.get(2).cloned().unwrap_or_default();
    let wanted = |model: &str| only.is_empty() || only.split(',').any(|m| m == model);
    println!(
        "work alone: {:.2} us CPU per operation",
        work::calibrate_us()
    );
    println!(
        "| transport | connections | model | CPU us/op (min-max) | user | sys | switches/op | op/s \
            | RSS MiB | kernel stacks MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for transport in ["tcp", "unix"] {
        for case in &CASES {
            // Rounds in the outer loop, models in the inner: a change of the machine's load affects
            // all models alike.
            let mut all: Vec<Vec<Row>> = MODELS.iter().map(|_| Vec::new()).collect();
            for _ in 0..rounds {
                for (rows, model) in all.iter_mut().zip(MODELS).filter(|(_, m)| wanted(m)) {
                    rows.push(measure(model, transport, case, seconds));
                }
            }
            for (mut rows, model) in all.into_iter().zip(MODELS).filter(|(_, m)| wanted(m)) {
                rows.sort_by(|a, b| a.cpu_us.total_cmp(&b.cpu_us));
                let r = &rows[rows.len() / 2];
                println!(
                    "| {transport} | {} | {model} | {:.1} ({:.1}-{:.1}) | {:.1} | {:.1} | {:.2} | \
                        {:.0} | {:.1} | {:.1} |",
                    case.name,
                    r.cpu_us,
                    rows[0].cpu_us,
                    rows[rows.len() - 1].cpu_us,
                    r.user_us,
                    r.sys_us,
                    r.switches,
                    r.rate,
                    r.rss_mib,
                    r.stack_mib,
                );
            }
        }
    }
}

struct Row {
    cpu_us: f64,
    user_us: f64,
    sys_us: f64,
    switches: f64,
    rate: f64,
    rss_mib: f64,
    stack_mib: f64,
}

fn measure(model: &str, transport: &str, case: &Case, seconds: f64) -> Row {
    let stacks_before = work::kernel_stack_kib();
    let mut server = Server::start(model, transport);
    let mut load = client::Load::connect(&server.addr, case);
    load.run(case, seconds / 5.0);
    let before = server.sample();
    let (operations, elapsed) = load.run(case, seconds);
    let after = server.sample();
    let operations = operations as f64;
    Row {
        cpu_us: (after.cpu_us - before.cpu_us) / operations,
        user_us: (after.user_us - before.user_us) / operations,
        sys_us: (after.sys_us - before.sys_us) / operations,
        switches: (after.switches - before.switches) / operations,
        rate: operations / elapsed,
        rss_mib: after.rss_kib / 1024.0,
        stack_mib: (work::kernel_stack_kib() - stacks_before) / 1024.0,
    }
}
