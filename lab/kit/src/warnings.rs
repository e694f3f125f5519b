//! Conditions under which numbers should not be trusted, each with advice.

use std::collections::BTreeMap;

use crate::environment::Environment;
use crate::format;
use crate::result::{StepResult, Warning};

/// A lateness of the lab below this, in microseconds, is normal for a timer.
const LATENESS_US_MIN: f64 = 5_000.0;
/// The smallest acceptable recall of searches, in percent.
const RECALL_PERCENT_MIN: f64 = 80.0;
/// A longer lateness, in microseconds, is not caused by a timer.
const STANDSTILL_US_MIN: f64 = 250_000.0;

fn warning(code: &str, text: String) -> Warning {
    Warning {
        code: code.to_owned(),
        text,
    }
}

/// Warnings about the machine's state before the run.
pub fn of_environment(environment: &Environment) -> Vec<Warning> {
    let mut out = Vec::new();
    if environment.lab_profile == "debug" {
        let text = "The lab is a debug build: it is slow itself. Build it with --release.";
        out.push(warning("lab-debug-build", text.to_owned()));
    }
    if environment.swap_used_bytes > 0 {
        let used = format::bytes(environment.swap_used_bytes as f64);
        out.push(warning(
            "swap-in-use",
            format!("Swap is in use ({used}). Stop other programs or switch swap off."),
        ));
    }
    let busy = environment.load_average.first().copied().unwrap_or(0.0);
    if busy > 0.25 * environment.cpus as f64 + 0.25 {
        let text = format!(
            "The machine was busy before the run: load average {} on {} CPUs. Wait until it is \
                idle and repeat.",
            format::number(busy),
            environment.cpus
        );
        out.push(warning("busy-machine", text));
    }
    out
}

/// Warnings about a step. `is_inside`: the target runs in the lab's process, so that one cost
/// covers both.
pub fn of_step(step: &StepResult, cpus: usize, is_inside: bool) -> Vec<Warning> {
    let mut out = Vec::new();
    let at = |text: String| format!("Step {}: {text}", step.name);
    of_failures(&mut out, step, &at);
    if !step.measured {
        return out;
    }
    if step.seconds < 10.0 {
        let text = format!(
            "it was measured for only {}. Do not quote it; use a larger preset.",
            format::seconds(step.seconds)
        );
        out.push(warning("short", at(text)));
    }
    of_searches(&mut out, step, &at);
    if step.host.steal_percent > 1.0 {
        let text = format!(
            "a hypervisor took {} % of the CPU away.",
            format::number(step.host.steal_percent)
        );
        out.push(warning("cpu-stolen", at(text)));
    }
    let server_cores = step
        .server
        .as_ref()
        .filter(|_| !is_inside)
        .map_or(0.0, |server| server.cpu_cores);
    let others =
        step.host.busy_percent / 100.0 * cpus as f64 - server_cores - step.client.cpu_cores;
    // With load generators on other machines, the load does not use this machine's CPU.
    let is_here = step.more.generators.is_empty();
    if is_here && step.server.is_some() && others > 0.25 {
        let text = format!(
            "other programs used {} CPUs meanwhile. Repeat on an idle machine.",
            format::number(others)
        );
        out.push(warning("others-busy", at(text)));
    }
    let is_full = step.host.busy_percent > 90.0;
    if is_here && !is_inside && is_full && step.client.cpu_cores > 0.33 * cpus as f64 {
        let text = format!(
            "all CPUs of the machine are busy and the lab itself took {} of {cpus}. The rate \
             depends on both; trust CPU per operation instead, or run the lab on another machine.",
            format::number(step.client.cpu_cores)
        );
        out.push(warning("client-cpu-saturated", at(text)));
    }
    if let Some((what, mb)) = io_of_others(step, is_inside) {
        let text = format!(
            "other programs {what} about {} MB on the target's device meanwhile: figures of the \
                device are not the target's alone.",
            format::number(mb)
        );
        out.push(warning("others-io", at(text)));
    }
    if let Some(first) = step.series.iter().find(|point| !point.warmup) {
        let ratio = first.rate() / step.rate.median.max(f64::MIN_POSITIVE);
        if step.rate.intervals >= 5 && !(0.5..=2.0).contains(&ratio) {
            let text = format!(
                "the first interval ran at {} times the median. Use a warm-up.",
                format::number(ratio)
            );
            out.push(warning("first-interval-outlier", at(text)));
        }
    }
    of_standstills(&mut out, step, &at);
    of_schedule(&mut out, step, &at);
    of_generators(&mut out, step, &at);
    out
}

