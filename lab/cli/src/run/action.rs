//! Steps that are actions: indexes, tables, settling, a restart.

use std::sync::PoisonError;
use std::time::Instant;

use lab_kit::folder::RunFolder;
use lab_kit::recorder::{ClientSummary, StepFacts, StepRecorder};
use lab_kit::result::Sizes;
use lab_kit::target::Target;
use lab_kit::work::Effect;
use lab_kit::workload::{Operation, Step};
use metrics::{Interval, LatencyHistogram};

use super::context::Run;
use super::state::StepEnd;
use crate::errors::LabError;
use crate::interrupt::wait_interrupt;
use crate::sampler::{INTERVAL, Instruments};

impl<T: Target> Run<'_, T> {
    /// Runs a step that is an action: it has one operation and no clients.
    pub(crate) async fn run_action(
        &self,
        step: &Step,
        mut folder: RunFolder,
        mut instruments: Instruments,
    ) -> Result<(StepEnd, RunFolder, Instruments), LabError> {
        let facts = StepFacts {
            name: step.name.clone(),
            operation: step.work.operation,
            measured: step.measured,
            clients: 1,
            batch: 1,
            open_loop: false,
            device: instruments.device().map(str::to_owned),
        };
        let mut recorder = StepRecorder::new(facts, INTERVAL);
        note_line!("{}", step.name);
        instruments.restart();
        let begun = Instant::now();
        let mut interval = Interval::default();
        let mut start_seconds = None;
        let act = self.act(
            step,
            &mut interval.latency,
            &mut start_seconds,
            instruments.server_pid(),
        );
        let acted = tokio::select! {
            acted = act => acted,
            () = wait_interrupt() => Err("interrupted".to_owned()),
        };
        interval.length = begun.elapsed();
        let (remark, mut stopped_because) = match acted {
            Ok((ops, remark)) => {
                interval.ops = ops;
                (remark, None)
            }
            Err(reason) => (reason.clone(), Some(format!("{}: {reason}", step.name))),
        };
        if step.work.operation == Operation::Restart {
            instruments.watch_process(self.target.inspect().await.pid);
        }
        instruments.fill(&mut interval);
        let details = instruments.details();
        if let Err(error) = recorder.push(&interval, &mut folder) {
            stopped_because.get_or_insert_with(|| error.to_string());
        }
        let mut sizes = if stopped_because.is_none() {
            self.target.sizes().await
        } else {
            Sizes::default()
        };
        details.fill_sizes(&mut sizes);
        let summary = ClientSummary {
            ops: interval.ops,
            active: interval.length,
            ..ClientSummary::default()
        };
        let mut result = recorder.finish(&folder, &[summary], Default::default(), sizes)?;
        result.more.remark = remark;
        result.more.start_seconds = start_seconds;
        if step.work.operation == Operation::Settle && stopped_because.is_none() {
            let statistics = self.target.statistics().await;
            result.more.debt_bytes = self.target.debt_bytes(&statistics);
        }
        details.fill_step(&mut result);
        let end = StepEnd {
            result,
            effect: Effect::default(),
            stopped_because,
            checks: Vec::new(),
        };
        Ok((end, folder, instruments))
    }

    /// Rows that the tables hold.
    fn rows(&self) -> u64 {
        let marks = self.dataset.table_checkpoints();
        marks.iter().map(|mark| mark.visible - mark.deleted).sum()
    }

    async fn act(
        &self,
        step: &Step,
        latency: &mut LatencyHistogram,
        start_seconds: &mut Option<f64>,
        pid: Option<u32>,
    ) -> Result<(u64, String), String> {
        let begun = Instant::now();
        let done = match step.work.operation {
            Operation::CreateIndexes => {
                let indexes = self.indexes();
                self.target
                    .create_indexes(&indexes)
                    .await
                    .map_err(|error| error.to_string())?;
                self.dataset
                    .indexes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .extend(indexes);
                (self.rows(), String::new())
            }
            Operation::CreateTables => {
                for number in 1..=self.settings.extra_tables {
                    let begun = Instant::now();
                    self.target
                        .create_extra_table(number)
                        .await
                        .map_err(|error| error.to_string())?;
                    latency.record(begun.elapsed());
                }
                return Ok((u64::from(self.settings.extra_tables), String::new()));
            }
            Operation::Command => {
                self.target
                    .run_command(step.command())
                    .await
                    .map_err(|error| error.to_string())?;
                (1, String::new())
            }
            Operation::AwaitSearch => {
                let timeout = self.arguments.settle_time();
                let ready = self.target.await_search(timeout).await;
                ready.map_err(|error| error.to_string())?;
                (self.rows(), String::new())
            }
            Operation::Restart => {
                let seconds = self.restart(pid).await?;
                *start_seconds = Some(seconds);
                (
                    1,
                    format!("answered after {}", lab_kit::format::seconds(seconds)),
                )
            }
            Operation::Empty => {
                self.target
                    .drop_tables()
                    .await
                    .map_err(|error| error.to_string())?;
                self.target
                    .prepare()
                    .await
                    .map_err(|error| error.to_string())?;
                self.dataset.record_emptied();
                (1, String::new())
            }
            _ => {
                let timeout = self.arguments.settle_time();
                let rest = self.target.settle(timeout).await;
                let remark = if rest.is_idle {
                    rest.remark
                } else {
                    format!("not at rest: {}", rest.remark)
                };
                (1, remark)
            }
        };
        latency.record(begun.elapsed());
        Ok(done)
    }
}
