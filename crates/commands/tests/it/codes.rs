//! The codes that arguments get: each row is one rule and runs whole commands.

use crate::interrupts::{code, run};
use crate::protocol::service;

/// A value of each BSON type, as extended JSON, with the name of its type.
const TYPES: &[(&str, &str)] = &[
    ("double", "1.5"),
    ("string", r#""x""#),
    ("object", "{}"),
    ("array", "[]"),
    ("binData", r#"{"$binary": {"base64": "", "subType": "00"}}"#),
    ("objectId", r#"{"$oid": "000000000000000000000001"}"#),
    ("bool", "true"),
    ("date", r#"{"$date": {"$numberLong": "0"}}"#),
    ("null", "null"),
    (
        "regex",
        r#"{"$regularExpression": {"pattern": "a", "options": ""}}"#,
    ),
    ("javascript", r#"{"$code": "f"}"#),
    ("int", r#"{"$numberInt": "1"}"#),
    ("timestamp", r#"{"$timestamp": {"t": 1, "i": 1}}"#),
    ("long", r#"{"$numberLong": "1"}"#),
    ("decimal", r#"{"$numberDecimal": "1"}"#),
    ("minKey", r#"{"$minKey": 1}"#),
    ("maxKey", r#"{"$maxKey": 1}"#),
];

/// Commands with `@` in the place of a value, the accepted types, and the code for all other types.
const ACCEPTED: &[(&str, &[&str], i64)] = &[
    (
        r#"{"listDatabases": 1, "authorizedDatabases": @, "$db": "admin"}"#,
        &["bool", "null"],
        14,
    ),
    (
        r#"{"listCollections": 1, "authorizedCollections": @}"#,
        &["bool", "null"],
        14,
    ),
    (
        r#"{"cloneCollectionAsCapped": "c", "toCollection": @, "size": 4096}"#,
        &["string"],
        14,
    ),
    (
        r#"{"aggregate": 1, "pipeline": [{"$listLocalSessions": @}], "cursor": {}}"#,
        &["object"],
        14,
    ),
];

#[test]
fn a_type_is_accepted_as_declared() {
    let s = service();
    let mut wrong = Vec::new();
    for (command, accepted, refused) in ACCEPTED {
        for (name, value) in TYPES {
            run(&s, r#"{"drop": "x"}"#);
            run(&s, r#"{"insert": "c", "documents": [{}]}"#);
            let found = code(&run(&s, &command.replace('@', value)));
            let wanted = if accepted.contains(name) { 0 } else { *refused };
            if found != wanted {
                wrong.push(format!("{command}: {name} gives {found}, not {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Stages of a pipeline and their codes.
const STAGES: &[(&str, i64)] = &[
    (r#"{"$replaceRoot": {"newRoot": {}, "x": 1}}"#, 40415),
    (r#"{"$replaceRoot": {}}"#, 40414),
    (r#"{"$merge": 1}"#, 14),
    (r#"{"$merge": {}}"#, 40414),
    (r#"{"$merge": {"into": null}}"#, 51178),
    (r#"{"$merge": {"into": {"db": "x"}}}"#, 5786801),
    (r#"{"$merge": {"into": {"db": "", "coll": "d"}}}"#, 0),
    (r#"{"$listClusterCatalog": 1}"#, 9621302),
    (r#"{"$listClusterCatalog": {"shards": null}}"#, 14),
    (
        r#"{"$lookup": {"from": "c", "localField": "a", "foreignField": "b"}}"#,
        40414,
    ),
    (r#"{"$sort": {"a": {"$meta": "textScore", "b": 1}}}"#, 9),
    (r#"{"$sort": {"a": {"$meta": "indexKey"}}}"#, 31138),
    (r#"{"$group": {"_id": {"a": 1}}}"#, 17390),
    (r#"{"$group": {"_id": {"a": true}}}"#, 17390),
    (r#"{"$group": {"_id": {"a": "$a"}}}"#, 0),
    (
        r#"{"$setWindowFields": {"sortBy": {"a": -1}, "output": {"n": {"$sum": 1,
            "window": {"range": [-1, 1]}}}}}"#,
        8947401,
    ),
    (
        r#"{"$setWindowFields": {"sortBy": {"a": 1}, "output": {"n": {"$rank": {},
            "x": 1}}}}"#,
        5371601,
    ),
    (
        r#"{"$setWindowFields": {"sortBy": {"a": 1, "b": 1}, "output": {"n":
            {"$documentNumber": {}}}}}"#,
        5371602,
    ),
    (
        r#"{"$facet": {"f": [{"$listClusterCatalog": {}}]}}"#,
        9621301,
    ),
    (r#"{"$facet": {"f": [{"$listSessions": {}}]}}"#, 73),
    (r#"{"$facet": {"f": [{"$listLocalSessions": {}}]}}"#, 73),
    (r#"{"$facet": {"f": [{"$collStats": {}}]}}"#, 40600),
    (r#"{"$facet": {"f": [1]}}"#, 40171),
    (r#"{"$facet": {"f": [null]}}"#, 40171),
    (r#"{"$merge": {"into": "d", "on": null}}"#, 51186),
    (r#"{"$merge": {"into": "d", "on": 1}}"#, 51186),
    // The innermost enclosing stage is reported first, then the outer ones.
    (
        r#"{"$facet": {"f": [{"$lookup": {"from": "c", "pipeline": [{"$out": "x"}],
            "as": "a"}}]}}"#,
        51047,
    ),
    (
        r#"{"$facet": {"f": [{"$lookup": {"from": "c", "pipeline": [{"$collStats": {}}],
            "as": "a"}}]}}"#,
        40600,
    ),
    (
        r#"{"$limit": 1}, {"$geoNear": {"near": [0, 0], "distanceField": "d"}}"#,
        40603,
    ),
    // Expressions.
    (
        r#"{"$set": {"a": {"$mod": [1, {"$numberDecimal": "0"}]}}}"#,
        5733415,
    ),
    (
        r#"{"$set": {"a": {"$mod": [{"$add": ["$_id", 1]}, 0]}}}"#,
        16610,
    ),
    (
        r#"{"$set": {"a": {"$dateTrunc": {"date": {"$add": ["$d", 0]}, "unit": "day",
            "binSize": {"$numberLong": "9223372036854775807"}}}}}"#,
        5439002,
    ),
    (
        r#"{"$set": {"a": {"$dateTrunc": {"date": {"$add": ["$d", 0]}, "unit": "year",
            "binSize": {"$numberLong": "100000000001"}}}}}"#,
        5439006,
    ),
    (
        r#"{"$set": {"a": {"$convert": {"input": {"$add": [{"$add": ["$d", 0]},
            {"$numberLong": "400000000000000"}]}, "to": "string", "onError": 1}}}}"#,
        0,
    ),
    // When a non-constant operand is null, the constant operands are not checked.
    (
        r#"{"$set": {"a": {"$setUnion": [{"$literal": "x"}, "$none"]}}}"#,
        0,
    ),
    // Filters.
    (
        r#"{"$match": {"a": {"$regex": "a", "$options": "\u0000"}}}"#,
        51108,
    ),
];

#[test]
fn stages_are_answered_by_rule() {
    let s = service();
    run(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 7, "a": 1,
            "d": {"$date": {"$numberLong": "0"}}}]}"#,
    );
    let mut wrong = Vec::new();
    for (stages, wanted) in STAGES {
        let command = format!(r#"{{"aggregate": "c", "pipeline": [{stages}], "cursor": {{}}}}"#);
        let found = code(&run(&s, &command));
        if found != *wanted {
            wrong.push(format!("{stages}: {found}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Commands and their codes, executed in order on one database.
const COMMANDS: &[(&str, i64)] = &[
    (r#"{"dropDatabase": "x"}"#, 14),
    (r#"{"dropDatabase": null}"#, 40414),
    (r#"{"dropDatabase": {"$numberLong": "1"}}"#, 0),
    (r#"{"planCacheClear": "none", "projection": {"a": 1}}"#, 0),
    (
        r#"{"create": "v", "viewOn": "c", "clusteredIndex": {"key": {"_id": 1},
        "unique": true}}"#,
        6026500,
    ),
    (
        r#"{"create": "k", "capped": true, "size": 4096, "clusteredIndex": {"key": {"_id": 1},
        "unique": true}}"#,
        6049200,
    ),
    (
        r#"{"create": "k", "max": 4, "clusteredIndex": {"key": {"_id": 1},
        "unique": true}}"#,
        6049204,
    ),
    (r#"{"create": "k", "clusteredIndex": true}"#, 5979703),
    (
        r#"{"create": "k", "clusteredIndex": {"key": {"_id": 1}, "unique": true,
        "v": 1}}"#,
        5979704,
    ),
    (r#"{"create": "k", "clusteredIndex": null}"#, 14),
    (
        r#"{"create": "k", "clusteredIndex": {"key": {"_id": 1}, "unique": 1}}"#,
        0,
    ),
    (r#"{"create": "s", "size": 4096}"#, 72),
    (r#"{"create": "s"}"#, 0),
    (r#"{"convertToCapped": "s"}"#, 72),
    (r#"{"convertToCapped": "s", "size": "x"}"#, 72),
    (r#"{"convertToCapped": "s", "size": 0}"#, 72),
    (r#"{"convertToCapped": "s", "size": 4096}"#, 0),
    (r#"{"collMod": "s", "dryRun": 1}"#, 72),
    (
        r#"{"find": "s", "filter": {"a": {"$near": {"$geometry": {"type": "Point",
            "coordinates": [0, 0]}, "$minDistance": {"$numberDouble": "Infinity"}}}}}"#,
        2,
    ),
    // A view accepts storage options and does not store them.
    (
        r#"{"create": "w", "viewOn": "s", "capped": true, "size": 4096,
            "validationAction": "warn"}"#,
        0,
    ),
    (r#"{"create": "x", "viewOn": "s", "capped": true}"#, 72),
    (
        r#"{"create": "x", "viewOn": "s", "expireAfterSeconds": 9}"#,
        72,
    ),
    (
        r#"{"create": "x", "viewOn": "s", "changeStreamPreAndPostImages": {"enabled":
            true}}"#,
        72,
    ),
    (r#"{"create": "p"}"#, 0),
    (
        r#"{"create": "p", "storageEngine": {}, "indexOptionDefaults": {}}"#,
        0,
    ),
    (
        r#"{"create": "x", "storageEngine": {"wiredTiger": {"configString": "nope=1"}}}"#,
        2,
    ),
    (r#"{"drop": "system.views"}"#, 0),
    (r#"{"count": "w", "limit": 1}"#, 0),
    (r#"{"collStats": "w"}"#, 0),
    // Limits of count.
    (r#"{"count": "c", "limit": [1]}"#, 2),
    (r#"{"count": "c", "limit": null}"#, 2),
    (r#"{"count": "c", "limit": 1.5}"#, 9),
    (r#"{"count": "c", "limit": {"$numberDecimal": "NaN"}}"#, 9),
    (
        r#"{"count": "c", "limit": {"$numberLong": "-9223372036854775808"}}"#,
        2,
    ),
    (r#"{"count": "c", "limit": -3}"#, 0),
    // Changes of indexes.
    (
        r#"{"createIndexes": "i", "indexes": [{"key": {"a": 1}, "name": "a"},
        {"key": {"h": 1}, "name": "h", "hidden": true},
        {"key": {"t": "text"}, "name": "t", "hidden": true}]}"#,
        0,
    ),
    (
        r#"{"collMod": "i", "index": {"name": "a", "prepareUnique": true, "hidden": true}}"#,
        72,
    ),
    (
        r#"{"collMod": "i", "index": {"name": "a", "prepareUnique": true,
            "expireAfterSeconds": 9}}"#,
        72,
    ),
    (
        r#"{"collMod": "i", "index": {"name": "a", "prepareUnique": true, "hidden": false}}"#,
        0,
    ),
    (
        r#"{"collMod": "i", "index": {"name": "a", "unique": 0}}"#,
        2,
    ),
    (
        r#"{"collMod": "i", "index": {"name": "a", "expireAfterSeconds": -1}}"#,
        72,
    ),
    (
        r#"{"collMod": "i", "index": {"name": "h", "expireAfterSeconds": 1e99}}"#,
        0,
    ),
    // No query can use a hidden index.
    (r#"{"find": "i", "hint": "h"}"#, 2),
    (r#"{"find": "i", "hint": "h", "min": {"h": 1}}"#, 2),
    (
        r#"{"find": "i", "filter": {"$text": {"$search": "x"}}}"#,
        291,
    ),
    // Fields next to a wildcard have one value.
    (
        r#"{"createIndexes": "w2", "indexes": [{"key": {"a": 1, "$**": 1}, "name": "w",
        "wildcardProjection": {"a": 0}}]}"#,
        0,
    ),
    (
        r#"{"createIndexes": "w3", "indexes": [{"key": {"$**": 1, "b.$**": 1},
            "name": "w"}]}"#,
        7246201,
    ),
    // A geometry operator must be the only operator on its field.
    (
        r#"{"find": "i", "filter": {"g": {"$geoWithin": {"$center": [[0, 0], 1]},
            "$exists": true}}}"#,
        2,
    ),
    (
        r#"{"find": "i", "filter": {"$and": [{"g": {"$geoWithin": {"$center": [[0, 0], 1]}}},
        {"g": {"$exists": true}}]}}"#,
        0,
    ),
    (
        r#"{"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}}"#,
        0,
    ),
    (
        r#"{"find": "ts", "filter": {"m.l": {"$near": [0, 0]}}}"#,
        5626500,
    ),
];

/// Writes, each to `{_id: 1, a: [1, 2], $d: 1}`, and the code of their first error.
const WRITES: &[(&str, i64)] = &[
    (r#"{"$inc": {"$d": 1}}"#, 52),
    (r#"{"$inc": {"$d": 0, "b": 1}}"#, 0),
    (r#"{"$set": {"$e": 1}}"#, 52),
];

#[test]
fn a_prefixed_field_stays_as_it_is() {
    let s = service();
    run(
        &s,
        r#"{"insert": "c", "documents": [{"_id": 1, "a": [1, 2], "$d": 1}]}"#,
    );
    for (change, wanted) in WRITES {
        let command = format!(r#"{{"findAndModify": "c", "query": {{}}, "update": {change}}}"#);
        assert_eq!(code(&run(&s, &command)), *wanted, "{change}");
    }
}

#[test]
fn a_replacement_without_id_is_a_change() {
    let s = service();
    run(&s, r#"{"insert": "c", "documents": [{"_id": 1, "x": 5}]}"#);
    for (replacement, wanted) in [(r#"{"x": 5}"#, 1), (r#"{"_id": 1, "x": 5}"#, 0)] {
        let command =
            format!(r#"{{"update": "c", "updates": [{{"q": {{"_id": 1}}, "u": {replacement}}}]}}"#);
        let reply = run(&s, &command);
        let modified = reply.doc().field("nModified").as_i64_exact();
        assert_eq!(modified, Some(wanted), "{replacement}");
    }
}

#[test]
fn a_field_beside_a_wildcard_holds_no_array() {
    let s = service();
    let wildcard = |name: &str| {
        format!(
            r#"{{"createIndexes": "{name}", "indexes": [{{"key": {{"a": 1, "$**": 1}}, "name": "w",
                "wildcardProjection": {{"a": 0}}}}]}}"#
        )
    };
    run(
        &s,
        r#"{"insert": "there", "documents": [{"_id": 1, "a": [1, 2]}]}"#,
    );
    assert_eq!(code(&run(&s, &wildcard("there"))), 7_246_301);
    assert_eq!(code(&run(&s, &wildcard("c"))), 0);
    let first = |reply: model::DocBuf| {
        let errors = reply.doc().field("writeErrors").as_array();
        let first = errors
            .and_then(|e| e.iter().next())
            .and_then(|e| e.as_doc());
        first
            .and_then(|d| d.field("code").as_i64_exact())
            .unwrap_or(0)
    };
    let insert = r#"{"insert": "c", "documents": [{"_id": 1, "a": 1, "b": [1, 2]}]}"#;
    assert_eq!(first(run(&s, insert)), 0);
    let insert = r#"{"insert": "c", "documents": [{"_id": 2, "a": [1]}]}"#;
    assert_eq!(first(run(&s, insert)), 7_246_301);
    let update = r#"{"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": [1]}}}]}"#;
    assert_eq!(first(run(&s, update)), 7_246_301);
}

#[test]
fn commands_are_answered_by_rule() {
    let s = service();
    let mut wrong = Vec::new();
    for (command, wanted) in COMMANDS {
        let found = code(&run(&s, command));
        if found != *wanted {
            wrong.push(format!("{command}: {found}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_renamed_name_holds_no_null_byte() {
    let s = service();
    run(&s, r#"{"insert": "c", "documents": [{"_id": 1, "a": 1}]}"#);
    let reply = run(
        &s,
        r#"{"update": "c", "updates": [{"q": {}, "u": {"$rename": {"a": "b\u0000"}}}]}"#,
    );
    assert!(format!("{reply:?}").contains("9867600"), "{reply:?}");
}