/// Warnings about pauses of the lab or of a load generator.
fn of_standstills(out: &mut Vec<Warning>, step: &StepResult, at: &dyn Fn(String) -> String) {
    if step.more.lab_stood_still_seconds > 0.0 {
        let text = format!(
            "the lab itself stood still for {} ({} calls were in progress). Latency, stalls and \
             rate leave that out; repeat the run on a machine that gives the lab its CPU.",
            format::seconds(step.more.lab_stood_still_seconds),
            format::count(step.more.disturbed_calls)
        );
        out.push(warning("lab-stood-still", at(text)));
    } else if step.more.disturbed_calls > 0 {
        let text = format!(
            "a load generator stood still while {} of its calls were in progress. Latency leaves \
             them out, but the rate misses its calls; repeat the run on machines that give the \
             lab their CPU.",
            format::count(step.more.disturbed_calls)
        );
        out.push(warning("lab-stood-still", at(text)));
    }
}

/// Warnings about calls that failed or were refused, also in preparing steps.
fn of_failures(out: &mut Vec<Warning>, step: &StepResult, at: &dyn Fn(String) -> String) {
    let beside = step.more.background.iter();
    let errors = beside.clone().flat_map(|role| role.errors.iter());
    let mut by_kind: BTreeMap<&str, u64> = BTreeMap::new();
    for (kind, count) in step.errors.iter().chain(errors) {
        *by_kind.entry(kind).or_insert(0) += count;
    }
    let total: u64 = by_kind.values().sum();
    if let Some((kind, count)) = by_kind.iter().max_by_key(|(_, count)| **count) {
        let text = format!(
            "{} calls failed, {} of them with '{kind}'; they are not in the rate.",
            format::count(total),
            format::count(*count)
        );
        out.push(warning("errors", at(text)));
    }
    let refused = step.more.refused_calls + beside.clone().map(|r| r.refused_calls).sum::<u64>();
    if refused > 0 {
        let given_up = step.more.given_up + beside.map(|role| role.given_up).sum::<u64>();
        let text = format!(
            "the target refused {} calls as overloaded or refused connections; {} operations \
             were given up. Rate and latency leave them out.",
            format::count(refused),
            format::count(given_up)
        );
        out.push(warning("refused", at(text)));
    }
}

/// Warnings about load generators on other machines.
fn of_generators(out: &mut Vec<Warning>, step: &StepResult, at: &dyn Fn(String) -> String) {
    for generator in &step.more.generators {
        let own = generator.cpu_cores > 0.33 * f64::from(generator.cpus);
        if own && generator.host_busy_percent > 90.0 {
            let text = format!(
                "the generator {} had too few processors: its machine was {} % busy and the lab \
                 took {} of its {} CPUs. Latency includes its waiting; add a generator.",
                generator.address,
                format::number(generator.host_busy_percent),
                format::number(generator.cpu_cores),
                generator.cpus
            );
            out.push(warning("generator-cpu-saturated", at(text)));
        }
        let late = generator.lateness.as_ref();
        let late = late.and_then(|late| late.percentile(99.0)).unwrap_or(0.0);
        let p99 = generator.latency.percentile(99.0).unwrap_or(0.0);
        let began = generator.start_late_us + generator.start_error_us;
        if late > LATENESS_US_MIN && late > p99 {
            let text = format!(
                "the generator {} sent one call in a hundred {} late or later, more than the \
                 target took to answer. Give it more CPU or a smaller share of the rate.",
                generator.address,
                format::seconds(late / 1e6)
            );
            out.push(warning("generator-late", at(text)));
        } else if began > STANDSTILL_US_MIN {
            let text = format!(
                "the generator {} began up to {} after the common start.",
                generator.address,
                format::seconds(began / 1e6)
            );
            out.push(warning("generator-late", at(text)));
        }
    }
}

