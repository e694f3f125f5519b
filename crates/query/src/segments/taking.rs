//! Extracts the columns of a segment from documents. Promises: values are extracted by the function
//! that reads of documents use, so they are the same; what columns cannot hold is marked. Must not
//! know: where the documents come from.

use model::{Doc, FieldPath, Tag, Value};
use operators::columns::{Column, Paths};
use rustc_hash::FxHashMap;
use store::format::segment::{APART, ColumnHead, SHAPES, Zone};
use store::{Index, SegmentColumn};

/// Most columns of an index on all top-level fields.
const COLUMNS_MAX: usize = 64;
/// Longest value in a column; the document of a longer one is read instead.
const VALUE_BYTES_MAX: usize = 4096;

/// The columns of a segment that is being built.
pub(super) struct SegmentBuilder {
    columns: Vec<ColumnBuilder>,
    /// The paths of all columns together.
    paths: Paths,
    /// The column of shapes: which of the paths a document has, in which order.
    shapes: Shapes,
    rows: usize,
    bytes: usize,
    /// In an index on all top-level fields: the number of each name's column.
    names: Option<FxHashMap<Box<str>, usize>>,
    /// No field was left out.
    is_complete: bool,
    buffer: Vec<u8>,
}

/// The column of shapes that is being built.
#[derive(Default)]
struct Shapes {
    all: SegmentColumn,
    apart: u32,
    buffer: Vec<u8>,
    /// There are too many names to find them in one walk over a document.
    is_without: bool,
}

impl Shapes {
    fn take(&mut self, paths: &Paths, doc: Doc<'_>) -> usize {
        self.buffer.clear();
        if self.is_without || !paths.put_shape(doc, &mut self.buffer) {
            self.all.tags.push(APART);
            self.all.words.push(0);
            self.apart += 1;
            return 1;
        }
        self.all.push_long(Tag::BINARY, &self.buffer);
        // A column stores each distinct shape once, and there are few, so the bytes are not
        // counted.
        1
    }
}

/// A column that is being built.
struct ColumnBuilder {
    path: FieldPath,
    /// Extracts the column's path from documents.
    paths: Paths,
    /// The value of the current document.
    value: Column,
    all: SegmentColumn,
    zone: Option<Zone>,
    /// The values have bounds.
    is_bounded: bool,
    /// Number of rows whose documents must be read instead.
    apart: u32,
}

impl ColumnBuilder {
    fn new(path: FieldPath) -> ColumnBuilder {
        let mut paths = Paths::default();
        paths.add(&path);
        ColumnBuilder {
            path,
            paths,
            value: Column::default(),
            all: SegmentColumn::default(),
            zone: None,
            is_bounded: true,
            apart: 0,
        }
    }

    /// Adds the value of a document; returns its number of bytes.
    fn take(&mut self, doc: Doc<'_>, buffer: &mut Vec<u8>) -> usize {
        self.value.clear();
        let is_whole = self.paths.take(doc, std::slice::from_mut(&mut self.value));
        self.keep(is_whole, buffer)
    }

    /// Adds a row without a value.
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
            self.apart += 1;
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
        // A filter also matches the elements of an array, so arrays have no bounds.
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

/// Whether values of a type fit into a word.
pub(super) fn is_word(tag: Tag) -> bool {
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

impl SegmentBuilder {
    pub(super) fn new(index: &Index) -> SegmentBuilder {
        match index.column_paths() {
            None => SegmentBuilder {
                names: Some(FxHashMap::default()),
                ..SegmentBuilder::of([])
            },
            Some(paths) => {
                let id = FieldPath::new("_id");
                let mut all: Vec<FieldPath> = paths.cloned().collect();
                if !all.contains(&id) {
                    all.push(id);
                }
                SegmentBuilder::of(all)
            }
        }
    }

    /// Columns for exactly these paths.
    pub(super) fn of(paths: impl IntoIterator<Item = FieldPath>) -> SegmentBuilder {
        let mut taking = SegmentBuilder {
            columns: Vec::new(),
            paths: Paths::default(),
            shapes: Shapes::default(),
            names: None,
            rows: 0,
            bytes: 0,
            is_complete: true,
            buffer: Vec::new(),
        };
        paths.into_iter().for_each(|path| taking.add_column(path));
        taking
    }

    fn add_column(&mut self, path: FieldPath) {
        self.shapes.is_without |= self.paths.add(&path).is_none();
        self.columns.push(ColumnBuilder::new(path));
    }

    /// Number of documents added.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of their values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a document.
    pub(super) fn take(&mut self, doc: Doc<'_>) {
        if self.names.is_some() {
            self.find_names(doc);
        }
        for column in &mut self.columns {
            self.bytes += column.take(doc, &mut self.buffer);
        }
        self.bytes += self.shapes.take(&self.paths, doc);
        self.rows += 1;
    }

    /// Adds columns for new names.
    fn find_names(&mut self, doc: Doc<'_>) {
        for e in doc.elements() {
            let Ok(name) = std::str::from_utf8(e.name) else {
                self.is_complete = false;
                continue;
            };
            // A path cannot lead to any other name.
            let is_known = self.names.as_ref().is_some_and(|n| n.contains_key(name));
            if is_known || name.is_empty() || name.contains('.') {
                continue;
            }
            if self.columns.len() == COLUMNS_MAX {
                self.is_complete = false;
                continue;
            }
            if let Some(names) = &mut self.names {
                names.insert(name.into(), self.columns.len());
            }
            self.add_column(FieldPath::new(name));
            if let Some(column) = self.columns.last_mut() {
                (0..self.rows).for_each(|_| column.miss(&mut self.buffer));
            }
        }
    }

    /// The heads of the columns, whether documents have no other field, and the columns.
    pub(super) fn end(self) -> (Vec<ColumnHead>, bool, Vec<SegmentColumn>) {
        let (mut heads, mut columns) = (Vec::new(), Vec::new());
        for column in self.columns {
            let zone = column.zone.filter(|_| column.is_bounded);
            heads.push(ColumnHead {
                path: column.path.as_str().to_owned(),
                zone: zone.map(Zone::cut),
                apart: column.apart,
            });
            columns.push(column.all);
        }
        heads.push(ColumnHead {
            path: SHAPES.to_owned(),
            zone: None,
            apart: self.shapes.apart,
        });
        columns.push(self.shapes.all);
        (heads, self.is_complete && self.names.is_some(), columns)
    }
}
