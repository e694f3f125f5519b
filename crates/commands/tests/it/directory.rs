//! Logging in by PLAIN: which connections may send a password, the result of the directory's
//! answer, delays after wrong passwords. `crates/identity-ldap` has the tests of queries to a
//! directory.

use crate::access::{ELSEWHERE, HERE, code, log_in, run};
use crate::behaviour::{send, serve, store};
use commands::{Config, Connection, Dispatcher, Outcome, Request};
use identity_ldap::{Directory, Security, Settings};
use model::{Binary, DocBuf, Value, doc};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A directory in which every password is `pw` and every user is in the group `g`.
struct Ldap {
    port: u16,
    asked: Arc<AtomicUsize>,
}

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
}

impl Ldap {
    fn new() -> Ldap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 1024];
                // Requests are short and are sent one at a time.
                while let Ok(n @ 6..) = stream.read(&mut bytes) {
                    counter.fetch_add(1, Ordering::Relaxed);
                    let (id, tag, good) = (bytes[4], bytes[5], bytes[..n].ends_with(b"pw"));
                    let result = |tag, code| tlv(tag, &[0x0a, 1, code, 4, 0, 4, 0]);
                    let operations = match tag {
                        0x60 => vec![result(0x61, if good { 0 } else { 49 })],
                        0x63 => vec![
                            tlv(0x64, &[tlv(4, b"g"), tlv(0x30, b"")].concat()),
                            result(0x65, 0),
                        ],
                        _ => break,
                    };
                    for operation in operations {
                        let message = tlv(0x30, &[&[2, 1, id][..], &operation].concat());
                        stream.write_all(&message).unwrap();
                    }
                }
            }
        });
        Ldap { port, asked }
    }

    /// A server that uses this directory; with `groups`, also for groups.
    fn server(&self, groups: bool, plain_without_tls: bool) -> Arc<Dispatcher> {
        let directory = Directory::new(Settings {
            servers: vec![format!("127.0.0.1:{}", self.port)],
            security: Security::None,
            searcher: Some(("cn=s".into(), "pw".into())),
            mapping: Some(r#"[{"match": "(.+)", "substitution": "uid={0}"}]"#.into()),
            groups: groups.then(|| "dc=x??sub?(member={USER})".into()),
            timeout: Duration::from_secs(2),
        });
        let config = Config {
            auth: true,
            ldap: Some(Arc::new(directory.unwrap())),
            plain_without_tls,
            ..Config::default()
        };
        let server = serve(config, store());
        let on = Value::String("SCRAM-SHA-256,PLAIN");
        let parameters = &server.service().state.parameters;
        parameters
            .set_at_startup("authenticationMechanisms", on)
            .unwrap();
        parameters
            .set_at_startup("scramSHA256IterationCount", Value::Int32(5000))
            .unwrap();
        server
    }
}

fn root(s: &Dispatcher) -> Connection {
    let mut c = s.connect(HERE);
    let root = doc! { "createUser": "root", "pwd": "pw", "roles": ["root"] };
    assert_eq!(run(s, &mut c, "admin", root), 0);
    assert_eq!(log_in(s, &mut c, ("root", "admin"), "pw"), 0);
    c
}

fn request(payload: &[u8]) -> DocBuf {
    let payload = Binary {
        subtype: 0,
        bytes: payload,
    };
    doc! { "saslStart": 1i32, "mechanism": "PLAIN", "payload": payload }
}

fn log_in_by_plain(s: &Dispatcher, c: &mut Connection, user: &str, password: &str) -> DocBuf {
    let payload = format!("\0{user}\0{password}");
    send(s, c, "$external", request(payload.as_bytes()).doc())
}

fn connect_tls(s: &Dispatcher) -> Connection {
    let mut c = s.connect(ELSEWHERE);
    c.identity.set_verified(None);
    c
}

fn find(s: &Dispatcher, c: &mut Connection) -> i64 {
    run(s, c, "d", doc! { "find": "c" })
}

#[test]
fn a_password_is_accepted_on_protected_connections_only() {
    let ldap = Ldap::new();
    let s = ldap.server(true, false);
    let mut root = root(&s);
    let role = doc! { "createRole": "g", "privileges": [],
    "roles": [ { "role": "read", "db": "d" } ] };
    assert_eq!(run(&s, &mut root, "admin", role), 0);
    let mut open = s.connect(ELSEWHERE);
    let refused = log_in_by_plain(&s, &mut open, "ann", "pw");
    let text = refused.doc().field("errmsg").as_str().unwrap().to_owned();
    assert!(
        code(&refused) == 18 && text.contains("over TLS only"),
        "{text}"
    );
    assert_eq!(ldap.asked.load(Ordering::Relaxed), 0);
    let mut c = connect_tls(&s);
    let done = log_in_by_plain(&s, &mut c, "ann", "pw");
    assert_eq!(done.doc().field("done").as_bool(), Some(true), "{done:?}");
    assert_eq!(find(&s, &mut c), 0);
    let status = send(&s, &mut c, "admin", doc! { "connectionStatus": 1i32 }.doc());
    let info = status.doc().field("authInfo").as_doc().unwrap().to_buf();
    let wanted = doc! { "authenticatedUsers": [ { "user": "ann", "db": "$external" } ],
    "authenticatedUserRoles": [ { "role": "g", "db": "admin" },
        { "role": "read", "db": "d" } ] };
    assert_eq!(info, wanted);
    let mut socket = s.connect("/tmp/mongodb-1.sock");
    assert_eq!(code(&log_in_by_plain(&s, &mut socket, "ann", "pw")), 0);
    let said_so = ldap.server(true, true);
    let mut open = said_so.connect(ELSEWHERE);
    assert_eq!(code(&log_in_by_plain(&said_so, &mut open, "ann", "pw")), 0);
}

