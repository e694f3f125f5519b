//! What all commands over a repository share: the limit of the transfer rate, and progress lines.

use crate::failure::Failure;
use ::backup::{BackupError, Pace, ProgressEvent};
use clap::Args;
use std::time::{Duration, Instant};

/// A bound of the rate.
#[derive(Args, Clone, Debug, Default)]
pub struct RateArgs {
    /// Limit of the transfer rate in bytes per second, such as 50M [default: no limit]
    #[arg(long, value_name = "SIZE")]
    pub rate: Option<String>,
}

impl RateArgs {
    /// # Errors
    /// One line for anything but a size above 0.
    pub(super) fn pace(&self) -> Result<Pace, Failure> {
        let Some(text) = &self.rate else {
            return Ok(Pace::new(None));
        };
        match crate::memory::size(text) {
            Some(bytes) if bytes > 0 => Ok(Pace::new(Some(bytes))),
            _ => Err(Failure::of_options(format!(
                "rate must be a number of bytes per second above 0, such as 50M, given {text}"
            ))),
        }
    }
}

/// Time between two progress lines.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Shows now and then how much was done.
pub(super) struct Progress<'a> {
    what: &'static str,
    print_message: &'a mut dyn FnMut(&str),
    bytes: u64,
    files: u64,
    last: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(what: &'static str, print_message: &'a mut dyn FnMut(&str)) -> Progress<'a> {
        Progress {
            what,
            print_message,
            bytes: 0,
            files: 0,
            last: Instant::now(),
        }
    }

    pub(super) fn watch(&mut self) -> impl FnMut(ProgressEvent<'_>) -> Result<(), BackupError> {
        |step| {
            match step {
                ProgressEvent::Moved(bytes) => self.bytes += bytes,
                ProgressEvent::File(_) => self.files += 1,
                ProgressEvent::Piece | ProgressEvent::Manifest | ProgressEvent::Removed => {}
            }
            if self.last.elapsed() >= TELL_EVERY {
                self.last = Instant::now();
                let (what, files) = (self.what, self.files);
                (self.print_message)(&format!("{what} {files} files, {}", show_bytes(self.bytes)));
            }
            Ok(())
        }
    }
}

/// For people, such as `12.5 MiB`.
pub(super) fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = larger;
    }
    match unit {
        "bytes" => format!("{bytes} bytes"),
        _ => format!("{size:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_unit_that_fits() {
        assert_eq!(show_bytes(1023), "1023 bytes");
        assert_eq!(show_bytes(1536), "1.5 KiB");
        assert_eq!(show_bytes(5 << 40), "5.0 TiB");
    }

    #[test]
    fn a_rate_is_a_size_above_nothing() {
        let pace = |text: &str| {
            let rate = Some(text.to_owned());
            RateArgs { rate }.pace().map_err(|e| e.message)
        };
        assert!(pace("50M").is_ok() && pace("1").is_ok());
        for wrong in ["0", "fast", "-1", "5X"] {
            assert!(pace(wrong).unwrap_err().contains(wrong));
        }
    }
}
