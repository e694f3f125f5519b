//! Checks the rows that a server returned: they must be rows that the lab stored, in the requested
//! order.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use lab_kit::answers::{WRONG_CONTENTS, WRONG_ORDER};
use lab_kit::row::contents::{Contents, FieldView, OrderChecker};
use lab_kit::row::{Key, Value};
use lab_kit::target::CallOutcome;
use mysql::Row;

/// The rows that a reply must have.
#[derive(Debug)]
pub enum ExpectedReply {
    /// Any rows, because the contents are unknown.
    Anything,
    /// Whole rows of a table.
    Rows(Arc<Contents>, RowSet),
    /// The fields of an index, in index order, from these values on.
    Entries(Vec<Value>),
}

/// The expected rows.
#[derive(Debug)]
pub enum RowSet {
    /// Any.
    Any,
    /// The row with this id.
    One(Key),
    /// The row with this id, some fields of which must have one of the given values.
    Version(Key, Vec<(&'static str, Vec<u64>)>),
    /// The rows with these ids, each once.
    Some(BTreeSet<Key>),
    /// Rows in the order of their ids.
    InOrder(OrderChecker),
}

fn view(value: &mysql::Value) -> FieldView<'_> {
    match value {
        mysql::Value::Int(number) => FieldView::Int(*number),
        mysql::Value::UInt(number) => FieldView::Int(i64::try_from(*number).unwrap_or(i64::MAX)),
        mysql::Value::Double(number) => FieldView::Double(*number),
        mysql::Value::Float(number) => FieldView::Double(f64::from(*number)),
        mysql::Value::Bytes(bytes) => {
            std::str::from_utf8(bytes).map_or(FieldView::Other, FieldView::Text)
        }
        _ => FieldView::Other,
    }
}

fn failure(kind: &str, reason: &str) -> CallOutcome {
    CallOutcome::failure(kind, reason.to_owned())
}

impl ExpectedReply {
    /// Takes the next row.
    pub(crate) fn take(&mut self, row: &Row) -> Result<(), CallOutcome> {
        match self {
            Self::Anything => Ok(()),
            Self::Rows(contents, which) => whole(contents, which, row),
            Self::Entries(last) => entry(last, row),
        }
    }
}

fn whole(contents: &Contents, which: &mut RowSet, row: &Row) -> Result<(), CallOutcome> {
    let id = row.as_ref(0).map(view).and_then(|id| match id {
        FieldView::Int(number) => Some(Key::Number(number)),
        FieldView::Text(text) => Some(Key::Text(text.to_owned())),
        _ => None,
    });
    let Some(id) = id else {
        return Err(failure("wrong document", "a row has no id"));
    };
    let wrong = |reason: String| failure(WRONG_CONTENTS, &format!("the row {id}: {reason}"));
    // The columns follow the id in the order of the kind's fields.
    let names = contents.names().iter().copied().enumerate();
    let fields = names.filter_map(|(at, name)| Some((name, view(row.as_ref(at + 1)?))));
    contents.check(Some(&id), fields.clone()).map_err(wrong)?;
    let is_asked_for = match which {
        RowSet::Any => true,
        RowSet::One(asked) => *asked == id,
        RowSet::Version(asked, allowed) => {
            let mut fields = fields;
            fields
                .try_for_each(|(name, view)| Contents::check_version(allowed, name, view))
                .map_err(wrong)?;
            *asked == id
        }
        RowSet::Some(ids) => ids.remove(&id),
        RowSet::InOrder(order) => {
            let taken = order.take(id);
            return taken.map_err(|reason| failure(WRONG_ORDER, &reason));
        }
    };
    if is_asked_for {
        return Ok(());
    }
    let reason = format!("the row {id} was not requested, or was returned twice");
    Err(failure("wrong document", &reason))
}

fn entry(last: &mut Vec<Value>, row: &Row) -> Result<(), CallOutcome> {
    let found = (0..row.len()).filter_map(|at| row.as_ref(at)).map(view);
    let before = last.iter().map(FieldView::from);
    let order = before
        .zip(found.clone())
        .map(|(last, next)| last.order(&next));
    if order.fold(Ordering::Equal, Ordering::then) == Ordering::Greater {
        let reason = "an entry is out of order";
        return Err(failure(WRONG_ORDER, reason));
    }
    let owned = found.map(|view| match view {
        FieldView::Int(number) | FieldView::Date(number) => Value::Long(number),
        FieldView::Double(number) => Value::Double(number),
        FieldView::Text(text) => Value::Text(text.to_owned()),
        FieldView::Other => Value::Int(0),
    });
    *last = owned.collect();
    Ok(())
}
