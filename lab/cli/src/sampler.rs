//! The sampler: a separate thread that closes an interval every second, independently of the
//! clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use lab_kit::folder::RunFolder;
use lab_kit::recorder::StepRecorder;
use lab_kit::result::Period;
use lab_kit::stalls::GapTracker;
use lab_kit::usage::Details;
use metrics::{
    DiskSample, DiskSampler, HostCpu, Interval, Paging, Pressure, ProcessSample, ProcessSampler,
    ThrottleSampler,
};

use crate::agent::{Agent, AgentProcess};
use crate::clients::Control;
use crate::counters::{Completions, RoleCounters, Window, lock};
use crate::progress::Progress;
use crate::pulse;
use crate::slow_sampler::SlowSampler;

/// Length of an interval.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// The interval between two checks for gaps between completed calls.
const TICK: Duration = Duration::from_millis(100);

/// The sources that are sampled in addition to the clients.
#[derive(Debug)]
pub(crate) struct Instruments {
    server: Option<(ServerProcess, ProcessSample)>,
    agent: Option<Agent>,
    client: (ProcessSampler, ProcessSample),
    disk: Option<(DiskSampler, DiskSample)>,
    host: HostCpu,
    pressure: Option<Pressure>,
    paging: Option<Paging>,
    throttle: Option<(ThrottleSampler, u64)>,
    slow_sampler: SlowSampler,
    data: Option<PathBuf>,
    /// Why the server is no longer observed.
    pub(crate) server_lost: Option<String>,
}

/// The server's process.
#[derive(Debug)]
enum ServerProcess {
    Here(ProcessSampler),
    ByAgent(AgentProcess),
}

impl ServerProcess {
    fn sample(&mut self) -> std::io::Result<ProcessSample> {
        match self {
            Self::Here(sampler) => sampler.sample(),
            Self::ByAgent(process) => process.sample(),
        }
    }

    /// The process number, if the process is on this machine.
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Here(sampler) => Some(sampler.pid()),
            Self::ByAgent(_) => None,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Here(sampler) => format!("process {}", sampler.pid()),
            Self::ByAgent(process) => process.name(),
        }
    }
}

fn sample_process(pid: Option<u32>) -> Option<(ServerProcess, ProcessSample)> {
    let mut sampler = ProcessSampler::new(pid?).ok()?;
    let first = sampler.sample().ok()?;
    Some((ServerProcess::Here(sampler), first))
}

fn sample_throttle(pid: Option<u32>) -> Option<(ThrottleSampler, u64)> {
    let sampler = ThrottleSampler::of(pid?)?;
    let first = sampler.sample()?;
    Some((sampler, first))
}

impl Instruments {
    /// Opens all sources that exist.
    pub(crate) fn open(pid: Option<u32>, data: Option<PathBuf>) -> std::io::Result<Self> {
        let mut own = ProcessSampler::of_self()?;
        let first = own.sample()?;
        let disk = data
            .as_deref()
            .and_then(|path| DiskSampler::of_path(path).ok().flatten());
        let disk = disk.and_then(|sampler| sampler.sample().ok().map(|first| (sampler, first)));
        Ok(Self {
            server: sample_process(pid),
            agent: None,
            client: (own, first),
            disk,
            host: HostCpu::sample()?,
            pressure: Pressure::sample(),
            paging: Paging::sample(),
            throttle: sample_throttle(pid),
            slow_sampler: SlowSampler::start(pid, data.clone()),
            data,
            server_lost: None,
        })
    }

    /// Observes the server through an agent on its machine, which does not report its device and
    /// directory.
    pub(crate) fn watch_by_agent(&mut self, mut process: AgentProcess) -> std::io::Result<()> {
        let first = process.sample()?;
        self.agent = Some(process.agent().clone());
        self.server = Some((ServerProcess::ByAgent(process), first));
        (self.disk, self.throttle, self.data) = (None, None, None);
        self.slow_sampler = SlowSampler::start(None, None);
        Ok(())
    }

