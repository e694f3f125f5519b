//! Generated calls from the tables: every command's arguments, every stage, expression,
//! accumulator, window function, update and query operator of the registries, with every BSON type
//! and odd values in every place. No call may panic, close its connection, return 1 (InternalError)
//! or take long.

use crate::behaviour::{serve, store};
use commands::{Config, Connection, Dispatcher, Outcome, Request, registry};
use model::{ArrayWriter, Decimal128, Doc, DocBuf, ObjectId, OwnedValue, Value, doc, extjson};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest duration of a call. Debug builds on busy machines are slow; an unbounded call takes far
/// longer.
const TIME_MAX: Duration = Duration::from_secs(1);

/// A value of each BSON type, and special values of each.
fn odd_values() -> Vec<OwnedValue> {
    let decimal = |text: &str| Decimal128::parse(text).expect("a decimal");
    let long_text = "x".repeat(70_000);
    let d = doc! {
        "": Value::Null, "": Value::Undefined, "": Value::MinKey, "": Value::MaxKey, "": true,
        "": false, "": 0i32, "": 1i32, "": -1i32, "": 2i32, "": i32::MAX, "": i32::MIN,
        "": Value::Int64(0), "": Value::Int64(1), "": Value::Int64(i64::MAX),
        "": Value::Int64(i64::MIN), "": 0.0, "": -0.0, "": 1.0, "": 0.5, "": -1.5, "": 1e300,
        "": f64::NAN, "": f64::INFINITY, "": f64::NEG_INFINITY, "": decimal("0"),
        "": decimal("1"), "": decimal("-1.5"), "": decimal("1E6144"), "": decimal("NaN"),
        "": decimal("Infinity"), "": decimal("-Infinity"), "": "", "": "a", "": "$a", "": "$$ROOT",
        "": "$$NOW", "": "$", "": "$$", "": "a.b", "": "a..b", "": "\u{0}", "": "2020-01-01",
        "": "h\u{e9}\u{1F600}", "": long_text.as_str(), "": {}, "": { "a": 1i32 }, "": { "$a":
            1i32 },
        "": { "": 1i32 }, "": { "a.b": 1i32 }, "": { "a": 1i32, "a": 2i32 },
        "": { "$add": [1i32, 2i32] }, "": { "$literal": "$a" }, "": { "$const": Value::Null },
        "": [], "": [1i32], "": [1i32, 2i32], "": ["a", "a"], "": [Value::Null], "": [{}],
        "": [[1i32]], "": ["$a", "$b"], "": [{ "k": "a", "v": 1i32 }],
        "": Value::Binary(model::Binary { subtype: 0, bytes: &[] }),
        "": Value::Binary(model::Binary { subtype: 4, bytes: &[1; 16] }),
        "": ObjectId([0; 12]), "": Value::Date(0), "": Value::Date(i64::MAX),
        "": Value::Date(i64::MIN), "": Value::Timestamp(model::Timestamp { time: 1, increment: 0 }),
        "": Value::Regex(model::Regex { pattern: "a(", options: "i" }),
        "": Value::Regex(model::Regex { pattern: "^a", options: "" }), "": Value::Symbol("a"),
        "": Value::Code("x"), "": Value::CodeWithScope("x", Doc::EMPTY.as_bytes()),
        "": Value::DbPointer("a.b", ObjectId([1; 12]))
    };
    d.doc().iter().map(|(_, v)| v.to_owned_value()).collect()
}

struct Walk {
    service: Arc<Dispatcher>,
    conn: Connection,
    calls: u64,
    slowest: (Duration, String),
    wrong: Vec<String>,
}

/// How long this thread was ready to run but had no processor, because of other programs.
fn queued_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has this file");
    let nanos = stat.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds"))
}

impl Walk {
    fn new() -> Walk {
        let service = serve(Config::default(), store());
        let conn = service.connect("127.0.0.1:50000");
        let mut walk = Walk {
            service,
            conn,
            calls: 0,
            slowest: Default::default(),
            wrong: Vec::new(),
        };
        walk.fill();
        walk
    }

