//! The outcome of an update or delete. Must not know: how the write was done.

use model::{DocBuf, OwnedValue};
use store::{CommitPos, Effect};

/// The outcome of an update or delete.
#[derive(Debug, Default)]
pub struct WriteOutcome {
    /// Documents that matched.
    pub matched: i64,
    /// Documents that changed.
    pub modified: i64,
    /// The `_id` of the document that was inserted because none matched.
    pub upserted: Option<OwnedValue>,
    /// The position of the commit.
    pub pos: CommitPos,
    /// The document before and after the change, if requested.
    pub before: Option<DocBuf>,
    /// As `before`, after the change.
    pub after: Option<DocBuf>,
}

impl WriteOutcome {
    /// The outcome of an earlier attempt of the same statement.
    pub fn repeat(effect: Effect) -> WriteOutcome {
        let one = WriteOutcome {
            matched: 1,
            ..WriteOutcome::default()
        };
        match effect {
            Effect::Inserted | Effect::Deleted => one,
            Effect::Updated => WriteOutcome { modified: 1, ..one },
            Effect::Upserted(id) => WriteOutcome {
                upserted: Some(id.doc().field("_id").to_owned_value()),
                ..WriteOutcome::default()
            },
            Effect::UpdatedBefore(d) => WriteOutcome {
                modified: 1,
                before: Some(d),
                ..one
            },
            Effect::UpdatedAfter(d) => WriteOutcome {
                modified: 1,
                after: Some(d),
                ..one
            },
            Effect::Removed(d) => WriteOutcome {
                before: Some(d),
                ..one
            },
            Effect::Made(d) => WriteOutcome {
                upserted: Some(d.doc().field("_id").to_owned_value()),
                after: Some(d),
                ..WriteOutcome::default()
            },
        }
    }
}
