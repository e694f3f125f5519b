//! What a migration has done so far, kept in the target in a database of its own, so that it goes
//! on after an end at any moment. Promises: each method is one write that is durable when it
//! returns. Must not know: how anything is copied.

use crate::error::{FollowError, Result};
use crate::names::{Ns, OWN};
use crate::server::Server;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};

/// What it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Documents as they are.
    Copying,
    /// Changes as they happen.
    Following,
    /// Bringing it to its end.
    CuttingOver,
    /// The target is its own.
    Done,
}

impl Phase {
    /// As it is kept.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Copying => "copying",
            Phase::Following => "following",
            Phase::CuttingOver => "cutting over",
            Phase::Done => "done",
        }
    }

    fn parse(text: &str) -> Option<Phase> {
        let all = [
            Phase::Copying,
            Phase::Following,
            Phase::CuttingOver,
            Phase::Done,
        ];
        all.into_iter().find(|phase| phase.name() == text)
    }
}

/// A collection of the source and what has become of it in the target.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The identity that the source gives it; its name where it gives none.
    pub(crate) key: Bson,
    /// Its name in the source, when it was last looked at.
    pub(crate) source: Ns,
    /// Its name in the target.
    pub(crate) target: Ns,
    /// The name it is being given there, and may have by now.
    pub(crate) moving: Option<Ns>,
    /// As the source lists them.
    pub(crate) options: Document,
    /// Indexes besides that of `_id` as the source lists them, as far as they were made.
    pub(crate) indexes: Vec<Document>,
    /// Its ranges are known.
    pub(crate) planned: bool,
    pub(crate) copied: bool,
    pub(crate) indexed: bool,
}

impl Entry {
    pub(crate) fn is_capped(&self) -> bool {
        self.options.get_bool("capped").unwrap_or(false)
    }

    fn parse(d: &Document) -> Option<Entry> {
        let flag = |name| d.get_bool(name).unwrap_or(false);
        let indexes = d.get_array("indexes").ok()?;
        Some(Entry {
            key: d.get("_id")?.clone(),
            source: Ns::parse(d.get_str("source").ok()?)?,
            target: Ns::parse(d.get_str("target").ok()?)?,
            moving: d.get_str("moving").ok().and_then(Ns::parse),
            options: d.get_document("options").ok()?.clone(),
            indexes: { indexes.iter() }
                .filter_map(Bson::as_document)
                .cloned()
                .collect(),
            planned: flag("planned"),
            copied: flag("copied"),
            indexed: flag("indexed"),
        })
    }

    fn document(&self) -> Document {
        let moving = self.moving.as_ref().map(Ns::to_string);
        doc! {
            "_id": self.key.clone(), "source": self.source.to_string(),
            "target": self.target.to_string(), "moving": moving, "options": self.options.clone(),
            "indexes": self.indexes.clone(), "planned": self.planned, "copied": self.copied,
            "indexed": self.indexed,
        }
    }
}

/// A part of a collection in the order of `_id`; a bound that is missing is none.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) id: Bson,
    pub(crate) key: Bson,
    pub(crate) from: Option<Bson>,
    pub(crate) to: Option<Bson>,
    /// The last `_id` that was copied.
    pub(crate) at: Option<Bson>,
}

impl Range {
    /// All of a collection.
    pub(crate) fn whole(key: &Bson) -> Range {
        Range {
            id: Bson::Null,
            key: key.clone(),
            from: None,
            to: None,
            at: None,
        }
    }

    pub(crate) fn document(&self) -> Document {
        let mut d = doc! { "_id": self.id.clone(), "key": self.key.clone(), "done": false };
        let bounds = [("from", &self.from), ("to", &self.to), ("at", &self.at)];
        for (name, bound) in bounds {
            if let Some(bound) = bound {
                d.insert(name, bound.clone());
            }
        }
        d
    }

    fn parse(d: &Document) -> Option<Range> {
        Some(Range {
            id: d.get("_id")?.clone(),
            key: d.get("key")?.clone(),
            from: d.get("from").cloned(),
            to: d.get("to").cloned(),
            at: d.get("at").cloned(),
        })
    }
}

/// What the one document about the whole migration says.
#[derive(Clone, Debug)]
pub(crate) struct Migration {
    pub(crate) phase: Phase,
    pub(crate) names: String,
    /// Changes from this time on are followed when there is no token.
    pub(crate) start: Timestamp,
    pub(crate) token: Option<RawDocumentBuf>,
    /// The log itself is read.
    pub(crate) by_log: bool,
    pub(crate) document: Document,
}

