//! Projections: `$project`, `$addFields`/`$set`, `$unset`, and those of `find`. Parsed once into a
//! tree by path. Promises: kept fields stay in the document's order, new ones follow in the order
//! of the specification, arrays on a path are mapped over. Must not know: cursors, indexes.
//!
//! Errors: 15969 51272 51270 (specification), 31249 31250 (colliding paths), 31252 31253 31254
//! 31310 (mixing inclusion, exclusion and expressions), 31325 (unknown expression), 40272 40176
//! (`$addFields`), 31002 31119 31120 (`$unset`), 31255 31256 31271 31274 31275 31276 31308 31394
//! 51246 51247 (positional and `$elemMatch`), 28667 28724 (`$slice`), 15998 16410 40352 40353
//! (paths).

mod apply;
mod find;
mod parse;
mod parse_find;
mod projection;
mod tree;

use crate::expr::ParseCx;
use model::{Doc, Result, Value};
pub use projection::{Mode, Projection};

impl Projection {
    /// Parses `$project`.
    ///
    /// # Errors
    /// See the module.
    pub fn parse_project(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<Projection> {
        parse::project(cx, spec)
    }

    /// Parses `$addFields` or `$set`.
    ///
    /// # Errors
    /// See the module.
    pub fn parse_add_fields(
        cx: &mut ParseCx<'_>,
        name: &str,
        spec: Value<'_>,
    ) -> Result<Projection> {
        parse::add_fields(cx, name, spec)
    }

    /// Parses `$unset`.
    ///
    /// # Errors
    /// See the module.
    pub fn parse_unset(spec: Value<'_>) -> Result<Projection> {
        parse::parse_unset(spec)
    }

    /// Parses the projection of a `find`.
    ///
    /// # Errors
    /// See the module.
    pub fn parse_find(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Projection> {
        parse_find::find(cx, spec)
    }
}

#[cfg(test)]
mod tests;
