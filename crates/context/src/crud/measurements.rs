//! Inserts, changes and deletes the measurements of a time series that log entries name. Promises:
//! the measurements of many entries are found by one scan of their time ranges, and are written
//! together. Must not know: entries.

use model::bucket::SeriesOptions;
use model::{Doc, MongoError, Result, compare};
use rustc_hash::{FxHashMap, FxHashSet};
use store::{Change, ReadView, RowVisitor, SeriesRead, Writer};

/// Rows that one call reads from a scan.
const STEP_ROWS: usize = 1024;

/// The progress of a batch.
pub struct BatchProgress {
    /// How many measurements are done, counted from the first.
    pub number: usize,
    /// The error of the next measurement, if it failed.
    pub failure: Option<MongoError>,
}

/// Inserts measurements in order; skips a measurement that the collection already contains.
///
/// # Errors
/// Those of a scan and of [`Writer::insert`].
pub fn insert_missing(coll: Writer<'_>, docs: &[Doc<'_>]) -> Result<BatchProgress> {
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
    Ok(BatchProgress {
        number: number.unwrap_or(docs.len()),
        failure: failed.map(|(_, e)| e),
    })
}

/// Deletes one measurement for each key: the first with the key's `_id`. A key with a time is
/// searched at that time; a measurement that does not exist counts as deleted.
///
/// # Errors
/// Those of a scan.
pub fn delete_named(coll: Writer<'_>, keys: &[Doc<'_>]) -> Result<BatchProgress> {
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
    Ok(BatchProgress {
        number: left.iter().min().map_or(keys.len(), |n| *n),
        failure: result.err(),
    })
}

/// The row of the first measurement with the `_id` of a key, which may also have the time.
///
/// # Errors
/// Those of a scan.
pub fn find_named(coll: Writer<'_>, key: Doc<'_>) -> Result<Option<Vec<u8>>> {
    let (id, mut found) = (key.field("_id"), None);
    scan(coll, &[key], &mut |row| {
        if compare(&row.doc.field("_id"), &id).is_eq() {
            found = Some(row.key.to_vec());
        }
        found.is_none()
    })?;
    Ok(found)
}

/// Calls `each` with the measurements in the time ranges of the documents, each once; with all of
/// the collection when a document has no time.
fn scan(coll: Writer<'_>, docs: &[Doc<'_>], each: &mut RowVisitor<'_>) -> Result<()> {
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

/// The time ranges of documents; ranges that are at most a bucket's width apart are joined.
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
