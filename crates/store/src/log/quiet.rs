//! Which members publish nothing. Promises: a member that goes on publishing, however slowly, is
//! not among them. Must not know: why.

use super::sums::LogSums;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::{Duration, Instant};

/// The sums of each log, and since when they are the same.
#[derive(Default)]
pub(super) struct QuietLogs(FxHashMap<u32, (LogSums, Instant)>);

impl QuietLogs {
    /// Records the sums of all logs.
    ///
    /// # Output
    /// The idents of those that have not changed for this long, as far as was recorded.
    pub(super) fn note(
        &mut self,
        logs: &[(u32, LogSums)],
        now: Instant,
        for_at_least: Duration,
    ) -> FxHashSet<u32> {
        let since = |ident: u32, sums: LogSums| match self.0.get(&ident) {
            Some((same, since)) if *same == sums => *since,
            _ => now,
        };
        let all = logs
            .iter()
            .map(|(ident, sums)| (*ident, (*sums, since(*ident, *sums))));
        self.0 = all.collect();
        let is_quiet = |since: Instant| now.saturating_duration_since(since) >= for_at_least;
        let quiet = self.0.iter().filter(|(_, (_, since))| is_quiet(*since));
        quiet.map(|(ident, _)| *ident).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_grows_is_not_quiet() {
        let (mut logs, began) = (QuietLogs::default(), Instant::now());
        let sums = |entries| LogSums { entries, bytes: 0 };
        let mut note = |at: u64, all: &[(u32, LogSums)]| {
            let now = began + Duration::from_secs(at);
            let mut quiet: Vec<u32> = logs
                .note(all, now, Duration::from_secs(3))
                .into_iter()
                .collect();
            quiet.sort_unstable();
            quiet
        };
        assert!(note(0, &[(1, sums(5)), (2, sums(5))]).is_empty());
        assert!(note(2, &[(1, sums(5)), (2, sums(6))]).is_empty());
        assert_eq!(note(3, &[(1, sums(5)), (2, sums(6)), (3, sums(0))]), [1]);
        assert_eq!(note(5, &[(2, sums(6)), (3, sums(0))]), [2]);
        assert_eq!(note(6, &[(1, sums(5)), (3, sums(0))]), [3]);
    }
}
