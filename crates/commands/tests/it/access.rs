//! Access control: logging in, users and roles, rights, and attacks on them.

use crate::behaviour::{send, serve, store};
use auth::scram::{Client, Mechanism};
use commands::{Config, Connection, Dispatcher, Outcome, Request};
use model::{Binary, Doc, DocBuf, Value, doc};
use std::sync::Arc;

pub(crate) const HERE: &str = "127.0.0.1:4000";
pub(crate) const ELSEWHERE: &str = "10.1.2.3:4000";

/// A server with access control and fewer iterations than usual.
pub(crate) fn start_guarded() -> Arc<Dispatcher> {
    start_guarded_on(store())
}

fn start_guarded_on(store: Arc<store::Store>) -> Arc<Dispatcher> {
    let config = Config {
        auth: true,
        ..Config::default()
    };
    let s = serve(config, store);
    for name in ["scramIterationCount", "scramSHA256IterationCount"] {
        let parameters = &s.service().state.parameters;
        parameters.set_at_startup(name, Value::Int32(5000)).unwrap();
    }
    s
}

pub(crate) fn code(d: &DocBuf) -> i64 {
    d.doc().field("code").as_i64_exact().unwrap_or(0)
}

/// Runs a command and returns its code, 0 when it succeeds.
pub(crate) fn run(s: &Dispatcher, c: &mut Connection, db: &str, command: DocBuf) -> i64 {
    code(&send(s, c, db, command.doc()))
}

fn payload(d: Doc<'_>) -> Vec<u8> {
    match d.field("payload") {
        Value::Binary(b) => b.bytes.to_vec(),
        _ => Vec::new(),
    }
}

fn start(s: &Dispatcher, c: &mut Connection, db: &str, client: &Client, m: Mechanism) -> DocBuf {
    let first = client.first();
    let first = Binary {
        subtype: 0,
        bytes: &first,
    };
    let command = doc! { "saslStart": 1i32, "mechanism": m.name(), "payload": first,
    "options": { "skipEmptyExchange": true } };
    send(s, c, db, command.doc())
}

fn go_on(s: &Dispatcher, c: &mut Connection, db: &str, bytes: &[u8]) -> DocBuf {
    let payload = Binary { subtype: 0, bytes };
    let command = doc! { "saslContinue": 1i32, "conversationId": 1i32, "payload": payload };
    send(s, c, db, command.doc())
}

/// Logs in; returns the code of the failure, or 0.
pub(crate) fn log_in_with(
    s: &Dispatcher,
    c: &mut Connection,
    (user, db): (&str, &str),
    password: &str,
    m: Mechanism,
) -> i64 {
    let client = Client::new(m, user, password, "cHJvYmU");
    let reply = start(s, c, db, &client, m);
    if code(&reply) != 0 {
        return code(&reply);
    }
    let second = client
        .second(&payload(reply.doc()))
        .expect("a reply of the server");
    let last = go_on(s, c, db, &second);
    if code(&last) == 0 {
        assert_eq!(last.doc().field("done").as_bool(), Some(true));
        assert!(payload(last.doc()).starts_with(b"v="));
    }
    code(&last)
}

pub(crate) fn log_in(s: &Dispatcher, c: &mut Connection, user: (&str, &str), pwd: &str) -> i64 {
    log_in_with(s, c, user, pwd, Mechanism::Sha256)
}

/// A server with the user `root`, and a connection on which it is logged in.
pub(crate) fn with_root() -> (Arc<Dispatcher>, Connection) {
    start_with_root_on(store())
}

/// The same over a given store.
pub(crate) fn start_with_root_on(store: Arc<store::Store>) -> (Arc<Dispatcher>, Connection) {
    let s = start_guarded_on(store);
    let mut c = s.connect(HERE);
    let root = doc! { "createUser": "root", "pwd": "pw", "roles": ["root"] };
    assert_eq!(run(&s, &mut c, "admin", root), 0);
    assert_eq!(log_in(&s, &mut c, ("root", "admin"), "pw"), 0);
    (s, c)
}

