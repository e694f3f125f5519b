//! Expressions and filters over columns. Promises: the same results as document by document, since
//! the same functions decide; a batch that cannot be taken apart is worked on document by document.
//! Must not know: where documents come from, which operators there are.

mod form;
mod sieve;

pub use form::{Form, Rows};
pub use sieve::{FilterContext, Sieve};
