//! One stage of a pipeline, parsed: an immutable description that becomes a pull operator when it
//! is opened over its input. Must not know: which stages there are.

use crate::exec::{BatchStream, ChangeProgress, ExecContext, Fold, MatchFilter, SortPattern};
use model::{Doc, DocBuf, Result, Value};
use operators::Reads;
use operators::expr::ParseCx;
use std::sync::Arc;

/// One parsed stage.
pub trait Stage: Send + Sync {
    /// Opens the stage over its input.
    ///
    /// # Errors
    /// The stage's own.
    fn open(
        self: Arc<Self>,
        input: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>>;

    /// Checks what only the server knows, before anything runs; explain asks as well.
    ///
    /// # Errors
    /// The stage's own.
    fn check(&self, _rt: &ExecContext<'_>) -> Result<()> {
        Ok(())
    }

    /// The stage as explain shows it.
    fn describe(&self) -> DocBuf;

    /// What the optimizer and the planner may know about it.
    fn kind(&self) -> Kind<'_> {
        Kind::Other
    }

    /// Says which fields of its documents it looks at; what it says nothing of it must not need.
    fn reads(&self, reads: &mut Reads) {
        reads.add_everything();
    }

    /// One stage that does what this one and the next do.
    fn fused_with(self: Arc<Self>, _next: &dyn Stage) -> Option<Arc<dyn Stage>> {
        None
    }

    /// What a read may do in its place.
    fn fold(self: Arc<Self>) -> Option<Arc<dyn Fold>> {
        None
    }

    /// The same stage giving at most `n` documents, where it can make use of that.
    fn with_limit(&self, _n: u64) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The same stage with another number, where it is one of a number (`$limit`, `$skip`).
    fn with_number(&self, _n: u64) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The same stage with another filter, where it is one of a filter and this one can be parsed.
    fn with_filter(&self, _cx: &mut ParseCx<'_>, _filter: Doc<'_>) -> Option<Arc<dyn Stage>> {
        None
    }

    /// True when it ignores its input and makes documents itself.
    fn makes_documents(&self) -> bool {
        false
    }

    /// The `$meta` values documents carry because of the stage.
    fn provides_meta(&self) -> &'static [&'static str] {
        &[]
    }

    /// How far it is, when it is a stream of changes.
    fn changes(&self) -> Option<&Arc<ChangeProgress>> {
        None
    }

    /// Something outside stays as it is while the stage is open: a cursor over it stays when it has
    /// come to its end.
    fn holds_open(&self) -> bool {
        false
    }

    /// True for `$out` and `$merge`.
    fn is_writer(&self) -> bool {
        false
    }
}

/// Stages the optimizer and the planner look into.
pub enum Kind<'s> {
    /// `$match`.
    Match(&'s Arc<MatchFilter>),
    /// `$sort`, with the limit it took.
    Sort {
        /// The order.
        pattern: &'s Arc<SortPattern>,
        /// At most this many documents.
        limit: Option<u64>,
    },
    /// `$limit`.
    Limit(u64),
    /// `$skip`.
    Skip(u64),
    /// One that changes documents in a way the optimizer knows.
    Transform(Transform<'s>),
    /// Any other.
    Other,
}

/// Stages that change documents, by their specification: which fields they leave alone is told from
/// it.
pub enum Transform<'s> {
    /// `$project`.
    Project(Doc<'s>),
    /// `$addFields` and `$set`.
    AddFields(Doc<'s>),
    /// `$unset`: a path, or several.
    Unset(Value<'s>),
    /// `$unwind`.
    Unwind {
        /// The array.
        path: &'s str,
        /// Where the position goes.
        index: Option<&'s str>,
        /// Documents without elements stay.
        preserve: bool,
    },
    /// `$lookup`.
    Lookup(Doc<'s>),
    /// `$group`.
    Group(Doc<'s>),
    /// `$count`.
    Count,
    /// `$replaceRoot` and `$replaceWith`.
    ReplaceRoot,
    /// `$setWindowFields`.
    SetWindowFields,
}

/// A parsed stage alone in its list.
pub(crate) fn one(stage: impl Stage + 'static) -> Result<Vec<Arc<dyn Stage>>> {
    Ok(vec![Arc::new(stage)])
}