/// A connection of a new user of `admin` with these roles.
pub(crate) fn user(s: &Dispatcher, root: &mut Connection, name: &str, roles: DocBuf) -> Connection {
    let mut c = s.connect(ELSEWHERE);
    let create = DocBuf::build(|w| {
        w.put("createUser", name).put("pwd", "pw");
        w.put("roles", roles.doc().field("r"));
    });
    assert_eq!(run(s, root, "admin", create), 0, "{name}");
    assert_eq!(log_in(s, &mut c, (name, "admin"), "pw"), 0, "{name}");
    c
}

#[test]
fn the_first_user_is_made_from_this_machine_only_and_only_once() {
    let s = start_guarded();
    let create = |name: &str| doc! { "createUser": name, "pwd": "pw", "roles": ["root"] };
    let mut far = s.connect(ELSEWHERE);
    let refused = send(&s, &mut far, "admin", create("a").doc());
    assert_eq!(code(&refused), 13);
    let text = refused.doc().field("errmsg").as_str().unwrap().to_owned();
    assert_eq!(text, "Command createUser requires authentication");
    let mut here = s.connect(HERE);
    assert_eq!(run(&s, &mut here, "d", doc! { "find": "c" }), 13);
    assert_eq!(
        run(&s, &mut here, "d", create("a")),
        13,
        "not on another database"
    );
    assert_eq!(run(&s, &mut here, "admin", create("a")), 0);
    assert_eq!(
        run(&s, &mut here, "admin", create("b")),
        13,
        "the exception is over"
    );
    assert_eq!(run(&s, &mut far, "admin", doc! { "hello": 1i32 }), 0);
    assert_eq!(run(&s, &mut far, "admin", doc! { "ping": 1i32 }), 0);
    assert_eq!(
        run(&s, &mut far, "admin", doc! { "listDatabases": 1i32 }),
        13
    );
}

#[test]
fn users_log_in_by_both_mechanisms_and_out() {
    let (s, mut root) = with_root();
    for m in Mechanism::ALL {
        let mut c = s.connect(ELSEWHERE);
        assert_eq!(log_in_with(&s, &mut c, ("root", "admin"), "PW", m), 18);
        assert_eq!(log_in_with(&s, &mut c, ("root", "d"), "pw", m), 18);
        assert_eq!(log_in_with(&s, &mut c, ("root", "admin"), "pw", m), 0);
        assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 0);
        assert_eq!(run(&s, &mut c, "d", doc! { "logout": 1i32 }), 0);
        assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 13);
    }
    let only = doc! { "createUser": "one", "pwd": "pw", "roles": [],
    "mechanisms": ["SCRAM-SHA-256"] };
    assert_eq!(run(&s, &mut root, "admin", only), 0);
    let mut c = s.connect(ELSEWHERE);
    assert_eq!(
        log_in_with(&s, &mut c, ("one", "admin"), "pw", Mechanism::Sha1),
        18
    );
    assert_eq!(log_in(&s, &mut c, ("one", "admin"), "pw"), 0);
    assert_eq!(log_in(&s, &mut c, ("root", "admin"), "pw"), 5_626_701);
}

#[test]
fn the_greeting_begins_to_log_in_and_tells_mechanisms() {
    let (s, _) = with_root();
    let mut c = s.connect(ELSEWHERE);
    let client = Client::new(Mechanism::Sha256, "root", "pw", "abc");
    let first = client.first();
    let first = Binary {
        subtype: 0,
        bytes: &first,
    };
    let hello = doc! { "hello": 1i32, "saslSupportedMechs": "admin.root",
    "speculativeAuthenticate": { "saslStart": 1i32, "mechanism": "SCRAM-SHA-256",
        "payload": first, "db": "admin", "options": { "skipEmptyExchange": true } } };
    let reply = send(&s, &mut c, "admin", hello.doc());
    let mechanisms = reply.doc().field("saslSupportedMechs").as_array().unwrap();
    assert_eq!(mechanisms.len(), 2);
    let begun = reply
        .doc()
        .field("speculativeAuthenticate")
        .as_doc()
        .unwrap();
    let second = client.second(&payload(begun)).unwrap();
    assert_eq!(code(&go_on(&s, &mut c, "admin", &second)), 0);
    let status = send(&s, &mut c, "admin", doc! { "connectionStatus": 1i32 }.doc());
    let info = status.doc().field("authInfo").as_doc().unwrap();
    let who = info
        .field("authenticatedUsers")
        .as_array()
        .unwrap()
        .get(0)
        .unwrap();
    assert_eq!(who.as_doc().unwrap().field("user").as_str(), Some("root"));
}

