//! `DocBatch`: many documents in one buffer. Operators pass batches on, so that a stage is
//! entered once per batch and no document is a heap object of its own.

use model::{Doc, DocWriter};

/// Documents back to back in one reusable buffer; each may carry a metadata document (`$meta`
/// values) beside it.
pub struct DocBatch {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    max_docs: usize,
}

impl Default for DocBatch {
    fn default() -> DocBatch {
        DocBatch {
            bytes: Vec::new(),
            slots: Vec::new(),
            max_docs: DocBatch::TARGET_DOCS,
        }
    }
}

#[derive(Clone, Copy)]
struct Slot {
    start: usize,
    doc_len: usize,
    meta_len: usize,
}

impl DocBatch {
    /// A source stops filling a batch at this many documents ...
    pub const TARGET_DOCS: usize = 256;
    /// ... or this many bytes.
    pub const TARGET_BYTES: usize = 256 * 1024;

    /// An empty batch; allocates nothing.
    pub fn new() -> DocBatch {
        DocBatch::default()
    }
    /// Forgets the documents, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
    }
    /// Number of documents.
    pub fn len(&self) -> usize {
        self.slots.len()
    }
    /// True without documents.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
    /// Bytes of all documents.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }
    /// Bytes held in memory.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.slots.capacity() * size_of::<Slot>()
    }
    /// True when a source should give the batch to its caller.
    pub fn is_full(&self) -> bool {
        self.slots.len() >= self.max_docs || self.bytes.len() >= DocBatch::TARGET_BYTES
    }
    /// Asks sources for no more than `docs` documents at a time.
    pub fn set_max_docs(&mut self, docs: usize) {
        self.max_docs = docs.clamp(1, DocBatch::TARGET_DOCS);
    }
    /// The number of documents at which a source stops.
    pub fn max_docs(&self) -> usize {
        self.max_docs
    }
    /// Appends a copy of a document.
    pub fn push(&mut self, doc: Doc<'_>) {
        self.push_with_meta(doc, None);
    }
    /// Appends a copy of a document and of its metadata.
    pub fn push_with_meta(&mut self, doc: Doc<'_>, meta: Option<Doc<'_>>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(doc.as_bytes());
        let doc_len = doc.len_bytes();
        let meta_len = meta.map_or(0, |m| {
            self.bytes.extend_from_slice(m.as_bytes());
            m.len_bytes()
        });
        self.slots.push(Slot {
            start,
            doc_len,
            meta_len,
        });
    }
    /// Builds a document in place at the end.
    pub fn build(&mut self, meta: Option<Doc<'_>>, fill: impl FnOnce(&mut DocWriter<'_>)) {
        let start = self.bytes.len();
        fill(&mut DocWriter::new(&mut self.bytes));
        let doc_len = self.bytes.len() - start;
        let meta_len = meta.map_or(0, |m| {
            self.bytes.extend_from_slice(m.as_bytes());
            m.len_bytes()
        });
        self.slots.push(Slot {
            start,
            doc_len,
            meta_len,
        });
    }
    /// Document number `index`; the empty document past the end.
    pub fn doc(&self, index: usize) -> Doc<'_> {
        let bytes = self
            .slots
            .get(index)
            .and_then(|s| self.bytes.get(s.start..s.start + s.doc_len));
        bytes.and_then(Doc::new).unwrap_or(Doc::EMPTY)
    }
    /// Metadata of document number `index`.
    pub fn meta(&self, index: usize) -> Option<Doc<'_>> {
        let s = self.slots.get(index)?;
        let at = s.start + s.doc_len;
        Doc::new(self.bytes.get(at..at + s.meta_len)?)
    }
    /// The documents in order.
    pub fn iter(&self) -> impl Iterator<Item = Doc<'_>> {
        (0..self.len()).map(|i| self.doc(i))
    }
    /// The documents with their metadata.
    pub fn iter_meta(&self) -> impl Iterator<Item = (Doc<'_>, Option<Doc<'_>>)> {
        (0..self.len()).map(|i| (self.doc(i), self.meta(i)))
    }
    /// Keeps the first `n` documents.
    pub fn truncate(&mut self, n: usize) {
        self.slots.truncate(n);
    }
    /// Drops the first `n` documents (their bytes stay until the batch is cleared).
    pub fn drop_front(&mut self, n: usize) {
        self.slots.drain(..n.min(self.slots.len()));
    }
    /// Keeps the documents for which `keep` returns true.
    ///
    /// # Errors
    /// Those of `keep`.
    pub fn retain(
        &mut self,
        mut keep: impl FnMut(Doc<'_>, Option<Doc<'_>>) -> model::Result<bool>,
    ) -> model::Result<()> {
        let mut kept = 0;
        for i in 0..self.slots.len() {
            if keep(self.doc(i), self.meta(i))? {
                self.slots.swap(kept, i);
                kept += 1;
            }
        }
        self.slots.truncate(kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::doc;

    #[test]
    fn documents_and_metadata_stay_apart() {
        let mut b = DocBatch::new();
        b.push(doc! { "a": 1i32 }.doc());
        b.push_with_meta(
            doc! { "a": 2i32 }.doc(),
            Some(doc! { "textScore": 0.5 }.doc()),
        );
        b.build(None, |w| {
            w.put("a", 3i32);
        });
        let shown: Vec<_> = b
            .iter_meta()
            .map(|(d, m)| format!("{d:?}{}", if m.is_some() { "+" } else { "" }))
            .collect();
        assert_eq!(shown, ["{ a: 1 }", "{ a: 2 }+", "{ a: 3 }"]);
        b.retain(|d, _| Ok(d.field("a").as_i64_exact() != Some(1)))
            .unwrap();
        assert_eq!(
            (b.len(), format!("{:?}", b.doc(0))),
            (2, "{ a: 2 }".to_owned())
        );
        b.drop_front(1);
        assert_eq!(format!("{:?}", b.doc(0)), "{ a: 3 }");
        assert_eq!(b.doc(9), Doc::EMPTY);
    }
}
