//! Recorded behaviour: what clients sent to MongoDB and what it answered, run against whatever
//! answers commands. Shared by the tests of several crates; each brings the function that answers.
//!
//! `QUARRY_BEHAVIOUR` names the folder that holds the folders of recordings (`cases`, `more` ...);
//! without it, and without one beside the repository, a test says so and ends.
//! `QUARRY_AREA` narrows to areas that begin with it, `QUARRY_SHOW` prints that many failures of
//! each area.

mod judge;

use judge::judge;
use model::{Doc, DocBuf, Value, extjson};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Deeply nested documents are read recursively by the test's own tools.
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// The outcome of a case.
#[derive(Debug)]
pub(crate) enum Verdict {
    Passed,
    Failed(String),
    /// A step needs what the function under test does not have.
    Skipped,
}

/// Cases passed, failed and skipped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

/// Runs the steps of a case; `answer` gives the reply to a command sent to a database, or `None`
/// for one it does not know.
pub(crate) fn run_case(
    case: &Json,
    answer: &mut dyn FnMut(&str, Doc<'_>) -> Option<DocBuf>,
) -> Verdict {
    let mut replies: Vec<DocBuf> = Vec::new();
    let mut opened: Vec<i64> = Vec::new();
    for step in case["steps"].as_array().into_iter().flatten() {
        let mut reply = DocBuf::new();
        if let Some(command) = step.get("run") {
            let command = match extjson::document(command) {
                Ok(command) => with_cursor_ids(&command, &opened),
                Err(e) => return Verdict::Failed(format!("case not readable: {e}")),
            };
            let db = step["db"].as_str().unwrap_or("db");
            let Some(given) = answer(db, command.doc()) else {
                return Verdict::Skipped;
            };
            if let Some(Value::Int64(id @ 1..)) =
                given.doc().field("cursor").as_doc().map(|c| c.field("id"))
                && !opened.contains(&id)
            {
                opened.push(id);
            }
            reply = without_cursor_ids(given, &opened);
        } else if let Some(expect) = step.get("expect") {
            let expect = match extjson::document(expect) {
                Ok(d) => d,
                Err(e) => return Verdict::Failed(format!("expectation not readable: {e}")),
            };
            let of = expect
                .doc()
                .field("of")
                .as_i64_exact()
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(0);
            let given = replies.get(of).map_or(Doc::EMPTY, |r| r.doc());
            if let Some(why) = judge(given, expect.doc()) {
                return Verdict::Failed(why);
            }
        }
        replies.push(reply);
    }
    Verdict::Passed
}

/// The recording lost the ids of cursors: where a client sent one there is the 32-bit integer 0,
/// which no server takes for an id. The ids that the steps before opened are put there: of several
/// in one list each in its turn when there are as many, else the last.
fn with_cursor_ids(command: &DocBuf, opened: &[i64]) -> DocBuf {
    let Some(last) = opened.last() else {
        return command.clone();
    };
    DocBuf::build(|w| {
        for (name, v) in command.doc().iter() {
            match (name, v) {
                ("getMore", Value::Int32(0)) => {
                    w.put(name, *last);
                }
                ("cursors", Value::Array(ids)) if command.doc().contains("killCursors") => {
                    let lost = ids.iter().filter(|v| matches!(v, Value::Int32(0))).count();
                    let mut in_turn = opened.iter().filter(|_| lost == opened.len());
                    let mut list = w.array(name);
                    for id in ids.iter() {
                        match id {
                            Value::Int32(0) => list.push(*in_turn.next().unwrap_or(last)),
                            other => list.push(other),
                        };
                    }
                }
                _ => {
                    w.put(name, v);
                }
            }
        }
    })
}

/// The other way: the ids in the reply of `killCursors` are 0 in what was recorded.
fn without_cursor_ids(reply: DocBuf, opened: &[i64]) -> DocBuf {
    if !reply.doc().contains("cursorsKilled") {
        return reply;
    }
    DocBuf::build(|w| {
        for (name, v) in reply.doc().iter() {
            let Value::Array(ids) = v else {
                w.put(name, v);
                continue;
            };
            let mut list = w.array(name);
            for id in ids.iter() {
                match id {
                    Value::Int64(n) if opened.contains(&n) => list.push(0i32),
                    other => list.push(other),
                };
            }
        }
    })
}

/// Some cases nest deeper than the reader's default limit.
fn parse(line: &str) -> Json {
    let mut reader = serde_json::Deserializer::from_str(line);
    reader.disable_recursion_limit();
    let first = reader.into_iter().next();
    first.expect("a case").expect("JSON")
}

/// The cases of a folder, in areas that are wanted.
pub(crate) fn cases(dir: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<(String, Json)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("readable")
        .filter_map(|f| f.ok().map(|f| f.path()))
        .collect();
    files.sort();
    let mut out = Vec::new();
    for file in files
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "gz"))
    {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(file).expect("readable"))
            .read_to_string(&mut text)
            .expect("gzip");
        for line in text.lines() {
            // The area comes first; most lines need not be read further.
            let area = line.split('"').nth(3).unwrap_or("").to_owned();
            if wanted(&area) {
                out.push((area, parse(line)));
            }
        }
    }
    out
}

