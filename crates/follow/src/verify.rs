//! Compares source and target while changes are followed, document by document in the order of
//! `_id`. Promises: bounded memory; what differs is looked at again once the target has passed the
//! time it was read at, so that what is on its way is no difference; what differs then is named,
//! and mended by whoever applies changes. Must not know: how it is mended.

use crate::apply::look;
use crate::control::Counts;
use crate::error::{FollowError, Result, code};
use crate::names::Ns;
use crate::pace::Pace;
use crate::server::Server;
use crate::state::{Entry, Finding, State, integer};
use crate::write;
use mongodb::Cursor;
use mongodb::bson::{Bson, DateTime, Document, RawBson, RawDocumentBuf, doc};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Documents compared at once.
const DOCUMENTS: usize = 500;
/// Bytes of them, beyond which no other is taken.
const BYTES: usize = 8 << 20;
/// How often a document that differs is looked at again.
const ROUNDS: usize = 8;
const PAUSE: Duration = Duration::from_millis(200);
/// Between two passes.
const EVERY: Duration = Duration::from_secs(600);
/// How often a collection may get another name before it is left to the next pass.
const NAMES: usize = 5;

/// A document that differs.
#[derive(Clone, Debug)]
pub(crate) struct Different {
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
    /// Differences go here to be mended.
    pub(crate) mend: mpsc::Sender<Different>,
}

/// What came out of a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) documents: i64,
    pub(crate) differences: i64,
    /// Documents that changed faster than they could be compared.
    pub(crate) unsettled: Vec<Different>,
}

/// Passes over everything until one has found no difference, and then now and then.
pub(crate) async fn keep_verifying(verifier: Verifier, found: watch::Sender<Option<Pass>>) {
    loop {
        let pause = match verifier.pass().await {
            Ok(pass) => {
                let kept = doc! { "verified": pass.document() };
                let is_clean = pass.differences == 0;
                if verifier.state.set(kept).await.is_ok() && is_clean {
                    found.send_replace(Some(pass));
                }
                if is_clean { EVERY } else { PAUSE }
            }
            // Whoever follows is told, too, and begins again.
            Err(_) => PAUSE * 5,
        };
        tokio::time::sleep(pause).await;
    }
}

impl Pass {
    /// What an earlier follower found: what has changed since was put as it is.
    pub(crate) fn kept(migration: &Document) -> Option<Pass> {
        let kept = migration.get_document("verified").ok()?;
        let is_clean = integer(kept, "differences") == 0 && integer(kept, "unsettled") == 0;
        is_clean.then(Pass::default)
    }

    fn document(&self) -> Document {
        doc! {
            "at": DateTime::now(), "documents": self.documents,
            "differences": self.differences, "unsettled": self.unsettled.len() as i64,
        }
    }
}

enum Compared {
    Whole,
    /// It has another name by now, or is gone.
    Moved,
}

impl Verifier {
    /// Compares everything once.
    pub(crate) async fn pass(&self) -> Result<Pass> {
        let mut pass = Pass::default();
        for entry in self.state.entries().await? {
            self.compare_named(entry, &mut pass).await?;
        }
        Ok(pass)
    }

    /// Looks again at documents that would not settle; the source is quiet by now.
    pub(crate) async fn again(&self, unsettled: Vec<Different>) -> Result<Pass> {
        let mut pass = Pass::default();
        for one in unsettled {
            if let Some(entry) = self.entry_now(&one.entry).await? {
                self.settle(&entry, vec![one.id], &mut pass).await?;
            }
        }
        Ok(pass)
    }