    /// Observes another process from now on, because the target was restarted.
    pub(crate) fn watch_process(&mut self, pid: Option<u32>) {
        if let Some(agent) = &self.agent {
            let process = agent.open().ok();
            self.server = process.and_then(|mut process| {
                let first = process.sample().ok()?;
                Some((ServerProcess::ByAgent(process), first))
            });
            return;
        }
        (self.server, self.throttle) = (sample_process(pid), sample_throttle(pid));
        self.slow_sampler = SlowSampler::start(pid, self.data.clone());
    }

    /// The observed process.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(|(watched, _)| watched.pid())
    }

    /// The device under the data directory.
    pub(crate) fn device(&self) -> Option<&str> {
        self.disk.as_ref().map(|(sampler, _)| sampler.name())
    }

    /// Discards all use until now.
    pub(crate) fn restart(&mut self) {
        let mut scratch = Interval::default();
        self.fill(&mut scratch);
        self.slow_sampler.restart();
    }

    /// Ends the warm-up: slow samples count from now on.
    pub(crate) fn begin_measuring(&self) {
        self.slow_sampler.restart();
    }

    /// The slow samples, with a last one taken now.
    pub(crate) fn details(&self) -> Details {
        self.slow_sampler.conclude()
    }

    /// Writes the use since the last call into `interval`.
    pub(crate) fn fill(&mut self, interval: &mut Interval) {
        if let Some((sampler, last)) = &mut self.server {
            match sampler.sample() {
                Ok(now) => {
                    interval.server = Some(now.delta_since(last));
                    *last = now;
                }
                Err(error) => {
                    self.server_lost = Some(format!("server {}: {error}", sampler.name()));
                    self.server = None;
                }
            }
        }
        let (sampler, last) = &mut self.client;
        if let Ok(now) = sampler.sample() {
            interval.client = now.delta_since(last);
            *last = now;
        }
        if let Some((sampler, last)) = &mut self.disk
            && let Ok(now) = sampler.sample()
        {
            interval.disk = Some(now.delta_since(last));
            *last = now;
        }
        if let Ok(now) = HostCpu::sample() {
            interval.host = now.delta_since(&self.host);
            self.host = now;
        }
        if let (Some(last), Some(now)) = (&mut self.pressure, Pressure::sample()) {
            interval.pressure = Some(now.delta_since(last));
            *last = now;
        }
        if let (Some(last), Some(now)) = (&mut self.paging, Paging::sample()) {
            interval.paging = Some(now.delta_since(last));
            *last = now;
        }
        if let Some((sampler, last)) = &mut self.throttle
            && let Some(now) = sampler.sample()
        {
            interval.throttled_us = Some(now.saturating_sub(*last));
            *last = now;
        }
        interval.directory = self.slow_sampler.take_directory();
    }
}

/// A group of clients and the recorder of its intervals.
#[derive(Debug)]
pub(crate) struct SampledRole {
    /// Recorder of its step or role.
    pub(crate) recorder: StepRecorder,
    /// Its clients.
    pub(crate) counters: Arc<RoleCounters>,
    /// Rows that reads returned after the warm-up.
    pub(crate) rows: u64,
    /// The gaps in which nothing was completed.
    pub(crate) gaps: GapTracker,
    /// Whether the target is in the lab's process, so that it is paused together with the lab.
    pub(crate) is_inside: bool,
    /// The time for which the lab itself was paused in the measured time.
    pub(crate) stood_still: Duration,
}

impl SampledRole {
    fn look_for_gaps(&mut self, begun: Instant) {
        let since = |at: Instant| at.saturating_duration_since(begun).as_secs_f64();
        let mut found = Gaps::default();
        for window in &self.counters.windows {
            found.take(&mut lock(window), begun);
        }
        if let Some(all) = found.all {
            for (from, to) in found
                .free
                .iter()
                .filter(|(from, to)| from.is_finite() && to.is_finite())
            {
                self.gaps.gap(*from, *to);
            }
            self.gaps
                .record_completions(all.count, since(all.first), since(all.last));
        }
    }
}

