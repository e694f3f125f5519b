//! Stopping the target and starting it again by the user's command, and how long it takes until it
//! answers.
//!
//! Promises: the time counts from the start of the new process, where it can be seen, or else from
//! the end of the old one: neither a slow shutdown nor a slow script is taken for a slow start. A
//! command that fails or a target that does not come back ends the step with a reason.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab_kit::target::Target;

use super::context::Run;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl<T: Target> Run<'_, T> {
    /// Restarts the target whose process is `pid`; seconds until it answered.
    pub(crate) async fn restart(&self, pid: Option<u32>) -> Result<f64, String> {
        let Some(command) = &self.arguments.restart_command else {
            return Err("--restart-command is missing".to_owned());
        };
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot run the restart command: {error}"))?;
        let timeout = Duration::from_secs(self.arguments.settle_seconds);
        let begun = Instant::now();
        // Where the process cannot be observed, shutting down is part of the time.
        let mut gone = pid.is_none().then_some(begun);
        while begun.elapsed() < timeout {
            // A server that stays in the foreground is no failure; a command that ends with one is.
            if let Ok(Some(status)) = child.try_wait()
                && !status.success()
            {
                return Err(format!("the restart command ended with {status}"));
            }
            if gone.is_none() && pid.is_some_and(|pid| !metrics::is_alive(pid)) {
                gone = Some(Instant::now());
            }
            if let Some(gone) = gone
                && self.target.answers().await
            {
                let (answered, waited) = (Instant::now(), gone.elapsed());
                // The old connections are dead; making them again is no part of the
                // start.
                while self.target.reconnect().await.is_err() && begun.elapsed() < timeout {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                // The process that answers now is as old as its start took and its reconnecting
                // since.
                let new = self
                    .target
                    .inspect()
                    .await
                    .pid
                    .filter(|new| Some(*new) != pid);
                let age = new
                    .and_then(metrics::age)
                    .map(|age| age.saturating_sub(answered.elapsed()));
                return Ok(age.map_or(waited, |age| age.min(waited)).as_secs_f64());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(format!(
            "the target did not answer within {} s after the restart command",
            timeout.as_secs()
        ))
    }
}
