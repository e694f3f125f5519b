//! `collMod`: an index is checked for duplicates before it becomes unique.

use crate::behaviour::{send, serve, store};
use crate::interrupts::json;
use commands::Config;
use model::{DocBuf, extjson};

fn replies(commands: &[&str]) -> Vec<DocBuf> {
    let service = serve(Config::default(), store());
    let mut conn = service.connect("127.0.0.1:50000");
    let mut run = |command: &&str| {
        let command = json(&command.replace('\'', "\""));
        send(&service, &mut conn, "d", command.doc())
    };
    commands.iter().map(&mut run).collect()
}

/// The code of a reply and its violations.
fn outcome(reply: &DocBuf) -> (i64, String) {
    let reply = reply.doc();
    let violations = reply.field("violations");
    let list = violations.as_array().map(|_| format!("{violations:?}"));
    (
        reply.field("code").as_i64_exact().unwrap_or(0),
        list.unwrap_or_default(),
    )
}

const DRY: &str = "{'collMod': 'c', 'index': {'name': 'a', 'unique': true}, 'dryRun': true}";
const DO: &str = "{'collMod': 'c', 'index': {'name': 'a', 'unique': true}}";

#[test]
fn a_dry_run_names_the_documents_that_share_a_key() {
    let long = "x".repeat(300);
    let insert = format!(
        "{{'insert': 'c', 'documents': [{{'_id': 1, 'a': 7}}, {{'_id': 'b', 'a': 7}}, \
            {{'_id': 3, 'a': [8, 9]}}, {{'_id': '{long}', 'a': 8}}, {{'_id': 5}}, \
            {{'_id': {{'n': 6}}, 'a': null}}, {{'_id': 10, 'a': 10}}, {{'_id': 11, 'a': [9, 9]}}]}}"
    );
    let all = replies(&[
        "{'createIndexes': 'c', 'indexes': [{'key': {'a': 1}, 'name': 'a', \
            'prepareUnique': false}]}",
        &insert,
        "{'collMod': 'c', 'index': {'name': 'a', 'prepareUnique': true}}",
        DRY,
        DO,
        "{'delete': 'c', 'deletes': [{'q': {'_id': {'$nin': [1, 3, 5, 10]}}, 'limit': 0}]}",
        DRY,
        "{'listIndexes': 'c'}",
        DO,
        DRY,
    ]);
    let wanted = format!(
        "{{'v': [{{'ids': [5, {{'n': 6}}]}}, {{'ids': [1, 'b']}}, {{'ids': [3, '{long}']}}, \
            {{'ids': [3, 11]}}]}}"
    );
    let wanted = extjson::parse_document(&wanted.replace('\'', "\"")).expect("a document");
    let wanted = (359, format!("{:?}", wanted.doc().field("v")));
    assert_eq!(outcome(&all[3]), wanted);
    assert_eq!(outcome(&all[4]), wanted);
    assert_eq!(outcome(&all[6]), (0, String::new()));
    assert!(!format!("{:?}", all[7]).contains("unique: true"), "dry");
    assert_eq!(outcome(&all[8]), (0, String::new()));
    assert_eq!(outcome(&all[9]), (0, String::new()));
}