/// A document that was not what it is in the source.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) ns: String,
    pub(crate) id: Bson,
    /// Missing, extra or different.
    pub(crate) what: String,
}

/// The state in a target.
#[derive(Clone)]
pub(crate) struct State {
    target: Server,
}

pub(crate) const MIGRATION: &str = "migration";
const STATE: &str = "state";
pub(crate) const COLLECTIONS: &str = "collections";
const RANGES: &str = "ranges";
pub(crate) const VIEWS: &str = "views";
const FINDINGS: &str = "findings";

fn durable() -> Document {
    doc! { "w": "majority", "j": true }
}

impl State {
    pub(crate) fn of(target: &Server) -> State {
        State {
            target: target.clone(),
        }
    }

    async fn update(&self, coll: &str, id: &Bson, change: Document) -> Result<()> {
        let one = doc! { "q": { "_id": id.clone() }, "u": change, "upsert": true };
        self.write(doc! { "update": coll, "updates": [one] }).await
    }

    async fn write(&self, mut command: Document) -> Result<()> {
        command.insert("writeConcern", durable());
        let reply = self.target.run(OWN, command).await?;
        match first_write_error(&reply) {
            None => Ok(()),
            Some(e) => Err(e.within("the state of the migration cannot be kept")),
        }
    }

    async fn all(&self, coll: &str, filter: Document) -> Result<Vec<Document>> {
        let find = doc! { "find": coll, "filter": filter };
        self.target.list(OWN, find).await
    }

    /// The migration into this target, if one was begun.
    pub(crate) async fn migration(&self) -> Result<Option<Migration>> {
        let found = self.all(STATE, doc! { "_id": MIGRATION }).await?;
        let Some(d) = found.into_iter().next() else {
            return Ok(None);
        };
        let strange = || {
            FollowError::of_data(format!(
                "{OWN}.{STATE} of the target is not of this version of quarry follow"
            ))
        };
        let phase = d.get_str("phase").ok().and_then(Phase::parse);
        let token = d.get_document("token").ok();
        Ok(Some(Migration {
            phase: phase.ok_or_else(strange)?,
            names: d.get_str("names").map_err(|_| strange())?.to_owned(),
            start: d.get_timestamp("start").map_err(|_| strange())?,
            token: token.map(RawDocumentBuf::try_from).transpose()?,
            by_log: d.get_bool("byLog").unwrap_or(false),
            document: d,
        }))
    }

    /// Sets fields of the migration's document.
    pub(crate) async fn set(&self, fields: Document) -> Result<()> {
        let id = Bson::String(MIGRATION.to_owned());
        self.update(STATE, &id, doc! { "$set": fields }).await
    }

    /// Sets fields where the document is as the filter says; whether it was.
    pub(crate) async fn set_if(&self, filter: Document, fields: Document) -> Result<bool> {
        let mut q = doc! { "_id": MIGRATION };
        q.extend(filter);
        let command = doc! {
            "findAndModify": STATE, "query": q, "update": { "$set": fields }, "new": true,
            "writeConcern": durable(),
        };
        let reply = self.target.run(OWN, command).await?;
        Ok(matches!(reply.get("value"), Some(Bson::Document(_))))
    }

    pub(crate) async fn entries(&self) -> Result<Vec<Entry>> {
        let all = self.all(COLLECTIONS, doc! {}).await?;
        Ok(all.iter().filter_map(Entry::parse).collect())
    }

    pub(crate) async fn put_entry(&self, entry: &Entry) -> Result<()> {
        self.update(COLLECTIONS, &entry.key, entry.document()).await
    }

    pub(crate) async fn remove_entry(&self, key: &Bson) -> Result<()> {
        self.remove_ranges(key).await?;
        let one = doc! { "q": { "_id": key.clone() }, "limit": 1 };
        self.write(doc! { "delete": COLLECTIONS, "deletes": [one] })
            .await
    }

    pub(crate) async fn views(&self) -> Result<Vec<Document>> {
        self.all(VIEWS, doc! {}).await
    }

    /// `made`: it is there; otherwise it may be.
    pub(crate) async fn put_view(&self, target: &Ns, options: &Document, made: bool) -> Result<()> {
        let options = options.clone();
        let kept = doc! { "_id": target.to_string(), "options": options, "made": made };
        let id = Bson::String(target.to_string());
        self.update(VIEWS, &id, kept).await
    }

