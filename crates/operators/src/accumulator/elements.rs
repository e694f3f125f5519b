//! A growing array of copied values, in one buffer.

use model::{Array, Bump, DocBuf, Value};

/// Values in the order they were pushed.
#[derive(Default)]
pub(super) struct Elements {
    buf: DocBuf,
    count: usize,
}

impl Elements {
    /// Appends a copy; a missing value becomes null.
    pub(super) fn push(&mut self, v: &Value<'_>) {
        let v = if v.is_missing() { Value::Null } else { *v };
        self.buf.put(itoa::Buffer::new().format(self.count), v);
        self.count += 1;
    }
    /// The array.
    pub(super) fn build<'a>(&self, arena: &'a Bump) -> Array<'a> {
        self.buf.doc().copy_into(arena).as_array()
    }
    /// The values.
    pub(super) fn iter(&self) -> impl Iterator<Item = Value<'_>> {
        self.buf.doc().as_array().iter()
    }
    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.buf.capacity_bytes()
    }
}
