//! Copies documents by ranges of `_id`, several at once. Promises: a copy that was interrupted at
//! any moment continues; a range is read from its own collection even after a rename, or the
//! collection is copied again. Must not know: changes.

use crate::align::Aligner;
use crate::error::{FollowError, Result, code};
use crate::pace::Pace;
use crate::state::{CopyProgress, Entry, Range, integer};
use crate::write;
use mongodb::Cursor;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::task::JoinSet;

/// Approximate bytes of documents in a range.
const RANGE_BYTES: i64 = 64 << 20;
/// Most ranges of a collection.
const RANGES_MAX: i64 = 2000;
/// Samples taken for one range.
const SAMPLES: i64 = 10;

/// How documents are copied.
#[derive(Clone)]
pub(crate) struct Copier {
    pub(crate) aligner: Aligner,
    pub(crate) pace: Arc<Pace>,
    /// Ranges copied at once.
    pub(crate) workers: usize,
}

/// Whether a range was copied completely.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Copied,
    /// The collection was renamed or dropped.
    Moved,
}

impl Copier {
    /// Copies all collections that are not copied yet. False if names have changed meanwhile, so
    /// that some collections are missing.
    pub(crate) async fn copy(&self, entries: &mut [Entry]) -> Result<bool> {
        let mut ranges = Vec::new();
        for entry in entries.iter_mut().filter(|entry| !entry.copied) {
            // A capped collection is copied in order, so its copy cannot continue in the middle.
            if entry.planned && entry.is_capped() {
                self.reset(entry).await?;
            }
            if !entry.planned && !self.plan(entry).await? {
                return Ok(false);
            }
        }
        for range in self.aligner.state.ranges().await? {
            let entry = entries.iter().find(|e| e.key == range.key && !e.copied);
            if let Some(entry) = entry {
                ranges.push(Job {
                    entry: entry.clone(),
                    range,
                });
            }
        }
        let mut whole = self.run(ranges).await?;
        for entry in entries.iter_mut().filter(|entry| !entry.copied) {
            if !whole.is_unmoved(&entry.key) {
                continue;
            }
            if !self.aligner.source.reads_by_uuid() && !self.is_still_there(entry).await? {
                self.reset(entry).await?;
                whole.note(&entry.key);
                continue;
            }
            entry.copied = true;
            self.aligner.state.put_entry(entry).await?;
        }
        Ok(whole.moved.is_empty())
    }

    /// Starts the copy of one collection again.
    async fn reset(&self, entry: &mut Entry) -> Result<()> {
        self.aligner.drop_target(&entry.target).await?;
        entry.planned = false;
        entry.indexes.clear();
        self.aligner.state.put_entry(entry).await?;
        self.aligner.state.remove_ranges(&entry.key).await
    }

    /// For servers that read by name only: whether the name still belongs to the same collection.
    async fn is_still_there(&self, entry: &Entry) -> Result<bool> {
        let identity = self.aligner.source.identity(&entry.source).await?;
        Ok(identity.as_ref() == Some(&entry.key))
    }

    /// Creates the collection and plans its ranges; false if it is gone meanwhile.
    async fn plan(&self, entry: &mut Entry) -> Result<bool> {
        let aligner = &self.aligner;
        aligner.make(entry).await?;
        aligner.state.remove_ranges(&entry.key).await?;
        let bounds = match self.bounds(entry).await {
            Err(e) if e.is(code::UUID_MISMATCH) || e.is(code::NAMESPACE_NOT_FOUND) => {
                return Ok(false);
            }
            bounds => bounds?,
        };
        let mut ranges = Vec::new();
        let mut from = None;
        for to in bounds.into_iter().map(Some).chain([None]) {
            let id = doc! { "key": entry.key.clone(), "n": ranges.len() as i64 };
            ranges.push(Range {
                id: Bson::Document(id),
                key: entry.key.clone(),
                from: std::mem::replace(&mut from, to.clone()),
                to,
                at: None,
            });
        }
        aligner.state.put_ranges(&ranges).await?;
        entry.planned = true;
        aligner.state.put_entry(entry).await?;
        Ok(true)
    }

    /// The bounds between the ranges of a collection, in order.
    async fn bounds(&self, entry: &Entry) -> Result<Vec<Bson>> {
        let (source, ns) = (&self.aligner.source, &entry.source);
        let stats = source.run(&ns.db, doc! { "collStats": &ns.coll }).await?;
        let (size, count) = (integer(&stats, "size"), integer(&stats, "count"));
        let pieces = (size / RANGE_BYTES + 1).min(RANGES_MAX);
        if pieces == 1 || entry.is_capped() {
            return Ok(Vec::new());
        }
        let wanted = (pieces * SAMPLES).min(count);
        let sample = [
            doc! { "$sample": { "size": wanted } },
            doc! { "$project": { "_id": 1 } },
            doc! { "$sort": { "_id": 1 } },
        ];
        let mut command = doc! { "aggregate": &ns.coll, "pipeline": sample.to_vec(), "cursor": {} };
        self.name_by_uuid(entry, &mut command);
        let samples = source.list(&ns.db, command).await?;
        let step = (samples.len() / usize::try_from(pieces).unwrap_or(1)).max(1);
        let cuts = samples.iter().skip(step).step_by(step);
        let mut bounds: Vec<Bson> = cuts.filter_map(|d| d.get("_id").cloned()).collect();
        bounds.dedup();
        Ok(bounds)
    }

