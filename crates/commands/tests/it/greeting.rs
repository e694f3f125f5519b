//! Logins of official clients: they begin within the greeting, choose a mechanism from the reply,
//! and copy users from one server to another.

use crate::access::{ELSEWHERE, run, with_root};
use crate::behaviour::{send, serve, store};
use auth::scram::{Client, Mechanism};
use commands::Config;
use model::{Binary, Value, doc};

#[test]
fn a_login_does_not_begin_with_a_mechanism_that_the_user_lacks() {
    let (s, mut root) = with_root();
    let old = doc! { "createUser": "old", "pwd": "pw", "roles": [],
    "mechanisms": ["SCRAM-SHA-1"] };
    assert_eq!(run(&s, &mut root, "admin", old), 0);
    for m in Mechanism::ALL {
        let mut c = s.connect(ELSEWHERE);
        let first = Client::new(m, "old", "pw", "abc").first();
        let first = Binary {
            subtype: 0,
            bytes: &first,
        };
        let hello = doc! { "hello": 1i32, "saslSupportedMechs": "admin.old",
        "speculativeAuthenticate": { "saslStart": 1i32, "mechanism": m.name(),
            "payload": first, "db": "admin" } };
        let reply = send(&s, &mut c, "admin", hello.doc());
        let begun = reply.doc().contains("speculativeAuthenticate");
        assert_eq!(begun, m.name() == "SCRAM-SHA-1", "{}", m.name());
    }
}

#[test]
fn a_fail_point_by_the_name_of_the_application_hits_the_greeting_that_tells_it() {
    let s = serve(Config::default(), store());
    let parameters = &s.service().state.parameters;
    parameters
        .set_at_startup("enableTestCommands", Value::Bool(true))
        .unwrap();
    let mut c = s.connect(ELSEWHERE);
    let point = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data":
    { "failCommands": ["hello"], "errorCode": 91i32, "appName": "it" } };
    assert_eq!(run(&s, &mut c, "admin", point), 0);
    for (name, fails) in [("it", 91), ("other", 0)] {
        let mut c = s.connect(ELSEWHERE);
        let hello = doc! { "hello": 1i32, "client": { "application": { "name": name },
        "driver": { "name": "d", "version": "1" },
        "os": { "type": "Linux" } } };
        assert_eq!(run(&s, &mut c, "admin", hello), fails, "{name}");
    }
}

#[test]
fn a_restore_without_drop_leaves_the_users_that_are_there() {
    let (s, mut root) = with_root();
    let kept = doc! { "createUser": "kept", "pwd": "pw", "roles": ["read"] };
    assert_eq!(run(&s, &mut root, "d", kept), 0);
    // The documents that the tool inserts; both have other roles than on the server.
    let temp = doc! { "insert": "temp", "documents": [
        { "_id": "d.kept", "user": "kept", "db": "d", "credentials": {}, "roles": [] },
        { "_id": "d.new", "user": "new", "db": "d", "credentials": {}, "roles": [] }
    ] };
    assert_eq!(run(&s, &mut root, "admin", temp), 0);
    let mut roles_after = |drop: bool| {
        let merge = doc! { "_mergeAuthzCollections": 1i32, "db": "d", "drop": drop,
        "tempUsersCollection": "admin.temp" };
        assert_eq!(run(&s, &mut root, "admin", merge), 0);
        let asked = doc! { "usersInfo": ["kept", "new"] };
        let told = send(&s, &mut root, "d", asked.doc());
        let users = told.doc().field("users").as_array();
        let users = users.unwrap_or_else(|| panic!("{:?}", told.doc()));
        users
            .iter()
            .map(|u| {
                let roles = u.as_doc().unwrap().field("roles").as_array().unwrap();
                roles.iter().count()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(roles_after(false), [1, 0]);
    assert_eq!(roles_after(true), [0, 0]);
}

#[test]
fn a_greeting_says_how_a_driver_backs_off_in_any_form() {
    let s = crate::protocol::service();
    // Drivers of 2026 first sent `true` and later the version as text.
    for said in ["true", "\"2\"", "2"] {
        let hello = format!(r#"{{"hello": 1, "helloOk": true, "backpressure": {said}}}"#);
        let reply = crate::interrupts::run(&s, &hello);
        assert_eq!(crate::interrupts::code(&reply), 0, "{reply:?}");
    }
}
