//! Attacks on authorization by arguments that two parsers could read differently: numbers that are
//! not integers, null next to a name, duplicate fields, sessions of other users.

use crate::access::{code, run, user, with_root};
use crate::behaviour::send;
use commands::{Connection, Dispatcher};
use model::{Binary, Decimal128, DocBuf, Value, doc};

fn decimal(text: &str) -> Value<'static> {
    Value::from(Decimal128::parse(text).expect("a decimal"))
}

/// Creates a role of database `d` with these privileges and a new user with the role; returns a
/// connection of the user.
fn with_role(s: &Dispatcher, root: &mut Connection, name: &str, privileges: DocBuf) -> Connection {
    let role = DocBuf::build(|w| {
        w.put("createRole", name);
        w.array("roles");
        w.put("privileges", privileges.doc().field("p"));
    });
    assert_eq!(run(s, root, "d", role), 0, "{name}");
    user(s, root, name, doc! { "r": [{ "role": name, "db": "d" }] })
}

fn count(s: &Dispatcher, root: &mut Connection, db: &str, coll: &str) -> i64 {
    let reply = send(s, root, db, doc! { "count": coll }.doc());
    reply.doc().field("n").as_i64_exact().expect("a count")
}

#[test]
fn a_position_of_bulk_write_is_asked_about_as_it_is_written_to() {
    let (s, mut root) = with_root();
    let mut c = user(&s, &mut root, "u", doc! { "r": [] });
    let users = count(&s, &mut root, "admin", "system.users");
    for at in [
        Value::Int32(0),
        Value::Double(0.5),
        Value::Double(-0.5),
        Value::Double(f64::NAN),
        decimal("0.4"),
        decimal("NaN"),
        decimal("-0.2"),
    ] {
        let attack = doc! { "bulkWrite": 1i32, "nsInfo": [ { "ns": "admin.system.users" } ],
        "ops": [ { "insert": at, "document": { "_id": "admin.evil", "user": "evil",
            "db": "admin", "roles": [ { "role": "root", "db": "admin" } ] } } ] };
        assert_eq!(run(&s, &mut c, "admin", attack), 13, "{at:?}");
        let other = doc! { "bulkWrite": 1i32, "nsInfo": [ { "ns": "d.x" } ],
        "ops": [ { "update": at, "filter": {}, "updateMods": { "$set": { "a": 1i32 } },
            "upsert": true } ] };
        assert_eq!(run(&s, &mut c, "admin", other), 13, "{at:?}");
    }
    assert_eq!(count(&s, &mut root, "admin", "system.users"), users);
    assert_eq!(count(&s, &mut root, "d", "x"), 0);
}

