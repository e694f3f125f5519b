//! Reads documents in parts by key, on several threads. Each thread reads the parts of its run in
//! order; a thread without parts left takes over the second half of the longest remaining run. So
//! each result covers consecutive parts, and the results in the order of their parts equal one
//! scan. Must not know: what is done with the documents.

use super::reader::{Criteria, Reader, STEP_DOCS};
use super::scan::reads_ids;
use super::segments::ColumnScan;
use super::taker::{Consumer, StepOutcome};
use crate::exec::{MatchFilter, Permit};
use crate::plan::{Access, Plan, is_named};
use crate::shown::ReadCounts;
use model::{MongoError, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::{Collection, Part, Parts, ReadView};

/// Steps that the caller reads alone: only a longer read is worth a second thread.
const STEPS_ALONE: usize = 4;
/// Number of parts of a scan, so that no thread waits long for the last one.
const PARTS: usize = 64;
/// Most threads of one read.
const WORKERS_MAX: usize = 16;

/// A read that can be done in parts.
pub(super) struct PartitionedRead<'r> {
    pub(super) coll: &'r Arc<Collection>,
    pub(super) plan: &'r Plan,
    pub(super) wanted: Criteria<'r>,
}

/// The permits of the helper threads of a read.
pub(super) fn permits() -> Vec<Permit> {
    let helpers = std::iter::from_fn(Permit::take).take(WORKERS_MAX - 1);
    helpers.collect()
}

/// A collection divided into consecutive parts of one snapshot.
#[derive(Clone, Copy)]
struct Partitions<'p> {
    view: &'p ReadView,
    list: &'p [Part],
    /// The column index, which has segments for some of the parts.
    columns: Option<&'p ColumnScan>,
}

/// The result of a read in parts.
pub(super) struct PartitionedResult<T> {
    /// The takers, in the order of their documents.
    pub(super) takers: Vec<T>,
    /// Documents examined.
    pub(super) docs: u64,
    /// A taker has stopped the read.
    pub(super) stopped: bool,
}

/// Whether a plan reads documents in an order that can be divided, with a filter that gives the
/// same result on every thread (no scripts, no random numbers).
pub(crate) fn has_parts(plan: &Plan, filter: Option<&MatchFilter>) -> bool {
    if !is_named(filter) {
        return false;
    }
    let forward = matches!(
        plan.access,
        Access::Collection { reverse: false } | Access::IdRange { reverse: false, .. }
    );
    forward && plan.series.is_none() && plan.times.is_none() && plan.cached.is_none()
}

