//! The explanations of each operator and keyword, as MongoDB documents them.

use super::*;
use model::doc;

fn explain(filter: &DocBuf, d: &DocBuf) -> Option<DocBuf> {
    explain_failure(filter.doc(), d.doc(), &Env::new(0, 1))
}

#[track_caller]
fn check(filter: DocBuf, d: DocBuf, expected: DocBuf) {
    assert_eq!(explain(&filter, &d), Some(expected), "{filter:?} on {d:?}");
}

#[test]
fn operators_tell_what_they_looked_at() {
    let gt = |n: i32| doc! { "a": { "$gt": n } };
    check(
        gt(5),
        doc! { "a": 1i32 },
        doc! { "operatorName": "$gt", "specifiedAs": &gt(5), "reason": "comparison failed",
        "consideredValue": 1i32 },
    );
    check(
        gt(5),
        doc! { "a": [1i32, 2i32] },
        doc! { "operatorName": "$gt", "specifiedAs": &gt(5), "reason": "comparison failed",
        "consideredValues": [1i32, 2i32] },
    );
    check(
        gt(5),
        doc! { "b": 1i32 },
        doc! { "operatorName": "$gt", "specifiedAs": &gt(5), "reason": "field was missing" },
    );
    check(
        doc! { "a": 2i32 },
        doc! { "a": 1i32 },
        doc! { "operatorName": "$eq", "specifiedAs": { "a": 2i32 }, "reason": "comparison failed",
        "consideredValue": 1i32 },
    );
    let ne = || doc! { "a": { "$ne": 2i32 } };
    check(
        ne(),
        doc! { "a": 2i32 },
        doc! { "operatorName": "$ne", "specifiedAs": &ne(), "reason": "comparison succeeded",
        "consideredValue": 2i32 },
    );
    let exists = |b: bool| doc! { "a": { "$exists": b } };
    check(
        exists(true),
        doc! {},
        doc! { "operatorName": "$exists", "specifiedAs": &exists(true), "reason": "path does not \
        exist" },
    );
}

#[test]
fn operators_tell_their_operands() {
    let exists = |b: bool| doc! { "a": { "$exists": b } };
    let gt = |n: i32| doc! { "a": { "$gt": n } };
    check(
        exists(false),
        doc! { "a": 1i32 },
        doc! { "operatorName": "$exists", "specifiedAs": &exists(false), "reason": "path does \
        exist" },
    );
    let t = || doc! { "a": { "$type": "int" } };
    check(
        t(),
        doc! { "a": "x" },
        doc! { "operatorName": "$type", "specifiedAs": &t(), "reason": "type did not match",
        "consideredValue": "x", "consideredType": "string" },
    );
    let size = || doc! { "a": { "$size": 1i32 } };
    check(
        size(),
        doc! { "a": 7i32 },
        doc! { "operatorName": "$size", "specifiedAs": &size(), "reason": "type did not match",
        "consideredType": "int", "expectedType": "array", "consideredValue": 7i32 },
    );
    check(
        size(),
        doc! { "a": [] },
        doc! { "operatorName": "$size", "specifiedAs": &size(), "reason": "array length was not \
        equal to given size", "consideredValue": [] },
    );
    let re = || doc! { "a": { "$regex": "^s", "$options": "i" } };
    check(
        re(),
        doc! { "a": 7i32 },
        doc! { "operatorName": "$regex", "specifiedAs": &re(), "reason": "type did not match",
        "consideredType": "int", "expectedTypes": ["regex", "string", "symbol"],
            "consideredValue": 7i32 },
    );
    let e = || doc! { "$expr": { "$gt": ["$a", "$b"] } };
    check(
        e(),
        doc! { "a": 1i32, "b": 2i32 },
        doc! { "operatorName": "$expr", "specifiedAs": &e(), "reason": "expression did not match",
        "expressionResult": false },
    );
    assert_eq!(explain(&gt(5), &doc! { "a": 6i32 }), None);
}