/// The folder of recordings of this name: where the environment says, or beside the repository.
/// `None` when it is not there.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from("../../../shared/behaviour");
    let all = std::env::var_os("QUARRY_BEHAVIOUR").map_or_else(beside, PathBuf::from);
    Some(all.join(name)).filter(|dir| dir.is_dir())
}

/// Runs the cases first recorded, and prints the tally of each area;
/// `None` without a folder. `wanted` chooses areas where the environment names none.
pub(crate) fn run_areas(
    wanted: &dyn Fn(&str) -> bool,
    run: &(dyn Fn(&Json) -> Verdict + Sync),
) -> Option<BTreeMap<String, Tally>> {
    let Some(dir) = folder("cases") else {
        println!("skipped: QUARRY_BEHAVIOUR names no folder of recorded cases");
        return None;
    };
    let only = std::env::var("QUARRY_AREA").unwrap_or_default();
    let show = std::env::var("QUARRY_SHOW").map_or(0, |n| n.parse().expect("a number"));
    let cases = cases(&dir, &|area| match only.as_str() {
        "" => wanted(area),
        only => area.starts_with(only),
    });
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || tally(&cases, show, run))
            .expect("a thread");
        Some(
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

fn tally(
    cases: &[(String, Json)],
    show: usize,
    run: &dyn Fn(&Json) -> Verdict,
) -> BTreeMap<String, Tally> {
    let mut areas: BTreeMap<String, Tally> = BTreeMap::new();
    for (area, case) in cases {
        let tally = areas.entry(area.clone()).or_default();
        match run(case) {
            Verdict::Passed => tally.passed += 1,
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed(why) => {
                tally.failed += 1;
                if tally.failed <= show {
                    let steps = case["steps"].to_string();
                    println!("FAIL {area} #{}\n   {why:.600}\n   {steps:.900}", case["n"]);
                }
            }
        }
    }
    for (area, t) in &areas {
        println!(
            "{:5} of {:5} passed, {:4} skipped  {area}",
            t.passed,
            t.passed + t.failed,
            t.skipped
        );
    }
    let all = sum(&areas);
    println!(
        "{:5} of {:5} passed, {:4} skipped  all",
        all.passed,
        all.passed + all.failed,
        all.skipped
    );
    areas
}

/// The tally of all areas.
pub(crate) fn sum(areas: &BTreeMap<String, Tally>) -> Tally {
    areas.values().fold(Tally::default(), |a, b| Tally {
        passed: a.passed + b.passed,
        failed: a.failed + b.failed,
        skipped: a.skipped + b.skipped,
    })
}
