//! From 9.0 on, null also matches where a dotted path ends inside an array
//! ([`crate::Profile::finds_null_in_arrays`]).

use super::comparison::CompareOp;
use super::node::{Node, Test};
use crate::Profile;
use model::path::PathPart;
use model::{Array, Doc, FieldPath, Value};

/// A parsed filter with the behavior of a profile.
pub(super) fn apply_profile(profile: Profile, mut root: Node) -> Node {
    if profile.finds_null_in_arrays() {
        mark(&mut root);
    }
    root
}

/// Marks the tests on dotted paths that null passes.
fn mark(n: &mut Node) {
    match n {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter_mut().for_each(mark),
        Node::Not(n) => mark(n),
        Node::Field { path, test } => {
            let is_dotted = path.parts().len() > 1;
            match test {
                Test::Compare(c) => {
                    let takes_null =
                        matches!(c.op, CompareOp::Eq | CompareOp::Gte | CompareOp::Lte)
                            && matches!(c.value.get(), Value::Null);
                    c.finds_absent = is_dotted && takes_null;
                }
                Test::In(i) => i.finds_absent = is_dotted && i.has_null,
                Test::ElemMatchObject(inner) => mark(inner),
                _ => {}
            }
        }
        _ => {}
    }
}

/// Whether a path of a document counts as null in a profile because of arrays on the path.
pub fn counts_as_null(profile: Profile, doc: Doc<'_>, path: &FieldPath) -> bool {
    profile.finds_null_in_arrays() && is_absent_in_array(doc, path.parts())
}

/// Whether the path leads into an empty array, to a scalar or to an array inside an array, before
/// its last part. A number in the path may be an index; the ordinary walk visits the element with
/// that index.
pub(super) fn is_absent_in_array(doc: Doc<'_>, path: &[PathPart]) -> bool {
    let Some((head, rest)) = path.split_first() else {
        return false;
    };
    if rest.is_empty() {
        return false;
    }
    match doc.field(&head.name) {
        Value::Document(inner) => is_absent_in_array(inner, rest),
        Value::Array(array) => is_absent_among(array, rest),
        _ => false,
    }
}

fn is_absent_among(array: Array<'_>, rest: &[PathPart]) -> bool {
    let may_be_index = rest.first().is_some_and(|head| head.index.is_some());
    let mut elements = array.iter().peekable();
    if elements.peek().is_none() {
        return !may_be_index;
    }
    elements.any(|v| match v {
        Value::Document(d) => is_absent_in_array(d, rest),
        _ => !may_be_index,
    })
}

#[cfg(test)]
mod tests {
    use crate::expr::ParseCx;
    use crate::filter::Filter;
    use crate::{Env, Profile};
    use model::{Bump, extjson};

    fn find_matching(profile: Profile, filter: &str) -> Vec<usize> {
        let docs = [
            r#"{"a": [1]}"#,
            r#"{"a": []}"#,
            r#"{"a": [[{"b": 3}]]}"#,
            r#"{"a": [[{"b": 2}], {"b": 3}]}"#,
            r#"{"a": [{"b": 3}]}"#,
            r#"{"a": {"b": 3}}"#,
            r#"{"a": 1}"#,
            r#"{"x": [{"a": []}]}"#,
        ];
        let mut env = Env::new(0, 1);
        env.profile = profile;
        let filter = extjson::parse_document(filter).unwrap();
        let filter = Filter::parse(&mut ParseCx::new(&env), filter.doc()).unwrap();
        let found = docs.iter().enumerate().filter(|(_, doc)| {
            let doc = extjson::parse_document(doc).unwrap();
            let arena = Bump::new();
            filter.matches(doc.doc(), &arena, &env).unwrap()
        });
        found.map(|(n, _)| n).collect()
    }

    #[test]
    fn null_is_found_inside_of_arrays_from_9_0_on() {
        let (old, new) = (Profile::V8_2, Profile::V9_0);
        for null in [
            r#"{"a.b": null}"#,
            r#"{"a.b": {"$in": [null, 7]}}"#,
            r#"{"a.b": {"$gte": null}}"#,
            r#"{"a.b": {"$lte": null}}"#,
        ] {
            assert_eq!(find_matching(old, null), [6, 7], "{null}");
            assert_eq!(find_matching(new, null), [0, 1, 2, 3, 6, 7], "{null}");
        }
        for not in [r#"{"a.b": {"$ne": null}}"#, r#"{"a.b": {"$nin": [null]}}"#] {
            assert_eq!(find_matching(old, not), [0, 1, 2, 3, 4, 5], "{not}");
            assert_eq!(find_matching(new, not), [4, 5], "{not}");
        }
        let inside = r#"{"x": {"$elemMatch": {"a.b": null}}}"#;
        assert_eq!(find_matching(old, inside), [] as [usize; 0]);
        assert_eq!(find_matching(new, inside), [7]);
        assert_eq!(
            find_matching(new, r#"{"a.b": 3}"#),
            find_matching(old, r#"{"a.b": 3}"#)
        );
    }
}