    /// A collection with one document of every type at `a`, and some documents for stages.
    fn fill(&mut self) {
        let values = odd_values();
        let docs: Vec<DocBuf> = values
            .iter()
            .enumerate()
            .map(|(i, v)| {
                doc! { "_id": i as i32, "a": v.get(), "b": [v.get(), 1i32], "c": i as
                i32 }
            })
            .collect();
        let mut bytes = Vec::new();
        {
            let mut w = ArrayWriter::new(&mut bytes);
            docs.iter().for_each(|d| {
                w.push(d);
            });
        }
        let docs = DocBuf::from_bytes(bytes).expect("an array");
        let all = Value::Array(docs.doc().as_array());
        self.call("test", &doc! { "insert": "c", "documents": all });
        self.call(
            "test",
            &doc! { "insert": "d", "documents": [{ "_id": 1i32, "a": 1i32, "s": "x" }] },
        );
        self.call(
            "test",
            &doc! { "createIndexes": "c", "indexes": [
            { "key": { "c": 1i32 }, "name": "c_1" }, { "key": { "g": "2dsphere" }, "name": "g" }] },
        );
    }

    fn call(&mut self, db: &str, command: &DocBuf) {
        let mut body = command.clone();
        if !command.doc().contains("$db") {
            body.put("$db", db);
        }
        let mut reply = Vec::new();
        let (service, conn) = (&self.service, &mut self.conn);
        let (begun, queued) = (Instant::now(), queued_time());
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let outcome = service.handle(conn, &Request::new(body.doc()), &mut reply);
            matches!(
                outcome,
                Outcome::Reply | Outcome::Durable(_) | Outcome::Exhaust
            )
        }));
        let took = begun.elapsed().saturating_sub(queued_time() - queued);
        self.calls += 1;
        let shown = || {
            let text = Value::Document(command.doc()).to_string();
            text.chars().take(300).collect::<String>()
        };
        if took > self.slowest.0 {
            self.slowest = (took, shown());
        }
        if took > TIME_MAX {
            self.wrong.push(format!("{took:?}: {}", shown()));
        }
        match outcome {
            Err(_) => {
                self.wrong.push(format!("panics: {}", shown()));
                let service = self.service.clone();
                self.conn = service.connect("127.0.0.1:50001");
            }
            Ok(false) => {}
            Ok(true) => {
                let reply = DocBuf::from_bytes(reply).unwrap_or_default();
                if let Some(what) = internal(reply.doc()) {
                    self.wrong.push(format!("{what}: {}", shown()));
                }
            }
        }
    }

    /// Runs one stage over a collection.
    fn stage(&mut self, stage: &DocBuf) {
        self.call(
            "test",
            &doc! { "aggregate": "c", "pipeline": [stage.doc()], "cursor": {} },
        );
    }

    /// Runs one expression over a document of each type.
    fn expression(&mut self, e: Value<'_>) {
        self.call(
            "test",
            &doc! { "aggregate": "d", "pipeline": [{ "$project": { "x": e } }], "cursor": {} },
        );
    }

    fn end(self, what: &str) {
        println!(
            "{what}: {} generated calls, the slowest took {:?}: {:.150}",
            self.calls, self.slowest.0, self.slowest.1
        );
        assert!(
            self.wrong.is_empty(),
            "{} of {} calls of {what}:\n{}",
            self.wrong.len(),
            self.calls,
            self.wrong
                .iter()
                .take(40)
                .cloned()
                .collect::<Vec<_>>()
                .join("\n")
        );
    }
}

/// The text in a message that looks like Rust's `Debug` output: a variant of a value, an option, a
/// string or list in a wrapper. No value of this test contains such a text.
fn rust_form(message: &str) -> Option<&'static str> {
    const FORMS: [&str; 23] = [
        "Some(",
        "None",
        "Ok(",
        "Err(",
        "Undefined",
        "Null",
        "Int32(",
        "Int64(",
        "Double(",
        "Decimal128(",
        "String(",
        "Symbol(",
        "Document(",
        "Array(",
        "Binary(",
        "ObjectId(ObjectId",
        "ObjectId([",
        "Bool(",
        "Timestamp(Timestamp",
        "Timestamp {",
        "Regex(",
        "Code(\"",
        "DbPointer(",
    ];
    if message.ends_with(" Missing") {
        return Some("Missing");
    }
    FORMS.into_iter().find(|form| {
        let mut places = message.match_indices(form);
        // It must be a separate word: `isString(` and `CodeWithScope` do not count.
        places.any(|(at, _)| !message[..at].ends_with(|c: char| c.is_alphanumeric()))
    })
}

