//! Arguments of `update`, `delete`, `findAndModify`.

use super::{NUMBERS, RawChange, doc_or_empty, documents, hint, update_of};
use model::{Array, Doc, Result, Tag, Value, bail, code};
use request::args::{Arg, Args, Kind, arg, check_doc, to_i64};

/// The change of a document.
#[derive(Clone, Debug)]
pub enum Mods<'a> {
    /// Update operators (`$set`, ...) or a replacement document.
    Update {
        /// The document.
        doc: Doc<'a>,
        /// Filters of array elements.
        array_filters: Vec<Doc<'a>>,
    },
    /// A pipeline with constants.
    Pipeline {
        /// The stages.
        stages: Array<'a>,
        /// The variables of the pipeline.
        constants: Doc<'a>,
    },
}

impl<'a> Mods<'a> {
    /// # Errors
    /// 9 FailedToParse for another type, 51198 constants without a pipeline, 9 array filters with
    /// one, 14 TypeMismatch.
    pub(crate) fn of(
        v: Value<'a>,
        filters: Option<Array<'a>>,
        constants: Option<Doc<'a>>,
        path: &str,
    ) -> Result<Mods<'a>> {
        let array_filters = documents(&format!("{path}.arrayFilters"), filters)?;
        match update_of(v)? {
            RawChange::Doc(_) if constants.is_some() => bail!(
                51_198,
                "Constant values may only be specified for pipeline updates"
            ),
            RawChange::Doc(doc) => Ok(Mods::Update { doc, array_filters }),
            RawChange::Pipeline(_) if filters.is_some() => bail!(
                code::FAILED_TO_PARSE,
                "arrayFilters may not be specified for pipeline-style updates"
            ),
            RawChange::Pipeline(stages) => Ok(Mods::Pipeline {
                stages,
                constants: constants.unwrap_or(Doc::EMPTY),
            }),
        }
    }
}

/// The arguments that `update` and `delete` share.
#[derive(Clone, Copy, Debug)]
pub struct WriteArgs<'a> {
    /// Collection.
    pub coll: &'a str,
    /// Stop at the first error.
    pub ordered: bool,
    /// Bypass validators.
    pub bypass_validation: bool,
    /// Variables.
    pub let_vars: Doc<'a>,
}

impl<'a> WriteArgs<'a> {
    /// Parses checked arguments.
    pub fn of(coll: &'a str, a: &Args<'a>) -> WriteArgs<'a> {
        WriteArgs {
            coll,
            ordered: a.bool("ordered", true),
            bypass_validation: a.bool("bypassDocumentValidation", false),
            let_vars: doc_or_empty(a.value("let")),
        }
    }
}

/// Table of `update`.
pub static UPDATE: &[Arg] = &[
    arg("updates", Kind::Array).required().sequence(),
    arg("ordered", Kind::Bool),
    arg("bypassDocumentValidation", Kind::BoolLike),
    arg("let", Kind::Object),
    arg("stmtId", Kind::Number),
    arg("stmtIds", Kind::Array),
    arg("encryptionInformation", Kind::Object),
    arg("bypassEmptyTsReplacement", Kind::Bool),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("isTimeseriesNamespace", Kind::Bool),
    arg("runtimeConstants", Kind::Object),
    arg("legacyRuntimeConstants", Kind::Object),
    arg("sampleId", Kind::OneOf(&[Tag::BINARY])),
];

static UPDATE_OP: &[Arg] = &[
    arg("q", Kind::Object).required(),
    arg("u", Kind::Any).required(),
    arg("c", Kind::Object),
    arg("multi", Kind::Bool),
    arg("upsert", Kind::Bool),
    arg("upsertSupplied", Kind::Bool),
    arg("collation", Kind::Object),
    arg("arrayFilters", Kind::Array),
    arg("hint", Kind::Any),
    arg("sort", Kind::Object),
    arg("sampleId", Kind::OneOf(&[Tag::BINARY])),
    arg("allowShardKeyUpdatesWithoutFullShardKeyInQuery", Kind::Bool),
];

/// One statement of `update`.
#[derive(Clone, Debug)]
pub struct UpdateOp<'a> {
    /// Filter.
    pub filter: Doc<'a>,
    /// The change.
    pub mods: Mods<'a>,
    /// Change all matching documents.
    pub multi: bool,
    /// Insert a document when none matches.
    pub upsert: bool,
    /// Collation.
    pub collation: Option<Doc<'a>>,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
    /// The order that decides which of several matching documents is changed.
    pub sort: Doc<'a>,
}

impl<'a> UpdateOp<'a> {
    /// Parses an element of `updates`.
    ///
    /// # Errors
    /// 40414 IDLMissingField, 40415 IDLFailedToParse, 14 TypeMismatch, 9 FailedToParse, 51198.
    pub fn of(i: usize, d: Doc<'a>) -> Result<UpdateOp<'a>> {
        let path = format!("update.updates.{i}");
        let a = check_doc(&path, UPDATE_OP, d)?;
        let op = UpdateOp {
            filter: doc_or_empty(a.value("q")),
            mods: Mods::of(a.value("u"), a.array("arrayFilters"), a.doc("c"), &path)?,
            multi: a.bool("multi", false),
            upsert: a.bool("upsert", false),
            collation: a.doc("collation"),
            hint: hint(a.value("hint"))?,
            sort: doc_or_empty(a.value("sort")),
        };
        if op.multi && !op.sort.is_empty() {
            bail!(code::FAILED_TO_PARSE, "Cannot specify sort with multi=true");
        }
        Ok(op)
    }
}

/// Table of `delete`.
pub static DELETE: &[Arg] = &[
    arg("deletes", Kind::Array).required().sequence(),
    arg("ordered", Kind::Bool),
    arg("bypassDocumentValidation", Kind::BoolLike),
    arg("let", Kind::Object),
    arg("stmtId", Kind::Number),
    arg("stmtIds", Kind::Array),
    arg("encryptionInformation", Kind::Object),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("isTimeseriesNamespace", Kind::Bool),
    arg("legacyRuntimeConstants", Kind::Object),
];

static DELETE_OP: &[Arg] = &[
    arg("q", Kind::Object).required(),
    arg("limit", Kind::OneOf(NUMBERS)).required(),
    arg("collation", Kind::Object),
    arg("hint", Kind::Any),
    arg("sampleId", Kind::OneOf(&[Tag::BINARY])),
];

/// One statement of `delete`.
#[derive(Clone, Debug)]
pub struct DeleteOp<'a> {
    /// Filter.
    pub filter: Doc<'a>,
    /// Delete all matching documents instead of one.
    pub multi: bool,
    /// Collation.
    pub collation: Option<Doc<'a>>,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
}

