//! Compares source and target while changes are followed: document by document in the order of
//! `_id`, by the ranges of the copy. Promises: memory is bounded; a difference is read again once
//! the target has passed the time of the first read, so a change on its way is no difference; a
//! document that differs then, without having changed meanwhile, is reported and repaired by the
//! task that applies changes. Must not know: how it is repaired.

use crate::apply::read_documents;
use crate::control::Counts;
use crate::error::{FollowError, Result, code};
use crate::names::Ns;
use crate::pace::Pace;
use crate::server::Server;
use crate::state::{Entry, Finding, Range, State, integer};
use crate::watched::{DocumentWatch, WatchedDocuments};
use crate::write;
use mongodb::Cursor;
use mongodb::bson::{Bson, DateTime, Document, RawBson, RawDocument, RawDocumentBuf, doc};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Documents compared at once.
const DOCUMENTS: usize = 500;
/// Most bytes of these documents.
const BYTES: usize = 8 << 20;
/// How often a differing document is read again.
const ROUNDS: usize = 8;
const PAUSE: Duration = Duration::from_millis(200);
/// Pause between two passes.
const EVERY: Duration = Duration::from_secs(600);
/// How often a collection may be renamed before it is left to the next pass.
const NAMES: usize = 5;
/// Most differing documents remembered.
pub(crate) const REMEMBERED: usize = 10_000;

/// A document that differs.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) entry: Entry,
    pub(crate) id: RawBson,
}

/// Compares.
#[derive(Clone)]
pub(crate) struct Verifier {
    pub(crate) source: Server,
    pub(crate) target: Server,
    pub(crate) state: State,
    pub(crate) counts: Arc<Counts>,
    pub(crate) pace: Arc<Pace>,
    /// Tells the task that applies changes which documents are being compared.
    pub(crate) watched: Arc<WatchedDocuments>,
    /// Receives differing documents for repair.
    pub(crate) mend: mpsc::Sender<Difference>,
}

/// The result of a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct VerifyResult {
    pub(crate) documents: i64,
    pub(crate) differences: i64,
    /// The first of the differing documents.
    pub(crate) different: Vec<Difference>,
    /// Documents that changed faster than they could be compared.
    pub(crate) unsettled: Vec<Difference>,
}

/// Passes over everything until a pass has found no difference, and then from time to time.
pub(crate) async fn keep_verifying(verifier: Verifier, found: watch::Sender<Option<VerifyResult>>) {
    loop {
        let pause = match verifier.pass(1).await {
            Ok(pass) => {
                let kept = doc! { "verified": pass.document() };
                let is_clean = pass.differences == 0;
                if verifier.state.set(kept).await.is_ok() && is_clean {
                    found.send_replace(Some(pass));
                }
                if is_clean { EVERY } else { PAUSE }
            }
            // The task that follows gets the same error and starts again.
            Err(_) => PAUSE * 5,
        };
        tokio::time::sleep(pause).await;
    }
}

impl VerifyResult {
    /// The result of an earlier follower's pass. It stays valid, because all changes since were
    /// applied.
    pub(crate) fn from_migration(migration: &Document) -> Option<VerifyResult> {
        let kept = migration.get_document("verified").ok()?;
        let is_clean = integer(kept, "differences") == 0 && integer(kept, "unsettled") == 0;
        is_clean.then(VerifyResult::default)
    }

    fn add(&mut self, other: VerifyResult) {
        self.documents += other.documents;
        self.differences += other.differences;
        let room = REMEMBERED.saturating_sub(self.different.len());
        self.different
            .extend(other.different.into_iter().take(room));
        self.unsettled.extend(other.unsettled);
    }

    fn document(&self) -> Document {
        doc! {
            "at": DateTime::now(), "documents": self.documents,
            "differences": self.differences, "unsettled": self.unsettled.len() as i64,
        }
    }
}

enum CompareResult {
    Whole,
    /// The collection was renamed or dropped.
    Moved,
}

