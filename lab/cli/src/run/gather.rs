//! Collects the reports of a step's generators until all have ended or are lost, and combines them
//! with the samples taken here into intervals.
//!
//! Promises: it waits for no generator longer than the limits allow; an interval is the same period
//! of time at all generators. Must not know: targets. Neighbours: `distributed` starts it, `merge`
//! sums.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab_kit::folder::{FolderError, RunFolder};
use lab_kit::result::GeneratorResult;
use lab_kit::share::Share;
use lab_kit::workload::Step;
use metrics::Interval;

use super::merge::{COLUMNS, GeneratorState, Merge, Stage, Sum, lines, merge_completions};
use super::role_plan::RolePlan;
use super::shared::operations;
use crate::clients::{Control, GRACE};
use crate::counters::{Limits, Totals};
use crate::errors::LabError;
use crate::load::{AgentMessage, Event, Fleet, LabMessage, SILENT_MAX, TICKS_PER_INTERVAL};
use crate::progress::Progress;
use crate::sampler::{INTERVAL, Instruments, SampledRole, SamplerResult};

/// The file with every tick of every generator.
const FILE: &str = "generators.csv";
/// The longest wait for an event between two checks of the time.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// Added to the limits of calls, for late replies and for the transfer of totals.
const END_SLACK: Duration = Duration::from_secs(10);

/// The generators of a step and what they have reported.
pub(super) struct GeneratorReports {
    pub(super) step: String,
    pub(super) fleet: Fleet,
    pub(super) merge: Merge,
    pub(super) states: Vec<GeneratorState>,
    pub(super) limits: Limits,
    pub(super) file: Option<File>,
    pub(super) is_over_sent: bool,
    /// When the generators were told to stop early.
    pub(super) stopped: Option<Instant>,
}

impl GeneratorReports {
    pub(super) fn new(step: &Step, roles: usize, fleet: Fleet, limits: Limits) -> Self {
        let all = fleet.generators.iter();
        Self {
            step: step.name.clone(),
            merge: Merge::new(roles, limits.warmup),
            states: all
                .map(|one| GeneratorState::new(one.address.clone(), roles))
                .collect(),
            fleet,
            limits,
            file: None,
            is_over_sent: false,
            stopped: None,
        }
    }

    fn open_file(&mut self, folder: &Path) -> Result<(), FolderError> {
        let path = folder.join(FILE);
        let is_new = !path.exists();
        let opened = File::options().create(true).append(true).open(&path);
        let file = opened.and_then(|mut file| {
            if is_new {
                writeln!(file, "{COLUMNS}")?;
            }
            Ok(file)
        });
        self.file = Some(file.map_err(|source| FolderError::Write { path, source })?);
        Ok(())
    }

    /// Takes an event of a generator.
    fn take(&mut self, number: usize, event: Event, control: &Control) {
        let Some(state) = self.states.get_mut(number).filter(|state| state.is_there()) else {
            return;
        };
        let lost = match event {
            Event::Lost(reason) | Event::Said(AgentMessage::Refused { reason }) => Some(reason),
            Event::Said(AgentMessage::Tick(tick)) => {
                if let Some(reason) = &tick.stopping {
                    control.stop(&format!("the load generator {}: {reason}", state.address));
                }
                self.merge.take(number, state, *tick).err()
            }
            Event::Said(AgentMessage::Begun { late_us }) => {
                state.late_us = late_us;
                None
            }
            Event::Said(AgentMessage::Done { at_us }) => {
                (state.stage, state.done_us) = (Stage::Done, at_us);
                None
            }
            Event::Said(AgentMessage::Ended(ended)) => {
                if let Some(reason) = &ended.reason {
                    control.stop(&format!("the load generator {}: {reason}", state.address));
                }
                state.end(*ended).err()
            }
            Event::Said(_) => None,
        };
        if let Some(reason) = lost {
            control.stop(&state.lose(&reason));
        }
    }

    /// Marks generators that are silent or do not end as lost.
    fn look_at_time(&mut self, control: &Control, begun: Instant) {
        let end = self.limits.end;
        let end = end.map(|end| begun + end + self.limits.call_timeout + GRACE + END_SLACK);
        let stopped = self.stopped.map(|at| at + GRACE * 2 + END_SLACK);
        let is_late = [end, stopped]
            .into_iter()
            .flatten()
            .any(|end| Instant::now() > end);
        for state in self.states.iter_mut().filter(|state| state.is_there()) {
            let silent = state.heard.max(begun).elapsed();
            if silent > SILENT_MAX {
                let reason = format!("no tick came for {} s", SILENT_MAX.as_secs());
                control.stop(&state.lose(&reason));
            } else if is_late {
                control.stop(&state.lose("it did not end"));
            }
        }
    }

