//! The figures of an overload.

use serde::{Deserialize, Serialize};

/// The figures of an overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// Clients from which on more of them add little.
    pub saturating_clients: u32,
    /// Clients in the overload.
    pub clients: u32,
    /// When it began and ended, since the step began.
    pub from_s: f64,
    /// The same.
    pub until_s: f64,
    /// Operations a second: the best of the saturation steps, or of the time before the overload.
    pub peak_rate: f64,
    /// Operations a second that were done in the overload.
    pub goodput: f64,
    /// By the peak, in percent.
    pub goodput_percent: f64,
    /// 99th percentile before it.
    pub p99_before_us: f64,
    /// 99th percentile of what was admitted in the overload.
    pub p99_admitted_us: f64,
    /// Calls that were refused with a wish to come back later.
    pub refused_calls: u64,
    /// Operations that were given up after the drivers' number of attempts.
    pub given_up: u64,
    /// The most that the target's process held.
    pub memory_bytes_max: Option<u64>,
    /// From the end of the overload until the rate was back; none if it never was.
    pub recovery_seconds: Option<f64>,
}
