//! Valid tokens, and every way in which a token can be invalid. Elliptic-curve keys are generated
//! here; the RSA key, which ring cannot generate, is in `rsa.txt` and protects nothing.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity_oidc::{CurrentTime, Providers, TokenBearer};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA384,
    RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};
use std::path::Path;

const NOW_S: i64 = 1_800_000_000;

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> CurrentTime {
    at(NOW_S, 0)
}

fn at(seconds: i64, monotonic_s: u64) -> CurrentTime {
    CurrentTime {
        wall_ms: seconds * 1000,
        monotonic_us: monotonic_s * 1_000_000,
    }
}

fn rsa() -> RsaKeyPair {
    let text: String = include_str!("rsa.txt").split_whitespace().collect();
    let der = STANDARD.decode(text).unwrap();
    RsaKeyPair::from_der(&der)
        .or_else(|_| RsaKeyPair::from_pkcs8(&der))
        .unwrap()
}

fn curve(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap()
}

fn rsa_jwk(key: &RsaKeyPair, kid: &str) -> Value {
    let parts: PublicKeyComponents<Vec<u8>> = key.public().into();
    json!({ "kty": "RSA", "use": "sig", "kid": kid, "n": b64(parts.n), "e": b64(parts.e) })
}

fn curve_jwk(key: &EcdsaKeyPair, kid: &str, name: &str) -> Value {
    let point = &key.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    json!({ "kty": "EC", "kid": kid, "crv": name, "x": b64(x), "y": b64(y) })
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", b64(header.to_string()), b64(claims.to_string()))
}

fn sign_by_curve(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let signed = unsigned(header, claims);
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", b64(signature))
}

fn sign_by_rsa(
    key: &RsaKeyPair,
    how: &'static dyn RsaEncoding,
    header: &Value,
    claims: &Value,
) -> String {
    let signed = unsigned(header, claims);
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(how, &SystemRandom::new(), signed.as_bytes(), &mut signature)
        .unwrap();
    format!("{signed}.{}", b64(signature))
}

fn claims() -> Value {
    json!({ "iss": "https://idp.example", "aud": "quarry", "sub": "ann@example.com",
        "groups": ["Everyone", "Admins"], "exp": NOW_S + 600, "nbf": NOW_S - 5 })
}

fn claims_without(name: &str) -> Value {
    let mut all = claims();
    all.as_object_mut().unwrap().remove(name);
    all
}

fn claims_with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all
}

fn write(path: &Path, keys: &[Value]) {
    std::fs::write(path, json!({ "keys": keys }).to_string()).unwrap();
}

fn provider(file: &Path) -> Value {
    json!({ "issuer": "https://idp.example", "audience": "quarry", "authNamePrefix": "okta",
        "clientId": "c1", "requestScopes": ["s1"], "authorizationClaim": "groups",
        "JWKSFile": file })
}

fn parse(list: &[Value]) -> Result<Providers, String> {
    Providers::parse(&Value::from(list).to_string())
}

struct Idp {
    dir: tempfile::TempDir,
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
}

impl Idp {
    fn new() -> Idp {
        let idp = Idp {
            dir: tempfile::tempdir().unwrap(),
            rsa: rsa(),
            p256: curve(&ECDSA_P256_SHA256_FIXED_SIGNING),
            p384: curve(&ECDSA_P384_SHA384_FIXED_SIGNING),
        };
        write(&idp.file(), &idp.keys());
        idp
    }

    fn keys(&self) -> Vec<Value> {
        vec![
            json!({ "kty": "oct", "kid": "secret", "k": b64("public?") }),
            rsa_jwk(&self.rsa, "r"),
            curve_jwk(&self.p256, "e", "P-256"),
            curve_jwk(&self.p384, "f", "P-384"),
        ]
    }

    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("keys.json")
    }

    fn providers(&self) -> Providers {
        parse(&[provider(&self.file())]).unwrap()
    }

    fn token(&self, claims: &Value) -> String {
        sign_by_curve(&self.p256, &json!({ "alg": "ES256", "kid": "e" }), claims)
    }
}

fn verify_error(providers: &Providers, token: &str) -> String {
    let (verified, _) = providers.verify(token, now());
    verified.expect_err("a token that is not to be believed").0
}

