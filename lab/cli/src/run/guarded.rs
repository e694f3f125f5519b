//! A target with a time limit for each request, also if its driver blocks the thread.
//!
//! Promises: a target that hangs for ever never hangs the lab outside measured calls (`step.rs`
//! watches those). A request that may take long, such as a count, has no time limit as long as the
//! target answers new connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lab_kit::nearest::{Recall, Similarity};
use lab_kit::result::{Sizes, TargetFacts};
use lab_kit::target::{ChangeReader, SettleResult, Target, TargetError, TargetInfo};
use lab_kit::template::Tree;
use lab_kit::workload::{Capability, Index};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The interval between two checks that the target still answers.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// A settling target may end its wait a little late.
const SETTLE_SLACK: Duration = Duration::from_secs(10);
/// The name of threads for such requests, which differs from clients' because their reads are not
/// those of measured calls.
const THREAD: &str = "lab-question";

/// The time limits of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLimits {
    /// The limit of a short request, after which a target is considered dead.
    pub(super) short: Duration,
    /// The limit of a long request to an engine in this process, which has no connection that could
    /// be tested.
    pub(super) long: Duration,
}

/// A target with time limits.
pub(super) struct LimitedTarget<T> {
    inner: Arc<T>,
    limits: TimeLimits,
}

impl<T: Target> LimitedTarget<T> {
    pub(super) fn new(target: T, limits: TimeLimits) -> Self {
        Self {
            inner: Arc::new(target),
            limits,
        }
    }

    /// Runs a request on a new thread, which is abandoned if it hangs.
    fn ask<R, F>(&self, question: impl FnOnce(Arc<T>) -> F + Send + 'static) -> JoinHandle<R>
    where
        R: Send + 'static,
        F: Future<Output = R>,
    {
        let (target, runtime) = (self.inner.clone(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let _ = std::fs::write("/proc/thread-self/comm", THREAD);
            runtime.block_on(question(target))
        })
    }

    async fn limit_time<R>(limit: Duration, asked: JoinHandle<R>) -> Result<R, String> {
        match tokio::time::timeout(limit, asked).await {
            Ok(answer) => Ok(join_request(answer)),
            Err(_) => Err(no_answer(limit)),
        }
    }

    /// Runs a request that the target answers immediately.
    async fn short<R, F>(
        &self,
        question: impl FnOnce(Arc<T>) -> F + Send + 'static,
    ) -> Result<R, String>
    where
        R: Send + 'static,
        F: Future<Output = R>,
    {
        Self::limit_time(self.limits.short, self.ask(question)).await
    }

    /// Runs a request that may take as long as the target answers new connections.
    async fn long<R, F>(
        &self,
        question: impl FnOnce(Arc<T>) -> F + Send + 'static,
    ) -> Result<R, String>
    where
        R: Send + 'static,
        F: Future<Output = R>,
    {
        let mut asked = self.ask(question);
        if !self.inner.can_restart() {
            return Self::limit_time(self.limits.long, asked).await;
        }
        let mut alive = Instant::now();
        loop {
            match tokio::time::timeout(PROBE_INTERVAL, &mut asked).await {
                Ok(answer) => return Ok(join_request(answer)),
                Err(_) if alive.elapsed() >= self.limits.short => {
                    return Err(no_answer(self.limits.short));
                }
                Err(_) => {}
            }
            let probe = self.ask(|target| async move { target.answers().await });
            // The answer may arrive while the probe waits.
            tokio::select! {
                answer = &mut asked => return Ok(join_request(answer)),
                answered = Self::limit_time(self.limits.short, probe) => {
                    if answered == Ok(true) {
                        alive = Instant::now();
                    }
                }
            }
        }
    }
}

/// A panic in a request is a bug of the lab and must be reported.
fn join_request<R>(answer: Result<R, tokio::task::JoinError>) -> R {
    answer.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}

fn report_gone(what: &str) -> impl Fn(String) -> TargetError {
    move |reason| TargetError::Unreachable {
        address: format!("the target ({what})"),
        reason,
    }
}

impl<T: Target> Target for LimitedTarget<T> {
    type Session = T::Session;

    async fn inspect(&self) -> TargetInfo {
        let asked = self.short(|target| async move { target.inspect().await });
        asked.await.unwrap_or_else(|reason| TargetInfo {
            facts: TargetFacts {
                not_watched_because: Some(reason),
                ..TargetFacts::default()
            },
            ..TargetInfo::default()
        })
    }

    fn unsupported(&self) -> &'static [Capability] {
        self.inner.unsupported()
    }

    async fn prepare(&self) -> Result<(), TargetError> {
        let asked = self.long(|target| async move { target.prepare().await });
        asked.await.map_err(report_gone("to prepare tables"))?
    }

