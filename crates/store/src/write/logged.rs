//! The log entries for writes of documents. Promises: they are built from the bytes at hand;
//! nothing is built where nothing is logged. Must not know: commits, locks.

use crate::catalog::{Collection, State};
use crate::format::diff::{ChangedPaths, diff};
use crate::format::log::PRE_IMAGE;
use crate::format::record::Header;
use crate::log::{EntryList, LogRows, NamespaceHash, NewRecord, SessionFields, common, operation};
use crate::write::change::Change;
use crate::write::mode::Mode;
use crate::write::reads::WriteReader;
use model::{Doc, DocWriter};
use smallvec::SmallVec;
use storage::WriteBatch;

/// The session fields of the entries of inserts.
pub(super) struct InsertLog<'l> {
    pub(super) session: Option<SessionFields>,
    /// Numbers of the statements, one for each document.
    pub(super) statements: &'l [i32],
}

impl Collection {
    /// An empty list of rows for a commit; `None` when the collection's changes are not logged.
    pub(crate) fn log_rows(&self, state: &State) -> Option<LogRows<'_>> {
        let log = self.log_in(state)?;
        Some(LogRows::new(
            log,
            smallvec::smallvec![self.namespace_hash()],
        ))
    }

    /// The database and collection that its changes concern.
    pub fn namespace_hash(&self) -> NamespaceHash {
        self.concerned
    }

    /// Adds the row of the log for inserted documents.
    pub(super) fn log_inserts<'d>(
        &self,
        state: &State,
        rows: &mut LogRows<'_>,
        batch: &mut WriteBatch,
        log: &InsertLog<'_>,
        new: impl Iterator<Item = NewRecord<'d>> + Clone,
    ) {
        let series = state.options.doc().contains("timeseries");
        let session = log.session.as_ref();
        let shared = common(&self.ns, &self.uuid, session, log.statements, series);
        rows.inserts(batch, self.ident, &shared, new);
    }

    /// Whether entries for inserts by this statement may refer to records: nothing removes records
    /// of the collection without saving what is referred to, and no other process changes them.
    pub(super) fn is_referred_to(&self, state: &State, reads: &WriteReader<'_>) -> bool {
        let is_plain = state.capped.is_none() && state.series.is_none();
        is_plain
            && !reads.is_transaction()
            && !reads.is_checked()
            && !self.is_uncommitted()
            && self.log_in(state).is_some_and(|log| log.refers())
    }

    /// Saves a document that is replaced or deleted, when an entry of the log refers to its record.
    pub(super) fn save_referenced(&self, batch: &mut WriteBatch, header: Header, old: Doc<'_>) {
        let log = self.shared.feed.as_ref().filter(|_| header.time != 0);
        if let Some(log) = log.filter(|log| header.time >= log.oldest().as_u64()) {
            log.save(batch, header.time, old.as_bytes());
        }
    }

    /// Adds the operations of inserted documents to those of a transaction.
    pub(super) fn operations_of<'d>(
        &self,
        state: &State,
        docs: impl Iterator<Item = Doc<'d>>,
    ) -> EntryList {
        let mut list = EntryList::default();
        if self.log_in(state).is_none() {
            return list;
        }
        let series = state.options.doc().contains("timeseries");
        for doc in docs {
            list.push(|w| {
                operation(w, "i", &self.ns, &self.uuid);
                if series {
                    w.put("isTimeseries", true);
                }
                w.put("o", doc);
                w.doc("o2").put("_id", doc.field("_id"));
            });
        }
        list
    }

    /// Adds the entry of a changed or deleted document.
    pub(super) fn log_change(
        &self,
        state: &State,
        list: &mut EntryList,
        old: Doc<'_>,
        change: &Change,
        mode: &Mode<'_, '_>,
    ) {
        if self.log_in(state).is_none() {
            return;
        }
        let (session, statement) = match mode {
            Mode::Logged(to) => (to.record.fields(), to.ids.first().copied()),
            Mode::Direct | Mode::Transaction(..) => (None, None),
        };
        list.push(|w| {
            if let Some(s) = &session {
                s.write(w);
            }
            let op = if matches!(change, Change::Delete) {
                "d"
            } else {
                "u"
            };
            operation(w, op, &self.ns, &self.uuid);
            let time = state.series.as_ref().map(|options| options.time.as_str());
            if time.is_some() {
                w.put("isTimeseries", true);
            }
            write_change(w, old, change, time);
            if let Some(n) = statement {
                w.put("stmtId", n);
            }
            if let Some(s) = &session {
                s.write_previous(w);
            }
            if state.images {
                w.put(PRE_IMAGE, old);
            }
        });
    }
}

/// A measurement is found by its time, which is logged in addition to its `_id`.
fn write_change(w: &mut DocWriter<'_>, old: Doc<'_>, change: &Change, time: Option<&str>) {
    let put_key = |mut key: DocWriter<'_>| {
        key.put("_id", old.field("_id"));
        if let Some(time) = time.filter(|t| *t != "_id") {
            key.put(time, old.field(time));
        }
    };
    let delta = |new: &[u8], touched: &ChangedPaths| diff(old, Doc::from_prefix(new), touched);
    match change {
        Change::Keep => {}
        Change::Delete => put_key(w.doc("o")),
        Change::Replace(new) => _ = w.put("o", Doc::from_prefix(new)),
        Change::Update(new, touched) => match delta(new, touched) {
            Some(diff) => _ = w.doc("o").put("$v", 2i32).put("diff", &diff),
            None => _ = w.put("o", Doc::from_prefix(new)),
        },
    }
    if !matches!(change, Change::Delete) {
        put_key(w.doc("o2"));
    }
}

/// Numbers of the statements at these positions of a command.
pub(super) fn statements_at(
    ids: &[i32],
    positions: impl Iterator<Item = usize>,
) -> SmallVec<[i32; 8]> {
    positions
        .map(|n| ids.get(n).copied().unwrap_or(-1))
        .collect()
}
