//! Queries in tantivy's interface, over the terms and columns of an index. Must not know:
//! definitions, how queries are written.

mod columns;
mod docs;
mod elements;
mod function;
mod phrase;
mod points;
mod shapes;
mod spans;
mod term;
mod terms;

pub(crate) use columns::{ColumnTest, Columns, Scoring};
pub(crate) use docs::MatcherQuery;
pub(crate) use elements::{Aggregate, Elements};
pub(crate) use function::{Curve, Function, FunctionQuery};
pub(crate) use phrase::Phrase;
pub(crate) use points::{PointTest, Points};
pub(crate) use shapes::{Relation, Shapes};
pub(crate) use spans::{SpanQuery, Spans};
pub(crate) use term::{ScoredTerm, TextStats};
pub(crate) use terms::{Terms, TokenTest};
