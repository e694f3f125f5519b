//! Documents as trees that are changed at any depth: values are replaced by others of the same or
//! another type, names by names used elsewhere, and pieces by pieces of other documents.

use model::{DocBuf, extjson};
use proof::Random;
use serde_json::{Map, Value as Json, json};

/// The documents of a corpus.
pub(crate) fn corpus(text: &str) -> Vec<Json> {
    serde_json::from_str(text).expect("a corpus is an array of documents")
}

/// The document, if the changed tree still is one.
pub(crate) fn document(json: &Json) -> Option<DocBuf> {
    extjson::document(json).ok()
}

pub(crate) fn show(json: &Json) -> String {
    json.to_string()
}

/// Unusual values that may break readers.
fn draw_odd(random: &mut Random) -> Json {
    match random.below(34) {
        0 => json!(null),
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(1),
        5 => json!(2_147_483_647),
        6 => json!({ "$numberLong": "9223372036854775807" }),
        7 => json!({ "$numberLong": "-9223372036854775808" }),
        8 => json!({ "$numberDouble": "NaN" }),
        9 => json!({ "$numberDouble": "-Infinity" }),
        10 => json!({ "$numberDecimal": "1E+6144" }),
        11 => json!({ "$numberDecimal": "-1E-6176" }),
        12 => json!(1e300),
        13 => json!(-0.5),
        14 => json!(""),
        15 => json!("$"),
        16 => json!("$$"),
        17 => json!("$a.b"),
        18 => json!("$$ROOT"),
        19 => json!("a\u{0}b"),
        20 => json!("é😀".repeat(1 + random.below(40))),
        21 => json!([]),
        22 => json!({}),
        23 => json!([[[[]]]]),
        24 => json!({ "": { "": [] } }),
        25 => json!({ "$minKey": 1 }),
        26 => json!({ "$date": { "$numberLong": "-9223372036854775808" } }),
        27 => json!({ "$timestamp": { "t": 4_294_967_295u32, "i": 4_294_967_295u32 } }),
        28 => json!({ "$binary": { "base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04" } }),
        29 => json!({ "$regularExpression": { "pattern": "(a|b)*[c-", "options": "imsx" } }),
        30 => json!({ "$code": "function() { return this }", "$scope": { "a": 1 } }),
        31 => json!({ "$oid": "ffffffffffffffffffffffff" }),
        32 => json!("a".repeat(1 << random.below(11))),
        _ => nest_value(1 + random.below(240)),
    }
}

/// Deep nesting of arrays or documents.
fn nest_value(depth: usize) -> Json {
    (0..depth).fold(json!(1), |inner, i| match i % 3 {
        0 => json!([inner]),
        1 => json!({ "a": inner }),
        _ => json!({ "$and": [inner] }),
    })
}

fn size(json: &Json) -> usize {
    match json {
        Json::Object(o) => 1 + o.values().map(size).sum::<usize>(),
        Json::Array(a) => 1 + a.iter().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// The n-th node of a tree, from its root.
fn place(json: &mut Json, n: usize) -> Option<&mut Json> {
    if n == 0 {
        return Some(json);
    }
    let mut left = n - 1;
    let inner: Box<dyn Iterator<Item = &mut Json>> = match json {
        Json::Object(o) => Box::new(o.values_mut()),
        Json::Array(a) => Box::new(a.iter_mut()),
        _ => return None,
    };
    for one in inner {
        let own = size(one);
        if left < own {
            return place(one, left);
        }
        left -= own;
    }
    None
}

fn names(json: &Json, out: &mut Vec<String>) {
    match json {
        Json::Object(o) => o.iter().for_each(|(k, v)| {
            out.push(k.clone());
            names(v, out);
        }),
        Json::Array(a) => a.iter().for_each(|v| names(v, out)),
        _ => {}
    }
}

/// Larger documents are slow and find nothing more.
const SIZE_MAX: usize = 250;

/// Makes one change to a document.
pub(crate) fn change(random: &mut Random, json: &mut Json, other: &Json) {
    if size(json) > SIZE_MAX {
        json.clone_from(other);
    }
    let n = random.below(size(json).max(2) - 1) + 1;
    let mut known = Vec::new();
    names(if random.chance(50) { other } else { json }, &mut known);
    let name = known.get(random.below(known.len())).cloned();
    let m = random.below(size(other));
    let piece = place(&mut other.clone(), m).cloned();
    let Some(at) = place(json, n) else {
        return;
    };
    match (random.below(8), at) {
        (0 | 1, at) => *at = draw_odd(random),
        (2, at) => *at = piece.unwrap_or_default(),
        (3, at) => *at = json!([at.take()]),
        (4, at) => *at = json!({ name.unwrap_or_default(): at.take() }),
        (_, Json::Array(a)) => change_array(random, a, piece),
        (_, Json::Object(o)) => {
            let name = name.unwrap_or_default();
            change_object(random, o, NewField { name, piece });
        }
        (_, at) => *at = draw_odd(random),
    }
}

fn change_array(random: &mut Random, a: &mut Vec<Json>, piece: Option<Json>) {
    let at = random.below(a.len());
    match random.below(4) {
        0 if !a.is_empty() => drop(a.remove(at)),
        1 if !a.is_empty() => a.insert(at, a[at].clone()),
        2 => a.push(piece.unwrap_or_default()),
        _ => a.push(draw_odd(random)),
    }
}

/// A field from another document.
struct NewField {
    name: String,
    piece: Option<Json>,
}

fn change_object(random: &mut Random, o: &mut Map<String, Json>, new: NewField) {
    let own = o.keys().nth(random.below(o.len())).cloned();
    match (random.below(4), own) {
        (0, Some(own)) => drop(o.shift_remove(&own)),
        (1, Some(own)) => {
            let value = o.shift_remove(&own).unwrap_or_default();
            o.insert(new.name, value);
        }
        (2, _) => drop(o.insert(new.name, draw_odd(random))),
        _ => drop(o.insert(new.name, new.piece.unwrap_or_default())),
    }
}
