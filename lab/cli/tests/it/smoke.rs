//! Every workload's smoke preset, in steps of a second, against an engine in the process: the
//! engine's data match the work.

use lab_kit::result::RunResult;
use lab_kit::workload::{Capability, DocumentKind, Operation, Workload};

use crate::{FinishedRun, run};

fn smoke(workload: &str, engine: &str) -> FinishedRun {
    let data = tempfile::tempdir().unwrap();
    let target = format!("{engine}:{}", data.path().join("data").display());
    let mut more = vec![
        "--warmup-seconds",
        "0",
        "--seed",
        "7",
        "--settle-seconds",
        "20",
    ];
    // A time limit would cut loads short on a slow machine.
    if Workload::load(workload).unwrap().has_timed_steps() {
        more.extend(["--seconds", "1"]);
    }
    run(workload, &target, &more)
}

/// Runs a workload and checks every step and check.
fn check_workload(name: &str, engine: &str) -> RunResult {
    let workload = Workload::load(name).unwrap();
    let ended = smoke(name, engine);
    assert_eq!(
        ended.status(),
        Some(0),
        "{name} on {engine}: {}",
        ended.complaint()
    );
    let result = ended.result();
    assert!(!result.checks.is_empty());
    for check in &result.checks {
        assert_eq!(check.passed, Some(true), "{name} on {engine}: {check:?}");
    }
    let mut steps = workload.steps(result.settings.rounds);
    steps.retain(|step| {
        step.work.operation != Operation::CreateIndexes || result.settings.indexes > 0
    });
    assert_eq!(
        result.steps.len() + result.skipped.len(),
        steps.len(),
        "{name}: {:?}",
        result.skipped
    );
    for step in &result.steps {
        // Indexes may be made before there are rows.
        assert!(
            step.ops > 0 || step.operation == Operation::CreateIndexes,
            "{name} {}",
            step.name
        );
        assert!(
            step.errors.is_empty(),
            "{name} {}: {:?}",
            step.name,
            step.errors
        );
        for role in &step.more.background {
            assert!(
                role.ops > 0 && role.errors.is_empty(),
                "{name} {}: {role:?}",
                step.name
            );
        }
    }
    for skipped in &result.skipped {
        assert!(
            skipped.because.contains(Capability::Merge.name())
                || skipped.because.ends_with("saturate the target")
                || skipped.because == "it needs --program"
                || skipped.step == "restart" && skipped.because.contains("in the lab's process"),
            "{name}: {skipped:?}"
        );
    }
    assert!(!ended.folder().join("checkpoint.json").exists());
    result
}

/// Runs the workloads that no other test names, in two halves that run in parallel.
fn look_at_others(half: usize) {
    let special = [
        "insert-modern",
        "forestdb",
        "kinds-of-write",
        "capped",
        "insert-rounds",
        "sysbench-transaction",
        "equal-servers",
    ];
    let all = Workload::all().unwrap();
    let others = all
        .iter()
        .map(|workload| workload.name.as_str())
        .filter(|name| !special.contains(name) && !name.starts_with("db-bench"));
    others.skip(half).step_by(2).for_each(|name| {
        let workload = Workload::load(name).unwrap();
        match needs_of_a_server(&workload) {
            // tests/lab/run.sh runs these on servers.
            Some(need) => refuses(name, need),
            None => _ = check_workload(name, "redb"),
        }
    });
}

/// The capabilities that a workload needs and no engine has.
fn needs_of_a_server(workload: &Workload) -> Option<Capability> {
    let measured = workload.steps.iter().filter(|step| step.measured);
    let mut needs = measured.flat_map(|step| step.work.requires());
    let is_custom = matches!(workload.data.documents, DocumentKind::Custom(_));
    let kinds = [Capability::Programs, Capability::Documents];
    let need = needs.find(|need| kinds.contains(need));
    need.or(is_custom.then_some(Capability::Documents))
}

/// Checks that a workload is refused with one line if the engine lacks a capability.
fn refuses(name: &str, need: Capability) {
    let ended = smoke(name, "redb");
    assert_eq!(ended.status(), Some(1), "{name}: {}", ended.complaint());
    let told = ended.complaint();
    assert!(told.contains(need.name()), "{name}: {told}");
}

