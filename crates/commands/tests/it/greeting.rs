//! Logging in that begins within the greeting: what drivers do when they are left to choose.

use crate::access::{ELSEWHERE, run, with_root};
use crate::behaviour::send;
use auth::scram::{Client, Mechanism};
use model::{Binary, doc};

#[test]
fn it_does_not_begin_by_a_mechanism_that_the_user_lacks() {
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
