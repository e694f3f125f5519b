//! Documents taken apart into the columns of one segment. Promises: a value is what a read of the
//! document takes out of it, by the same function; what columns do not hold is marked. Must not
//! know: where the documents come from.

use model::{Doc, FieldPath, Tag, Value};
use operators::columns::{Column, Paths};
use rustc_hash::FxHashMap;
use store::format::segment::{APART, ColumnHead, Zone};
use store::{Index, SegmentColumn};

/// Most columns of an index of all top-level fields.
const COLUMNS_MAX: usize = 64;
/// Bytes of a value above which its document is read instead.
const VALUE_BYTES_MAX: usize = 4096;

/// The columns of a segment in the making.
pub(super) struct Taking {
    columns: Vec<Taken>,
    rows: usize,
    bytes: usize,
    /// Of all top-level fields: which column has a name.
    names: Option<FxHashMap<Box<str>, usize>>,
    /// No field was left out.
    is_complete: bool,
    buffer: Vec<u8>,
}

/// One column in the making.
struct Taken {
    path: FieldPath,
    /// What takes it out of documents.
    paths: Paths,
    /// The value of the document at hand.
    value: Column,
    all: SegmentColumn,
    zone: Option<Zone>,
    /// Values have bounds.
    is_bounded: bool,
}

impl Taken {
    fn new(path: FieldPath) -> Taken {
        let mut paths = Paths::default();
        paths.add(&path);
        Taken {
            path,
            paths,
            value: Column::default(),
            all: SegmentColumn::default(),
            zone: None,
            is_bounded: true,
        }
    }

    /// Takes the value of a document; says how many bytes it has.
    fn take(&mut self, doc: Doc<'_>, buffer: &mut Vec<u8>) -> usize {
        self.value.clear();
        let is_whole = self.paths.take(doc, std::slice::from_mut(&mut self.value));
        self.keep(is_whole, buffer)
    }

    /// Takes a value that is not there.
    fn miss(&mut self, buffer: &mut Vec<u8>) {
        self.value.clear();
        self.value.push(Value::Missing);
        self.keep(true, buffer);
    }

    fn keep(&mut self, is_whole: bool, buffer: &mut Vec<u8>) -> usize {
        let mut word = [0; 8];
        let (tag, payload) = self.value.payload(0, &mut word);
        let is_long = !is_word(tag);
        if !is_whole || is_long && payload.len() > VALUE_BYTES_MAX {
            self.all.tags.push(APART);
            self.all.words.push(0);
            self.is_bounded = false;
            return 1;
        }
        let bytes = payload.len();
        if is_long {
            self.all.push_long(tag, payload);
        } else {
            self.all.tags.push(tag.0);
            self.all.words.extend(self.value.words().first());
        }
        let v = self.value.value(0);
        // The elements of an array match as well.
        self.is_bounded &= tag != Tag::ARRAY;
        if self.is_bounded {
            match &mut self.zone {
                Some(zone) => zone.add(&v, buffer),
                None => self.zone = Some(Zone::of(&v)),
            }
        }
        bytes + 1
    }
}

/// Whether values of a type lie in a word.
fn is_word(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::MISSING
            | Tag::NULL
            | Tag::UNDEFINED
            | Tag::MIN_KEY
            | Tag::MAX_KEY
            | Tag::BOOL
            | Tag::INT32
            | Tag::INT64
            | Tag::DOUBLE
            | Tag::DATE
            | Tag::TIMESTAMP
    )
}

impl Taking {
    pub(super) fn new(index: &Index) -> Taking {
        let paths = index.column_paths();
        let columns = paths.map(|paths| paths.cloned().map(Taken::new).collect());
        Taking {
            names: columns.is_none().then(FxHashMap::default),
            columns: columns.unwrap_or_default(),
            rows: 0,
            bytes: 0,
            is_complete: true,
            buffer: Vec::new(),
        }
    }

    /// Documents taken.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of their values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes one more.
    pub(super) fn take(&mut self, doc: Doc<'_>) {
        if self.names.is_some() {
            self.find_names(doc);
        }
        for column in &mut self.columns {
            self.bytes += column.take(doc, &mut self.buffer);
        }
        self.rows += 1;
    }

    /// Adds columns for names that are new.
    fn find_names(&mut self, doc: Doc<'_>) {
        let Some(names) = &mut self.names else { return };
        for e in doc.elements() {
            let Ok(name) = std::str::from_utf8(e.name) else {
                self.is_complete = false;
                continue;
            };
            // No path of one name leads to the others.
            if names.contains_key(name) || name.is_empty() || name.contains('.') {
                continue;
            }
            if self.columns.len() == COLUMNS_MAX {
                self.is_complete = false;
                continue;
            }
            let mut column = Taken::new(FieldPath::new(name));
            (0..self.rows).for_each(|_| column.miss(&mut self.buffer));
            names.insert(name.into(), self.columns.len());
            self.columns.push(column);
        }
    }

    /// What the head says of the columns, whether there is no other field, and the columns.
    pub(super) fn end(self) -> (Vec<ColumnHead>, bool, Vec<SegmentColumn>) {
        let (mut heads, mut columns) = (Vec::new(), Vec::new());
        for column in self.columns {
            let zone = column.zone.filter(|_| column.is_bounded);
            heads.push(ColumnHead {
                path: column.path.as_str().to_owned(),
                zone: zone.map(Zone::cut),
            });
            columns.push(column.all);
        }
        (heads, self.is_complete && self.names.is_some(), columns)
    }
}