    fn name_by_uuid(&self, entry: &Entry, command: &mut Document) {
        if self.aligner.source.reads_by_uuid() && matches!(entry.key, Bson::Binary(_)) {
            command.insert("collectionUUID", entry.key.clone());
        }
    }

    async fn run(&self, jobs: Vec<Job>) -> Result<RenamedCollections> {
        let queue = Arc::new(Mutex::new(VecDeque::from(jobs)));
        let mut tasks = JoinSet::new();
        for _ in 0..self.workers.max(1) {
            let (copier, queue) = (self.clone(), Arc::clone(&queue));
            tasks.spawn(async move {
                let mut moved = Vec::new();
                loop {
                    let next = { queue.lock() }
                        .unwrap_or_else(|e| e.into_inner())
                        .pop_front();
                    let Some(job) = next else {
                        return Ok(moved);
                    };
                    if copier.copy_range(&job.entry, job.range).await? == Part::Moved {
                        moved.push(job.entry.key);
                    }
                }
            });
        }
        let mut whole = RenamedCollections::default();
        while let Some(ended) = tasks.join_next().await {
            let moved: Result<Vec<Bson>> = ended
                .map_err(|e| FollowError::of_data(format!("a worker of the copy ended: {e}")))?;
            moved?.iter().for_each(|key| whole.note(key));
        }
        Ok(whole)
    }

    async fn open(&self, entry: &Entry, range: &Range) -> Result<Cursor<Document>> {
        let mut find = doc! {
            "find": &entry.source.coll, "readConcern": { "level": "majority" },
            // A slow read, because of a low rate, must not lose its cursor.
            "noCursorTimeout": true,
        };
        self.name_by_uuid(entry, &mut find);
        if entry.is_capped() {
            find.insert("hint", doc! { "$natural": 1 });
        } else {
            find.insert("hint", doc! { "_id": 1 });
            find.insert("sort", doc! { "_id": 1 });
            // Index bounds compare all types, unlike a filter, so no `_id` is left out.
            if let Some(from) = range.at.as_ref().or(range.from.as_ref()) {
                find.insert("min", doc! { "_id": from.clone() });
            }
            if let Some(to) = &range.to {
                find.insert("max", doc! { "_id": to.clone() });
            }
        }
        let find = RawDocumentBuf::try_from(&find)?;
        self.aligner.source.read(&entry.source.db, find).await
    }

    async fn copy_range(&self, entry: &Entry, mut range: Range) -> Result<Part> {
        let mut cursor = match self.open(entry, &range).await {
            Err(e) if e.is(code::UUID_MISMATCH) || e.is(code::NAMESPACE_NOT_FOUND) => {
                return Ok(Part::Moved);
            }
            opened => opened.map_err(|e| e.in_step(&format!("copying {}", entry.source)))?,
        };
        let mut batch = Batch::default();
        while cursor.advance().await? {
            batch.push(cursor.current().to_owned());
            if batch.is_full() {
                self.put(entry, &mut range, &mut batch).await?;
            }
        }
        batch.moved.is_last = true;
        self.put(entry, &mut range, &mut batch).await?;
        Ok(Part::Copied)
    }

    /// Writes a batch and notes the progress of the range.
    async fn put(&self, entry: &Entry, range: &mut Range, batch: &mut Batch) -> Result<()> {
        self.pace.pass(batch.moved).await;
        write::insert(&self.aligner.target, &entry.target, &batch.documents).await?;
        if let Some(last) = batch.documents.last() {
            range.at = Some(Bson::try_from(write::id_of(last)?)?);
        }
        self.aligner.state.advance_range(range, batch.moved).await?;
        *batch = Batch::default();
        Ok(())
    }
}

struct Job {
    entry: Entry,
    range: Range,
}

/// A collection whose name has changed during the copy.
#[derive(Default)]
struct RenamedCollections {
    moved: HashSet<String>,
}

impl RenamedCollections {
    fn note(&mut self, key: &Bson) {
        self.moved.insert(key.to_string());
    }

    fn is_unmoved(&self, key: &Bson) -> bool {
        !self.moved.contains(&key.to_string())
    }
}

#[derive(Default)]
struct Batch {
    documents: Vec<RawDocumentBuf>,
    moved: CopyProgress,
}

impl Batch {
    fn push(&mut self, document: RawDocumentBuf) {
        self.moved.documents += 1;
        self.moved.bytes += document.as_bytes().len() as i64;
        self.documents.push(document);
    }

    fn is_full(&self) -> bool {
        self.documents.len() >= write::DOCUMENTS_MAX || self.moved.bytes >= write::BYTES_MAX as i64
    }
}
