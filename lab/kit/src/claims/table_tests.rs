//! Every claim judged from made-up metrics that must confirm it and from metrics that must refute
//! it, so that a wrong sign in `claims.toml` is found. The metrics are in `tests/data/claims.txt`,
//! one line each.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::result::{RunResult, StepResult};
use crate::series::Point;
use crate::workload::{Overrides, Workload};

const TABLE: &str = include_str!("../../tests/data/claims.txt");
const REPEATS: usize = 3;

/// One line of the table.
struct Line {
    id: String,
    outcome: ClaimVerdict,
    runs: Vec<RunResult>,
}

fn read_recorded() -> RunResult {
    serde_json::from_str(include_str!("../../tests/data/point.json")).unwrap()
}

fn blank(name: &str) -> StepResult {
    let mut step = read_recorded().steps.remove(1);
    step.name = name.to_owned();
    step.seconds = 10.0;
    step.series.clear();
    step
}

/// Product and address of a target of this kind.
fn target(system: &str) -> (&'static str, &'static str) {
    match system {
        "lsm" => ("RocksDB", "rocksdb:data"),
        "btree" => ("redb", "redb:data"),
        "mmap" => ("LMDB", "lmdb:data"),
        "wiredtiger-lsm" => ("WiredTiger, LSM", "wiredtiger:data?style=lsm"),
        "wiredtiger-btree" => ("WiredTiger, B-tree", "wiredtiger:data"),
        "append" => ("ForestDB", "forestdb:data"),
        "clustered" | "file-per-table" => ("MariaDB InnoDB", "mysql://root@127.0.0.1/"),
        "shared-keyspace" => ("Quarry rocksdb", "mongodb://127.0.0.1"),
        other => panic!("no target of kind {other}"),
    }
}

/// Twenty points; the first tenth has one rate and the rest another.
fn series(begin: u64, rest: u64) -> Vec<Point> {
    let point = |number: u64| Point {
        seconds: 1.0,
        ops: if number < 2 { begin } else { rest },
        ..Point::default()
    };
    (0..20).map(point).collect()
}

fn put(step: &mut StepResult, metric: &str, value: f64) {
    let device = step.device.get_or_insert_default();
    let server = step.server.get_or_insert_default();
    let mut percentile = |wanted: f64, us: f64| {
        step.latency
            .percentiles_us
            .retain(|(percentile, _)| *percentile != wanted);
        step.latency.percentiles_us.push((wanted, us));
    };
    match metric {
        "rate" => step.rate.average = value,
        "us_per_op" => step.rate.average = 1e6 / value,
        "slope_size" => step.rate.slope_percent_per_doubling = Some(-value),
        "coefficient_of_variation" => {
            (step.rate.coefficient_of_variation, step.rate.intervals) = (Some(value), 100)
        }
        "server_cpu_us_per_op" => server.cpu_us_per_op = Some(value),
        "server_switches_per_op" => server.switches_per_op = Some(value),
        "stalled_s" => step.stalls.seconds_below_10_percent = value,
        "device_read_size_kb" => device.read_size_kb = Some(value),
        "device_reads_per_op" => device.reads_per_op = Some(value),
        "device_write_kb_per_op" => device.write_kb_per_op = Some(value),
        "latency_us_p50" => percentile(50.0, value),
        "latency_us_mean" => step.latency.mean_us = value,
        "latency_max_by_p99" => {
            percentile(99.0, 1.0);
            step.latency.max_us = value;
        }
        "documents_per_op" => {
            (step.ops, step.warmup_ops) = (1_000_000, 0);
            step.sizes.documents = Some((value * 1e6) as u64);
        }
        "writer_share_of_target" => {
            let mut role = crate::result::RoleResult {
                target_rate: Some(1_000.0),
                ..Default::default()
            };
            role.rate.average = value * 1_000.0;
            step.more.background = vec![role];
        }
        "user_mb_per_second" => step.more.user_bytes = (value * 1_048_576.0 * step.seconds) as u64,
        "skew_factor" => step.finish.skew_factor = Some(value),
        "bytes_per_document" => step.sizes.bytes_per_document = Some(value),
        "directory_bytes" => step.sizes.directory_bytes = Some((value * 1e6) as u64),
        // The first fifth of the operations lies in the fast points, the last fifth in the slow
        // ones.
        "rate_end_by_begin" => step.series = series(1_000_000_000, (value * 1e9) as u64),
        "first_part_rate" => step.series = series((value * 1e6) as u64, 1),
        "server_open_files" => server.open_files_max = Some((value * 1e6) as u64),
        "server_rss_bytes_end" => server.rss_bytes_end = (value * 1e6) as u64,
        "foreground_reads_per_op" => step.more.foreground_reads_per_op = Some(value),
        "latency_us_mean_whole_ms" => step.latency.mean_cut_to_ms_us = Some(value),
        "write_kind_us_p99_max" | "write_kind_us_max" => {
            let kind = step
                .more
                .replay
                .get_or_insert_default()
                .kinds
                .entry("update".to_owned())
                .or_default();
            kind.service.calls = 1_000;
            if metric == "write_kind_us_max" {
                kind.service.max_us = value;
            } else {
                kind.service.percentiles_us = vec![(99.0, value)];
            }
        }
        "start_seconds" => step.more.start_seconds = Some(value),
        other => panic!("the table cannot set {other}"),
    }
}

