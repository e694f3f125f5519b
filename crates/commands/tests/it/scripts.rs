//! JavaScript through commands: `$where`, `$function`, `$accumulator`, `mapReduce`.

use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher};
use model::{Doc, DocBuf, doc, extjson};
use std::sync::Arc;

struct Db {
    service: Arc<Dispatcher>,
    conn: Connection,
}

impl Db {
    fn new(scripting: bool) -> Db {
        let config = Config {
            replica_set: None,
            scripting,
            ..Config::default()
        };
        let service = serve(config, store());
        let conn = service.connect("127.0.0.1:50000");
        Db { service, conn }
    }

    fn run(&mut self, command: &str) -> DocBuf {
        let command = command.replace('\'', "\"");
        let command =
            extjson::parse_document(&command).unwrap_or_else(|e| panic!("{command}: {e}"));
        send(&self.service, &mut self.conn, "test", command.doc())
    }

    fn code(&mut self, command: &str) -> i64 {
        let reply = self.run(command);
        let of = |d: Doc<'_>| d.field("code").as_i64_exact();
        let first = reply
            .doc()
            .field("writeErrors")
            .as_array()
            .and_then(|a| a.get(0));
        of(reply.doc())
            .or(first.and_then(|v| of(v.as_doc()?)))
            .unwrap_or(0)
    }

    fn batch(&mut self, command: &str) -> String {
        let reply = self.run(command);
        match reply.doc().field("cursor").as_doc() {
            Some(c) => c.field("firstBatch").to_string(),
            None => panic!("{command}: {:?}", reply.doc()),
        }
    }
}

fn orders(scripting: bool) -> Db {
    let mut db = Db::new(scripting);
    let rows: Vec<String> = [
        ("A", 10, "a"),
        ("B", 20, "b"),
        ("A", 30, "c"),
        ("C", 5, "d"),
    ]
    .iter()
    .enumerate()
    .map(|(i, (k, n, s))| {
        format!("{{'_id': {i}, 'k': '{k}', 'n': {n}, 's': '{s}', 'l': [{n}, 1]}}")
    })
    .collect();
    db.run(&format!(
        "{{'insert': 'c', 'documents': [{}]}}",
        rows.join(", ")
    ));
    db
}

#[test]
fn where_filters_what_clients_ask() {
    let mut db = orders(true);
    let find = |w: &str| format!("{{'find': 'c', 'filter': {w}, 'projection': {{'_id': 1}}}}");
    for (filter, want) in [
        ("{'$where': 'this.n > 10'}", "[ { _id: 1 }, { _id: 2 } ]"),
        (
            "{'$where': 'return obj.k == \\'A\\' && fullObject'}",
            "[ { _id: 0 }, { _id: 2 } ]",
        ),
        (
            "{'$where': 'function() { return this.l[0] == this.n && this.k == \\'C\\' }'}",
            "[ { _id: 3 } ]",
        ),
        ("{'$where': {'$code': 'this.n == 5'}}", "[ { _id: 3 } ]"),
        ("{'k': 'A', '$where': 'this.n < 20'}", "[ { _id: 0 } ]"),
        (
            "{'$or': [{'$where': 'this.n == 5'}, {'n': 10}]}",
            "[ { _id: 0 }, { _id: 3 } ]",
        ),
        ("{'$nor': [{'$where': 'this.n != 5'}]}", "[ { _id: 3 } ]"),
        ("{'_id': 1, '$where': 'this.n == 20'}", "[ { _id: 1 } ]"),
        ("{'_id': 1, '$where': 'false'}", "[]"),
        (
            "{'$expr': {'$function': {'body': 'n => n > 15', 'args': ['$n'], 'lang': 'js'}}}",
            "[ { _id: 1 }, { _id: 2 } ]",
        ),
    ] {
        let filter = filter.replace("\\'", "\\\"");
        assert_eq!(db.batch(&find(&filter)), want, "{filter}");
    }
    db.run("{'createIndexes': 'c', 'indexes': [{'key': {'k': 1}, 'name': 'k'}]}");
    assert_eq!(
        db.batch(&find("{'k': 'A', '$where': 'this.n < 20'}")),
        "[ { _id: 0 } ]"
    );
    let n = |reply: DocBuf| reply.doc().field("n").as_i64_exact();
    assert_eq!(
        n(db.run("{'count': 'c', 'query': {'$where': 'this.n > 10'}}")),
        Some(2)
    );
    assert_eq!(
        n(db.run("{'count': 'c', 'query': {'k': 'A', '$where': 'this.n > 10'}}")),
        Some(1)
    );
    let values = db.run("{'distinct': 'c', 'key': 'k', 'query': {'$where': 'this.n > 10'}}");
    assert_eq!(
        values.doc().field("values").as_array().map(|a| a.len()),
        Some(2)
    );
    let update = "{'update': 'c', 'updates': [{'q': {'$where': 'this.n > 10'}, 'u': {'$set': \
        {'x': 1}}, \
        'multi': true}]}";
    assert_eq!(n(db.run(update)), Some(2));
    let delete = "{'delete': 'c', 'deletes': [{'q': {'$where': 'this.n == 5'}, 'limit': 0}]}";
    assert_eq!(n(db.run(delete)), Some(1));
    let modify = "{'findAndModify': 'c', 'query': {'$where': 'this.n == 20'}, 'remove': true}";
    assert!(db.run(modify).doc().field("value").as_doc().is_some());
    let ops = "{'currentOp': 1, '$all': true, '$where': 'this.active == true', '$db': 'admin'}";
    assert_eq!(db.code(ops), 0);
}

