//! Judges replies against recorded expectations. Equality is strict: number types, the sign of zero
//! and the exponent of decimals count; NaN equals NaN.

use model::{Array, Doc, DocBuf, Value, compare};
use std::cmp::Ordering;

/// Fields of replies that depend on when they are made.
const VOLATILE: &[&str] = &["$clusterTime", "operationTime", "electionId", "opTime"];

/// Strict equality of an actual and an expected value; fields of documents in any order.
fn equal(a: &Value<'_>, e: &Value<'_>) -> bool {
    if let Value::Document(d) = e
        && let (1, Some(approx)) = (d.count(), d.get("$$approx"))
    {
        let (Some(x), Some(y)) = (a.as_f64(), approx.as_f64()) else {
            return false;
        };
        return x.is_nan() && y.is_nan()
            || x == y
            || (x - y).abs() <= 1e-12_f64.max(1e-6 * y.abs().max(x.abs()));
    }
    match (a, e) {
        (Value::Document(a), Value::Document(e)) => {
            a.count() == e.count()
                && e.iter()
                    .all(|(k, v)| a.get(k).is_some_and(|x| equal(&x, &v)))
        }
        (Value::Array(a), Value::Array(e)) => {
            a.len() == e.len() && a.iter().zip(e.iter()).all(|(x, y)| equal(&x, &y))
        }
        (Value::Double(a), Value::Double(e)) => {
            a.is_nan() && e.is_nan()
                || a == e && (*a != 0.0 || a.is_sign_negative() == e.is_sign_negative())
        }
        (Value::Decimal128(a), Value::Decimal128(e)) => a == e || a.is_nan() && e.is_nan(),
        _ => a.tag() == e.tag() && compare(a, e) == Ordering::Equal,
    }
}

fn without_volatile(d: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        for (k, v) in d.iter().filter(|(k, _)| !VOLATILE.contains(k)) {
            w.put(k, v);
        }
    })
}

/// What of `actual` stands where `wanted` names something.
fn contains(actual: &Value<'_>, wanted: &Value<'_>) -> bool {
    match (actual, wanted) {
        (Value::Document(a), Value::Document(w)) if !w.contains("$$approx") => w
            .iter()
            .all(|(k, v)| a.get(k).is_some_and(|x| contains(&x, &v))),
        (Value::Array(a), Value::Array(w)) => {
            a.len() >= w.len() && a.iter().zip(w.iter()).all(|(x, y)| contains(&x, &y))
        }
        _ => equal(actual, wanted),
    }
}

fn at_path<'a>(doc: Value<'a>, path: &str) -> Value<'a> {
    let mut at = doc;
    for part in path.split('.').filter(|p| !p.is_empty()) {
        at = match at {
            Value::Document(d) => d.field(part),
            Value::Array(a) => part
                .parse()
                .ok()
                .and_then(|i| a.get(i))
                .unwrap_or(Value::Missing),
            _ => Value::Missing,
        };
    }
    at
}