#[test]
fn tokens_of_each_kind_of_key_are_believed() {
    let idp = Idp::new();
    let providers = idp.providers();
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid, "typ": "JWT" });
    let c = claims();
    let wanted = TokenBearer {
        user: "okta/ann@example.com".into(),
        roles: Some(vec!["okta/Everyone".into(), "okta/Admins".into()]),
        ends_ms: (NOW_S + 660) * 1000,
    };
    for token in [
        sign_by_curve(&idp.p256, &header("ES256", "e"), &c),
        sign_by_curve(&idp.p384, &header("ES384", "f"), &c),
        sign_by_rsa(&idp.rsa, &RSA_PKCS1_SHA256, &header("RS256", "r"), &c),
        sign_by_rsa(&idp.rsa, &RSA_PKCS1_SHA512, &header("RS512", "r"), &c),
        sign_by_rsa(&idp.rsa, &RSA_PSS_SHA384, &header("PS384", "r"), &c),
        idp.token(&claims_with("aud", json!(["other", "quarry"]))),
        idp.token(&claims_without("nbf")),
    ] {
        assert_eq!(providers.verify(&token, now()).0.as_ref(), Ok(&wanted));
    }
    let token = idp.token(&c);
    assert_eq!(providers.claimed_user(&token), "okta/ann@example.com");
    assert_eq!(providers.claimed_user("x.y.z"), "");
}

#[test]
fn a_wrong_signature_is_refused_whatever_it_says_of_itself() {
    let idp = Idp::new();
    let providers = idp.providers();
    let c = claims();
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
    let wrong_key = "no key of the provider has the name and the algorithm";
    let good = idp.token(&c);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let changed = unsigned(&header("ES256", "e"), &claims_with("sub", json!("root")));
    let other = curve(&ECDSA_P256_SHA256_FIXED_SIGNING);
    // The public key is used as the HMAC secret: the classical algorithm confusion.
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, idp.p256.public_key().as_ref());
    let hmac = |kid: &str| {
        let text = unsigned(&header("HS256", kid), &c);
        let tag = ring::hmac::sign(&secret, text.as_bytes());
        format!("{text}.{}", b64(tag.as_ref()))
    };
    let none = format!("{}.", unsigned(&header("none", "e"), &c));
    let unknown = sign_by_curve(&idp.p256, &header("ES256", "nobody"), &c);
    let rsa_by_curve = sign_by_curve(&idp.p256, &header("ES256", "r"), &c);
    let mut bits = URL_SAFE_NO_PAD.decode(signature).unwrap();
    bits[7] ^= 1;
    for (token, why) in [
        (format!("{signed}.{}", b64(&bits)), "the signature"),
        (format!("{signed}."), "the signature"),
        (format!("{changed}.{signature}"), "the signature"),
        (
            sign_by_curve(&other, &header("ES256", "e"), &c),
            "the signature",
        ),
        (none, "no header that can be used"),
        (hmac("e"), wrong_key),
        (hmac("secret"), wrong_key),
        (unknown, wrong_key),
        (rsa_by_curve, wrong_key),
        (
            sign_by_curve(&idp.p256, &json!({ "alg": "ES256" }), &c),
            "names no key",
        ),
        (
            sign_by_curve(
                &idp.p256,
                &json!({ "alg": "ES256", "kid": "e", "crit": ["b64"] }),
                &c,
            ),
            "more than a signature",
        ),
        (signed.to_owned(), "no header"),
        (String::new(), "no header"),
        (format!("{good}.{good}"), "no header"),
        ("\u{0}.\u{ff}.".to_owned(), "no header"),
        (
            format!("{}.!!.{signature}", b64(header("ES256", "e").to_string())),
            "no claims",
        ),
        (idp.token(&json!("text")), "no claims"),
        (
            idp.token(&claims_with("pad", json!("x".repeat(20_000)))),
            "too long",
        ),
    ] {
        let e = verify_error(&providers, &token);
        assert!(e.contains(why), "{why}: {e}");
        assert!(!e.contains("ann"), "nothing of the token: {e}");
    }
}