/// Warnings about the recall of searches.
fn of_searches(out: &mut Vec<Warning>, step: &StepResult, at: &dyn Fn(String) -> String) {
    let recall = step.more.recall.as_ref().map(|recall| recall.percent);
    if let Some(percent) = recall.filter(|percent| *percent < RECALL_PERCENT_MIN) {
        let text = format!(
            "its searches found {percent:.1} % of the exact neighbours. A rate with so low a \
                recall says little; raise numCandidates."
        );
        out.push(warning("recall-low", at(text)));
    }
}

/// Warnings about the schedule of an open loop.
fn of_schedule(out: &mut Vec<Warning>, step: &StepResult, at: &dyn Fn(String) -> String) {
    let by_lab = step.more.unsent_by_lab;
    let waited = step.more.unsent_calls.saturating_sub(by_lab);
    if waited > 0 {
        let text = format!(
            "{} of {} scheduled calls were never sent: the target was still busy with those before \
                them when the step ended. Their waiting time is in the latency.",
            format::count(waited),
            format::count(step.calls)
        );
        out.push(warning("calls-unsent", at(text)));
    }
    if by_lab > 0 {
        let text = format!(
            "{} of {} scheduled calls were never sent because the lab itself was late when the \
                step ended. They are in no latency.",
            format::count(by_lab),
            format::count(step.calls)
        );
        out.push(warning("calls-unsent-by-lab", at(text)));
    }
    if let Some(lateness) = &step.more.lateness {
        let late = lateness.percentile(99.0).unwrap_or(0.0);
        let p99 = step.latency.percentile(99.0).unwrap_or(0.0);
        if late > LATENESS_US_MIN && late > p99 {
            let text = format!(
                "the lab itself sent one call in a hundred {} late or later, which is more than \
                    the target took. Latency leaves that out, but calls came in bursts; give the \
                    lab more CPU or lower the rate.",
                format::seconds(late / 1e6)
            );
            out.push(warning("lab-late", at(text)));
        } else if lateness.max_us > STANDSTILL_US_MIN {
            let text = format!(
                "the lab itself stood still for up to {}: calls were sent late by this time, \
                 which latency leaves out.",
                format::seconds(lateness.max_us / 1e6)
            );
            out.push(warning("lab-late", at(text)));
        }
    }
    if step.finish.behind_schedule_seconds_max > 1.0 {
        let behind = format::seconds(step.finish.behind_schedule_seconds_max);
        out.push(warning(
            "behind-schedule",
            at(format!(
                "calls waited up to {behind} for those before them: the target cannot sustain this \
                    rate."
            )),
        ));
    }
}

