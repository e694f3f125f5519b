//! Why a value breaks a `$jsonSchema`: one report per keyword, in MongoDB's order of keywords. Each
//! keyword is checked with a schema that has only this keyword.

use super::considered::{NUMBERS, mismatch};
use crate::filter::json_schema::Schema;
use crate::filter::regex::Pattern;
use model::{Array, Doc, DocBuf, DocWriter, Value};

/// The report on a whole document.
pub(super) fn explain(schema: Doc<'_>, doc: Doc<'_>) -> Option<DocBuf> {
    let v = Value::Document(doc);
    // A type that documents never have: no other keyword was checked.
    for keyword in ["bsonType", "type"] {
        if schema.contains(keyword) && !holds(&only(schema, &[keyword]), v) {
            return Some(model::doc! {
                "operatorName": "$jsonSchema", "specifiedAs": { "$jsonSchema": schema },
                    "reason": "expression always evaluates to false"
            });
        }
    }
    let rules = rules(schema, v);
    (!rules.is_empty()).then(|| {
        DocBuf::build(|w| {
            w.put("operatorName", "$jsonSchema");
            annotate(schema, w);
            put_list(w, "schemaRulesNotSatisfied", &rules);
        })
    })
}

/// `title` and `description` of the schema's author.
fn annotate(schema: Doc<'_>, w: &mut DocWriter<'_>) {
    for name in ["title", "description"] {
        if let Some(v) = schema.get(name) {
            w.put(name, v);
        }
    }
}

fn put_list(w: &mut DocWriter<'_>, name: &str, items: &[DocBuf]) {
    let mut list = w.array(name);
    items.iter().for_each(|d| {
        list.push(d);
    });
}

/// The schema with only these keywords.
fn only(schema: Doc<'_>, keywords: &[&str]) -> DocBuf {
    DocBuf::build(|w| {
        for k in keywords {
            if let Some(v) = schema.get(k) {
                w.put(k, v);
            }
        }
    })
}

fn holds(schema: &DocBuf, v: Value<'_>) -> bool {
    Schema::parse(Value::Document(schema.doc())).is_ok_and(|s| s.matches(v).unwrap_or(false))
}

fn schema_holds(schema: Doc<'_>, v: Value<'_>) -> bool {
    holds(&schema.to_buf(), v)
}

fn int(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// Every keyword the value breaks.
fn rules(schema: Doc<'_>, v: Value<'_>) -> Vec<DocBuf> {
    let mut out = Vec::new();
    scalar(schema, v, &mut out);
    if let Value::Array(a) = v {
        array(schema, a, &mut out);
    }
    if let Value::Document(d) = v {
        object(schema, d, &mut out);
    }
    logical(schema, v, &mut out);
    for keyword in ["bsonType", "type"] {
        let alone = only(schema, &[keyword]);
        if schema.contains(keyword) && !holds(&alone, v) {
            out.push(DocBuf::build(|w| {
                w.put("operatorName", keyword)
                    .put("specifiedAs", &alone)
                    .put("reason", "type did not match");
                w.put("consideredValue", v)
                    .put("consideredType", v.type_name());
            }));
        }
    }
    out
}

/// Keyword, related keyword, types it applies to, types named in the report, reason.
type Scalar = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const LENGTH: &str = "specified string length was not satisfied";
const SCALARS: &[Scalar] = &[
    (
        "pattern",
        "",
        &["string"],
        &["regex", "string", "symbol"],
        "regular expression did not match",
    ),
    ("maxLength", "", &["string"], &["string"], LENGTH),
    ("minLength", "", &["string"], &["string"], LENGTH),
    (
        "multipleOf",
        "",
        NUMBERS,
        NUMBERS,
        "considered value is not a multiple of the specified value",
    ),
    (
        "maximum",
        "exclusiveMaximum",
        NUMBERS,
        NUMBERS,
        "comparison failed",
    ),
    (
        "minimum",
        "exclusiveMinimum",
        NUMBERS,
        NUMBERS,
        "comparison failed",
    ),
];

/// A keyword for strings or numbers accepts other values, unless the schema requires one of its
/// types.
fn scalar(schema: Doc<'_>, v: Value<'_>, out: &mut Vec<DocBuf>) {
    for (keyword, beside, about, expected, reason) in
        SCALARS.iter().filter(|s| schema.contains(s.0))
    {
        let spec = only(schema, &[keyword, beside]);
        let of_type = about.contains(&v.type_name());
        if of_type && !holds(&spec, v) {
            out.push(DocBuf::build(|w| {
                w.put("operatorName", *keyword)
                    .put("specifiedAs", &spec)
                    .put("reason", *reason)
                    .put("consideredValue", v);
            }));
        } else if !of_type && demands(schema, about) {
            out.push(DocBuf::build(|w| {
                w.put("operatorName", *keyword).put("specifiedAs", &spec);
                mismatch(&[v], expected, w);
                w.put("consideredValue", v);
            }));
        }
    }
}

/// The schema's `type` or `bsonType` names one of the types.
fn demands(schema: Doc<'_>, types: &[&str]) -> bool {
    let named = |v: Value<'_>| {
        v.as_str()
            .is_some_and(|t| types.contains(&t) || (t == "number" && types == NUMBERS))
    };
    ["bsonType", "type"].iter().any(|k| match schema.field(k) {
        Value::Array(a) => a.iter().any(named),
        v => named(v),
    })
}

