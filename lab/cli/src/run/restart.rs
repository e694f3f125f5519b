//! Restarts the target by the user's command and measures the time until it answers.
//!
//! Promises: the time counts from the start of the new process if it can be observed, or else from
//! the end of the old one, so that neither a slow shutdown nor a slow script counts as a slow
//! start. A command that fails or a target that does not come back ends the step with a reason.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab_kit::target::Target;

use super::context::Run;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl<T: Target> Run<'_, T> {
    /// Restarts the target whose process is `pid`; returns the seconds until it answered.
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
        // If the process cannot be observed, the shutdown is part of the time.
        let mut gone = pid.is_none().then_some(begun);
        while begun.elapsed() < timeout {
            // A command that stays in the foreground as the server is fine; a command that ends
            // with an error is a failure.
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
                // The old connections are dead; connecting again does not count as part of the
                // start.
                while self.target.reconnect().await.is_err() && begun.elapsed() < timeout {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                // The age of the new process is the time of its start plus the time of
                // reconnecting, which is subtracted.
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
