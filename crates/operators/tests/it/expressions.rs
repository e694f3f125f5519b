//! Recorded cases of expressions, on the expression core without a server.

use crate::outcome::{first_batch, is_judged, reply};
use crate::pipeline;
use crate::recorded::{self, Verdict, run_areas};
use model::{DocBuf, Value};
use serde_json::Value as Json;

/// The share of the cases that must pass; the other records are wrong.
const FLOOR: f64 = 0.999;

#[test]
fn expressions_answer_as_recorded() {
    let wanted = |area: &str| area.starts_with("core/operator/expressions");
    let Some(areas) = run_areas(&wanted, &run_case) else {
        return;
    };
    let all = recorded::sum(&areas);
    let run = all.passed + all.failed;
    assert!(
        run == 0 || all.passed as f64 >= run as f64 * FLOOR,
        "{all:?}"
    );
}

fn run_case(case: &Json) -> Verdict {
    if is_judged(case, &|name, expect| {
        name != "aggregate" || expect.get("raw").is_some()
    }) {
        return Verdict::Skipped;
    }
    let mut inserted: Vec<DocBuf> = Vec::new();
    recorded::run_case(case, &mut |_, command| match command.first() {
        Some(("insert", _)) => {
            let Value::Array(docs) = command.field("documents") else {
                return None;
            };
            inserted.extend(docs.iter().filter_map(|d| d.as_doc()).map(DocBuf::from_doc));
            Some(DocBuf::new())
        }
        Some(("create", _)) if command.count() == 1 => Some(DocBuf::new()),
        Some(("aggregate", _)) => {
            let docs = pipeline::run(command, &inserted)?;
            Some(reply(
                docs.map(|docs| first_batch(docs.iter().map(|d| d.doc()))),
            ))
        }
        _ => None,
    })
}
