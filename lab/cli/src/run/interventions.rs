//! Commands in the middle of a step, such as one that makes or drops an index.
//!
//! Promises: each command runs once, at its time since the step began; a command that fails ends
//! the step.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lab_kit::target::Target;
use lab_kit::workload::Step;
use tokio::task::JoinSet;

use super::context::Run;
use crate::clients::Control;
use crate::counters::lock;

/// The commands of a step.
pub(super) struct Interventions {
    tasks: JoinSet<()>,
    done: Arc<Mutex<Vec<String>>>,
}

impl<T: Target> Run<'_, T> {
    /// Starts the timers of the commands.
    pub(super) fn begin_interventions(&self, step: &Step, control: &Arc<Control>) -> Interventions {
        let mut out = Interventions {
            tasks: JoinSet::new(),
            done: Arc::default(),
        };
        for one in &step.during {
            let (control, done) = (control.clone(), out.done.clone());
            let (target, command) = (self.target.clone(), one.command());
            let after = Duration::from_secs_f64(one.after_seconds);
            out.tasks.spawn(async move {
                tokio::time::sleep(after.saturating_sub(control.begin_time().elapsed())).await;
                let begun = Instant::now();
                match target.run_command(command).await {
                    Ok(()) => lock(&done).push(format!(
                        "the command after {} s took {:.2} s",
                        after.as_secs_f64(),
                        begun.elapsed().as_secs_f64()
                    )),
                    Err(error) => control.stop(&format!(
                        "the command after {} s failed: {error}",
                        after.as_secs_f64()
                    )),
                }
            });
        }
        out
    }
}

impl Interventions {
    /// Waits a moment for commands under way and returns the results in words. It also reports
    /// commands whose time had not come when the step ended.
    pub(super) async fn end(mut self, timeout: Duration) -> String {
        let all = self.tasks.len();
        let wait = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(timeout.min(Duration::from_secs(5)), wait).await;
        self.tasks.abort_all();
        let mut done = lock(&self.done).clone();
        if done.len() < all {
            done.push(format!(
                "{} of {all} commands had not run when the step ended",
                all - done.len()
            ));
        }
        done.join("; ")
    }
}
