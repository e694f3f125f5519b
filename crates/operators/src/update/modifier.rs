//! The interface of update operators: what an operator may use and what it may return. Must not
//! know: which operators there are.

use crate::Env;
use model::{Bump, Doc, Result, Value};

/// The context of one application.
pub struct UpdateCx<'s, 'a> {
    /// The arena of the result.
    pub arena: &'a Bump,
    /// The operation.
    pub env: &'s Env,
    /// The document is being inserted by an upsert: `$setOnInsert` applies.
    pub inserting: bool,
    /// The array index at which the filter matched: the value of the positional `$`.
    pub position: Option<usize>,
}

/// The result of applying an update.
#[derive(Clone, Copy, Debug)]
pub enum UpdateResult<'a> {
    /// Nothing to write.
    Unchanged,
    /// The new document.
    Changed(Doc<'a>),
}

/// An operator at a path.
pub(super) trait Modifier: Send + Sync {
    /// The new value; `current` is `Missing` when the field does not exist.
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>>;

    /// True to refuse a path through a value without fields, even when nothing would change.
    fn wants_viable_path(&self) -> bool {
        false
    }
}

/// The result of a modifier.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome<'a> {
    Keep,
    Set(Value<'a>),
    Remove,
}

/// Where a modifier is applied.
pub(super) struct Site<'s, 'a> {
    pub(super) cx: &'s UpdateCx<'s, 'a>,
    /// The whole document before the update.
    pub(super) root: Doc<'a>,
}

impl<'a> Site<'_, 'a> {
    /// `{_id: ...}` for messages.
    pub(super) fn document_id(&self) -> String {
        format!("{{_id: {}}}", self.root.field("_id"))
    }
    pub(super) fn arena(&self) -> &'a Bump {
        self.cx.arena
    }
}

/// True when two values have the same type and bytes.
pub(super) fn identical(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Int32(x), Value::Int32(y)) => x == y,
        (Value::Int64(x), Value::Int64(y)) | (Value::Date(x), Value::Date(y)) => x == y,
        (Value::Double(x), Value::Double(y)) => x.to_bits() == y.to_bits(),
        (Value::String(x), Value::String(y)) => x == y,
        (Value::Document(x), Value::Document(y)) => x == y,
        (Value::Array(x), Value::Array(y)) => x == y,
        _ => a.tag() == b.tag() && a.to_owned_value() == b.to_owned_value(),
    }
}
