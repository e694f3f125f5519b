//! Limits copying and comparing to what the source can bear: while writes of the source's clients
//! take longer than allowed the rate is halved, afterwards it grows again. Must not know: what is
//! copied.

use crate::pace::Pace;
use crate::server::Server;
use crate::state::integer;
use mongodb::bson::{Document, doc};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Lowest rate, in bytes a second.
const SLOWEST: u64 = 256 << 10;

/// Counters of the writes of a server's clients since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WriteCounters {
    operations: i64,
    micros: i64,
}

impl WriteCounters {
    fn of(status: &Document) -> Option<WriteCounters> {
        let all = status.get_document("opLatencies").ok()?;
        let writes = all.get_document("writes").ok()?;
        Some(WriteCounters {
            operations: integer(writes, "ops"),
            micros: integer(writes, "latency"),
        })
    }

    /// The average time of a write since an earlier look; `None` if there was none, or if the
    /// server was restarted.
    fn mean_since(self, earlier: WriteCounters) -> Option<Duration> {
        let operations = u64::try_from(self.operations - earlier.operations).ok()?;
        let micros = u64::try_from(self.micros - earlier.micros).ok()?;
        (operations > 0).then(|| Duration::from_micros(micros / operations))
    }
}

/// The next rate from the present one.
fn next_rate(rate: u64, is_slow: bool) -> u64 {
    match is_slow {
        true => (rate / 2).max(SLOWEST),
        false => rate.saturating_add(rate / 10),
    }
}

/// Adjusts the rate until it is cancelled.
pub(crate) async fn keep(source: Server, pace: Arc<Pace>, most: Duration) {
    let mut earlier: Option<WriteCounters> = None;
    let mut passed = pace.total_bytes();
    loop {
        tokio::time::sleep(EVERY).await;
        let now_passed = pace.total_bytes();
        let rate = now_passed.saturating_sub(passed);
        passed = now_passed;
        let status = source.run("admin", doc! { "serverStatus": 1 }).await;
        let Some(now) = status.ok().as_ref().and_then(WriteCounters::of) else {
            continue;
        };
        let mean = earlier.and_then(|earlier| now.mean_since(earlier));
        earlier = Some(now);
        let is_slow = mean.is_some_and(|mean| mean > most);
        match pace.bound() {
            None if !is_slow => {}
            None => pace.set_bound(Some(next_rate(rate.max(SLOWEST), true))),
            Some(bound) => {
                let next = next_rate(bound, is_slow);
                // A limit far above the actual rate is removed.
                let is_idle = !is_slow && next > rate.saturating_mul(4).max(SLOWEST * 4);
                pace.set_bound((!is_idle).then_some(next));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_of_what_was_written_since() {
        let of = |operations, micros| WriteCounters { operations, micros };
        let mean = |later: WriteCounters, earlier| later.mean_since(earlier);
        assert_eq!(
            mean(of(30, 5000), of(10, 1000)),
            Some(Duration::from_micros(200))
        );
        assert_eq!(mean(of(10, 1000), of(10, 1000)), None);
        assert_eq!(mean(of(1, 10), of(10, 1000)), None);
    }

    #[test]
    fn a_rate_is_halved_and_grows_again() {
        assert_eq!(next_rate(8 << 20, true), 4 << 20);
        assert_eq!(next_rate(SLOWEST, true), SLOWEST);
        assert_eq!(next_rate(1000, false), 1100);
    }
}
