//! Finds the documents of a collection that a log entry has changed. Must not know: indexes.

use model::{Array, Doc, Value};

/// Calls `f` with the `_id` of each document of the collection with this identity that the entry
/// changes; an entry of a transaction contains several changes.
pub(super) fn each_id(entry: Doc<'_>, uuid: &[u8; 16], f: &mut dyn FnMut(Value<'_>)) {
    let of_collection = match entry.field("ui") {
        Value::Binary(b) => b.bytes == uuid,
        _ => false,
    };
    let object = entry.field("o").as_doc().unwrap_or(Doc::EMPTY);
    match entry.field("op").as_str() {
        Some("i" | "d") if of_collection => f(object.field("_id")),
        Some("u") if of_collection => {
            let by = entry.field("o2").as_doc().unwrap_or(Doc::EMPTY);
            f(by.field("_id"));
        }
        Some("c") => {
            let inside = object.field("applyOps").as_array();
            for op in inside.unwrap_or(Array::EMPTY).iter() {
                if let Value::Document(op) = op {
                    each_id(op, uuid, f);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Binary, doc};

    #[test]
    fn ids_are_found_in_plain_entries_and_in_those_of_transactions() {
        let uuid = [7u8; 16];
        let ui = Value::Binary(Binary {
            subtype: 4,
            bytes: &uuid,
        });
        let other = Value::Binary(Binary {
            subtype: 4,
            bytes: &[8; 16],
        });
        let mut found = Vec::new();
        for entry in [
            doc! { "op": "i", "ui": ui, "o": { "_id": 1i32, "a": 5i32 } },
            doc! { "op": "u", "ui": ui, "o": { "diff": 1i32 }, "o2": { "_id": 2i32 } },
            doc! { "op": "d", "ui": ui, "o": { "_id": 3i32 } },
            doc! { "op": "i", "ui": other, "o": { "_id": 4i32 } },
            doc! { "op": "n", "o": { "msg": "x" } },
            doc! { "op": "c", "o": { "applyOps": [
                { "op": "i", "ui": ui, "o": { "_id": 5i32 } },
                { "op": "d", "ui": other, "o": { "_id": 6i32 } }
            ] } },
        ] {
            each_id(entry.doc(), &uuid, &mut |id| found.push(id.as_i64_exact()));
        }
        assert_eq!(found, [Some(1), Some(2), Some(3), Some(5)]);
    }
}