#[test]
fn where_is_refused_where_it_may_not_stand() {
    let mut db = orders(true);
    db.run("{'create': 'v', 'viewOn': 'c', 'pipeline': []}");
    for (command, code) in [
        ("{'find': 'c', 'filter': {'$where': 5}}", 2),
        ("{'find': 'c', 'filter': {'$where': null}}", 2),
        ("{'find': 'c', 'filter': {'$where': ''}}", 2),
        (
            "{'find': 'c', 'filter': {'$where': {'$code': 'x', '$scope': {}}}}",
            4649201,
        ),
        (
            "{'find': 'c', 'filter': {'a': {'$elemMatch': {'$where': 'true'}}}}",
            2,
        ),
        ("{'find': 'c', 'filter': {'$where': 'this.x.y'}}", 139),
        ("{'find': 'c', 'filter': {'$where': 'this.'}}", 139),
        ("{'find': 'v', 'filter': {'$where': 'true'}}", 2),
        (
            "{'aggregate': 'c', 'pipeline': [{'$match': {'$where': 'true'}}], 'cursor': {}}",
            2,
        ),
        (
            "{'aggregate': 'c', 'pipeline': [{'$lookup': {'from': 'c', 'as': 'x', 'pipeline': \
                [{'$match': \
            {'$where': 'true'}}]}}], 'cursor': {}}",
            2,
        ),
        ("{'create': 'd', 'validator': {'$where': 'true'}}", 2),
        (
            "{'create': 'd', 'validator': {'$expr': {'$eq': [1, {'$function': {'body': 'x', \
                'args': [], \
            'lang': 'js'}}]}}}",
            4660800,
        ),
        (
            "{'createIndexes': 'c', 'indexes': [{'key': {'z': 1}, 'name': 'z', \
            'partialFilterExpression': {'$where': 'true'}}]}",
            2,
        ),
        (
            "{'update': 'c', 'updates': [{'q': {}, 'u': {'$pull': {'l': {'$where': 'true'}}}}]}",
            2,
        ),
        (
            "{'find': 'c', 'filter': {'$where': 'while (true);'}, 'maxTimeMS': 50}",
            50,
        ),
    ] {
        assert_eq!(db.code(command), code, "{command}");
    }
}