/// The replies to a login attempt, step by step, without random parts.
fn shape(s: &Dispatcher, user: &str, m: Mechanism) -> Vec<String> {
    let mut c = s.connect(ELSEWHERE);
    let mut said = Vec::new();
    let hello = doc! { "hello": 1i32, "saslSupportedMechs": format!("admin.{user}").as_str() };
    let reply = send(s, &mut c, "admin", hello.doc());
    said.push(format!("{:?}", reply.doc().field("saslSupportedMechs")));
    let client = Client::new(m, user, "wrong", "abc");
    let reply = start(s, &mut c, "admin", &client, m);
    let text = String::from_utf8(payload(reply.doc())).unwrap();
    let salt = text.split(',').nth(1).unwrap().len();
    let rounds = text.split(',').nth(2).unwrap().to_owned();
    let fields: Vec<&str> = reply.doc().iter().map(|(n, _)| n).collect();
    said.push(format!("{fields:?} {} {salt} {rounds}", text.len()));
    let second = client.second(text.as_bytes()).unwrap();
    let last = go_on(s, &mut c, "admin", &second);
    said.push(format!("{:?} {}", last.doc().field("errmsg"), code(&last)));
    said
}

#[test]
fn a_user_that_does_not_exist_answers_as_one_that_does() {
    let kept = store();
    let s = start_guarded_on(Arc::clone(&kept));
    let mut c = s.connect(HERE);
    let root = doc! { "createUser": "root", "pwd": "pw", "roles": ["root"] };
    assert_eq!(run(&s, &mut c, "admin", root), 0);
    for m in Mechanism::ALL {
        assert_eq!(shape(&s, "root", m), shape(&s, "nobody", m));
    }
    // The invented salt is always the same, also after a restart.
    let salt = |s: &Dispatcher| {
        let mut c = s.connect(ELSEWHERE);
        let m = Mechanism::Sha256;
        let reply = start(s, &mut c, "admin", &Client::new(m, "nobody", "x", "abc"), m);
        let text = String::from_utf8(payload(reply.doc())).unwrap();
        text.split(',').nth(1).unwrap().to_owned()
    };
    let first = salt(&s);
    assert_eq!(first, salt(&s));
    assert_eq!(first, salt(&start_guarded_on(kept)));
}

#[test]
fn a_message_is_used_once() {
    let (s, _) = with_root();
    let mut c = s.connect(ELSEWHERE);
    let m = Mechanism::Sha256;
    let client = Client::new(m, "root", "pw", "abc");
    let reply = start(&s, &mut c, "admin", &client, m);
    let second = client.second(&payload(reply.doc())).unwrap();
    assert_eq!(code(&go_on(&s, &mut c, "admin", &second)), 0);
    assert_eq!(
        code(&go_on(&s, &mut c, "admin", &second)),
        17,
        "the conversation is over"
    );
    // On another connection, which has begun its own login.
    let mut other = s.connect(ELSEWHERE);
    assert_eq!(code(&go_on(&s, &mut other, "admin", &second)), 17);
    start(&s, &mut other, "admin", &client, m);
    assert_eq!(code(&go_on(&s, &mut other, "admin", &second)), 18);
    assert_eq!(code(&go_on(&s, &mut other, "admin", &second)), 17);
    assert_eq!(run(&s, &mut other, "d", doc! { "find": "c" }), 13);
}

/// One attempt to log in as `root`, up to the server's answer to the proof.
fn attempt(s: &Dispatcher, c: &mut Connection, password: &str) -> (Outcome, DocBuf) {
    let m = Mechanism::Sha256;
    let client = Client::new(m, "root", password, "abc");
    let reply = start(s, c, "admin", &client, m);
    let second = client.second(&payload(reply.doc())).unwrap();
    let bytes = Binary {
        subtype: 0,
        bytes: &second,
    };
    let body = doc! { "saslContinue": 1i32, "conversationId": 1i32, "payload": bytes,
    "$db": "admin" };
    let mut out = Vec::new();
    let outcome = s.handle(c, &Request::new(body.doc()), &mut out);
    (outcome, DocBuf::from_bytes(out).unwrap_or_default())
}

