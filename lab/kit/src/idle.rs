//! Waiting until a process has no work left over, seen from outside.

use std::time::{Duration, Instant};

use metrics::ProcessSampler;

/// Polling interval.
const EVERY: Duration = Duration::from_millis(500);
/// A process is idle after this many polls in a row that saw no work.
const QUIET_LOOKS: u32 = 4;
/// A process that uses less CPU than this share of a core is idle: servers have clocks and
/// flushers.
const CPU_SHARE: f64 = 0.05;
/// A process that writes fewer bytes than this between two polls is idle.
const WRITTEN_BYTES: u64 = 64 << 10;

/// Waits until process `pid` neither writes nor computes. Returns whether it became idle, and a
/// remark.
pub fn wait_idle(pid: Option<u32>, timeout: Duration) -> (bool, String) {
    let Some(mut sampler) = pid.and_then(|pid| ProcessSampler::new(pid).ok()) else {
        return (
            false,
            "its process is not observed, so it is unknown whether it is idle".to_owned(),
        );
    };
    let begun = Instant::now();
    let (mut last, mut quiet) = (sampler.sample().ok(), 0);
    while begun.elapsed() < timeout {
        std::thread::sleep(EVERY);
        let now = sampler.sample().ok();
        let (Some(before), Some(after)) = (last.take(), now) else {
            return (false, "its process has ended".to_owned());
        };
        let used = after.delta_since(&before);
        let is_quiet = used.cpu().as_secs_f64() < CPU_SHARE * EVERY.as_secs_f64()
            && used.write_bytes < WRITTEN_BYTES;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet >= QUIET_LOOKS {
            return (
                true,
                format!("at rest after {:.1} s", begun.elapsed().as_secs_f64()),
            );
        }
        last = Some(after);
    }
    (
        false,
        format!("still busy after {:.0} s", timeout.as_secs_f64()),
    )
}
