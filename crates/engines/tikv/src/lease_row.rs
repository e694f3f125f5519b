//! The row of a lease, on the whole database or of one member. Must not know: who may take one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::StorageError;

use crate::cluster::millis;
use crate::process;

/// The content of the row of a lease, on the database or of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub(crate) holder: u64,
    pub(crate) until_ms: u64,
    pub(crate) name: String,
    /// The address at which other servers reach the holder; empty when it gave none.
    pub(crate) address: String,
    /// How long the lease holds after a renewal; 0 when the holder did not say.
    pub(crate) holds_ms: u64,
    /// Whether the holder reads the fence before each commit.
    pub(crate) reads_fence: bool,
    /// The process of the holder; see [`process::identify_current`].
    pub(crate) process: String,
}

/// Separates the texts of a row: name, address, duration, mark, process.
const SEPARATOR: u8 = 0;
/// The text that marks a holder that reads the fence before each commit.
const READS_FENCE: &str = "reads fence";
impl LeaseRow {
    /// The row of a holder that begins at `ts`. How the oracle moves is only known after the first
    /// renewal.
    pub(crate) fn new(holder: u64, ts: u64, terms: &LeaseOptions<'_>) -> LeaseRow {
        LeaseRow {
            holder,
            until_ms: millis(ts) + millis_of(terms.duration),
            name: terms.name.to_owned(),
            address: terms.address.to_owned(),
            holds_ms: millis_of(terms.duration),
            reads_fence: true,
            process: process::identify_current(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (holder, until) = (self.holder.to_be_bytes(), self.until_ms.to_be_bytes());
        let mut row = [&holder, &until, self.name.as_bytes()].concat();
        row.push(SEPARATOR);
        row.extend(self.address.as_bytes());
        row.push(SEPARATOR);
        row.extend(self.holds_ms.to_string().as_bytes());
        row.push(SEPARATOR);
        if self.reads_fence {
            row.extend(READS_FENCE.as_bytes());
        }
        row.push(SEPARATOR);
        row.extend(self.process.as_bytes());
        row
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<LeaseRow> {
        let (holder, rest) = bytes.split_first_chunk::<8>()?;
        let (until, rest) = rest.split_first_chunk::<8>()?;
        let mut texts = rest.splitn(5, |byte| *byte == SEPARATOR);
        let mut text = || String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
        Some(LeaseRow {
            holder: u64::from_be_bytes(*holder),
            until_ms: u64::from_be_bytes(*until),
            name: text(),
            address: text(),
            holds_ms: text().parse().unwrap_or(0),
            reads_fence: text() == READS_FENCE,
            process: text(),
        })
    }

    /// Whether its holder has released the lease.
    pub(crate) fn is_released(&self) -> bool {
        self.until_ms == 0
    }
}

/// Options for taking a lease.
pub(crate) struct LeaseOptions<'a> {
    /// Shown to servers that are refused.
    pub(crate) name: &'a str,
    /// Shown to servers that wait.
    pub(crate) address: &'a str,
    /// Receives the address of the server that is waited for.
    pub(crate) awaited: Option<&'a Mutex<String>>,
    /// How long the lease holds without renewal.
    pub(crate) duration: Duration,
    /// Wait while another server holds the lease, until this is set.
    pub(crate) wait: Option<&'a AtomicBool>,
    /// The value of the format row, written together with the lease.
    pub(crate) format: Vec<u8>,
}

impl LeaseOptions<'_> {
    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some() && !self.is_ending()
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.wait.is_some_and(|ended| ended.load(Ordering::Relaxed))
    }
}

pub(crate) fn fence_row(holder: u64, number: u64) -> Vec<u8> {
    [holder.to_be_bytes(), number.to_be_bytes()].concat()
}

pub(crate) fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn locked_error(other: &LeaseRow, ts: u64) -> StorageError {
    let left = other.until_ms.saturating_sub(millis(ts)).div_ceil(1000);
    StorageError::Locked {
        path: format!(
            "on TiKV, held by {} for {left} s unless it renews,",
            other.name
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let row = LeaseRow {
            holder: 7,
            until_ms: u64::MAX,
            name: "process 12".to_owned(),
            address: String::new(),
            holds_ms: 10_000,
            reads_fence: false,
            process: "boot pid 12 99".to_owned(),
        };
        assert_eq!(LeaseRow::decode(&row.encode()).as_ref(), Some(&row));
        let row = LeaseRow {
            address: "host:12".to_owned(),
            reads_fence: true,
            process: String::new(),
            ..row
        };
        assert_eq!(LeaseRow::decode(&row.encode()), Some(row));
        // The format of earlier versions.
        let short = [&7u64.to_be_bytes()[..], &9u64.to_be_bytes(), b"one"].concat();
        let row = LeaseRow::decode(&short).unwrap();
        assert_eq!((row.name.as_str(), row.holds_ms), ("one", 0));
        assert!(!row.reads_fence && row.process.is_empty());
        assert_eq!(LeaseRow::decode(b"short"), None);
    }
}