impl Verifier {
    /// Compares everything once, `workers` ranges at a time.
    pub(crate) async fn pass(&self, workers: usize) -> Result<VerifyResult> {
        let mut parts = VecDeque::new();
        for entry in self.state.entries().await? {
            let mut ranges = self.state.ranges_of(&entry.key).await?;
            if ranges.is_empty() {
                ranges.push(Range::unbounded(&entry.key));
            }
            parts.extend(ranges.into_iter().map(|range| Part {
                entry: entry.clone(),
                bounds: Bounds::of(range),
            }));
        }
        let parts = Arc::new(Mutex::new(parts));
        let mut tasks = JoinSet::new();
        for _ in 0..workers.max(1) {
            let (verifier, parts) = (self.clone(), Arc::clone(&parts));
            tasks.spawn(async move { verifier.compare_parts(&parts).await });
        }
        let mut pass = VerifyResult::default();
        while let Some(ended) = tasks.join_next().await {
            let some = ended.map_err(|e| FollowError::of_data(format!("comparing ended: {e}")))?;
            pass.add(some?);
        }
        Ok(pass)
    }

    async fn compare_parts(&self, parts: &Mutex<VecDeque<Part>>) -> Result<VerifyResult> {
        let mut pass = VerifyResult::default();
        loop {
            let next = { parts.lock() }
                .unwrap_or_else(|e| e.into_inner())
                .pop_front();
            let Some(part) = next else {
                return Ok(pass);
            };
            self.compare_named(part, &mut pass).await?;
        }
    }

    /// Compares again documents that differed or changed too fast.
    pub(crate) async fn compare_again(&self, some: Vec<Difference>) -> Result<VerifyResult> {
        let mut pass = VerifyResult::default();
        let mut by_entry: HashMap<String, (Entry, Vec<RawBson>)> = HashMap::new();
        for one in some {
            let known = by_entry.entry(one.entry.key.to_string());
            let (_, ids) = known.or_insert_with(|| (one.entry, Vec::new()));
            ids.push(one.id);
        }
        for (entry, ids) in by_entry.into_values() {
            let Some(entry) = self.entry_now(&entry).await? else {
                continue;
            };
            for ids in ids.chunks(DOCUMENTS) {
                self.settle(&entry, ids.to_vec(), &mut pass).await?;
            }
        }
        Ok(pass)
    }

