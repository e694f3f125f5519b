//! Copies and compares no faster than the source bears: while what its clients write takes longer
//! than it may, the rate is halved, and afterwards it grows again. Must not know: what is copied.

use crate::pace::Pace;
use crate::server::Server;
use crate::state::integer;
use mongodb::bson::{Document, doc};
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);
/// It never gets slower than this, bytes a second.
const SLOWEST: u64 = 256 << 10;

/// What clients of a server have written since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Written {
    operations: i64,
    micros: i64,
}

impl Written {
    fn of(status: &Document) -> Option<Written> {
        let all = status.get_document("opLatencies").ok()?;
        let writes = all.get_document("writes").ok()?;
        Some(Written {
            operations: integer(writes, "ops"),
            micros: integer(writes, "latency"),
        })
    }

    /// How long one took on average since an earlier look; nothing when there was none, or the
    /// server was started anew.
    fn mean_since(self, earlier: Written) -> Option<Duration> {
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

/// Keeps the rate, until it is ended.
pub(crate) async fn keep(source: Server, pace: Arc<Pace>, most: Duration) {
    let mut earlier: Option<Written> = None;
    let mut passed = pace.seen();
    loop {
        tokio::time::sleep(EVERY).await;
        let now_passed = pace.seen();
        let rate = now_passed.saturating_sub(passed);
        passed = now_passed;
        let status = source.run("admin", doc! { "serverStatus": 1 }).await;
        let Some(now) = status.ok().as_ref().and_then(Written::of) else {
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
                // A bound that bounds nothing any more goes.
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
        let of = |operations, micros| Written { operations, micros };
        let mean = |later: Written, earlier| later.mean_since(earlier);
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
