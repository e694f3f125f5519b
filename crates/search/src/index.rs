//! One search index: its storage in files or memory, its writer and its readable state.
//!
//! Promises: a commit stores documents together with the log position up to which they are current,
//! atomically; a view does not change while it is held. Must not know: collections, the log.

use crate::definition::Definition;
use crate::document;
use crate::error::index_error;
use crate::graphs::Graphs;
use crate::matching::TextStats;
use crate::schema::{ColumnKind, Fields, TermKind};
use model::{Doc, Result};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::Arc;
use tantivy::columnar::DynamicColumn;
use tantivy::index::SegmentId;
use tantivy::indexer::{IndexWriterOptions, UserOperation};
use tantivy::schema::IndexRecordOption;
use tantivy::{
    DocId, DocSet, IndexReader, IndexWriter, ReloadPolicy, Searcher, SegmentReader, TERMINATED,
    Term,
};

/// Memory of a writer before it flushes a segment: the minimum of tantivy.
pub const WRITER_BYTES: usize = 16 << 20;
/// The format of index entries; an index of another format is rebuilt.
const FORMAT: u32 = 2;
/// Most cached sums of text lengths.
const SUMS_MAX: usize = 10_000;

/// The storage of an index.
#[derive(Clone, Copy, Debug)]
pub enum IndexLocation<'p> {
    /// In memory, lost when the process ends.
    Memory,
    /// A folder of its own.
    Folder(&'p Path),
}

/// Number of texts in a segment at a path, and of their tokens.
#[derive(Clone, Copy, Default)]
struct TextSum {
    texts: u64,
    tokens: u64,
}

/// A search index.
pub struct Index {
    definition: Definition,
    inner: tantivy::Index,
    reader: IndexReader,
    fields: Fields,
    graphs: Graphs,
    /// By segment; segments are immutable.
    sums: Mutex<FxHashMap<(SegmentId, String), TextSum>>,
}

/// The index as of one commit.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) searcher: Searcher,
}

/// Writes to an index. Only one exists at a time.
pub struct Writer {
    index: Arc<Index>,
    inner: IndexWriter,
}

impl Index {
    /// An empty index; an existing one in this place is removed.
    ///
    /// # Errors
    /// 1 InternalError when the folder cannot be made or written.
    pub fn create(definition: Definition, place: IndexLocation<'_>) -> Result<Index> {
        let (schema, fields) = Fields::build(definition.vectors.len());
        let inner = match place {
            IndexLocation::Memory => tantivy::Index::create_in_ram(schema),
            IndexLocation::Folder(path) => {
                if path.exists() {
                    std::fs::remove_dir_all(path).map_err(|e| index_error("remove", &e))?;
                }
                std::fs::create_dir_all(path).map_err(|e| index_error("make a folder", &e))?;
                tantivy::Index::create_in_dir(path, schema)
                    .map_err(|e| index_error("create", &e))?
            }
        };
        let folder = match place {
            IndexLocation::Memory => None,
            IndexLocation::Folder(path) => Some(path),
        };
        Index::open_on(inner, definition, fields, folder)
    }

    /// The index in a folder, with the position of its last commit; `None` when there is no usable
    /// index, so that it must be built.
    pub fn open(definition: &Definition, folder: &Path) -> Option<(Index, u64)> {
        let (schema, fields) = Fields::build(definition.vectors.len());
        let inner = tantivy::Index::open_in_dir(folder).ok()?;
        let payload = inner.load_metas().ok()?.payload?;
        let (format, position) = payload.split_once(' ')?;
        (format == FORMAT.to_string()).then_some(())?;
        let position = position.parse().ok()?;
        (inner.schema() == schema).then_some(())?;
        let index = Index::open_on(inner, definition.clone(), fields, Some(folder)).ok()?;
        Some((index, position))
    }

    fn open_on(
        inner: tantivy::Index,
        definition: Definition,
        fields: Fields,
        folder: Option<&Path>,
    ) -> Result<Index> {
        let reader = inner
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()
            .map_err(|e| index_error("open", &e))?;
        Ok(Index {
            definition,
            inner,
            reader,
            fields,
            graphs: Graphs::new(folder.map(Path::to_owned)),
            sums: Mutex::default(),
        })
    }

