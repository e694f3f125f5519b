//! One search index: its files or its memory, what is written into it and the state that is read.
//!
//! Promises: a commit holds documents and the position in the log up to which they are current,
//! both or neither; a view does not change while it is held. Must not know: collections, the log.

use crate::definition::Definition;
use crate::document;
use crate::error::failed;
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

/// Memory of a writer before it makes a segment: the least that tantivy takes.
pub const WRITER_BYTES: usize = 16 << 20;
/// What is written for a document; an index of another format is built again.
const FORMAT: u32 = 2;
/// Sums of text lengths that are remembered.
const SUMS_MAX: usize = 10_000;

/// Where an index lies.
#[derive(Clone, Copy, Debug)]
pub enum Place<'p> {
    /// In memory: it is gone with the process.
    Memory,
    /// A folder of its own.
    Folder(&'p Path),
}

/// How many texts a segment has at a path, and their tokens.
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
    /// Of segments, which never change.
    sums: Mutex<FxHashMap<(SegmentId, String), TextSum>>,
}

/// The state of an index at one commit.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) searcher: Searcher,
}

/// What changes an index. There is one at a time.
pub struct Writer {
    index: Arc<Index>,
    inner: IndexWriter,
}

impl Index {
    /// An empty index; what lay at the place is removed.
    ///
    /// # Errors
    /// 1 InternalError when the folder cannot be made or written.
    pub fn create(definition: Definition, place: Place<'_>) -> Result<Index> {
        let (schema, fields) = Fields::build(definition.vectors.len());
        let inner = match place {
            Place::Memory => tantivy::Index::create_in_ram(schema),
            Place::Folder(path) => {
                if path.exists() {
                    std::fs::remove_dir_all(path).map_err(|e| failed("remove", &e))?;
                }
                std::fs::create_dir_all(path).map_err(|e| failed("make a folder", &e))?;
                tantivy::Index::create_in_dir(path, schema).map_err(|e| failed("create", &e))?
            }
        };
        let folder = match place {
            Place::Memory => None,
            Place::Folder(path) => Some(path),
        };
        Index::over(inner, definition, fields, folder)
    }

    /// The index in a folder, with the position of its last commit; `None` when there is none that
    /// can be used, so that it has to be built.
    pub fn open(definition: &Definition, folder: &Path) -> Option<(Index, u64)> {
        let (schema, fields) = Fields::build(definition.vectors.len());
        let inner = tantivy::Index::open_in_dir(folder).ok()?;
        let payload = inner.load_metas().ok()?.payload?;
        let (format, position) = payload.split_once(' ')?;
        (format == FORMAT.to_string()).then_some(())?;
        let position = position.parse().ok()?;
        (inner.schema() == schema).then_some(())?;
        let index = Index::over(inner, definition.clone(), fields, Some(folder)).ok()?;
        Some((index, position))
    }

    fn over(
        inner: tantivy::Index,
        definition: Definition,
        fields: Fields,
        folder: Option<&Path>,
    ) -> Result<Index> {
        let reader = inner
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .try_into()
            .map_err(|e| failed("open", &e))?;
        Ok(Index {
            definition,
            inner,
            reader,
            fields,
            graphs: Graphs::new(folder.map(Path::to_owned)),
            sums: Mutex::default(),
        })
    }

    /// What is indexed.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Documents of the last commit.
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

    /// Bytes of memory that approximate searches of vectors use.
    pub fn graph_bytes(&self) -> usize {
        self.graphs.bytes()
    }

    /// Does a piece of what approximate searches of vectors need: so many vectors are put into a
    /// graph. `room` is asked whether all graphs together may have so many bytes of memory. False
    /// when there is nothing to do, or no room; then vectors are compared one by one.
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

    /// Begins to write, with [`WRITER_BYTES`] of memory.
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
            inner: inner.map_err(|e| failed("write", &e))?,
        })
    }

    /// What BM25 needs of the texts at a path.
    ///
    /// # Cost
    /// A pass over the lengths of each segment, once.
    pub(crate) fn text_stats(&self, view: &View, path: &str) -> Result<TextStats> {
        let mut all = TextSum::default();
        for segment in view.searcher.segment_readers() {
            let key = (segment.segment_id(), path.to_owned());
            let known = self.sums.lock().get(&key).copied();
            let sum = match known {
                Some(sum) => sum,
                None => {
                    let sum = sum_of(segment, path).map_err(|e| failed("lengths", &e))?;
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
        let kept = self.definition.kept_at(path);
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

/// Documents with a term that were not removed.
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

/// False for a document that was removed.
pub(crate) fn is_alive(segment: &SegmentReader, doc: DocId) -> bool {
    segment
        .alive_bitset()
        .is_none_or(|alive| alive.is_alive(doc))
}

impl Writer {
    /// Puts a document in place of the one with the same encoded `_id`.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be written.
    pub fn put(&mut self, id: &[u8], doc: Doc<'_>) -> Result<()> {
        self.remove(id);
        self.add(id, doc)
    }

    /// Puts a document that is certainly new.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be written.
    pub fn add(&mut self, id: &[u8], doc: Doc<'_>) -> Result<()> {
        let mut all = document::convert(&self.index.definition, &self.index.fields, id, doc);
        let added = match all.pop() {
            // What is written together lies in one segment, one behind the other, for ever.
            Some(whole) if !all.is_empty() => {
                all.push(whole);
                self.inner.run(all.into_iter().map(UserOperation::Add))
            }
            Some(whole) => self.inner.add_document(whole),
            None => return Ok(()),
        };
        added.map(|_| ()).map_err(|e| failed("add a document", &e))
    }

    /// Removes the document with this encoded `_id`.
    pub fn remove(&mut self, id: &[u8]) {
        let term = Term::from_field_bytes(self.index.fields.id, id);
        self.inner.delete_term(term);
    }

    /// Makes everything written readable, and durable where the index has a folder; `position` is
    /// where in the log the index now is.
    ///
    /// # Errors
    /// 1 InternalError when a file cannot be written.
    pub fn commit(&mut self, position: u64) -> Result<()> {
        let mut commit = self
            .inner
            .prepare_commit()
            .map_err(|e| failed("commit", &e))?;
        commit.set_payload(&format!("{FORMAT} {position}"));
        commit.commit().map_err(|e| failed("commit", &e))?;
        let reloaded = self.index.reader.reload();
        reloaded.map_err(|e| failed("read a commit", &e))
    }

    /// Waits until segments that are being merged are done.
    ///
    /// # Errors
    /// 1 InternalError when a merge failed.
    pub fn finish(self) -> Result<()> {
        let done = self.inner.wait_merging_threads();
        done.map_err(|e| failed("merge", &e))?;
        let reloaded = self.index.reader.reload();
        reloaded.map_err(|e| failed("read a commit", &e))
    }
}
