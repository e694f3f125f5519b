//! Makes events from a log entry. Promises: the events of an entry come in order, filtered for the
//! stream. Must not know: how the log is read.

use super::description;
use super::spec::{Scope, Spec};
use crate::exec::ResumeToken;
use model::{Array, Doc, DocWriter, Timestamp, Value};

/// One event, with the data that its log entry has.
#[derive(Clone, Copy)]
pub(super) struct Event<'e> {
    pub(super) token: ResumeToken,
    pub(super) kind: &'static str,
    /// The entry, or the operation of a transaction in it.
    pub(super) operation: Doc<'e>,
    /// The entry with the time and the transaction.
    pub(super) entry: Doc<'e>,
    pub(super) db: &'e str,
    pub(super) coll: &'e str,
    /// The stream ends after this event.
    pub(super) ends: bool,
}

fn split(ns: &str) -> (&str, &str) {
    ns.split_once('.').unwrap_or((ns, ""))
}

/// The place of an entry in a transaction that was logged in several entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionPart {
    /// The entry is no part of such a transaction.
    No,
    /// An earlier entry: its events are shown with the last entry, at that entry's time.
    Before,
    /// The last entry, with the number of entries before it.
    Last(u64),
}

impl TransactionPart {
    pub(super) fn of(entry: Doc<'_>) -> TransactionPart {
        let (Value::Int32(link), Some("c")) = (entry.field("link"), entry.field("op").as_str())
        else {
            return TransactionPart::No;
        };
        let o = entry.field("o").as_doc().unwrap_or(Doc::EMPTY);
        match u64::try_from(link) {
            _ if o.field("partialTxn").truthy() => TransactionPart::Before,
            Ok(before) if before > 0 => TransactionPart::Last(before),
            _ => TransactionPart::No,
        }
    }
}

/// Shows each event of an entry that belongs to the stream.
pub(super) fn show_events<'e>(
    spec: &Spec,
    time: Timestamp,
    entry: Doc<'e>,
    show: &mut dyn FnMut(Event<'e>),
) {
    let o = entry.field("o").as_doc().unwrap_or(Doc::EMPTY);
    match entry.field("op").as_str() {
        Some("i" | "u" | "d") => document(spec, event_of(time, entry), show),
        Some("c") if o.contains("applyOps") => {
            each_operation(spec, time, entry, o, &mut 0, show);
        }
        Some("c") => command(spec, event_of(time, entry), show),
        _ => {}
    }
}

/// Shows the events of a list of operations of a transaction. `entry` is the transaction's last log
/// entry; `number` counts the operations of the whole transaction.
pub(super) fn each_operation<'e>(
    spec: &Spec,
    time: Timestamp,
    entry: Doc<'e>,
    list: Doc<'e>,
    number: &mut u32,
    show: &mut dyn FnMut(Event<'e>),
) {
    let mut event = event_of(time, entry);
    let all = list.field("applyOps").as_array().unwrap_or(Array::EMPTY);
    for op in all.iter() {
        event.token.operation = *number;
        *number = number.saturating_add(1);
        let operation = op.as_doc().unwrap_or(Doc::EMPTY);
        match operation.field("op").as_str() {
            Some("i" | "u" | "d") => document(spec, Event { operation, ..event }, show),
            Some("c") => command(spec, Event { operation, ..event }, show),
            _ => {}
        }
    }
}

