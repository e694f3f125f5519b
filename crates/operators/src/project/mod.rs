//! Projections: `$project`, `$addFields`/`$set`, `$unset`, and those of `find`. Parsed once into a
//! tree by path.
//! Promises: kept fields stay in the document's order, new ones follow in the order of the
//! specification, arrays on a path are mapped over. Must not know: cursors, indexes.
//!
//! Errors: 15969 51272 51270 (specification), 31249 31250 (colliding paths), 31252 31253 31254
//! 31310 (mixing inclusion, exclusion and expressions), 31325 (unknown expression), 40272 40176
//! (`$addFields`), 31002 31119 31120 (`$unset`), 31255 31256 31271 31274 31275 31276 31308 51246
//! (positional and `$elemMatch`), 28667 28724 (`$slice`), 15998 16410 40352 40353 (paths).

mod apply;
mod find;
mod parse;
mod parse_find;
mod tree;

use crate::Cx;
use crate::expr::ParseCx;
use model::{Doc, Result, Value};
use tree::Tree;

/// A parsed projection.
pub struct Projection {
    tree: Tree,
    mode: Mode,
    /// `find` only: applied to the projected document.
    after: Vec<find::After>,
}

/// What happens to fields that are not named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They go.
    Inclusion,
    /// They stay; named ones go.
    Exclusion,
    /// They stay; named ones are computed.
    AddFields,
}

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
        parse::unset(spec)
    }

    /// Parses the projection of a `find`.
    ///
    /// # Errors
    /// See the module.
    pub fn parse_find(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Projection> {
        parse_find::find(cx, spec)
    }

    /// Projects a document.
    ///
    /// # Errors
    /// Those of computed fields.
    ///
    /// # Cost
    /// Linear in the document; simple inclusions stop at the last wanted field.
    pub fn apply<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<Doc<'a>> {
        self.apply_at(cx, doc, None)
    }

    /// Projects a document that its filter matched at an array index (for the positional `.$`).
    ///
    /// # Errors
    /// Those of computed fields; 51246 when there is no position.
    pub fn apply_at<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        doc: Doc<'a>,
        position: Option<usize>,
    ) -> Result<Doc<'a>> {
        let cx = Cx {
            root: Value::Document(doc),
            ..*cx
        };
        let mut out = match self.mode {
            Mode::Inclusion if self.tree.is_flat() => apply::flat_inclusion(&self.tree, &cx, doc),
            Mode::Inclusion => apply::include(&self.tree, &cx, doc),
            Mode::Exclusion => apply::exclude(&self.tree, &cx, doc),
            Mode::AddFields => doc,
        };
        if self.tree.has_computed() {
            out = apply::compute(&self.tree, &cx, out)?;
        }
        for a in &self.after {
            out = a.apply(&cx, out, position)?;
        }
        Ok(out)
    }

    /// What happens to fields that are not named.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// True when the positional `.$` is used.
    pub fn needs_position(&self) -> bool {
        self.after.iter().any(find::After::is_positional)
    }

    /// The paths the result depends on, when these are all; `None` when the whole document is
    /// needed. A covered query needs exactly these in its index.
    pub fn needed_paths(&self) -> Option<Vec<String>> {
        if self.mode != Mode::Inclusion || self.tree.has_computed() || !self.after.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        self.tree.paths("", &mut out);
        Some(out)
    }
}

#[cfg(test)]
mod tests;
