//! Waiting until an engine reports that it has no background work.

use std::time::{Duration, Instant};

/// The engine is idle after this many polls in a row that found no work.
const IDLE_POLLS: u32 = 5;

/// Polls `is_idle` at an interval and returns the time it took; `None` if `timeout` ended first.
///
/// # Errors
/// The first error of `is_idle`.
pub fn wait_until_idle<E>(
    timeout: Duration,
    interval: Duration,
    mut is_idle: impl FnMut() -> Result<bool, E>,
) -> Result<Option<Duration>, E> {
    let begun = Instant::now();
    let mut idle_polls = 0;
    while begun.elapsed() < timeout {
        std::thread::sleep(interval);
        idle_polls = if is_idle()? { idle_polls + 1 } else { 0 };
        if idle_polls >= IDLE_POLLS {
            return Ok(Some(begun.elapsed()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_busy_poll_starts_the_count_again() {
        let mut polls = 0;
        let took = wait_until_idle(Duration::from_secs(5), Duration::from_millis(1), || {
            polls += 1;
            Ok::<_, ()>(polls != 3)
        });
        assert!(took.unwrap().is_some());
        assert_eq!(polls, 8);
    }

    #[test]
    fn an_engine_that_never_rests_ends_with_the_timeout() {
        let took = wait_until_idle(Duration::from_millis(20), Duration::from_millis(1), || {
            Ok::<_, ()>(false)
        });
        assert_eq!(took.unwrap(), None);
    }
}