fn array(schema: Doc<'_>, a: Array<'_>, out: &mut Vec<DocBuf>) {
    let whole = Value::Array(a);
    for keyword in ["minItems", "maxItems", "uniqueItems"] {
        let spec = only(schema, &[keyword]);
        if !schema.contains(keyword) || holds(&spec, whole) {
            continue;
        }
        out.push(DocBuf::build(|w| {
            w.put("operatorName", keyword).put("specifiedAs", &spec);
            if keyword == "uniqueItems" {
                w.put("reason", "found a duplicate item")
                    .put("consideredValue", whole);
                if let Some(v) = duplicate(a) {
                    w.put("duplicatedValue", v);
                }
            } else {
                w.put("reason", "array did not match specified length")
                    .put("consideredValue", whole);
            }
        }));
    }
    match schema.field("items") {
        Value::Document(each) => {
            out.extend(item(
                "items",
                "At least one item did not match the sub-schema",
                each,
                a,
                0,
            ));
        }
        Value::Array(tuple) => {
            positions(tuple, a, out);
            additional_items(schema, tuple.len(), a, out);
        }
        _ => {}
    }
}

fn duplicate(a: Array<'_>) -> Option<Value<'_>> {
    let mut seen = std::collections::HashSet::new();
    a.iter().find(|v| {
        let mut key = Vec::new();
        model::compare::equality_key(v, None, &mut key);
        !seen.insert(key)
    })
}

/// The first item from `from` on that breaks the schema for all of them.
fn item(keyword: &str, reason: &str, schema: Doc<'_>, a: Array<'_>, from: usize) -> Option<DocBuf> {
    let (at, v) = a
        .iter()
        .enumerate()
        .skip(from)
        .find(|(_, v)| !schema_holds(schema, *v))?;
    let details = rules(schema, v);
    Some(DocBuf::build(|w| {
        w.put("operatorName", keyword)
            .put("reason", reason)
            .put("itemIndex", int(at));
        put_list(w, "details", &details);
    }))
}

/// Items that break the schema of their position.
fn positions(tuple: Array<'_>, a: Array<'_>, out: &mut Vec<DocBuf>) {
    let broken = tuple
        .iter()
        .zip(a.iter())
        .enumerate()
        .filter_map(|(i, (s, v))| {
            let s = s.as_doc().filter(|s| !schema_holds(*s, v))?;
            let details = rules(s, v);
            Some(DocBuf::build(|w| {
                w.put("itemIndex", int(i));
                put_list(w, "details", &details);
            }))
        });
    let broken: Vec<DocBuf> = broken.collect();
    if !broken.is_empty() {
        out.push(DocBuf::build(|w| {
            w.put("operatorName", "items");
            put_list(w, "details", &broken);
        }));
    }
}

fn additional_items(schema: Doc<'_>, known: usize, a: Array<'_>, out: &mut Vec<DocBuf>) {
    match schema.field("additionalItems") {
        Value::Bool(false) if a.len() > known => out.push(DocBuf::build(|w| {
            w.put("operatorName", "additionalItems")
                .put("specifiedAs", &only(schema, &["additionalItems"]));
            w.put("reason", "found additional items");
            let mut list = w.array("additionalItems");
            a.iter().skip(known).for_each(|v| {
                list.push(v);
            });
        })),
        Value::Document(s) => {
            out.extend(item(
                "additionalItems",
                "At least one additional item did not match the sub-schema",
                s,
                a,
                known,
            ));
        }
        _ => {}
    }
}

fn object(schema: Doc<'_>, d: Doc<'_>, out: &mut Vec<DocBuf>) {
    properties(schema, d, out);
    pattern_properties(schema, d, out);
    additional_properties(schema, d, out);
    let missing = missing_names(schema.field("required"), d);
    if !missing.is_empty() {
        out.push(DocBuf::build(|w| {
            w.put("operatorName", "required")
                .put("specifiedAs", &only(schema, &["required"]));
            put_names(w, "missingProperties", &missing);
        }));
    }
    for keyword in ["minProperties", "maxProperties"] {
        let spec = only(schema, &[keyword]);
        if schema.contains(keyword) && !holds(&spec, Value::Document(d)) {
            out.push(DocBuf::build(|w| {
                w.put("operatorName", keyword).put("specifiedAs", &spec);
                w.put("reason", "specified number of properties was not satisfied")
                    .put("numberOfProperties", int(d.count()));
            }));
        }
    }
    dependencies(schema, d, out);
}

fn put_names(w: &mut DocWriter<'_>, name: &str, names: &[&str]) {
    let mut list = w.array(name);
    names.iter().for_each(|n| {
        list.push(*n);
    });
}

/// Names of the list the document lacks, sorted.
fn missing_names<'s>(list: Value<'s>, d: Doc<'_>) -> Vec<&'s str> {
    let names = list.as_array().unwrap_or(Array::EMPTY);
    let mut lacking: Vec<&str> = names
        .iter()
        .filter_map(|v| v.as_str())
        .filter(|n| !d.contains(n))
        .collect();
    lacking.sort_unstable();
    lacking
}

fn properties(schema: Doc<'_>, d: Doc<'_>, out: &mut Vec<DocBuf>) {
    let Value::Document(list) = schema.field("properties") else {
        return;
    };
    let broken = list.iter().filter_map(|(name, s)| {
        let (s, v) = (s.as_doc()?, d.get(name)?);
        if schema_holds(s, v) {
            return None;
        }
        let details = rules(s, v);
        Some(DocBuf::build(|w| {
            w.put("propertyName", name);
            annotate(s, w);
            put_list(w, "details", &details);
        }))
    });
    let broken: Vec<DocBuf> = broken.collect();
    if !broken.is_empty() {
        out.push(DocBuf::build(|w| {
            w.put("operatorName", "properties");
            put_list(w, "propertiesNotSatisfied", &broken);
        }));
    }
}

/// The patterns of `patternProperties`, compiled, with their schemas.
fn patterns<'s>(schema: Doc<'s>) -> Vec<(&'s str, Pattern, Doc<'s>)> {
    let list = schema
        .field("patternProperties")
        .as_doc()
        .unwrap_or(Doc::EMPTY);
    list.iter()
        .filter_map(|(p, s)| Some((p, Pattern::new(p, "").ok()?, s.as_doc()?)))
        .collect()
}

