//! Observations during a step: the changes that readers receive, and the documents that expire.
//!
//! Promises: missing, repeated, out-of-order and foreign events are counted, whatever the target
//! reports; so are documents that were removed too early. Must not know: targets, clients.

/// A change as a reader received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client inserted a document; `sequence` is its number among the documents of this client.
    Inserted {
        /// `@client()`.
        client: u64,
        /// `@sequence()`.
        sequence: u64,
    },
    /// Anything else.
    Other,
}

/// The events that one reader received.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// The last sequence number of each client.
    last: Vec<u64>,
    /// Events that came in order.
    pub in_order: u64,
    /// Events that came twice or after a later one.
    pub repeated: u64,
    /// Events of documents that were never written.
    pub foreign: u64,
}

impl Deliveries {
    /// A counter of events from the given number of clients.
    pub fn of(clients: u32) -> Self {
        Self {
            last: vec![0; clients as usize],
            ..Self::default()
        }
    }

    /// Takes the next event; `is_written` tells whether a client ever sent this document.
    pub fn take(&mut self, event: Event, is_written: bool) {
        let Event::Inserted { client, sequence } = event else {
            self.foreign += 1;
            return;
        };
        let last = usize::try_from(client).ok();
        let last = last.and_then(|client| self.last.get_mut(client));
        match last.filter(|_| is_written) {
            None => self.foreign += 1,
            Some(last) if sequence <= *last => self.repeated += 1,
            Some(last) => {
                *last = sequence;
                self.in_order += 1;
            }
        }
    }
}

/// Samples of the documents that expire, in order of time.
#[derive(Clone, Debug, Default)]
pub struct ExpiryLog {
    /// Age at which documents expire, in milliseconds.
    after_ms: i64,
    /// Documents that never expire.
    lasting: u64,
    /// The most inserts that can be drawn and not yet acknowledged.
    under_way: u64,
    looks: Vec<ExpirySample>,
    lags_ms: Vec<i64>,
    /// Documents that were removed too early: the largest number in one sample.
    pub early: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug)]
pub struct ExpirySample {
    /// When the sample began, in milliseconds of the lab's clock.
    pub begun_ms: i64,
    /// Inserts acknowledged when the sample began.
    pub acknowledged: u64,
    /// When the answer arrived.
    pub ended_ms: i64,
    /// Documents in the collection.
    pub count: u64,
    /// Date of the oldest document that expires.
    pub oldest_ms: Option<i64>,
}

impl ExpiryLog {
    /// `lasting` documents never expire; clients make at most `under_way` inserts at the same time.
    pub fn new(after_seconds: u32, lasting: u64, under_way: u64) -> Self {
        Self {
            after_ms: i64::from(after_seconds) * 1_000,
            lasting,
            under_way,
            ..Self::default()
        }
    }

    /// Takes a sample.
    pub fn take(&mut self, look: ExpirySample) {
        let past = look.ended_ms - self.after_ms;
        let lag = look.oldest_ms.map_or(0, |oldest| (past - oldest).max(0));
        self.lags_ms.push(lag);
        self.looks.push(look);
        // Only documents drawn before `past` may be gone. They were acknowledged by the first
        // sample after `past`, or were under way at that time.
        let first = self.looks.iter().find(|look| look.begun_ms >= past);
        // A sample that took longer than the age proves nothing.
        if let Some(first) = first {
            let may_be_gone = first.acknowledged + self.under_way;
            let least = (self.lasting + look.acknowledged).saturating_sub(may_be_gone);
            self.early = self.early.max(least.saturating_sub(look.count));
        }
        // Earlier samples are never needed again.
        let passed = self.looks.partition_point(|look| look.begun_ms < past);
        self.looks.drain(..passed);
    }

    /// The number of samples so far.
    pub fn samples(&self) -> u64 {
        self.lags_ms.len() as u64
    }