fn one_check(v: &Value<'_>, kind: &str, args: Doc<'_>) -> Result<bool, String> {
    let missing = v.is_missing();
    let key_value = |x: Value<'_>| {
        let key = args.field("key").as_str().unwrap_or("");
        x.as_doc()
            .is_some_and(|d| d.get(key).is_some_and(|f| equal(&f, &args.field("value"))))
    };
    let order = |name: &str| (!missing).then(|| compare(v, &args.field(name)));
    let len = v.as_array().map(Array::len).or(v.as_str().map(str::len));
    let count = |name: &str| args.field(name).as_i64_exact().unwrap_or(-1);
    let len_is = |f: &dyn Fn(i64) -> bool| len.is_some_and(|n| f(n as i64));
    Ok(match kind {
        "Exists" => !missing,
        "NotExists" => missing,
        "Eq" => !missing && equal(v, &args.field("expected")),
        "Ne" => missing || !equal(v, &args.field("rejected")),
        "IsType" => args.field("bson_type").as_str() == Some(v.type_name()),
        "OrderedKeys" => {
            let wanted = args.field("expected").as_array().unwrap_or(Array::EMPTY);
            v.as_doc().is_some_and(|d| {
                d.iter()
                    .map(|(k, _)| Some(k))
                    .eq(wanted.iter().map(|w| w.as_str()))
            })
        }
        "Len" => len_is(&|n| n == count("expected")),
        "LenGt" => len_is(&|n| n > count("minimum")),
        "LenLte" => len_is(&|n| n <= count("maximum")),
        "Contains" => v.as_array().is_some_and(|a| a.iter().any(key_value)),
        "NotContains" => missing || !v.as_array().is_some_and(|a| a.iter().any(key_value)),
        "ContainsElement" => v
            .as_array()
            .is_some_and(|a| a.iter().any(|x| equal(&x, &args.field("element")))),
        "HasKey" => v
            .as_doc()
            .is_some_and(|d| d.contains(args.field("key").as_str().unwrap_or(""))),
        "Gt" => order("minimum") == Some(Ordering::Greater),
        "Gte" => matches!(order("minimum"), Some(Ordering::Greater | Ordering::Equal)),
        "Lte" => matches!(order("maximum"), Some(Ordering::Less | Ordering::Equal)),
        "NonEmptyStr" => v.as_str().is_some_and(|s| !s.is_empty()),
        "ByteLen" => match v {
            Value::Binary(b) => b.bytes.len() as i64 == count("expected"),
            _ => len_is(&|n| n == count("expected")),
        },
        other => return Err(format!("unknown check {other}")),
    })
}

fn run_checks(doc: Value<'_>, checks: Doc<'_>, prefix: &str, bad: &mut Vec<String>) {
    for (path, check) in checks.iter() {
        let full = if prefix.is_empty() {
            path.to_owned()
        } else {
            format!("{prefix}.{path}")
        };
        let list: Vec<Doc<'_>> = match check {
            Value::Document(d) if !d.contains("$$check") => {
                run_checks(doc, d, &full, bad);
                continue;
            }
            Value::Document(d) => vec![d],
            Value::Array(a) => a.iter().filter_map(|v| v.as_doc()).collect(),
            _ => continue,
        };
        let value = at_path(doc, &full);
        for one in list {
            let kind = one.field("$$check").as_str().unwrap_or("");
            let args = one.field("args").as_doc().unwrap_or(Doc::EMPTY);
            match one_check(&value, kind, args) {
                Ok(true) => {}
                Ok(false) => bad.push(format!("{full}: {kind} {args:?}, got {value:?}")),
                Err(e) => bad.push(e),
            }
        }
    }
}

fn sort_fields<'a>(d: Doc<'a>, fields: &[&str]) -> DocBuf {
    DocBuf::build(|w| {
        for (k, v) in d.iter() {
            match v {
                Value::Array(a) if fields.contains(&k) => {
                    let mut all: Vec<Value<'a>> = a.iter().collect();
                    let bare =
                        |v: &Value<'a>| v.as_doc().and_then(|d| d.get("$$approx")).unwrap_or(*v);
                    all.sort_by(|a, b| compare(&bare(a), &bare(b)));
                    let mut out = w.array(k);
                    for x in all {
                        out.push(x);
                    }
                }
                _ => {
                    w.put(k, v);
                }
            }
        }
    })
}