#[test]
fn guessing_is_slowed_down_for_the_guesser_only() {
    let (s, _) = with_root();
    let mut waits = 0;
    for i in 0..12 {
        let mut c = s.connect(ELSEWHERE);
        match attempt(&s, &mut c, &format!("guess{i}")) {
            (Outcome::Wait { .. }, _) => waits += 1,
            (Outcome::Reply, reply) => assert_eq!(code(&reply), 18),
            other => panic!("{other:?}"),
        }
    }
    assert!(waits >= 6, "{waits} of 12 guesses had to wait");
    let mut other = s.connect("10.9.9.9:1");
    assert_eq!(log_in(&s, &mut other, ("root", "admin"), "pw"), 0);
    // The rightful user does not wait either when it comes from the guesser's address.
    let mut same = s.connect(ELSEWHERE);
    let (outcome, reply) = attempt(&s, &mut same, "pw");
    assert_eq!((outcome, code(&reply)), (Outcome::Reply, 0));
    assert_eq!(run(&s, &mut same, "admin", doc! { "usersInfo": 1i32 }), 0);
    // The answer to a guess is sent in the end, and reveals nothing more.
    let mut slow = s.connect("10.7.7.7:1");
    for _ in 0..6 {
        assert_eq!(log_in(&s, &mut slow, ("root", "admin"), "no"), 18);
    }
}

/// What a client learns of a user without logging in: its mechanisms and the iteration count of
/// each.
fn describe_login(s: &Dispatcher, name: &str) -> String {
    let mut c = s.connect(ELSEWHERE);
    let hello = doc! { "hello": 1i32, "saslSupportedMechs": format!("admin.{name}").as_str() };
    let reply = send(s, &mut c, "admin", hello.doc());
    let mut all = format!("{:?}", reply.doc().field("saslSupportedMechs"));
    for m in Mechanism::ALL {
        let first = start(s, &mut c, "admin", &Client::new(m, name, "pw", "abc"), m);
        let text = String::from_utf8(payload(first.doc())).unwrap();
        let rounds = text.split(',').find(|part| part.starts_with("i="));
        all.push_str(rounds.unwrap_or("none"));
    }
    all
}

#[test]
fn invented_users_look_like_real_ones() {
    let (s, mut root) = with_root();
    let parameters = &s.service().state.parameters;
    for (name, rounds) in [("old", 5000), ("new", 6000), ("newer", 7000)] {
        for parameter in ["scramIterationCount", "scramSHA256IterationCount"] {
            let rounds = Value::Int32(rounds);
            parameters.set_at_startup(parameter, rounds).unwrap();
        }
        let mechanisms = match name {
            "old" => doc! { "m": ["SCRAM-SHA-1"] },
            _ => doc! { "m": ["SCRAM-SHA-1", "SCRAM-SHA-256"] },
        };
        let create = doc! { "createUser": name, "pwd": "pw", "roles": [],
        "mechanisms": mechanisms.doc().field("m") };
        assert_eq!(run(&s, &mut root, "admin", create), 0);
    }
    let real: Vec<String> = ["root", "old", "new", "newer"]
        .map(|n| describe_login(&s, n))
        .into();
    let mut seen = vec![0; real.len()];
    for i in 0..100 {
        let name = format!("invented{i}");
        let look = describe_login(&s, &name);
        assert_eq!(look, describe_login(&s, &name), "the same each time");
        let like = real.iter().position(|r| *r == look);
        seen[like.unwrap_or_else(|| panic!("{look} is like none of {real:?}"))] += 1;
    }
    assert!(seen.iter().all(|n| *n > 0), "{seen:?} of {real:?}");
}

