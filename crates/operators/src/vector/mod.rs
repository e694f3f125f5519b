//! Expressions and filters over columns. Promises: the same results as document by document,
//! because the same functions decide; documents that cannot be split are processed one by one. Must
//! not know: where documents come from, which operators there are.

mod form;
mod sieve;

pub use form::{ColumnExpr, Rows};
pub use sieve::{ColumnFilter, FilterContext};