/// The traffic of the device that neither the target nor the lab caused, if it is large: the larger
/// of read and written, in MB. Writes are counted when a page becomes dirty and reach the device
/// later, some of them twice (a log, a file system's journal). Therefore only writes far above
/// twice the counted amount are attributed to other programs.
fn io_of_others(step: &StepResult, is_inside: bool) -> Option<(&'static str, f64)> {
    let (server, device) = (step.server.as_ref()?, step.device.as_ref()?);
    let own = |of: fn(&crate::result::CostSummary) -> Option<f64>| {
        let lab = if is_inside {
            Some(0.0)
        } else {
            of(&step.client)
        };
        Some(of(server)? + lab?)
    };
    let mb = |per_op: f64| per_op * step.ops as f64 / 1_024.0;
    let more = |on_device: Option<f64>, own: Option<f64>, factor: f64| {
        let (all, own) = (mb(on_device?), mb(own?));
        let others = all - own * factor;
        // A few pages of a system log do not matter.
        (others > 0.2 * all && others > 0.5 * step.seconds + 1.0).then_some(others)
    };
    let read = more(device.read_kb_per_op, own(|cost| cost.read_kb_per_op), 1.0);
    let written = more(
        device.write_kb_per_op,
        own(|cost| cost.write_kb_per_op),
        2.5,
    );
    match (read, written) {
        (Some(read), written) if read >= written.unwrap_or(0.0) => Some(("read", read)),
        (_, Some(written)) => Some(("wrote", written)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_of_other_programs_is_told_apart() {
        let run: crate::result::RunResult =
            serde_json::from_str(include_str!("../tests/data/point.json")).unwrap();
        let mut step = run.main_step().unwrap().clone();
        (step.ops, step.seconds) = (1_024, 10.0);
        (step.client.read_kb_per_op, step.client.write_kb_per_op) = (Some(0.0), Some(0.0));
        let server = step.server.get_or_insert_default();
        (server.read_kb_per_op, server.write_kb_per_op) = (Some(10.0), Some(10.0));
        let device = step.device.get_or_insert_default();
        (device.read_kb_per_op, device.write_kb_per_op) = (Some(10.0), Some(22.0));
        assert_eq!(io_of_others(&step, false), None);
        let with = |read: f64, written: f64| {
            let mut step = step.clone();
            let device = step.device.get_or_insert_default();
            (device.read_kb_per_op, device.write_kb_per_op) = (Some(read), Some(written));
            io_of_others(&step, false)
        };
        assert_eq!(with(40.0, 22.0), Some(("read", 30.0)));
        assert_eq!(with(10.0, 225.0), Some(("wrote", 200.0)));
        let codes: Vec<String> = {
            let device = step.device.get_or_insert_default();
            device.read_kb_per_op = Some(40.0);
            of_step(&step, 2, false)
                .into_iter()
                .map(|one| one.code)
                .collect()
        };
        assert!(codes.iter().any(|code| code == "others-io"), "{codes:?}");
    }

    #[test]
    fn generators_that_are_late_or_short_of_processors_are_named() {
        let run: crate::result::RunResult =
            serde_json::from_str(include_str!("../tests/data/point.json")).unwrap();
        let mut step = run.main_step().unwrap().clone();
        let latency = |p99: f64| crate::result::LatencySummary {
            percentiles_us: vec![(99.0, p99)],
            ..Default::default()
        };
        let good = crate::result::GeneratorResult {
            address: "good:1".to_owned(),
            cpu_cores: 3.5,
            cpus: 4,
            host_busy_percent: 89.0,
            latency: latency(900.0),
            lateness: Some(latency(800.0)),
            ..Default::default()
        };
        let full = crate::result::GeneratorResult {
            address: "full:1".to_owned(),
            host_busy_percent: 97.0,
            ..good.clone()
        };
        let late = crate::result::GeneratorResult {
            address: "late:1".to_owned(),
            lateness: Some(latency(20_000.0)),
            ..good.clone()
        };
        let began = crate::result::GeneratorResult {
            address: "began:1".to_owned(),
            start_late_us: 300_000.0,
            ..good.clone()
        };
        // The coordinator's machine is busy with other programs.
        (step.host.busy_percent, step.client.cpu_cores) = (99.0, 14.0);
        step.more.generators = vec![good, full, late, began];
        let told = of_step(&step, 2, false);
        let of = |code: &str| -> Vec<&str> {
            let with = told.iter().filter(|one| one.code == code);
            with.map(|one| one.text.as_str()).collect()
        };
        let saturated = of("generator-cpu-saturated");
        assert!(
            matches!(saturated[..], [one] if one.contains("full:1")),
            "{told:?}"
        );
        let late = of("generator-late");
        assert!(
            late[0].contains("late:1") && late[1].contains("began:1"),
            "{told:?}"
        );
        assert_eq!(late.len(), 2);
        assert!(of("client-cpu-saturated").is_empty() && of("others-busy").is_empty());
    }

    #[test]
    fn an_engine_inside_the_lab_is_not_counted_twice() {
        let run: crate::result::RunResult =
            serde_json::from_str(include_str!("../tests/data/point.json")).unwrap();
        let mut step = run.main_step().unwrap().clone();
        step.host.busy_percent = 95.0;
        step.server.get_or_insert_default().cpu_cores = 1.2;
        step.client.cpu_cores = 1.2;
        let codes = |is_inside: bool| {
            of_step(&step, 2, is_inside)
                .into_iter()
                .map(|warning| warning.code)
                .collect::<Vec<_>>()
        };
        let has = |codes: &[String], code: &str| codes.iter().any(|known| known == code);
        let (inside, apart) = (codes(true), codes(false));
        // 1.9 cores were busy and 1.2 of them are the engine and the lab together: other programs
        // had 0.7.
        assert!(
            has(&inside, "others-busy") && !has(&inside, "client-cpu-saturated"),
            "{inside:?}"
        );
        assert!(
            !has(&apart, "others-busy") && has(&apart, "client-cpu-saturated"),
            "{apart:?}"
        );
    }
}
