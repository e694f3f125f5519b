//! Tables for both directions, and a test that each reverses the other.

use crate::Profile;
use crate::expr::check::{evaluate, json, table_of};

/// Value, canonical and relaxed form; each in relaxed extended JSON.
const FORMS: &[(&str, &str, &str)] = &[
    ("'s'", "'s'", "'s'"),
    ("true", "true", "true"),
    (
        "{'$numberLong': '1'}",
        "{'$numberLong': '1'}",
        "{'$numberLong': '1'}",
    ),
    ("{'b': 1}", "{'b': {'$numberInt': '1'}}", "{'b': 1}"),
    (
        "[1, [2.5]]",
        "[{'$numberInt': '1'}, [{'$numberDouble': '2.5'}]]",
        "[1, [2.5]]",
    ),
    ("1.0", "{'$numberDouble': '1'}", "1.0"),
];

/// A value under `v`, and the text of its wrapper. The test harness itself would convert the
/// wrapper, so it is compared as text.
const WRAPPERS: &[(&str, &str, &str)] = &[
    (
        "{'$numberDouble': 'NaN'}",
        "{ $numberDouble: \"NaN\" }",
        "{ $numberDouble: \"NaN\" }",
    ),
    ("{'$numberInt': '7'}", "{ $numberInt: \"7\" }", "7"),
    ("{'$numberLong': '7'}", "{ $numberLong: \"7\" }", "7"),
    (
        "{'$numberDecimal': '123'}",
        "{ $numberDecimal: \"123\" }",
        "{ $numberDecimal: \"123\" }",
    ),
    (
        "{'$oid': '507f1f77bcf86cd799439011'}",
        "{ $oid: \"507f1f77bcf86cd799439011\" }",
        "{ $oid: \"507f1f77bcf86cd799439011\" }",
    ),
    (
        "{'$date': '2004-03-21T18:59:54.000Z'}",
        "{ $date: { $numberLong: \"1079895594000\" } }",
        "{ $date: \"2004-03-21T18:59:54.000Z\" }",
    ),
    (
        "{'$date': {'$numberLong': '-1'}}",
        "{ $date: { $numberLong: \"-1\" } }",
        "{ $date: { $numberLong: \"-1\" } }",
    ),
    (
        "{'$timestamp': {'t': 4294967295, 'i': 1}}",
        "{ $timestamp: { t: 4294967295, i: 1 } }",
        "{ $timestamp: { t: 4294967295, i: 1 } }",
    ),
    (
        "{'$binary': {'base64': 'AAEC', 'subType': '02'}}",
        "{ $binary: { base64: \"AAEC\", subType: \"02\" } }",
        "{ $binary: { base64: \"AAEC\", subType: \"02\" } }",
    ),
    (
        "{'$regularExpression': {'pattern': '^a', 'options': 'i'}}",
        "{ $regularExpression: { pattern: \"^a\", options: \"i\" } }",
        "{ $regularExpression: { pattern: \"^a\", options: \"i\" } }",
    ),
    (
        "{'$code': 'f', '$scope': {'a': 1}}",
        "{ $code: \"f\", $scope: { a: { $numberInt: \"1\" } } }",
        "{ $code: \"f\", $scope: { a: { $numberInt: \"1\" } } }",
    ),
    (
        "{'$dbPointer': {'$ref': 'a.b', '$id': {'$oid': '507f1f77bcf86cd799439011'}}}",
        "{ $dbPointer: { $ref: \"a.b\", $id: { $oid: \"507f1f77bcf86cd799439011\" } } }",
        "{ $dbPointer: { $ref: \"a.b\", $id: { $oid: \"507f1f77bcf86cd799439011\" } } }",
    ),
    ("{'$code': 'f'}", "{ $code: \"f\" }", "{ $code: \"f\" }"),
    (
        "{'$symbol': 'z'}",
        "{ $symbol: \"z\" }",
        "{ $symbol: \"z\" }",
    ),
    ("{'$minKey': 1}", "{ $minKey: 1 }", "{ $minKey: 1 }"),
    (
        "{'$undefined': true}",
        "{ $undefined: true }",
        "{ $undefined: true }",
    ),
];

const BOTH_WAYS: &str = "{'$deserializeEJSON': {'input': {'$serializeEJSON':
    {'input': ['$v', {'a': '$v'}], 'relaxed': false}}}}";