/// The message of a reply with InternalError or with a Rust form, for the command or for one of its
/// writes.
fn internal(reply: Doc<'_>) -> Option<String> {
    let of = |d: Doc<'_>| {
        let message = d.field("errmsg");
        if d.field("code").as_i64_exact() == Some(1) {
            return Some(format!("InternalError {message}"));
        }
        let form = message.as_str().and_then(rust_form)?;
        Some(format!("prints {form:?} in {message}"))
    };
    let writes = reply.field("writeErrors").as_array();
    let first = writes.and_then(|a| a.get(0)).and_then(|v| v.as_doc());
    of(reply).or(first.and_then(of))
}

/// Calls `each` with variants of a document: each value, at any depth, replaced by `v`, removed,
/// and duplicated.
fn mutations(d: Doc<'_>, v: Value<'_>, each: &mut dyn FnMut(DocBuf)) {
    for (at, (name, old)) in d.iter().enumerate() {
        let with = |replacement: Option<Value<'_>>, twice: bool| {
            DocBuf::build(|w| {
                for (i, (n, old)) in d.iter().enumerate() {
                    match (i == at, replacement) {
                        (true, None) => continue,
                        (true, Some(r)) => w.put(n, r),
                        (false, _) => w.put(n, old),
                    };
                    if i == at && twice {
                        w.put(n, old);
                    }
                }
            })
        };
        each(with(Some(v), false));
        each(with(None, false));
        each(with(Some(v), true));
        match old {
            Value::Document(inner) => mutations(inner, v, &mut |m| {
                each(with(Some(Value::Document(m.doc())), false))
            }),
            Value::Array(inner) => mutations(inner.as_doc(), v, &mut |m| {
                let items: Vec<Value<'_>> = m.doc().iter().map(|(_, v)| v).collect();
                let mut bytes = Vec::new();
                {
                    let mut w = ArrayWriter::new(&mut bytes);
                    items.iter().for_each(|v| {
                        w.push(*v);
                    });
                }
                let array = DocBuf::from_bytes(bytes).unwrap_or_default();
                each(with(Some(Value::Array(array.doc().as_array())), false));
            }),
            _ => {}
        }
        let _ = name;
    }
}

fn template(text: &str) -> DocBuf {
    extjson::parse_document(&text.replace('\'', "\"")).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Values for required arguments: by name, if the type is not sufficient.
fn plausible(name: &str) -> DocBuf {
    match name {
        "documents" => doc! { "": [{}] },
        "updates" => doc! { "": [{ "q": {}, "u": { "$set": { "z": 1i32 } } }] },
        "deletes" => doc! { "": [{ "q": { "_id": 1000i32 }, "limit": 1i32 }] },
        "indexes" => doc! { "": [{ "key": { "z": 1i32 }, "name": "z" }] },
        "pipeline" | "ops" | "hostAndPort" | "cursors" => doc! { "": [] },
        "nsInfo" => doc! { "": [{ "ns": "test.c" }] },
        "cursor" | "filter" | "query" | "update" => doc! { "": {} },
        "out" => doc! { "": { "inline": 1i32 } },
        "key" | "to" | "collection" | "index" => doc! { "": "z" },
        _ => doc! { "": 1i32 },
    }
}

#[test]
fn arguments_of_commands() {
    let values = odd_values();
    let mut walk = Walk::new();
    for spec in registry::all().map(|c| &c.spec) {
        // The command would block every later write.
        if spec.name == "fsync" {
            walk.service.service().flush().expect("a flush");
            continue;
        }
        let dbs: &[&str] = if spec.is(request::spec::flag::ADMIN) {
            &["admin"]
        } else {
            &["test"]
        };
        for db in dbs {
            for v in &values {
                let whole = |own: Value<'_>, changed: Option<(&str, Value<'_>)>| {
                    DocBuf::build(|w| {
                        w.put(spec.name, own);
                        for row in spec.args {
                            match changed {
                                Some((name, v)) if name == row.name => {
                                    w.put(name, v);
                                }
                                _ if row.required => {
                                    let p = plausible(row.name);
                                    w.put(row.name, p.doc().field(""));
                                }
                                _ => {}
                            }
                        }
                    })
                };
                walk.call(db, &whole(v.get(), None));
                for own in [Value::String("c"), Value::Int32(1)] {
                    for row in spec.args {
                        walk.call(db, &whole(own, Some((row.name, v.get()))));
                    }
                }
            }
        }
    }
    walk.end("arguments of commands");
}

