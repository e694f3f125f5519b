//! Recorded cases of filters, updates and projections, on collections in memory
//! ([`crate::memory_collections`]).

use crate::memory_collections::{Collections, Reply};
use crate::outcome::{first_batch, is_judged, reply};
use crate::recorded::{self, Verdict, run_areas};
use model::DocBuf;
use serde_json::Value as Json;

const AREAS: &[&str] = &[
    "core/operator/query",
    "core/operator/update",
    "core/operator/projection",
    "core/query_and_write",
    "core/data-types",
    "core/operator/stages/match",
    "core/operator/stages/project",
    "core/operator/stages/set",
    "core/operator/stages/unset",
];

#[test]
fn documents_answer_as_recorded() {
    let wanted = |area: &str| {
        AREAS
            .iter()
            .any(|a| area == *a || area.starts_with(&format!("{a}/")))
    };
    let Some(areas) = run_areas(&wanted, &run_case) else {
        return;
    };
    let all = recorded::sum(&areas);
    // Failing cases need the server (names of collections, text indexes) or contradict other cases.
    assert!(
        std::env::var_os("QUARRY_AREA").is_some()
            || all.passed * 100 >= (all.passed + all.failed) * 97,
        "{all:?}"
    );
}

fn run_case(case: &Json) -> Verdict {
    // Whole replies are checked in the server's tests.
    if is_judged(case, &|name, expect| {
        name == "listCollections" || expect.get("raw").is_some()
    }) {
        return Verdict::Skipped;
    }
    let mut collections = Collections::default();
    recorded::run_case(case, &mut |_, command| {
        Some(reply(collections.run(command)?.map(|r| match r {
            Reply::Documents(docs) => first_batch(docs.iter().map(|d| d.doc())),
            Reply::Fields(d) => DocBuf::build(|w| {
                w.put_all(d.doc());
                if !d.doc().contains("ok") {
                    w.put("ok", 1.0);
                }
            }),
        })))
    })
}
