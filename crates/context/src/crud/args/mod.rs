//! Checked arguments of the commands that read and write documents, as plain structures. The fields
//! of a structure have valid types and ranges; filters, updates and pipelines in them are not
//! parsed yet.
//! Must not know: how queries run.

pub mod bulk;
pub mod read;
pub mod write;

pub use bulk::{BulkArgs, BulkOp};
pub use read::{AggregateArgs, CountArgs, CursorOptions, DistinctArgs, FindArgs};
pub use write::{DeleteOp, FindAndModifyArgs, Mods, UpdateOp, WriteArgs};

use model::{Array, Doc, Result, Tag, Value, bail, code};
use request::args::show;

/// The numeric types, for argument tables.
pub(crate) const NUMBERS: &[Tag] = &[Tag::INT64, Tag::INT32, Tag::DECIMAL128, Tag::DOUBLE];

/// An index hint: a name or a key pattern. A missing value and an empty document are no hint.
///
/// # Errors
/// 9 FailedToParse for another type.
pub fn hint<'a>(v: Value<'a>) -> Result<Option<Value<'a>>> {
    match v {
        Value::Missing => Ok(None),
        Value::Document(d) if d.is_empty() => Ok(None),
        Value::String(_) | Value::Document(_) => Ok(Some(v)),
        v => bail!(
            code::FAILED_TO_PARSE,
            "Hint must be a string or an object, given {}",
            v.type_name()
        ),
    }
}

/// A document argument, empty when not given.
pub(crate) fn doc_or_empty<'a>(v: Value<'a>) -> Doc<'a> {
    v.as_doc().unwrap_or(Doc::EMPTY)
}

/// Array filters; every element must be a document.
///
/// # Errors
/// 14 TypeMismatch.
pub(crate) fn documents<'a>(path: &str, list: Option<Array<'a>>) -> Result<Vec<Doc<'a>>> {
    let one = |(i, v): (usize, Value<'a>)| {
        v.as_doc()
            .ok_or_else(|| request::args::wrong_type(&format!("{path}.{i}"), &v, &[Tag::DOCUMENT]))
    };
    list.unwrap_or(Array::EMPTY)
        .iter()
        .enumerate()
        .map(one)
        .collect()
}

/// The unparsed change of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RawChange<'a> {
    Doc(Doc<'a>),
    Pipeline(Array<'a>),
}

/// The change of an update: an operator document, a replacement, or a pipeline.
///
/// # Errors
/// 9 FailedToParse for another type.
pub(crate) fn update_of<'a>(v: Value<'a>) -> Result<RawChange<'a>> {
    match v {
        Value::Document(d) => Ok(RawChange::Doc(d)),
        Value::Array(a) => Ok(RawChange::Pipeline(a)),
        v => bail!(
            code::FAILED_TO_PARSE,
            "Update argument must be either an object or an array, given {}",
            show(&v)
        ),
    }
}
