//! What an operator of an update is, what it may know and what it may ask for. Must not know: which
//! operators there are.

use crate::Env;
use model::{Bump, Doc, Result, Value};

/// What one application may know.
pub struct UpdateCx<'s, 'a> {
    /// Where the result is made.
    pub arena: &'a Bump,
    /// The operation.
    pub env: &'s Env,
    /// The document is being inserted by an upsert: `$setOnInsert` works.
    pub inserting: bool,
    /// The index the filter matched at: what the positional `$` stands for.
    pub position: Option<usize>,
}

/// The outcome of one application.
#[derive(Clone, Copy, Debug)]
pub enum Applied<'a> {
    /// Nothing to write.
    Unchanged,
    /// The new document.
    Changed(Doc<'a>),
}

/// An operator at a path.
pub(super) trait Modifier: Send + Sync {
    /// The new value; `current` is `Missing` when there is none.
    fn apply<'a>(&'a self, current: Value<'a>, at: &Site<'_, 'a>) -> Result<Outcome<'a>>;

    /// Refuses a path that leads through a value without fields, though it would change nothing.
    fn wants_viable_path(&self) -> bool {
        false
    }
}

/// What a modifier wants done.
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