#[test]
fn without_the_engine_scripts_are_refused_as_in_mongod() {
    let mut db = orders(false);
    for (command, code) in [
        ("{'find': 'c', 'filter': {'$where': 'true'}}", 6108304),
        ("{'find': 'none', 'filter': {'$where': 'true'}}", 6108304),
        (
            "{'delete': 'c', 'deletes': [{'q': {'$where': 'true'}, 'limit': 0}]}",
            6108304,
        ),
        (
            "{'aggregate': 'c', 'pipeline': [{'$match': {'$where': 'true'}}], 'cursor': {}}",
            2,
        ),
        (
            "{'aggregate': 'c', 'pipeline': [{'$project': {'x': {'$function': {'body': 'x => x', \
                'args': [1], \
            'lang': 'js'}}}}], 'cursor': {}}",
            31264,
        ),
        (
            "{'aggregate': 'c', 'pipeline': [{'$group': {'_id': 1, 'x': {'$accumulator': {'init': \
                '() => 0', \
            'accumulate': 's => s', 'accumulateArgs': [], 'merge': 's => s', 'lang': 'js'}}}}], \
            'cursor': {}}",
            31264,
        ),
        (
            "{'mapReduce': 'c', 'map': 'x', 'reduce': 'y', 'out': {'inline': 1}}",
            31264,
        ),
    ] {
        assert_eq!(db.code(command), code, "{command}");
    }
}

#[test]
fn function_and_accumulator_as_in_the_manual() {
    let mut db = Db::new(true);
    db.run(
        "{'insert': 'players', 'documents': [\
        {'_id': 1, 'name': 'Miss Cheevous', 'scores': [10, 5, 10]}, \
        {'_id': 2, 'name': 'Miss Ann Thrope', 'scores': [10, 10, 10]}, \
        {'_id': 3, 'name': 'Mrs. Eppie Delta ', 'scores': [9, 8, 8]}]}",
    );
    let pipeline = "{'aggregate': 'players', 'pipeline': [{'$addFields': {\
        'isFound': {'$function': {'body': 'function(name) { return hex_md5(name) == \
        \\\"15b0a220baa16331e8d80e15367677ad\\\" }', 'args': ['$name'], 'lang': 'js'}}, \
        'message': {'$function': {'body': 'function(name, scores) { let total = Array.sum(scores); \
        return `Hello ${name}. Your total score is ${total}.` }', 'args': ['$name', '$scores'], \
        'lang': 'js'}}}}, {'$project': {'isFound': 1, 'message': 1}}], 'cursor': {}}";
    assert_eq!(
        db.batch(pipeline),
        "[ { _id: 1, isFound: false, message: \"Hello Miss Cheevous. Your total score is 25.\" }, \
           { _id: 2, isFound: true, message: \"Hello Miss Ann Thrope. Your total score is 30.\" }, \
           { _id: 3, isFound: false, message: \"Hello Mrs. Eppie Delta . Your total score is \
               25.\" } ]"
    );
    db.run(
        "{'insert': 'books', 'documents': [\
        {'_id': 8751, 'author': 'Dante', 'copies': 2}, {'_id': 8752, 'author': 'Dante', 'copies': \
            1}, \
        {'_id': 8645, 'author': 'Dante', 'copies': 2}, {'_id': 7000, 'author': 'Homer', 'copies': \
            10}, \
        {'_id': 7020, 'author': 'Homer', 'copies': 10}]}",
    );
    let average = "{'aggregate': 'books', 'pipeline': [{'$group': {'_id': '$author', 'avgCopies': \
        {'$accumulator': {'init': 'function() { return { count: 0, sum: 0 } }', \
        'accumulate': 'function(state, numCopies) { return { count: state.count + 1, \
        sum: state.sum + numCopies } }', 'accumulateArgs': ['$copies'], \
        'merge': 'function(a, b) { return { count: a.count + b.count, sum: a.sum + b.sum } }', \
        'finalize': 'function(state) { return (state.sum / state.count) }', 'lang': 'js'}}}}, \
        {'$sort': {'_id': 1}}], 'cursor': {}}";
    assert_eq!(
        db.batch(average),
        "[ { _id: \"Dante\", avgCopies: 1.6666666666666667 }, { _id: \"Homer\", avgCopies: 10.0 } ]"
    );
    let by_key = average
        .replace("'_id': '$author'", "'_id': {'a': '$author'}")
        .replace(
            "'init': 'function() {",
            "'initArgs': ['$a'], 'init': 'function(who) {",
        )
        .replace("count: 0,", "count: who == `Dante` ? 3 : 0,");
    assert!(
        db.batch(&by_key)
            .starts_with("[ { _id: { a: \"Dante\" }, avgCopies: 0.8333")
    );
    let many: Vec<String> = (0..2500)
        .map(|i| format!("{{'_id': {i}, 'n': 1}}"))
        .collect();
    db.run(&format!(
        "{{'insert': 'many', 'documents': [{}]}}",
        many.join(", ")
    ));
    let count = average
        .replace("books", "many")
        .replace("$author", "")
        .replace("$copies", "$n");
    let count = count
        .replace("'_id': ''", "'_id': null")
        .replace("state.sum / state.count", "state.count");
    assert_eq!(db.batch(&count), "[ { _id: null, avgCopies: 2500.0 } ]");
}

