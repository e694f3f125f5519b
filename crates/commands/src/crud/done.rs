//! The outcome of an update or delete. Must not know: how the write was done.

use model::{DocBuf, OwnedValue};
use store::{CommitPos, Effect};

/// The outcome of an update or delete.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) matched: i64,
    pub(crate) modified: i64,
    pub(crate) upserted: Option<OwnedValue>,
    pub(crate) pos: CommitPos,
    /// The document before and after the change, if requested.
    pub(crate) before: Option<DocBuf>,
    pub(crate) after: Option<DocBuf>,
}

impl Done {
    /// The outcome of an earlier attempt of the same statement.
    pub(crate) fn before(effect: Effect) -> Done {
        let one = Done {
            matched: 1,
            ..Done::default()
        };
        match effect {
            Effect::Inserted | Effect::Deleted => one,
            Effect::Updated => Done { modified: 1, ..one },
            Effect::Upserted(id) => Done {
                upserted: Some(id.doc().field("_id").to_owned_value()),
                ..Done::default()
            },
            Effect::UpdatedBefore(d) => Done {
                modified: 1,
                before: Some(d),
                ..one
            },
            Effect::UpdatedAfter(d) => Done {
                modified: 1,
                after: Some(d),
                ..one
            },
            Effect::Removed(d) => Done {
                before: Some(d),
                ..one
            },
            Effect::Made(d) => Done {
                upserted: Some(d.doc().field("_id").to_owned_value()),
                after: Some(d),
                ..Done::default()
            },
        }
    }
}
