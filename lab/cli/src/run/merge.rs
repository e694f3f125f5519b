//! Combines the reports of a step's generators: one schedule of ticks, one series of intervals, one
//! sum.
//!
//! Promises: a tick counts once, when all generators have reported it; an interval is closed when
//! all have reported its last tick; the totals of a generator that has ended equal the sum of its
//! ticks, or the step fails. Must not know: targets, sockets.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lab_kit::recorder::{ClientSummary, latency_summary};
use lab_kit::result::GeneratorResult;
use lab_kit::work::{Effect, TableCheckpoint};
use lab_kit::workload::Operation;
use metrics::{LatencyHistogram, ProcessSample, ProcessUse};

use crate::counters::Totals;
use crate::load::{
    Buckets, ClientReport, RoleEnd, RoleTick, StepTotals, TICK, TICKS_PER_INTERVAL, Tick,
};
use crate::sampler::common;
use crate::wire;

/// The largest number of kinds of errors of all generators that are counted separately.
const ERROR_KINDS_MAX: usize = 50;
/// The number of operations that a lost generator may have done beyond its reports.
const UNKNOWN: u64 = u32::MAX as u64;

/// The progress of a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its clients work.
    Works,
    /// Its clients of the measured work have ended.
    Done,
    /// It has sent its totals.
    Ended,
    /// It is lost, with the reason.
    Lost(String),
}

/// One generator of a step.
#[derive(Debug)]
pub(super) struct GeneratorState {
    pub(super) address: String,
    pub(super) stage: Stage,
    /// The last tick, and when it was received.
    pub(super) last: Tick,
    pub(super) heard: Instant,
    /// For each role, the sum of operations of its ticks.
    ops: Vec<u64>,
    errors: u64,
    measured_ops: u64,
    used_before: Option<ProcessSample>,
    used: ProcessUse,
    latency: LatencyHistogram,
    pub(super) done_us: u64,
    pub(super) late_us: u64,
    ended: Option<StepTotals>,
}

impl GeneratorState {
    pub(super) fn new(address: String, roles: usize) -> Self {
        Self {
            address,
            stage: Stage::Works,
            last: Tick::default(),
            heard: Instant::now(),
            ops: vec![0; roles],
            errors: 0,
            measured_ops: 0,
            used_before: None,
            used: ProcessUse::default(),
            latency: LatencyHistogram::default(),
            done_us: 0,
            late_us: 0,
            ended: None,
        }
    }

    /// Whether more messages will come from the generator.
    pub(super) fn is_there(&self) -> bool {
        matches!(self.stage, Stage::Works | Stage::Done)
    }

    /// Marks it as lost and returns the message.
    pub(super) fn lose(&mut self, why: &str) -> String {
        let operations: u64 = self.ops.iter().fold(0, |sum, ops| sum.saturating_add(*ops));
        let words = format!(
            "the load generator {} was lost: {why}; until {:.1} s after the start it had \
             reported {operations} operations and {} failed calls",
            self.address,
            self.last.at_us as f64 / 1e6,
            self.errors
        );
        self.stage = Stage::Lost(words.clone());
        words
    }

    /// Takes the totals of the generator, which must equal the sum of its ticks.
    pub(super) fn end(&mut self, ended: StepTotals) -> Result<(), String> {
        let acknowledged: Vec<u64> = ended.roles.iter().map(|role| role.acknowledged).collect();
        if acknowledged != self.ops {
            return Err(format!(
                "its ticks reported {:?} operations, its end {acknowledged:?}",
                self.ops
            ));
        }
        (self.stage, self.ended) = (Stage::Ended, Some(ended));
        Ok(())
    }

    /// The generator's part of the result.
    pub(super) fn result(&self, clients: u32, seconds: f64) -> GeneratorResult {
        let main = self.ended.as_ref().and_then(|ended| ended.roles.first());
        let lateness = main.and_then(|role| role.lateness.as_ref());
        let cpu = self.used.cpu().as_secs_f64();
        let by_seconds = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
        GeneratorResult {
            address: self.address.clone(),
            clients,
            ops: self.measured_ops,
            rate: by_seconds(self.measured_ops as f64),
            errors: self.errors,
            latency: latency_summary(&self.latency),
            lateness: lateness.map(|late| latency_summary(&late.histogram())),
            unsent_by_lab: main.map_or(0, |role| role.unsent_by_lab),
            cpu_cores: by_seconds(cpu),
            host_busy_percent: self
                .ended
                .as_ref()
                .map_or(0.0, |ended| ended.host_busy_percent),
            start_late_us: self.late_us as f64,
            ended_s: self.done_us as f64 / 1e6,
            lost: match &self.stage {
                Stage::Lost(why) => Some(why.clone()),
                _ => None,
            },
            ..GeneratorResult::default()
        }
    }

