//! How much was published of the log of a member. Promises: sums only grow. Must not know: rows.

/// Numbers of all entries and bytes of a member's log that were ever published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogSums {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

impl LogSums {
    /// `None` when the value is none (corruption).
    pub(super) fn of(value: &[u8]) -> Option<LogSums> {
        let value: &[u8; 16] = value.try_into().ok()?;
        Some(LogSums {
            entries: u64::from_be_bytes(*value.first_chunk()?),
            bytes: u64::from_be_bytes(*value.last_chunk()?),
        })
    }
}
