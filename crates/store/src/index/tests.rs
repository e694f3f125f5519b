//! Keys of documents in indexes of several kinds.

use super::*;
use crate::hooks::NoHooks;
use model::doc;

fn keys(spec: DocBuf, d: &DocBuf) -> Result<(usize, u32)> {
    let i = Index::open(1, spec, true, 0, &NoHooks)?;
    let mut set = KeySet::default();
    i.keys_of(d.doc(), &mut set)?;
    Ok((set.len(), set.multikey))
}

#[test]
fn arrays_give_an_entry_per_distinct_element() {
    let a = || doc! { "key": { "a": 1i32 }, "name": "a" };
    assert_eq!(
        keys(a(), &doc! { "a": [1i32, 2i32, 2i32] }).unwrap(),
        (2, 1)
    );
    assert_eq!(keys(a(), &doc! { "a": [] }).unwrap(), (1, 1));
    assert_eq!(
        keys(a(), &doc! { "a": [[1i32, 2i32], [3i32]] }).unwrap(),
        (2, 1)
    );
    assert_eq!(keys(a(), &doc! { "b": 1i32 }).unwrap(), (1, 0));
    let ab = || doc! { "key": { "a.b": 1i32, "a.c": -1i32 }, "name": "ab" };
    assert_eq!(
        keys(
            ab(),
            &doc! { "a": [{ "b": 1i32, "c": 2i32 }, { "b": 1i32 }, 7i32] }
        )
        .unwrap(),
        (3, 3)
    );
    let e = keys(
        doc! { "key": { "a": 1i32, "b": 1i32 }, "name": "x" },
        &doc! { "a": [1i32], "b": [2i32] },
    );
    assert_eq!(e.unwrap_err().code(), 171);
}

#[test]
fn sparse_leaves_out_documents_without_the_field() {
    let s = || doc! { "key": { "a": 1i32 }, "name": "a", "sparse": true };
    assert_eq!(keys(s(), &doc! { "b": 1i32 }).unwrap().0, 0);
    assert_eq!(keys(s(), &doc! { "a": 1i32 }).unwrap().0, 1);
}

#[test]
fn a_name_that_is_a_position_and_a_field_is_refused() {
    let s = || doc! { "key": { "a.0": 1i32 }, "name": "a" };
    assert_eq!(
        keys(s(), &doc! { "a": [5i32, { "0": 1i32 }] })
            .unwrap_err()
            .code(),
        16746
    );
    assert_eq!(keys(s(), &doc! { "a": [{ "1": 1i32 }] }).unwrap(), (1, 0));
    let s = || doc! { "key": { "a.1": 1i32 }, "name": "a" };
    assert_eq!(keys(s(), &doc! { "a": [{ "1": 1i32 }] }).unwrap(), (1, 1));
}

#[test]
fn numeric_components_are_positions() {
    let s = || doc! { "key": { "a.1": 1i32 }, "name": "a" };
    let i = Index::open(1, s(), true, 0, &NoHooks).unwrap();
    let (mut x, mut y) = (KeySet::default(), vec![]);
    i.keys_of(doc! { "a": [5i32, 6i32] }.doc(), &mut x).unwrap();
    i.encode_bound(0, &Value::Int32(6), &mut y);
    assert!(x.contains(&y));
}