#[test]
fn values_have_a_canonical_and_a_relaxed_form() {
    for (value, canonical, relaxed) in WRAPPERS {
        let doc = format!("{{'v': {value}}}");
        for (is_relaxed, wanted) in [(false, canonical), (true, relaxed)] {
            let spec = format!("{{'$serializeEJSON': {{'input': '$v', 'relaxed': {is_relaxed}}}}}");
            let got = evaluate(&spec, &doc).unwrap();
            assert_eq!(got.to_string(), *wanted, "{value}");
        }
    }
    for (value, canonical, relaxed) in FORMS {
        let spec = |relaxed: &str| format!("{{'$serializeEJSON': {{'input': '$v'{relaxed}}}}}");
        let doc = format!("{{'v': {value}}}");
        let of = |options: &str| evaluate(&spec(options), &doc).unwrap().to_string();
        // The harness converts wrappers in the expected text, so their text is compared.
        let shown = |text: &str| {
            let literal: serde_json::Value =
                serde_json::from_str(&text.replace('\'', "\"")).unwrap();
            show_json(&literal)
        };
        assert_eq!(of(", 'relaxed': false"), shown(canonical), "{value}");
        if !value.contains("$numberLong") {
            assert_eq!(of(""), shown(relaxed), "{value}");
        }
    }
}

/// JSON as messages show documents, wrappers included.
fn show_json(json: &serde_json::Value) -> String {
    match json {
        serde_json::Value::Object(fields) => {
            let all: Vec<_> = fields
                .iter()
                .map(|(n, v)| format!("{n}: {}", show_json(v)))
                .collect();
            format!("{{ {} }}", all.join(", "))
        }
        serde_json::Value::Array(items) => {
            let all: Vec<_> = items.iter().map(show_json).collect();
            format!("[ {} ]", all.join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn serializing_and_deserializing_return_the_same_value() {
    for (value, _, _) in WRAPPERS.iter().chain(FORMS) {
        let doc = format!("{{'v': {value}}}");
        let got = evaluate(BOTH_WAYS, &doc).unwrap();
        let wanted = json(&format!("[{value}, {{'a': {value}}}]"));
        assert_eq!(got, wanted, "{value}");
    }
}

#[test]
fn malformed_wrappers_and_arguments_are_refused() {
    let mut rows = Vec::new();
    // The harness would convert literal wrappers, so the expression builds them.
    for (name, inner) in [
        ("$numberLong", "1"),
        ("$numberLong", "'bad'"),
        ("$numberLong", "'--1'"),
        ("$numberLong", "'Infinity'"),
        ("$numberInt", "'2147483648'"),
        ("$oid", "'12'"),
        ("$date", "'x'"),
        ("$minKey", "2"),
        ("$undefined", "false"),
        ("$timestamp", "{'t': -1, 'i': 0}"),
        ("$binary", "{'base64': '?', 'subType': '00'}"),
        ("$uuid", "'1'"),
    ] {
        let wrapper = format!(
            "{{'$arrayToObject': [[{{'k': {{'$literal': '{name}'}}, 'v': {{'$literal': \
                {inner}}}}}]]}}"
        );
        rows.push((
            format!("{{'$deserializeEJSON': {{'input': {wrapper}}}}}"),
            "!241",
        ));
        rows.push((
            format!("{{'$deserializeEJSON': {{'input': {wrapper}, 'onError': 'no'}}}}"),
            "'no'",
        ));
    }
    for (spec, wanted) in [
        ("{'$serializeEJSON': {'input': '$none'}}", "null"),
        ("{'$deserializeEJSON': {'input': '$none'}}", "null"),
        ("{'$serializeEJSON': {'input': 1, 'foo': 1}}", "!9"),
        ("{'$deserializeEJSON': {'input': 1, 'relaxed': true}}", "!9"),
        ("{'$serializeEJSON': {}}", "!9"),
        ("{'$serializeEJSON': 1}", "!9"),
        ("{'$serializeEJSON': {'input': 1, 'relaxed': 1}}", "!2"),
    ] {
        rows.push((spec.to_owned(), wanted));
    }
    for profile in Profile::ALL {
        for (spec, wanted) in &rows {
            table_of(profile, &[(spec, "{}", wanted)]);
        }
    }
}

#[test]
fn a_result_that_is_nested_too_deeply_fails() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let of = |relaxed: bool, more: &str| {
        format!(
            "{{'$eq': [null, {{'$serializeEJSON': {{'input': {{'$toArray': '{deep}'}}, \
                'relaxed': {relaxed}{more}}}}}]}}"
        )
    };
    table_of(
        Profile::V8_2,
        &[
            (&of(true, ""), "{}", "false"),
            (&of(false, ""), "{}", "!241"),
            (&of(false, ", 'onError': null"), "{}", "true"),
        ],
    );
}