impl PartitionedRead<'_> {
    /// Reads everything. The caller counts the documents with [`PartitionedRead::count`]. If there
    /// are more documents than the first steps, `head` gets their counts.
    ///
    /// # Errors
    /// Those of the filter, of the takers and of the store; the operation's interrupt.
    pub(super) fn run<T: Consumer>(
        &self,
        taken: &mut PartitionedResult<T>,
        make: &(dyn Fn() -> T + Sync),
        head: &dyn Fn(ReadCounts),
    ) -> Result<()> {
        let mut first = make();
        let mut reader = Reader::open(self.coll, self.plan, self.wanted.env).uncounted();
        let mut ended = Ok(StepOutcome::More);
        let (mut steps, mut parts) = (0, None);
        while matches!(ended, Ok(StepOutcome::More)) && parts.is_none() {
            ended = step(&mut reader, &self.wanted, &mut first);
            steps += 1;
            if steps == STEPS_ALONE && matches!(ended, Ok(StepOutcome::More)) {
                head(reader.counts());
                parts = self.split(&reader)?;
            }
        }
        taken.add(&reader);
        drop(reader);
        taken.stopped = matches!(ended, Ok(StepOutcome::Stop));
        ended?;
        match parts {
            Some((parts, permits)) => {
                let parts = Partitions {
                    view: &parts.view,
                    list: &parts.list,
                    columns: None,
                };
                self.read_in_parallel(taken, first, parts, permits, make)
            }
            None => {
                taken.takers.push(first);
                Ok(())
            }
        }
    }

    /// Reads everything from the segments of a column index, and documents where there is no
    /// segment or where they have changed. The caller counts as after [`PartitionedRead::run`].
    ///
    /// # Errors
    /// As [`PartitionedRead::run`].
    pub(super) fn run_columns<T: Consumer>(
        &self,
        taken: &mut PartitionedResult<T>,
        make: &(dyn Fn() -> T + Sync),
        columns: &ColumnScan,
    ) -> Result<()> {
        let permits = match columns.is_long() {
            true => permits(),
            false => Vec::new(),
        };
        let parts = Partitions {
            view: columns.view(),
            list: columns.parts(),
            columns: Some(columns),
        };
        self.read_in_parallel(taken, make(), parts, permits, make)
    }

    /// Adds the examined documents to the operation's counters; must be called once, after the
    /// read.
    pub(super) fn count(&self, docs: u64) {
        let keys = match reads_ids(self.coll, self.plan) {
            true => docs,
            false => 0,
        };
        if let Some(operation) = &self.wanted.env.operation {
            operation.reads().add(keys, docs);
        }
    }

    /// The rest of the read in parts, with the permits of the helpers; `None` if the caller reads
    /// it alone.
    fn split(&self, reader: &Reader) -> Result<Option<(Parts, Vec<Permit>)>> {
        let Some(position) = reader.position() else {
            return Ok(None);
        };
        let permits = permits();
        if permits.is_empty() {
            return Ok(None);
        }
        let upper = match &self.plan.access {
            Access::IdRange { upper, .. } => upper.as_deref(),
            _ => None,
        };
        let view = &self.plan.view;
        let parts = self.coll.split_parts(view, position, upper, PARTS)?;
        Ok(parts.map(|parts| (parts, permits)))
    }

    fn read_in_parallel<T: Consumer>(
        &self,
        taken: &mut PartitionedResult<T>,
        first: T,
        parts: Partitions<'_>,
        permits: Vec<Permit>,
        make: &(dyn Fn() -> T + Sync),
    ) -> Result<()> {
        let workers = permits.len() + 1;
        let shared = Shared {
            read: self,
            parts,
            runs: PartQueues::new(parts.list.len(), workers),
            stop: AtomicBool::new(false),
            make,
        };
        let all = std::thread::scope(|scope| {
            let helpers: Vec<_> = permits
                .into_iter()
                .enumerate()
                .map(|(i, permit)| {
                    let shared = &shared;
                    scope.spawn(move || {
                        let _permit = permit;
                        let operation = shared.read.wanted.env.operation.as_ref();
                        let _account = operation.map(|op| op.join());
                        shared.work(i + 1, (shared.make)())
                    })
                })
                .collect();
            let mut all = vec![shared.work(0, first)];
            all.extend(helpers.into_iter().map(|h| {
                h.join().unwrap_or_else(|_| {
                    ThreadResult::of_error(MongoError::internal(
                        "a part of a read ended unexpectedly",
                    ))
                })
            }));
            all
        });
        let (mut takers, mut failed) = (Vec::new(), None);
        for done in all {
            taken.docs += done.docs;
            taken.stopped |= done.stopped;
            takers.extend(done.takers);
            failed = failed.or(done.failed);
        }
        takers.sort_by_key(|(part, _)| *part);
        taken.takers.extend(takers.into_iter().map(|(_, t)| t));
        failed.map_or(Ok(()), Err)
    }
}

fn step<T: Consumer>(
    reader: &mut Reader,
    wanted: &Criteria<'_>,
    taker: &mut T,
) -> Result<StepOutcome> {
    let mut wants = true;
    taker.begin_step()?;
    let filter = wanted.filter.filter(|_| !taker.filters());
    let wanted = Criteria { filter, ..*wanted };
    let more = reader.step(&wanted, STEP_DOCS, |row| {
        wants = taker.take(row.doc)?;
        Ok(wants)
    })?;
    Ok(match (wants, more) {
        (false, _) => StepOutcome::Stop,
        (true, true) => StepOutcome::More,
        (true, false) if taker.settle()? => StepOutcome::End,
        (true, false) => StepOutcome::Stop,
    })
}

impl<T> PartitionedResult<T> {
    /// An empty result.
    pub(super) fn new() -> PartitionedResult<T> {
        PartitionedResult {
            takers: Vec::new(),
            docs: 0,
            stopped: false,
        }
    }

    fn add(&mut self, reader: &Reader) {
        self.docs += reader.counts().docs;
    }
}

/// The work of one thread.
struct ThreadResult<T> {
    /// Each taker with the number of its first part.
    takers: Vec<(usize, T)>,
    docs: u64,
    stopped: bool,
    failed: Option<MongoError>,
}

impl<T> ThreadResult<T> {
    fn of_error(e: MongoError) -> ThreadResult<T> {
        ThreadResult {
            takers: Vec::new(),
            docs: 0,
            stopped: false,
            failed: Some(e),
        }
    }
}