/// A valid specification of each stage that takes a document; the others use their argument as it
/// is.
const STAGES: &[&str] = &[
    "{'$bucket': {'groupBy': '$c', 'boundaries': [0, 10, 20], 'default': 'o', 'output': {'n': \
        {'$sum': 1}}}}",
    "{'$bucketAuto': {'groupBy': '$c', 'buckets': 2, 'output': {'n': {'$sum': 1}}, 'granularity': \
        'R5'}}",
    "{'$collStats': {'latencyStats': {'histograms': true}, 'storageStats': {'scale': 2}, 'count': \
        {}}}",
    "{'$currentOp': {'allUsers': true, 'idleConnections': true, 'idleCursors': true, 'localOps': \
        true}}",
    "{'$densify': {'field': 'c', 'partitionByFields': ['s'], 'range': {'step': 1, 'bounds': [0, \
        5]}}}",
    "{'$densify': {'field': 't', 'range': {'step': 1, 'unit': 'day', 'bounds': 'full'}}}",
    "{'$facet': {'x': [{'$match': {'a': 1}}], 'y': [{'$count': 'n'}]}}",
    "{'$fill': {'sortBy': {'c': 1}, 'partitionBy': {'s': '$s'}, 'output': {'a': {'method': \
        'linear'}, 'b': {'value': 1}}}}",
    "{'$geoNear': {'near': {'type': 'Point', 'coordinates': [0, 0]}, 'distanceField': 'd', 'key': \
        'g', 'maxDistance': 5, 'minDistance': 1, 'query': {'a': 1}, 'spherical': true, \
            'includeLocs': 'l', 'distanceMultiplier': 2}}",
    "{'$graphLookup': {'from': 'd', 'startWith': '$a', 'connectFromField': 'a', 'connectToField': \
        '_id', 'as': 'x', 'maxDepth': 2, 'depthField': 'n', 'restrictSearchWithMatch': {'s': \
            'x'}}}",
    "{'$group': {'_id': {'x': '$a'}, 'n': {'$sum': '$c'}, 'm': {'$push': '$b'}}}",
    "{'$lookup': {'from': 'd', 'localField': 'a', 'foreignField': 'a', 'as': 'x', 'let': {'v': \
        '$a'}, 'pipeline': [{'$match': {'$expr': {'$eq': ['$$v', 1]}}}]}}",
    "{'$match': {'a': {'$gt': 1}, '$or': [{'b': 1}, {'c': {'$in': [1, 2]}}]}}",
    "{'$merge': {'into': {'db': 'test', 'coll': 'out'}, 'on': ['_id'], 'whenMatched': 'merge', \
        'whenNotMatched': 'insert'}}",
    "{'$merge': {'into': 'out', 'let': {'v': '$a'}, 'whenMatched': [{'$set': {'x': '$$v'}}]}}",
    "{'$out': {'db': 'test', 'coll': 'out2'}}",
    "{'$project': {'a': 1, 'x': {'y': '$b'}, 'z': {'$add': ['$c', 1]}}}",
    "{'$rankFusion': {'input': {'pipelines': {'p': [{'$sort': {'c': 1}}]}}, 'combination': \
        {'weights': {'p': 2}}, 'scoreDetails': true}}",
    "{'$redact': {'$cond': {'if': {'$eq': ['$a', 1]}, 'then': '$$KEEP', 'else': '$$PRUNE'}}}",
    "{'$replaceRoot': {'newRoot': {'x': '$a'}}}",
    "{'$sample': {'size': 2}}",
    "{'$set': {'x': {'y': 1}, 'z': '$a'}}",
    "{'$setWindowFields': {'partitionBy': '$s', 'sortBy': {'c': 1}, 'output': {'x': {'$sum': \
        '$c', 'window': {'documents': [-1, 1]}}, 'y': {'$avg': '$c', 'window': {'range': [-1, \
            'current']}}}}}",
    "{'$setWindowFields': {'sortBy': {'c': 1}, 'output': {'x': {'$derivative': {'input': '$c', \
        'unit': 'hour'}, 'window': {'documents': [-1, 0]}}, 'y': {'$shift': {'output': '$c', \
            'by': 1, 'default': 0}}, 'z': {'$expMovingAvg': {'input': '$c', 'N': 2}}}}}",
    "{'$sort': {'c': 1, 'a': -1}}",
    "{'$unionWith': {'coll': 'd', 'pipeline': [{'$limit': 1}]}}",
    "{'$unwind': {'path': '$b', 'includeArrayIndex': 'i', 'preserveNullAndEmptyArrays': true}}",
    "{'$changeStream': {'fullDocument': 'updateLookup', 'resumeAfter': {'_data': '00'}}}",
];