    /// The state of the tables at the generator's end.
    pub(super) fn marks(&self) -> Vec<TableCheckpoint> {
        let ended = self.ended.as_ref();
        ended.map(|ended| ended.marks.clone()).unwrap_or_default()
    }

    /// The counters of the generator's program. A lost generator may have begun up to [`UNKNOWN`]
    /// more calls.
    pub(super) fn program(&self) -> Vec<i64> {
        match &self.ended {
            Some(ended) => ended.program.clone(),
            None => vec![UNKNOWN as i64],
        }
    }

    /// Adds the generator's totals for a role; `operations` are the operations of a mix.
    pub(super) fn add_to(&self, totals: &mut Totals, role: usize, operations: &[Operation]) {
        if let Some(ended) = &self.ended {
            if let Some(end) = ended.roles.get(role) {
                add_end(totals, end, operations);
            }
            return;
        }
        let last = self.last.roles.get(role);
        let mut effect = last.map(|last| last.effect).unwrap_or_default();
        add_unknown(&mut effect, operations);
        add_effect(&mut totals.effect, &effect);
        let ops = self.ops.get(role).copied().unwrap_or(0);
        totals.acknowledged = totals.acknowledged.saturating_add(ops);
        let errors = last.map_or(0, |_| self.errors);
        if role == 0 && errors > 0 {
            *totals
                .errors
                .entry("of a lost generator".to_owned())
                .or_insert(0) += errors;
        }
    }
}

/// Adds the operations that a lost generator may have done beyond its reports.
fn add_unknown(effect: &mut Effect, operations: &[Operation]) {
    for operation in operations {
        let (inserts, deletes) = match operation {
            Operation::Insert => (true, false),
            Operation::DeleteInsert | Operation::Statement(_) => (true, true),
            Operation::DeleteOldest => (false, true),
            _ => (false, false),
        };
        let unknown = |is: bool| if is { UNKNOWN } else { 0 };
        effect.inserts_unknown = effect.inserts_unknown.max(unknown(inserts));
        effect.deletes_unknown = effect.deletes_unknown.max(unknown(deletes));
        let adds = unknown(operation.adds_to_k());
        effect.adds_unknown = effect.adds_unknown.max(adds);
    }
}

/// Adds without overflow, because the numbers come from another machine.
fn add_effect(sum: &mut Effect, more: &Effect) {
    sum.inserted = sum.inserted.saturating_add(more.inserted);
    sum.deleted = sum.deleted.saturating_add(more.deleted);
    sum.added = sum.added.saturating_add(more.added);
    sum.sum_of_k = sum.sum_of_k.saturating_add(more.sum_of_k);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.rows = sum.rows.saturating_add(more.rows);
    sum.inserts_unknown = sum.inserts_unknown.saturating_add(more.inserts_unknown);
    sum.deletes_unknown = sum.deletes_unknown.saturating_add(more.deletes_unknown);
    sum.adds_unknown = sum.adds_unknown.saturating_add(more.adds_unknown);
}

