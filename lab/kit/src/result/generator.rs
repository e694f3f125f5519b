//! One of several machines that made the load of a step.

use serde::{Deserialize, Serialize};

use super::latency::LatencySummary;

/// What one load generator did in a step, and how well it could.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GeneratorResult {
    /// Where its agent listens.
    pub address: String,
    /// Clients of the measured work.
    pub clients: u32,
    /// Operations acknowledged after the warm-up.
    pub ops: u64,
    /// The same per second.
    pub rate: f64,
    /// Failed calls, warm-up included.
    pub errors: u64,
    /// How long calls took.
    pub latency: LatencySummary,
    /// Open loop only: by how much it sent calls too late.
    pub lateness: Option<LatencySummary>,
    /// Open loop only: calls that were due and that it never sent because it was late itself.
    pub unsent_by_lab: u64,
    /// CPU that its process used.
    pub cpu_cores: f64,
    /// CPUs of its machine.
    pub cpus: u32,
    /// How busy they were, all programs together.
    pub host_busy_percent: f64,
    /// By how much its clock is ahead of the lab's.
    pub clock_ahead_ms: f64,
    /// How well the common start is known to it: half of the shortest round trip.
    pub start_error_us: f64,
    /// By how much its clients began after the common start.
    pub start_late_us: f64,
    /// When its clients had ended, since the common start.
    pub ended_s: f64,
    /// Why it did not go on to the end, if so.
    pub lost: Option<String>,
}
