//! Operations share one memory budget: each refusal has MongoDB's code, a refused operation does
//! not affect the others, and no memory stays charged after the end of an operation or cursor.

use crate::behaviour::{send, serve, store};
use crate::interrupts::{code, fill, json, run};
use ::memory::Budget;
use commands::{Config, Dispatcher};
use model::{DocBuf, MongoError};
use std::sync::Arc;

const MB: usize = 1 << 20;
/// A string of 256 KiB, computed for each document.
const PAD: &str = r#"{"$set": {"pad": {"$reduce": {"input": {"$range": [0, 18]},
    "initialValue": "x", "in": {"$concat": ["$$value", "$$value"]}}}}}"#;

/// 200 documents with a budget of `limit` megabytes, of which one operation may use `share`.
fn service(limit: usize, share: usize) -> (Arc<Dispatcher>, Arc<Budget>) {
    let budget = Arc::new(Budget::new(limit * MB, share * MB));
    let config = Config {
        memory: budget.clone(),
        ..Config::default()
    };
    let s = serve(config, store());
    fill(&s, 200);
    (s, budget)
}

fn aggregate(stages: &str, more: &str) -> String {
    format!(r#"{{"aggregate": "c", "pipeline": [{PAD}, {stages}], "cursor": {{}}{more}}}"#)
}

fn cursor(reply: &DocBuf) -> i64 {
    reply
        .doc()
        .field("cursor")
        .as_doc()
        .and_then(|c| c.field("id").as_i64_exact())
        .unwrap_or_default()
}

#[test]
fn each_family_is_refused_with_its_code_and_gives_everything_back() {
    let (s, budget) = service(60, 40);
    let all = r#"{"$push": "$pad"}"#;
    let cases = [
        (
            aggregate(
                &format!(r#"{{"$group": {{"_id": null, "all": {all}}}}}"#),
                "",
            ),
            146,
        ),
        (
            aggregate(
                &format!(r#"{{"$group": {{"_id": null, "all": {all}}}}}"#),
                r#",
            "allowDiskUse": false"#,
            ),
            292,
        ),
        (
            aggregate(
                r#"{"$group": {"_id": "$pad", "all": {"$addToSet": "$$ROOT"}}}"#,
                "",
            ),
            146,
        ),
        (
            aggregate(
                &format!(
                    r#"{{"$bucketAuto": {{"groupBy": "$_id", "buckets": 1,
            "output": {{"all": {all}}}}}}}"#
                ),
                "",
            ),
            146,
        ),
        (
            aggregate(
                r#"{"$sort": {"pad": 1, "_id": -1}}"#,
                r#", "allowDiskUse": false"#,
            ),
            292,
        ),
        (
            aggregate(
                &format!(
                    r#"{{"$setWindowFields": {{"sortBy": {{"_id": 1}},
            "output": {{"all": {all}}}}}}}"#
                ),
                "",
            ),
            292,
        ),
        (
            aggregate(
                r#"{"$lookup": {"from": "c", "pipeline": [{"$set": {"p": {"$range": [0,
            100000]}}}], "as": "l"}}"#,
                "",
            ),
            146,
        ),
        (
            aggregate(
                r#"{"$set": {"m": {"$map": {"input": {"$range": [0, 1000]}, "in": "$pad"}}}}"#,
                "",
            ),
            146,
        ),
        (
            aggregate(
                r#"{"$set": {"m": {"$concatArrays": [{"$range": [0, 2000000]}, {"$range": [0,
            2000000]}]}}}"#,
                "",
            ),
            146,
        ),
        (
            r#"{"update": "c", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"m": {"$range": [0,
            5000000]}}}]}]}"#
                .to_owned(),
            146,
        ),
        (
            r#"{"findAndModify": "c", "query": {"_id": 1}, "update": [{"$set": {"m": {"$range": [0,
            5000000]}}}]}"#
                .to_owned(),
            146,
        ),
        (
            r#"{"find": "c", "filter": {"$expr": {"$eq": [{"$size": {"$range": [0, 5000000]}},
            "$a"]}}}"#
                .to_owned(),
            146,
        ),
    ];
    for (command, wanted) in &cases {
        let reply = run(&s, command);
        let errors = reply.doc().field("writeErrors").as_array();
        let first = errors.and_then(|a| a.get(0)?.as_doc()?.field("code").as_i64_exact());
        assert_eq!(
            first.unwrap_or(code(&reply)),
            *wanted,
            "{command}: {reply:?}"
        );
        assert_eq!(budget.stats().used_bytes, 0, "{command}");
    }
    let f = budget.stats();
    assert!(
        f.refused >= 8 && f.used_bytes_max > 20 * MB && f.used_bytes_max < 90 * MB,
        "{f:?}"
    );
    assert_eq!(code(&run(&s, r#"{"find": "c", "filter": {"_id": 5}}"#)), 0);
}

#[test]
fn stages_that_can_spill_do_so_instead_of_failing() {
    let (s, budget) = service(60, 40);
    for stages in [
        r#"{"$sort": {"pad": 1, "_id": -1}}, {"$count": "n"}"#,
        r#"{"$group": {"_id": {"p": "$pad", "i": "$_id"}}}, {"$count": "n"}"#,
        r#"{"$bucketAuto": {"groupBy": "$_id", "buckets": 200}}, {"$count": "n"}"#,
        r#"{"$setWindowFields": {"partitionBy": "$_id", "sortBy": {"_id": 1},
            "output": {"r": {"$rank": {}}}}}, {"$count": "n"}"#,
        r#"{"$facet": {"f": [{"$count": "n"}], "g": [{"$match": {"_id": 1}}]}},
            {"$set": {"n": {"$first": "$f.n"}}}, {"$project": {"n": 1}}"#,
    ] {
        let reply = run(&s, &aggregate(stages, r#", "allowDiskUse": true"#));
        assert!(
            format!("{reply:?}").contains("n: 200"),
            "{stages}: {reply:?}"
        );
    }
    let f = budget.stats();
    assert_eq!((f.used_bytes, f.refused), (0, 0));
    assert!(f.used_bytes_max < 45 * MB, "{f:?}");
}

#[test]
fn cursors_hold_their_part_and_the_last_is_refused_while_the_first_completes() {
    let (s, budget) = service(60, 40);
    let sorted = aggregate(
        r#"{"$limit": 30}, {"$sort": {"pad": 1, "_id": -1}}"#,
        r#", "allowDiskUse": false"#,
    )
    .replace(r#""cursor": {}"#, r#""cursor": {"batchSize": 1}"#);
    let mut ids = Vec::new();
    let refused = loop {
        let reply = run(&s, &sorted);
        if code(&reply) != 0 {
            break reply;
        }
        ids.push(cursor(&reply));
        assert!(ids.len() < 10, "{:?}", budget.stats());
    };
    assert!(matches!(code(&refused), 146 | 292), "{refused:?}");
    assert!(ids.len() >= 2, "{ids:?}: {refused:?}");
    let held = budget.stats().used_bytes;
    assert!(
        held > ids.len() * 14 * MB && held < 60 * MB,
        "{ids:?} hold {held}"
    );
    assert_eq!(
        code(&run(&s, r#"{"find": "c", "filter": {"_id": 5}}"#)),
        0,
        "small operations go on"
    );

    let first = ids.remove(0);
    let rest = run(
        &s,
        &format!(
            r#"{{"getMore": {{"$numberLong": "{first}"}}, "collection": "c", "batchSize": 1000}}"#
        ),
    );
    assert_eq!((code(&rest), cursor(&rest)), (0, 0), "the first completes");
    let after = budget.stats().used_bytes;
    assert!(
        after + 10 * MB < held,
        "{after} of {held} are still charged"
    );
    let killed = ids.remove(0);
    run(
        &s,
        &format!(r#"{{"killCursors": "c", "cursors": [{{"$numberLong": "{killed}"}}]}}"#),
    );
    s.service()
        .cursors
        .invalidate("db", None, &MongoError::internal("as a drop does"));
    assert_eq!(budget.stats().used_bytes, 0);
    assert_eq!(code(&run(&s, &sorted)), 0, "there is room again");
    s.service().cursors.expire(u64::MAX, 0);
    assert_eq!(budget.stats().used_bytes, 0);
}

#[test]
fn a_killed_operation_gives_everything_back() {
    let (s, budget) = service(200, 100);
    let command = aggregate(
        r#"{"$sort": {"pad": 1}}, {"$group": {"_id": null,
            "n": {"$sum": {"$size": {"$filter": {"input": {"$range": [0, 1000000]},
            "cond": {"$gt": ["$$this", "$_id"]}}}}}}}"#,
        "",
    );
    let (service, copy) = (Arc::clone(&s), command.clone());
    let running = std::thread::spawn(move || run(&service, &copy));
    let held = || budget.stats().used_bytes > 20 * MB;
    while !held() && !running.is_finished() {
        std::thread::yield_now();
    }
    s.service().interrupt_all();
    let reply = running.join().expect("the operation");
    assert!(
        code(&reply) != 0,
        "it ran to its end before it could be killed: {reply:?}"
    );
    assert_eq!(budget.stats().used_bytes, 0);
    let timed = command.replace(r#""cursor": {}"#, r#""cursor": {}, "maxTimeMS": 100"#);
    assert_eq!(code(&run(&s, &timed)), 50);
    assert_eq!(budget.stats().used_bytes, 0);
}

#[test]
fn server_status_tells() {
    let (s, _) = service(30, 20);
    run(
        &s,
        &aggregate(r#"{"$group": {"_id": null, "all": {"$push": "$pad"}}}"#, ""),
    );
    let mut c = s.connect("127.0.0.1:1");
    let reply = send(&s, &mut c, "admin", json(r#"{"serverStatus": 1}"#).doc());
    let quarry = reply.doc().field("quarry").as_doc().expect("our section");
    let m = quarry
        .field("operationsMemory")
        .as_doc()
        .expect("its part on memory");
    let n = |name: &str| m.field(name).as_i64_exact().unwrap_or(-1);
    assert_eq!(
        (n("limitBytes"), n("operationLimitBytes"), n("refused")),
        (30 << 20, 20 << 20, 1),
        "{m:?}"
    );
    assert!(
        n("usedBytesMax") > 19 << 20 && n("usedBytes") < 1 << 20,
        "{m:?}"
    );
}