fn add_end(totals: &mut Totals, end: &RoleEnd, operations: &[Operation]) {
    let sum = |one: &mut u64, more: u64| *one = one.saturating_add(more);
    add_effect(&mut totals.effect, &end.effect);
    for (one, more) in [
        (&mut totals.acknowledged, end.acknowledged),
        (&mut totals.unsent, end.unsent),
        (&mut totals.unsent_by_lab, end.unsent_by_lab),
        (&mut totals.refused, end.refused),
        (&mut totals.given_up, end.given_up),
        (&mut totals.disturbed, end.disturbed),
    ] {
        sum(one, more);
    }
    for (kind, count) in &end.errors {
        let errors = &mut totals.errors;
        let is_known = errors.len() < ERROR_KINDS_MAX || errors.contains_key(kind);
        let kind = if is_known { kind.as_str() } else { "other" };
        sum(errors.entry(kind.to_owned()).or_insert(0), *count);
    }
    let clients = end
        .clients
        .iter()
        .map(|client: &ClientReport| ClientSummary {
            ops: client.ops,
            active: Duration::from_micros(client.active_us),
            behind: Duration::from_micros(client.behind_us),
        });
    totals.client_summaries.extend(clients);
    for (one, more) in [
        (&mut totals.service, &end.service),
        (&mut totals.lateness, &end.lateness),
    ] {
        if let Some(more) = more {
            one.get_or_insert_default().merge(&more.histogram());
        }
    }
    for (part, counts) in &end.outcomes {
        if let Some(operation) = operations.get(*part) {
            totals.outcomes.entry(*operation).or_default().add(counts);
        }
    }
    for (part, latency) in &end.by_part {
        if let Some(operation) = operations.get(*part) {
            let known = totals.by_operation.entry(*operation).or_default();
            known.merge(&latency.histogram());
        }
    }
}

/// One role in one interval, all generators together.
#[derive(Debug, Default)]
pub(super) struct RoleSum {
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) rows: u64,
    pub(super) latency: LatencyHistogram,
}

/// One interval, all generators together.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) roles: Vec<RoleSum>,
    pub(super) used: ProcessUse,
    /// When each generator took its last tick of the interval.
    ends_us: Vec<u64>,
}

impl Sum {
    /// When the interval ended: the middle of the generators' times.
    pub(super) fn end(&self) -> Option<Duration> {
        let count = u64::try_from(self.ends_us.len())
            .ok()
            .filter(|count| *count > 0)?;
        let sum: u128 = self.ends_us.iter().map(|end| u128::from(*end)).sum();
        let mean = u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX);
        Some(Duration::from_micros(mean))
    }
}

/// The completed calls of one role in one tick, and the gaps between them.
pub(super) struct CompletedCalls {
    pub(super) count: u64,
    pub(super) first_s: f64,
    pub(super) last_s: f64,
    pub(super) gaps: Vec<(f64, f64)>,
}

/// The ticks of all generators, in the order of their time.
#[derive(Debug)]
pub(super) struct Merge {
    roles: usize,
    warmup: Duration,
    waiting: BTreeMap<u64, Vec<(usize, Tick)>>,
    sums: BTreeMap<u64, Sum>,
}

impl Merge {
    pub(super) fn new(roles: usize, warmup: Duration) -> Self {
        Self {
            roles,
            warmup,
            waiting: BTreeMap::new(),
            sums: BTreeMap::new(),
        }
    }

    /// Takes a tick.
    pub(super) fn take(
        &mut self,
        number: usize,
        state: &mut GeneratorState,
        tick: Tick,
    ) -> Result<(), String> {
        if tick.number <= state.last.number || tick.roles.len() != self.roles {
            return Err("a tick that does not follow the one before".to_owned());
        }
        state.heard = Instant::now();
        state.last = Tick {
            roles: tick
                .roles
                .iter()
                .map(|role| RoleTick {
                    effect: role.effect,
                    ..RoleTick::default()
                })
                .collect(),
            used: String::new(),
            stopping: None,
            ..tick
        };
        let is_measured = interval_of(tick.number) as f64 + 0.5 >= self.warmup.as_secs_f64();
        for (sum, role) in state.ops.iter_mut().zip(&tick.roles) {
            *sum = sum.saturating_add(role.ops);
            state.errors = state.errors.saturating_add(role.errors);
        }
        if let Some(main) = tick.roles.first().filter(|_| is_measured) {
            state.measured_ops = state.measured_ops.saturating_add(main.ops);
            if let Some(latency) = &main.latency {
                state.latency.merge(&latency.histogram());
            }
        }
        let used = wire::to_sample(&tick.used);
        let sum = self.sum_of(tick.number);
        if let (Some(now), Some(before)) = (&used, &state.used_before) {
            let since = now.delta_since(before);
            sum.used.merge(&since);
            if is_measured {
                state.used.merge(&since);
            }
        }
        state.used_before = used.or(state.used_before.take());
        self.waiting
            .entry(tick.number)
            .or_default()
            .push((number, tick));
        Ok(())
    }