fn event_of(time: Timestamp, entry: Doc<'_>) -> Event<'_> {
    Event {
        token: ResumeToken {
            time: time.as_u64(),
            event: true,
            operation: 0,
            invalidates: false,
            fragment: 0,
        },
        kind: "",
        operation: entry,
        entry,
        db: "",
        coll: "",
        ends: false,
    }
}

/// True for collections that the stream watches.
fn is_watched(spec: &Spec, db: &str, coll: &str) -> bool {
    let shown = spec.system || !coll.starts_with("system.");
    match &spec.scope {
        Scope::Collection { db: d, coll: c } => d == db && c == coll,
        Scope::Database(d) => d == db && shown,
        Scope::Deployment => !matches!(db, "admin" | "config" | "local") && shown,
    }
}

fn document<'e>(spec: &Spec, event: Event<'e>, show: &mut dyn FnMut(Event<'e>)) {
    let op = event.operation;
    let (db, coll) = split(op.field("ns").as_str().unwrap_or(""));
    // A measurement is part of a bucket, and change streams do not show buckets.
    if !is_watched(spec, db, coll) || op.field("isTimeseries").truthy() {
        return;
    }
    let o = op.field("o").as_doc().unwrap_or(Doc::EMPTY);
    let kind = match op.field("op").as_str() {
        Some("i") => "insert",
        Some("d") => "delete",
        _ if o.contains("$v") => "update",
        _ => "replace",
    };
    show(Event {
        kind,
        db,
        coll,
        ..event
    });
}

fn command<'e>(spec: &Spec, event: Event<'e>, show: &mut dyn FnMut(Event<'e>)) {
    let (db, _) = split(event.operation.field("ns").as_str().unwrap_or(""));
    let o = event.operation.field("o").as_doc().unwrap_or(Doc::EMPTY);
    let Some((name, value)) = o.first() else {
        return;
    };
    let target = value.as_str().unwrap_or("");
    let (kind, db, coll) = match name {
        "drop" => ("drop", db, target),
        "dropDatabase" => ("dropDatabase", db, ""),
        "renameCollection" => {
            let (db, coll) = split(target);
            ("rename", db, coll)
        }
        _ if !spec.expanded => return,
        "create" => ("create", db, target),
        "createIndexes" | "commitIndexBuild" => ("createIndexes", db, target),
        "dropIndexes" => ("dropIndexes", db, target),
        "collMod" => ("modify", db, target),
        _ => return,
    };
    let (to_db, to_coll) = match kind {
        "rename" => split(o.field("to").as_str().unwrap_or("")),
        _ => (db, coll),
    };
    let mine = match (&spec.scope, kind) {
        (Scope::Database(d), "dropDatabase") => d == db,
        (Scope::Collection { .. }, "dropDatabase") => false,
        _ => is_watched(spec, db, coll) || is_watched(spec, to_db, to_coll),
    };
    if !mine {
        return;
    }
    let ends = match spec.scope {
        Scope::Collection { .. } => matches!(kind, "drop" | "rename"),
        Scope::Database(_) => kind == "dropDatabase",
        Scope::Deployment => false,
    };
    let token = event.token;
    let (operation, entry) = (event.operation, event.entry);
    show(Event {
        kind,
        db,
        coll,
        ..event
    });
    if ends {
        show(Event {
            token: ResumeToken {
                invalidates: true,
                ..token
            },
            kind: "invalidate",
            operation,
            entry,
            db,
            coll,
            ends,
        });
    }
}

impl Event<'_> {
    /// Writes the event with the documents found for it.
    pub(super) fn write(
        &self,
        w: &mut DocWriter<'_>,
        spec: &Spec,
        after: Option<Option<Doc<'_>>>,
        before: Option<Option<Doc<'_>>>,
    ) {
        let op = self.operation;
        let o = op.field("o").as_doc().unwrap_or(Doc::EMPTY);
        w.doc("_id").put("_data", &self.token.to_data());
        w.put("operationType", self.kind)
            .put("clusterTime", self.entry.field("ts"));
        if self.entry.field("op").as_str() == Some("c") && op.as_bytes() != self.entry.as_bytes() {
            w.put("lsid", self.entry.field("lsid"))
                .put("txnNumber", self.entry.field("txnNumber"));
        }
        if spec.expanded && self.kind != "invalidate" {
            w.put("collectionUUID", op.field("ui"));
        }
        w.put("wallTime", self.entry.field("wall"));
        match (self.kind, after) {
            ("insert" | "replace", _) => _ = w.put("fullDocument", o),
            (_, Some(None)) => _ = w.put("fullDocument", Value::Null),
            (_, Some(Some(d))) => _ = w.put("fullDocument", d),
            (_, None) => {}
        }
        if self.kind == "invalidate" {
            return;
        }
        let mut ns = w.doc("ns");
        ns.put("db", self.db);
        if !self.coll.is_empty() {
            ns.put("coll", self.coll);
        }
        drop(ns);
        match self.kind {
            "insert" | "update" | "replace" => _ = w.put("documentKey", op.field("o2")),
            "delete" => _ = w.doc("documentKey").put("_id", o.field("_id")),
            "rename" => self.write_rename(w, spec, o),
            _ => {}
        }
        if self.kind == "update" {
            let diff = o.field("diff").as_doc().unwrap_or(Doc::EMPTY);
            if spec.raw_update {
                w.put("rawUpdateDescription", o);
            } else {
                description::write(w, diff, spec.expanded);
            }
        }
        if spec.expanded {
            self.write_operation(w, o);
        }
        match before {
            Some(None) => _ = w.put("fullDocumentBeforeChange", Value::Null),
            Some(Some(d)) => _ = w.put("fullDocumentBeforeChange", d),
            None => {}
        }
    }

    fn write_rename(&self, w: &mut DocWriter<'_>, spec: &Spec, o: Doc<'_>) {
        let (db, coll) = split(o.field("to").as_str().unwrap_or(""));
        w.doc("to").put("db", db).put("coll", coll);
        if spec.expanded {
            let mut d = w.doc("operationDescription");
            d.doc("to").put("db", db).put("coll", coll);
            d.put("dropTarget", o.field("dropTarget"));
        }
    }

    /// Writes the further fields of expanded events.
    fn write_operation(&self, w: &mut DocWriter<'_>, o: Doc<'_>) {
        let o2 = self.operation.field("o2").as_doc().unwrap_or(Doc::EMPTY);
        match self.kind {
            "create" => {
                let kind = match () {
                    () if o.contains("viewOn") => "view",
                    () if o.contains("timeseries") => "timeseries",
                    () => "collection",
                };
                w.put("nsType", kind);
                let mut d = w.doc("operationDescription");
                write_command_fields(&mut d, o);
            }
            "createIndexes" => {
                let mut d = w.doc("operationDescription");
                if o.contains("indexes") {
                    d.put("indexes", o.field("indexes"));
                } else {
                    write_command_fields(&mut d.array("indexes").doc(), o);
                }
            }
            "dropIndexes" => {
                let mut d = w.doc("operationDescription");
                let mut list = d.array("indexes");
                list.push(o2);
            }
            "modify" => {
                write_command_fields(&mut w.doc("operationDescription"), o);
                let mut before = w.doc("stateBeforeChange");
                let options = o2.field("collectionOptions_old");
                before.put("collectionOptions", options.as_doc().unwrap_or(Doc::EMPTY));
            }
            _ => {}
        }
    }
}

/// All fields but the first, which names the command and the collection.
fn write_command_fields(w: &mut DocWriter<'_>, o: Doc<'_>) {
    for e in o.elements().skip(1) {
        w.put_element(&e);
    }
}
