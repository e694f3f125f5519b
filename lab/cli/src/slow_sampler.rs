//! A separate thread for samples that take too long for every second: the data directory, parts of
//! memory, open files, threads.
//!
//! Promises: the sampler never waits for this thread. Samples are ten seconds apart, or fifty times
//! the duration of the last one, so that a directory of hundreds of thousands of files takes two
//! percent of a core at most.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab_kit::usage::Details;
use metrics::{DirectorySize, MemoryParts, ThreadSampler, directory_size, open_descriptors};

use crate::counters::lock;

const INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a sample is this many times the sample's duration.
const PAUSE_FACTOR: u32 = 50;
/// The interval of samples of memory, for which the kernel walks all page tables of the process.
const MEMORY_EVERY: Duration = Duration::from_secs(60);

/// A request for an additional sample.
#[derive(Debug)]
enum Request {
    /// A step begins, or its warm-up has ended: discard all use until now.
    Restart,
    /// A step has ended: sample everything now.
    Conclude(Sender<Details>),
}

/// A handle of the sampling thread.
#[derive(Debug)]
pub(crate) struct SlowSampler {
    requests: Option<Sender<Request>>,
    fresh: Arc<Mutex<Option<DirectorySize>>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowSampler {
    /// Starts sampling process `pid` and `directory`, as far as they are known.
    pub(crate) fn start(pid: Option<u32>, directory: Option<PathBuf>) -> Self {
        let (requests, incoming) = channel();
        let fresh = Arc::new(Mutex::new(None));
        let sampler_thread = SlowSamplerThread {
            pid,
            directory,
            fresh: fresh.clone(),
            threads: pid.map(ThreadSampler::new),
            details: Details::default(),
            memory_at: None,
        };
        let thread = std::thread::spawn(move || sampler_thread.run(&incoming));
        Self {
            requests: Some(requests),
            fresh,
            thread: Some(thread),
        }
    }

    /// Forgets what happened until now.
    pub(crate) fn restart(&self) {
        *lock(&self.fresh) = None;
        self.send(Request::Restart);
    }

    /// The size of the directory, if it was sampled since the last call. Never waits.
    pub(crate) fn take_directory(&self) -> Option<DirectorySize> {
        lock(&self.fresh).take()
    }

    /// Samples everything, waits for it, and returns the use since [`Self::restart`].
    pub(crate) fn conclude(&self) -> Details {
        let (reply, answer) = channel();
        self.send(Request::Conclude(reply));
        answer.recv().unwrap_or_default()
    }

    fn send(&self, send: Request) {
        // The thread lives as long as this handle. If it were gone, the values in the result would
        // be null.
        if let Some(requests) = &self.requests {
            let _ = requests.send(send);
        }
    }
}

impl Drop for SlowSampler {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct SlowSamplerThread {
    pid: Option<u32>,
    directory: Option<PathBuf>,
    fresh: Arc<Mutex<Option<DirectorySize>>>,
    threads: Option<ThreadSampler>,
    details: Details,
    memory_at: Option<Instant>,
}

impl SlowSamplerThread {
    fn run(mut self, incoming: &Receiver<Request>) {
        let mut pause = INTERVAL;
        loop {
            match incoming.recv_timeout(pause) {
                Ok(Request::Restart) => {
                    self.details = Details::default();
                    if let Some(threads) = &mut self.threads {
                        threads.restart();
                    }
                }
                Ok(Request::Conclude(reply)) => {
                    self.memory_at = None;
                    self.sample();
                    let _ = reply.send(self.details.clone());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let begun = Instant::now();
                    self.sample();
                    pause = pause_after(begun.elapsed());
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn sample(&mut self) {
        let size = self
            .directory
            .as_deref()
            .and_then(|path: &Path| directory_size(path).ok());
        if let Some(size) = size {
            *lock(&self.fresh) = Some(size);
            self.details.directory = Some(size);
            self.details.directory_bytes_max = self
                .details
                .directory_bytes_max
                .max(Some(size.allocated_bytes));
        }
        let Some(pid) = self.pid else { return };
        self.details.open_files_max = self.details.open_files_max.max(open_descriptors(pid));
        if let Some(threads) = &mut self.threads {
            self.details.threads = threads.sample();
        }
        if self.memory_at.is_none_or(|at| at.elapsed() >= MEMORY_EVERY) {
            self.memory_at = Some(Instant::now());
            self.details.memory = MemoryParts::of(pid);
        }
    }
}

fn pause_after(took: Duration) -> Duration {
    INTERVAL.max(took.saturating_mul(PAUSE_FACTOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_directory_is_looked_at_less_often() {
        assert_eq!(pause_after(Duration::from_millis(20)), INTERVAL);
        assert_eq!(
            pause_after(Duration::from_secs(2)),
            Duration::from_secs(100)
        );
    }

    #[test]
    fn sees_what_is_there_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), vec![1; 10_000]).unwrap();
        let slow_sampler =
            SlowSampler::start(Some(std::process::id()), Some(dir.path().to_owned()));
        slow_sampler.restart();
        let details = slow_sampler.conclude();
        assert_eq!(
            details.directory.map(|size| size.apparent_bytes),
            Some(10_000)
        );
        assert!(
            details.open_files_max > Some(2)
                && details.memory.is_some()
                && !details.threads.is_empty()
        );
        assert_eq!(
            slow_sampler.take_directory().map(|size| size.files),
            Some(1)
        );
        assert_eq!(slow_sampler.take_directory(), None);
        let nobody = SlowSampler::start(None, None).conclude();
        assert!(nobody.directory.is_none() && nobody.threads.is_empty());
    }
}
