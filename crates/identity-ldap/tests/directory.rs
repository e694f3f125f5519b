//! Logins against a small LDAP server in this test: the requests it gets, the results of its
//! answers, and hostile answers.

use identity_ldap::{Directory, DirectoryUser, LoginError, Security, Settings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the answer to a request.
type Answer = Box<dyn FnMut(&Exchange) -> Vec<u8> + Send>;

#[derive(Clone, Debug, PartialEq)]
enum Exchange {
    Bind(String, String),
    /// The search base, and the rest of the request as received.
    Search(String, Vec<u8>),
    Unbind,
}

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    // Active Directory always writes lengths with four bytes.
    let mut out = vec![tag, 0x84];
    out.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
    out.extend(content);
    out
}

fn value(bytes: &[u8]) -> (u8, &[u8], &[u8]) {
    let (header, len) = match bytes[1] {
        short @ 0..=0x7f => (2, usize::from(short)),
        long => {
            let n = usize::from(long & 0x7f);
            let len = bytes[2..2 + n]
                .iter()
                .fold(0, |l, b| l << 8 | usize::from(*b));
            (2 + n, len)
        }
    };
    (
        bytes[0],
        &bytes[header..header + len],
        &bytes[header + len..],
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn parse(message: &[u8]) -> (Vec<u8>, Exchange) {
    let (_, id, rest) = value(value(message).1);
    let (tag, content, _) = value(rest);
    let asked = match tag {
        0x60 => {
            let (_, _, rest) = value(content);
            let (_, name, rest) = value(rest);
            Exchange::Bind(text(name), text(value(rest).1))
        }
        0x63 => {
            let (_, base, rest) = value(content);
            Exchange::Search(text(base), rest.to_vec())
        }
        0x42 => Exchange::Unbind,
        other => panic!("tag {other}"),
    };
    (id.to_vec(), asked)
}

fn message(id: &[u8], operation: &[u8]) -> Vec<u8> {
    tlv(0x30, &[&tlv(2, id)[..], operation].concat())
}

fn result(tag: u8, code: u8) -> Vec<u8> {
    let content = [tlv(0x0a, &[code]), tlv(4, b""), tlv(4, b"a text")].concat();
    tlv(tag, &content)
}

fn entry(name: &str, values: &[&str]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|v| tlv(4, v.as_bytes())).collect();
    let attribute = tlv(0x30, &[tlv(4, b"memberOf"), tlv(0x31, &values)].concat());
    tlv(
        0x64,
        &[tlv(4, name.as_bytes()), tlv(0x30, &attribute)].concat(),
    )
}

fn box_answer(answer: impl FnMut(&Exchange) -> Vec<u8> + Send + 'static) -> Answer {
    Box::new(answer)
}

/// Serves one connection after the other; returns the port and the requests.
fn serve(mut answer: Answer) -> (u16, Arc<Mutex<Vec<Exchange>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let all = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&all);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = one(&mut stream.unwrap(), &mut answer, &kept);
        }
    });
    (port, all)
}

fn one(
    stream: &mut TcpStream,
    answer: &mut Answer,
    kept: &Mutex<Vec<Exchange>>,
) -> std::io::Result<()> {
    loop {
        let mut bytes = vec![0; 2];
        stream.read_exact(&mut bytes)?;
        let digits = match bytes[1] {
            0..=0x7f => 0,
            long => usize::from(long & 0x7f),
        };
        let mut more = vec![0; digits];
        stream.read_exact(&mut more)?;
        bytes.extend(&more);
        let len = match digits {
            0 => usize::from(bytes[1]),
            _ => more.iter().fold(0, |l, b| l << 8 | usize::from(*b)),
        };
        let mut content = vec![0; len];
        stream.read_exact(&mut content)?;
        bytes.extend(content);
        let (id, asked) = parse(&bytes);
        kept.lock().unwrap().push(asked.clone());
        let operations = answer(&asked);
        if operations.is_empty() {
            return Ok(());
        }
        // Each of several adjacent operations becomes a message; other bytes are sent unchanged.
        let mut rest = &operations[..];
        if matches!(rest[0], 0x61 | 0x64 | 0x65 | 0x73) {
            while !rest.is_empty() {
                let after = value(rest).2;
                let operation = &rest[..rest.len() - after.len()];
                stream.write_all(&message(&id, operation))?;
                rest = after;
            }
        } else {
            stream.write_all(rest)?;
        }
    }
}

