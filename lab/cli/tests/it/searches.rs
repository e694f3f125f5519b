//! Searches: their recall is measured, and a target is detected that claims an exact search and
//! does not do it, or that counts documents wrongly.

use crate::fake::{FakeServer, Faults};
use crate::{FinishedRun, run};

const TEXT: &str = r#"
name = "searches"
[data]
collection = "searches"
document = { v = "@repeat(4, @double(-1, 1))" }
[[statement]]
name = "near"
expect = 3
[[statement.aggregate]]
[statement.aggregate."$vectorSearch"]
index = "v"
path = "v"
queryVector = "@repeat(4, @double(-1, 1))"
limit = 3
HOW
[[step]]
name = "load"
work = { operation = "insert", batch = 10 }
[[step]]
name = "make"
work = { operation = "command" }
command = { createSearchIndexes = "searches", indexes = [{ name = "v", definition = {} }] }
[[step]]
name = "index"
work = { operation = "await-search" }
[[step]]
name = "near"
work = { statements = [["near", 1]] }
recall = "euclidean"
measured = true
[[step.agree]]
name = "documents that a search counts"
pipeline = [{ "$group" = { _id = 1, n = { "$sum" = 1 } } }]
with = [{ "$search" = { index = "v" } }, { "$count" = "n" }]
[defaults]
rows = 60
clients = 2
seconds = 1
"#;

fn search(how: &str, searches_badly: bool) -> FinishedRun {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("searches.toml");
    std::fs::write(&path, TEXT.replace("HOW", how)).unwrap();
    let fake = FakeServer::start(Faults {
        searches_badly,
        ..Faults::default()
    });
    let more = ["--warmup-seconds", "0", "--settle-seconds", "1"];
    run(path.to_str().unwrap(), &fake.uri(), &more)
}

#[test]
fn recall_is_reported_beside_the_rate() {
    let ended = search("numCandidates = 10", false);
    assert_eq!(ended.status(), Some(0), "{}", ended.complaint());
    let result = ended.result();
    let index = result
        .steps
        .iter()
        .find(|step| step.name == "index")
        .unwrap();
    assert_eq!((index.ops, index.unit.as_str()), (60, "indexed rows"));
    let step = result.main_step().unwrap();
    let recall = step.more.recall.as_ref().unwrap();
    assert_eq!((recall.percent, recall.percent_min), (100.0, 100.0));
    assert_eq!((recall.searches, recall.neighbours), (50, 3));
    assert_eq!((recall.vectors, recall.is_exact), (60, false));
    assert!(step.more.agreed[0].after_s.is_some());
    let page = std::fs::read_to_string(ended.folder().join("report.html")).unwrap();
    assert!(page.contains("<h2>Neighbours found</h2>"));
    assert!(page.contains("documents that a search counts after"));
}

#[test]
fn inexact_and_incomplete_searches_are_detected() {
    for (how, wrong) in [
        (
            "exact = true",
            "a search that looks at every vector finds the nearest",
        ),
        ("numCandidates = 10", "documents that a search counts"),
    ] {
        let ended = search(how, true);
        assert_eq!(ended.status(), Some(4), "{how}: {}", ended.complaint());
        let result = ended.result();
        let check = result.checks.iter().find(|check| check.name == wrong);
        let check = check.unwrap_or_else(|| panic!("{how}: {:?}", result.checks));
        assert_eq!(check.passed, Some(false), "{check:?}");
        let recall = result.main_step().unwrap().more.recall.as_ref().unwrap();
        assert!(recall.percent < 50.0, "{recall:?}");
        assert!(result.warnings.iter().any(|one| one.code == "recall-low"));
    }
}
