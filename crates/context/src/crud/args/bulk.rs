//! Arguments of `bulkWrite`: operations on several collections in one command.

use super::write::Mods;
use super::{NUMBERS, doc_or_empty, hint};
use model::{Doc, Namespace, Result, Tag, Value, bail, code};
use request::args::{Arg, Args, Kind, arg, check_doc, to_i64, wrong_type};

/// Table of `bulkWrite`.
pub static BULK_WRITE: &[Arg] = &[
    arg("ops", Kind::Array).required().sequence(),
    arg("nsInfo", Kind::Array).required().sequence(),
    arg("ordered", Kind::Bool),
    arg("errorsOnly", Kind::Bool),
    arg("bypassDocumentValidation", Kind::BoolLike),
    arg("let", Kind::Object),
    arg("cursor", Kind::Object),
    arg("stmtId", Kind::Number),
    arg("stmtIds", Kind::Array),
    arg("bypassEmptyTsReplacement", Kind::Bool),
];

static NS_INFO: &[Arg] = &[
    arg("ns", Kind::Str).required(),
    arg("collectionUUID", Kind::OneOf(&[Tag::BINARY])),
    arg("encryptionInformation", Kind::Object),
    arg("isTimeseriesNamespace", Kind::Bool),
];
static INSERT: &[Arg] = &[
    arg("insert", Kind::OneOf(NUMBERS)).required(),
    arg("document", Kind::Object).required(),
];
static UPDATE: &[Arg] = &[
    arg("update", Kind::OneOf(NUMBERS)).required(),
    arg("filter", Kind::Object).required(),
    arg("updateMods", Kind::Any).required(),
    arg("constants", Kind::Object),
    arg("multi", Kind::Bool),
    arg("upsert", Kind::Bool),
    arg("upsertSupplied", Kind::Bool),
    arg("arrayFilters", Kind::Array),
    arg("hint", Kind::Any),
    arg("sort", Kind::Object),
    arg("collation", Kind::Object),
];
static DELETE: &[Arg] = &[
    arg("delete", Kind::OneOf(NUMBERS)).required(),
    arg("filter", Kind::Object).required(),
    arg("multi", Kind::Bool),
    arg("hint", Kind::Any),
    arg("collation", Kind::Object),
];

/// One operation. The first number is the position of its namespace.
#[derive(Clone, Debug)]
pub enum BulkOp<'a> {
    /// Insert.
    Insert(usize, Doc<'a>),
    /// Update.
    Update(usize, super::UpdateOp<'a>),
    /// Delete.
    Delete(usize, super::DeleteOp<'a>),
    /// An operation with invalid arguments, which fails when it is executed.
    Refused(usize, model::MongoError),
}

impl BulkOp<'_> {
    /// The position of the operation's namespace.
    fn at(&self) -> usize {
        match self {
            BulkOp::Insert(at, _)
            | BulkOp::Update(at, _)
            | BulkOp::Delete(at, _)
            | BulkOp::Refused(at, _) => *at,
        }
    }
}

/// Arguments of `bulkWrite`.
#[derive(Clone, Debug)]
pub struct BulkArgs<'a> {
    /// The operations in order.
    pub ops: Vec<BulkOp<'a>>,
    /// The namespaces of the operations, each with the identity that the client expects.
    pub namespaces: Vec<(Namespace, Option<[u8; 16]>)>,
    /// Stop at the first error.
    pub ordered: bool,
    /// The cursor returns only errors.
    pub errors_only: bool,
    /// Bypass validators.
    pub bypass_validation: bool,
    /// Variables.
    pub let_vars: Doc<'a>,
    /// Most results in the first batch.
    pub batch_size: Option<i64>,
}