#[test]
fn lists_name_the_clauses() {
    let leaf = |name: &str, spec: DocBuf, reason: &str, v: i32| {
        doc! { "operatorName": name,
        "specifiedAs": &spec, "reason": reason, "consideredValue": v }
    };
    let a = || doc! { "a": { "$gt": 0i32 } };
    let b = || doc! { "b": { "$lt": 9i32 } };
    let d = || doc! { "a": -1i32, "b": 5i32 };
    let failed = || leaf("$gt", a(), "comparison failed", -1);
    let passed = || leaf("$lt", b(), "comparison succeeded", 5);
    let and = doc! { "operatorName": "$and", "clausesNotSatisfied": [{ "index": 0i32,
    "details": &failed() }] };
    check(doc! { "$and": [&a(), &b()] }, d(), and.clone());
    check(
        doc! { "a": { "$gt": 0i32 }, "b": { "$lt": 9i32 } },
        d(),
        and,
    );
    check(
        doc! { "$nor": [&a(), &b()] },
        d(),
        doc! { "operatorName": "$nor", "clausesSatisfied": [{ "index": 1i32,
        "details": &passed() }] },
    );
    check(
        doc! { "b": { "$not": { "$lt": 9i32 } } },
        d(),
        doc! { "operatorName": "$not", "details": &passed() },
    );
    let both = doc! { "$or": [&a(), { "b": 1i32 }] };
    let second = leaf("$eq", doc! { "b": 1i32 }, "comparison failed", 5);
    check(
        both,
        d(),
        doc! { "operatorName": "$or", "clausesNotSatisfied": [{ "index": 0i32,
        "details": &failed() }, { "index": 1i32, "details": &second }] },
    );
    check(
        doc! { "$nor": [{ "$jsonSchema": {} }] },
        d(),
        doc! { "operatorName": "$nor", "clausesSatisfied": [
        { "index": 0i32, "details": { "operatorName": "$jsonSchema",
            "reason": "schema matched" } }] },
    );
}

/// The rules that a document breaks.
fn rules(schema: DocBuf, d: DocBuf) -> Vec<DocBuf> {
    let found = explain(&doc! { "$jsonSchema": &schema }, &d).unwrap();
    let list = found
        .doc()
        .field("schemaRulesNotSatisfied")
        .as_array()
        .unwrap();
    list.iter().map(|v| v.as_doc().unwrap().to_buf()).collect()
}

/// The report on the property `a`.
fn report_on_property(schema: DocBuf, v: Value<'_>) -> Vec<DocBuf> {
    let rules = rules(doc! { "properties": { "a": &schema } }, doc! { "a": v });
    let list = rules[0]
        .doc()
        .field("propertiesNotSatisfied")
        .as_array()
        .unwrap();
    let one = list.get(0).unwrap().as_doc().unwrap();
    assert_eq!(one.field("propertyName").as_str(), Some("a"));
    one.field("details")
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_doc().unwrap().to_buf())
        .collect()
}

#[test]
fn schemas_name_properties_and_rules() {
    let schema = || {
        doc! { "title": "T", "required": ["c", "b"], "properties": { "a": {
        "bsonType": "int", "description": "a number", "minimum": 3i32 } } }
    };
    let wanted = doc! { "operatorName": "$jsonSchema", "title": "T", "schemaRulesNotSatisfied": [
    { "operatorName": "properties", "propertiesNotSatisfied": [{ "propertyName": "a",
        "description": "a number", "details": [
        { "operatorName": "minimum", "specifiedAs": { "minimum": 3i32 }, "reason": "comparison \
            failed", "consideredValue": 1i32 }] }] },
    { "operatorName": "required", "specifiedAs": { "required": ["c", "b"] },
        "missingProperties": ["b", "c"] }] };
    check(
        doc! { "$jsonSchema": &schema() },
        doc! { "a": 1i32 },
        wanted,
    );
    let number = || doc! { "$jsonSchema": { "type": "number" } };
    check(
        number(),
        doc! {},
        doc! { "operatorName": "$jsonSchema", "specifiedAs": &number(), "reason": "expression \
        always evaluates to false" },
    );
    let both = report_on_property(doc! { "type": "string", "pattern": "^S" }, Value::Int32(1));
    assert_eq!(
        both,
        [
            doc! { "operatorName": "pattern", "specifiedAs": { "pattern": "^S" },
            "reason": "type did not match", "consideredType": "int", "expectedTypes": ["regex",
                "string", "symbol"], "consideredValue": 1i32 },
            doc! { "operatorName": "type", "specifiedAs": { "type": "string" },
            "reason": "type did not match", "consideredValue": 1i32, "consideredType": "int" },
        ]
    );
    let exclusive = || doc! { "minimum": 1i32, "exclusiveMinimum": true };
    assert_eq!(
        report_on_property(exclusive(), Value::Int32(1)),
        [
            doc! { "operatorName": "minimum", "specifiedAs": &exclusive(), "reason": "comparison \
            failed", "consideredValue": 1i32 }
        ]
    );
}