/// State shared by the threads of one read.
struct Shared<'s, T> {
    read: &'s PartitionedRead<'s>,
    parts: Partitions<'s>,
    runs: PartQueues,
    /// A thread has failed or wants no more.
    stop: AtomicBool,
    make: &'s (dyn Fn() -> T + Sync),
}

impl<T: Consumer> Shared<'_, T> {
    fn work(&self, worker: usize, first: T) -> ThreadResult<T> {
        let mut done = ThreadResult {
            takers: vec![(self.runs.first(worker), first)],
            docs: 0,
            stopped: false,
            failed: None,
        };
        while let Some(next) = self.runs.next(worker) {
            if next.elsewhere {
                done.takers.push((next.part, (self.make)()));
            }
            match self.read_part(next.part, &mut done) {
                Ok(StepOutcome::Stop) => done.stopped = true,
                Ok(_) => continue,
                Err(e) => done.failed = Some(e),
            }
            self.stop.store(true, Relaxed);
            break;
        }
        done
    }

    fn read_part(&self, at: usize, done: &mut ThreadResult<T>) -> Result<StepOutcome> {
        let (Some(part), Some((_, taker))) = (self.parts.list.get(at), done.takers.last_mut())
        else {
            return Ok(StepOutcome::End);
        };
        let PartitionedRead { coll, plan, wanted } = self.read;
        if let Some(columns) = self.parts.columns {
            let go_on = || match self.stop.load(Relaxed) {
                true => Ok(false),
                false => wanted.env.check_interrupt().map(|()| true),
            };
            if let Some(ended) = columns.read(at, taker, &mut done.docs, &go_on)? {
                return Ok(ended);
            }
        }
        let mut reader = Reader::part(coll, self.parts.view, part, plan.complete);
        let mut ended = Ok(StepOutcome::More);
        while matches!(ended, Ok(StepOutcome::More)) {
            ended = match self.stop.load(Relaxed) {
                true => Ok(StepOutcome::Stop),
                false => step(&mut reader, wanted, taker),
            };
        }
        done.docs += reader.counts().docs;
        ended
    }
}

/// For each thread, the parts that are still to be read.
struct PartQueues(Mutex<Vec<Run>>);

#[derive(Clone, Copy)]
struct Run {
    first: usize,
    next: usize,
    end: usize,
}

/// The next part for a thread.
struct NextPart {
    part: usize,
    /// It does not follow the thread's previous part.
    elsewhere: bool,
}

impl PartQueues {
    fn new(parts: usize, workers: usize) -> PartQueues {
        let place = |worker: usize| worker * parts / workers;
        let run = |worker| Run {
            first: place(worker),
            next: place(worker),
            end: place(worker + 1),
        };
        PartQueues(Mutex::new((0..workers).map(run).collect()))
    }

    /// The first part of a thread.
    fn first(&self, worker: usize) -> usize {
        self.0.lock().get(worker).map_or(0, |run| run.first)
    }

    fn next(&self, worker: usize) -> Option<NextPart> {
        let mut runs = self.0.lock();
        let own = runs.get_mut(worker)?;
        if own.next < own.end {
            own.next += 1;
            let (part, elsewhere) = (own.next - 1, false);
            return Some(NextPart { part, elsewhere });
        }
        let longest = runs.iter_mut().max_by_key(|run| run.end - run.next)?;
        let left = longest.end - longest.next;
        if left == 0 {
            return None;
        }
        let (middle, end) = (longest.next + left / 2, longest.end);
        longest.end = middle;
        *runs.get_mut(worker)? = Run {
            first: middle,
            next: middle + 1,
            end,
        };
        let (part, elsewhere) = (middle, true);
        Some(NextPart { part, elsewhere })
    }
}

#[cfg(test)]
mod tests {
    use super::PartQueues;

    #[test]
    fn each_part_is_read_once_and_runs_stay_together() {
        for workers in 1..5 {
            let runs = PartQueues::new(64, workers);
            let mut seen = Vec::new();
            // The last thread takes all parts it can get; the others start later.
            for worker in (0..workers).rev() {
                let mut last = runs.first(worker);
                while let Some(next) = runs.next(worker) {
                    assert!(next.elsewhere || next.part == last, "{workers} {worker}");
                    last = next.part + 1;
                    seen.push(next.part);
                }
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..64), "{workers}: {seen:?}");
        }
    }
}