#[test]
fn without_groups_the_user_has_a_document() {
    let ldap = Ldap::new();
    let s = ldap.server(false, false);
    let mut root = root(&s);
    let mut c = connect_tls(&s);
    assert_eq!(code(&log_in_by_plain(&s, &mut c, "ann", "pw")), 18);
    let user = doc! { "createUser": "ann", "roles": [ { "role": "read", "db": "d" } ] };
    assert_eq!(run(&s, &mut root, "$external", user), 0);
    assert_eq!(code(&log_in_by_plain(&s, &mut c, "ann", "pw")), 0);
    assert_eq!(find(&s, &mut c), 0);
    let log = send(&s, &mut root, "admin", doc! { "getLog": "global" }.doc());
    let lines = log.doc().field("log").as_array().unwrap();
    let log: String = lines.iter().filter_map(|l| l.as_str()).collect();
    assert!(
        log.contains("AuthenticationFailed: the user has no document"),
        "{log}"
    );
    assert!(log.contains("\"mechanism\":\"PLAIN\""), "{log}");
}

#[test]
fn failed_logins_reveal_no_reason() {
    let ldap = Ldap::new();
    let s = ldap.server(true, false);
    let mut c = connect_tls(&s);
    for (user, password) in [("ann", "wrong"), ("ann", ""), ("", "pw")] {
        let refused = log_in_by_plain(&s, &mut c, user, password);
        let text = refused.doc().field("errmsg").as_str().unwrap().to_owned();
        assert_eq!(
            (code(&refused), text.as_str()),
            (18, "Authentication failed.")
        );
    }
    for payload in [&b"root\0ann\0pw"[..], b"ann", b"\0ann\0\xff"] {
        assert_eq!(run(&s, &mut c, "$external", request(payload)), 18);
    }
    assert_eq!(run(&s, &mut c, "admin", request(b"\0ann\0pw")), 17);
    assert_eq!(find(&s, &mut c), 13);
    let hello = doc! { "hello": 1i32, "speculativeAuthenticate": { "saslStart": 1i32,
    "mechanism": "PLAIN", "payload": Binary { subtype: 0, bytes: b"\0ann\0pw" },
    "db": "$external" } };
    let greeted = send(&s, &mut c, "admin", hello.doc());
    assert!(
        !greeted.doc().contains("speculativeAuthenticate"),
        "a greeting may not block"
    );
    let off = crate::access::start_guarded();
    let mut c = connect_tls(&off);
    assert_eq!(code(&log_in_by_plain(&off, &mut c, "ann", "pw")), 334);
}

#[test]
fn wrong_passwords_wait_their_turn_without_asking_the_directory() {
    let ldap = Ldap::new();
    let s = ldap.server(true, false);
    let mut body = request(b"\0ann\0wrong");
    body.put("$db", "$external");
    let mut waits = 0;
    for _ in 0..12 {
        let mut c = connect_tls(&s);
        match s.handle(&mut c, &Request::new(body.doc()), &mut Vec::new()) {
            Outcome::Wait { .. } => waits += 1,
            Outcome::Reply => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(waits >= 6, "{waits} of 12 had to wait");
    assert!(ldap.asked.load(Ordering::Relaxed) <= 12);
}

#[test]
fn a_lost_directory_is_reported_in_the_log_only() {
    let ldap = Ldap::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = Ldap {
        port: closed.local_addr().unwrap().port(),
        asked: Arc::clone(&ldap.asked),
    };
    drop(closed);
    let s = gone.server(true, false);
    let mut root = root(&s);
    let mut c = connect_tls(&s);
    for _ in 0..8 {
        let refused = log_in_by_plain(&s, &mut c, "ann", "pw");
        let text = refused.doc().field("errmsg").as_str().unwrap().to_owned();
        assert_eq!(text, "Authentication failed.");
    }
    let log = send(&s, &mut root, "admin", doc! { "getLog": "global" }.doc());
    let lines = log.doc().field("log").as_array().unwrap();
    let log: String = lines.iter().filter_map(|l| l.as_str()).collect();
    assert!(
        log.contains("cannot be reached") && log.contains(&gone.port.to_string()),
        "{log}"
    );
}