#[test]
fn stages() {
    let values = odd_values();
    let mut walk = Walk::new();
    for name in query::stages::names() {
        for v in &values {
            walk.stage(&doc! { name: v.get() });
            walk.call(
                "admin",
                &doc! { "aggregate": 1i32, "pipeline": [{ name: v.get() }], "cursor": {} },
            );
            walk.stage(&doc! { "$facet": { "x": [{ name: v.get() }] } });
        }
    }
    for text in STAGES {
        let t = template(text);
        for v in &values {
            mutations(t.doc(), v.get(), &mut |m| walk.stage(&m));
        }
    }
    for name in query::stages::window_functions() {
        for v in &values {
            for window in ["{}", "{'window': {'documents': [-1, 1]}}"] {
                let window = template(window);
                let function = DocBuf::build(|w| {
                    w.put(name, v.get()).put_all(window.doc());
                });
                walk.stage(&doc! { "$setWindowFields": { "sortBy": { "c": 1i32 },
                "output": { "x": function.doc() } } });
            }
        }
    }
    walk.end("stages");
}

/// A valid form of each expression with named arguments.
const EXPRESSIONS: &[&str] = &[
    "{'$filter': {'input': '$b', 'as': 'x', 'cond': {'$gt': ['$$x', 1]}, 'limit': 1}}",
    "{'$map': {'input': [1, 2], 'as': 'x', 'in': {'$add': ['$$x', 1]}}}",
    "{'$reduce': {'input': [1, 2], 'initialValue': 0, 'in': {'$add': ['$$value', '$$this']}}}",
    "{'$zip': {'inputs': [[1], [2]], 'useLongestLength': true, 'defaults': [0, 0]}}",
    "{'$sortArray': {'input': [{'a': 1}], 'sortBy': {'a': 1}}}",
    "{'$firstN': {'input': [1, 2], 'n': 1}}",
    "{'$maxN': {'input': [1, 2], 'n': 1}}",
    "{'$let': {'vars': {'x': 1}, 'in': '$$x'}}",
    "{'$cond': {'if': true, 'then': 1, 'else': 2}}",
    "{'$switch': {'branches': [{'case': true, 'then': 1}], 'default': 2}}",
    "{'$convert': {'input': '1', 'to': {'type': 'int', 'subtype': 0}, 'onError': 0, 'onNull': 1, \
        'format': 'auto'}}",
    "{'$dateAdd': {'startDate': {'$date': '2020-01-01T00:00:00Z'}, 'unit': 'day', 'amount': 1, \
        'timezone': 'UTC'}}",
    "{'$dateSubtract': {'startDate': {'$date': '2020-01-01T00:00:00Z'}, 'unit': 'day', 'amount': \
        1}}",
    "{'$dateDiff': {'startDate': {'$date': '2020-01-01T00:00:00Z'}, 'endDate': {'$date': \
        '2020-02-01T00:00:00Z'}, 'unit': 'week', 'timezone': 'UTC', 'startOfWeek': 'mon'}}",
    "{'$dateTrunc': {'date': {'$date': '2020-01-01T00:00:00Z'}, 'unit': 'week', 'binSize': 2, \
        'timezone': 'UTC', 'startOfWeek': 'mon'}}",
    "{'$dateFromParts': {'year': 2020, 'month': 1, 'day': 1, 'hour': 1, 'minute': 1, 'second': 1, \
        'millisecond': 1, 'timezone': 'UTC'}}",
    "{'$dateFromParts': {'isoWeekYear': 2020, 'isoWeek': 1, 'isoDayOfWeek': 1}}",
    "{'$dateToParts': {'date': {'$date': '2020-01-01T00:00:00Z'}, 'timezone': 'UTC', 'iso8601': \
        true}}",
    "{'$dateFromString': {'dateString': '2020-01-01', 'format': '%Y-%m-%d', 'timezone': 'UTC', \
        'onError': 1, 'onNull': 2}}",
    "{'$dateToString': {'date': {'$date': '2020-01-01T00:00:00Z'}, 'format': '%Y', 'timezone': \
        'UTC', 'onNull': 1}}",
    "{'$year': {'date': {'$date': '2020-01-01T00:00:00Z'}, 'timezone': 'UTC'}}",
    "{'$getField': {'field': 'a', 'input': '$$ROOT'}}",
    "{'$setField': {'field': 'a', 'input': '$$ROOT', 'value': 1}}",
    "{'$unsetField': {'field': 'a', 'input': '$$ROOT'}}",
    "{'$regexFind': {'input': 'abc', 'regex': 'b', 'options': 'i'}}",
    "{'$regexFindAll': {'input': 'abc', 'regex': 'b', 'options': 'i'}}",
    "{'$regexMatch': {'input': 'abc', 'regex': 'b', 'options': 'i'}}",
    "{'$replaceOne': {'input': 'abc', 'find': 'b', 'replacement': 'c'}}",
    "{'$replaceAll': {'input': 'abc', 'find': 'b', 'replacement': 'c'}}",
    "{'$trim': {'input': ' a ', 'chars': ' '}}",
    "{'$ltrim': {'input': ' a ', 'chars': ' '}}",
    "{'$percentile': {'input': [1, 2], 'p': [0.5], 'method': 'approximate'}}",
    "{'$median': {'input': [1, 2], 'method': 'approximate'}}",
    "{'$function': {'body': 'x => x', 'args': ['$a'], 'lang': 'js'}}",
    "{'$_internalJsEmit': {'this': '$$ROOT', 'eval': 'emit(1, this.a)'}}",
];