#[test]
fn schemas_of_arrays() {
    let a = doc! { "v": [1i32, 2i32, 2i32] };
    let list = a.doc().field("v");
    let unique = report_on_property(doc! { "uniqueItems": true, "maxItems": 2i32 }, list);
    assert_eq!(
        unique,
        [
            doc! { "operatorName": "maxItems", "specifiedAs": { "maxItems": 2i32 },
            "reason": "array did not match specified length", "consideredValue": list },
            doc! { "operatorName": "uniqueItems", "specifiedAs": { "uniqueItems": true },
            "reason": "found a duplicate item", "consideredValue": list,
                "duplicatedValue": 2i32 },
        ]
    );
    let low = doc! { "operatorName": "maximum", "specifiedAs": { "maximum": 1i32 },
    "reason": "comparison failed", "consideredValue": 2i32 };
    let items = report_on_property(doc! { "items": { "maximum": 1i32 } }, list);
    assert_eq!(
        items,
        [
            doc! { "operatorName": "items", "reason": "At least one item did not match the \
            sub-schema", "itemIndex": 1i32, "details": [&low] }
        ]
    );
    let tuple = report_on_property(
        doc! { "items": [{}, { "maximum": 1i32 }], "additionalItems": false },
        list,
    );
    assert_eq!(
        tuple,
        [
            doc! { "operatorName": "items", "details": [{ "itemIndex": 1i32, "details": [&low] }] },
            doc! { "operatorName": "additionalItems", "specifiedAs": { "additionalItems": false },
            "reason": "found additional items", "additionalItems": [2i32] },
        ]
    );
}

#[test]
fn schemas_of_objects() {
    let d = || doc! { "_id": 1i32, "x": 1i32 };
    let closed = doc! { "additionalProperties": false, "properties": { "_id": {} },
    "minProperties": 3i32, "dependencies": { "x": ["y"] } };
    assert_eq!(
        rules(closed, d()),
        [
            doc! { "operatorName": "additionalProperties", "specifiedAs": {
            "additionalProperties": false }, "additionalProperties": ["x"] },
            doc! { "operatorName": "minProperties", "specifiedAs": { "minProperties": 3i32 },
            "reason": "specified number of properties was not satisfied",
                "numberOfProperties": 2i32 },
            doc! { "operatorName": "dependencies", "failingDependencies": [{
            "conditionalProperty": "x", "missingProperties": ["y"] }] },
        ]
    );
    let text = doc! { "operatorName": "type", "specifiedAs": { "type": "string" },
    "reason": "type did not match", "consideredValue": 1i32, "consideredType": "int" };
    assert_eq!(
        rules(
            doc! { "patternProperties": { "^x": { "type": "string" } } },
            d()
        ),
        [
            doc! { "operatorName": "patternProperties", "details": [{ "propertyName": "x",
            "regexMatched": "^x", "details": [&text] }] }
        ]
    );
    assert_eq!(
        rules(doc! { "anyOf": [{ "required": ["q"] }], "not": {} }, d()),
        [
            doc! { "operatorName": "anyOf", "schemasNotSatisfied": [{ "index": 0i32, "details": [
            { "operatorName": "required", "specifiedAs": { "required": ["q"] },
                "missingProperties": ["q"] }] }] },
            doc! { "operatorName": "not", "reason": "child expression matched" },
        ]
    );
    let one = report_on_property(
        doc! { "oneOf": [{ "minimum": 1i32 }, { "maximum": 3i32 }], "enum": [5i32] },
        Value::Int32(2),
    );
    assert_eq!(
        one,
        [
            doc! { "operatorName": "oneOf", "reason": "more than one subschema matched",
            "matchingSchemaIndexes": [0i32, 1i32] },
            doc! { "operatorName": "enum", "specifiedAs": { "enum": [5i32] }, "reason": "value was \
            not found in enum", "consideredValue": 2i32 },
        ]
    );
}