    pub(crate) async fn remove_view(&self, target: &str) -> Result<()> {
        let one = doc! { "q": { "_id": target }, "limit": 1 };
        self.write(doc! { "delete": VIEWS, "deletes": [one] }).await
    }

    /// Ranges that are not copied yet.
    pub(crate) async fn ranges(&self) -> Result<Vec<Range>> {
        let all = self.all(RANGES, doc! { "done": false }).await?;
        Ok(all.iter().filter_map(Range::parse).collect())
    }

    /// All ranges of a collection.
    pub(crate) async fn ranges_of(&self, key: &Bson) -> Result<Vec<Range>> {
        let all = self.all(RANGES, doc! { "key": key.clone() }).await?;
        Ok(all.iter().filter_map(Range::parse).collect())
    }

    pub(crate) async fn put_ranges(&self, ranges: &[Range]) -> Result<()> {
        for some in ranges.chunks(1000) {
            let some: Vec<Document> = some.iter().map(Range::document).collect();
            self.write(doc! { "insert": RANGES, "documents": some })
                .await?;
        }
        Ok(())
    }

    pub(crate) async fn remove_ranges(&self, key: &Bson) -> Result<()> {
        let all = doc! { "q": { "key": key.clone() }, "limit": 0 };
        self.write(doc! { "delete": RANGES, "deletes": [all] })
            .await
    }

    /// How far a range is; with the documents and bytes that were copied since the last time.
    pub(crate) async fn advance_range(&self, range: &Range, moved: Moved) -> Result<()> {
        let mut set = doc! { "done": moved.is_last };
        if let Some(at) = &range.at {
            set.insert("at", at.clone());
        }
        let add = doc! { "documents": moved.documents, "bytes": moved.bytes };
        let change = doc! { "$set": set, "$inc": add };
        self.update(RANGES, &range.id, change).await
    }

    pub(crate) async fn add_finding(&self, finding: &Finding) -> Result<()> {
        let kept = doc! {
            "namespace": &finding.ns, "id": finding.id.clone(), "what": &finding.what,
            "at": DateTime::now(),
        };
        self.write(doc! { "insert": FINDINGS, "documents": [kept] })
            .await
    }

    /// The newest, and how many there are.
    pub(crate) async fn findings(&self, most: i64) -> Result<Vec<Document>> {
        let find = doc! { "find": FINDINGS, "sort": { "at": -1 }, "limit": most,
        "projection": { "_id": 0 } };
        self.target.list(OWN, find).await
    }

    /// Documents and bytes that were copied in all.
    pub(crate) async fn copied(&self) -> Result<Moved> {
        let sum = doc! { "$group": { "_id": null,
        "documents": { "$sum": "$documents" }, "bytes": { "$sum": "$bytes" } } };
        let command = doc! { "aggregate": RANGES, "pipeline": [sum], "cursor": {} };
        let sums = self.target.list(OWN, command).await?;
        let sum = |name| sums.first().map_or(0, |d| integer(d, name));
        Ok(Moved {
            documents: sum("documents"),
            bytes: sum("bytes"),
            is_last: false,
        })
    }
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) documents: i64,
    pub(crate) bytes: i64,
    /// Nothing is left of the range.
    pub(crate) is_last: bool,
}

/// A number of any kind.
pub(crate) fn integer(d: &Document, name: &str) -> i64 {
    match d.get(name) {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        Some(Bson::Double(n)) => *n as i64,
        _ => 0,
    }
}

/// A text, empty where there is none.
pub(crate) fn text<'d>(d: &'d Document, name: &str) -> &'d str {
    d.get_str(name).unwrap_or_default()
}

/// The first of a reply's errors of single writes, or that of its write concern.
pub(crate) fn first_write_error(reply: &Document) -> Option<FollowError> {
    let errors = reply.get_array("writeErrors").ok();
    let first = errors.and_then(|all| all.first()?.as_document());
    let first = first.or(reply.get_document("writeConcernError").ok())?;
    let code = integer(first, "code");
    let message = first.get_str("errmsg").unwrap_or("no reason given");
    let mut e = FollowError::of_data(format!("{message} (code {code})"));
    e.code = i32::try_from(code).ok();
    Some(e)
}
