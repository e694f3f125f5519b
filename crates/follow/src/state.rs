//! The progress of a migration, stored in the target in a database of its own, so that the
//! migration continues after an interruption at any moment. Promises: each method is one write,
//! durable when it returns. Must not know: how anything is copied.

use crate::error::{FollowError, Result};
use crate::names::{Ns, OWN};
use crate::server::Server;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};

/// What a migration is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Copying documents.
    Copying,
    /// Applying changes.
    Following,
    /// Cutting over.
    CuttingOver,
    /// Finished: the target is independent.
    Done,
}

impl Phase {
    /// Its name in the state.
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

/// A collection of the source and its progress in the target.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its identity in the source; the name if the source gives no identity.
    pub(crate) key: Bson,
    /// Its name in the source when that was last listed.
    pub(crate) source: Ns,
    /// Its name in the target.
    pub(crate) target: Ns,
    /// The new name of a rename in the target that may be done already.
    pub(crate) moving: Option<Ns>,
    /// The options as the source lists them.
    pub(crate) options: Document,
    /// The indexes made so far, except that of `_id`, as the source lists them.
    pub(crate) indexes: Vec<Document>,
    /// Its ranges are planned.
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

/// A part of a collection in the order of `_id`; a missing bound means no limit.
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
    /// The whole collection as one range.
    pub(crate) fn unbounded(key: &Bson) -> Range {
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

/// The main document of the migration.
#[derive(Clone, Debug)]
pub(crate) struct Migration {
    pub(crate) phase: Phase,
    pub(crate) names: String,
    /// The time from which changes are followed if there is no token.
    pub(crate) start: Timestamp,
    pub(crate) token: Option<RawDocumentBuf>,
    /// Changes are read from the log itself.
    pub(crate) by_log: bool,
    pub(crate) document: Document,
}

/// A document that differed from the source.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub ns: String,
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
            Some(e) => Err(e.in_step("the state of the migration cannot be kept")),
        }
    }

    async fn find_all(&self, coll: &str, filter: Document) -> Result<Vec<Document>> {
        let find = doc! { "find": coll, "filter": filter };
        self.target.list(OWN, find).await
    }

    /// The migration into this target, if one was begun.
    pub(crate) async fn migration(&self) -> Result<Option<Migration>> {
        let found = self.find_all(STATE, doc! { "_id": MIGRATION }).await?;
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

    /// Sets fields if the document matches the filter; returns whether it did.
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
        let all = self.find_all(COLLECTIONS, doc! {}).await?;
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
        self.find_all(VIEWS, doc! {}).await
    }

    /// `made`: the view exists; otherwise it may exist.
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

    /// Ranges that are not copied completely.
    pub(crate) async fn ranges(&self) -> Result<Vec<Range>> {
        let all = self.find_all(RANGES, doc! { "done": false }).await?;
        Ok(all.iter().filter_map(Range::parse).collect())
    }

    /// All ranges of a collection.
    pub(crate) async fn ranges_of(&self, key: &Bson) -> Result<Vec<Range>> {
        let all = self.find_all(RANGES, doc! { "key": key.clone() }).await?;
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

    /// Notes the progress of a range and the documents and bytes copied since the last call.
    pub(crate) async fn advance_range(&self, range: &Range, moved: CopyProgress) -> Result<()> {
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

    /// The newest findings.
    pub(crate) async fn findings(&self, most: i64) -> Result<Vec<Document>> {
        let find = doc! { "find": FINDINGS, "sort": { "at": -1 }, "limit": most,
        "projection": { "_id": 0 } };
        self.target.list(OWN, find).await
    }

    /// Documents and bytes copied in all.
    pub(crate) async fn sum_copied(&self) -> Result<CopyProgress> {
        let sum = doc! { "$group": { "_id": null,
        "documents": { "$sum": "$documents" }, "bytes": { "$sum": "$bytes" } } };
        let command = doc! { "aggregate": RANGES, "pipeline": [sum], "cursor": {} };
        let sums = self.target.list(OWN, command).await?;
        let sum = |name| sums.first().map_or(0, |d| integer(d, name));
        Ok(CopyProgress {
            documents: sum("documents"),
            bytes: sum("bytes"),
            is_last: false,
        })
    }
}

/// An amount copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopyProgress {
    pub(crate) documents: i64,
    pub(crate) bytes: i64,
    /// The range is finished.
    pub(crate) is_last: bool,
}

/// A number of any type as `i64`.
pub(crate) fn integer(d: &Document, name: &str) -> i64 {
    match d.get(name) {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        Some(Bson::Double(n)) => *n as i64,
        _ => 0,
    }
}

/// A text field; empty if it is missing.
pub(crate) fn text<'d>(d: &'d Document, name: &str) -> &'d str {
    d.get_str(name).unwrap_or_default()
}

/// The first write error of a reply, or its write concern error.
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