    /// The definition.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Number of documents in the last commit.
    pub fn documents(&self) -> u64 {
        let searcher = self.reader.searcher();
        if !self.definition.has_elements() {
            return searcher.num_docs();
        }
        let term = self.fields.term(TermKind::Element, "", "");
        let segments = searcher.segment_readers().iter();
        let each = segments.map(|segment| alive_with(segment, &term).unwrap_or(0));
        each.sum()
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(crate) fn view(&self) -> View {
        View {
            searcher: self.reader.searcher(),
        }
    }

    pub(crate) fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// Bytes of memory of the graphs for approximate vector searches.
    pub fn graph_bytes(&self) -> usize {
        self.graphs.bytes()
    }

    /// Does one step of building graphs for approximate vector searches: inserts up to the given
    /// number of vectors. `room` returns whether all graphs together may use the given bytes of
    /// memory. False when there is nothing to do, or not enough memory; then vectors are compared
    /// one by one.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be read or written.
    pub fn build_graphs(
        &self,
        vectors: usize,
        room: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool> {
        if self.definition.vectors.is_empty() {
            return Ok(false);
        }
        let searcher = self.reader.searcher();
        let fields = &self.definition.vectors;
        self.graphs.work(&searcher, fields, vectors, room)
    }

    /// Opens a writer with [`WRITER_BYTES`] of memory.
    ///
    /// # Errors
    /// 1 InternalError when another writer is open or a file cannot be made.
    pub fn writer(self: &Arc<Self>) -> Result<Writer> {
        let options = IndexWriterOptions::builder()
            .memory_budget_per_thread(WRITER_BYTES)
            .num_worker_threads(1)
            .num_merge_threads(1)
            .build();
        let inner = self.inner.writer_with_options(options);
        Ok(Writer {
            index: Arc::clone(self),
            inner: inner.map_err(|e| index_error("write", &e))?,
        })
    }

    /// The statistics of texts at a path that BM25 needs.
    ///
    /// # Cost
    /// One pass over the text lengths of each segment; cached.
    pub(crate) fn text_stats(&self, view: &View, path: &str) -> Result<TextStats> {
        let mut all = TextSum::default();
        for segment in view.searcher.segment_readers() {
            let key = (segment.segment_id(), path.to_owned());
            let known = self.sums.lock().get(&key).copied();
            let sum = match known {
                Some(sum) => sum,
                None => {
                    let sum = sum_of(segment, path).map_err(|e| index_error("lengths", &e))?;
                    let mut sums = self.sums.lock();
                    if sums.len() >= SUMS_MAX {
                        sums.clear();
                    }
                    sums.insert(key, sum);
                    sum
                }
            };
            all.texts += sum.texts;
            all.tokens += sum.tokens;
        }
        let kept = self.definition.text_options(path);
        Ok(TextStats {
            texts: all.texts,
            average: all.tokens as f32 / all.texts.max(1) as f32,
            norms: kept.norms,
            frequencies: kept.frequencies,
            weighed: kept.weighed,
        })
    }
}

fn sum_of(segment: &SegmentReader, path: &str) -> tantivy::Result<TextSum> {
    let mut sum = TextSum::default();
    let name = ColumnKind::Length.name(path);
    for handle in segment.fast_fields().dynamic_column_handles(&name)? {
        if let DynamicColumn::I64(column) = handle.open()? {
            for doc in 0..segment.max_doc() {
                if let Some(tokens) = column.first(doc) {
                    sum.texts += 1;
                    sum.tokens += u64::try_from(tokens).unwrap_or(0);
                }
            }
        }
    }
    Ok(sum)
}

/// Number of documents with a term, without removed ones.
fn alive_with(segment: &SegmentReader, term: &Term) -> tantivy::Result<u64> {
    let index = segment.inverted_index(term.field())?;
    let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? else {
        return Ok(0);
    };
    let (mut n, mut doc) = (0, postings.doc());
    while doc != TERMINATED {
        n += u64::from(is_alive(segment, doc));
        doc = postings.advance();
    }
    Ok(n)
}

/// False for a removed document.
pub(crate) fn is_alive(segment: &SegmentReader, doc: DocId) -> bool {
    segment
        .alive_bitset()
        .is_none_or(|alive| alive.is_alive(doc))
}

impl Writer {
    /// Replaces the document with the same encoded `_id`, or adds it.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be written.
    pub fn put(&mut self, id: &[u8], doc: Doc<'_>) -> Result<()> {
        self.remove(id);
        self.add(id, doc)
    }

    /// Adds a document that is known to be new.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be written.
    pub fn add(&mut self, id: &[u8], doc: Doc<'_>) -> Result<()> {
        let mut all = document::convert(&self.index.definition, &self.index.fields, id, doc);
        let added = match all.pop() {
            // Documents written together stay adjacent in one segment.
            Some(whole) if !all.is_empty() => {
                all.push(whole);
                self.inner.run(all.into_iter().map(UserOperation::Add))
            }
            Some(whole) => self.inner.add_document(whole),
            None => return Ok(()),
        };
        added
            .map(|_| ())
            .map_err(|e| index_error("add a document", &e))
    }

    /// Removes the document with this encoded `_id`.
    pub fn remove(&mut self, id: &[u8]) {
        let term = Term::from_field_bytes(self.index.fields.id, id);
        self.inner.delete_term(term);
    }

    /// Makes all writes readable, and durable if the index has a folder; `position` is the log
    /// position up to which the index is current.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be written.
    pub fn commit(&mut self, position: u64) -> Result<()> {
        let mut commit = self
            .inner
            .prepare_commit()
            .map_err(|e| index_error("commit", &e))?;
        commit.set_payload(&format!("{FORMAT} {position}"));
        commit.commit().map_err(|e| index_error("commit", &e))?;
        let reloaded = self.index.reader.reload();
        reloaded.map_err(|e| index_error("read a commit", &e))
    }

    /// Waits for running merges of segments.
    ///
    /// # Errors
    /// 1 InternalError when a merge failed.
    pub fn finish(self) -> Result<()> {
        let done = self.inner.wait_merging_threads();
        done.map_err(|e| index_error("merge", &e))?;
        let reloaded = self.index.reader.reload();
        reloaded.map_err(|e| index_error("read a commit", &e))
    }
}
