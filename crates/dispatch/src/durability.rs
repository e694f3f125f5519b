//! When a reply may be sent. What a client can conclude from an acknowledged reply must survive a
//! loss of power: the client's own writes, and the writes of others that the reply reports.
//!
//! Commits become durable in order, so one position is enough: a reply that reports only its own
//! successful writes waits for the last of them; any other reply waits for the newest commit at the
//! end of its reads. Must not know: what commands do.

use context::ctx::Ctx;
use model::{DocBuf, MongoError, Value, code};
use request::concern::Acknowledge;
use request::spec::Durability;
use store::CommitPos;

/// True when the journal acknowledges a write: when the client asks for it with `j`, and otherwise
/// with `w: "majority"`, which is the default of a replica set.
fn acknowledged_by_journal(cx: &Ctx<'_, '_>) -> bool {
    match &cx.generic.write_concern {
        Some(wc) => wc.journal.unwrap_or(wc.w == Acknowledge::Majority),
        None => cx.service.config.replica_set.is_some(),
    }
}

/// The position that must be durable before the reply may be sent; `None` if there is none. To be
/// called after the command has run.
pub(super) fn required_position(cx: &Ctx<'_, '_>, failed: bool) -> Option<CommitPos> {
    if cx.transaction.is_some() {
        // A statement of a transaction promises nothing before the commit.
        return None;
    }
    let r = &cx.reported;
    let everything = match cx.command.durability {
        Durability::Nothing => false,
        Durability::Reads => {
            r.durable_reads
                || cx.generic.promises_durable_reads()
                || r.wrote && acknowledged_by_journal(cx)
        }
        Durability::OwnWrites if !acknowledged_by_journal(cx) => false,
        Durability::OwnWrites if failed || r.others || !r.wrote => true,
        Durability::OwnWrites => return Some(r.own),
        Durability::Everything => acknowledged_by_journal(cx),
    };
    everything.then(|| cx.service.store.engine().last_pos())
}

/// True when everything up to this position is durable.
pub(super) fn is_durable(cx: &Ctx<'_, '_>, pos: CommitPos) -> bool {
    cx.service.store.engine().durable_pos() >= pos
}

/// The error for a write concern that a set of one member can never satisfy. The write itself is
/// done.
pub(super) fn concern_error(cx: &Ctx<'_, '_>) -> Option<DocBuf> {
    let wc = cx.generic.write_concern.as_ref()?;
    let (code, message) = match &wc.w {
        _ if cx.service.config.replica_set.is_none() => return None,
        Acknowledge::Members(0..=1) | Acknowledge::Majority => return None,
        Acknowledge::Members(_) | Acknowledge::Tags => (
            code::UNSATISFIABLE_WRITE_CONCERN,
            "Not enough data-bearing nodes".to_owned(),
        ),
        Acknowledge::Mode(mode) => (
            code::UNKNOWN_REPL_WRITE_CONCERN,
            format!("No write concern mode named '{mode}' found in replica set configuration"),
        ),
    };
    let error = MongoError::new(code, message);
    Some(DocBuf::build(|w| {
        w.put("code", error.code())
            .put("codeName", error.code_name().as_str())
            .put("errmsg", error.message());
        let mut info = w.doc("errInfo");
        let mut given = info.doc("writeConcern");
        let defaults = cx.service.state.default_concerns.current();
        let (origin, concern) = if wc.is_default {
            (
                "customDefault",
                defaults.as_ref().and_then(|d| d.write_concern()),
            )
        } else {
            (
                "clientSupplied",
                cx.request.body.field("writeConcern").as_doc(),
            )
        };
        given.put("w", concern.map_or(Value::Missing, |d| d.field("w")));
        if let Some(j) = wc.journal {
            given.put("j", j);
        }
        given
            .put("wtimeout", wc.timeout_ms)
            .put("provenance", origin);
    }))
}
