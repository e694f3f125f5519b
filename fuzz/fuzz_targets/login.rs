//! Everything before a login: any messages over TCP to a server with access control, from a client
//! that has not logged in. Nothing panics, no reply contains stored data, nothing is changed, and
//! the server keeps answering. The server's allocator excludes the address sanitizer: `cargo
//! +nightly fuzz run --sanitizer none login -- -dict=fuzz/login.dict`
#![no_main]

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use mongodb::bson::{Document, doc};
use mongodb::sync::Client;
use server::config::ServeArgs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wire::{Compressor, CompressorSet, DecodeOptions};

/// As in the server: received bytes are counted.
#[global_allocator]
static ALLOCATOR: memory::CountingAllocator<std::alloc::System> =
    memory::CountingAllocator(std::alloc::System);

const CANARY: &str = "canary-5c1b7f0e-not-for-strangers";
const PASSWORD: &str = "not-in-the-dictionary";
/// Number of inputs after which the state of the server is checked.
const LOOK: u64 = 2048;
/// Longest wait for a reply: `hello` may wait for a change.
const REPLY: Duration = Duration::from_millis(100);

const COMMANDS: &[&str] = &[
    "hello",
    "isMaster",
    "ismaster",
    "ping",
    "buildInfo",
    "saslStart",
    "saslContinue",
    "authenticate",
    "logout",
    "connectionStatus",
    "whatsmyuri",
    "getnonce",
    "endSessions",
    "find",
    "insert",
    "update",
    "delete",
    "aggregate",
    "createUser",
    "usersInfo",
    "listDatabases",
    "getMore",
    "killCursors",
    "startSession",
    "abortTransaction",
    "commitTransaction",
    "getLog",
    "serverStatus",
    "shutdown",
    "eval",
    "listCommands",
    "getParameter",
    "setParameter",
    "refreshSessions",
];
const DATABASES: &[&str] = &["admin", "$external", "local", "config", "secret", "", "a.b"];
const MECHANISMS: &[&str] = &[
    "SCRAM-SHA-256",
    "SCRAM-SHA-1",
    "PLAIN",
    "MONGODB-X509",
    "X",
    "",
];

/// The options of `quarry serve`.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    serve: ServeArgs,
}

struct Target {
    address: SocketAddr,
    root: Client,
    /// Data that no reply may contain.
    secrets: Vec<Vec<u8>>,
}

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let log = std::env::temp_dir().join(format!("quarry-fuzz-{}.log", std::process::id()));
        let Cli { serve } = Cli::parse_from([
            "serve",
            "--storageEngine",
            "memory",
            "--auth",
            "--bind_ip",
            "127.0.0.1",
            "--port",
            &port,
            "--nounixsocket",
            "--memory",
            "512M",
            "--quiet",
            "--logpath",
            log.to_str().unwrap(),
        ]);
        std::thread::spawn(move || server::serve::run(&serve).map_err(|e| e.message).unwrap());
        let stranger = Client::with_uri_str(format!("mongodb://{address}/?directConnection=true"));
        let user = doc! { "createUser": "root", "pwd": PASSWORD, "roles": ["root"] };
        stranger
            .unwrap()
            .database("admin")
            .run_command(user)
            .run()
            .unwrap();
        let uri = format!("mongodb://root:{PASSWORD}@{address}/?directConnection=true");
        let root = Client::with_uri_str(uri).unwrap();
        let secret = root.database("secret").collection("secret");
        secret
            .insert_one(doc! { "_id": 1, "text": CANARY })
            .run()
            .unwrap();
        let users = root
            .database("admin")
            .collection::<Document>("system.users");
        let stored = users.find_one(doc! {}).run().unwrap().unwrap();
        let mut secrets = vec![CANARY.as_bytes().to_vec(), PASSWORD.as_bytes().to_vec()];
        for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
            let of = stored.get_document("credentials").unwrap();
            let of = of.get_document(mechanism).unwrap();
            for key in ["storedKey", "serverKey"] {
                secrets.push(of.get_str(key).unwrap().as_bytes().to_vec());
            }
        }
        Target {
            address,
            root,
            secrets,
        }
    })
}

/// Removes up to `n` bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(n.min(bytes.len()));
    *bytes = rest;
    front
}

fn byte(bytes: &mut &[u8]) -> usize {
    take(bytes, 1).first().copied().map_or(0, usize::from)
}

fn pick<'a>(from: &[&'a str], bytes: &mut &[u8]) -> &'a str {
    from[byte(bytes) % from.len()]
}

fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind][..], name.as_bytes(), b"\0", value].concat()
}

fn string(name: &str, value: &str) -> Vec<u8> {
    let len = (value.len() as i32 + 1).to_le_bytes();
    element(2, name, &[&len[..], value.as_bytes(), b"\0"].concat())
}

fn document(elements: &[u8]) -> Vec<u8> {
    let len = (elements.len() as i32 + 5).to_le_bytes();
    [&len[..], elements, b"\0"].concat()
}

fn message(op: i32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as i32 + 16).to_le_bytes();
    [
        &len[..],
        &7i32.to_le_bytes(),
        &0i32.to_le_bytes(),
        &op.to_le_bytes(),
        body,
    ]
    .concat()
}

fn op_msg(flags: u8, elements: &[u8]) -> Vec<u8> {
    [&[flags, 0, 0, 0, 0][..], &document(elements)].concat()
}