impl<'a> BulkArgs<'a> {
    /// Parses arguments that were checked against [`BULK_WRITE`].
    ///
    /// # Errors
    /// 16 InvalidLength for no or too many operations, 2 BadValue for a namespace out of range, 73
    /// InvalidNamespace, 9 FailedToParse, 14 TypeMismatch, 40414 IDLMissingField, 40415
    /// IDLFailedToParse.
    pub fn of(a: &Args<'a>) -> Result<BulkArgs<'a>> {
        static CURSOR: &[Arg] = &[arg("batchSize", Kind::AtLeast(0, code::BAD_VALUE))];
        let mut namespaces = Vec::new();
        for (i, d) in a.documents("bulkWrite", "nsInfo")?.into_iter().enumerate() {
            let info = check_doc(&format!("bulkWrite.nsInfo.{i}"), NS_INFO, d)?;
            let uuid = if info.has("collectionUUID") {
                Some(request::generic::uuid(&info.value("collectionUUID"))?)
            } else {
                None
            };
            namespaces.push((Namespace::parse(info.str("ns").unwrap_or(""))?, uuid));
        }
        let mut ops = Vec::new();
        for (i, d) in a.documents("bulkWrite", "ops")?.into_iter().enumerate() {
            ops.push(operation(i, d, namespaces.len())?);
        }
        crate::crud::write_batch::check_batch(ops.len())?;
        let batch_size = match a.doc("cursor") {
            Some(d) => check_doc("bulkWrite.cursor", CURSOR, d)?.int("batchSize"),
            None => None,
        };
        Ok(BulkArgs {
            ops,
            namespaces,
            ordered: a.bool("ordered", true),
            errors_only: a.bool("errorsOnly", false),
            bypass_validation: a.bool("bypassDocumentValidation", false),
            let_vars: doc_or_empty(a.value("let")),
            batch_size,
        })
    }
}

impl BulkArgs<'_> {
    /// The namespace that an operation writes to.
    ///
    /// # Errors
    /// 2 BadValue when no namespace has the position.
    pub fn namespace(&self, op: &BulkOp<'_>) -> Result<&Namespace> {
        let at = op.at();
        match self.namespaces.get(at) {
            Some((ns, _)) => Ok(ns),
            None => bail!(
                code::BAD_VALUE,
                "BulkWrite has no nsInfo entry {at}, there are {}",
                self.namespaces.len()
            ),
        }
    }

    /// The identity that the client expects of the operation's collection.
    pub fn identity(&self, op: &BulkOp<'_>) -> Option<[u8; 16]> {
        self.namespaces.get(op.at()).and_then(|(_, uuid)| *uuid)
    }
}

fn operation<'a>(i: usize, d: Doc<'a>, namespaces: usize) -> Result<BulkOp<'a>> {
    let path = format!("bulkWrite.ops.{i}");
    let (name, _) = d.first().unwrap_or(("", Value::Missing));
    let table = match name {
        "insert" => INSERT,
        "update" => UPDATE,
        "delete" => DELETE,
        other => {
            return Err(request::args::unknown_field(&format!("{path}.{other}")));
        }
    };
    let a = check_doc(&path, table, d)?;
    let at = a.value(name);
    let at = to_i64(&at).ok_or_else(|| wrong_type(&format!("{path}.{name}"), &at, NUMBERS))?;
    let at = match usize::try_from(at) {
        Ok(n) if n < namespaces => n,
        _ => bail!(
            code::BAD_VALUE,
            "BulkWrite ops entry {i} has an invalid nsInfo index {at}, there are {namespaces} \
                namespaces"
        ),
    };
    let filter = doc_or_empty(a.value("filter"));
    Ok(match name {
        "insert" => BulkOp::Insert(at, doc_or_empty(a.value("document"))),
        "update" if a.has("constants") && a.array("updateMods").is_none() => BulkOp::Refused(
            at,
            model::MongoError::new(
                51_198,
                "Constant values may only be specified for pipeline updates",
            ),
        ),
        "update" => BulkOp::Update(
            at,
            super::UpdateOp {
                filter,
                mods: Mods::of(
                    a.value("updateMods"),
                    a.array("arrayFilters"),
                    a.doc("constants"),
                    &path,
                )?,
                multi: a.bool("multi", false),
                upsert: a.bool("upsert", false),
                collation: a.doc("collation"),
                hint: hint(a.value("hint"))?,
                sort: doc_or_empty(a.value("sort")),
            },
        ),
        _ => BulkOp::Delete(
            at,
            super::DeleteOp {
                filter,
                multi: a.bool("multi", false),
                collation: a.doc("collation"),
                hint: hint(a.value("hint"))?,
            },
        ),
    })
}
