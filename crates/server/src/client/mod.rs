//! A blocking client of one server, for commands of this binary that talk to a running one.
//!
//! Promises: one request at a time; waiting for a reply is bounded in time, and its length is
//! bounded; each error is one line without the password. Must not know: what is asked.

mod address;

pub use address::Address;

use auth::scram;
use model::{Binary, Doc, DocBuf, Value, doc};
use rustls::pki_types::ServerName;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use wire::{HEADER_LEN, Header, MAX_MESSAGE_LEN, MessageBuilder, OpCode};

/// Longest time for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time for a reply: the server may have to take a snapshot of the data first.
const ANSWER: Duration = Duration::from_secs(600);
/// Offset of the body: the header, the flags and the kind of the first section come before it.
const BODY_AT: usize = HEADER_LEN + 5;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection.
pub struct Client {
    stream: Box<dyn Stream>,
    shown: String,
    last_id: i32,
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// One line.
    pub fn connect(address: &Address) -> Result<Client, String> {
        let shown = address.describe();
        let fail = |e: std::io::Error| format!("cannot connect to {shown}: {e}");
        let stream: Box<dyn Stream> = match &address.socket {
            Some(path) => {
                let stream = UnixStream::connect(path).map_err(fail)?;
                stream.set_read_timeout(Some(ANSWER)).map_err(fail)?;
                stream.set_write_timeout(Some(ANSWER)).map_err(fail)?;
                Box::new(stream)
            }
            None => {
                let stream = connect_tcp(address).map_err(fail)?;
                match &address.ca_file {
                    Some(ca) => Box::new(secure(stream, address, ca)?),
                    None => Box::new(stream),
                }
            }
        };
        let mut client = Client {
            stream,
            shown,
            last_id: 0,
        };
        if let Some(login) = &address.login {
            client.log_in(login)?;
        }
        Ok(client)
    }

    /// Runs a command on a database and returns its reply, which says that it succeeded.
    ///
    /// # Errors
    /// One line: the connection broke, or the server's error message and code.
    pub fn run(&mut self, db: &str, command: &DocBuf) -> Result<DocBuf, String> {
        let reply = self.ask(db, command)?;
        let doc = reply.doc();
        if doc.field("ok").truthy() {
            return Ok(reply);
        }
        let reason = doc.field("errmsg").as_str().unwrap_or("no reason given");
        let code = doc.field("code").as_i64_exact().unwrap_or(0);
        let name = command.doc().first().map_or("", |(name, _)| name);
        Err(format!(
            "{} refused {name}: {reason} (code {code})",
            self.shown
        ))
    }

    fn ask(&mut self, db: &str, command: &DocBuf) -> Result<DocBuf, String> {
        let mut command = command.clone();
        command.put("$db", db);
        self.last_id = self.last_id.wrapping_add(1);
        let message = MessageBuilder::new(self.last_id)
            .body(command.as_bytes())
            .build();
        let exchanged = (self.stream.write_all(&message))
            .and_then(|()| self.stream.flush())
            .and_then(|()| read_message(&mut *self.stream));
        let message = exchanged.map_err(|e| format!("{} does not answer: {e}", self.shown))?;
        let body = message.get(BODY_AT..).unwrap_or_default();
        let checked = model::validate(body).map(|doc| doc.to_buf());
        checked.map_err(|e| format!("the answer of {} is not BSON: {e}", self.shown))
    }

    fn log_in(&mut self, login: &address::Login) -> Result<(), String> {
        let nonce: String = fresh_nonce()?;
        let (user, password) = (login.user.as_str(), login.password.as_str());
        let client = scram::Client::new(login.mechanism, user, password, &nonce);
        let (db, first) = (login.source.as_str(), client.first());
        let start = doc! {
            "saslStart": 1i32, "mechanism": login.mechanism.name(), "payload": payload(&first),
            "options": { "skipEmptyExchange": true }
        };
        let reply = self.run(db, &start)?;
        let strange = || format!("{} violates SCRAM during the login", self.shown);
        let second = payload_of(reply.doc()).and_then(|p| client.second(p));
        let second = second.ok_or_else(strange)?;
        let id = reply.doc().field("conversationId");
        let go_on =
            doc! { "saslContinue": 1i32, "conversationId": id, "payload": payload(&second) };
        let reply = self.run(db, &go_on)?;
        match reply.doc().field("done").truthy() {
            true => Ok(()),
            false => Err(format!("{} violates SCRAM during the login", self.shown)),
        }
    }
}

fn payload(bytes: &[u8]) -> Value<'_> {
    Value::Binary(Binary { subtype: 0, bytes })
}

fn payload_of(reply: Doc<'_>) -> Option<&[u8]> {
    match reply.field("payload") {
        Value::Binary(b) => Some(b.bytes),
        _ => None,
    }
}

/// Random bytes of the system, as text.
fn fresh_nonce() -> Result<String, String> {
    let mut bytes = [0; 18];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    read.map_err(|e| format!("the system gives no random numbers: {e}"))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

fn connect_tcp(address: &Address) -> std::io::Result<TcpStream> {
    let host = (address.host.as_str(), address.port);
    let mut last = std::io::Error::other("the host name has no address");
    for at in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(ANSWER))?;
                stream.set_write_timeout(Some(ANSWER))?;
                return Ok(stream);
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn secure(
    stream: TcpStream,
    address: &Address,
    ca: &std::path::Path,
) -> Result<impl Stream + use<>, String> {
    let config = crate::tls::client(ca)?;
    let name = ServerName::try_from(address.host.clone()).map_err(|e| {
        format!(
            "{} is not a name that a certificate can have: {e}",
            address.host
        )
    })?;
    let connection = rustls::ClientConnection::new(Arc::clone(&config), name)
        .map_err(|e| format!("TLS cannot be used: {e}"))?;
    Ok(rustls::StreamOwned::new(connection, stream))
}

/// One message that is not compressed, with its header.
fn read_message(stream: &mut dyn Stream) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; HEADER_LEN];
    stream.read_exact(&mut message)?;
    let strange = |what: &str| std::io::Error::other(format!("{what} is not a reply"));
    let (header, _) = Header::split(&message).ok_or_else(|| strange("a short message"))?;
    let len = usize::try_from(header.message_len).unwrap_or(0);
    if header.op_code != OpCode::Msg as i32 || !(BODY_AT..=MAX_MESSAGE_LEN).contains(&len) {
        return Err(strange("the received message"));
    }
    message.resize(len, 0);
    stream.read_exact(message.get_mut(HEADER_LEN..).unwrap_or_default())?;
    match message.get(BODY_AT - 1) {
        Some(0) => Ok(message),
        _ => Err(strange("a message that does not begin with a document")),
    }
}
