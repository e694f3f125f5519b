//! Reads the foreign side of a join: by values of a field, or completely in the same order. Must
//! not know: what is joined.

use model::{DocBuf, FieldPath, Result, Value};
use operators::expr::ParseCx;
use query::exec::{BatchStream, ExecContext, MatchFilter, ReadRequest, SortPattern};
use query::physical::{CollectionRead, ReadOptions, open_read};
use query::plan::{Hint, Plan};
use std::sync::Arc;
use store::{Collection, Index, ReadView};

/// Whether an index finds all documents by their values at a field.
fn can_find(i: &Index, field: &FieldPath) -> bool {
    i.is_ready()
        && i.is_keyed()
        && !i.is_hidden()
        && !i.is_partial()
        && !i.is_sparse()
        && i.collation().is_none()
        && i.fields().first().is_some_and(|f| f.path == *field)
}

/// The name of an index that finds documents by their values at a field.
pub(super) fn index(coll: &Collection, view: &ReadView, field: &FieldPath) -> Option<String> {
    if coll.is_view() {
        return None;
    }
    if field.as_str() == "_id" && !coll.is_series() {
        return Some("_id_".to_owned());
    }
    let indexes = coll.readable_indexes(Some(view));
    let found = indexes.iter().find(|i| can_find(i, field));
    found.map(|i| i.name().to_owned())
}

/// Opens a read of the documents that may have one of the values, see
/// [`query::exec::Host::look_up`].
pub(super) fn open(
    coll: Arc<Collection>,
    options: &ReadOptions<'_>,
    field: &FieldPath,
    values: &[Value<'_>],
    exec: &ExecContext<'_>,
) -> Result<Box<dyn BatchStream>> {
    // A regular expression would act as a pattern; the caller compares such values itself with $eq.
    let unfit = |v: &Value<'_>| matches!(v, Value::Regex(_) | Value::Undefined | Value::Missing);
    if values.iter().any(unfit) {
        let view = options.view.cloned().unwrap_or_default();
        let plan = Plan {
            view,
            ..Plan::scan()
        };
        return Ok(Box::new(CollectionRead::new(coll, plan, None, None)));
    }
    let spec = DocBuf::build(|w| {
        let mut one = w.doc(field.as_str());
        let mut list = one.array("$in");
        values.iter().for_each(|v| {
            list.push(*v);
        });
    });
    let filter = Arc::new(MatchFilter::parse(&mut ParseCx::new(exec.env), spec.doc())?);
    let ns = coll.ns().clone();
    let read = ReadRequest {
        filter: Some(&filter),
        ..ReadRequest::all(&ns)
    };
    Ok(open_read(coll, &read, options, exec.env)?.docs)
}

/// The index that a lookup reads, by name, and its direction; `None` unless exactly one index is
/// possible and its order is certain.
fn certain_index(
    coll: &Collection,
    options: &ReadOptions<'_>,
    field: &FieldPath,
) -> Option<(String, i32)> {
    if field.as_str() == "_id" {
        return Some(("_id_".to_owned(), 1));
    }
    let indexes = coll.readable_indexes(options.view);
    let mut found = indexes.iter().filter(|i| can_find(i, field));
    let (index, None) = (found.next()?, found.next()) else {
        return None;
    };
    let (_, direction) = index
        .key_pattern()
        .first()
        .filter(|_| !index.is_multikey())?;
    let direction = if direction.as_f64()? < 0.0 { -1 } else { 1 };
    Some((index.name().to_owned(), direction))
}

/// Opens a read of all documents in the order of [`open`]; `None` when that order is not certain.
pub(super) fn open_all(
    coll: Arc<Collection>,
    options: &ReadOptions<'_>,
    field: &FieldPath,
    exec: &ExecContext<'_>,
) -> Result<Option<Box<dyn BatchStream>>> {
    let Some((index, direction)) = certain_index(&coll, options, field) else {
        return Ok(None);
    };
    // Sorting a scan may cost less, but documents with equal values would come in another order.
    let hint = Hint::Own(index);
    let options = &ReadOptions {
        hint: Some(&hint),
        ..*options
    };
    let mut order = DocBuf::new();
    order.put(field.as_str(), direction);
    let order = SortPattern::parse(order.doc())?;
    let ns = coll.ns().clone();
    let read = ReadRequest {
        sort: Some(&order),
        ..ReadRequest::all(&ns)
    };
    let opened = open_read(coll, &read, options, exec.env)?;
    Ok(opened.sorted.then_some(opened.docs))
}