fn pattern_properties(schema: Doc<'_>, d: Doc<'_>, out: &mut Vec<DocBuf>) {
    let mut broken = Vec::new();
    for (source, pattern, s) in patterns(schema) {
        for (name, v) in d
            .iter()
            .filter(|(n, _)| pattern.matches(&Value::String(n)).unwrap_or(false))
        {
            if !schema_holds(s, v) {
                let details = rules(s, v);
                broken.push(DocBuf::build(|w| {
                    w.put("propertyName", name).put("regexMatched", source);
                    annotate(s, w);
                    put_list(w, "details", &details);
                }));
            }
        }
    }
    if !broken.is_empty() {
        out.push(DocBuf::build(|w| {
            w.put("operatorName", "patternProperties");
            put_list(w, "details", &broken);
        }));
    }
}

fn additional_properties(schema: Doc<'_>, d: Doc<'_>, out: &mut Vec<DocBuf>) {
    let setting = schema.field("additionalProperties");
    if matches!(setting, Value::Missing | Value::Bool(true)) {
        return;
    }
    let known = schema.field("properties").as_doc().unwrap_or(Doc::EMPTY);
    let patterns = patterns(schema);
    let named = |n: &str| {
        known.contains(n)
            || patterns
                .iter()
                .any(|(_, p, _)| p.matches(&Value::String(n)).unwrap_or(false))
    };
    let mut more = d.iter().filter(|(n, _)| !named(n));
    match setting {
        Value::Document(s) => {
            if let Some((name, v)) = more.find(|(_, v)| !schema_holds(s, *v)) {
                let details = rules(s, v);
                out.push(DocBuf::build(|w| {
                    w.put("operatorName", "additionalProperties");
                    w.put(
                        "reason",
                        "at least one additional property did not match the subschema",
                    )
                    .put("failingProperty", name);
                    put_list(w, "details", &details);
                }));
            }
        }
        _ => {
            let names: Vec<&str> = more.map(|(n, _)| n).collect();
            if !names.is_empty() {
                out.push(DocBuf::build(|w| {
                    w.put("operatorName", "additionalProperties")
                        .put("specifiedAs", &only(schema, &["additionalProperties"]));
                    put_names(w, "additionalProperties", &names);
                }));
            }
        }
    }
}

