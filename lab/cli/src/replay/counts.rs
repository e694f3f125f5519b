//! Counts of a replay: latency by kind, compared answers, operations left out.

use std::collections::BTreeMap;
use std::time::Duration;

use lab_kit::recorder::latency_summary;
use lab_kit::result::{AnswerDifference, KindResult, LatencySummary, ReplayResult};
use metrics::LatencyHistogram;

use crate::record::file::ReplyFacts;

/// The largest number of reasons that are counted separately.
const REASONS_MAX: usize = 50;

/// Counts of a whole replay.
#[derive(Debug, Default)]
pub(crate) struct ReplayCounts {
    kinds: BTreeMap<&'static str, Kind>,
    differences: BTreeMap<String, u64>,
    first: Vec<AnswerDifference>,
    first_max: usize,
    compared: u64,
    not_compared: BTreeMap<String, u64>,
    not_replayed: BTreeMap<String, u64>,
    /// Failed calls by error.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Fetches in addition to the recorded ones.
    pub(crate) more_fetches: u64,
    /// The delay of the lab's timer.
    pub(crate) late: LatencyHistogram,
    /// Latency from sending, all kinds.
    pub(crate) service: LatencyHistogram,
    /// The longest delay of a sending.
    pub(crate) behind: Duration,
    /// The current number of calls in a row without an answer.
    pub(crate) lost_in_a_row: u32,
    /// Documents returned.
    pub(crate) returned: u64,
}

#[derive(Debug, Default)]
struct Kind {
    ops: u64,
    errors: u64,
    returned: u64,
    latency: LatencyHistogram,
    service: LatencyHistogram,
    recorded: LatencyHistogram,
}

/// The position of an operation in the recording.
#[derive(Clone, Debug)]
pub(crate) struct OpId {
    /// Its number.
    pub(crate) op: u64,
    /// Its kind.
    pub(crate) kind: &'static str,
    /// Database and collection.
    pub(crate) namespace: String,
}

fn count(map: &mut BTreeMap<String, u64>, what: &str) {
    let known = map.len() < REASONS_MAX || map.contains_key(what);
    *map.entry(if known { what } else { "others" }.to_owned())
        .or_default() += 1;
}

impl ReplayCounts {
    /// Counts that list the first `first_max` differences.
    pub(crate) fn new(first_max: usize) -> Self {
        Self {
            first_max,
            ..Self::default()
        }
    }

    /// Counts an operation that was answered.
    pub(crate) fn record_answer(
        &mut self,
        kind: &'static str,
        latency: Duration,
        service: Duration,
        returned: u64,
        recorded: Option<Duration>,
    ) {
        let of_kind = self.kinds.entry(kind).or_default();
        of_kind.ops += 1;
        of_kind.returned += returned;
        of_kind.latency.record(latency);
        of_kind.service.record(service);
        if let Some(recorded) = recorded {
            of_kind.recorded.record(recorded);
        }
        self.service.record(service);
        self.returned += returned;
        self.lost_in_a_row = 0;
    }

    /// Counts an error that was not recorded, or a missing answer.
    pub(crate) fn record_error(&mut self, kind: &'static str, error: &str) {
        self.kinds.entry(kind).or_default().errors += 1;
        count(&mut self.errors, error);
    }

    /// Counts an operation that was not sent.
    pub(crate) fn count_unsent(&mut self, because: &str) {
        count(&mut self.not_replayed, because);
    }

    /// Counts an operation that was sent but has no recorded answer to compare with.
    pub(crate) fn count_uncompared(&mut self, because: &str) {
        count(&mut self.not_compared, because);
    }

    /// Compares an answer with the recorded one, except the documents of cursors; true if it is an
    /// error that was not recorded.
    pub(crate) fn compare(
        &mut self,
        op_id: &OpId,
        recorded: &ReplyFacts,
        replayed: &ReplyFacts,
    ) -> bool {
        self.compared += 1;
        let pairs = [
            ("error code", recorded.code, replayed.code),
            ("write errors", recorded.write_errors, replayed.write_errors),
            ("n", recorded.n, replayed.n),
            ("nModified", recorded.modified, replayed.modified),
            (
                "returned",
                recorded.returned.filter(|_| recorded.cursor.is_none()),
                replayed.returned.filter(|_| replayed.cursor.is_none()),
            ),
        ];
        // An answer counts as one difference; the first difference explains the others.
        if let Some((what, recorded, replayed)) = pairs
            .into_iter()
            .find(|(_, recorded, replayed)| recorded != replayed)
        {
            self.differ(op_id, what, recorded, replayed);
        }
        replayed.code.is_some() && replayed.code != recorded.code
    }