#[test]
fn one_of_many_first_users_by_the_localhost_exception_is_created() {
    let s = start_guarded();
    let all = std::sync::Barrier::new(8);
    let codes: Vec<i64> = std::thread::scope(|scope| {
        let one = |i: usize| {
            let (s, all) = (&s, &all);
            move || {
                let mut c = s.connect(HERE);
                let name = format!("root{i}");
                let create = doc! { "createUser": name.as_str(), "pwd": "pw", "roles": ["root"] };
                all.wait();
                run(s, &mut c, "admin", create)
            }
        };
        let threads: Vec<_> = (0..8).map(|i| scope.spawn(one(i))).collect();
        let end = |t: std::thread::ScopedJoinHandle<'_, i64>| t.join().expect("a code");
        threads.into_iter().map(end).collect()
    });
    let made = codes.iter().filter(|code| **code == 0).count();
    assert_eq!(made, 1, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 0 | 13)), "{codes:?}");
}

#[test]
fn secrets_of_a_command_inside_another_are_kept_nowhere() {
    let (s, mut root) = with_root();
    assert_eq!(run(&s, &mut root, "d", doc! { "profile": 2i32 }), 0);
    for inner in [
        doc! { "createUser": "x", "pwd": "very secret", "roles": [] },
        doc! { "updateUser": "x", "pwd": "very secret" },
    ] {
        let outer = doc! { "explain": inner.doc() };
        assert_eq!(run(&s, &mut root, "d", outer), 20);
    }
    let seen = send(&s, &mut root, "d", doc! { "find": "system.profile" }.doc());
    let seen = format!("{seen:?}");
    assert!(seen.contains("profile"), "{seen}");
    assert!(!seen.contains("very secret"), "{seen}");
    let mut c = user(&s, &mut root, "u", doc! { "r": [] });
    let inner = doc! { "createUser": "x", "pwd": "very secret", "roles": [] };
    let refused = send(&s, &mut c, "d", doc! { "explain": inner.doc() }.doc());
    assert_eq!(code(&refused), 13);
    assert!(!format!("{refused:?}").contains("very secret"));
}

#[test]
fn rights_change_with_the_next_request() {
    let (s, mut root) = with_root();
    let mut c = user(
        &s,
        &mut root,
        "u",
        doc! { "r": [{ "role": "read", "db": "d" }] },
    );
    let insert = || doc! { "insert": "c", "documents": [{ "a": 1i32 }] };
    assert_eq!(run(&s, &mut c, "d", insert()), 13);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 0);
    let grant = doc! { "grantRolesToUser": "u", "roles": [{ "role": "readWrite", "db": "d" }] };
    assert_eq!(run(&s, &mut root, "admin", grant), 0);
    assert_eq!(run(&s, &mut c, "d", insert()), 0);
    let take = doc! { "updateUser": "u", "roles": [] };
    assert_eq!(run(&s, &mut root, "admin", take), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 13);
    let role = doc! { "createRole": "mine", "roles": [], "privileges": [
    { "resource": { "db": "d", "collection": "c" }, "actions": ["find"] } ] };
    assert_eq!(run(&s, &mut root, "admin", role), 0);
    let grant = doc! { "grantRolesToUser": "u", "roles": ["mine"] };
    assert_eq!(run(&s, &mut root, "admin", grant), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "other" }), 13);
    assert_eq!(run(&s, &mut root, "admin", doc! { "dropRole": "mine" }), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 13);
    // A direct write to the collection, as a restore does it.
    let direct = doc! { "update": "system.users", "updates": [ { "q": { "user": "u" },
    "u": { "$set": { "roles": [ { "role": "read", "db": "d" } ] } } } ] };
    assert_eq!(run(&s, &mut root, "admin", direct), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 0);
    assert_eq!(run(&s, &mut root, "admin", doc! { "dropUser": "u" }), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "find": "c" }), 13);
    let again = doc! { "createUser": "u", "pwd": "x", "roles": ["root"] };
    assert_eq!(run(&s, &mut root, "admin", again), 0);
    assert_eq!(
        run(&s, &mut c, "d", doc! { "find": "c" }),
        13,
        "it is another user"
    );
}