#[test]
fn several_servers_are_asked_for() {
    let ended = smoke("equal-servers", "redb");
    assert_eq!(ended.status(), Some(1), "{}", ended.complaint());
    let told = ended.complaint();
    assert!(told.contains("an address of 2 servers"), "{told}");
}

#[test]
fn loads_and_mixes_of_one_half() {
    look_at_others(0);
}

#[test]
fn loads_and_mixes_of_the_other_half() {
    look_at_others(1);
}

#[test]
fn sysbench_on_two_engines() {
    for engine in ["redb", "fjall"] {
        let result = check_workload("sysbench-transaction", engine);
        let mix = result.steps.last().unwrap();
        assert_eq!(
            mix.more.by_operation.len(),
            5,
            "{:?}",
            mix.more.by_operation.keys()
        );
        let calls: u64 = mix
            .more
            .by_operation
            .values()
            .map(|latency| latency.calls)
            .sum();
        assert_eq!(calls, mix.calls);
        let ranges = result.steps.iter().find(|step| step.name == "rq1").unwrap();
        assert!(
            ranges.more.rows_returned > 90 * ranges.ops,
            "{} {}",
            ranges.more.rows_returned,
            ranges.ops
        );
    }
}

#[test]
fn the_thirteen_steps() {
    let result = check_workload("forestdb", "fjall");
    assert_eq!(result.steps.len(), 13);
    let clients: Vec<u32> = result
        .steps
        .iter()
        .skip(1)
        .map(|step| step.clients)
        .collect();
    assert_eq!(clients, [1, 2].repeat(6));
    let with_writer = result
        .steps
        .iter()
        .filter(|step| step.more.sla_met.is_some())
        .count();
    assert_eq!(with_writer, 4);
}

#[test]
fn the_modern_insert_benchmark() {
    let result = check_workload("insert-modern", "fjall");
    let step = |name: &str| result.steps.iter().find(|step| step.name == name).unwrap();
    assert_eq!(step("l.i0").ops, 20_000);
    assert_eq!(
        (step("l.x").ops, step("l.i1").ops, step("l.i2").ops),
        (20_000, 8_000, 2_000)
    );
    let deletes = &step("l.i1").more.background[0];
    assert!(
        (7_500..=8_000).contains(&deletes.ops),
        "deletes follow inserts: {}",
        deletes.ops
    );
    let reads = step("qr100");
    assert_eq!(
        reads
            .more
            .background
            .iter()
            .map(|role| role.operation.as_str())
            .collect::<Vec<_>>(),
        ["insert", "delete-oldest"]
    );
    assert_eq!(reads.more.background[0].target_rate, Some(100.0));
    let lists = step("qp100");
    assert!(
        lists.more.rows_returned > 9 * lists.ops,
        "ten documents a query"
    );
}

#[test]
fn db_bench_and_rounds() {
    let result = check_workload("db-bench", "redb");
    let counts: Vec<&str> = result
        .checks
        .iter()
        .map(|check| check.found.as_str())
        .collect();
    assert_eq!(counts[0], "10000", "before the table is emptied");
    let distinct: u64 = counts[1].parse().unwrap();
    assert!(
        (6_200..6_450).contains(&distinct),
        "1 - 1/e of 10,000: {distinct}"
    );
    check_workload("db-bench-modern", "fjall");
    let rounds = check_workload("insert-rounds", "redb");
    assert_eq!(rounds.checks[0].found, "24000");
    let names: Vec<&str> = rounds.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["create-indexes", "round.1", "round.2", "round.3"]);
}

#[test]
fn what_an_engine_lacks_is_named_and_left_out() {
    let result = check_workload("kinds-of-write", "redb");
    assert_eq!(
        result
            .skipped
            .iter()
            .map(|skipped| skipped.step.as_str())
            .collect::<Vec<_>>(),
        ["commutative"]
    );
    let sums = result
        .checks
        .iter()
        .filter(|check| check.name.starts_with("sum of k"))
        .count();
    assert_eq!(
        sums, 1,
        "before documents are stored over: {:?}",
        result.checks
    );
    let ended = smoke("capped", "redb");
    assert_eq!(ended.status(), Some(1));
    assert!(
        ended
            .complaint()
            .contains("nothing to measure: capped collections is missing"),
        "{}",
        ended.complaint()
    );
    assert_eq!(std::fs::read_dir(ended.out.path()).unwrap().count(), 0);
}