    /// Compares the number of documents of a cursor that the recording read to its end.
    pub(crate) fn compare_returned(&mut self, op_id: &OpId, recorded: u64, replayed: u64) {
        if recorded != replayed {
            self.differ(
                op_id,
                "returned",
                i64::try_from(recorded).ok(),
                i64::try_from(replayed).ok(),
            );
        }
    }

    fn differ(&mut self, op_id: &OpId, what: &str, recorded: Option<i64>, replayed: Option<i64>) {
        let text =
            |value: Option<i64>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        count(
            &mut self.differences,
            &format!("{} of {}", what, op_id.kind),
        );
        if self.first.len() < self.first_max {
            self.first.push(AnswerDifference {
                op: op_id.op,
                kind: op_id.kind.to_owned(),
                namespace: op_id.namespace.clone(),
                what: what.to_owned(),
                recorded: text(recorded),
                replayed: text(replayed),
            });
        }
    }

    /// For the result: latency from the intended start by kind, and all other counts.
    pub(crate) fn result(&self) -> (BTreeMap<String, LatencySummary>, ReplayResult) {
        let by_operation = self
            .kinds
            .iter()
            .map(|(kind, of)| ((*kind).to_owned(), latency_summary(&of.latency)))
            .collect();
        let kind = |of: &Kind| KindResult {
            ops: of.ops,
            errors: of.errors,
            returned: of.returned,
            service: latency_summary(&of.service),
            recorded: latency_summary(&of.recorded),
        };
        let result = ReplayResult {
            kinds: self
                .kinds
                .iter()
                .map(|(name, of)| ((*name).to_owned(), kind(of)))
                .collect(),
            compared: self.compared,
            differences: self.differences.clone(),
            first_differences: self.first.clone(),
            not_compared: self.not_compared.clone(),
            not_replayed: self.not_replayed.clone(),
            more_fetches: self.more_fetches,
            timer_late_us_p99: (self.late.count() > 0).then(|| self.late.percentile_us(99.0)),
            ..ReplayResult::default()
        };
        (by_operation, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_once_and_the_first_are_listed() {
        let mut counts = ReplayCounts::new(2);
        let op_id = OpId {
            op: 7,
            kind: "update",
            namespace: "d.c".to_owned(),
        };
        let facts = |n, modified| ReplyFacts {
            n: Some(n),
            modified: Some(modified),
            ..ReplyFacts::default()
        };
        assert!(!counts.compare(&op_id, &facts(1, 1), &facts(1, 1)));
        assert!(!counts.compare(&op_id, &facts(1, 1), &facts(0, 0)));
        assert!(!counts.compare(&op_id, &facts(1, 1), &facts(1, 0)));
        let failed = ReplyFacts {
            code: Some(13),
            ..ReplyFacts::default()
        };
        assert!(counts.compare(&op_id, &facts(1, 1), &failed));
        assert!(
            !counts.compare(&op_id, &failed, &failed),
            "an error as recorded is no difference"
        );
        assert!(!counts.compare(&op_id, &failed, &facts(1, 1)));
        counts.compare_returned(&op_id, 3, 3);
        counts.compare_returned(&op_id, 3, 2);
        let (_, result) = counts.result();
        assert_eq!(
            (
                result.compared,
                result.differences(),
                result.first_differences.len()
            ),
            (6, 5, 2)
        );
        assert_eq!(result.differences.get("error code of update"), Some(&2));
        let first = &result.first_differences[0];
        assert_eq!(
            (
                first.what.as_str(),
                first.recorded.as_str(),
                first.replayed.as_str(),
                first.op
            ),
            ("n", "1", "0", 7)
        );
    }
}
