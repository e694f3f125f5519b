//! Checks the documents that a server returned: they must be documents that the lab stored, in the
//! requested order, and not more than the limit.

use std::collections::BTreeSet;

use lab_kit::answers::{WRONG_CONTENTS, WRONG_ORDER};
use lab_kit::row::contents::{Contents, FieldView, OrderChecker};
use lab_kit::row::{Key, Value};
use lab_kit::target::CallOutcome;
use mongodb::bson::{RawBsonRef, RawDocument};

/// The documents that a reply must have.
#[derive(Debug)]
pub(crate) enum ExpectedReply {
    /// Whole documents, in any order.
    Rows,
    /// Whole documents with these ids, each once.
    Ids(BTreeSet<Key>),
    /// Whole documents in the order of their ids.
    InOrder(OrderChecker),
    /// The fields of an index, in index order, starting at given values.
    Entries {
        /// The fields.
        keys: Vec<String>,
        /// The values of the previous entry; initially the beginning of the range.
        last: Vec<Value>,
    },
}

fn view(value: RawBsonRef<'_>) -> FieldView<'_> {
    match value {
        RawBsonRef::Int32(number) => FieldView::Int(i64::from(number)),
        RawBsonRef::Int64(number) => FieldView::Int(number),
        RawBsonRef::Double(number) => FieldView::Double(number),
        RawBsonRef::DateTime(date) => FieldView::Date(date.timestamp_millis()),
        RawBsonRef::String(text) => FieldView::Text(text),
        _ => FieldView::Other,
    }
}

fn to_value(view: FieldView<'_>) -> Value {
    match view {
        FieldView::Int(number) => Value::Long(number),
        FieldView::Double(number) => Value::Double(number),
        FieldView::Date(ms) => Value::Date(ms),
        FieldView::Text(text) => Value::Text(text.to_owned()),
        FieldView::Other => Value::Int(0),
    }
}

/// The id of a document, if it has a type that the lab uses.
pub(super) fn id_of(document: &RawDocument) -> Option<Key> {
    match document.get("_id").ok()?? {
        RawBsonRef::Int32(number) => Some(Key::Number(i64::from(number))),
        RawBsonRef::Int64(number) => Some(Key::Number(number)),
        RawBsonRef::String(text) => Some(Key::Text(text.to_owned())),
        _ => None,
    }
}

fn failure(kind: &str, reason: &str, document: &RawDocument) -> CallOutcome {
    const SHOWN: usize = 300;
    let mut text = format!("{reason}: {document:?}");
    if let Some((end, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(end);
        text.push_str("...");
    }
    CallOutcome::failure(kind, text)
}

/// Checks a whole document.
pub(super) fn whole(
    contents: &Contents,
    document: &RawDocument,
    allowed: &[(&'static str, Vec<u64>)],
) -> Result<(), CallOutcome> {
    let wrong = |reason: String| failure(WRONG_CONTENTS, &reason, document);
    let mut fields = Vec::with_capacity(12);
    for element in document {
        let (name, value) = element.map_err(|error| {
            CallOutcome::failure("damaged document", format!("not valid BSON: {error}"))
        })?;
        fields.push((name.as_str(), view(value)));
    }
    let id = id_of(document);
    contents
        .check(id.as_ref(), fields.iter().copied())
        .map_err(wrong)?;
    let mut fields = fields.iter();
    fields
        .try_for_each(|(name, view)| Contents::check_version(allowed, name, *view))
        .map_err(wrong)
}

impl ExpectedReply {
    /// Takes the next document.
    pub(super) fn take(
        &mut self,
        contents: &Contents,
        document: &RawDocument,
    ) -> Result<(), CallOutcome> {
        if let Self::Entries { keys, last } = self {
            return entry(keys, last, document);
        }
        whole(contents, document, &[])?;
        let Some(id) = id_of(document) else {
            return match self {
                Self::Ids(_) | Self::InOrder(_) => {
                    let reason = "it has no _id that the lab generated";
                    Err(failure("wrong document", reason, document))
                }
                Self::Rows | Self::Entries { .. } => Ok(()),
            };
        };
        match self {
            Self::Ids(ids) => {
                if ids.remove(&id) {
                    return Ok(());
                }
                let reason = "it was not requested, or was returned twice";
                Err(failure("wrong document", reason, document))
            }
            Self::InOrder(order) => order
                .take(id)
                .map_err(|reason| failure(WRONG_ORDER, &reason, document)),
            Self::Rows | Self::Entries { .. } => Ok(()),
        }
    }
}

/// Checks an entry of an index; `last` is the previous entry.
fn entry(
    keys: &[String],
    last: &mut Vec<Value>,
    document: &RawDocument,
) -> Result<(), CallOutcome> {
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let Ok(Some(value)) = document.get(key) else {
            let reason = format!("its field '{key}' is missing");
            return Err(failure(WRONG_CONTENTS, &reason, document));
        };
        found.push(view(value));
    }
    let before = last.iter().map(FieldView::from);
    let order = before.zip(&found).map(|(last, next)| last.order(next));
    if order.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        == std::cmp::Ordering::Greater
    {
        let reason = "an entry is out of order";
        return Err(failure(WRONG_ORDER, reason, document));
    }
    *last = found.into_iter().map(to_value).collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{RawDocumentBuf, rawdoc};

    use super::*;

    fn kind(outcome: Result<(), CallOutcome>) -> String {
        match outcome {
            Err(CallOutcome::Failed { kind, .. }) => kind,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn entries_of_an_index_come_in_its_order_from_the_first_value_on() {
        let keys = vec!["a".to_owned(), "b".to_owned()];
        let take = |all: &[RawDocumentBuf]| {
            let mut last = vec![Value::Int(5)];
            all.iter()
                .try_for_each(|document| entry(&keys, &mut last, document))
        };
        let right = [
            rawdoc! { "a": 5, "b": 9 },
            rawdoc! { "a": 5, "b": 9 },
            rawdoc! { "a": 6, "b": 1 },
        ];
        assert!(take(&right).is_ok());
        assert_eq!(kind(take(&[rawdoc! { "a": 4, "b": 9 }])), WRONG_ORDER);
        let swapped = [rawdoc! { "a": 6, "b": 2 }, rawdoc! { "a": 6, "b": 1 }];
        assert_eq!(kind(take(&swapped)), WRONG_ORDER);
        assert_eq!(kind(take(&[rawdoc! { "a": 6 }])), WRONG_CONTENTS);
    }
}
