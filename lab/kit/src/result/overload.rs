//! The figures of an overload.

use serde::{Deserialize, Serialize};

/// The figures of an overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// The number of clients beyond which more clients add little.
    pub saturating_clients: u32,
    /// Clients in the overload.
    pub clients: u32,
    /// When the overload began, since the step began.
    pub from_s: f64,
    /// When the overload ended, since the step began.
    pub until_s: f64,
    /// Operations a second: the best rate of the saturation steps, or of the time before the
    /// overload.
    pub peak_rate: f64,
    /// Operations a second that succeeded in the overload.
    pub goodput: f64,
    /// The goodput in percent of the peak rate.
    pub goodput_percent: f64,
    /// 99th percentile before the overload.
    pub p99_before_us: f64,
    /// 99th percentile of the calls that were admitted in the overload.
    pub p99_admitted_us: f64,
    /// Calls that the target refused and asked the client to repeat later.
    pub refused_calls: u64,
    /// Operations that clients gave up after as many attempts as drivers make.
    pub given_up: u64,
    /// The most memory that the target's process held.
    pub memory_bytes_max: Option<u64>,
    /// From the end of the overload until the rate had recovered; `None` if it never did.
    pub recovery_seconds: Option<f64>,
}