impl<'a> DeleteOp<'a> {
    /// Parses an element of `deletes`.
    ///
    /// # Errors
    /// 40414 IDLMissingField, 40415 IDLFailedToParse, 14 TypeMismatch, 9 FailedToParse for a limit
    /// other than 0 and 1.
    pub fn of(i: usize, d: Doc<'a>) -> Result<DeleteOp<'a>> {
        let a = check_doc(&format!("delete.deletes.{i}"), DELETE_OP, d)?;
        let multi = match to_i64(&a.value("limit")) {
            Some(0) => true,
            Some(1) => false,
            other => bail!(
                code::FAILED_TO_PARSE,
                "The limit field in delete objects must be 0 or 1. Got {}",
                other.unwrap_or(-1)
            ),
        };
        Ok(DeleteOp {
            filter: doc_or_empty(a.value("q")),
            multi,
            collation: a.doc("collation"),
            hint: hint(a.value("hint"))?,
        })
    }
}

/// Table of `findAndModify`.
pub static FIND_AND_MODIFY: &[Arg] = &[
    arg("query", Kind::Object),
    arg("sort", Kind::Object),
    arg("remove", Kind::BoolLike),
    arg("update", Kind::Any),
    arg("new", Kind::BoolLike),
    arg("fields", Kind::Object),
    arg("upsert", Kind::BoolLike),
    arg("bypassDocumentValidation", Kind::BoolLike),
    arg("collation", Kind::Object),
    arg("arrayFilters", Kind::Array),
    arg("hint", Kind::Any),
    arg("let", Kind::Object),
    arg("stmtId", Kind::Number),
    arg("encryptionInformation", Kind::Object),
    arg("bypassEmptyTsReplacement", Kind::Bool),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("runtimeConstants", Kind::Object),
    arg("legacyRuntimeConstants", Kind::Object),
    arg("sampleId", Kind::OneOf(&[Tag::BINARY])),
];

/// Arguments of `findAndModify`.
#[derive(Clone, Debug)]
pub struct FindAndModifyArgs<'a> {
    /// Collection.
    pub coll: &'a str,
    /// Filter.
    pub query: Doc<'a>,
    /// The order that decides which of several matching documents is changed.
    pub sort: Doc<'a>,
    /// The change; `None` removes the document.
    pub mods: Option<Mods<'a>>,
    /// Return the document after the change.
    pub new: bool,
    /// Projection of the returned document.
    pub fields: Doc<'a>,
    /// Insert a document when none matches.
    pub upsert: bool,
    /// Bypass validators.
    pub bypass_validation: bool,
    /// Collation.
    pub collation: Option<Doc<'a>>,
    /// Index name or key pattern.
    pub hint: Option<Value<'a>>,
    /// Variables.
    pub let_vars: Doc<'a>,
}

impl<'a> FindAndModifyArgs<'a> {
    /// Parses arguments that were checked against [`FIND_AND_MODIFY`].
    ///
    /// # Errors
    /// 9 FailedToParse for arguments that exclude or need one another, 14 TypeMismatch.
    pub fn of(coll: &'a str, a: &Args<'a>) -> Result<FindAndModifyArgs<'a>> {
        let remove = a.bool("remove", false);
        let fail = |what: &str| -> Result<()> { bail!(code::FAILED_TO_PARSE, "{what}") };
        if remove {
            if a.has("update") {
                fail("Cannot specify both an update and remove=true")?;
            }
            if a.bool("upsert", false) {
                fail("Cannot specify both upsert=true and remove=true")?;
            }
            if a.bool("new", false) {
                fail(
                    "Cannot specify both new=true and remove=true; 'remove' always returns the \
                        deleted document",
                )?;
            }
            if a.has("arrayFilters") {
                fail("Cannot specify arrayFilters and remove=true")?;
            }
        } else if !a.has("update") {
            fail("Either an update or remove=true must be specified")?;
        }
        let mods = if remove {
            None
        } else {
            Some(Mods::of(
                a.value("update"),
                a.array("arrayFilters"),
                None,
                "findAndModify",
            )?)
        };
        Ok(FindAndModifyArgs {
            coll,
            query: doc_or_empty(a.value("query")),
            sort: doc_or_empty(a.value("sort")),
            mods,
            new: a.bool("new", false),
            fields: doc_or_empty(a.value("fields")),
            upsert: a.bool("upsert", false),
            bypass_validation: a.bool("bypassDocumentValidation", false),
            collation: a.doc("collation"),
            hint: hint(a.value("hint"))?,
            let_vars: doc_or_empty(a.value("let")),
        })
    }
}