    fn sum_of(&mut self, tick: u64) -> &mut Sum {
        let roles = self.roles;
        let sum = self.sums.entry(interval_of(tick)).or_default();
        sum.roles.resize_with(roles, RoleSum::default);
        sum
    }

    /// The next tick that all generators have reported, as each generator's part; `reached` is the
    /// smallest of their last ticks.
    pub(super) fn next_tick(&mut self, reached: u64) -> Option<(u64, Vec<(usize, Tick)>)> {
        let (number, _) = self.waiting.first_key_value()?;
        if *number > reached {
            return None;
        }
        let (number, parts) = self.waiting.pop_first()?;
        let sum = self.sum_of(number);
        for (_, tick) in &parts {
            if number.is_multiple_of(TICKS_PER_INTERVAL) {
                sum.ends_us.push(tick.at_us);
            }
            for (sum, role) in sum.roles.iter_mut().zip(&tick.roles) {
                sum.ops = sum.ops.saturating_add(role.ops);
                sum.errors = sum.errors.saturating_add(role.errors);
                sum.rows = sum.rows.saturating_add(role.rows);
                let latency = role.latency.as_ref().map(Buckets::histogram);
                if let Some(latency) = latency {
                    sum.latency.merge(&latency);
                }
            }
        }
        Some((number, parts))
    }

    /// The sum of an interval.
    pub(super) fn close(&mut self, interval: u64) -> Sum {
        let roles = self.roles;
        let mut sum = self.sums.remove(&interval).unwrap_or_default();
        sum.roles.resize_with(roles, RoleSum::default);
        sum
    }

    /// The intervals that are not yet closed.
    pub(super) fn open(&self) -> Vec<u64> {
        self.sums.keys().copied().collect()
    }
}

/// The interval of a tick, from 0.
pub(super) fn interval_of(tick: u64) -> u64 {
    tick.saturating_sub(1) / TICKS_PER_INTERVAL
}

/// The work completed in a tick, and the periods in which no generator completed any.
pub(super) fn merge_completions(parts: &[(usize, Tick)], role: usize) -> Option<CompletedCalls> {
    let seconds = |us: u64| us as f64 / 1e6;
    let mut out: Option<CompletedCalls> = None;
    let mut free = vec![(f64::NEG_INFINITY, f64::INFINITY)];
    for (_, tick) in parts {
        let Some(role) = tick.roles.get(role) else {
            continue;
        };
        let Some((count, first, last)) = role.completions else {
            continue;
        };
        let (first, last) = (seconds(first), seconds(last));
        let mut own = vec![(f64::NEG_INFINITY, first)];
        own.extend(
            role.free
                .iter()
                .map(|(from, to)| (seconds(*from), seconds(*to))),
        );
        own.push((last, f64::INFINITY));
        free = common(&free, &own);
        let known = out.get_or_insert(CompletedCalls {
            count: 0,
            first_s: first,
            last_s: last,
            gaps: Vec::new(),
        });
        known.count = known.count.saturating_add(count);
        known.first_s = known.first_s.min(first);
        known.last_s = known.last_s.max(last);
    }
    let inside = |(from, to): &(f64, f64)| from.is_finite() && to.is_finite();
    free.retain(inside);
    out.map(|out| CompletedCalls { gaps: free, ..out })
}

/// One line for each generator and role of a tick: `generators.csv`.
pub(super) const COLUMNS: &str = "step,generator,role,start_s,seconds,ops,errors,rows";

/// The lines of a tick.
pub(super) fn lines(
    step: &str,
    states: &[GeneratorState],
    tick: u64,
    parts: &[(usize, Tick)],
    out: &mut String,
) {
    use std::fmt::Write;
    let start = TICK.as_secs_f64() * (tick.saturating_sub(1)) as f64;
    for (number, part) in parts {
        let address = states
            .get(*number)
            .map_or("", |state| state.address.as_str());
        let seconds = part.at_us as f64 / 1e6 - start;
        for (role, counts) in part.roles.iter().enumerate() {
            let RoleTick {
                ops, errors, rows, ..
            } = counts;
            let _ = writeln!(
                out,
                "{step},{address},{role},{start:.1},{seconds:.4},{ops},{errors},{rows}"
            );
        }
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