fn certificates(file: &str) -> String {
    format!("../server/tests/it/certificates/{file}")
}

/// A directory behind TLS that accepts every password; returns the port.
fn serve_tls(address: &str) -> u16 {
    let file = certificates("server.pem");
    let chain = CertificateDer::pem_file_iter(&file).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&file).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(tls, stream.unwrap());
            let mut asked = [0; 512];
            if stream.read(&mut asked).is_ok() {
                let _ = stream.write_all(&message(&[1], &result(0x61, 0)));
                let _ = stream.read(&mut asked);
            }
        }
    });
    port
}

fn trust_file(file: &str) -> Security {
    let mut roots = RootCertStore::empty();
    let of_file = CertificateDer::pem_file_iter(certificates(file)).unwrap();
    of_file.for_each(|c| roots.add(c.unwrap()).unwrap());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Security::Tls(Arc::new(config))
}

#[test]
fn a_directory_behind_tls_must_be_the_one_that_is_named() {
    let log_in = |host: &str, ca: &str| {
        let port = serve_tls(if host == "localhost" {
            "127.0.0.1"
        } else {
            host
        });
        let settings = Settings {
            servers: vec![format!("{host}:{port}")],
            security: trust_file(ca),
            timeout: Duration::from_secs(5),
            ..settings(port, BY_NAME)
        };
        Directory::new(settings).unwrap().log_in("ann", "pw")
    };
    assert!(log_in("localhost", "ca.pem").is_ok());
    for (host, ca) in [("localhost", "client.pem"), ("127.0.0.2", "ca.pem")] {
        let ended = log_in(host, ca);
        let Err(LoginError::Trouble(what)) = &ended else {
            panic!("{host}: {ended:?}");
        };
        assert!(what.contains("certificate"), "{what}");
    }
}

/// Two users, and their groups.
fn example() -> Answer {
    Box::new(|asked| match asked {
        Exchange::Bind(name, password) => {
            let good = matches!(
                (name.as_str(), password.as_str()),
                ("cn=searcher", "s") | ("uid=ann,dc=x", "pw")
            );
            result(0x61, if good { 0 } else { 49 })
        }
        Exchange::Search(base, rest) => {
            let finds = |what: &str| rest.windows(what.len()).any(|w| w == what.as_bytes());
            let found = match base.as_str() {
                "dc=x" if finds("memberOf") => [
                    entry("uid=ann,dc=x", &["cn=a,dc=x", "cn=b,dc=x"]),
                    tlv(0x73, b""),
                ]
                .concat(),
                "dc=x" if finds("member") => {
                    [entry("cn=a,dc=x", &[]), entry("cn=c,dc=x", &[])].concat()
                }
                "dc=x" if finds("twin") => [entry("a", &[]), entry("b", &[])].concat(),
                "dc=x" if finds("ann") => entry("uid=ann,dc=x", &[]),
                _ => Vec::new(),
            };
            [found, result(0x65, 0)].concat()
        }
        Exchange::Unbind => Vec::new(),
    })
}

const BY_NAME: &str = r#"[{"match": "(.+)", "substitution": "uid={0},dc=x"}]"#;
const BY_QUERY: &str = r#"[{"match": "(.+)", "ldapQuery": "dc=x??sub?(uid={0})"}]"#;

fn settings(port: u16, mapping: &str) -> Settings {
    Settings {
        servers: vec![format!("127.0.0.1:{port}")],
        security: Security::None,
        searcher: Some(("cn=searcher".into(), "s".into())),
        mapping: Some(mapping.to_owned()),
        groups: None,
        timeout: Duration::from_millis(800),
    }
}

fn directory(port: u16, mapping: &str) -> Directory {
    Directory::new(settings(port, mapping)).unwrap()
}

