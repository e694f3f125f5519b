//! Logging in by tokens of an identity provider: the messages of MONGODB-OIDC, roles, the expiry of
//! a token, and attacks. `crates/identity-oidc` has the tests of the verification.

use crate::access::{ELSEWHERE, HERE, code, log_in, run};
use crate::behaviour::{send, serve, store};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use commands::{Config, Connection, Dispatcher, Outcome, Request};
use identity_oidc::Providers;
use model::{Binary, Doc, DocBuf, Value, doc};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

struct Idp {
    key: EcdsaKeyPair,
    _dir: tempfile::TempDir,
    server: Arc<Dispatcher>,
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now_s() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs_f64()
}

impl Idp {
    /// A provider, and a server that accepts its tokens; with `claim`, tokens contain the roles.
    fn new(claim: bool) -> Idp {
        let (random, how) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let der = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(how, der.as_ref(), &random).unwrap();
        let (x, y) = key.public_key().as_ref()[1..].split_at(32);
        let set = json!({ "keys": [ { "kty": "EC", "kid": "k", "crv": "P-256", "x": b64(x),
            "y": b64(y) } ] });
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys.json");
        std::fs::write(&file, set.to_string()).unwrap();
        let list = json!([ { "issuer": "https://idp", "audience": "quarry", "clientId": "c1",
            "requestScopes": ["s1"], "authNamePrefix": "okta", "authorizationClaim": "groups",
            "useAuthorizationClaim": claim, "JWKSFile": file } ]);
        let config = Config {
            auth: true,
            oidc: Some(Arc::new(Providers::parse(&list.to_string()).unwrap())),
            ..Config::default()
        };
        let server = serve(config, store());
        let on = Value::String("SCRAM-SHA-256, MONGODB-OIDC");
        let parameters = &server.service().state.parameters;
        parameters
            .set_at_startup("authenticationMechanisms", on)
            .unwrap();
        parameters
            .set_at_startup("scramSHA256IterationCount", Value::Int32(5000))
            .unwrap();
        Idp {
            key,
            _dir: dir,
            server,
        }
    }

    fn token(&self, user: &str, expires_s: f64) -> String {
        let claims = json!({ "iss": "https://idp", "aud": "quarry", "sub": user, "exp": expires_s,
            "groups": ["Admins", "Nothing"] });
        let header = json!({ "alg": "ES256", "kid": "k" });
        let signed = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", b64(signature))
    }

    fn good(&self, user: &str) -> String {
        self.token(user, now_s() + 600.0)
    }

    /// Creates the first user, and a role for a group of the provider.
    fn root(&self) -> Connection {
        let s = &self.server;
        let mut c = s.connect(HERE);
        let root = doc! { "createUser": "root", "pwd": "pw", "roles": ["root"] };
        assert_eq!(run(s, &mut c, "admin", root), 0);
        assert_eq!(log_in(s, &mut c, ("root", "admin"), "pw"), 0);
        let role = doc! { "createRole": "okta/Admins", "privileges": [],
        "roles": [ { "role": "readWrite", "db": "d" } ] };
        assert_eq!(run(s, &mut c, "admin", role), 0);
        c
    }
}

fn bytes(payload: &DocBuf) -> Binary<'_> {
    Binary {
        subtype: 0,
        bytes: payload.as_bytes(),
    }
}

fn start(s: &Dispatcher, c: &mut Connection, db: &str, payload: &DocBuf) -> DocBuf {
    let command = doc! { "saslStart": 1i32, "mechanism": "MONGODB-OIDC",
    "payload": bytes(payload) };
    send(s, c, db, command.doc())
}

fn with_token(s: &Dispatcher, c: &mut Connection, token: &str) -> DocBuf {
    start(s, c, "$external", &doc! { "jwt": token })
}

fn go_on(s: &Dispatcher, c: &mut Connection, payload: &DocBuf) -> DocBuf {
    let command = doc! { "saslContinue": 1i32, "conversationId": 1i32,
    "payload": bytes(payload) };
    send(s, c, "$external", command.doc())
}

fn is_done(reply: &DocBuf) -> bool {
    code(reply) == 0 && reply.doc().field("done").as_bool() == Some(true)
}

fn find(s: &Dispatcher, c: &mut Connection) -> i64 {
    run(s, c, "d", doc! { "find": "c" })
}

