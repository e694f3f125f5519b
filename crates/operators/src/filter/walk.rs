//! The values at a filter path. Arrays on the path are traversed; at the end their elements and
//! then the array itself are visited. Numeric components are both field names of documents and
//! indexes of arrays.

use model::path::PathPart;
use model::{Array, Doc, Tag, Value};
use std::ops::ControlFlow;

/// Visits one value, with the index in the outermost array that was traversed to reach it.
pub(super) type ValueVisitor<'v, 'a> = dyn FnMut(Value<'a>, Option<usize>) -> ControlFlow<()> + 'v;

/// How an array at the end of the path is visited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// Its elements, then itself.
    Traverse,
    /// Only itself.
    Whole,
}

/// Walks from a document. `Missing` is visited where a document on the path lacks the field.
pub(super) fn walk_doc<'a>(
    doc: Doc<'a>,
    path: &[PathPart],
    leaf: Leaf,
    outer: Option<usize>,
    visit: &mut ValueVisitor<'_, 'a>,
) -> ControlFlow<()> {
    let mut doc = doc;
    let mut rest = path;
    while let Some((head, tail)) = rest.split_first() {
        match doc.field(&head.name) {
            Value::Array(a) => return walk_array(a, tail, leaf, outer, visit),
            v if tail.is_empty() => return visit(v, outer),
            Value::Document(inner) => doc = inner,
            _ => return visit(Value::Missing, outer),
        }
        rest = tail;
    }
    ControlFlow::Continue(())
}

/// Walks from an array on the path; `rest` is the remaining path.
fn walk_array<'a>(
    array: Array<'a>,
    rest: &[PathPart],
    leaf: Leaf,
    outer: Option<usize>,
    visit: &mut ValueVisitor<'_, 'a>,
) -> ControlFlow<()> {
    let Some((head, tail)) = rest.split_first() else {
        if leaf == Leaf::Traverse {
            for (i, v) in array.iter().enumerate() {
                visit(v, outer.or(Some(i)))?;
            }
        }
        return visit(Value::Array(array), outer);
    };
    let mut elements = array.elements();
    let mut next = 0;
    loop {
        // Most elements of a long array are neither documents nor named by index: they are not
        // decoded.
        let named = head.index.and_then(|named| named.checked_sub(next));
        next += elements.skip_scalars(named.unwrap_or(usize::MAX));
        let Some(element) = elements.next() else {
            break;
        };
        let i = next;
        next += 1;
        if element.tag != Tag::DOCUMENT && head.index != Some(i) {
            continue;
        }
        let v = element.value();
        if let Value::Document(d) = v {
            walk_doc(d, rest, leaf, outer.or(Some(i)), visit)?;
        }
        if head.index != Some(i) {
            continue;
        }
        match v {
            // An element named by its index does not set the position.
            v if tail.is_empty() => visit(v, outer)?,
            Value::Document(d) => walk_doc(d, tail, leaf, outer, visit)?,
            Value::Array(a) => walk_array(a, tail, leaf, outer, visit)?,
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, FieldPath, doc};

    fn collect_values(d: &DocBuf, path: &str, leaf: Leaf) -> Vec<String> {
        let mut out = Vec::new();
        let path = FieldPath::new(path);
        let _ = walk_doc(d.doc(), path.parts(), leaf, None, &mut |v, _| {
            out.push(v.to_string());
            ControlFlow::Continue(())
        });
        out
    }

    #[test]
    fn arrays_are_traversed() {
        let d = doc! { "a": [5i32, { "b": 1i32 }, { "c": 2i32 }, [7i32]] };
        assert_eq!(collect_values(&d, "a.b", Leaf::Traverse), ["1", "MISSING"]);
        assert_eq!(
            collect_values(&d, "a.1.b", Leaf::Traverse),
            ["MISSING", "1", "MISSING"]
        );
        assert_eq!(
            collect_values(&d, "a.0", Leaf::Traverse),
            ["5", "MISSING", "MISSING"]
        );
        assert_eq!(
            collect_values(&doc! { "a": [1i32] }, "a", Leaf::Traverse),
            ["1", "[ 1 ]"]
        );
        assert_eq!(
            collect_values(&doc! { "a": [1i32] }, "a", Leaf::Whole),
            ["[ 1 ]"]
        );
        assert_eq!(
            collect_values(&doc! { "a": [[1i32, 2i32]] }, "a.0", Leaf::Traverse),
            ["[ 1, 2 ]"]
        );
    }

    #[test]
    fn a_path_below_a_scalar_is_missing_and_below_an_empty_array_has_no_value() {
        assert_eq!(
            collect_values(&doc! { "a": 1i32 }, "a.b", Leaf::Traverse),
            ["MISSING"]
        );
        assert!(collect_values(&doc! { "a": [] }, "a.b", Leaf::Traverse).is_empty());
        assert_eq!(
            collect_values(&doc! { "a": [] }, "a", Leaf::Traverse),
            ["[]"]
        );
    }
}