#[test]
fn writing_past_the_validator_is_a_right_of_its_own() {
    let (s, mut root) = with_root();
    let create = doc! { "create": "c", "validator": { "a": { "$gt": 0i32 } } };
    assert_eq!(run(&s, &mut root, "d", create), 0);
    let privileges = doc! { "p": [{ "resource": { "db": "d", "collection": "c" },
    "actions": ["find", "insert", "update"] }] };
    let mut c = with_role(&s, &mut root, "w", privileges);
    let insert = doc! { "insert": "c", "documents": [{ "a": 1i32 }] };
    assert_eq!(run(&s, &mut c, "d", insert), 0);
    let past = doc! { "bypassDocumentValidation": true };
    for command in [
        doc! { "insert": "c", "documents": [{ "a": -1i32 }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": -1i32 } } }] },
        doc! { "findAndModify": "c", "query": {}, "update": { "$set": { "a": -2i32 } } },
        doc! { "aggregate": "c", "cursor": {},
        "pipeline": [{ "$set": { "a": -3i32 } }, { "$merge": { "into": "c" } }] },
    ] {
        let asked = DocBuf::build(|w| {
            w.put_all(command.doc()).put_all(past.doc());
        });
        assert_eq!(run(&s, &mut c, "d", asked.clone()), 13, "{asked}");
        assert_eq!(run(&s, &mut root, "d", asked), 0, "{command}");
    }
}

#[test]
fn map_reduce_asks_about_the_collection_it_writes() {
    let (s, mut root) = with_root();
    let insert = doc! { "insert": "c", "documents": [{ "a": 1i32 }] };
    assert_eq!(run(&s, &mut root, "d", insert), 0);
    let read = doc! { "r": [{ "role": "read", "db": "d" }] };
    let mut c = user(&s, &mut root, "u", read);
    for out in [
        doc! { "merge": "target", "replace": Value::Null },
        doc! { "reduce": "target", "merge": Value::Null },
        doc! { "merge": "target", "db": "d", "db": Value::Null },
        doc! { "replace": "target", "db": "e", "merge": Value::Undefined },
    ] {
        let attack = doc! { "mapReduce": "c", "map": "function() { emit(1, 1) }",
        "reduce": "function(k, v) { return 1 }", "out": out.doc() };
        let given = run(&s, &mut c, "d", attack);
        assert!(matches!(given, 13 | 40_413), "{given}: {out:?}");
    }
    assert_eq!(count(&s, &mut root, "d", "target"), 0);
    assert_eq!(count(&s, &mut root, "e", "target"), 0);
}

#[test]
fn a_level_of_the_profiler_is_asked_about_as_it_is_set() {
    let (s, mut root) = with_root();
    let only_reads = doc! { "p": [ { "resource": { "db": "d", "collection": "system.profile" },
    "actions": ["find"] } ] };
    let mut c = with_role(&s, &mut root, "reader", only_reads);
    assert_eq!(run(&s, &mut root, "d", doc! { "profile": 1i32 }), 0);
    assert_eq!(run(&s, &mut c, "d", doc! { "profile": -1i32 }), 0);
    for level in [
        Value::Double(-0.5),
        Value::Double(f64::NAN),
        decimal("-0.1"),
        decimal("NaN"),
        Value::Int32(0),
    ] {
        assert_eq!(
            run(&s, &mut c, "d", doc! { "profile": level }),
            13,
            "{level:?}"
        );
    }
    let now = send(&s, &mut root, "d", doc! { "profile": -1i32 }.doc());
    assert_eq!(now.doc().field("was").as_i64_exact(), Some(1));
}

/// How many sessions two users have.
fn sessions(s: &Dispatcher, a: &mut Connection, b: &mut Connection) -> (usize, usize) {
    let list = doc! { "aggregate": 1i32, "pipeline": [ { "$listLocalSessions": {} } ],
    "cursor": {} };
    let count = |c: &mut Connection| {
        let reply = send(s, c, "d", list.doc());
        let cursor = reply.doc().field("cursor").as_doc().expect("a cursor");
        cursor
            .field("firstBatch")
            .as_array()
            .expect("a batch")
            .len()
    };
    (count(a), count(b))
}

/// The user digest in session ids of a user of `admin`.
fn digest(name: &str) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(format!("{name}@admin").as_bytes()).into()
}

#[test]
fn sessions_are_ended_by_their_user_whatever_the_client_says_of_the_owner() {
    let (s, mut root) = with_root();
    let none = || doc! { "r": [] };
    let mut a = user(&s, &mut root, "a", none());
    let mut b = user(&s, &mut root, "b", none());
    let id = Binary {
        subtype: 4,
        bytes: &[7; 16],
    };
    let (of_a, of_b) = (digest("a"), digest("b"));
    let uid = |bytes| Binary { subtype: 0, bytes };
    let (of_a, of_b) = (uid(&of_a), uid(&of_b));
    let ping = doc! { "ping": 1i32, "lsid": { "id": id } };
    assert_eq!(run(&s, &mut a, "d", ping), 0);
    assert_eq!(sessions(&s, &mut a, &mut b), (1, 0));
    let mut stranger = s.connect(crate::access::ELSEWHERE);
    // The command, and whether it ends the session when a user with the right sends it.
    let attacks = [
        (false, doc! { "endSessions": [ { "id": id } ] }),
        (false, doc! { "endSessions": [ { "id": id, "uid": of_a } ] }),
        (true, doc! { "killSessions": [ { "id": id, "uid": of_a } ] }),
        (
            false,
            doc! { "killAllSessionsByPattern": [ { "lsid": { "id": id, "uid": of_b } } ] },
        ),
        (
            false,
            doc! { "killAllSessionsByPattern": [ { "lsid": { "id": id }, "uid": of_b } ] },
        ),
        (
            true,
            doc! { "killAllSessionsByPattern": [ { "lsid": { "id": id } } ] },
        ),
        (
            true,
            doc! { "killAllSessionsByPattern": [ { "lsid": { "id": id, "uid": of_a } } ] },
        ),
        (
            false,
            doc! { "killAllSessionsByPattern": [ { "lsid": { "id": id, "uid": of_a },
            "uid": of_b } ] },
        ),
        (true, doc! { "killAllSessionsByPattern": [ {} ] }),
        (true, doc! { "killAllSessionsByPattern": [] }),
        (
            true,
            doc! { "killAllSessions": [ { "user": "a", "db": "admin" } ] },
        ),
        (true, doc! { "killAllSessions": [] }),
    ];
    for (_, attack) in &attacks {
        for c in [&mut b, &mut stranger] {
            run(&s, c, "admin", attack.clone());
        }
        assert_eq!(sessions(&s, &mut a, &mut b), (1, 0), "{attack:?}");
    }
    let foreign = doc! { "endSessions": [ { "id": id, "uid": of_a } ] };
    assert_eq!(run(&s, &mut stranger, "admin", foreign.clone()), 13);
    assert_eq!(run(&s, &mut b, "admin", foreign.clone()), 13);
    assert_eq!(run(&s, &mut a, "admin", foreign), 0);
    assert_eq!(sessions(&s, &mut a, &mut b), (0, 0));
    // A user with the right can end the session with each of them.
    for (ends, kill) in &attacks[2..] {
        let ping = doc! { "ping": 1i32, "lsid": { "id": id } };
        assert_eq!(run(&s, &mut a, "d", ping), 0);
        assert_eq!(run(&s, &mut root, "admin", kill.clone()), 0);
        let left = usize::from(!ends);
        assert_eq!(sessions(&s, &mut a, &mut b).0, left, "{kill:?}");
    }
}

#[test]
fn half_of_a_view_is_not_changed_unseen() {
    let (s, mut root) = with_root();
    let insert = doc! { "insert": "secret", "documents": [{ "_id": 1i32, "word": "hidden" }] };
    assert_eq!(run(&s, &mut root, "d", insert), 0);
    let view = doc! { "create": "v", "viewOn": "secret", "pipeline": [
    { "$project": { "_id": 1i32 } } ] };
    assert_eq!(run(&s, &mut root, "d", view), 0);
    // No role covers the empty name; a user who has a right to it by accident learns nothing.
    let privileges = doc! { "p": [
    { "resource": { "db": "d", "collection": "v" }, "actions": ["find", "collMod"] } ] };
    let mut c = with_role(&s, &mut root, "changer", privileges);
    for change in [
        doc! { "collMod": "v", "pipeline": [] },
        doc! { "collMod": "v", "viewOn": "secret" },
    ] {
        assert_eq!(run(&s, &mut c, "d", change.clone()), 72, "{change:?}");
        assert_eq!(run(&s, &mut root, "d", change.clone()), 72, "{change:?}");
    }
    let whole = doc! { "collMod": "v", "viewOn": "secret", "pipeline": [] };
    assert_eq!(run(&s, &mut c, "d", whole), 13);
    let shown = send(&s, &mut c, "d", doc! { "find": "v" }.doc());
    assert!(!format!("{shown:?}").contains("hidden"));
}

#[test]
fn granting_no_roles_does_not_reveal_whether_a_name_exists() {
    let (s, mut root) = with_root();
    let role = doc! { "createRole": "there", "roles": [], "privileges": [] };
    assert_eq!(run(&s, &mut root, "admin", role), 0);
    let mut c = user(&s, &mut root, "u", doc! { "r": [] });
    for (command, known) in [
        ("grantRolesToUser", "root"),
        ("revokeRolesFromUser", "root"),
        ("grantRolesToRole", "there"),
        ("revokeRolesFromRole", "there"),
    ] {
        for name in [known, "nobody"] {
            let nothing = doc! { command: name, "roles": [] };
            assert_eq!(run(&s, &mut c, "admin", nothing), 2, "{command} {name}");
        }
    }
    for command in ["grantPrivilegesToRole", "revokePrivilegesFromRole"] {
        for name in ["there", "nobody"] {
            let nothing = doc! { command: name, "privileges": [] };
            assert_eq!(run(&s, &mut c, "admin", nothing), 2, "{command} {name}");
        }
    }
}

#[test]
fn a_name_of_buckets_is_asked_about_with_its_collection() {
    let (s, mut root) = with_root();
    let buckets = doc! { "p": [ { "resource": { "db": "d", "system_buckets": "n" },
    "actions": ["createCollection", "insert"] } ] };
    let mut c = with_role(&s, &mut root, "buckets", buckets);
    let create = doc! { "create": "system.buckets.n" };
    assert_eq!(run(&s, &mut c, "d", create), 13);
    let listed = send(&s, &mut root, "d", doc! { "listCollections": 1i32 }.doc());
    assert!(!format!("{listed:?}").contains("\"n\""), "{listed:?}");
    assert_eq!(code(&listed), 0);
}

/// Regression: a pipeline that was sent as a document sequence was not authorized; it was not
/// executed either.
#[test]
fn a_pipeline_beside_the_body_is_refused() {
    let (s, mut root) = with_root();
    let insert = doc! { "insert": "secret", "documents": [{ "_id": 1i32, "word": "hidden" }] };
    assert_eq!(run(&s, &mut root, "d", insert), 0);
    let mut c = user(&s, &mut root, "u", doc! { "r": [] });
    let stage = doc! { "$match": {} };
    let sequences = [commands::Sequence {
        name: "pipeline",
        documents: stage.as_bytes(),
    }];
    let body = doc! { "aggregate": "secret", "cursor": {}, "$db": "d" };
    let mut request = commands::Request::new(body.doc());
    request.sequences = &sequences;
    let mut reply = Vec::new();
    s.handle(&mut c, &request, &mut reply);
    let reply = DocBuf::from_bytes(reply).expect("a reply");
    assert_eq!(code(&reply), 40_415, "{reply:?}");
    let mut reply = Vec::new();
    s.handle(&mut root, &request, &mut reply);
    let reply = DocBuf::from_bytes(reply).expect("a reply");
    assert_eq!(code(&reply), 40_415, "{reply:?}");
}
