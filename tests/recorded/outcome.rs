//! Replies for tests without a server: what it would reply to an outcome, and which cases need more
//! of a reply than that.

use model::{Doc, DocBuf, MongoError, extjson};
use serde_json::Value as Json;

/// What a server would reply.
pub(crate) fn reply(outcome: Result<DocBuf, MongoError>) -> DocBuf {
    outcome.unwrap_or_else(|e| model::doc! { "ok": 0.0, "errmsg": e.message(), "code": e.code() })
}

/// Whether the outcome of any step is judged in a way that `unfit` names: by the name of the step's
/// command and the expectation.
pub(crate) fn is_judged(case: &Json, unfit: &dyn Fn(&str, &Json) -> bool) -> bool {
    let steps = case["steps"].as_array().map_or(&[][..], Vec::as_slice);
    steps.iter().filter_map(|s| s.get("expect")).any(|e| {
        let of = extjson::value(&e["of"])
            .ok()
            .and_then(|v| v.get().as_i64_exact());
        let command = of
            .and_then(|n| steps.get(usize::try_from(n).ok()?))
            .and_then(|s| s["run"].as_object()?.keys().next());
        unfit(command.map_or("", String::as_str), e)
    })
}

/// A reply with documents as the first batch of a cursor.
pub(crate) fn first_batch<'d>(docs: impl IntoIterator<Item = Doc<'d>>) -> DocBuf {
    DocBuf::build(|w| {
        {
            let mut cursor = w.doc("cursor");
            let mut list = cursor.array("firstBatch");
            for d in docs {
                list.push(d);
            }
        }
        w.put("ok", 1.0);
    })
}
