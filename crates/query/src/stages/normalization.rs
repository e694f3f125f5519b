//! Normalization that makes scores comparable: `none`, `sigmoid`, `minMaxScaler`.

use model::{Result, bail, code};

/// How a score is normalized.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Normalization {
    None,
    /// `1 / (1 + e^-score)`
    Sigmoid,
    /// The least score becomes 0, the greatest 1.
    MinMax,
}

/// The least and the greatest of some scores.
#[derive(Clone, Copy)]
pub(super) struct Range {
    least: f64,
    most: f64,
}

impl Range {
    pub(super) fn of(scores: impl Iterator<Item = f64>) -> Range {
        let none = Range {
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        };
        scores.fold(none, |range, score| Range {
            least: range.least.min(score),
            most: range.most.max(score),
        })
    }
}

impl Normalization {
    /// Parses the name of a normalization; `path` is its place, for the error.
    ///
    /// # Errors
    /// 2 BadValue for any other name.
    pub(super) fn parse(path: &str, name: &str) -> Result<Normalization> {
        Ok(match name {
            "none" => Normalization::None,
            "sigmoid" => Normalization::Sigmoid,
            "minMaxScaler" => Normalization::MinMax,
            other => bail!(
                code::BAD_VALUE,
                "{path} must be one of none, sigmoid, minMaxScaler, not '{other}'"
            ),
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Normalization::None => "none",
            Normalization::Sigmoid => "sigmoid",
            Normalization::MinMax => "minMaxScaler",
        }
    }

    /// Normalizes a score within a range of scores.
    pub(super) fn apply(self, score: f64, among: Range) -> f64 {
        match self {
            Normalization::None => score,
            Normalization::Sigmoid => 1.0 / (1.0 + (-score).exp()),
            Normalization::MinMax if among.most > among.least => {
                (score - among.least) / (among.most - among.least)
            }
            Normalization::MinMax => 0.0,
        }
    }
}