const MANUAL: &str = "{'insert': 'orders', 'documents': [\
    {'_id': 1, 'cust_id': 'Ant O. Knee', 'price': 25, 'items': [{'sku': 'oranges', 'qty': 5, \
        'price': 2.5}, \
        {'sku': 'apples', 'qty': 5, 'price': 2.5}], 'status': 'A'}, \
    {'_id': 2, 'cust_id': 'Ant O. Knee', 'price': 70, 'items': [{'sku': 'oranges', 'qty': 8, \
        'price': 2.5}, \
        {'sku': 'chocolates', 'qty': 5, 'price': 10}], 'status': 'A'}, \
    {'_id': 3, 'cust_id': 'Busby Bee', 'price': 50, 'items': [{'sku': 'oranges', 'qty': 10, \
        'price': 2.5}, \
        {'sku': 'pears', 'qty': 10, 'price': 2.5}], 'status': 'A'}, \
    {'_id': 4, 'cust_id': 'Cam Elot', 'price': 35, 'items': [{'sku': 'carrots', 'qty': 10, \
        'price': 1}], \
        'status': 'B'}]}";

#[test]
fn map_reduce_as_in_the_manual() {
    let mut db = Db::new(true);
    db.run(MANUAL);
    let results = |reply: DocBuf| match reply.doc().field("results").as_array() {
        Some(a) => model::Value::Array(a).to_string(),
        None => panic!("{:?}", reply.doc()),
    };
    let totals = "{'mapReduce': 'orders', 'map': 'function() { emit(this.cust_id, this.price) }', \
        'reduce': 'function(k, prices) { return Array.sum(prices) }', MORE}";
    let with = |more: &str| totals.replace("MORE", more);
    assert_eq!(
        results(db.run(&with("'out': {'inline': 1}"))),
        "[ { _id: \"Ant O. Knee\", value: 95.0 }, { _id: \"Busby Bee\", value: 50.0 }, \
           { _id: \"Cam Elot\", value: 35.0 } ]"
    );
    assert_eq!(
        results(db.run(&with(
            "'out': {'inline': 1}, 'query': {'status': 'A'}, 'sort': {'price': -1}, \
            'limit': 2, 'jsMode': true, 'verbose': true"
        ))),
        "[ { _id: \"Ant O. Knee\", value: 70.0 }, { _id: \"Busby Bee\", value: 50.0 } ]"
    );
    assert_eq!(
        results(db.run(&with(
            "'out': {'inline': 1}, 'scope': {'rate': 2}, 'limit': 2, \
            'finalize': 'function(k, v) { return { total: v * rate } }'"
        ))),
        "[ { _id: \"Ant O. Knee\", value: { total: 190.0 } } ]"
    );
    let items = "{'mapReduce': 'orders', 'map': 'function() { for (var idx = 0; idx < \
        this.items.length; \
        idx++) { var key = this.items[idx].sku; var value = { count: 1, qty: this.items[idx].qty \
            }; \
        emit(key, value) } }', 'reduce': 'function(keySKU, countObjVals) { reducedVal = { count: \
            0, qty: 0 }; \
        for (var idx = 0; idx < countObjVals.length; idx++) { reducedVal.count += \
            countObjVals[idx].count; \
        reducedVal.qty += countObjVals[idx].qty } return reducedVal }', \
        'finalize': 'function(key, reducedVal) { reducedVal.avg = reducedVal.qty / \
            reducedVal.count; \
        return reducedVal }', 'query': {'status': 'A'}, 'out': OUT}";
    let reply = db.run(&items.replace("OUT", "{'merge': 'example'}"));
    assert_eq!(
        reply.doc().field("result").as_str(),
        Some("example"),
        "{:?}",
        reply.doc()
    );
    let example = "{'find': 'example', 'filter': {'_id': 'oranges'}}";
    assert_eq!(
        db.batch(example),
        "[ { _id: \"oranges\", value: { count: 3.0, qty: 23.0, avg: 7.666666666666667 } } ]"
    );
    db.run(&with("'out': {'replace': 'sums'}"));
    db.run(&with("'out': {'reduce': 'sums'}"));
    assert_eq!(
        db.batch("{'find': 'sums', 'filter': {}, 'sort': {'_id': 1}}"),
        "[ { _id: \"Ant O. Knee\", value: 190.0 }, { _id: \"Busby Bee\", value: 100.0 }, \
           { _id: \"Cam Elot\", value: 70.0 } ]"
    );
    let reply = db.run(&with("'out': {'merge': 'sums', 'db': 'other'}"));
    let result = reply.doc().field("result").as_doc().map(|d| d.to_buf());
    assert_eq!(result, Some(doc! { "db": "other", "collection": "sums" }));
    db.run(
        "{'mapreduce': 'orders', 'map': 'function() { emit(1, 1) }', 'reduce': 'k => 1', \
        'out': 'sums'}",
    );
    assert_eq!(db.batch("{'find': 'sums'}"), "[ { _id: 1.0, value: 1.0 } ]");
}

