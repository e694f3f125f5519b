//! Judges an outcome by a recorded expectation. Works on canonical extended JSON, where every BSON
//! type looks different.

use model::extjson::{Mode, from_document};
use model::{DocBuf, MongoError};
use serde_json::Value as Json;

/// What a step gave.
pub(crate) type Outcome = Result<DocBuf, MongoError>;

fn number(v: &Json) -> Option<f64> {
    let (key, text) = v.as_object().filter(|o| o.len() == 1)?.iter().next()?;
    matches!(
        key.as_str(),
        "$numberInt" | "$numberLong" | "$numberDouble" | "$numberDecimal"
    )
    .then(|| match text.as_str()? {
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        t => t.parse().ok(),
    })
    .flatten()
}

fn int(v: &Json) -> Option<i64> {
    v.as_i64().or_else(|| number(v).map(|n| n as i64))
}

/// Strict equality; the order of fields is free.
fn equal(a: &Json, e: &Json) -> bool {
    if let Some(want) = e
        .as_object()
        .filter(|o| o.len() == 1)
        .and_then(|o| o.get("$$approx"))
    {
        return match (number(a), number(want)) {
            (Some(x), Some(y)) => {
                x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= (y.abs() * 1e-6).max(1e-12)
            }
            _ => false,
        };
    }
    let double = |v: &Json| {
        v.get("$numberDouble")
            .and_then(|_| number(v))
            .map(f64::to_bits)
    };
    if let (Some(x), Some(y)) = (double(a), double(e)) {
        return x == y;
    }
    match (a, e) {
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, v)| y.get(k).is_some_and(|w| equal(v, w)))
        }
        (Json::Array(x), Json::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(v, w)| equal(v, w))
        }
        _ => a == e,
    }
}

/// Documents in any order, and lists under `lists` as well.
fn equal_any_order(got: &Json, want: &Json) -> bool {
    let (Some(got), Some(want)) = (got.as_array(), want.as_array()) else {
        return equal(got, want);
    };
    let mut left: Vec<&Json> = got.iter().collect();
    let all = want.iter().all(|w| {
        left.iter()
            .position(|g| equal(g, w))
            .map(|i| left.remove(i))
            .is_some()
    });
    all && left.is_empty()
}

fn sorted_lists(v: &Json, lists: &[&str]) -> Json {
    match v {
        Json::Array(a) => Json::Array(a.iter().map(|d| sorted_lists(d, lists)).collect()),
        Json::Object(o) => {
            let fields = o.iter().map(|(k, v)| {
                let mut v = v.clone();
                if let (true, Some(a)) = (lists.contains(&k.as_str()), v.as_array_mut()) {
                    a.sort_by_key(ToString::to_string);
                }
                (k.clone(), v)
            });
            Json::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn part(a: &Json, want: &Json) -> Json {
    match (a, want) {
        (Json::Object(x), Json::Object(y)) if !y.contains_key("$$approx") => Json::Object(
            y.keys()
                .filter_map(|k| x.get(k).map(|v| (k.clone(), part(v, &y[k]))))
                .collect(),
        ),
        (Json::Array(x), Json::Array(y)) => {
            Json::Array(x.iter().zip(y).map(|(v, w)| part(v, w)).collect())
        }
        _ => a.clone(),
    }
}

fn walk<'j>(doc: &'j Json, path: &str) -> Option<&'j Json> {
    path.split('.')
        .filter(|p| !p.is_empty())
        .try_fold(doc, |at, p| match at {
            Json::Array(a) => a.get(p.parse::<usize>().ok()?),
            Json::Object(o) => o.get(p),
            _ => None,
        })
}

fn type_name(v: &Json) -> &'static str {
    match v {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(o) => match o.keys().next().map(String::as_str) {
            Some("$numberInt") => "int",
            Some("$numberLong") => "long",
            Some("$numberDouble") => "double",
            Some("$numberDecimal") => "decimal",
            Some("$oid") => "objectId",
            Some("$date") => "date",
            Some("$timestamp") => "timestamp",
            Some("$binary") => "binData",
            _ => "object",
        },
        Json::Number(_) => "number",
    }
}

