//! Updates: operator documents, replacements and pipelines, parsed once and applied to raw
//! documents.
//! Promises: fields keep their order, new ones are appended in name order, an update that changes
//! nothing says so, `_id` cannot change. Must not know: where documents are stored, indexes,
//! validators.
//!
//! Errors: 9 unknown operators and wrong operands, 2 and 14 per operator, 28 PathNotViable, 40
//! conflicting paths, 52 dollar-prefixed names, 56 empty names, 66 changes of `_id`, 17419 results
//! that are too large.

mod add_to_set;
mod apply;
mod arithmetic;
mod array_filters;
mod bit;
mod current_date;
mod fields;
mod min_max;
mod modifier;
mod path;
mod pipeline;
mod pop;
mod pull;
mod push;
mod rename;
mod tree;
mod upsert;

pub use modifier::{UpdateCx, UpdateResult};
pub use upsert::upsert_base;

use crate::expr::ParseCx;
use array_filters::ArrayFilters;
use model::bson::MAX_DOCUMENT_BYTES;
use model::{Doc, DocBuf, FieldPath, Result, Value, bail, code};
use pipeline::Pipeline;
use tree::Branch;

/// A parsed update.
pub struct Update {
    kind: Kind,
}

enum Kind {
    Operators { root: Branch, filters: ArrayFilters },
    Replacement(DocBuf),
    Pipeline(Pipeline),
}

impl Update {
    /// Parses an update: an operator document, a replacement, or a pipeline.
    ///
    /// # Errors
    /// See the module; 9 FailedToParse when `spec` is neither a document nor an array, 72
    /// InvalidOptions for stages not allowed in updates.
    pub fn parse(
        cx: &mut ParseCx<'_>,
        spec: Value<'_>,
        array_filters: Option<Value<'_>>,
    ) -> Result<Update> {
        let mut filters = ArrayFilters::parse(cx, array_filters)?;
        match spec {
            Value::Array(stages) => {
                if array_filters.is_some_and(|f| f.as_array().is_some_and(|a| !a.is_empty())) {
                    bail!(
                        code::FAILED_TO_PARSE,
                        "arrayFilters may not be specified for pipeline-style updates"
                    );
                }
                Ok(Update {
                    kind: Kind::Pipeline(Pipeline::parse(cx, stages)?),
                })
            }
            Value::Document(d) if d.first().is_some_and(|(name, _)| name.starts_with('$')) => {
                let root = tree::parse(cx, d, &mut filters)?;
                filters.check_all_used()?;
                Ok(Update {
                    kind: Kind::Operators { root, filters },
                })
            }
            Value::Document(d) => {
                if !filters.is_empty() {
                    bail!(
                        code::FAILED_TO_PARSE,
                        "arrayFilters may not be specified for replacement-style updates"
                    );
                }
                if let Some((name, _)) = d.iter().find(|(name, _)| name.starts_with('$')) {
                    bail!(
                        code::DOLLAR_PREFIXED_FIELD_NAME,
                        "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the \
                            context of an update's \
                         replacement document. Consider using an aggregation pipeline with \
                         $replaceWith."
                    );
                }
                Ok(Update {
                    kind: Kind::Replacement(d.to_buf()),
                })
            }
            _ => bail!(
                code::FAILED_TO_PARSE,
                "Update argument must be either an object or an array"
            ),
        }
    }

    /// Applies the update.
    ///
    /// # Errors
    /// See the module.
    ///
    /// # Cost
    /// Linear in the document for each level of nesting that is touched.
    pub fn apply<'a>(&'a self, doc: Doc<'a>, cx: &UpdateCx<'_, 'a>) -> Result<UpdateResult<'a>> {
        let applied = match &self.kind {
            Kind::Operators { root, filters } => apply::apply(root, filters, doc, cx)?,
            Kind::Replacement(new) => replace(new.doc(), doc, cx),
            Kind::Pipeline(p) => p.apply(doc, cx)?,
        };
        let UpdateResult::Changed(new) = applied else {
            return Ok(UpdateResult::Unchanged);
        };
        check_id(doc, new)?;
        check_storable(
            doc,
            new,
            cx.inserting || matches!(self.kind, Kind::Pipeline(_)),
        )?;
        // A replacement is compared as given: without an `_id` it differs from the document.
        let compared = match &self.kind {
            Kind::Replacement(given) => given.doc().contains("_id"),
            _ => true,
        };
        if compared && new.as_bytes() == doc.as_bytes() {
            Ok(UpdateResult::Unchanged)
        } else {
            Ok(UpdateResult::Changed(new))
        }
    }

    /// False when the update does not change anything at, above or below the path, so that an index
    /// on it needs no change.
    pub fn may_touch(&self, path: &FieldPath) -> bool {
        match &self.kind {
            Kind::Operators { root, .. } => root.top_level().any(|name| name == path.first()),
            Kind::Replacement(_) | Kind::Pipeline(_) => true,
        }
    }

    /// True for replacements: they cannot be applied to many documents.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// True for pipelines: only they may use constants (`c`).
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    /// True when the positional `$` is used, so that the filter must report where it matched.
    pub fn needs_position(&self) -> bool {
        match &self.kind {
            Kind::Operators { root, .. } => root.uses_position(),
            _ => false,
        }
    }
}

/// The replacement with the document's `_id` in front, unless it has its own.
fn replace<'a>(new: Doc<'a>, old: Doc<'a>, cx: &UpdateCx<'_, 'a>) -> UpdateResult<'a> {
    let id = new.get_element("_id").or_else(|| old.get_element("_id"));
    UpdateResult::Changed(Doc::build_in(cx.arena, |w| {
        if let Some(id) = id {
            w.put_element(&id);
        }
        for e in new.elements().filter(|e| e.name != b"_id") {
            w.put_element(&e);
        }
    }))
}

fn check_id(old: Doc<'_>, new: Doc<'_>) -> Result<()> {
    let Some(before) = old.get("_id") else {
        return Ok(());
    };
    let after = new.field("_id");
    let same = model::compare(&before, &after).is_eq();
    if !same {
        let what = if after.is_missing() {
            "After applying the update, the (immutable) field '_id' was found to have been removed"
                .to_owned()
        } else {
            format!(
                "Performing an update on the path '_id' would modify the immutable field '_id' of \
                    {old}"
            )
        };
        bail!(code::IMMUTABLE_FIELD, "{what}");
    }
    Ok(())
}

/// Inserts and pipelines may add dollar-prefixed fields; other updates may only keep existing ones.
fn check_storable(old: Doc<'_>, new: Doc<'_>, may_bring: bool) -> Result<()> {
    if new.len_bytes() > MAX_DOCUMENT_BYTES {
        bail!(
            17419,
            "Resulting document after update is larger than {MAX_DOCUMENT_BYTES}"
        );
    }
    let same = |e: &model::Element<'_>| {
        let before = old.get_element(e.name_str());
        before.is_some_and(|b| b.tag == e.tag && b.payload == e.payload)
    };
    let mut prefixed = new.elements().filter(|e| e.name.first() == Some(&b'$'));
    if let Some(e) = prefixed.find(|e| !may_bring && !same(e)) {
        let name = e.name_str();
        bail!(
            code::DOLLAR_PREFIXED_FIELD_NAME,
            "The dollar ($) prefixed field '{name}' in '{name}' is not valid for storage."
        );
    }
    if model::is_deeper_than(new, model::MAX_STORED_DEPTH) {
        bail!(
            code::OVERFLOW,
            "Document exceeds maximum nested object depth: {}",
            model::MAX_STORED_DEPTH
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