    async fn compare_named(&self, mut entry: Entry, pass: &mut Pass) -> Result<()> {
        for _ in 0..NAMES {
            if let Compared::Whole = self.compare(&entry, pass).await? {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
            let Some(now) = self.entry_now(&entry).await? else {
                return Ok(());
            };
            entry = now;
        }
        Ok(())
    }

    async fn entry_now(&self, entry: &Entry) -> Result<Option<Entry>> {
        let all = self.state.entries().await?;
        Ok(all.into_iter().find(|e| e.key == entry.key))
    }

    async fn compare(&self, entry: &Entry, pass: &mut Pass) -> Result<Compared> {
        let opened = open(&self.source, entry, &entry.source, None).await;
        let mut cursor = match opened {
            Err(e) if e.is(code::UUID_MISMATCH) => return Ok(Compared::Moved),
            opened => opened?,
        };
        let mut from: Option<Bson> = None;
        let mut held: Option<RawDocumentBuf> = None;
        let mut doubtful = Vec::new();
        loop {
            let chunk = match take(&mut cursor, held.take()).await {
                Err(e) if e.is(code::UUID_MISMATCH) => return Ok(Compared::Moved),
                chunk => chunk?,
            };
            held = chunk.next;
            let to = held.as_ref().map(bson_id).transpose()?;
            let there = self
                .read_target(
                    entry,
                    Bounds {
                        from,
                        to: to.clone(),
                    },
                )
                .await?;
            pass.documents += chunk.documents.len() as i64;
            self.pace.wait(chunk.bytes as u64).await;
            doubtful.extend(differing(&chunk.documents, there)?);
            // Each look waits for the target to catch up, so many share one.
            let is_due = doubtful.len() >= DOCUMENTS || held.is_none();
            if is_due
                && !self
                    .settle(entry, std::mem::take(&mut doubtful), pass)
                    .await?
            {
                return Ok(Compared::Moved);
            }
            if held.is_none() {
                return Ok(Compared::Whole);
            }
            from = to;
        }
    }

    async fn read_target(&self, entry: &Entry, bounds: Bounds) -> Result<Vec<RawDocumentBuf>> {
        let mut cursor = open(&self.target, entry, &entry.target, Some(&bounds)).await?;
        let mut all = Vec::new();
        while cursor.advance().await? {
            all.push(cursor.current().to_owned());
        }
        Ok(all)
    }

    /// Looks again at what differed; false when the collection has another name by now.
    async fn settle(
        &self,
        entry: &Entry,
        mut doubtful: Vec<RawBson>,
        pass: &mut Pass,
    ) -> Result<bool> {
        let here = Entry {
            key: Bson::Null,
            source: entry.target.clone(),
            ..entry.clone()
        };
        for _ in 0..ROUNDS {
            if doubtful.is_empty() {
                return Ok(true);
            }
            let before = match self.look_at(&self.source, entry, &doubtful).await? {
                Some(before) => before,
                None => return Ok(false),
            };
            let time = self.source.time().await?;
            while self.counts.position() < time {
                tokio::time::sleep(PAUSE).await;
            }
            let Some(target) = self.look_at(&self.target, &here, &doubtful).await? else {
                return Ok(false);
            };
            let Some(after) = self.look_at(&self.source, entry, &doubtful).await? else {
                return Ok(false);
            };
            let now = self.entry_now(entry).await?;
            if now.is_none_or(|now| now.target != entry.target) {
                return Ok(false);
            }
            let mut moving = Vec::new();
            for id in doubtful {
                let key = write::bytes_of(&id);
                let is_same = target.get(&key) == before.get(&key);
                let has_moved = after.get(&key) != before.get(&key);
                if is_same {
                    continue;
                }
                if has_moved {
                    moving.push(id);
                    continue;
                }
                pass.differences += 1;
                self.report(entry, id, &target, &before).await?;
            }
            doubtful = moving;
        }
        for id in doubtful {
            let entry = entry.clone();
            pass.unsettled.push(Different { entry, id });
        }
        Ok(true)
    }

    async fn look_at(
        &self,
        server: &Server,
        entry: &Entry,
        ids: &[RawBson],
    ) -> Result<Option<HashMap<Vec<u8>, RawDocumentBuf>>> {
        match look(server, entry, ids).await {
            Err(e) if e.is(code::UUID_MISMATCH) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn report(
        &self,
        entry: &Entry,
        id: RawBson,
        target: &HashMap<Vec<u8>, RawDocumentBuf>,
        source: &HashMap<Vec<u8>, RawDocumentBuf>,
    ) -> Result<()> {
        let key = write::bytes_of(&id);
        let what = match (source.contains_key(&key), target.contains_key(&key)) {
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
        let sent = self.mend.send(Different { entry, id }).await;
        sent.map_err(|_| FollowError::of_network("nobody mends any more"))
    }
}

struct Bounds {
    from: Option<Bson>,
    to: Option<Bson>,
}

async fn open(
    server: &Server,
    entry: &Entry,
    ns: &Ns,
    bounds: Option<&Bounds>,
) -> Result<Cursor<Document>> {
    let mut find = doc! {
        "find": &ns.coll, "hint": { "_id": 1 }, "noCursorTimeout": true,
        "readConcern": { "level": "majority" },
    };
    match bounds {
        Some(bounds) => {
            for (name, bound) in [("min", &bounds.from), ("max", &bounds.to)] {
                if let Some(bound) = bound {
                    find.insert(name, doc! { "_id": bound.clone() });
                }
            }
        }
        None if server.reads_by_uuid() && matches!(entry.key, Bson::Binary(_)) => {
            find.insert("collectionUUID", entry.key.clone());
        }
        None => {}
    }
    // An index is read in its order only when it is asked for so.
    find.insert("sort", doc! { "_id": 1 });
    server.read(&ns.db, RawDocumentBuf::try_from(&find)?).await
}

#[derive(Default)]
struct Chunk {
    documents: Vec<RawDocumentBuf>,
    bytes: usize,
    /// The first of the next.
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

/// The `_id` of documents that are not the same on both sides.
fn differing(source: &[RawDocumentBuf], target: Vec<RawDocumentBuf>) -> Result<Vec<RawBson>> {
    let mut there = HashMap::new();
    for document in target {
        there.insert(write::bytes_of(&write::id_of(&document)?), document);
    }
    let mut differing = Vec::new();
    for document in source {
        let id = write::id_of(document)?;
        if there.remove(&write::bytes_of(&id)).as_ref() != Some(document) {
            differing.push(id);
        }
    }
    for document in there.values() {
        differing.push(write::id_of(document)?);
    }
    Ok(differing)
}
