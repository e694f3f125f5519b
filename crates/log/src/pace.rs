//! Limits lines of one kind whose frequency others determine.
//!
//! Promises: at most a given number of lines in a period; each event is either written or counted,
//! and each count is reported once. Must not know: the clock; times are passed in.

use parking_lot::Mutex;

/// A limit on lines of one kind.
#[derive(Debug)]
pub struct Pace {
    most: u32,
    stretch_us: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The start of the period.
    since_us: u64,
    written: u32,
    left_out: u64,
}

impl Pace {
    /// At most `most` lines, but at least one, in each period.
    pub const fn new(most: u32, stretch_us: u64) -> Pace {
        Pace {
            most: if most == 0 { 1 } else { most },
            stretch_us,
            state: Mutex::new(State {
                since_us: 0,
                written: 0,
                left_out: 0,
            }),
        }
    }

    fn turn(&self, state: &mut State, now_us: u64) -> bool {
        let over = now_us.saturating_sub(state.since_us) >= self.stretch_us;
        if over {
            (state.since_us, state.written) = (now_us, 0);
        }
        over
    }

    /// Whether a line may be written now; then returns the number of events without a line, which
    /// the line reports.
    pub fn may(&self, now_us: u64) -> Option<u64> {
        let mut state = self.state.lock();
        self.turn(&mut state, now_us);
        if state.written >= self.most {
            state.left_out += 1;
            return None;
        }
        state.written += 1;
        Some(std::mem::take(&mut state.left_out))
    }

    /// The number of events without a line, after the end of their period. For a periodic check, so
    /// that the number is reported even if no more events happen.
    pub fn count_unlogged(&self, now_us: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if state.left_out == 0 || !self.turn(&mut state, now_us) {
            return None;
        }
        state.written = 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_each_event_is_written_or_counted() {
        let pace = Pace::new(3, 100);
        let told: Vec<Option<u64>> = (1000..1006).map(|at| pace.may(at)).collect();
        assert_eq!(told, [Some(0), Some(0), Some(0), None, None, None]);
        assert_eq!(pace.count_unlogged(1050), None);
        assert_eq!(pace.may(1100), Some(3));
        assert_eq!(pace.may(1101), Some(0));
        assert_eq!(pace.may(1102), Some(0));
        assert_eq!(pace.may(1199), None);
        assert_eq!(pace.count_unlogged(1200), Some(1));
        assert_eq!(pace.count_unlogged(1400), None);
        // A clock that goes backwards does no harm.
        assert_eq!(pace.may(5), Some(0));
    }
}
