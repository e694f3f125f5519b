//! Pipelines over the host in memory: cases that the recorded ones do not cover (spilling, batches,
//! limits).

use crate::memory_host::MemoryHost;
use model::{DocBuf, Namespace, doc};
use operators::Env;
use operators::expr::ParseCx;
use query::exec::ExecContext;
use query::pipeline::Pipeline;
use std::sync::atomic::Ordering;

fn ns() -> Namespace {
    Namespace::new("db", "c").unwrap()
}

/// Runs `{p: [stages]}` and shows the documents; an error shows as its code.
pub(crate) fn run(host: &MemoryHost, spec: &DocBuf) -> Vec<String> {
    let env = Env::new(0, 1);
    let parsed = Pipeline::parse_value(
        &mut ParseCx::new(&env),
        spec.doc().field("p"),
        &query::stages::collection_options(ns()),
    );
    match parsed.and_then(|p| p.run_to_end(&ExecContext::new(&env, host))) {
        Ok(docs) => docs.iter().map(|d| format!("{d:?}")).collect(),
        Err(e) => vec![e.code().to_string()],
    }
}

fn numbers(n: i32) -> MemoryHost {
    let host = MemoryHost::default();
    for i in 0..n {
        host.insert(
            &ns(),
            doc! { "_id": i, "k": (i * 7919) % n, "pad": "x".repeat(50).as_str() },
        )
        .unwrap();
    }
    host
}