#[test]
fn expressions() {
    let values = odd_values();
    let few: Vec<&OwnedValue> = values.iter().step_by(5).collect();
    let mut walk = Walk::new();
    for name in operators::expr::names() {
        walk.expression(Value::Document(doc! { name: [] }.doc()));
        for v in &values {
            let v = v.get();
            for e in [
                doc! { name: v },
                doc! { name: [v] },
                doc! { name: [v, v] },
                doc! { name: [v, v, v] },
                doc! { name: [v, v, v, v] },
                doc! { name: ["abc", v, 1i32] },
                doc! { name: { "date": v } },
                doc! { name: { "input": v } },
                doc! { name: { "x": v } },
            ] {
                walk.expression(Value::Document(e.doc()));
            }
        }
        for a in &few {
            for b in &few {
                walk.expression(Value::Document(doc! { name: [a.get(), b.get()] }.doc()));
            }
        }
        // With values of documents, which are unknown while parsing.
        for args in [
            doc! { name: "$a" },
            doc! { name: ["$a", "$a"] },
            doc! { name: ["$a", "$c", "$b"] },
        ] {
            walk.stage(&doc! { "$project": { "x": args.doc() } });
        }
        for i in 0..values.len() as i32 {
            walk.call(
                "test",
                &doc! { "aggregate": "c", "cursor": {}, "pipeline": [
                { "$match": { "_id": i } }, { "$project": { "x": { name: "$a" } } }] },
            );
            walk.call(
                "test",
                &doc! { "aggregate": "c", "cursor": {}, "pipeline": [
                { "$match": { "_id": i } }, { "$project": { "x": { name: ["$a", "$a"] } } }] },
            );
        }
    }
    for text in EXPRESSIONS {
        let t = template(text);
        for v in &values {
            mutations(t.doc(), v.get(), &mut |m| {
                walk.expression(Value::Document(m.doc()))
            });
        }
    }
    walk.end("expressions");
}

