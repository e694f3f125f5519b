//! The values of an expression for the documents of a batch. Must not know: expressions.

use super::column::Column;
use model::{Bump, Doc, Value};

/// The values of an expression.
pub enum Operand<'r> {
    /// Those of a path, at these rows.
    Column(&'r Column, Option<&'r [u32]>),
    /// One for all.
    Constant(Value<'r>),
    /// Computed ones.
    Own(Column),
    /// Documents of computed fields.
    Fields(Vec<(&'r str, Operand<'r>)>),
}

/// The row in the batch of one that is wanted.
#[inline]
pub(crate) fn row_of(selected: Option<&[u32]>, at: usize) -> usize {
    match selected {
        None => at,
        Some(rows) => rows.get(at).map_or(usize::MAX, |row| *row as usize),
    }
}

impl Operand<'_> {
    /// The value of one of the rows that are wanted.
    #[inline]
    pub fn value<'a>(&'a self, at: usize, arena: &'a Bump) -> Value<'a> {
        self.scalar(at).unwrap_or_else(|| {
            Value::Document(Doc::build_in(arena, |w| {
                for (name, operand) in self.fields() {
                    w.put(name, operand.value(at, arena));
                }
            }))
        })
    }

    /// The same where it need not be put together; `None` for documents of computed fields.
    #[inline]
    pub fn scalar(&self, at: usize) -> Option<Value<'_>> {
        match self {
            Operand::Column(column, selected) => Some(column.value(row_of(*selected, at))),
            Operand::Own(column) => Some(column.value(at)),
            Operand::Constant(v) => Some(*v),
            Operand::Fields(_) => None,
        }
    }

    fn fields(&self) -> &[(&str, Operand<'_>)] {
        match self {
            Operand::Fields(fields) => fields,
            _ => &[],
        }
    }
}