fn refusal(directory: &Directory, user: &str, password: &str) -> String {
    match directory.log_in(user, password) {
        Err(LoginError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_password_is_checked_by_the_name_in_the_directory() {
    let (port, asked) = serve(example());
    let d = directory(port, BY_NAME);
    assert_eq!(d.log_in("ann", "pw"), Ok(DirectoryUser { groups: None }));
    let bind = |name: &str, password: &str| Exchange::Bind(name.into(), password.into());
    thread::sleep(Duration::from_millis(50));
    assert_eq!(
        *asked.lock().unwrap(),
        [bind("uid=ann,dc=x", "pw"), Exchange::Unbind]
    );
    for (user, password) in [("ann", "wrong"), ("bob", "pw"), ("ann,dc=evil", "pw")] {
        assert!(refusal(&d, user, password).contains("refuses"));
    }
    let asked = asked.lock().unwrap();
    assert!(
        asked.contains(&bind("uid=ann\\,dc\\=evil,dc=x", "pw")),
        "{asked:?}"
    );
    let found = directory(port, BY_QUERY);
    drop(asked);
    assert!(found.log_in("ann", "pw").is_ok());
    assert!(refusal(&found, "nobody", "pw").contains("no rule"));
    assert!(refusal(&found, "twin", "pw").contains("several"));
}

#[test]
fn a_bind_without_a_name_or_password_is_never_sent() {
    let (port, asked) = serve(Box::new(|_| result(0x61, 0)));
    let d = directory(port, BY_NAME);
    assert!(refusal(&d, "ann", "").contains("password is empty"));
    assert!(refusal(&d, "", "pw").contains("name is empty"));
    assert!(refusal(&d, "ann", "p\0w").contains("NUL"));
    assert!(refusal(&d, "ann", &"x".repeat(1025)).contains("too long"));
    let empty = directory(port, r#"[{"match": "(x?).+", "substitution": "{0}"}]"#);
    assert!(refusal(&empty, "ann", "pw").contains("empty"));
    let asked = asked.lock().unwrap();
    assert!(
        !asked.iter().any(|a| matches!(a, Exchange::Bind(..))),
        "{asked:?}"
    );
}

#[test]
fn groups_are_names_of_entries_or_values_of_an_attribute() {
    let (port, _) = serve(example());
    let with = |groups: &str| {
        let settings = Settings {
            groups: Some(groups.to_owned()),
            ..settings(port, BY_NAME)
        };
        Directory::new(settings)
            .unwrap()
            .log_in("ann", "pw")
            .unwrap()
    };
    let groups = |all: &[&str]| DirectoryUser {
        groups: Some(all.iter().map(|g| (*g).to_owned()).collect()),
    };
    assert_eq!(
        with("dc=x??sub?(member={USER})"),
        groups(&["cn=a,dc=x", "cn=c,dc=x"])
    );
    assert_eq!(
        with("dc=x?memberOf?sub?(uid={PROVIDED_USER})"),
        groups(&["cn=a,dc=x", "cn=b,dc=x"])
    );
    assert_eq!(with("{USER}"), groups(&[]));
}

#[test]
fn syntax_in_a_name_stays_a_value() {
    let (port, asked) = serve(example());
    let d = directory(port, BY_QUERY);
    assert!(refusal(&d, "*)(uid=an*", "pw").contains("no rule"));
    let asked = asked.lock().unwrap();
    let rest = asked.iter().find_map(|a| match a {
        Exchange::Search(_, rest) => Some(rest.clone()),
        _ => None,
    });
    let rest = rest.unwrap();
    let wanted = b"\xa3\x11\x04\x03uid\x04\x0a*)(uid=an*";
    assert!(rest.windows(wanted.len()).any(|w| w == wanted), "{rest:?}");
}

#[test]
fn hostile_directories_end_in_time_and_log_nobody_in() {
    let long = || [&[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff][..], &[0; 64]].concat();
    let deep = || {
        // Values without an end, nested in each other.
        let mut bytes = vec![0x30, 0x83, 0x0f, 0xff, 0xf0];
        bytes.extend([0x30, 0x80].repeat(0x7_fff8));
        bytes
    };
    let other = || message(&[99], &result(0x61, 0));
    let notice = || message(&[0], &result(0x78, 52));
    let id = |operation: Vec<u8>| message(&[1], &operation);
    let answers: Vec<(&str, Answer)> = vec![
        ("closed", box_answer(|_| Vec::new())),
        (
            "malformed message",
            box_answer(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(9)),
        ),
        ("too long", box_answer(move |_| long())),
        ("was not sent", box_answer(move |_| deep())),
        ("was not sent", box_answer(move |_| other())),
        ("gave notice", box_answer(move |_| notice())),
        ("the result 52", box_answer(|_| result(0x61, 52))),
        ("something else", box_answer(|_| result(0x65, 0))),
        ("without a result", box_answer(move |_| id(tlv(0x61, b"")))),
        (
            "without a result",
            box_answer(move |_| id(tlv(0x61, &tlv(0x0a, &[0; 9])))),
        ),
        (
            "without an operation",
            box_answer(|_| tlv(0x30, &tlv(2, &[1]))),
        ),
        (
            "not answer",
            box_answer(|_| {
                thread::sleep(Duration::from_secs(5));
                Vec::new()
            }),
        ),
        (
            "not answer",
            box_answer(|_| vec![0x30, 0x82, 0x10, 0x00, 2, 1, 1]),
        ),
    ];
    for (named, answer) in answers {
        let (port, _) = serve(answer);
        let began = Instant::now();
        let ended = directory(port, BY_NAME).log_in("ann", "pw");
        let Err(LoginError::Trouble(what)) = ended else {
            panic!("{named}: {ended:?}");
        };
        assert!(what.contains(named), "{named}: {what}");
        assert!(
            !what.contains("pw") && what.contains(&port.to_string()),
            "{what}"
        );
        assert!(began.elapsed() < Duration::from_secs(3), "{named}");
    }
}

#[test]
fn a_search_without_end_is_given_up() {
    let (port, _) = serve(Box::new(|asked| match asked {
        Exchange::Bind(..) => result(0x61, 0),
        _ => entry("cn=a,dc=x", &[&"x".repeat(1000)]).repeat(3000),
    }));
    let d = directory(port, BY_QUERY);
    let ended = d.log_in("ann", "pw");
    assert!(
        matches!(&ended, Err(LoginError::Trouble(w)) if w.contains("more than")),
        "{ended:?}"
    );
}

#[test]
fn bytes_that_come_one_by_one_do_not_buy_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[0x30, 0x82, 0x10, 0x00]).unwrap();
        while stream.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    let began = Instant::now();
    let ended = directory(port, BY_NAME).log_in("ann", "pw");
    assert!(matches!(ended, Err(LoginError::Trouble(_))), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn the_next_server_is_asked_when_one_cannot_be() {
    let (port, _) = serve(example());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = closed.local_addr().unwrap().port();
    drop(closed);
    let servers = vec![format!("127.0.0.1:{gone}"), format!("127.0.0.1:{port}")];
    let both = Directory::new(Settings {
        servers,
        ..settings(port, BY_NAME)
    });
    assert!(both.unwrap().log_in("ann", "pw").is_ok());
    let wrong = Settings {
        searcher: Some(("cn=searcher".into(), "old".into())),
        ..settings(port, BY_QUERY)
    };
    let ended = Directory::new(wrong).unwrap().log_in("ann", "pw");
    assert!(
        matches!(&ended, Err(LoginError::Trouble(w)) if w.contains("queryUser")),
        "{ended:?}"
    );
}

#[test]
fn a_directory_that_hangs_takes_no_more_than_its_threads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let d = Arc::new(directory(port, BY_NAME));
    let threads: Vec<_> = (0..24)
        .map(|_| {
            let d = Arc::clone(&d);
            thread::spawn(move || d.log_in("ann", "pw"))
        })
        .collect();
    let ended: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let busy = ended
        .iter()
        .filter(|e| **e == Err(LoginError::Busy))
        .count();
    assert_eq!(busy, 8, "{ended:?}");
    drop(listener);
}