const ACCUMULATORS: &[&str] = &[
    "{'$firstN': {'input': '$c', 'n': 2}}",
    "{'$lastN': {'input': '$c', 'n': 2}}",
    "{'$maxN': {'input': '$c', 'n': 2}}",
    "{'$minN': {'input': '$c', 'n': 2}}",
    "{'$topN': {'output': '$a', 'sortBy': {'c': 1}, 'n': 2}}",
    "{'$bottomN': {'output': '$a', 'sortBy': {'c': 1}, 'n': 2}}",
    "{'$top': {'output': '$a', 'sortBy': {'c': 1}}}",
    "{'$bottom': {'output': '$a', 'sortBy': {'c': 1}}}",
    "{'$percentile': {'input': '$c', 'p': [0.5], 'method': 'approximate'}}",
    "{'$median': {'input': '$c', 'method': 'approximate'}}",
    "{'$accumulator': {'init': '() => 0', 'initArgs': [], 'accumulate': '(s, x) => s + 1', \
        'accumulateArgs': ['$a'], 'merge': '(a, b) => a + b', 'finalize': 's => s', 'lang': 'js'}}",
    "{'$_internalJsReduce': {'data': {'k': '$s', 'v': '$c'}, 'eval': '(k, v) => v.length'}}",
];

#[test]
fn accumulators() {
    let values = odd_values();
    let mut walk = Walk::new();
    let mut group = |spec: Doc<'_>| {
        walk.stage(&doc! { "$group": { "_id": Value::Null, "x": spec } });
        walk.stage(&doc! { "$bucketAuto": { "groupBy": "$c", "buckets": 2i32,
        "output": { "x": spec } } });
    };
    for name in operators::accumulator::names() {
        for v in &values {
            group(doc! { name: v.get() }.doc());
            group(doc! { name: { "input": v.get(), "n": 1i32 } }.doc());
        }
        group(doc! { name: "$a" }.doc());
    }
    for text in ACCUMULATORS {
        let t = template(text);
        for v in &values {
            mutations(t.doc(), v.get(), &mut |m| group(m.doc()));
        }
    }
    walk.end("accumulators");
}

/// Update operators with a valid argument.
const UPDATES: &[&str] = &[
    "{'$set': {'x.y': 1}}",
    "{'$unset': {'b.0': 1}}",
    "{'$setOnInsert': {'x': 1}}",
    "{'$inc': {'c': 1}}",
    "{'$mul': {'c': 2}}",
    "{'$min': {'c': 2}}",
    "{'$max': {'c': 2}}",
    "{'$rename': {'a': 'z'}}",
    "{'$currentDate': {'t': {'$type': 'timestamp'}}}",
    "{'$bit': {'c': {'and': 1}}}",
    "{'$push': {'b': {'$each': [1], '$slice': 2, '$sort': 1, '$position': 0}}}",
    "{'$addToSet': {'b': {'$each': [1]}}}",
    "{'$pop': {'b': 1}}",
    "{'$pull': {'b': {'$gt': 1}}}",
    "{'$pullAll': {'b': [1]}}",
];

#[test]
fn updates() {
    let values = odd_values();
    let mut walk = Walk::new();
    let mut update = |u: Value<'_>| {
        for id in [6i32, 45, 56] {
            walk.call(
                "test",
                &doc! { "update": "c", "updates": [
                { "q": { "_id": id }, "u": u, "upsert": false }] },
            );
        }
        walk.call(
            "test",
            &doc! { "findAndModify": "e", "query": { "_id": 1i32 }, "update": u,
            "upsert": true, "new": true },
        );
        walk.call(
            "test",
            &doc! { "delete": "e", "deletes": [{ "q": {}, "limit": 0i32 }] },
        );
    };
    for v in &values {
        update(v.get());
        for text in UPDATES {
            let t = template(text);
            mutations(t.doc(), v.get(), &mut |m| update(Value::Document(m.doc())));
            let name = t.doc().first().map_or("", |(n, _)| n);
            for path in [
                "a", "a.b", "b.0", "b.$[]", "b.$", "b.$[i]", "", "a.", "$a", "_id", "b.-1",
            ] {
                update(Value::Document(doc! { name: { path: v.get() } }.doc()));
            }
        }
    }
    walk.end("updates");
}