/// One message of the input, in the form given by its first byte.
fn next(input: &mut &[u8]) -> Vec<u8> {
    let kind = byte(input);
    let len = byte(input) | byte(input) << 8;
    let mut payload = take(input, len);
    let p = &mut payload;
    match kind % 6 {
        // Unchanged.
        0 => p.to_vec(),
        // With a correct length.
        1 => {
            let op = [2013, 2012, 2004, 2010, 1, 2005, 2006, 2007][byte(p) % 8];
            message(op, p)
        }
        // A command with arguments of any form.
        2 => {
            let flags = [0, 1, 2, 3, 0x80][byte(p) % 5];
            let name = element(16, pick(COMMANDS, p), &1i32.to_le_bytes());
            let db = string("$db", pick(DATABASES, p));
            message(2013, &op_msg(flags, &[&name, *p, &db].concat()))
        }
        // The same, compressed; the declared length may be wrong.
        3 => {
            let compressor = Compressor::from_id(byte(p) as u8 % 4).unwrap_or(Compressor::Noop);
            let more = [0, 0, 0, 0, 1, -1, 1 << 27][byte(p) % 7];
            let name = element(16, pick(COMMANDS, p), &1i32.to_le_bytes());
            let plain = op_msg(0, &[&name, *p, &string("$db", "admin")].concat());
            let declared = plain.len() as i32 + more;
            let mut packed = wire::compress_message(&message(2013, &plain), compressor);
            packed[20..24].copy_from_slice(&declared.to_le_bytes());
            packed
        }
        // The conversation of a login.
        _ => {
            let mut all = match kind % 6 {
                4 => [
                    element(16, "saslStart", &1i32.to_le_bytes()),
                    string("mechanism", pick(MECHANISMS, p)),
                ]
                .concat(),
                _ => [
                    element(16, "saslContinue", &1i32.to_le_bytes()),
                    element(16, "conversationId", &(byte(p) as i32 % 3).to_le_bytes()),
                ]
                .concat(),
            };
            let db = string("$db", pick(DATABASES, p));
            let len = (p.len() as i32).to_le_bytes();
            all.extend(element(5, "payload", &[&len[..], &[0], *p].concat()));
            all.extend(db);
            message(2013, &op_msg(0, &all))
        }
    }
}

/// Reads until the server closes the connection, or sends nothing for a while.
fn replies(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return all,
        }
        assert!(
            all.len() < 8 << 20,
            "replies of {} bytes to a stranger",
            all.len()
        );
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|w| w == part)
}

/// Checks that every complete reply is a message, and that no command that needs rights succeeds.
fn judge(target: &Target, input: &[u8], mut bytes: &[u8]) {
    // The fuzzer learns the secrets from comparisons; a reply may repeat the input.
    for secret in target.secrets.iter().filter(|s| !contains(input, s)) {
        let found = contains(bytes, secret);
        assert!(!found, "a reply holds {}", String::from_utf8_lossy(secret));
    }
    let all = [
        Compressor::Noop,
        Compressor::Snappy,
        Compressor::Zlib,
        Compressor::Zstd,
    ];
    let options = DecodeOptions {
        compressors: all
            .into_iter()
            .fold(CompressorSet::default(), CompressorSet::with),
    };
    while bytes.len() >= 16 {
        let len = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let len = usize::try_from(len).expect("a reply's length");
        assert!(len >= 16, "a reply of {len} bytes");
        if len > bytes.len() {
            return;
        }
        let (one, rest) = bytes.split_at(len);
        bytes = rest;
        // OP_REPLY has 20 bytes of its own before its document.
        let body = match i32::from_le_bytes([one[12], one[13], one[14], one[15]]) {
            1 => one.get(36..).expect("an OP_REPLY").to_vec(),
            _ => {
                let mut scratch = Vec::new();
                let reply = wire::decode(one, &options, &mut scratch).expect("a reply");
                reply.body.to_vec()
            }
        };
        let reply = Document::from_reader(&*body).expect("a document");
        let succeeded = reply
            .get("ok")
            .is_some_and(|ok| ok.as_f64() == Some(1.0) || ok.as_i32() == Some(1));
        if succeeded {
            for field in [
                "cursor",
                "n",
                "nModified",
                "databases",
                "users",
                "log",
                "host",
                "id",
            ] {
                assert!(!reply.contains_key(field), "a stranger was served: {reply}");
            }
        }
    }
}

/// Checks that nothing was changed, and that other clients are served.
fn look(target: &Target) {
    let mut names = target
        .root
        .list_database_names()
        .run()
        .expect("the server answers");
    names.retain(|n| n != "config");
    assert_eq!(names, ["admin", "local", "secret"]);
    let users = target
        .root
        .database("admin")
        .collection::<Document>("system.users");
    assert_eq!(users.count_documents(doc! {}).run().unwrap(), 1);
    let secret = target
        .root
        .database("secret")
        .collection::<Document>("secret");
    let kept = secret
        .find_one(doc! {})
        .run()
        .unwrap()
        .expect("the document");
    assert_eq!(kept, doc! { "_id": 1, "text": CANARY });
}

static RUNS: AtomicU64 = AtomicU64::new(0);

fuzz_target!(|input: &[u8]| {
    let target = target();
    let mut stream = TcpStream::connect(target.address).expect("connecting");
    stream.set_read_timeout(Some(REPLY)).unwrap();
    let mut left = input;
    for _ in 0..8 {
        if left.is_empty() || stream.write_all(&next(&mut left)).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    judge(target, input, &replies(&mut stream));
    if RUNS.fetch_add(1, Relaxed).is_multiple_of(LOOK) {
        look(target);
    }
});
