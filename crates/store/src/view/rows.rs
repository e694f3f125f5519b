//! Documents as scans show them, and fetching many at once. Must not know: where the keys come
//! from.

use crate::format::record::Header;
use crate::view::ReadView;
use model::{Doc, Result};
use storage::{Engine, Table};

/// Most documents fetched at a time.
pub(crate) const FETCH_MAX: usize = 128;
/// Documents fetched at first: few, for readers that stop early.
const FETCH_FIRST: usize = 4;

/// The number of documents that a reader fetches at once; it grows with each fetch.
pub(crate) struct FetchSize(usize);

impl FetchSize {
    /// The first size. An engine on another machine is asked for as many rows as one request
    /// returns.
    pub(crate) fn first(engine: &dyn Engine) -> FetchSize {
        FetchSize(engine.caps().request_rows.clamp(FETCH_FIRST, FETCH_MAX))
    }

    /// The size of the next fetch.
    pub(crate) fn next(&self) -> usize {
        self.0
    }

    /// Enlarges the fetches after the next one.
    pub(crate) fn grow(&mut self) {
        self.0 = (self.0 * 4).min(FETCH_MAX);
    }
}

/// Bytes of a record key before the id.
const IDENT_BYTES: usize = 4;

/// One document met by a scan.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its record key: hand it to [`crate::Collection::modify`].
    pub key: &'a [u8],
    /// Insert sequence (the record id) and version.
    pub header: Header,
    /// The document.
    pub doc: Doc<'a>,
    /// Its text score; 0 without a text index.
    pub score: f64,
}

impl<'a> Row<'a> {
    /// The encoded `_id`.
    pub fn id(&self) -> &'a [u8] {
        self.key.get(IDENT_BYTES..).unwrap_or_default()
    }
}

/// Called for each row; false stops after it.
pub type RowVisitor<'f> = dyn FnMut(Row<'_>) -> bool + 'f;

/// Called for each entry with its components (and the bytes after them), and the encoded id; false
/// stops after it.
pub type EntryVisitor<'f> = dyn FnMut(&[u8], &[u8]) -> bool + 'f;

/// Values fetched for a list of keys, in one buffer.
#[derive(Default)]
pub(crate) struct FetchedRows {
    bytes: Vec<u8>,
    ends: Vec<Option<(usize, usize)>>,
}

impl FetchedRows {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.ends
            .iter()
            .map(|e| e.and_then(|(a, b)| self.bytes.get(a..b)))
    }
}

/// Fetches records; afterwards `rows` has one value for each key, in the order of the keys.
pub(crate) fn fetch(
    view: &ReadView,
    engine: &dyn Engine,
    keys: &[&[u8]],
    rows: &mut FetchedRows,
) -> Result<()> {
    rows.bytes.clear();
    rows.ends.clear();
    view.multi_get(engine, Table::Doc, keys, &mut |_, value| {
        let start = rows.bytes.len();
        rows.ends.push(value.map(|v| {
            rows.bytes.extend_from_slice(v);
            (start, rows.bytes.len())
        }));
    })
}