/// Query operators with a valid argument.
const QUERIES: &[&str] = &[
    "{'a': {'$eq': 1}}",
    "{'a': {'$ne': 1}}",
    "{'a': {'$gt': 1, '$lt': 5}}",
    "{'a': {'$gte': 1}}",
    "{'a': {'$lte': 1}}",
    "{'a': {'$in': [1, 'x']}}",
    "{'a': {'$nin': [1]}}",
    "{'a': {'$not': {'$gt': 1}}}",
    "{'a': {'$exists': true}}",
    "{'a': {'$type': ['int', 2]}}",
    "{'a': {'$mod': [2, 0]}}",
    "{'a': {'$regex': 'a', '$options': 'i'}}",
    "{'b': {'$size': 2}}",
    "{'b': {'$all': [1]}}",
    "{'b': {'$elemMatch': {'$gt': 1}}}",
    "{'a': {'$bitsAllSet': [1]}}",
    "{'a': {'$bitsAnyClear': 5}}",
    "{'g': {'$geoWithin': {'$geometry': {'type': 'Polygon', 'coordinates': [[[0, 0], [1, 0], [1, \
        1], [0, 0]]]}}}}",
    "{'g': {'$geoWithin': {'$centerSphere': [[0, 0], 1]}}}",
    "{'g': {'$geoWithin': {'$box': [[0, 0], [1, 1]]}}}",
    "{'g': {'$geoIntersects': {'$geometry': {'type': 'LineString', 'coordinates': [[0, 0], [1, \
        1]]}}}}",
    "{'g': {'$near': {'$geometry': {'type': 'Point', 'coordinates': [0, 0]}, '$maxDistance': 5}}}",
    "{'g': {'$nearSphere': [0, 0], '$maxDistance': 1}}",
    "{'$and': [{'a': 1}]}",
    "{'$or': [{'a': 1}, {'b': 2}]}",
    "{'$nor': [{'a': 1}]}",
    "{'$expr': {'$gt': ['$a', 1]}}",
    "{'$jsonSchema': {'bsonType': 'object', 'required': ['a'], 'properties': {'a': {'bsonType': \
        'int', 'minimum': 1, 'maximum': 5, 'multipleOf': 2, 'enum': [1]}, 'b': {'bsonType': \
            'array', 'items': {'type': 'number'}, 'minItems': 1, 'uniqueItems': true, \
                'additionalItems': false}}, 'patternProperties': {'^x': {}}, \
                    'additionalProperties': true, 'dependencies': {'a': ['b']}, 'allOf': [{}], \
                        'not': {'required': ['q']}}}",
    "{'$where': 'this.c > 1'}",
    "{'$sampleRate': 0.5}",
    "{'$comment': 'x', 'a': 1}",
    "{'$text': {'$search': 'x', '$language': 'en', '$caseSensitive': true, '$diacriticSensitive': \
        true}}",
];

#[test]
fn queries() {
    let values = odd_values();
    let mut walk = Walk::new();
    for v in &values {
        for text in QUERIES {
            let t = template(text);
            mutations(t.doc(), v.get(), &mut |m| {
                walk.call("test", &doc! { "find": "c", "filter": m.doc() });
            });
        }
        for option in [
            "sort",
            "projection",
            "hint",
            "min",
            "max",
            "collation",
            "let",
        ] {
            walk.call("test", &doc! { "find": "c", option: v.get() });
            walk.call("test", &doc! { "find": "c", option: { "c": v.get() } });
        }
        walk.call(
            "test",
            &doc! { "find": "c", "projection": { "x": v.get(), "b": { "$slice": v.get() } } },
        );
        walk.call(
            "test",
            &doc! { "explain": { "find": "c", "filter": { "a": v.get() } } },
        );
        walk.call(
            "test",
            &doc! { "find": "c", "filter": { "c": v.get() }, "sort": { "c": 1i32 } },
        );
    }
    walk.end("queries");
}