fn settings(workload: &str, given: &BTreeMap<String, String>) -> crate::workload::Settings {
    let is_plain = |value: &str| value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
    let line = |(name, value): (&String, &String)| {
        if is_plain(value) {
            format!("{name} = {value}\n")
        } else {
            format!("{name} = \"{value}\"\n")
        }
    };
    let overrides: Overrides = toml::from_str(&given.iter().map(line).collect::<String>()).unwrap();
    Workload::load(workload)
        .unwrap()
        .settings("smoke", overrides)
        .unwrap()
}

fn parse(line: &str) -> Line {
    let mut clauses = line.split(" | ");
    let (id, outcome) = clauses.next().unwrap().split_once(' ').unwrap();
    let mut runs: BTreeMap<String, RunResult> = BTreeMap::new();
    for clause in clauses {
        let (mut of, mut place, mut given, mut metrics) =
            ("lsm", ("", ""), BTreeMap::new(), Vec::new());
        for word in clause.split_whitespace() {
            match (word.split_once('='), word.split_once('/')) {
                (Some((name, value)), _) if crate::metric::find(name).is_some() => {
                    metrics.push((name, value.parse::<f64>().unwrap()))
                }
                (Some((name, _)), _) if difference(name).is_some() => of = word,
                (Some((name, value)), _) => drop(given.insert(name.to_owned(), value.to_owned())),
                (None, Some(found)) => place = found,
                (None, None) => of = word,
            }
        }
        for repeat in 0..REPEATS {
            let run = runs
                .entry(format!("{of} {} {given:?} {repeat}", place.0))
                .or_insert_with(|| make_run(of, place.0, &given));
            if run.steps.last().is_none_or(|step| step.name != place.1) {
                run.steps.push(blank(place.1));
            }
            // Repeats differ slightly, by far less than the bounds of any rule.
            let noise = 1.0 + (repeat as f64 - 1.0) * 1e-4;
            metrics.iter().for_each(|(metric, value)| {
                put(run.steps.last_mut().unwrap(), metric, value * noise)
            });
        }
    }
    let outcome = serde_json::from_value(serde_json::Value::String(outcome.to_owned())).unwrap();
    Line {
        id: id.to_owned(),
        outcome,
        runs: runs.into_values().collect(),
    }
}

fn make_run(of: &str, workload: &str, given: &BTreeMap<String, String>) -> RunResult {
    let mut run = read_recorded();
    run.steps.clear();
    run.run.workload = workload.to_owned();
    if workload != crate::result::REPLAY_WORKLOAD {
        run.settings = settings(workload, given);
    }
    run.memory_limit = Some(crate::result::MemoryLimit {
        bytes: 1,
        ..Default::default()
    });
    let system = match of.split_once('=') {
        Some((name, side)) => {
            run.run.labels.insert(name.to_owned(), side.to_owned());
            "lsm"
        }
        None => of,
    };
    let (product, uri) = target(system);
    (
        run.target.product,
        run.target.uri,
        run.target.storage_engine,
    ) = (product.to_owned(), uri.to_owned(), None);
    run
}

