//! The result of one of several machines that generated the load of a step.

use serde::{Deserialize, Serialize};

use super::latency::LatencySummary;

/// The work of one load generator in a step, and how well it kept up.
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
    /// Open loop only: by how much the generator sent calls too late.
    pub lateness: Option<LatencySummary>,
    /// Open loop only: due calls that were never sent because the generator itself was late.
    pub unsent_by_lab: u64,
    /// CPU cores that its process used.
    pub cpu_cores: f64,
    /// CPUs of its machine.
    pub cpus: u32,
    /// How busy the CPUs were, all programs together.
    pub host_busy_percent: f64,
    /// By how much the machine's clock is ahead of the lab's.
    pub clock_ahead_ms: f64,
    /// How precisely the generator knows the common start: half of the shortest round trip.
    pub start_error_us: f64,
    /// The delay from the common start to the start of its clients.
    pub start_late_us: f64,
    /// When its clients ended, since the common start.
    pub ended_s: f64,
    /// Why the generator stopped before the end, if it did.
    pub lost: Option<String>,
}
