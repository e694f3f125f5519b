//! Batches of documents split into columns. Must not know: what is computed from them.

use super::column::Column;
use super::paths::Paths;
use model::{Bump, Doc};
use std::ops::Range;
use std::sync::Arc;

/// The values of up to a thousand documents at some paths.
pub struct Batch {
    paths: Arc<Paths>,
    columns: Vec<Column>,
    len: usize,
    /// Documents that are not split, because a path leads through an array, with their row.
    whole: Vec<(usize, Vec<u8>)>,
    whole_bytes: usize,
}

impl Batch {
    /// Most documents of a batch ...
    pub const DOCS: usize = 1024;
    /// ... and most bytes of it.
    const BYTES: usize = 1 << 20;

    /// An empty batch.
    pub fn new(paths: Arc<Paths>) -> Batch {
        let mut columns = Vec::new();
        columns.resize_with(paths.len(), Column::default);
        Batch {
            paths,
            columns,
            len: 0,
            whole: Vec::new(),
            whole_bytes: 0,
        }
    }

    /// Appends the values of one more document.
    pub fn push(&mut self, doc: Doc<'_>) {
        if !self.paths.take(doc, &mut self.columns) {
            self.whole.push((self.len, doc.as_bytes().to_vec()));
            self.whole_bytes += doc.len_bytes();
        }
        self.len += 1;
    }

    /// Appends the given rows of documents that are already split: for each path the column at its
    /// index in `from`, or missing values.
    pub fn push_rows(&mut self, from: &[Option<Column>], rows: Range<usize>) {
        for (column, from) in self.columns.iter_mut().zip(from) {
            match from {
                Some(from) => column.extend(from, rows.clone()),
                None => column.extend_missing(rows.len()),
            }
        }
        self.len += rows.len();
    }

    /// Removes the documents and keeps the memory.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.whole.clear();
        self.whole_bytes = 0;
        self.len = 0;
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without documents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True when the batch should be processed before more documents are added.
    pub fn is_full(&self) -> bool {
        let bytes: usize = self.columns.iter().map(Column::len_bytes).sum();
        self.len >= Batch::DOCS || bytes + self.whole_bytes >= Batch::BYTES
    }

    /// Bytes held in memory.
    pub fn capacity_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Column::capacity_bytes).sum();
        columns + self.whole_bytes
    }

    /// True when every document was split, so that the columns contain all values.
    pub fn is_whole(&self) -> bool {
        self.whole.is_empty()
    }

    /// The column of a path.
    pub fn column(&self, at: usize) -> Option<&Column> {
        self.columns.get(at)
    }

    /// A document with the values of a row at the paths: the original document if it was not split.
    pub fn doc<'a>(&'a self, row: usize, arena: &'a Bump) -> Doc<'a> {
        match self.whole.binary_search_by_key(&row, |(at, _)| *at) {
            Ok(at) => {
                let bytes = self.whole.get(at).and_then(|(_, d)| Doc::new(d));
                bytes.unwrap_or(Doc::EMPTY)
            }
            Err(_) => Doc::build_in(arena, |w| self.paths.write(w, &self.columns, row)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{FieldPath, Value, doc};

    #[test]
    fn documents_are_walked_once_and_put_together_again() {
        let mut paths = Paths::default();
        for (at, path) in ["b.c", "a", "b.d.e", "x", "x.y"].into_iter().enumerate() {
            assert_eq!(paths.add(&FieldPath::new(path)), Some(at));
        }
        assert_eq!(paths.add(&FieldPath::new("a")), Some(1));
        let mut batch = Batch::new(Arc::new(paths));
        batch.push(doc! { "a": 1i32, "b": { "c": "t", "d": { "e": 2.5 } }, "z": 9i32 }.doc());
        batch.push(doc! { "b": 5i32, "a": 7i64, "x": { "y": true } }.doc());
        batch.push(doc! { "b": { "d": [{ "e": 1i32 }] } }.doc());
        let arena = Bump::new();
        let shown: Vec<_> = (0..3)
            .map(|i| format!("{:?}", batch.doc(i, &arena)))
            .collect();
        assert_eq!(
            shown,
            [
                r#"{ b: { c: "t", d: { e: 2.5 } }, a: 1 }"#,
                "{ b: { d: {} }, a: 7, x: { y: true } }",
                "{ b: { d: [ { e: 1 } ] } }"
            ]
        );
        let column = |at| batch.column(at).expect("a column");
        assert_eq!(column(0).value(0).as_str(), Some("t"));
        assert!(matches!(column(1).value(1), Value::Int64(7)));
        assert!(matches!(column(4).value(1), Value::Bool(true)));
        assert!(column(2).value(1).is_missing() && !batch.is_whole());
        assert_eq!((column(3).len(), batch.len()), (3, 3));
        batch.clear();
        assert!(batch.is_empty() && batch.is_whole() && !batch.is_full());
    }

    #[test]
    fn rows_of_other_columns_are_what_their_documents_were() {
        let mut paths = Paths::default();
        for path in ["a", "b.c", "z"] {
            paths.add(&FieldPath::new(path));
        }
        let paths = Arc::new(paths);
        let docs: Vec<_> = (0..20i32)
            .map(|n| match n % 3 {
                0 => doc! { "a": n, "b": { "c": "text" } },
                1 => doc! { "a": "x", "b": { "c": [n] } },
                _ => doc! { "b": n },
            })
            .collect();
        let mut from = Vec::new();
        from.resize_with(3, Column::default);
        assert!(docs.iter().all(|d| paths.take(d.doc(), &mut from)));
        let mut from: Vec<Option<Column>> = from.into_iter().map(Some).collect();
        from[2] = None;
        let (mut plain, mut stored) = (Batch::new(paths.clone()), Batch::new(paths.clone()));
        docs.iter().for_each(|d| plain.push(d.doc()));
        stored.push_rows(&from, 0..7);
        docs[7..9].iter().for_each(|d| stored.push(d.doc()));
        stored.push_rows(&from, 9..20);
        let arena = Bump::new();
        for row in 0..20 {
            let (a, b) = (plain.doc(row, &arena), stored.doc(row, &arena));
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
        }
        for at in 0..3 {
            let types = |b: &Batch| b.column(at).map(Column::types);
            assert_eq!(types(&plain), types(&stored));
        }
        assert_eq!(stored.len(), 20);
    }
}