#[test]
fn wrong_claims_are_refused() {
    let idp = Idp::new();
    let providers = idp.providers();
    let nobody = "no provider has the issuer and the audience";
    for (claims, why) in [
        (claims_with("iss", json!("https://evil.example")), nobody),
        (claims_with("iss", json!(["https://idp.example"])), nobody),
        (claims_without("iss"), nobody),
        (claims_with("aud", json!("other")), nobody),
        (claims_with("aud", json!([])), nobody),
        (claims_without("aud"), nobody),
        (claims_with("exp", json!(NOW_S - 61)), "expired"),
        (claims_without("exp"), "one of its claims"),
        (claims_with("exp", json!("soon")), "one of its claims"),
        (claims_with("exp", json!(-1)), "one of its claims"),
        (claims_with("exp", json!(1e300)), "one of its claims"),
        (claims_with("nbf", json!(NOW_S + 61)), "not valid yet"),
        (
            claims_with("nbf", json!("now")),
            "'nbf' of the token is no time",
        ),
        (claims_without("sub"), "claim 'sub'"),
        (claims_with("sub", json!("")), "empty"),
        (claims_with("sub", json!("a\u{0}b")), "NUL"),
        (claims_with("sub", json!(5)), "claim 'sub'"),
        (claims_with("sub", json!("x".repeat(1025))), "too long"),
        (claims_without("groups"), "array of strings in 'groups'"),
        (claims_with("groups", json!("Admins")), "array of strings"),
        (claims_with("groups", json!(["a", 1])), "array of strings"),
        (claims_with("groups", json!([""])), "empty"),
    ] {
        let e = verify_error(&providers, &idp.token(&claims));
        assert!(e.contains(why), "{claims}: {e}");
    }
    for within in [
        claims_with("exp", json!(NOW_S - 59)),
        claims_with("nbf", json!(NOW_S + 59)),
    ] {
        assert!(providers.verify(&idp.token(&within), now()).0.is_ok());
    }
    let far = claims_with("exp", json!(1e18));
    let (verified, _) = providers.verify(&idp.token(&far), now());
    assert_eq!(verified.map(|v| v.ends_ms), Ok(i64::MAX));
}

#[test]
fn principal_and_roles_come_from_the_claims_that_are_named() {
    let idp = Idp::new();
    let mut p = provider(&idp.file());
    p["principalName"] = json!("email");
    p["useAuthorizationClaim"] = json!(false);
    let providers = parse(&[p]).unwrap();
    let token = idp.token(&claims_with("email", json!("e@x")));
    let verified = providers.verify(&token, now()).0.unwrap();
    assert_eq!((verified.user.as_str(), verified.roles), ("okta/e@x", None));
    assert!(verify_error(&providers, &idp.token(&claims())).contains("'email'"));
}

