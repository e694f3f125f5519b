//! The outcome of an update or delete. Must not know: how the write was done.

use model::{DocBuf, OwnedValue};
use store::{CommitPos, Effect};

/// The outcome of an update or delete.
#[derive(Debug, Default)]
pub(crate) struct WriteOutcome {
    pub(crate) matched: i64,
    pub(crate) modified: i64,
    pub(crate) upserted: Option<OwnedValue>,
    pub(crate) pos: CommitPos,
    /// The document before and after the change, if requested.
    pub(crate) before: Option<DocBuf>,
    pub(crate) after: Option<DocBuf>,
}

impl WriteOutcome {
    /// The outcome of an earlier attempt of the same statement.
    pub(crate) fn repeat(effect: Effect) -> WriteOutcome {
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
