//! The plans and counters of a list of explained commands, compared with `tests/plans/plans.txt`:
//! one line per command, and the text after the arrow comes from this server. The file shows
//! whether a change of the planner or the executor has changed plans, not whether they are good.
//! `PLANS=write` writes the file again; a line without a plan is a new case.

use crate::standalone::Standalone;
use model::{DocBuf, extjson};
use serde_json::Value as Json;
use std::fmt::Write as _;

const FILE: &str = "tests/plans/plans.txt";
const SETUP: &str = "setup ";
const ARROW: &str = " => ";

/// Fields of a stage that do not describe the plan, follow from others, or are times.
const LEFT_OUT: &[&str] = &[
    "stage",
    "isCached",
    "inputStage",
    "inputStages",
    "executionTimeMillisEstimate",
    "advanced",
    "needTime",
    "needYield",
    "saveState",
    "restoreState",
    "isEOF",
    "keyPattern",
    "isUnique",
    "isSparse",
    "isPartial",
    "indexVersion",
    "seeks",
    "memLimit",
    "type",
    "isShardFiltering",
    "isFetching",
    "isShardFilteringDistinctScanEnabled",
    "textIndexVersion",
    "spilledDataStorageSize",
    "collation",
];

struct Server(Standalone);

impl Server {
    fn new() -> Server {
        Server(Standalone::new())
    }

    fn run(&mut self, command: &DocBuf) -> Json {
        let reply = self.0.run("db", command);
        extjson::from_document(reply.doc(), extjson::Mode::Relaxed)
    }
}

fn parse(text: &str) -> DocBuf {
    let json: Json = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    extjson::document(&json).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn explain_command(command: &DocBuf) -> DocBuf {
    model::doc! { "explain": command, "verbosity": "executionStats" }
}

/// The digest of a filter: it shows that a filter has changed, and the command identifies which.
fn digest(v: &Json) -> u16 {
    let hash = v.to_string().bytes().fold(0x811C_9DC5_u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    (hash ^ (hash >> 16)) as u16
}

/// The stages from the top, each with its properties and counters.
fn outline(stage: &Json, out: &mut String) {
    out.push_str(stage["stage"].as_str().unwrap_or("?"));
    for (name, v) in stage.as_object().into_iter().flatten() {
        let plain = v == &Json::from(0) || v == &Json::from(false) || v == &Json::from("forward");
        if LEFT_OUT.contains(&name.as_str()) || plain {
            continue;
        }
        let _ = match name.as_str() {
            "filter" => write!(out, " f{:04x}", digest(v)),
            "nReturned" => write!(out, " n{v}"),
            "works" => write!(out, " w{v}"),
            "keysExamined" => write!(out, " k{v}"),
            "docsExamined" => write!(out, " d{v}"),
            "indexName" => write!(out, " {}", v.as_str().unwrap_or("?")),
            "indexBounds" | "multiKeyPaths" => {
                let parts: Vec<String> = v
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(_, l)| {
                        let texts = l.as_array().into_iter().flatten().filter_map(Json::as_str);
                        texts.collect::<Vec<_>>().join("|")
                    })
                    .collect();
                write!(out, " <{}>", parts.join("; "))
            }
            name => write!(out, " {name}={v}"),
        };
    }
    match (&stage["inputStage"], &stage["inputStages"]) {
        (below @ Json::Object(_), _) => {
            out.push_str(" / ");
            outline(below, out);
        }
        (_, Json::Array(list)) => {
            out.push_str(" [");
            for (i, below) in list.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                outline(below, out);
            }
            out.push(']');
        }
        _ => {}
    }
}

