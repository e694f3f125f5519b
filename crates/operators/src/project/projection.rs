//! A parsed projection and its application to documents. Must not know: how it is parsed.

use super::tree::Tree;
use super::{apply, find};
use crate::{Cx, RequiredFields};
use model::{Doc, Result, Value, bail, code};

/// A parsed projection.
pub struct Projection {
    pub(super) tree: Tree,
    pub(super) mode: Mode,
    /// `find` only: applied to the projected document.
    pub(super) after: Vec<find::ArrayProjection>,
}

/// What happens to fields that are not named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They are dropped.
    Inclusion,
    /// They are kept; named ones are dropped.
    Exclusion,
    /// They are kept; named ones are computed.
    AddFields,
}

impl Projection {
    /// Projects a document.
    ///
    /// # Errors
    /// The errors of computed fields; 15 Overflow when they are nested too deeply.
    ///
    /// # Cost
    /// Linear in the document; simple inclusions stop at the last wanted field.
    pub fn apply<'a>(&'a self, cx: &Cx<'_, 'a>, doc: Doc<'a>) -> Result<Doc<'a>> {
        self.apply_at(cx, doc, None)
    }

    /// Projects a document whose filter matched at an array index (for the positional `.$`).
    ///
    /// # Errors
    /// The errors of computed fields; 51246 when there is no position.
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
            if model::is_deeper_than(out, model::MAX_DEPTH) {
                bail!(
                    code::OVERFLOW,
                    "BSONObj exceeds maximum nested object depth: {}",
                    model::MAX_DEPTH - 1
                );
            }
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
        self.after.iter().any(find::ArrayProjection::is_positional)
    }

    /// Adds the fields that the result depends on: all kept fields, and those that computed fields
    /// read.
    pub fn reads(&self, reads: &mut RequiredFields) {
        match self.mode {
            _ if !self.after.is_empty() => reads.add_everything(),
            // The fields that an exclusion keeps are not read.
            Mode::Exclusion if !self.tree.has_computed() => {}
            Mode::Exclusion => reads.add_everything(),
            // Replaced fields keep their position in the document.
            Mode::AddFields => self.tree.reads(true, reads),
            Mode::Inclusion => self.tree.reads(false, reads),
        }
    }

    /// The paths that the result depends on; `None` when the whole document is needed. A covered
    /// query needs exactly these paths in its index.
    pub fn needed_paths(&self) -> Option<Vec<String>> {
        if self.mode != Mode::Inclusion || self.tree.has_computed() || !self.after.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        self.tree.paths("", &mut out);
        Some(out)
    }
}