    /// A percentile over all samples of the time by which the oldest document had outlived its age,
    /// in seconds.
    pub fn lag_seconds(&self, percent: f64) -> f64 {
        let mut sorted = self.lags_ms.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
        let found = sorted.get(at.saturating_sub(1)).or(sorted.last());
        found.map_or(0.0, |ms| *ms as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver_events(events: &[(u64, u64)]) -> Deliveries {
        let mut out = Deliveries::of(2);
        for (client, sequence) in events {
            let event = Event::Inserted {
                client: *client,
                sequence: *sequence,
            };
            out.take(event, *sequence <= 3);
        }
        out
    }

    #[test]
    fn events_of_several_writers_interleave_but_each_is_in_order() {
        let all = deliver_events(&[(0, 1), (1, 1), (1, 2), (0, 2), (0, 3), (1, 3)]);
        assert_eq!((all.in_order, all.repeated, all.foreign), (6, 0, 0));
    }

    #[test]
    fn a_lost_a_doubled_and_a_swapped_event_show() {
        assert_eq!(deliver_events(&[(0, 1), (0, 3)]).in_order, 2);
        let doubled = deliver_events(&[(0, 1), (0, 2), (0, 2), (0, 3)]);
        assert_eq!((doubled.in_order, doubled.repeated), (3, 1));
        let swapped = deliver_events(&[(0, 2), (0, 1), (0, 3)]);
        assert_eq!((swapped.in_order, swapped.repeated), (2, 1));
    }

    #[test]
    fn events_of_nothing_that_was_written_show() {
        let found = deliver_events(&[(0, 1), (0, 4), (2, 1)]);
        assert_eq!((found.in_order, found.foreign), (1, 2));
        let mut found = Deliveries::of(1);
        found.take(Event::Other, true);
        assert_eq!(found.foreign, 1);
    }

    /// A sample at second `at`: ten documents a second are inserted, a hundred others never expire,
    /// and the target removes documents older than `age` seconds.
    fn sample_at(at: i64, age: i64) -> ExpirySample {
        let gone = (at - age).max(0) * 10;
        ExpirySample {
            begun_ms: at * 1_000,
            acknowledged: at as u64 * 10,
            ended_ms: at * 1_000 + 5,
            count: 100 + (at * 10 - gone) as u64,
            oldest_ms: (gone < at * 10).then_some(gone * 100),
        }
    }

    #[test]
    fn lag_is_the_time_past_the_age_of_the_oldest() {
        let mut log = ExpiryLog::new(2, 100, 1);
        (1..=20).for_each(|at| log.take(sample_at(at, 5)));
        assert_eq!(log.early, 0);
        assert_eq!(log.samples(), 20);
        assert!((log.lag_seconds(50.0) - 3.005).abs() < 1e-9, "{log:?}");
        assert!((log.lag_seconds(100.0) - 3.005).abs() < 1e-9);
        let mut log = ExpiryLog::new(2, 100, 1);
        (1..=20).for_each(|at| log.take(sample_at(at, 2)));
        assert_eq!(log.early, 0);
        assert!(log.lag_seconds(99.0) < 0.006, "{log:?}");
    }

    #[test]
    fn documents_removed_before_their_time_show() {
        let mut log = ExpiryLog::new(4, 100, 1);
        (1..=20).for_each(|at| log.take(sample_at(at, 2)));
        // Twenty documents are removed too early at each sample. The distance of one second between
        // samples and the calls under way hide some of them.
        assert!((9..=20).contains(&log.early), "{}", log.early);
    }

    #[test]
    fn a_lasting_document_that_is_gone_shows() {
        let mut log = ExpiryLog::new(2, 100, 1);
        for at in 1..=20 {
            let seen = sample_at(at, 2);
            log.take(ExpirySample {
                count: seen.count.saturating_sub(30),
                ..seen
            });
        }
        assert!(log.early >= 9, "{}", log.early);
    }
}