#[test]
fn pipelines_reach_only_what_their_user_may() {
    let (s, mut root) = with_root();
    let insert = doc! { "insert": "secret", "documents": [{ "_id": 1i32 }] };
    assert_eq!(run(&s, &mut root, "other", insert), 0);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1i32 }] };
    assert_eq!(run(&s, &mut root, "d", insert), 0);
    let mut c = user(
        &s,
        &mut root,
        "u",
        doc! { "r": [{ "role": "read", "db": "d" }] },
    );
    let mut aggregate = |stage: DocBuf| {
        let command = DocBuf::build(|w| {
            w.put("aggregate", "c");
            w.array("pipeline").push(stage.doc());
            w.doc("cursor");
        });
        run(&s, &mut c, "d", command)
    };
    let far = || doc! { "db": "other", "coll": "secret" };
    assert_eq!(aggregate(doc! { "$match": {} }), 0);
    assert_eq!(
        aggregate(doc! { "$lookup": { "from": "e", "as": "x", "pipeline": [] } }),
        0
    );
    // These stages cannot read another database: the parser refuses that before rights are checked.
    for (number, stage) in [
        (
            9,
            doc! { "$lookup": { "from": far().doc(), "as": "x", "pipeline": [] } },
        ),
        (
            40_415,
            doc! { "$unionWith": { "coll": "secret", "db": "other" } },
        ),
        (
            40_415,
            doc! { "$lookup": { "from": "c", "as": "x", "pipeline": [
            { "$unionWith": { "coll": "secret", "db": "other" } } ] } },
        ),
    ] {
        assert_eq!(aggregate(stage.clone()), number, "{stage:?}");
    }
    for stage in [
        doc! { "$lookup": { "from": "system.users", "from": "c", "as": "x", "pipeline": [] } },
        doc! { "$lookup": { "from": "system.users", "as": "x", "pipeline": [] } },
        doc! { "$merge": { "into": { "db": Value::Null, "coll": "mine" } } },
        doc! { "$merge": { "into": { "db": "", "coll": "mine" } } },
        doc! { "$unionWith": "system.profile" },
        doc! { "$facet": { "a": [ { "$lookup": { "from": "system.views", "as": "x",
        "pipeline": [] } } ] } },
        doc! { "$graphLookup": { "from": "system.js2", "startWith": 1i32, "as": "x",
        "connectFromField": "a", "connectToField": "b" } },
        doc! { "$out": "mine" },
        doc! { "$out": far().doc() },
        doc! { "$merge": "mine" },
        doc! { "$merge": { "into": far().doc() } },
        doc! { "$merge": { "into": "mine", "whenMatched": "fail" } },
    ] {
        assert_eq!(aggregate(stage.clone()), 13, "{stage:?}");
    }
    let all = doc! { "aggregate": 1i32, "pipeline": [ { "$currentOp": { "allUsers": true } } ],
    "cursor": {} };
    assert_eq!(run(&s, &mut c, "admin", all), 13);
    let own = doc! { "aggregate": 1i32, "pipeline": [ { "$currentOp": {} } ], "cursor": {} };
    assert_eq!(run(&s, &mut c, "admin", own), 0);
    let inner = doc! { "explain": { "find": "secret" } };
    assert_eq!(run(&s, &mut c, "other", inner), 13);
}

#[test]
fn a_view_shows_no_more_than_its_maker_may_read() {
    let (s, mut root) = with_root();
    let role = doc! { "createRole": "maker", "roles": [], "privileges": [
    { "resource": { "db": "d", "collection": "" },
        "actions": ["find", "createCollection", "collMod"] } ] };
    assert_eq!(run(&s, &mut root, "d", role), 0);
    let mut c = user(
        &s,
        &mut root,
        "u",
        doc! { "r": [{ "role": "maker", "db": "d" }] },
    );
    let secret = doc! { "create": "v", "viewOn": "system.users", "pipeline": [] };
    assert_eq!(run(&s, &mut c, "d", secret), 13);
    let lookup = doc! { "create": "v", "viewOn": "c", "pipeline": [ { "$lookup": {
    "from": "system.users", "as": "x", "pipeline": [] } } ] };
    assert_eq!(run(&s, &mut c, "d", lookup), 13);
    let fine = doc! { "create": "v", "viewOn": "c", "pipeline": [] };
    assert_eq!(run(&s, &mut c, "d", fine), 0);
    let change = doc! { "collMod": "v", "viewOn": "system.users", "pipeline": [] };
    assert_eq!(run(&s, &mut c, "d", change), 13);
    // A user with the right to read a view needs no right on its sources.
    let only = doc! { "createRole": "viewer", "roles": [], "privileges": [
    { "resource": { "db": "d", "collection": "v" }, "actions": ["find"] } ] };
    assert_eq!(run(&s, &mut root, "d", only), 0);
    let mut viewer = user(
        &s,
        &mut root,
        "w",
        doc! { "r": [{ "role": "viewer", "db": "d" }] },
    );
    assert_eq!(run(&s, &mut viewer, "d", doc! { "find": "v" }), 0);
    assert_eq!(run(&s, &mut viewer, "d", doc! { "find": "c" }), 13);
}

