//! One stage of a pipeline, parsed: an immutable description that becomes a pull operator when it
//! is opened over its input. Must not know: which stages there are.

use crate::exec::{BatchStream, ChangeProgress, ExecContext, Fold, MatchFilter, SortPattern};
use model::{Doc, DocBuf, Result, Value};
use operators::RequiredFields;
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

    /// Checks that need the server's state, before anything runs; explain checks as well.
    ///
    /// # Errors
    /// The stage's own.
    fn check(&self, _rt: &ExecContext<'_>) -> Result<()> {
        Ok(())
    }

    /// The stage as explain shows it.
    fn describe(&self) -> DocBuf;

    /// The properties that the optimizer and the planner may use.
    fn kind(&self) -> Kind<'_> {
        Kind::Other
    }

    /// Adds the fields of its input that it uses; it must not depend on any other field.
    fn reads(&self, reads: &mut RequiredFields) {
        reads.add_everything();
    }

    /// One stage that does the work of this stage and the next.
    fn fused_with(self: Arc<Self>, _next: &dyn Stage) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The stage in a form that a read can do in its place.
    fn fold(self: Arc<Self>) -> Option<Arc<dyn Fold>> {
        None
    }

    /// The same stage with at most `n` output documents, if it can use that.
    fn with_limit(&self, _n: u64) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The same stage with another number, if it has one (`$limit`, `$skip`).
    fn with_number(&self, _n: u64) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The same stage with another filter, if it has one and the new one can be parsed.
    fn with_filter(&self, _cx: &mut ParseCx<'_>, _filter: Doc<'_>) -> Option<Arc<dyn Stage>> {
        None
    }

    /// True when it ignores its input and makes documents itself.
    fn makes_documents(&self) -> bool {
        false
    }

    /// The `$meta` values that it adds to documents.
    fn provides_meta(&self) -> &'static [&'static str] {
        &[]
    }

    /// The progress of its change stream, if it is one.
    fn changes(&self) -> Option<&Arc<ChangeProgress>> {
        None
    }

    /// Something outside is held while the stage is open, so a cursor over it stays open at its
    /// end.
    fn holds_open(&self) -> bool {
        false
    }

    /// True for `$out` and `$merge`.
    fn is_writer(&self) -> bool {
        false
    }
}

/// The stages that the optimizer and the planner know.
pub enum Kind<'s> {
    /// `$match`.
    Match(&'s Arc<MatchFilter>),
    /// `$sort`, with a limit that was moved into it.
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
    /// A stage that changes documents in a known way.
    Transform(Transform<'s>),
    /// Any other.
    Other,
}

/// Stages that change documents, with their specification, which shows the fields they leave
/// unchanged.
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
        /// The field for the position.
        index: Option<&'s str>,
        /// Documents without elements are kept.
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

/// A list with one parsed stage.
pub(crate) fn one(stage: impl Stage + 'static) -> Result<Vec<Arc<dyn Stage>>> {
    Ok(vec![Arc::new(stage)])
}
