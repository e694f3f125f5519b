//! Counters of an engine, in the same form for all engines: bytes stored and bytes written, and how
//! long writers were delayed.
//!
//! Must not know: the names of an engine's counters.

use serde::Serialize;

/// Counters since the engine was opened. `None`: the engine does not report this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Bytes of the keys and values that clients stored.
    pub user_bytes: Option<u64>,
    /// Bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Bytes written by flushes of memory.
    pub flush_bytes: Option<u64>,
    /// Bytes written by compactions and merges.
    pub compaction_bytes: Option<u64>,
    /// Bytes written to data files, if flushes and compactions are not counted separately.
    pub written_bytes: Option<u64>,
    /// Time for which writers were blocked, summed over all writers.
    pub stall_us: Option<u64>,
    /// Current number of bytes that wait for a flush or compaction.
    pub debt_bytes: Option<u64>,
}

impl Counters {
    /// Bytes written to log and data files divided by the bytes stored; `None` unless both are
    /// known.
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.user_bytes.filter(|bytes| *bytes > 0)?;
        let files = match self.written_bytes {
            Some(bytes) => bytes,
            None => self.flush_bytes?.checked_add(self.compaction_bytes?)?,
        };
        // An engine without a log has written nothing to it.
        Some((files as f64 + self.log_bytes.unwrap_or(0) as f64) / user as f64)
    }

    /// The counts since `before`; the debt stays the current one.
    #[must_use]
    pub fn delta_since(&self, before: &Self) -> Self {
        let less = |now: Option<u64>, then: Option<u64>| {
            now.zip(then.or(Some(0)))
                .map(|(now, then)| now.saturating_sub(then))
        };
        Self {
            user_bytes: less(self.user_bytes, before.user_bytes),
            log_bytes: less(self.log_bytes, before.log_bytes),
            flush_bytes: less(self.flush_bytes, before.flush_bytes),
            compaction_bytes: less(self.compaction_bytes, before.compaction_bytes),
            written_bytes: less(self.written_bytes, before.written_bytes),
            stall_us: less(self.stall_us, before.stall_us),
            debt_bytes: self.debt_bytes,
        }
    }

    /// The counters as JSON, with the write amplification.
    pub fn json(&self) -> serde_json::Value {
        let mut out = serde_json::to_value(self).unwrap_or_default();
        if let Some(map) = out.as_object_mut() {
            map.insert(
                "write_amplification".to_owned(),
                self.write_amplification().into(),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_needs_both_sides() {
        let mut counters = Counters {
            user_bytes: Some(100),
            flush_bytes: Some(120),
            log_bytes: Some(80),
            ..Counters::default()
        };
        assert_eq!(
            counters.write_amplification(),
            None,
            "compactions are not known"
        );
        counters.compaction_bytes = Some(200);
        assert_eq!(counters.write_amplification(), Some(4.0));
        counters.written_bytes = Some(20);
        assert_eq!(counters.write_amplification(), Some(1.0));
        assert_eq!(
            Counters {
                user_bytes: Some(0),
                written_bytes: Some(1),
                ..Counters::default()
            }
            .write_amplification(),
            None
        );
    }

    #[test]
    fn what_a_step_did_is_the_difference() {
        let before = Counters {
            user_bytes: Some(40),
            stall_us: Some(7),
            debt_bytes: Some(9),
            ..Counters::default()
        };
        let now = Counters {
            user_bytes: Some(100),
            stall_us: Some(7),
            debt_bytes: Some(3),
            log_bytes: Some(5),
            ..Counters::default()
        };
        let step = now.delta_since(&before);
        assert_eq!(
            (
                step.user_bytes,
                step.stall_us,
                step.debt_bytes,
                step.log_bytes,
                step.flush_bytes
            ),
            (Some(60), Some(0), Some(3), Some(5), None)
        );
        assert_eq!(step.json()["user_bytes"], 60);
        assert!(step.json()["write_amplification"].is_null());
    }
}