/// `None` when the reply is as expected, else how it differs.
pub(super) fn judge(reply: Doc<'_>, expect: Doc<'_>) -> Option<String> {
    let failed = reply.field("ok").as_f64() != Some(1.0);
    if let Some(code) = expect.get("code") {
        let error = if failed {
            Some(reply)
        } else {
            reply
                .field("writeErrors")
                .as_array()
                .and_then(|a| a.get(0))
                .and_then(|v| v.as_doc())
        };
        return match error {
            None => Some(format!("expected error {code:?}, got success {reply:?}")),
            Some(e) if e.field("code").as_i64_exact() == code.as_i64_exact() => None,
            Some(e) => Some(format!("expected error {code:?}, got {e:?}")),
        };
    }
    if failed {
        return Some(format!("expected success, got {reply:?}"));
    }
    if expect.contains("anyOk") {
        return None;
    }
    if let Some(partial) = expect.get("okPartial") {
        let fine = contains(&Value::Document(reply), &partial);
        return (!fine).then(|| format!("expected at least {partial:?}, got {reply:?}"));
    }
    let raw = expect.field("raw").truthy();
    let batch = at_path(Value::Document(reply), "cursor.firstBatch").as_array();
    let docs: Vec<Value<'_>> = match (raw, batch) {
        (true, _) => vec![Value::Document(reply)],
        (false, Some(a)) => a.iter().collect(),
        (false, None) => return Some(format!("no cursor in {reply:?}")),
    };
    if let Some(props) = expect.field("props").as_doc() {
        return judge_props(&docs, props);
    }
    judge_equal(reply, &docs, raw, expect)
}

fn judge_props(docs: &[Value<'_>], props: Doc<'_>) -> Option<String> {
    let mut bad = Vec::new();
    if docs.is_empty() {
        return Some("expected at least one document".to_owned());
    }
    match props.field("$$perDoc").as_array() {
        Some(per) if per.len() != docs.len() => {
            return Some(format!(
                "expected {} documents, got {}",
                per.len(),
                docs.len()
            ));
        }
        Some(per) => {
            for (d, p) in docs.iter().zip(per.iter()) {
                run_checks(*d, p.as_doc().unwrap_or(Doc::EMPTY), "", &mut bad);
            }
        }
        None => {
            for d in docs {
                run_checks(*d, props, "", &mut bad);
            }
        }
    }
    (!bad.is_empty()).then(|| bad.join("; "))
}

fn judge_equal(reply: Doc<'_>, docs: &[Value<'_>], raw: bool, expect: Doc<'_>) -> Option<String> {
    let want = expect
        .field("ok")
        .as_array()
        .and_then(|a| a.get(0))
        .unwrap_or(Value::Missing);
    let free: Vec<&str> = expect
        .field("anyOrderIn")
        .as_array()
        .map(|a| a.iter().filter_map(|v| v.as_str()).collect())
        .unwrap_or_default();
    let comparable = |d: Doc<'_>| sort_fields(without_volatile(d).doc(), &free);
    if raw {
        let got = comparable(reply);
        let want = want.as_doc().map(comparable).unwrap_or_default();
        let fine = equal(&Value::from(&got), &Value::from(&want));
        return (!fine).then(|| format!("expected {want:?}, got {got:?}"));
    }
    let Some(want) = want.as_array() else {
        return Some(format!("expectation is no list: {want:?}"));
    };
    let show = || Some(format!("expected {want:?}, got {docs:?}"));
    let same = |a: &Value<'_>, b: &Value<'_>| match (a, b) {
        (Value::Document(a), Value::Document(b)) if !free.is_empty() => equal(
            &Value::from(&sort_fields(*a, &free)),
            &Value::from(&sort_fields(*b, &free)),
        ),
        _ => equal(a, b),
    };
    if docs.len() != want.len() {
        return show();
    }
    if expect.field("anyOrder").truthy() {
        let mut left: Vec<&Value<'_>> = docs.iter().collect();
        for w in want.iter() {
            match left.iter().position(|g| same(g, &w)) {
                Some(i) => {
                    left.remove(i);
                }
                None => return show(),
            }
        }
        return None;
    }
    if docs.iter().zip(want.iter()).all(|(a, b)| same(a, &b)) {
        None
    } else {
        show()
    }
}