fn dependencies(schema: Doc<'_>, d: Doc<'_>, out: &mut Vec<DocBuf>) {
    let Value::Document(list) = schema.field("dependencies") else {
        return;
    };
    let mut broken = Vec::new();
    for (name, demand) in list.iter().filter(|(n, _)| d.contains(n)) {
        match demand {
            Value::Document(s) if !schema_holds(s, Value::Document(d)) => {
                let details = rules(s, Value::Document(d));
                broken.push(DocBuf::build(|w| {
                    w.put("conditionalProperty", name);
                    put_list(w, "details", &details);
                }));
            }
            Value::Array(_) => {
                let lacking = missing_names(demand, d);
                if !lacking.is_empty() {
                    broken.push(DocBuf::build(|w| {
                        w.put("conditionalProperty", name);
                        put_names(w, "missingProperties", &lacking);
                    }));
                }
            }
            _ => {}
        }
    }
    if !broken.is_empty() {
        out.push(DocBuf::build(|w| {
            w.put("operatorName", "dependencies");
            put_list(w, "failingDependencies", &broken);
        }));
    }
}

fn logical(schema: Doc<'_>, v: Value<'_>, out: &mut Vec<DocBuf>) {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let list: Vec<Doc<'_>> = schema
            .field(keyword)
            .as_array()
            .unwrap_or(Array::EMPTY)
            .iter()
            .filter_map(|s| s.as_doc())
            .collect();
        let matching: Vec<usize> = (0..list.len())
            .filter(|i| list.get(*i).is_some_and(|s| schema_holds(*s, v)))
            .collect();
        let fine = match keyword {
            "allOf" => matching.len() == list.len(),
            "anyOf" => !matching.is_empty(),
            _ => matching.len() == 1,
        };
        if list.is_empty() || fine {
            continue;
        }
        out.push(DocBuf::build(|w| {
            w.put("operatorName", keyword);
            if keyword == "oneOf" && matching.len() > 1 {
                w.put("reason", "more than one subschema matched");
                let mut indexes = w.array("matchingSchemaIndexes");
                matching.iter().for_each(|i| {
                    indexes.push(int(*i));
                });
                return;
            }
            let mut broken = w.array("schemasNotSatisfied");
            for (i, s) in list
                .iter()
                .enumerate()
                .filter(|(i, _)| !matching.contains(i))
            {
                let mut one = broken.doc();
                one.put("index", int(i));
                annotate(*s, &mut one);
                put_list(&mut one, "details", &rules(*s, v));
            }
        }));
    }
    if let Value::Document(s) = schema.field("not")
        && schema_holds(s, v)
    {
        out.push(model::doc! { "operatorName": "not", "reason": "child expression matched" });
    }
    let spec = only(schema, &["enum"]);
    if schema.contains("enum") && !holds(&spec, v) {
        out.push(DocBuf::build(|w| {
            w.put("operatorName", "enum").put("specifiedAs", &spec);
            w.put("reason", "value was not found in enum")
                .put("consideredValue", v);
        }));
    }
    if schema.contains("encrypt") && !holds(&only(schema, &["encrypt"]), v) {
        out.push(model::doc! { "operatorName": "encrypt", "reason": "value was not encrypted" });
    }
}