#[test]
fn arguments_of_map_reduce() {
    let mut db = orders(true);
    db.run("{'create': 'v', 'viewOn': 'c', 'pipeline': []}");
    let base = "'map': 'function() { emit(1, 1) }', 'reduce': 'function() { return 1 }'";
    for (command, code) in [
        (format!("{{'mapReduce': 'c', {base}}}"), 40414),
        (format!("{{'mapReduce': 'c', {base}, 'out': 1}}"), 14),
        (format!("{{'mapReduce': 'c', {base}, 'out': {{}}}}"), 2),
        (
            format!("{{'mapReduce': 'c', {base}, 'out': {{'inline': 1, 'db': 'x'}}}}"),
            2,
        ),
        (
            format!("{{'mapReduce': 'c', {base}, 'out': {{'merge': 'a', 'reduce': 'b'}}}}"),
            2,
        ),
        (
            format!("{{'mapReduce': 'c', {base}, 'out': {{'inline': 1}}, 'limit': -1}}"),
            2,
        ),
        (
            format!("{{'mapReduce': 'c', {base}, 'out': {{'inline': 1}}, 'what': 1}}"),
            40415,
        ),
        (
            format!("{{'mapReduce': 'c', {base}, 'out': {{'inline': 1}}, 'scope': 1}}"),
            14,
        ),
        (
            format!("{{'mapReduce': 'v', {base}, 'out': {{'inline': 1}}}}"),
            166,
        ),
        (
            format!("{{'mapReduce': 1, {base}, 'out': {{'inline': 1}}}}"),
            73,
        ),
        (
            format!("{{'mapReduce': 'none', {base}, 'out': {{'inline': 1}}}}"),
            0,
        ),
        (
            "{'mapReduce': 'c', 'map': 1, 'reduce': 'x', 'out': 'y'}".into(),
            14,
        ),
        (
            "{'mapReduce': 'c', 'map': 'emit(1)', 'reduce': 'x', 'out': {'inline': 1}}".into(),
            31220,
        ),
        (
            "{'mapReduce': 'c', 'map': 'emit(1, 1)', 'reduce': 'throw 1', 'out': {'inline': 1}}"
                .into(),
            139,
        ),
    ] {
        assert_eq!(db.code(&command), code, "{command}");
    }
}

#[test]
fn map_reduce_is_explained() {
    let mut db = orders(true);
    let explain = "{'explain': {'mapReduce': 'c', 'map': 'emit(1, 1)', 'reduce': 'x', 'query': \
        {'n': 10}, 'out': {'inline': 1}}, 'verbosity': 'queryPlanner'}";
    let reply = db.run(explain);
    assert_eq!(db.code(explain), 0, "{:?}", reply.doc());
    assert!(reply.doc().contains("stages"), "{:?}", reply.doc());
}

