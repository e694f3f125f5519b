//! The two requests to a directory: to check a password (bind), and to search. Promises: an answer
//! that is too long, truncated or does not belong to the request ends the conversation.

use crate::ber::{
    ENUMERATED, INTEGER, OCTETS, SEQUENCE, SET, Values, measure_message, put, put_nested,
    put_number,
};
use crate::query::{ENTRIES_MAX, Query};
use crate::stream::Stream;
use crate::template::Names;
use std::io::{Read, Write};

/// Longest message of a directory.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of all messages in answer to one search.
const ANSWER_BYTES_MAX: usize = 4 << 20;

const BIND: u8 = 0x60;
const BOUND: u8 = 0x61;
const ENTRY: u8 = 0x64;
const SEARCHED: u8 = 0x65;
const REFERENCE: u8 = 0x73;
const INTERMEDIATE: u8 = 0x79;

const SUCCESS: i32 = 0;
const NO_SUCH_OBJECT: i32 = 32;
/// Result codes for a wrong password, or a name that is unknown or may not log in: no such object,
/// invalid DN, inappropriate authentication, invalid credentials, insufficient rights, unwilling to
/// perform.
const REFUSALS: &[i32] = &[NO_SUCH_OBJECT, 34, 48, 49, 50, 53];

/// A directory did not answer as it should. Contains nothing that a client has sent.
#[derive(Debug)]
pub(crate) struct DirectoryError(pub(crate) String);

fn fail_request<T>(what: &str) -> Result<T, DirectoryError> {
    Err(DirectoryError(what.to_owned()))
}

/// An entry that a search has found.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Values of the requested attribute.
    pub(crate) values: Vec<String>,
}

/// A conversation with a directory.
pub(crate) struct Client {
    stream: Stream,
    /// Bytes read beyond the last message.
    ahead: Vec<u8>,
    last: u32,
}

impl Client {
    pub(crate) fn new(stream: Stream) -> Client {
        Client {
            stream,
            ahead: Vec::new(),
            last: 0,
        }
    }

    /// Checks the password of a name. Neither may be empty: a directory treats a bind without a
    /// name or password as anonymous and reports success.
    pub(crate) fn bind(&mut self, name: &str, password: &str) -> Result<bool, DirectoryError> {
        if name.is_empty() || password.is_empty() {
            return Ok(false);
        }
        self.ask(|out| {
            put_nested(out, BIND, |out| {
                put_number(out, INTEGER, 3);
                put(out, OCTETS, name.as_bytes());
                put(out, 0x80, password.as_bytes());
            });
        })?;
        let message = self.answer()?;
        let (tag, content) = self.operation(&message)?;
        if tag != BOUND {
            return fail_request("it answered a bind with something else");
        }
        match Values(content).number(ENUMERATED) {
            Some(SUCCESS) => Ok(true),
            Some(code) if REFUSALS.contains(&code) => Ok(false),
            Some(code) => fail_request(&format!("it answered a bind with the result {code}")),
            None => fail_request("it answered a bind without a result"),
        }
    }

    /// Runs a search.
    pub(crate) fn search(
        &mut self,
        query: &Query,
        names: &Names,
        seconds: u32,
    ) -> Result<Vec<Entry>, DirectoryError> {
        self.ask(|out| query.write(names, seconds, out))?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        loop {
            let message = self.answer()?;
            bytes += message.len();
            if bytes > ANSWER_BYTES_MAX || entries.len() > ENTRIES_MAX as usize {
                return fail_request("it found more than was asked for");
            }
            let (tag, content) = self.operation(&message)?;
            match tag {
                ENTRY => match entry(content) {
                    Some(entry) => entries.push(entry),
                    None => return fail_request("it sent a malformed entry"),
                },
                REFERENCE | INTERMEDIATE => {}
                SEARCHED => {
                    return match Values(content).number(ENUMERATED) {
                        Some(SUCCESS) => Ok(entries),
                        Some(NO_SUCH_OBJECT) => Ok(Vec::new()),
                        Some(code) => {
                            fail_request(&format!("it answered a search with the result {code}"))
                        }
                        None => fail_request("it answered a search without a result"),
                    };
                }
                _ => return fail_request("it answered a search with something else"),
            }
        }
    }

    /// Ends the conversation.
    pub(crate) fn close(mut self) {
        // The directory closes the connection, too; a failure has no consequence.
        let _ = self.ask(|out| put(out, 0x42, &[]));
        if let Stream::Tls(tls) = &mut self.stream {
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
    }

    fn ask(&mut self, operation: impl FnOnce(&mut Vec<u8>)) -> Result<(), DirectoryError> {
        self.last += 1;
        let mut message = Vec::new();
        put_nested(&mut message, SEQUENCE, |out| {
            put_number(out, INTEGER, self.last);
            operation(out);
        });
        let sent = self
            .stream
            .write_all(&message)
            .and_then(|()| self.stream.flush());
        sent.map_err(|e| DirectoryError(format!("it cannot be asked: {e}")))
    }

    /// The next complete message.
    fn answer(&mut self) -> Result<Vec<u8>, DirectoryError> {
        loop {
            match measure_message(&self.ahead) {
                Err(()) => return fail_request("it sent a malformed message"),
                Ok(Some(len)) if len > MESSAGE_BYTES_MAX => {
                    return fail_request("it sent a message that is too long");
                }
                Ok(Some(len)) if self.ahead.len() >= len => {
                    let rest = self.ahead.split_off(len);
                    return Ok(std::mem::replace(&mut self.ahead, rest));
                }
                Ok(_) => {}
            }
            let mut chunk = [0; 8192];
            match self.stream.read(&mut chunk) {
                Ok(0) => return fail_request("it has closed the connection"),
                Ok(n) => self
                    .ahead
                    .extend_from_slice(chunk.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(DirectoryError(format!("it did not answer: {e}"))),
            }
        }
    }

    /// The operation in a message that answers the last request.
    fn operation<'m>(&self, message: &'m [u8]) -> Result<(u8, &'m [u8]), DirectoryError> {
        let mut values = Values(message);
        let Some(content) = values.expect(SEQUENCE) else {
            return fail_request("it sent a malformed message");
        };
        let mut content = Values(content);
        match content.number(INTEGER) {
            Some(id) if u32::try_from(id) == Ok(self.last) => {}
            Some(0) => return fail_request("it gave notice that it ends the connection"),
            _ => return fail_request("it answered a request that was not sent"),
        }
        match content.next() {
            Some(operation) => Ok(operation),
            None => fail_request("it sent a message without an operation"),
        }
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Parses an entry; values that are not text are left out.
fn entry(content: &[u8]) -> Option<Entry> {
    let mut parts = Values(content);
    let name = text(parts.expect(OCTETS)?)?;
    let mut attributes = Values(parts.expect(SEQUENCE)?);
    let mut values = Vec::new();
    while !attributes.0.is_empty() {
        let mut attribute = Values(attributes.expect(SEQUENCE)?);
        attribute.expect(OCTETS)?;
        let mut of_it = Values(attribute.expect(SET)?);
        while !of_it.0.is_empty() {
            values.extend(text(of_it.expect(OCTETS)?));
        }
    }
    Some(Entry { name, values })
}