    /// Tells the generators when the step ends early, or when the measured work of all has ended.
    fn pass_on(&mut self, control: &Control) {
        if control.is_stopping() && self.stopped.is_none() {
            self.stopped = Some(Instant::now());
            let reason = control.reason().unwrap_or_default();
            self.tell_all(&|| LabMessage::Stop {
                reason: reason.clone(),
            });
        }
        let works = self.states.iter().any(|state| state.stage == Stage::Works);
        if !works && !self.is_over_sent {
            self.is_over_sent = true;
            control.end_measured_work();
            self.tell_all(&|| LabMessage::Over);
        }
    }

    fn tell_all(&self, what: &dyn Fn() -> LabMessage) {
        for (number, state) in self.states.iter().enumerate() {
            if state.is_there() {
                // A generator that cannot be reached is lost; the reader of its connection reports
                // this.
                let _ = self.fleet.send(number, &what());
            }
        }
    }

    fn is_ended(&self) -> bool {
        !self.states.iter().any(GeneratorState::is_there)
    }

    /// The last tick that all remaining generators have sent.
    fn last_common_tick(&self) -> u64 {
        let there = self.states.iter().filter(|state| state.is_there());
        let last = there.map(|state| state.last.number);
        last.min().unwrap_or(u64::MAX)
    }

    /// When the measured work of all generators had ended.
    fn end(&self) -> Duration {
        let ends = self.states.iter().map(|state| match state.stage {
            Stage::Lost(_) => state.last.at_us,
            _ => state.done_us,
        });
        Duration::from_micros(ends.max().unwrap_or(0))
    }

    pub(super) fn results(&self, clients: u32, seconds: f64) -> Vec<GeneratorResult> {
        let of = u32::try_from(self.states.len()).unwrap_or(1);
        let all = self.states.iter().zip(&self.fleet.generators).zip(0..);
        all.map(|((state, generator), number)| {
            let clients = Share::new(number, of).count(clients);
            let mut out = state.result(clients, seconds);
            out.cpus = generator.cpus;
            out.clock_ahead_ms = generator.clock.ahead_us as f64 / 1e3;
            out.start_error_us = generator.clock.error.as_secs_f64() * 1e6;
            out
        })
        .collect()
    }

    /// The totals of each role, all generators together.
    pub(super) fn totals(&self, plans: &[RolePlan<'_>]) -> Vec<Totals> {
        let of_role = |(number, plan): (usize, &RolePlan<'_>)| {
            let mut out = Totals::default();
            let operations = operations(plan.role);
            for state in &self.states {
                state.add_to(&mut out, number, &operations);
            }
            out
        };
        plans.iter().enumerate().map(of_role).collect()
    }
}

/// Makes intervals from the reports and from the samples taken here.
pub(super) struct StepCollector {
    merging: GeneratorReports,
    sampled_roles: Vec<SampledRole>,
    folder: RunFolder,
    pub(super) instruments: Instruments,
    progress: Progress,
    /// The samples of each interval.
    samples: Vec<Interval>,
    /// When the last sample was taken.
    pub(super) sampled: Instant,
    /// The number of closed intervals.
    closed: u64,
    /// The end of the last closed interval.
    pub(super) ended_at: Duration,
}

impl StepCollector {
    /// Lets the generators begin at a common start shortly after now.
    ///
    /// # Errors
    /// The file of ticks cannot be opened, or a generator cannot be reached.
    pub(super) fn start(
        mut merging: GeneratorReports,
        (sampled_roles, folder, instruments): SamplerResult,
        progress: Progress,
    ) -> Result<Self, LabError> {
        merging.open_file(folder.path())?;
        let sampled = merging.fleet.start()?;
        Ok(Self {
            merging,
            sampled_roles,
            folder,
            instruments,
            progress,
            samples: Vec::new(),
            sampled,
            closed: 0,
            ended_at: Duration::ZERO,
        })
    }

    /// Returns the parts when all generators have ended.
    pub(super) fn into_parts(self) -> (GeneratorReports, SamplerResult) {
        let sampled = (self.sampled_roles, self.folder, self.instruments);
        (self.merging, sampled)
    }