/// The periods in which none of the observed clients completed a call.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// Calls answered.
    pub(crate) all: Option<Completions>,
    /// Begin and end in seconds since the step began; the first period has no beginning and the
    /// last one no end.
    pub(crate) free: Vec<(f64, f64)>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            all: None,
            free: vec![(f64::NEG_INFINITY, f64::INFINITY)],
        }
    }
}

impl Gaps {
    /// Takes the data out of a window.
    pub(crate) fn take(&mut self, window: &mut Window, begun: Instant) {
        let since = |at: Instant| at.saturating_duration_since(begun).as_secs_f64();
        let gaps = std::mem::take(&mut window.gaps);
        if let Some(completions) = window.completions.take() {
            self.all = Some(completions.merge(self.all));
            let mut own = vec![(f64::NEG_INFINITY, since(completions.first))];
            own.extend(gaps.iter().map(|(from, to)| (since(*from), since(*to))));
            own.push((since(completions.last), f64::INFINITY));
            self.free = common(&self.free, &own);
        }
    }
}

/// The periods that are in both lists.
pub(crate) fn common(one: &[(f64, f64)], other: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let pairs = one
        .iter()
        .flat_map(|left| other.iter().map(move |right| (left, right)));
    pairs
        .map(|(left, right)| (left.0.max(right.0), left.1.min(right.1)))
        .filter(|(from, to)| from < to)
        .collect()
}

/// The input of a step's sampling, which is returned at its end.
#[derive(Debug)]
pub(crate) struct SamplerInput {
    /// The measured work first, then background work.
    pub(crate) sampled_roles: Vec<SampledRole>,
    /// Folder of the run.
    pub(crate) folder: RunFolder,
    /// The observed sources.
    pub(crate) instruments: Instruments,
    /// The display for the user.
    pub(crate) progress: Progress,
}

/// The sampled roles and folder, returned when a step has ended.
pub(crate) type SamplerResult = (Vec<SampledRole>, RunFolder, Instruments);

impl SamplerInput {
    /// Returns the parts when a step has ended.
    pub(crate) fn into_parts(self) -> SamplerResult {
        (self.sampled_roles, self.folder, self.instruments)
    }

    /// Samples from the start of the clients until `done` reports that they have finished. The
    /// instruments were restarted before the start. A row that cannot be written stops the step.
    pub(crate) fn run(
        mut self,
        control: &Arc<Control>,
        warmup: Duration,
        done: &Receiver<()>,
    ) -> Self {
        let begun = control.begin_time();
        let mut closed = Duration::ZERO;
        loop {
            // Ticks are at whole intervals after the start, so that errors of single ticks do not
            // add up.
            let next =
                INTERVAL.mul_f64((closed.as_secs_f64() / INTERVAL.as_secs_f64()).round() + 1.0);
            let finished = self.wait_until(next, begun, done);
            let now = begun.elapsed();
            // The tick at the end of the warm-up may be a little late, so half an interval of
            // tolerance is allowed.
            let is_warmup = closed + INTERVAL / 2 < warmup;
            self.close(control, closed, now, is_warmup);
            let is_next_warmup = now + INTERVAL / 2 < warmup;
            if is_warmup && !is_next_warmup {
                self.instruments.begin_measuring();
                for sampled_role in &mut self.sampled_roles {
                    sampled_role.gaps.start(now.as_secs_f64());
                }
            }
            closed = now;
            if finished {
                self.conclude_gaps(begun, now);
                self.progress.end();
                return self;
            }
        }
    }