#[test]
fn cursors_sessions_and_operations_belong_to_their_user() {
    let (s, mut root) = with_root();
    let docs = doc! { "insert": "c", "documents": [{}, {}, {}] };
    assert_eq!(run(&s, &mut root, "d", docs), 0);
    let read = || doc! { "r": [{ "role": "read", "db": "d" }] };
    let (mut a, mut b) = (
        user(&s, &mut root, "a", read()),
        user(&s, &mut root, "b", read()),
    );
    let opened = send(
        &s,
        &mut a,
        "d",
        doc! { "find": "c", "batchSize": 1i32 }.doc(),
    );
    let cursor = opened.doc().field("cursor").as_doc().unwrap().field("id");
    let cursor = cursor.as_i64_exact().unwrap();
    let more = || doc! { "getMore": cursor, "collection": "c", "batchSize": 1i32 };
    assert_eq!(run(&s, &mut b, "d", more()), 13);
    let kill = || doc! { "killCursors": "c", "cursors": [cursor] };
    assert_eq!(run(&s, &mut b, "d", kill()), 13);
    assert_eq!(run(&s, &mut a, "d", more()), 0);
    assert_eq!(run(&s, &mut root, "d", kill()), 0, "root may");
    let id = Binary {
        subtype: 4,
        bytes: &[9; 16],
    };
    let with = |name: &str| doc! { name: 1i32, "lsid": { "id": id } };
    assert_eq!(run(&s, &mut a, "d", with("ping")), 0);
    assert_eq!(run(&s, &mut b, "d", with("ping")), 13);
    let end = doc! { "endSessions": [ { "id": id } ] };
    assert_eq!(run(&s, &mut b, "d", end), 0);
    let list = doc! { "aggregate": 1i32, "pipeline": [ { "$listLocalSessions": {} } ],
    "cursor": {} };
    let count = |c: &mut Connection| {
        let reply = send(&s, c, "d", list.doc());
        let batch = reply
            .doc()
            .field("cursor")
            .as_doc()
            .unwrap()
            .field("firstBatch");
        batch.as_array().unwrap().len()
    };
    assert_eq!(
        (count(&mut a), count(&mut b)),
        (1, 0),
        "b could not end it and does not see it"
    );
    assert_eq!(
        run(&s, &mut b, "admin", doc! { "killOp": 1i32, "op": 1i32 }),
        13
    );
    assert_eq!(run(&s, &mut b, "admin", doc! { "currentOp": 1i32 }), 13);
    assert_eq!(
        run(
            &s,
            &mut b,
            "admin",
            doc! { "currentOp": 1i32, "$ownOps": true }
        ),
        0
    );
}

