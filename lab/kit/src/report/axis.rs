//! Axes: how values are written, and which ticks are round.

use crate::format;

/// The quantity of the vertical axis, which decides how ticks and readouts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// A plain number.
    Number,
    /// Microseconds, written in the unit that suits.
    LatencyUs,
    /// Bytes.
    Bytes,
}

impl Quantity {
    pub(super) fn tick(self, value: f64) -> String {
        match self {
            Self::Number => format::axis(value),
            Self::LatencyUs if value >= 1e6 => format!("{} s", format::axis(value / 1e6)),
            Self::LatencyUs if value >= 1e3 => format!("{} ms", format::axis(value / 1e3)),
            Self::LatencyUs => format!("{} µs", format::axis(value)),
            Self::Bytes => format::bytes(value)
                .replace(".00 ", " ")
                .replace(".0 ", " "),
        }
    }

    pub(super) fn readout(self, value: f64) -> String {
        match self {
            Self::Number => format::number(value),
            Self::LatencyUs => format::latency_us(value),
            Self::Bytes => format::bytes(value),
        }
    }

    /// The title of an axis that counts in `unit`. If each tick has its own unit, the title has
    /// none, because it would differ from the ticks'.
    pub(super) fn title(self, unit: &str) -> &str {
        match self {
            Self::Number => unit,
            Self::LatencyUs => "time",
            Self::Bytes => "size",
        }
    }

    /// Distance of round numbers in this unit: bytes are round in powers of two.
    pub(super) fn round_step(self, rough: f64) -> f64 {
        let base: f64 = if self == Self::Bytes { 2.0 } else { 10.0 };
        let power = base.powf(rough.max(1e-9).log(base).floor());
        let factors: &[f64] = if self == Self::Bytes {
            &[1.0, 2.0]
        } else {
            &[1.0, 2.0, 5.0, 10.0]
        };
        factors
            .iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(power * base)
    }
}

/// The vertical scale.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero, even.
    Linear,
    /// Decades.
    Logarithmic,
}

/// Multiples of `step` from `low` to `high`.
pub(super) fn round_ticks(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step).ceil();
    (0..50)
        .map(|number| (first + f64::from(number)) * step)
        .take_while(|value| *value <= high * 1.000_001)
        .collect()
}