#[test]
fn new_keys_are_found_and_the_file_is_read_seldom() {
    let idp = Idp::new();
    let providers = idp.providers();
    let new = curve(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let token = |kid: &str| sign_by_curve(&new, &json!({ "alg": "ES256", "kid": kid }), &claims());
    let rotate = |kid: &str| write(&idp.file(), &[curve_jwk(&new, kid, "P-256")]);
    let verify = |kid: &str, s: u64| providers.verify(&token(kid), at(NOW_S, s));
    assert!(verify("n1", 100).0.is_err());
    rotate("n1");
    assert!(verify("n1", 104).0.is_err(), "not before five seconds");
    assert!(verify("n1", 105).0.is_ok());
    // The old key disappeared with its file.
    assert!(
        providers
            .verify(&idp.token(&claims()), at(NOW_S, 106))
            .0
            .is_err()
    );
    // An unusable file leaves the keys unchanged and is reported.
    std::fs::write(idp.file(), "{").unwrap();
    let (refused, trouble) = verify("n2", 111);
    assert!(refused.is_err() && trouble.is_some_and(|t| t.contains("keys.json")));
    assert_eq!(verify("n2", 112).1, None);
    assert!(verify("n1", 112).0.is_ok());
}

#[test]
fn keys_that_are_old_are_read_anew_when_that_is_asked_for() {
    let idp = Idp::new();
    let mut p = provider(&idp.file());
    p["JWKSPollSecs"] = json!(30);
    let providers = parse(&[p]).unwrap();
    let verify = |s: u64| providers.verify(&idp.token(&claims()), at(NOW_S, s)).0;
    assert!(verify(10).is_ok());
    write(&idp.file(), &[rsa_jwk(&idp.rsa, "r")]);
    assert!(verify(39).is_ok());
    assert!(verify(40).is_err(), "a key that was taken back");
}

#[test]
fn invalid_providers_are_refused_by_name() {
    let idp = Idp::new();
    let file = idp.file();
    let changed = |name: &str, value: Value| {
        let mut p = provider(&file);
        p[name] = value;
        p
    };
    let lacking = |name: &str| {
        let mut p = provider(&file);
        p.as_object_mut().unwrap().remove(name);
        p
    };
    let told = |content: &str| {
        let bad = idp.dir.path().join(format!("bad{}.json", content.len()));
        std::fs::write(&bad, content).unwrap();
        changed("JWKSFile", json!(bad))
    };
    let other = |name: &str, value: &str| {
        let mut p = changed("issuer", json!("https://second"));
        p[name] = json!(value);
        p
    };
    for (list, named) in [
        (vec![], "names no provider"),
        (vec![changed("logClaims", json!(["sub"]))], "logClaims"),
        (vec![lacking("issuer")], "issuer"),
        (vec![changed("issuer", json!(""))], "issuer"),
        (vec![lacking("audience")], "audience"),
        (vec![lacking("JWKSFile")], "JWKSFile"),
        (vec![lacking("clientId")], "clientId"),
        (vec![lacking("authorizationClaim")], "authorizationClaim"),
        (vec![changed("authNamePrefix", json!("a/b"))], "'a/b'"),
        (vec![changed("matchPattern", json!("("))], "matchPattern"),
        (
            vec![changed("supportsHumanFlows", json!(false))],
            "clientId",
        ),
        (
            vec![changed("JWKSFile", json!("/nowhere/keys"))],
            "/nowhere/keys",
        ),
        (vec![changed("JWKSFile", json!("/dev/zero"))], "is no file"),
        (vec![told("[]")], "no JWKS"),
        (vec![told("{\"keys\": []}")], "holds no key"),
        (vec![provider(&file), provider(&file)], "twice"),
        (
            vec![provider(&file), other("authNamePrefix", "okta")],
            "two issuers",
        ),
        (
            vec![provider(&file), other("authNamePrefix", "two")],
            "matchPattern",
        ),
    ] {
        let e = parse(&list).err();
        assert!(
            e.as_ref().is_some_and(|e| e.contains(named)),
            "{named}: {e:?}"
        );
    }
    let long = told(&" ".repeat(300_000));
    assert!(parse(&[long]).unwrap_err().contains("longer than"));
}

#[test]
fn people_are_sent_to_the_provider_of_their_name() {
    let idp = Idp::new();
    let providers = idp.providers();
    let only = providers.of_person(None).unwrap();
    assert_eq!(
        (only.client_id(), only.request_scopes()),
        ("c1", &["s1".to_owned()][..])
    );
    let mut first = provider(&idp.file());
    first["matchPattern"] = json!("@one\\.example$");
    let mut second = first.clone();
    second["issuer"] = json!("https://two");
    second["authNamePrefix"] = json!("two");
    second["matchPattern"] = json!("@two\\.example$");
    let both = parse(&[first, second]).unwrap();
    let issuer = |name: Option<&str>| both.of_person(name).map(|p| p.issuer().to_owned());
    assert_eq!(
        issuer(Some("x@one.example")).as_deref(),
        Some("https://idp.example")
    );
    assert_eq!(
        issuer(Some("x@two.example")).as_deref(),
        Some("https://two")
    );
    assert_eq!(
        (issuer(Some("x@three.example")), issuer(None)),
        (None, None)
    );
    let mut machines = provider(&idp.file());
    let fields = machines.as_object_mut().unwrap();
    fields.insert("supportsHumanFlows".into(), json!(false));
    fields.remove("clientId");
    fields.remove("requestScopes");
    assert!(parse(&[machines]).unwrap().of_person(None).is_none());
}