fn plan_text(reply: &Json) -> String {
    if reply["ok"] != 1.0 {
        return format!("error {}", reply["code"]);
    }
    let mut out = String::new();
    let cursor = match &reply["stages"] {
        Json::Array(list) => &list[0]["$cursor"],
        _ => reply,
    };
    let stats = &cursor["executionStats"];
    if stats.is_object() {
        outline(&stats["executionStages"], &mut out);
        let rejected = cursor["queryPlanner"]["rejectedPlans"].as_array();
        let _ = write!(
            out,
            " = {}/{}/{} r{}",
            stats["nReturned"],
            stats["totalKeysExamined"],
            stats["totalDocsExamined"],
            rejected.map_or(0, Vec::len)
        );
    }
    for stage in reply["stages"].as_array().into_iter().flatten() {
        let Some((name, _)) = stage
            .as_object()
            .and_then(|s| s.iter().find(|(n, _)| n.starts_with('$')))
        else {
            continue;
        };
        let _ = write!(out, " {name}");
        let own = stage.as_object().into_iter().flatten();
        for (name, v) in own.filter(|(n, _)| !n.starts_with('$') && !LEFT_OUT.contains(&n.as_str()))
        {
            match name.as_str() {
                "nReturned" => _ = write!(out, " n{v}"),
                name if v != &Json::from(0) && v != &Json::from(false) => {
                    _ = write!(out, " {name}={v}");
                }
                _ => {}
            }
        }
    }
    out
}

#[test]
fn plans_and_counters_of_the_corpus_are_as_they_were() {
    let corpus = std::fs::read_to_string(FILE).expect("the corpus");
    let mut server = Server::new();
    let (mut written, mut changed) = (String::new(), Vec::new());
    for line in corpus.lines() {
        let Some((command, was)) = line.split_once(ARROW) else {
            if let Some(setup) = line.strip_prefix(SETUP) {
                let reply = server.run(&parse(setup));
                assert_eq!(reply["ok"], 1.0, "{setup}: {reply}");
            }
            written.push_str(line);
            written.push('\n');
            continue;
        };
        let now = plan_text(&server.run(&explain_command(&parse(command))));
        if now != was {
            changed.push(format!("{command}\n  was {was}\n  now {now}"));
        }
        let _ = writeln!(written, "{command}{ARROW}{now}");
    }
    if std::env::var("PLANS").is_ok_and(|v| v == "write") {
        std::fs::write(FILE, written).expect("written");
        return;
    }
    assert!(
        changed.is_empty(),
        "{} plans changed:\n{}",
        changed.len(),
        changed.join("\n")
    );
}

/// explain runs the same operators as the command, so both examine the same entries and documents.
#[test]
fn explain_counts_what_the_command_counts() {
    let corpus = std::fs::read_to_string(FILE).expect("the corpus");
    let mut server = Server::new();
    let (mut compared, mut wrong) = (0, Vec::new());
    for line in corpus.lines() {
        let Some((text, _)) = line.split_once(ARROW) else {
            if let Some(setup) = line.strip_prefix(SETUP) {
                server.run(&parse(setup));
            }
            continue;
        };
        let command = parse(text);
        let name = command.doc().first().map(|(name, _)| name.to_owned());
        let reads = ["find", "count", "distinct", "aggregate"];
        // These read other collections as well.
        let joins = text.contains("$lookup") || text.contains("$unionWith");
        if joins || !name.is_some_and(|name| reads.contains(&name.as_str())) {
            continue;
        }
        let reply = server.run(&explain_command(&command));
        let shown = match &reply["stages"] {
            Json::Array(list) => &list[0]["$cursor"]["executionStats"],
            _ => &reply["executionStats"],
        };
        if reply["ok"] != 1.0 || !shown.is_object() {
            continue;
        }
        server.run(&command);
        let counted = server.0.read_totals();
        let told = (
            shown["totalKeysExamined"].as_u64(),
            shown["totalDocsExamined"].as_u64(),
        );
        compared += 1;
        if told != (Some(counted.keys), Some(counted.docs)) {
            wrong.push(format!(
                "{text}: explain tells {told:?}, the command counts {counted:?}"
            ));
        }
    }
    assert!(compared > 1500, "{compared}");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