    async fn compare_named(&self, mut part: Part, pass: &mut VerifyResult) -> Result<()> {
        for _ in 0..NAMES {
            if let CompareResult::Whole = self.compare(&part, pass).await? {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
            let Some(now) = self.entry_now(&part.entry).await? else {
                return Ok(());
            };
            part.entry = now;
        }
        Ok(())
    }

    async fn entry_now(&self, entry: &Entry) -> Result<Option<Entry>> {
        let all = self.state.entries().await?;
        Ok(all.into_iter().find(|e| e.key == entry.key))
    }

    async fn compare(&self, part: &Part, pass: &mut VerifyResult) -> Result<CompareResult> {
        let (entry, bounds) = (&part.entry, &part.bounds);
        let opened = open(&self.source, entry.name_in_source(), bounds).await;
        let mut cursor = match opened {
            Err(e) if e.is(code::UUID_MISMATCH) => return Ok(CompareResult::Moved),
            opened => opened?,
        };
        let mut from = bounds.from.clone();
        let mut held: Option<RawDocumentBuf> = None;
        let mut doubtful = Vec::new();
        loop {
            let chunk = match take(&mut cursor, held.take()).await {
                Err(e) if e.is(code::UUID_MISMATCH) => return Ok(CompareResult::Moved),
                chunk => chunk?,
            };
            held = chunk.next;
            let to = match &held {
                Some(next) => Some(bson_id(next)?),
                None => bounds.to.clone(),
            };
            pass.documents += chunk.documents.len() as i64;
            self.pace.wait(chunk.bytes as u64).await;
            let (lower, upper) = (from, to.clone());
            let here = Bounds {
                from: lower,
                to: upper,
            };
            let mut there = open(&self.target, entry.name_in_target(), &here).await?;
            let mut left = key_by_id(chunk.documents)?;
            while there.advance().await? {
                doubtful.extend(compare_document(&mut left, there.current())?);
                if doubtful.len() >= DOCUMENTS
                    && !self.settle_all(entry, &mut doubtful, pass).await?
                {
                    return Ok(CompareResult::Moved);
                }
            }
            for document in left.values() {
                doubtful.push(write::id_of(document)?);
            }
            // Each new read waits for the target to catch up, so many documents share one.
            let is_due = doubtful.len() >= DOCUMENTS || held.is_none();
            if is_due && !self.settle_all(entry, &mut doubtful, pass).await? {
                return Ok(CompareResult::Moved);
            }
            if held.is_none() {
                return Ok(CompareResult::Whole);
            }
            from = to;
        }
    }

    async fn settle_all(
        &self,
        entry: &Entry,
        doubtful: &mut Vec<RawBson>,
        pass: &mut VerifyResult,
    ) -> Result<bool> {
        self.settle(entry, std::mem::take(doubtful), pass).await
    }

    /// Waits until everything that the source has acknowledged until now was applied.
    async fn catch_up(&self) -> Result<()> {
        let time = self.source.time().await?;
        while self.counts.position() < time {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Reads differing documents again; false if the collection was renamed meanwhile.
    async fn settle(
        &self,
        entry: &Entry,
        mut doubtful: Vec<RawBson>,
        pass: &mut VerifyResult,
    ) -> Result<bool> {
        for _ in 0..ROUNDS {
            if doubtful.is_empty() {
                return Ok(true);
            }
            let watch = DocumentWatch::begin(&self.watched, &entry.key, &doubtful);
            let Some(seen) = self.look_at_both(entry, &doubtful).await? else {
                return Ok(false);
            };
            let mut moving = Vec::new();
            let mut suspects = Vec::new();
            for id in doubtful {
                let key = write::bytes_of(&id);
                let is_same = seen.target.get(&key) == seen.before.get(&key);
                let has_moved = seen.after.get(&key) != seen.before.get(&key);
                match (is_same, has_moved) {
                    (true, _) => {}
                    (false, true) => moving.push(id),
                    (false, false) => suspects.push(id),
                }
            }
            if !suspects.is_empty() {
                // A document that was removed and restored unchanged looks as if it had not
                // changed.
                self.catch_up().await?;
            }
            for id in suspects {
                match watch.has_changed(&id) {
                    true => moving.push(id),
                    false => self.report(entry, id, &seen, pass).await?,
                }
            }
            doubtful = moving;
        }
        for id in doubtful {
            let entry = entry.clone();
            pass.unsettled.push(Difference { entry, id });
        }
        Ok(true)
    }

    /// Reads the source, then the target once it has passed that time, then the source again;
    /// `None` if the collection was renamed meanwhile.
    async fn look_at_both(
        &self,
        entry: &Entry,
        ids: &[RawBson],
    ) -> Result<Option<DocumentVersions>> {
        let here = Entry {
            key: Bson::Null,
            source: entry.target.clone(),
            ..entry.clone()
        };
        let Some(before) = self.look_at(&self.source, entry, ids).await? else {
            return Ok(None);
        };
        self.catch_up().await?;
        let Some(target) = self.look_at(&self.target, &here, ids).await? else {
            return Ok(None);
        };
        let Some(after) = self.look_at(&self.source, entry, ids).await? else {
            return Ok(None);
        };
        let now = self.entry_now(entry).await?;
        let is_there = now.is_some_and(|now| now.target == entry.target);
        Ok(is_there.then_some(DocumentVersions {
            before,
            target,
            after,
        }))
    }

    async fn look_at(
        &self,
        server: &Server,
        entry: &Entry,
        ids: &[RawBson],
    ) -> Result<Option<Documents>> {
        match read_documents(server, entry, ids).await {
            Err(e) if e.is(code::UUID_MISMATCH) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn report(
        &self,
        entry: &Entry,
        id: RawBson,
        seen: &DocumentVersions,
        pass: &mut VerifyResult,
    ) -> Result<()> {
        let key = write::bytes_of(&id);
        let what = match (
            seen.before.contains_key(&key),
            seen.target.contains_key(&key),
        ) {
            (true, false) => "missing",
            (false, true) => "extra",
            _ => "different",
        };
        let finding = Finding {
            ns: entry.target.to_string(),
            id: Bson::try_from(id.clone())?,
            what: what.to_owned(),
        };
        self.state.add_finding(&finding).await?;
        let entry = entry.clone();
        let different = Difference { entry, id };
        pass.differences += 1;
        if pass.different.len() < REMEMBERED {
            pass.different.push(different.clone());
        }
        let sent = self.mend.send(different).await;
        sent.map_err(|_| FollowError::of_network("the task that corrects differences has ended"))
    }
}

type Documents = HashMap<Vec<u8>, RawDocumentBuf>;

/// Documents of source and target by the bytes of their `_id`.
struct DocumentVersions {
    before: Documents,
    target: Documents,
    after: Documents,
}

/// The documents that are compared at once.
struct Part {
    entry: Entry,
    bounds: Bounds,
}

struct Bounds {
    from: Option<Bson>,
    to: Option<Bson>,
}

impl Bounds {
    fn of(range: Range) -> Bounds {
        Bounds {
            from: range.from,
            to: range.to,
        }
    }
}

/// A collection by name and, in the source, by identity.
struct CollectionRef<'e> {
    ns: &'e Ns,
    key: Option<&'e Bson>,
}

impl Entry {
    fn name_in_source(&self) -> CollectionRef<'_> {
        CollectionRef {
            ns: &self.source,
            key: Some(&self.key),
        }
    }

    fn name_in_target(&self) -> CollectionRef<'_> {
        CollectionRef {
            ns: &self.target,
            key: None,
        }
    }
}

async fn open(
    server: &Server,
    named: CollectionRef<'_>,
    bounds: &Bounds,
) -> Result<Cursor<Document>> {
    let mut find = doc! {
        "find": &named.ns.coll, "hint": { "_id": 1 }, "noCursorTimeout": true,
        "readConcern": { "level": "majority" },
    };
    for (name, bound) in [("min", &bounds.from), ("max", &bounds.to)] {
        if let Some(bound) = bound {
            find.insert(name, doc! { "_id": bound.clone() });
        }
    }
    if let (true, Some(key @ Bson::Binary(_))) = (server.reads_by_uuid(), named.key) {
        find.insert("collectionUUID", key.clone());
    }
    // The server reads the index in order only if asked to sort.
    find.insert("sort", doc! { "_id": 1 });
    let find = RawDocumentBuf::try_from(&find)?;
    server.read(&named.ns.db, find).await
}

#[derive(Default)]
struct Chunk {
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    /// The first document of the next part.
    next: Option<RawDocumentBuf>,
}

async fn take(cursor: &mut Cursor<Document>, first: Option<RawDocumentBuf>) -> Result<Chunk> {
    let mut chunk = Chunk {
        bytes: first.as_ref().map_or(0, |d| d.as_bytes().len()),
        ..Chunk::default()
    };
    chunk.documents.extend(first);
    while cursor.advance().await? {
        let document = cursor.current().to_owned();
        if chunk.documents.len() >= DOCUMENTS || chunk.bytes >= BYTES {
            chunk.next = Some(document);
            break;
        }
        chunk.bytes += document.as_bytes().len();
        chunk.documents.push(document);
    }
    Ok(chunk)
}

fn bson_id(document: &RawDocumentBuf) -> Result<Bson> {
    Ok(Bson::try_from(write::id_of(document)?)?)
}

fn key_by_id(documents: Vec<RawDocumentBuf>) -> Result<Documents> {
    let mut by_id = HashMap::new();
    for document in documents {
        by_id.insert(write::bytes_of(&write::id_of(&document)?), document);
    }
    Ok(by_id)
}

/// Removes the source's document that belongs to this document of the target; returns the `_id` if
/// the two differ.
fn compare_document(source: &mut Documents, document: &RawDocument) -> Result<Option<RawBson>> {
    let id = write::id_of(document)?;
    let same = source.remove(&write::bytes_of(&id));
    let is_same = same.is_some_and(|same| same.as_bytes() == document.as_bytes());
    Ok((!is_same).then_some(id))
}