fn log(s: &Dispatcher, root: &mut Connection) -> String {
    let reply = send(s, root, "admin", doc! { "getLog": "global" }.doc());
    let lines = reply.doc().field("log").as_array().unwrap();
    lines.iter().filter_map(|l| l.as_str()).collect()
}

#[test]
fn a_person_gets_the_address_of_the_provider_and_logs_in() {
    let idp = Idp::new(true);
    let s = &idp.server;
    let mut root = idp.root();
    let mut c = s.connect(ELSEWHERE);
    let told = start(s, &mut c, "$external", &doc! { "n": "ann" });
    assert_eq!(told.doc().field("done").as_bool(), Some(false));
    let Value::Binary(payload) = told.doc().field("payload") else {
        panic!("{told:?}");
    };
    let wanted = doc! { "issuer": "https://idp", "clientId": "c1", "requestScopes": ["s1"] };
    assert_eq!(payload.bytes, wanted.as_bytes());
    assert_eq!(find(s, &mut c), 13, "not before the token");
    assert!(is_done(&go_on(
        s,
        &mut c,
        &doc! { "jwt": idp.good("ann").as_str() }
    )));
    assert_eq!(find(s, &mut c), 0);
    assert_eq!(run(s, &mut c, "other", doc! { "find": "c" }), 13);
    let status = send(s, &mut c, "admin", doc! { "connectionStatus": 1i32 }.doc());
    let info = status.doc().field("authInfo").as_doc().unwrap().to_buf();
    let wanted = doc! { "authenticatedUsers": [ { "user": "okta/ann", "db": "$external" } ],
    "authenticatedUserRoles": [ { "role": "okta/Admins", "db": "admin" },
        { "role": "readWrite", "db": "d" } ] };
    assert_eq!(info, wanted);
    // When the role changes, the rights change with the next request.
    let take = doc! { "updateRole": "okta/Admins", "roles": [] };
    assert_eq!(run(s, &mut root, "admin", take), 0);
    assert_eq!(find(s, &mut c), 13);
    // This conversation accepts no second token.
    let again = go_on(s, &mut c, &doc! { "jwt": idp.good("ann").as_str() });
    assert_eq!(code(&again), 17);
}

#[test]
fn a_token_that_is_at_hand_takes_one_message_or_the_greeting() {
    let idp = Idp::new(true);
    let s = &idp.server;
    let mut root = idp.root();
    let mut c = s.connect(ELSEWHERE);
    assert!(is_done(&with_token(s, &mut c, &idp.good("ann"))));
    assert_eq!(find(s, &mut c), 0);
    let greet = |c: &mut Connection, token: &str| {
        let payload = doc! { "jwt": token };
        let hello = doc! { "hello": 1i32, "speculativeAuthenticate": { "saslStart": 1i32,
        "mechanism": "MONGODB-OIDC", "payload": bytes(&payload), "db": "$external" } };
        let reply = send(s, c, "admin", hello.doc());
        assert_eq!(code(&reply), 0);
        let of = |d: Doc<'_>| d.field("done").as_bool();
        reply
            .doc()
            .field("speculativeAuthenticate")
            .as_doc()
            .and_then(of)
    };
    let mut other = s.connect(ELSEWHERE);
    assert_eq!(greet(&mut other, &idp.good("bob")), Some(true));
    assert_eq!(find(s, &mut other), 0);
    let mut bad = s.connect(ELSEWHERE);
    let old = idp.token("eve", now_s() - 100.0);
    assert_eq!(greet(&mut bad, &old), None);
    assert_eq!(find(s, &mut bad), 13);
    let log = log(s, &mut root);
    assert!(
        log.contains("\"user\":\"okta/bob\"") && log.contains("MONGODB-OIDC"),
        "{log}"
    );
    assert!(
        log.contains("AuthenticationFailed: the token has expired"),
        "{log}"
    );
    let middle = old.split('.').nth(1).unwrap();
    assert!(!log.contains(middle), "no token in the log");
}

