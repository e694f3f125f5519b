//! The moment to restore: a position in the log, a second, or the newest state.

use crate::error::{BackupError, Result};
use crate::manifest::Optime;
use std::fmt;

/// The moment up to which changes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All changes.
    Newest,
    /// All changes up to and including this position.
    At(Optime),
}

impl Moment {
    /// Parses `newest`, an optime such as `1764165600:3`, seconds since the epoch, or a time such
    /// as `2026-11-26T14:05:00Z`. A second includes all its changes.
    ///
    /// # Errors
    /// One line for anything else.
    pub fn parse(text: &str) -> Result<Moment> {
        if text == "newest" {
            return Ok(Moment::Newest);
        }
        if let Some(at) = Optime::parse(text, ':') {
            return Ok(Moment::At(at));
        }
        let time = match text.parse::<u32>() {
            Ok(time) => Some(time),
            Err(_) => (text.parse::<jiff::Timestamp>().ok())
                .and_then(|at| u32::try_from(at.as_second()).ok()),
        };
        let whole = |time| Optime {
            time,
            increment: u32::MAX,
        };
        time.map(|time| Moment::At(whole(time))).ok_or_else(|| {
            BackupError::new(format!(
                "a moment must be newest, a time such as 2026-11-26T14:05:00Z, seconds since the \
                 epoch, or an optime such as 1764165600:3, given {text:?}"
            ))
        })
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Newest => f.write_str("newest"),
            Moment::At(at) if at.increment == u32::MAX => write!(f, "second {}", at.time),
            Moment::At(at) => write!(f, "optime {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_understood() {
        let at = |time, increment| Moment::At(Optime { time, increment });
        for (text, meant) in [
            ("newest", Moment::Newest),
            ("1764165600:3", at(1_764_165_600, 3)),
            ("1764165600", at(1_764_165_600, u32::MAX)),
            ("2025-11-26T14:00:00Z", at(1_764_165_600, u32::MAX)),
            ("2025-11-26T15:00:00+01:00", at(1_764_165_600, u32::MAX)),
        ] {
            assert_eq!(Moment::parse(text), Ok(meant), "{text}");
        }
        for wrong in ["", "yesterday", "-1", "1:x", "2025-11-26"] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
    }
}