#[test]
fn parameters_limit_scripts() {
    let mut db = orders(true);
    let set = |name: &str, n: i64| format!("{{'setParameter': 1, '{name}': {n}, '$db': 'admin'}}");
    assert_eq!(
        db.code(&set("internalQueryJavaScriptFnTimeoutMillis", 50)),
        0
    );
    assert_eq!(
        db.code("{'find': 'c', 'filter': {'$where': 'while (true);'}}"),
        11601
    );
    assert_eq!(
        db.code(&set("internalQueryJavaScriptHeapSizeLimitMB", 8)),
        0
    );
    let large = "{'find': 'c', 'filter': {'$where': 'new Array(4e6).fill(1).length > 0'}}";
    assert_eq!(db.code(large), 139);
    assert_eq!(db.code(&set("internalQueryMaxJsEmitBytes", 100)), 0);
    let emit = "{'mapReduce': 'c', 'map': 'for (i = 0; i < 50; i++) emit(i, i)', 'reduce': 'x', \
        'out': {'inline': 1}}";
    assert_eq!(db.code(emit), 31292);
    assert_eq!(db.code(&set("internalQueryMaxJsEmitBytes", 0)), 2);
    assert_eq!(
        db.code("{'find': 'c', 'filter': {'$where': 'this.n > 0'}}"),
        0
    );
}

/// Functions in `system.js` are available to `$where` and `mapReduce` in their database only;
/// `$function` does not see them, as in MongoDB.
#[test]
fn stored_functions_are_seen_by_where_and_map_reduce() {
    let mut db = orders(true);
    let stored = r#"{'insert': 'system.js', 'documents': [
        {'_id': 'isLarge', 'value': {'$code': 'function(n) { return n >= limit; }'}},
        {'_id': 'twice', 'value': {'$code': 'n => double(n)'}},
        {'_id': 'double', 'value': {'$code': 'function(n) { return 2 * n; }'}},
        {'_id': 'limit', 'value': 20}]}"#;
    assert_eq!(db.code(stored), 0);
    let large = "{'find': 'c', 'filter': {'$where': 'isLarge(this.n)'}, 'projection': {'n': 1}}";
    assert_eq!(db.batch(large), "[ { _id: 1, n: 20 }, { _id: 2, n: 30 } ]");
    let count = db.run("{'count': 'c', 'query': {'$where': 'twice(this.n) > 30'}}");
    assert_eq!(count.doc().field("n").as_i64_exact(), Some(2));
    let update = "{'update': 'c', 'updates': [{'q': {'$where': 'isLarge(this.n)'}, 'u': {'$set': \
        {'large': true}}, 'multi': true}]}";
    let updated = db.run(update);
    assert_eq!(updated.doc().field("nModified").as_i64_exact(), Some(2));
    let reduced = db.run(
        "{'mapReduce': 'c', 'map': 'function() { emit(this.k, twice(this.n)); }', 'reduce': \
            'function(k, v) { return Array.sum(v); }', 'query': {'k': 'A'}, 'out': {'inline': 1}}",
    );
    let shown = reduced.doc().field("results").to_string();
    assert!(shown.contains("80"), "{shown}");
    let function = "{'aggregate': 'c', 'pipeline': [{'$project': {'x': {'$function': {'body': \
        'function(n) { return isLarge(n); }', 'args': ['$n'], 'lang': 'js'}}}}], 'cursor': {}}";
    assert_eq!(db.code(function), 139);
    // A function that is stored later is available from the next command on; a value that is not a
    // function makes the command fail.
    let replace = "{'update': 'system.js', 'updates': [{'q': {'_id': 'limit'}, 'u': {'$set': \
        {'value': 30}}}]}";
    assert_eq!(db.code(replace), 0);
    assert_eq!(db.batch(large), "[ { _id: 2, n: 30 } ]");
    let unknown = "{'find': 'c', 'filter': {'$where': 'isSmall(this.n)'}}";
    assert_eq!(db.code(unknown), 139);
}