    /// Gathers until all generators have ended or are lost.
    pub(super) fn run(mut self, control: &Arc<Control>, begun: Instant) -> Self {
        let mut is_measuring = false;
        loop {
            if let Some((number, event)) = self.merging.fleet.next(LOOK) {
                self.merging.take(number, event, control);
            }
            self.merging.look_at_time(control, begun);
            self.merging.pass_on(control);
            let samples = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
            if !self.merging.is_over_sent && begun.elapsed() >= INTERVAL * (samples + 1) {
                self.sample();
            }
            let warmup = self.merging.limits.warmup;
            if !is_measuring && begun.elapsed() >= warmup {
                is_measuring = true;
                self.instruments.begin_measuring();
                for sampled in &mut self.sampled_roles {
                    sampled.gaps.start(warmup.as_secs_f64());
                }
            }
            let reached = self.merging.last_common_tick();
            self.count_ticks(reached, control);
            if self.merging.is_ended() {
                self.end(control);
                return self;
            }
            while reached >= (self.closed + 1) * TICKS_PER_INTERVAL
                && self.samples.len() as u64 > self.closed
                && !self.merging.is_over_sent
            {
                self.close(None, control);
            }
        }
    }

    fn sample(&mut self) {
        let mut interval = Interval {
            length: self.sampled.elapsed(),
            ..Interval::default()
        };
        self.sampled = Instant::now();
        self.instruments.fill(&mut interval);
        self.samples.push(interval);
    }

    fn count_ticks(&mut self, reached: u64, control: &Control) {
        let mut text = String::new();
        while let Some((tick, parts)) = self.merging.merge.next_tick(reached) {
            for (role, sampled) in self.sampled_roles.iter_mut().enumerate() {
                let Some(done) = merge_completions(&parts, role) else {
                    continue;
                };
                for (from, to) in done.gaps {
                    sampled.gaps.gap(from, to);
                }
                sampled
                    .gaps
                    .record_completions(done.count, done.first_s, done.last_s);
            }
            let GeneratorReports { step, states, .. } = &self.merging;
            lines(step, states, tick, &parts, &mut text);
        }
        let file = self.merging.file.as_mut();
        let written = file.map_or(Ok(()), |file| file.write_all(text.as_bytes()));
        if let Err(source) = written {
            let path = self.folder.path().join(FILE);
            let error = FolderError::Write { path, source };
            control.stop(&error.to_string());
        }
    }

    /// Closes the remaining intervals; the last one includes everything after the end of the
    /// measured work.
    fn end(&mut self, control: &Control) {
        self.sample();
        let end = self.merging.end();
        let whole = INTERVAL.as_micros();
        while (end.as_micros() > whole * u128::from(self.closed + 1))
            && self.samples.len() as u64 > self.closed + 1
        {
            self.close(None, control);
        }
        self.close(Some(end), control);
        for sampled in &mut self.sampled_roles {
            let gaps = std::mem::take(&mut sampled.gaps);
            let gaps = gaps.finish(end.as_secs_f64(), sampled.recorder.seconds());
            sampled.recorder.set_gaps(gaps);
        }
        self.progress.end();
    }

    /// Closes the next interval; the last one of the step ends at `last` and includes everything
    /// that is left.
    fn close(&mut self, last: Option<Duration>, control: &Control) {
        let number = self.closed;
        self.closed += 1;
        let mut sum = self.merging.merge.close(number);
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let mut own = self.samples.get(at).cloned().unwrap_or_default();
        if last.is_some() {
            for later in self.merging.merge.open() {
                add(&mut sum, self.merging.merge.close(later));
            }
            for later in self.samples.iter().skip(at.saturating_add(1)) {
                own.merge(later);
            }
        }
        let start = self.ended_at;
        let nominal = INTERVAL * u32::try_from(number + 1).unwrap_or(u32::MAX);
        let end = last.unwrap_or_else(|| sum.end().unwrap_or(nominal));
        self.ended_at = end.max(start);
        let warmup = start + INTERVAL / 2 < self.merging.limits.warmup;
        let mut is_first = true;
        for (sampled, role) in self.sampled_roles.iter_mut().zip(sum.roles) {
            let mut interval = if is_first {
                own.client = sum.used;
                own.clone()
            } else {
                Interval::default()
            };
            (interval.start, interval.length) = (start, self.ended_at.saturating_sub(start));
            (interval.ops, interval.errors) = (role.ops, role.errors);
            (interval.latency, interval.warmup) = (role.latency, warmup);
            sampled.rows += if warmup { 0 } else { role.rows };
            if let Err(error) = sampled.recorder.push(&interval, &mut self.folder) {
                control.stop(&error.to_string());
            }
            if is_first {
                let rate = sampled.recorder.cumulative_rate();
                self.progress.show(&interval, rate);
            }
            is_first = false;
        }
    }
}

fn add(sum: &mut Sum, more: Sum) {
    sum.used.merge(&more.used);
    for (sum, more) in sum.roles.iter_mut().zip(more.roles) {
        sum.ops = sum.ops.saturating_add(more.ops);
        sum.errors = sum.errors.saturating_add(more.errors);
        sum.rows = sum.rows.saturating_add(more.rows);
        sum.latency.merge(&more.latency);
    }
}
