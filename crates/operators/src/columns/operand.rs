//! The values of an expression for the documents of a batch. Must not know: expressions.

use super::column::Column;
use model::{Bump, Doc, Value};

/// The values of an expression.
pub enum Operand<'r> {
    /// The column of a path, restricted to these rows.
    Column(&'r Column, Option<&'r [u32]>),
    /// One value for all rows.
    Constant(Value<'r>),
    /// Computed values.
    Own(Column),
    /// Documents of computed fields.
    Fields(Vec<(&'r str, Operand<'r>)>),
}

/// The row in the batch of a selected row.
#[inline]
pub(crate) fn row_of(selected: Option<&[u32]>, at: usize) -> usize {
    match selected {
        None => at,
        Some(rows) => rows.get(at).map_or(usize::MAX, |row| *row as usize),
    }
}

impl Operand<'_> {
    /// The value of a selected row.
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

    /// The same without building a document; `None` for documents of computed fields.
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
