//! Measurements of a time series that entries of a log insert, change or delete. Promises: those of
//! many entries are found by one scan of the times in which they lie, and written together. Must
//! not know: entries.

use model::bucket::SeriesOptions;
use model::{Doc, MongoError, Result, compare};
use rustc_hash::{FxHashMap, FxHashSet};
use store::{Change, EachRow, ReadView, SeriesRead, Writer};

/// Rows of one call to a scan.
const STEP_ROWS: usize = 1024;

/// How far it has come.
pub(crate) struct Ended {
    /// Those that are done, from the first on.
    pub(crate) number: usize,
    /// Why the one behind them is not.
    pub(crate) failure: Option<MongoError>,
}

/// Inserts measurements in their order. One is left out when the same is there already.
///
/// # Errors
/// Those of a scan and of [`Writer::insert`].
pub(crate) fn insert_missing(coll: Writer<'_>, docs: &[Doc<'_>]) -> Result<Ended> {
    let mut wanted: FxHashSet<&[u8]> = docs.iter().map(|d| d.as_bytes()).collect();
    scan(coll, docs, &mut |row| {
        wanted.remove(row.doc.as_bytes());
        !wanted.is_empty()
    })?;
    let numbered = docs.iter().enumerate();
    let (places, new): (Vec<usize>, Vec<Doc<'_>>) = numbered
        .filter(|(_, doc)| wanted.remove(doc.as_bytes()))
        .map(|(n, doc)| (n, *doc))
        .unzip();
    let failed = coll.insert(&new, true)?.errors.pop();
    let number = failed.as_ref().and_then(|(n, _)| places.get(*n).copied());
    Ok(Ended {
        number: number.unwrap_or(docs.len()),
        failure: failed.map(|(_, e)| e),
    })
}

/// Deletes one measurement for each key: the first with its `_id`. Keys with the time are found by
/// it; what is not there is deleted already.
///
/// # Errors
/// Those of a scan.
pub(crate) fn delete_named(coll: Writer<'_>, keys: &[Doc<'_>]) -> Result<Ended> {
    let mut wanted: FxHashMap<Vec<u8>, Vec<usize>> = FxHashMap::default();
    let mut encoded = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        coll.record_key(&key.field("_id"), &mut encoded);
        wanted.entry(encoded.clone()).or_default().push(n);
    }
    let mut found: Vec<(Vec<u8>, usize)> = Vec::with_capacity(keys.len());
    scan(coll, keys, &mut |row| {
        let id = row.doc.field("_id");
        coll.record_key(&id, &mut encoded);
        let same = |n: &usize| compare(&keys[*n].field("_id"), &id).is_eq();
        if let Some(list) = wanted.get_mut(&encoded)
            && let Some(at) = list.iter().position(same)
        {
            found.push((row.key.to_vec(), list.remove(at)));
        }
        found.len() < keys.len()
    })?;
    let rows: Vec<&[u8]> = found.iter().map(|(key, _)| key.as_slice()).collect();
    let mut left: FxHashSet<usize> = found.iter().map(|(_, n)| *n).collect();
    let result = coll.modify_many(&rows, &mut |_, _| Ok(Change::Delete), &mut |n, _| {
        left.remove(&found[n].1);
    });
    Ok(Ended {
        number: left.iter().min().map_or(keys.len(), |n| *n),
        failure: result.err(),
    })
}

/// The row of the first measurement with the `_id` of a key, which may have the time as well.
///
/// # Errors
/// Those of a scan.
pub(crate) fn find_named(coll: Writer<'_>, key: Doc<'_>) -> Result<Option<Vec<u8>>> {
    let (id, mut found) = (key.field("_id"), None);
    scan(coll, &[key], &mut |row| {
        if compare(&row.doc.field("_id"), &id).is_eq() {
            found = Some(row.key.to_vec());
        }
        found.is_none()
    })?;
    Ok(found)
}

/// Shows the measurements of the times that documents have, each once; all of the collection when
/// one of them has none.
fn scan(coll: Writer<'_>, docs: &[Doc<'_>], each: &mut EachRow<'_>) -> Result<()> {
    let Some(options) = SeriesOptions::of(coll.options().doc()) else {
        return Ok(());
    };
    for (first, last) in spans(&options, docs) {
        let read = SeriesRead {
            times: (first > i64::MIN).then_some((first, last)),
            ..SeriesRead::default()
        };
        let Some(mut scan) = coll.scan_series(&ReadView::LATEST, read, None) else {
            return Ok(());
        };
        let (mut more, mut enough) = (true, false);
        while more && !enough {
            more = scan.visit(STEP_ROWS, &mut |row| {
                if (first..=last).contains(&options.time_of(row.doc)) {
                    enough = !each(row);
                }
                !enough
            })?;
        }
        if enough {
            break;
        }
    }
    Ok(())
}

/// The times of documents, joined where less than a bucket's width lies between them.
fn spans(options: &SeriesOptions, docs: &[Doc<'_>]) -> Vec<(i64, i64)> {
    let mut times: Vec<i64> = docs.iter().map(|d| options.time_of(*d)).collect();
    times.sort_unstable();
    if times.first() == Some(&i64::MIN) {
        return vec![(i64::MIN, i64::MAX)];
    }
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for time in times {
        match spans.last_mut() {
            Some((_, last)) if time.saturating_sub(*last) <= options.span_ms => *last = time,
            _ => spans.push((time, time)),
        }
    }
    spans
}
