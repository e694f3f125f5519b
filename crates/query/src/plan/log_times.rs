//! The time range of the log that a filter on `ts` selects, so that the read seeks to it. Must not
//! know: how the log is read.

use super::bounds::conjuncts;
use model::{Timestamp, Value};
use operators::filter::{CompareOp, Node, Test};

/// First and last time of entries that may match.
pub(crate) fn of(root: &Node) -> (Timestamp, Timestamp) {
    let (mut first, mut last) = (0, u64::MAX);
    conjuncts(root, &mut |n| {
        let Node::Field {
            path,
            test: Test::Compare(c),
        } = n
        else {
            return;
        };
        let (Value::Timestamp(t), "ts") = (c.value.get(), path.as_str()) else {
            return;
        };
        let t = t.as_u64();
        let (from, to) = match c.op {
            CompareOp::Eq => (t, t),
            CompareOp::Gt => (t.saturating_add(1), u64::MAX),
            CompareOp::Gte => (t, u64::MAX),
            CompareOp::Lt => (0, t.saturating_sub(1)),
            CompareOp::Lte => (0, t),
        };
        (first, last) = (first.max(from), last.min(to));
    });
    (Timestamp::from_u64(first), Timestamp::from_u64(last))
}