#[test]
fn malformed_tokens_are_refused_without_details() {
    let idp = Idp::new(true);
    let s = &idp.server;
    let _root = idp.root();
    let mut c = s.connect(ELSEWHERE);
    let forged = Idp::new(true).good("ann");
    for token in [forged.as_str(), "", "a.b.c"] {
        let reply = with_token(s, &mut c, token);
        assert_eq!(code(&reply), 18, "{token}");
        let text = reply.doc().field("errmsg").as_str().unwrap().to_owned();
        assert_eq!(text, "Authentication failed.");
        let told = start(s, &mut c, "$external", &doc! {});
        assert_eq!(told.doc().field("done").as_bool(), Some(false));
        assert_eq!(code(&go_on(s, &mut c, &doc! { "jwt": token })), 18);
    }
    assert_eq!(find(s, &mut c), 13);
    let good = idp.good("ann");
    assert_eq!(
        code(&start(s, &mut c, "admin", &doc! { "jwt": good.as_str() })),
        17
    );
    assert_eq!(
        code(&start(s, &mut c, "$external", &doc! { "jwt": 1i32 })),
        2
    );
    assert_eq!(
        code(&start(s, &mut c, "$external", &doc! { "n": 1i32 })),
        14
    );
    let raw = Binary {
        subtype: 0,
        bytes: b"no BSON",
    };
    let command = doc! { "saslStart": 1i32, "mechanism": "MONGODB-OIDC", "payload": raw };
    assert_eq!(run(s, &mut c, "$external", command), 2);
    let off = crate::access::start_guarded();
    let mut c = off.connect(ELSEWHERE);
    assert_eq!(code(&with_token(&off, &mut c, &good)), 334);
}

#[test]
fn an_expired_token_ends_what_it_has_begun_and_another_goes_on() {
    let idp = Idp::new(true);
    let s = &idp.server;
    let _root = idp.root();
    let mut c = s.connect(ELSEWHERE);
    // The token is valid for one more second, because clocks may differ by a minute.
    let short = idp.token("ann", now_s() - 59.0);
    assert!(is_done(&with_token(s, &mut c, &short)));
    assert_eq!(find(s, &mut c), 0);
    std::thread::sleep(Duration::from_millis(1100));
    let reply = send(s, &mut c, "d", doc! { "find": "c" }.doc());
    assert_eq!(code(&reply), 391);
    let name = reply.doc().field("codeName").as_str().unwrap().to_owned();
    assert_eq!(name, "ReauthenticationRequired");
    assert_eq!(run(s, &mut c, "admin", doc! { "ping": 1i32 }), 0);
    assert_eq!(code(&with_token(s, &mut c, &short)), 18);
    assert_eq!(find(s, &mut c), 391);
    let other = with_token(s, &mut c, &idp.good("bob"));
    assert_eq!(code(&other), 5_626_701, "a connection has one user");
    assert!(is_done(&with_token(s, &mut c, &idp.good("ann"))));
    assert_eq!(find(s, &mut c), 0);
}

#[test]
fn without_roles_in_the_token_the_user_has_a_document() {
    let idp = Idp::new(false);
    let s = &idp.server;
    let mut root = idp.root();
    let mut c = s.connect(ELSEWHERE);
    assert_eq!(code(&with_token(s, &mut c, &idp.good("ann"))), 18);
    let user = doc! { "createUser": "okta/ann", "roles": [ { "role": "read", "db": "d" } ] };
    assert_eq!(run(s, &mut root, "$external", user), 0);
    assert!(is_done(&with_token(s, &mut c, &idp.good("ann"))));
    assert_eq!(find(s, &mut c), 0);
    let insert = doc! { "insert": "c", "documents": [ { "a": 1i32 } ] };
    assert_eq!(run(s, &mut c, "d", insert), 13);
    assert_eq!(
        run(s, &mut root, "$external", doc! { "dropUser": "okta/ann" }),
        0
    );
    assert_eq!(find(s, &mut c), 13);
}

#[test]
fn wrong_tokens_of_one_address_wait_their_turn() {
    let idp = Idp::new(true);
    let s = &idp.server;
    let forged = Idp::new(true).good("ann");
    let payload = doc! { "jwt": forged.as_str() };
    let body = doc! { "saslStart": 1i32, "mechanism": "MONGODB-OIDC",
    "payload": bytes(&payload), "$db": "$external" };
    let mut waits = 0;
    for _ in 0..12 {
        let mut c = s.connect(ELSEWHERE);
        let mut out = Vec::new();
        match s.handle(&mut c, &Request::new(body.doc()), &mut out) {
            Outcome::Wait { .. } => waits += 1,
            Outcome::Reply => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(waits >= 6, "{waits} of 12 had to wait");
    let _root = idp.root();
    let mut other = s.connect("10.9.9.9:1");
    assert!(is_done(&with_token(s, &mut other, &idp.good("ann"))));
}