/// Gives all runs data larger than their memory limit.
fn exceed_memory(runs: &mut [RunResult]) {
    for step in runs.iter_mut().flat_map(|run| run.steps.iter_mut()) {
        step.sizes.storage_bytes = Some(1 << 40);
    }
}

#[test]
fn every_claim_is_confirmed_by_what_it_says_and_refuted_by_the_opposite() {
    let (mut confirmed, mut refuted) =
        (BTreeSet::new(), BTreeMap::<String, BTreeSet<usize>>::new());
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let Line {
            id,
            outcome,
            mut runs,
        } = parse(line);
        exceed_memory(&mut runs);
        let claim = only(std::slice::from_ref(&id)).unwrap().remove(0);
        let judged = judge(&claim, &runs, 2);
        assert_eq!(judged.len(), 1, "{line}: {judged:?}");
        let found = judged.first().unwrap();
        assert_eq!(found.outcome, outcome, "{line}\n{:#?}", found.findings);
        assert!(
            found
                .findings
                .iter()
                .all(|finding| !finding.because.is_empty()),
            "{id}"
        );
        match outcome {
            ClaimVerdict::Confirmed => drop(confirmed.insert(id)),
            _ => {
                let wrong = found
                    .findings
                    .iter()
                    .enumerate()
                    .filter(|(_, finding)| finding.outcome == ClaimVerdict::Refuted)
                    .map(|(number, _)| number);
                refuted.entry(id).or_default().extend(wrong);
            }
        }
    }
    // Claims that are not judged from a workload file are tested where their metrics are computed.
    let is_of_a_file = |claim: &&Claim| {
        claim.tests.iter().all(|test| {
            test.selections()
                .all(|selection| Workload::load(&selection.workload).is_ok())
        })
    };
    for claim in all()
        .unwrap()
        .iter()
        .filter(|claim| claim.is_runnable())
        .filter(is_of_a_file)
    {
        assert!(
            confirmed.contains(&claim.id),
            "{} has no line that confirms it",
            claim.id
        );
        let every: BTreeSet<usize> = (0..claim.tests.len()).collect();
        assert_eq!(
            refuted.get(&claim.id),
            Some(&every),
            "{}: not each of its conditions is refuted by some line",
            claim.id
        );
    }
}

#[test]
fn runs_of_pairs_are_kept_apart_from_others_and_from_each_other() {
    let line = "C08 confirmed | change-log=on change-log/insert clients=16 rate=40 | \
        change-log=off change-log/insert clients=16 rate=100";
    let (mut runs, other) = (
        parse(line).runs,
        parse(&line.replace("rate=40", "rate=90")).runs,
    );
    let claim = only(&["C08".to_owned()]).unwrap().remove(0);
    runs.iter_mut()
        .for_each(|run| drop(run.run.labels.insert("pair".to_owned(), "one".to_owned())));
    runs.extend(other.into_iter().map(|mut run| {
        run.run.labels.insert("pair".to_owned(), "two".to_owned());
        run
    }));
    let outcomes: Vec<ClaimVerdict> = judge(&claim, &runs, 2)
        .iter()
        .map(|judgement| judgement.outcome)
        .collect();
    assert_eq!(outcomes, [ClaimVerdict::Confirmed, ClaimVerdict::Refuted]);
    // C12 needs runs of the same workload, but runs of pairs do not count for it.
    assert_eq!(
        judge(&only(&["C12".to_owned()]).unwrap()[0], &runs, 2)[0].outcome,
        ClaimVerdict::NotRun
    );
    // A run without a side does not count for a pair.
    runs.iter_mut().for_each(|run| run.run.labels.clear());
    let none = judge(&claim, &runs, 2);
    assert_eq!(none[0].outcome, ClaimVerdict::NotRun);
    assert!(
        none[0]
            .remark
            .contains("two targets that differ in change-log"),
        "{}",
        none[0].remark
    );
}
