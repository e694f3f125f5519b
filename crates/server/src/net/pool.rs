//! Threads for work that may block. Promises: grows on demand up to a limit, shrinks when idle,
//! starts jobs in order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::buffers::Buffers;
use memory::Budget;

const IDLE_EXIT: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce(&mut Buffers) + Send>;

pub(super) struct Pool {
    name: &'static str,
    state: Mutex<State>,
    wake: Condvar,
    max_threads: usize,
    memory: Arc<Budget>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    stopped: bool,
}

impl Pool {
    pub(super) fn new(name: &'static str, max_threads: usize, memory: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: Mutex::default(),
            wake: Condvar::new(),
            max_threads: max_threads.max(1),
            memory,
        })
    }

    /// Runs `job` as soon as a thread is free. False if no thread exists and none could be started:
    /// the job then waits for a later one.
    pub(super) fn submit(
        self: &Arc<Self>,
        job: impl FnOnce(&mut Buffers) + Send + 'static,
    ) -> bool {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        // Each idle thread will take one waiting job.
        if state.idle >= state.jobs.len() || state.threads >= self.max_threads {
            drop(state);
            self.wake.notify_one();
            return true;
        }
        state.threads += 1;
        drop(state);
        let pool = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name(self.name.into())
            .spawn(move || pool.work());
        if spawned.is_err() {
            // The system gives no more threads: the job stays queued for the existing ones.
            let mut state = self.state.lock();
            state.threads -= 1;
            let any = state.threads > 0;
            drop(state);
            self.wake.notify_one();
            return any;
        }
        true
    }

    /// Ends the threads once the queue is empty.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_all();
    }

    fn work(&self) {
        let mut buffers = Buffers::new(&self.memory);
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job(&mut buffers);
                state = self.state.lock();
                continue;
            }
            if state.stopped {
                break;
            }
            state.idle += 1;
            let timed_out = self.wake.wait_for(&mut state, IDLE_EXIT).timed_out();
            state.idle -= 1;
            if timed_out && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}
