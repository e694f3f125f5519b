//! A standby: which requests of clients it accepts, what it reports, that the program that follows
//! the primary may write, that a restart keeps the role, and that a promotion changes it.

use crate::behaviour::logging_store;
use crate::user_writes::{Client, WRITES, start_filled};
use std::sync::Arc;

const STANDBY: &str = "{'quarryPair': 1, 'role': 'standby', 'me': 'b:1', 'peer': 'a:1', \
    'term': 1, '$db': 'admin'}";
const PRIMARY: &str = "{'quarryPair': 1, 'role': 'primary', 'me': 'b:1', 'peer': 'a:1', \
    'term': 2, '$db': 'admin'}";

#[test]
fn a_standby_takes_no_writes_and_answers_reads_of_secondaries() {
    let mut c = start_filled();
    let state = |c: &mut Client| {
        let hash = c.run("{'dbHash': 1, '$readPreference': {'mode': 'secondary'}}");
        hash.doc().field("md5").to_owned_value()
    };
    let before = state(&mut c);
    assert_eq!(c.code(STANDBY), 0);
    for command in WRITES {
        assert_eq!(c.code(command), 10_107, "{command}");
    }
    assert_eq!(state(&mut c), before);
    for read in [
        "'find': 'c'",
        "'count': 'c'",
        "'distinct': 'c', 'key': 'a'",
        "'aggregate': 'c', 'pipeline': [], 'cursor': {}",
        "'listCollections': 1",
        "'listIndexes': 'c'",
    ] {
        assert_eq!(c.code(&format!("{{{read}}}")), 13_435, "{read}");
        for (mode, code) in [
            ("primary", 13_435),
            ("primaryPreferred", 0),
            ("secondary", 0),
        ] {
            let command = format!("{{{read}, '$readPreference': {{'mode': '{mode}'}}}}");
            assert_eq!(c.code(&command), code, "{command}");
        }
    }
    for any in [
        "{'ping': 1}",
        "{'buildInfo': 1}",
        "{'serverStatus': 1, '$db': 'admin'}",
    ] {
        assert_eq!(c.code(any), 0, "{any}");
    }
    assert_eq!(c.code(PRIMARY), 0);
    assert_eq!(c.code(WRITES[0]), 0);
    assert_eq!(c.code("{'find': 'c'}"), 0);
}

#[test]
fn hello_presents_a_pair_and_a_later_primary_is_believed() {
    let mut c = start_filled();
    let alone = c
        .run("{'hello': 1}")
        .doc()
        .field("electionId")
        .to_owned_value();
    assert_eq!(c.code(STANDBY), 0);
    let hello = c.run("{'hello': 1}");
    let hello = hello.doc();
    assert_eq!(hello.field("isWritablePrimary").as_bool(), Some(false));
    assert_eq!(hello.field("secondary").as_bool(), Some(true));
    assert_eq!(hello.field("primary").as_str(), Some("a:1"));
    assert_eq!(hello.field("me").as_str(), Some("b:1"));
    assert_eq!(
        hello.field("hosts").as_array().map(|h| h.iter().count()),
        Some(2)
    );
    assert!(!hello.contains("electionId"));
    let status = c.run("{'replSetGetStatus': 1, '$db': 'admin'}");
    assert_eq!(status.doc().field("myState").as_i64_exact(), Some(2));
    assert_eq!(c.code(PRIMARY), 0);
    let hello = c.run("{'hello': 1}");
    assert_eq!(hello.doc().field("primary").as_str(), Some("b:1"));
    let later = hello.doc().field("electionId").to_owned_value();
    assert!(model::compare::compare(&later.get(), &alone.get()).is_gt());
}

#[test]
fn the_follower_may_write_to_a_standby() {
    let mut c = start_filled();
    assert_eq!(c.code(STANDBY), 0);
    let hello = "{'hello': 1, 'client': {'application': {'name': 'quarry follow'}}}";
    assert_eq!(c.code(hello), 0);
    assert_eq!(c.code(WRITES[0]), 0);
    assert_eq!(c.code("{'find': 'c'}"), 0);
}

#[test]
fn a_restart_leaves_a_standby_one() {
    let store = logging_store();
    let mut c = Client::connect_to(Arc::clone(&store));
    assert_eq!(c.code(STANDBY), 0);
    drop(c);
    let mut c = Client::connect_to(Arc::clone(&store));
    assert_eq!(c.code(WRITES[0]), 10_107);
    assert_eq!(
        c.code("{'quarryPair': 1, 'role': 'alone', '$db': 'admin'}"),
        0
    );
    drop(c);
    assert_eq!(Client::connect_to(store).code(WRITES[0]), 0);
}

#[test]
fn a_part_is_checked() {
    let mut c = start_filled();
    for wrong in [
        "'role': 'boss', 'me': 'b:1', 'peer': 'a:1', 'term': 1",
        "'role': 'standby', 'me': 'b:1', 'peer': 'b:1', 'term': 1",
        "'role': 'standby', 'me': 'b:1', 'term': 1",
        "'role': 'standby', 'me': 'b:1', 'peer': 'a:1'",
    ] {
        let command = format!("{{'quarryPair': 1, {wrong}, '$db': 'admin'}}");
        assert_eq!(c.code(&command), 2, "{wrong}");
    }
    assert_eq!(c.code(WRITES[0]), 0);
}
