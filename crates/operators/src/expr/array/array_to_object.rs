//! `$arrayToObject`: `[[k, v], ...]` or `[{k, v}, ...]` to a document; a later pair of the same key
//! replaces the value in place. Null for nullish. Errors: 40386 no array; 40397, 40395, 4940400 bad
//! pair arrays; 40392, 40393, 40394, 4940401 bad pair documents; 40396, 40391 mixed forms; 40398
//! other elements.

use crate::Cx;
use crate::cx::bytes_of;
use crate::expr::{Operator, unary};
use model::{Array, Doc, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$arrayToObject",
    parse: |cx, name, spec| unary(cx, name, spec, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, v: Value<'a>) -> Result<Value<'a>> {
    let array = match v {
        Value::Array(a) => a,
        v if v.is_nullish() => return Ok(Value::Null),
        v => bail!(
            40386,
            "$arrayToObject requires an array input, found: {}",
            v.type_name()
        ),
    };
    let from_arrays = match array.iter().next() {
        None => return Ok(Value::Document(Doc::EMPTY)),
        Some(Value::Array(_)) => true,
        Some(Value::Document(_)) => false,
        Some(v) => bail!(
            40398,
            "Unrecognised input type format for $arrayToObject: {}",
            v.type_name()
        ),
    };
    let mut fields: Vec<(&str, Value<'a>)> = Vec::new();
    let mut places: rustc_hash::FxHashMap<&str, usize> = rustc_hash::FxHashMap::default();
    for item in array.iter() {
        let (key, value) = match item {
            Value::Array(pair) if from_arrays => pair_of_array(pair)?,
            Value::Document(pair) if !from_arrays => pair_of_document(pair)?,
            v if from_arrays => {
                bail!(
                    40396,
                    "$arrayToObject requires a consistent input format. Expected an \
                    array, found: {}",
                    v.type_name()
                )
            }
            v => {
                bail!(
                    40391,
                    "$arrayToObject requires a consistent input format. Expected an \
                    object, found: {}",
                    v.type_name()
                )
            }
        };
        match places.entry(key) {
            std::collections::hash_map::Entry::Occupied(place) => {
                if let Some(slot) = fields.get_mut(*place.get()) {
                    slot.1 = value;
                }
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(fields.len());
                fields.push((key, value));
            }
        }
    }
    cx.spend(
        fields
            .iter()
            .map(|(name, v)| name.len() + bytes_of(v) + 2)
            .sum(),
    )?;
    Ok(Value::Document(Doc::build_in(cx.arena, |w| {
        for (name, v) in &fields {
            w.put(name, *v);
        }
    })))
}

fn pair_of_array(pair: Array<'_>) -> Result<(&str, Value<'_>)> {
    let mut items = pair.iter();
    let (Some(key), Some(value), None) = (items.next(), items.next(), items.next()) else {
        bail!(
            40397,
            "$arrayToObject requires an array of size 2 arrays, found array of size: {}",
            pair.len()
        );
    };
    let Value::String(key) = key else {
        bail!(
            40395,
            "$arrayToObject requires an array of key-value pairs, where the key must be \
            of type string. Found key type: {}",
            key.type_name()
        );
    };
    if key.contains('\0') {
        bail!(4940400, "Key field cannot contain an embedded null byte");
    }
    Ok((key, value))
}

fn pair_of_document(pair: Doc<'_>) -> Result<(&str, Value<'_>)> {
    if pair.count() != 2 {
        bail!(
            40392,
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect \
            number of keys: {}",
            pair.count()
        );
    }
    let (Some(key), Some(value)) = (pair.get("k"), pair.get("v")) else {
        bail!(
            40393,
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or \
            both keys from: {pair}"
        );
    };
    let Value::String(key) = key else {
        bail!(
            40394,
            "$arrayToObject requires an object with keys 'k' and 'v', where the value of \
            'k' must be of type string. Found type: {}",
            key.type_name()
        );
    };
    if key.contains('\0') {
        bail!(4940401, "Key field cannot contain an embedded null byte");
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$arrayToObject': '$a'}",
                "{'a': [['x', 1], ['y', 2], ['x', 3]]}",
                "{'x': 3, 'y': \
                2}",
            ),
            (
                "{'$arrayToObject': '$a'}",
                "{'a': [{'v': 1, 'k': 'x'}]}",
                "{'x': 1}",
            ),
            ("{'$arrayToObject': '$a'}", "{'a': []}", "{}"),
            ("{'$arrayToObject': '$a'}", "{}", "null"),
            ("{'$arrayToObject': '$a'}", "{'a': 1}", "!40386"),
            (
                "{'$arrayToObject': '$a'}",
                "{'a': [['x', 1], {'k': 'y', 'v': 2}]}",
                "!40396",
            ),
            (
                "{'$arrayToObject': '$a'}",
                "{'a': [{'k': 'y', 'v': 2}, 1]}",
                "!40391",
            ),
            ("{'$arrayToObject': '$a'}", "{'a': [['x']]}", "!40397"),
            ("{'$arrayToObject': '$a'}", "{'a': [[1, 2]]}", "!40395"),
            (
                "{'$arrayToObject': '$a'}",
                "{'a': [{'k': 'x', 'w': 2}]}",
                "!40393",
            ),
            ("{'$arrayToObject': '$a'}", "{'a': [null]}", "!40398"),
        ]);
    }
}