fn check(v: Option<&Json>, kind: &str, args: &Json) -> Option<bool> {
    let arg = |name: &str| &args[name];
    let has = |list: &Json| {
        list.as_array().map(|a| {
            a.iter().any(|x| {
                x.get(arg("key").as_str().unwrap_or(""))
                    .is_some_and(|w| equal(w, arg("value")))
            })
        })
    };
    let Some(v) = v else {
        return Some(matches!(kind, "NotExists" | "Ne" | "NotContains"));
    };
    Some(match kind {
        "Exists" => true,
        "NotExists" => false,
        "Eq" => equal(v, arg("expected")),
        "Ne" => !equal(v, arg("rejected")),
        "IsType" => arg("bson_type") == type_name(v),
        "Len" => v.as_array()?.len() as i64 == int(arg("expected"))?,
        "LenGt" => v.as_array()?.len() as i64 > int(arg("minimum"))?,
        "LenLte" => v.as_array()?.len() as i64 <= int(arg("maximum"))?,
        "Contains" => has(v)?,
        "NotContains" => !has(v)?,
        "ContainsElement" => v.as_array()?.iter().any(|x| equal(x, arg("element"))),
        "HasKey" => v.get(arg("key").as_str()?).is_some(),
        "Gt" => number(v)? > number(arg("minimum"))?,
        "Gte" => number(v)? >= number(arg("minimum"))?,
        "Lte" => number(v)? <= number(arg("maximum"))?,
        "NonEmptyStr" => v.as_str().is_some_and(|s| !s.is_empty()),
        "OrderedKeys" => {
            let keys: Vec<Json> = v
                .as_object()?
                .keys()
                .map(|k| Json::String(k.clone()))
                .collect();
            arg("expected").as_array()? == &keys
        }
        _ => return None,
    })
}

fn run_checks(doc: &Json, checks: &Json, prefix: &str, bad: &mut Vec<String>) {
    for (path, c) in checks.as_object().into_iter().flatten() {
        let full = if prefix.is_empty() {
            path.clone()
        } else {
            format!("{prefix}.{path}")
        };
        if c.as_object().is_some_and(|o| !o.contains_key("$$check")) {
            run_checks(doc, c, &full, bad);
            continue;
        }
        let several = c.as_array().cloned().unwrap_or_else(|| vec![c.clone()]);
        for one in &several {
            let kind = one["$$check"].as_str().unwrap_or("");
            if check(walk(doc, &full), kind, &one["args"]) != Some(true) {
                bad.push(format!(
                    "{full}: {kind} {} got {:?}",
                    one["args"],
                    walk(doc, &full).map(ToString::to_string)
                ));
            }
        }
    }
}

/// `None` when the outcome is the expected one, else how it differs.
pub(crate) fn judge(outcome: &Outcome, e: &Json) -> Option<String> {
    if let Some(code) = e.get("code").and_then(int) {
        return match outcome {
            Err(err) if i64::from(err.code()) == code => None,
            Err(err) => Some(format!("expected error {code}, got {err:?}")),
            Ok(d) => Some(format!("expected error {code}, got {d:?}")),
        };
    }
    let reply = match outcome {
        Err(err) => return Some(format!("expected success, got {err:?}")),
        Ok(d) => from_document(d.doc(), Mode::Canonical),
    };
    if e.get("anyOk").is_some() {
        return None;
    }
    if let Some(want) = e.get("okPartial") {
        let got = part(&reply, want);
        return (!equal(&got, want)).then(|| format!("expected at least {want}, got {reply}"));
    }
    let raw = e.get("raw").is_some();
    let docs = if raw {
        Json::Array(vec![reply.clone()])
    } else {
        reply["cursor"]["firstBatch"].clone()
    };
    if let Some(props) = e.get("props") {
        let docs = docs.as_array().cloned().unwrap_or_default();
        let mut bad = Vec::new();
        if docs.is_empty() {
            return Some("expected at least one document".to_owned());
        }
        let per = props
            .get("$$perDoc")
            .and_then(Json::as_array)
            .cloned()
            .unwrap_or_else(|| vec![props.clone(); docs.len()]);
        if per.len() != docs.len() {
            return Some(format!(
                "expected {} documents, got {}",
                per.len(),
                docs.len()
            ));
        }
        for (d, c) in docs.iter().zip(&per) {
            run_checks(d, c, "", &mut bad);
        }
        return (!bad.is_empty()).then(|| bad.join("; "));
    }
    let want = e["ok"][0].clone();
    let got = if raw { reply } else { docs };
    let lists: Vec<&str> = e["anyOrderIn"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let (got, want) = (sorted_lists(&got, &lists), sorted_lists(&want, &lists));
    let same = if e.get("anyOrder").is_some() {
        equal_any_order(&got, &want)
    } else {
        equal(&got, &want)
    };
    (!same).then(|| format!("expected {want}, got {got}"))
}
