//! An index in a folder: what a commit keeps.

use crate::search_positions;
use model::doc;
use search::{Definition, Index, IndexLocation};
use std::sync::Arc;

#[test]
fn a_folder_keeps_the_last_commit_and_its_position() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index");
    let spec = doc! { "mappings": { "dynamic": true } };
    let definition = Definition::parse("search", spec.doc()).expect("a definition");
    assert!(Index::open(&definition, &path).is_none(), "nothing there");
    let index = Index::create(definition.clone(), IndexLocation::Folder(&path)).expect("an index");
    let index = Arc::new(index);
    let mut writer = index.writer().expect("a writer");
    writer.put(&[1], doc! { "t": "red" }.doc()).expect("put");
    writer
        .put(&[2], doc! { "t": "red blue" }.doc())
        .expect("put");
    writer.commit(77).expect("a commit");
    writer.put(&[2], doc! { "t": "green" }.doc()).expect("put");
    writer.remove(&[1]);
    drop(writer);
    drop(index);
    let (index, position) = Index::open(&definition, &path).expect("the index");
    let index = Arc::new(index);
    assert_eq!((position, index.documents()), (77, 2));
    let red = doc! { "text": { "query": "red", "path": "t" } };
    assert_eq!(
        search_positions(&index, &red),
        [1, 2],
        "what was not committed is gone"
    );
    let mut writer = index.writer().expect("a writer");
    writer.put(&[2], doc! { "t": "green" }.doc()).expect("put");
    writer.commit(78).expect("a commit");
    assert_eq!(
        search_positions(&index, &red),
        [1],
        "a document has one version"
    );
    writer.remove(&[1]);
    writer.commit(79).expect("a commit");
    assert!(search_positions(&index, &red).is_empty());
    let other = doc! { "fields": [{ "type": "vector", "path": "v", "numDimensions": 2i32,
    "similarity": "cosine" }] };
    let other = Definition::parse("vectorSearch", other.doc()).expect("a definition");
    assert!(Index::open(&other, &path).is_none(), "of another kind");
}