    fn takes_programs(&self) -> bool {
        self.inner.takes_programs()
    }

    fn takes_documents(&self) -> bool {
        self.inner.takes_documents()
    }

    fn servers_reached(&self) -> usize {
        self.inner.servers_reached()
    }

    async fn run_command(&self, command: Tree) -> Result<(), TargetError> {
        let asked = self.long(|target| async move { target.run_command(command).await });
        asked.await.map_err(report_gone("to do a command"))?
    }

    async fn evaluate(
        &self,
        collection: Option<String>,
        pipeline: Vec<Tree>,
    ) -> Result<String, String> {
        self.long(|target| async move { target.evaluate(collection, pipeline).await })
            .await?
    }

    async fn evaluate_copy(&self, pipeline: Vec<Tree>) -> Result<String, String> {
        self.long(|target| async move { target.evaluate_copy(pipeline).await })
            .await?
    }

    async fn await_search(&self, timeout: Duration) -> Result<(), TargetError> {
        let asked = self.ask(move |target| async move { target.await_search(timeout).await });
        let asked = Self::limit_time(timeout + SETTLE_SLACK, asked).await;
        asked.map_err(report_gone("to wait for search indexes"))?
    }

    async fn recall(
        &self,
        similarity: Similarity,
        searches: Vec<Vec<Tree>>,
    ) -> Result<Recall, String> {
        self.long(move |target| async move { target.recall(similarity, searches).await })
            .await?
    }

    async fn readers(&self, count: u32) -> Result<Vec<Box<dyn ChangeReader>>, TargetError> {
        let asked = self.long(move |target| async move { target.readers(count).await });
        asked.await.map_err(report_gone("to read changes"))?
    }

    async fn oldest(&self, field: String) -> Result<(Option<i64>, u64), String> {
        let asked = self.short(|target| async move { target.oldest(field).await });
        asked.await?
    }

    fn can_restart(&self) -> bool {
        self.inner.can_restart()
    }

    async fn answers(&self) -> bool {
        let asked = self.short(|target| async move { target.answers().await });
        asked.await.unwrap_or(false)
    }

    async fn reconnect(&self) -> Result<(), TargetError> {
        let asked = self.short(|target| async move { target.reconnect().await });
        asked.await.map_err(report_gone("to connect again"))?
    }

    fn attach(&self, indexes: &[Index]) {
        self.inner.attach(indexes);
    }

    async fn create_indexes(&self, indexes: &[Index]) -> Result<(), TargetError> {
        let indexes = indexes.to_vec();
        let asked = self.long(|target| async move { target.create_indexes(&indexes).await });
        asked.await.map_err(report_gone("to create indexes"))?
    }

    async fn create_extra_table(&self, number: u32) -> Result<(), TargetError> {
        let asked = self.long(move |target| async move { target.create_extra_table(number).await });
        asked.await.map_err(report_gone("to create a table"))?
    }

    async fn session(&self, sync: bool) -> Result<T::Session, TargetError> {
        let asked = self.short(move |target| async move { target.session(sync).await });
        asked.await.map_err(report_gone("to connect"))?
    }

    async fn count(&self) -> Result<u64, String> {
        self.long(|target| async move { target.count().await })
            .await?
    }

    async fn sum_of_k(&self) -> Result<i64, String> {
        self.long(|target| async move { target.sum_of_k().await })
            .await?
    }

    async fn delete_above(&self, table: usize, number: i64) -> Result<(), TargetError> {
        let asked =
            self.long(move |target| async move { target.delete_above(table, number).await });
        asked.await.map_err(report_gone("to delete"))?
    }

    async fn sizes(&self) -> Sizes {
        let asked = self.long(|target| async move { target.sizes().await });
        asked.await.unwrap_or_default()
    }

    async fn settle(&self, timeout: Duration) -> SettleResult {
        let asked = self.ask(move |target| async move { target.settle(timeout).await });
        let limit = timeout + SETTLE_SLACK;
        Self::limit_time(limit, asked)
            .await
            .unwrap_or_else(|remark| SettleResult {
                is_idle: false,
                remark,
            })
    }

    fn debt_bytes(&self, statistics: &serde_json::Value) -> Option<u64> {
        self.inner.debt_bytes(statistics)
    }

    async fn statistics(&self) -> serde_json::Value {
        let asked = self.short(|target| async move { target.statistics().await });
        asked.await.unwrap_or_default()
    }

    async fn drop_tables(&self) -> Result<(), TargetError> {
        let asked = self.long(|target| async move { target.drop_tables().await });
        asked.await.map_err(report_gone("to drop tables"))?
    }
}
