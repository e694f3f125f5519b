//! Schedules the rounds of workers. Must not know: threads, what workers do.

use super::worker::{NextRound, Scope, Worker, WorkerFn};
use model::Result;
use state::service::Service;
use state::workers::{Progress, RoundContext};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause before a worker that panicked starts again.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Workers that take turns on one thread.
pub struct Schedule(Vec<ScheduledWorker>);

/// Time for which a worker of the database keeps to the answer whether its work is this server's.
const JOB_KEPT: Duration = Duration::from_secs(1);

/// A worker and the time of its next round.
struct ScheduledWorker {
    worker: &'static Worker,
    work: WorkerFn,
    progress: Arc<Progress>,
    /// `None` when the worker has ended.
    at: Option<Instant>,
    /// Whether this server has the work of a worker of the database, and since when that is known.
    job: Option<(bool, Instant)>,
}

impl Schedule {
    /// Starts workers; all are due at once.
    pub fn new(service: &Service, workers: impl IntoIterator<Item = &'static Worker>) -> Schedule {
        let due = |worker: &'static Worker| ScheduledWorker {
            worker,
            work: (worker.work)(),
            progress: service.state.workers.start(worker.name),
            at: Some(Instant::now()),
            job: None,
        };
        Schedule(workers.into_iter().map(due).collect())
    }

    /// Runs one round of each worker that is due, until `go_on` returns false. Returns how long no
    /// worker is due; `None` when all have ended.
    pub fn run_due(
        &mut self,
        service: &Arc<Service>,
        go_on: &dyn Fn() -> bool,
    ) -> Option<Duration> {
        for due in &mut self.0 {
            if go_on() && due.is_due(service) {
                due.round(service, go_on);
            }
        }
        let next = self.0.iter().filter_map(|due| due.at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

/// Runs workers in turns on the calling thread until `go_on` returns false or all have ended.
/// `go_on` is called when a worker is due and when the thread is unparked.
pub fn run(
    service: &Arc<Service>,
    workers: impl IntoIterator<Item = &'static Worker>,
    go_on: &dyn Fn() -> bool,
) {
    let mut schedule = Schedule::new(service, workers);
    while go_on()
        && let Some(rest) = schedule.run_due(service, go_on)
    {
        if !rest.is_zero() && go_on() {
            std::thread::park_timeout(rest);
        }
    }
}

impl ScheduledWorker {
    fn is_due(&self, service: &Service) -> bool {
        self.at
            .is_some_and(|at| at <= Instant::now() || (self.worker.is_due_early)(service))
    }

    fn round(&mut self, service: &Arc<Service>, go_on: &dyn Fn() -> bool) {
        let ScheduledWorker {
            worker,
            work,
            progress,
            at,
            job,
        } = self;
        let turn = RoundContext::new(go_on, progress);
        let round = || match begin(service, worker, job)? {
            true => progress.round(service.clock.as_ref(), || work(service, &turn)),
            false => Ok(NextRound::Again),
        };
        let (component, text) = worker.error;
        *at = Some(Instant::now() + worker.period);
        match catch_unwind(AssertUnwindSafe(round)) {
            Ok(Ok(NextRound::Again)) => {}
            Ok(Ok(NextRound::Ended)) => *at = None,
            // A worker that was told to end may return an error.
            Ok(Err(_)) if !go_on() => {}
            Ok(Err(e)) => {
                progress.add_error();
                service.log('W', component, &format!("{text}: {}", e.message()));
            }
            Err(_) => {
                progress.add_error();
                let name = worker.name;
                let message = format!("the worker {name} panicked and begins again");
                service.log('F', component, &message);
                *work = (worker.work)();
                *at = Some(Instant::now() + worker.period.max(AFTER_PANIC));
            }
        }
    }
}

/// Brings the store to the newest state where other servers write, too. False when another server
/// does this work.
fn begin(service: &Service, worker: &Worker, job: &mut Option<(bool, Instant)>) -> Result<bool> {
    if service.store.peer().is_none() {
        return Ok(true);
    }
    if worker.scope == Scope::Database {
        let known = job.filter(|(_, since)| since.elapsed() < JOB_KEPT);
        let known = match known {
            Some(known) => known,
            None => (service.store.take_job(worker.name)?, Instant::now()),
        };
        *job = Some(known);
        if !known.0 {
            return Ok(false);
        }
    }
    service.store.begin_moment().map(|_| true)
}