    /// Waits until `next` or the end of the work, checks for gaps meanwhile, and returns whether
    /// the work has ended.
    fn wait_until(&mut self, next: Duration, begun: Instant, done: &Receiver<()>) -> bool {
        loop {
            let left = next.saturating_sub(begun.elapsed());
            let is_done = !matches!(
                done.recv_timeout(left.min(TICK)),
                Err(RecvTimeoutError::Timeout)
            );
            for sampled_role in &mut self.sampled_roles {
                sampled_role.look_for_gaps(begun);
            }
            if is_done || begun.elapsed() >= next {
                return is_done;
            }
        }
    }

    /// Removes pauses of the lab from the target's gaps.
    fn conclude_gaps(&mut self, begun: Instant, end: Duration) {
        let still = pulse::stretches(begun, begun + end);
        let since = |at: Instant| at.saturating_duration_since(begun).as_secs_f64();
        let still: Vec<(f64, f64)> = still.iter().map(|(a, b)| (since(*a), since(*b))).collect();
        for sampled_role in &mut self.sampled_roles {
            let seconds = sampled_role.recorder.seconds();
            let gaps = std::mem::take(&mut sampled_role.gaps);
            let mut gaps = gaps.finish(end.as_secs_f64(), seconds);
            if !sampled_role.is_inside {
                gaps.retain(|gap| !is_mostly(gap, &still));
            }
            sampled_role.recorder.set_gaps(gaps);
        }
    }

    fn close(&mut self, control: &Control, start: Duration, end: Duration, warmup: bool) {
        let mut is_first = true;
        let begun = control.begin_time();
        for sampled_role in &mut self.sampled_roles {
            let still = if sampled_role.is_inside {
                Duration::ZERO
            } else {
                pulse::stood_still(begun + start, begun + end)
            };
            let mut length = end.saturating_sub(start);
            if !warmup {
                sampled_role.stood_still += still;
            }
            // On a schedule the calls of a pause are made later; in a closed loop the time is lost.
            if !sampled_role.counters.has_schedule {
                length = length.saturating_sub(still);
            }
            let mut interval = Interval {
                start,
                length,
                warmup,
                ..Interval::default()
            };
            for window in &sampled_role.counters.windows {
                let mut window = lock(window);
                interval.ops += std::mem::take(&mut window.ops);
                interval.errors += std::mem::take(&mut window.errors);
                let rows = std::mem::take(&mut window.rows);
                sampled_role.rows += if warmup { 0 } else { rows };
                interval.latency.merge(&window.latency);
                window.latency.clear();
            }
            // The figures of processes and device belong to all roles together and are written
            // once.
            if is_first {
                self.instruments.fill(&mut interval);
            }
            if let Err(error) = sampled_role.recorder.push(&interval, &mut self.folder) {
                control.stop(&error.to_string());
            }
            if is_first {
                self.progress
                    .show(&interval, sampled_role.recorder.cumulative_rate());
            }
            is_first = false;
        }
    }
}

/// Whether a pause of the lab covers more than half of a gap.
fn is_mostly(gap: &Period, still: &[(f64, f64)]) -> bool {
    let end = gap.start_s + gap.seconds;
    let common = still
        .iter()
        .map(|(from, to)| (to.min(end) - from.max(gap.start_s)).max(0.0));
    common.sum::<f64>() > gap.seconds / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_where_no_client_completed_anything() {
        let all = [(f64::NEG_INFINITY, f64::INFINITY)];
        let one = [(f64::NEG_INFINITY, 0.0), (1.0, 3.0), (4.0, f64::INFINITY)];
        let other = [(f64::NEG_INFINITY, 0.5), (2.0, 2.5), (2.6, f64::INFINITY)];
        let both = common(&common(&all, &one), &other);
        let inside: Vec<(f64, f64)> = both
            .into_iter()
            .filter(|(from, to)| from.is_finite() && to.is_finite())
            .collect();
        assert_eq!(inside, [(2.0, 2.5), (2.6, 3.0)]);
    }
}