#[test]
fn a_sort_past_its_budget_spills_and_stays_sorted() {
    let mut host = numbers(2000);
    let spec = doc! { "p": [{ "$sort": { "k": 1i32 } }] };
    let whole = run(&host, &spec);
    host.memory_limit_bytes = Some(20_000);
    assert_eq!(run(&host, &spec), whole);
    assert!(host.spills.load(Ordering::Relaxed) > 1);
    let keys: Vec<i64> = (0..2000).collect();
    let found: Vec<i64> = whole
        .iter()
        .map(|d| {
            d.split("k: ")
                .nth(1)
                .unwrap()
                .split(',')
                .next()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(found, keys);
}

#[test]
fn a_sort_with_a_limit_keeps_the_first_of_equals() {
    let host = MemoryHost::default();
    for i in 0..1000 {
        host.insert(&ns(), doc! { "_id": i, "k": i % 3 }).unwrap();
    }
    let spec = doc! { "p": [{ "$sort": { "k": -1i32 } }, { "$limit": 3i32 }] };
    assert_eq!(
        run(&host, &spec),
        ["{ _id: 2, k: 2 }", "{ _id: 5, k: 2 }", "{ _id: 8, k: 2 }"]
    );
}

#[test]
fn skip_and_limit_cut_across_batches() {
    let host = numbers(20);
    let spec =
        doc! { "p": [{ "$skip": 4i32 }, { "$limit": 5i32 }, { "$skip": 3i32 }, { "$count": "n" }] };
    assert_eq!(run(&host, &spec), ["{ n: 2 }"]);
}

#[test]
fn positions_and_shapes_are_checked() {
    let host = MemoryHost::default();
    for (spec, want) in [
        (doc! { "p": [1i32] }, "14"),
        (doc! { "p": 1i32 }, "14"),
        (doc! { "p": [{}] }, "40323"),
        (doc! { "p": [{ "$limit": 1i32, "$skip": 1i32 }] }, "40323"),
        (doc! { "p": [{ "$nope": 1i32 }] }, "40324"),
        (
            doc! { "p": [{ "$limit": -1i32 }, { "$nope": 1i32 }] },
            "40324",
        ),
        (doc! { "p": [{ "$limit": 0i32 }] }, "15958"),
    ] {
        assert_eq!(run(&host, &spec), [want], "{spec:?}");
    }
}

fn host_with(docs: Vec<DocBuf>) -> MemoryHost {
    let host = MemoryHost::default();
    for d in docs {
        host.insert(&ns(), d).unwrap();
    }
    host
}

#[test]
fn densify_fills_each_partition_over_the_whole_range() {
    let host = host_with(vec![
        doc! { "_id": 1i32, "h": 600i32, "v": "T" },
        doc! { "_id": 2i32, "h": 750i32, "v": "T" },
        doc! { "_id": 3i32, "h": 950i32, "v": "T" },
        doc! { "_id": 4i32, "h": 1250i32, "v": "G" },
        doc! { "_id": 5i32, "v": "G" },
    ]);
    let spec = doc! { "p": [
        { "$densify": { "field": "h", "partitionByFields": ["v"], "range": { "bounds": "full",
            "step": 200i32 } } },
        { "$project": { "_id": 0i32 } },
    ] };
    let want = [
        "{ v: \"G\" }",
        "{ h: 600, v: \"T\" }",
        "{ h: 750, v: \"T\" }",
        "{ v: \"T\", h: 800 }",
        "{ h: 950, v: \"T\" }",
        "{ v: \"G\", h: 600 }",
        "{ v: \"G\", h: 800 }",
        "{ v: \"G\", h: 1000 }",
        "{ v: \"G\", h: 1200 }",
        "{ h: 1250, v: \"G\" }",
        "{ v: \"T\", h: 1000 }",
        "{ v: \"T\", h: 1200 }",
    ];
    assert_eq!(run(&host, &spec), want);
    let explicit = doc! { "p": [
        { "$densify": { "field": "h", "range": { "bounds": [700i32, 1000i32], "step": 100i32 } } },
            { "$count": "n" },
    ] };
    assert_eq!(run(&host, &explicit), ["{ n: 8 }"]);
    for (range, want) in [
        (doc! { "bounds": "all", "step": 1i32 }, "5946802"),
        (doc! { "bounds": [2i32, 1i32], "step": 1i32 }, "5733402"),
        (doc! { "bounds": [1i32], "step": 1i32 }, "5733403"),
        (doc! { "bounds": "full", "step": 0i32 }, "5733401"),
        (doc! { "bounds": "partition", "step": 1i32 }, "5733408"),
        (
            doc! { "bounds": [1i32, 2i32], "step": 1i32, "unit": "day" },
            "5733409",
        ),
    ] {
        let spec = doc! { "p": [{ "$densify": { "field": "h", "range": &range } }] };
        assert_eq!(run(&host, &spec), [want], "{range:?}");
    }
}

#[test]
fn fill_carries_interpolates_and_replaces() {
    let host = host_with(vec![
        doc! { "_id": 1i32, "a": 1i32, "b": 10i32 },
        doc! { "_id": 2i32, "b": model::Value::Null },
        doc! { "_id": 3i32, "a": 3i32 },
        doc! { "_id": 4i32, "b": 40i32 },
    ]);
    let spec = doc! { "p": [{ "$fill": { "sortBy": { "_id": 1i32 }, "output": {
    "a": { "method": "locf" }, "b": { "method": "linear" }, "c": { "value": "x" } } } }] };
    assert_eq!(
        run(&host, &spec),
        [
            "{ _id: 1, a: 1, b: 10, c: \"x\" }",
            "{ _id: 2, b: 20.0, a: 1, c: \"x\" }",
            "{ _id: 3, a: 3, b: 30.0, c: \"x\" }",
            "{ _id: 4, b: 40, a: 3, c: \"x\" }",
        ]
    );
    // Without an order the last value is that of the previous document.
    let spec = doc! { "p": [{ "$fill": { "output": { "a": { "method": "locf" } } } }] };
    assert_eq!(
        run(&host, &spec),
        [
            "{ _id: 1, a: 1, b: 10 }",
            "{ _id: 2, b: null, a: 1 }",
            "{ _id: 3, a: 3 }",
            "{ _id: 4, b: 40, a: 3 }",
        ]
    );
    for (output, want) in [
        (doc! { "a": { "method": "cubic" } }, "6050202"),
        (doc! { "a": {} }, "9"),
        (doc! { "a": { "method": "linear" } }, "6050201"),
    ] {
        assert_eq!(
            run(&host, &doc! { "p": [{ "$fill": { "output": &output } }] }),
            [want],
            "{output:?}"
        );
    }
}

#[test]
fn window_functions_see_their_window_only() {
    let host = host_with(
        (1..=4)
            .map(|i| doc! { "_id": i, "k": i * 10, "g": i % 2 })
            .collect(),
    );
    let one = |output: DocBuf| {
        let spec = doc! { "p": [
            { "$setWindowFields": { "sortBy": { "k": 1i32 }, "output": { "r": &output } } }, {
                "$project": { "_id": 0i32, "r": 1i32 } },
        ] };
        run(&host, &spec)
            .join("")
            .replace("{ r: ", "")
            .replace(" }", " ")
    };
    assert_eq!(
        one(doc! { "$sum": "$k", "window": { "documents": [-1i32, 0i32] } }),
        "10 30 50 70 "
    );
    assert_eq!(
        one(doc! { "$sum": "$k", "window": { "range": [-10i32, 10i32] } }),
        "30 60 90 70 "
    );
    assert_eq!(
        one(doc! { "$shift": { "output": "$k", "by": -1i32, "default": "none" } }),
        "\"none\" 10 20 30 "
    );
    assert_eq!(one(doc! { "$documentNumber": {} }), "1 2 3 4 ");
    assert_eq!(
        one(doc! { "$expMovingAvg": { "input": "$k", "N": 3i32 } }),
        "10.0 15.0 22.5 31.25 "
    );
    assert_eq!(
        one(doc! { "$minMaxScaler": { "input": "$k" } })
            .split(' ')
            .next(),
        Some("0.0")
    );
    assert_eq!(one(doc! { "$rank": { "a": 1i32 } }), "5371603");
    assert_eq!(one(doc! { "$nope": 1i32 }), "9");
}

#[test]
fn lookups_join_the_same_with_and_without_an_index_and_past_the_budget() {
    let foreign = Namespace::new("db", "f").unwrap();
    let host = host_with(
        (0..20)
            .map(|i| doc! { "_id": i, "k": [i, i + 100] })
            .collect(),
    );
    for i in 0..30 {
        host.insert(
            &foreign,
            doc! { "_id": i, "v": i % 10, "pad": "x".repeat(200).as_str() },
        )
        .unwrap();
    }
    let spec = doc! { "p": [
        { "$lookup": { "from": "f", "localField": "k", "foreignField": "v", "as": "j" } }, {
            "$project": { "j._id": 1i32 } },
    ] };
    let whole = run(&host, &spec);
    assert_eq!(
        whole[3],
        "{ _id: 3, j: [ { _id: 3 }, { _id: 13 }, { _id: 23 } ] }"
    );
    let indexed = MemoryHost {
        with_lookup_index: true,
        ..host.clone()
    };
    assert_eq!(run(&indexed, &spec), whole);
    let small = MemoryHost {
        memory_limit_bytes: Some(1000),
        ..host.clone()
    };
    assert_eq!(run(&small, &spec), whole);
}

#[test]
fn graph_lookup_goes_round_cycles_once() {
    let host = host_with(vec![
        doc! { "_id": 1i32, "to": 2i32 },
        doc! { "_id": 2i32, "to": [3i32, 1i32] },
        doc! { "_id": 3i32, "to": 4i32 },
        doc! { "_id": 4i32 },
    ]);
    let graph = |extra: DocBuf| {
        let stage = DocBuf::build(|w| {
            w.put("from", "c")
                .put("startWith", "$to")
                .put("connectFromField", "to")
                .put("connectToField", "_id")
                .put("as", "r");
            w.put_all(extra.doc());
        });
        run(
            &host,
            &doc! { "p": [{ "$match": { "_id": 1i32 } }, { "$graphLookup": &stage }, {
            "$project": { "r._id": 1i32, "r.d": 1i32 } }] },
        )
    };
    assert_eq!(
        graph(doc! { "depthField": "d" }),
        [
            "{ _id: 1, r: [ { _id: 2, d: 0 }, { _id: 1, d: 1 }, { _id: 3, d: 1 }, { _id: 4, d: 2 } \
                ] }"
        ]
    );
    assert_eq!(
        graph(doc! { "maxDepth": 0i32 }),
        ["{ _id: 1, r: [ { _id: 2 } ] }"]
    );
    assert_eq!(
        graph(doc! { "restrictSearchWithMatch": { "_id": { "$ne": 3i32 } } }),
        ["{ _id: 1, r: [ { _id: 2 }, { _id: 1 } ] }"]
    );
    assert_eq!(graph(doc! { "maxDepth": -1i32 }), ["40101"]);
    assert_eq!(graph(doc! { "nope": 1i32 }), ["40104"]);
}

#[test]
fn a_group_past_its_budget_spills_and_keeps_its_order_inside_groups() {
    let mut host = numbers(3000);
    let spec = doc! { "p": [
        { "$group": { "_id": { "$mod": ["$_id", 1000i32] }, "ids": { "$push": "$_id" } } }, {
            "$sort": { "_id": 1i32 } },
    ] };
    let whole = run(&host, &spec);
    assert_eq!(whole[7], "{ _id: 7, ids: [ 7, 1007, 2007 ] }");
    assert_eq!(host.spills.load(Ordering::Relaxed), 0);
    host.memory_limit_bytes = Some(50_000);
    assert_eq!(run(&host, &spec), whole);
    assert!(host.spills.load(Ordering::Relaxed) > 1);
}

#[test]
fn a_group_that_may_spill_uses_spare_memory_first() {
    let mut host = numbers(3000);
    let spec = doc! { "p": [{ "$group": { "_id": "$k" } }] };
    host.memory_limit_bytes = Some(50_000);
    assert_eq!(run(&host, &spec).len(), 3000);
    let spills = host.spills.swap(0, Ordering::Relaxed);
    host.spill_threshold_bytes = Some(1 << 20);
    assert_eq!(run(&host, &spec).len(), 3000);
    assert_eq!((spills > 1, host.spills.load(Ordering::Relaxed)), (true, 0));
}

#[test]
fn geo_near_measures_and_needs_an_index() {
    let host = host_with(
        (0..4)
            .map(|i| doc! { "_id": i, "loc": [i * 3, i * 4] })
            .collect(),
    );
    let spec = doc! { "p": [{ "$geoNear": { "near": [0i32, 0i32], "distanceField": "d.m",
    "minDistance": 1i32 } }, { "$limit": 2i32 }, { "$project": { "d": 1i32 } }] };
    assert_eq!(run(&host, &spec), ["27"]);
    host.colls
        .lock()
        .unwrap()
        .get_mut(&ns())
        .unwrap()
        .indexes
        .push(("loc_2d".to_owned(), doc! { "loc": "2d" }, false));
    assert_eq!(
        run(&host, &spec),
        ["{ _id: 1, d: { m: 5.0 } }", "{ _id: 2, d: { m: 10.0 } }"]
    );
}

#[test]
fn stages_past_their_budget_fail_without_disk_use() {
    let mut host = numbers(400);
    host.memory_limit_bytes = Some(8_000);
    let without = |spec: &DocBuf| {
        let env = Env::new(0, 1);
        let parsed = Pipeline::parse_value(
            &mut ParseCx::new(&env),
            spec.doc().field("p"),
            &query::stages::collection_options(ns()),
        )
        .unwrap();
        parsed
            .run_to_end(&ExecContext {
                allow_disk_use: false,
                ..ExecContext::new(&env, &host)
            })
            .map(|b| b.len())
            .map_err(|e| e.code())
    };
    for spec in [
        doc! { "p": [{ "$sort": { "k": 1i32 } }] },
        doc! { "p": [{ "$group": { "_id": "$k", "all": { "$push": "$pad" } } }] },
        doc! { "p": [{ "$bucketAuto": { "groupBy": "$k", "buckets": 3i32 } }] },
        doc! { "p": [{ "$setWindowFields": { "partitionBy": "$k", "sortBy": { "k": 1i32 },
        "output": { "n": { "$sum": "$k" } } } }] },
    ] {
        assert_eq!(without(&spec), Err(292), "{spec:?}");
        assert_ne!(run(&host, &spec), ["292"], "on disk it goes: {spec:?}");
    }
    // With a limit a sort keeps few documents.
    assert_eq!(
        without(&doc! { "p": [{ "$sort": { "k": 1i32 } }, { "$limit": 5i32 }] }),
        Ok(5)
    );
    let graph = doc! { "p": [{ "$limit": 1i32 }, { "$graphLookup": {
    "from": "c", "startWith": { "$range": [0i32, 400i32] }, "connectFromField": "none",
        "connectToField": "_id", "as": "r" } }] };
    assert_eq!(run(&host, &graph), ["40099"]);
}

/// A second thread reads ahead in long inputs; order and errors must be those of one thread.
#[test]
fn blocking_stages_read_ahead_in_order() {
    let host = MemoryHost::default();
    host.insert(&ns(), doc! { "_id": 0i32 }).unwrap();
    let stages = [
        doc! { "$project": { "a": { "$range": [0i32, 50_000i32] } } },
        doc! { "$unwind": "$a" },
    ];
    let spec = |tail: &[DocBuf]| {
        let all: Vec<DocBuf> = stages.iter().chain(tail).cloned().collect();
        DocBuf::build(|w| {
            let mut list = w.array("p");
            for s in &all {
                list.push(s);
            }
        })
    };
    let group = doc! { "$group": { "_id": { "$mod": ["$a", 3i32] }, "f": { "$first": "$a" }, "l": {
    "$last": "$a" }, "s": { "$sum": "$a" } } };
    let want = [
        "{ _id: 0, f: 0, l: 49998, s: 416658333 }",
        "{ _id: 1, f: 1, l: 49999, s: 416675000 }",
        "{ _id: 2, f: 2, l: 49997, s: 416641667 }",
    ];
    assert_eq!(
        run(
            &host,
            &spec(&[group.clone(), doc! { "$sort": { "_id": 1i32 } }])
        ),
        want
    );
    // Documents with equal keys keep their order.
    let sorted = [
        doc! { "$sort": { "_id": 1i32 } },
        doc! { "$skip": 49_998i32 },
    ];
    assert_eq!(
        run(&host, &spec(&sorted)),
        ["{ _id: 0, a: 49998 }", "{ _id: 0, a: 49999 }"]
    );
    let fails =
        doc! { "$addFields": { "x": { "$divide": [1i32, { "$subtract": ["$a", 30_000i32] }] } } };
    assert_eq!(run(&host, &spec(&[fails.clone(), group.clone()])), ["2"]);
}