#[test]
fn lists_show_only_names_that_the_user_has_rights_on() {
    let (s, mut root) = with_root();
    for db in ["d", "e"] {
        for coll in ["x", "y"] {
            let insert = doc! { "insert": coll, "documents": [{}] };
            assert_eq!(run(&s, &mut root, db, insert), 0);
        }
    }
    let role = doc! { "createRole": "one", "roles": [], "privileges": [
    { "resource": { "db": "d", "collection": "x" }, "actions": ["find"] } ] };
    assert_eq!(run(&s, &mut root, "d", role), 0);
    let mut c = user(
        &s,
        &mut root,
        "u",
        doc! { "r": [{ "role": "one", "db": "d" }] },
    );
    let names = |d: DocBuf, path: &[&str]| {
        let mut v = Value::Document(d.doc());
        for p in path {
            v = v.as_doc().unwrap().field(p);
        }
        let name = |v: Value<'_>| {
            v.as_doc()
                .unwrap()
                .field("name")
                .as_str()
                .unwrap()
                .to_owned()
        };
        v.as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    let dbs = send(&s, &mut c, "admin", doc! { "listDatabases": 1i32 }.doc());
    assert_eq!(names(dbs, &["databases"]), ["d"]);
    let all = doc! { "listDatabases": 1i32, "authorizedDatabases": false };
    assert_eq!(run(&s, &mut c, "admin", all), 13);
    assert_eq!(run(&s, &mut c, "d", doc! { "listCollections": 1i32 }), 13);
    let own = doc! { "listCollections": 1i32, "nameOnly": true, "authorizedCollections": true };
    let colls = send(&s, &mut c, "d", own.doc());
    assert_eq!(names(colls, &["cursor", "firstBatch"]), ["x"]);
    assert_eq!(run(&s, &mut c, "e", own), 13);
}

#[test]
fn addresses_are_checked() {
    let (s, mut root) = with_root();
    let create = doc! { "createUser": "u", "pwd": "pw", "roles": [],
    "authenticationRestrictions": [ { "clientSource": ["10.0.0.0/8"] } ] };
    assert_eq!(run(&s, &mut root, "admin", create), 0);
    let mut far = s.connect(ELSEWHERE);
    assert_eq!(log_in(&s, &mut far, ("u", "admin"), "pw"), 0);
    let mut here = s.connect(HERE);
    assert_eq!(log_in(&s, &mut here, ("u", "admin"), "pw"), 18);
}

#[test]
fn secrets_are_not_shown() {
    let (s, mut root) = with_root();
    let mut c = user(&s, &mut root, "u", doc! { "r": [] });
    let create = doc! { "createUser": "x", "pwd": "very secret", "roles": [] };
    let refused = send(&s, &mut c, "admin", create.doc());
    assert_eq!(code(&refused), 13);
    let text = refused.doc().field("errmsg").as_str().unwrap().to_owned();
    assert!(text.starts_with("not authorized on admin to execute command { createUser: \"x\""));
    assert!(!text.contains("very secret"), "{text}");
    let info = send(&s, &mut root, "admin", doc! { "usersInfo": "u" }.doc());
    assert!(!format!("{info:?}").contains("storedKey"));
    let all = doc! { "usersInfo": "u", "showCredentials": true };
    let info = send(&s, &mut root, "admin", all.doc());
    assert!(format!("{info:?}").contains("storedKey"));
}

#[test]
fn only_enabled_mechanisms_are_listed() {
    let (s, mut root) = with_root();
    let told = |c: &mut Connection, name: &str| {
        let hello = doc! { "hello": 1i32, "saslSupportedMechs": name };
        let reply = send(&s, c, "admin", hello.doc());
        let list = reply.doc().field("saslSupportedMechs").as_array();
        let list = list.expect("a list");
        let name = |v: Value<'_>| v.as_str().unwrap_or("").to_owned();
        list.iter().map(name).collect::<Vec<_>>()
    };
    let create = doc! { "createUser": "old", "pwd": "pw", "roles": [],
    "mechanisms": ["SCRAM-SHA-1"] };
    assert_eq!(run(&s, &mut root, "admin", create), 0);
    assert_eq!(told(&mut root, "admin.root").len(), 2);
    assert_eq!(told(&mut root, "admin.old"), ["SCRAM-SHA-1"]);
    let on = doc! { "on": ["SCRAM-SHA-256", "MONGODB-X509"] };
    let parameters = &s.service().state.parameters;
    let name = "authenticationMechanisms";
    parameters
        .set_at_startup(name, on.doc().field("on"))
        .unwrap();
    assert_eq!(told(&mut root, "admin.root"), ["SCRAM-SHA-256"]);
    assert_eq!(told(&mut root, "admin.old"), Vec::<String>::new());
    // A user that does not exist looks like one that does.
    assert!(
        told(&mut root, "admin.nobody")
            .iter()
            .all(|m| m == "SCRAM-SHA-256")
    );
}
