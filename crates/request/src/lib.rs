//! Requests and outcomes, independent of the wire format and of the engine; and the contents of a
//! request as checked data: arguments, concerns, and the specification of its command. Must not
//! know: what commands do, the state of the server.

pub mod args;
pub mod asked;
pub mod concern;
pub mod generic;
pub mod spec;

use model::Doc;

/// A document sequence of OP_MSG: documents sent after the body under one field name.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The field of the command that the documents belong to.
    pub name: &'a str,
    /// The documents. The framing was checked; `Service::handle` checks the contents.
    pub documents: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// Iterates over the documents.
    pub fn iter(&self) -> impl Iterator<Item = Doc<'a>> + Clone + use<'a> {
        let mut rest = self.documents;
        std::iter::from_fn(move || {
            if rest.len() < 5 {
                return None;
            }
            let doc = Doc::from_prefix(rest);
            rest = rest.get(doc.len_bytes()..)?;
            Some(doc)
        })
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command document.
    pub body: Doc<'a>,
    /// Its document sequences.
    pub sequences: &'a [Sequence<'a>],
    /// The database of a legacy request without `$db`.
    pub legacy_db: Option<&'a str>,
    /// The client accepts several replies.
    pub exhaust_allowed: bool,
    /// The client expects no reply.
    pub more_to_come: bool,
    /// All documents have already been validated as BSON (see [`model::validate`]).
    pub validated: bool,
    /// The request was answered with [`Outcome::Wait`] before, and the wait is over: it must be
    /// answered now.
    pub waited: bool,
    /// The client has already received a reply of the stream that [`Outcome::Exhaust`] began.
    pub streamed: bool,
}

impl<'a> Request<'a> {
    /// A request with default settings.
    pub fn new(body: Doc<'a>) -> Request<'a> {
        Request {
            body,
            sequences: &[],
            legacy_db: None,
            exhaust_allowed: false,
            more_to_come: false,
            validated: false,
            waited: false,
            streamed: false,
        }
    }
}

/// The event that ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The end of `fsync` with `lock: true`; handle the request again as a new one.
    Unlock,
    /// The release of a lock that another transaction or a change of the catalog holds; handle the
    /// request again from its beginning.
    Release,
    /// A free ticket for the operation; handle the request again from its beginning.
    Turn,
    /// Only the passing of time.
    Time,
    /// A change of the topology (see `Service::count_topology_change`).
    Topology,
    /// New data in the collection that a cursor tails.
    Data {
        /// The cursor.
        cursor: i64,
    },
}

/// The result of `Service::handle`. A reply, if there is one, is one document at the end of the
/// buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A reply was written.
    Reply,
    /// A reply was written; send it once the log is durable up to this position.
    Durable(u64),
    /// A reply was written and the client accepts more: send it with more-to-come, then handle the
    /// same request again.
    Exhaust,
    /// Nothing was written. Handle the request again with `waited` at this monotonic microsecond,
    /// or earlier when the awaited event happens.
    Wait {
        /// Monotonic microseconds of the service's clock.
        until_us: u64,
        /// The event that ends the wait earlier.
        on: WaitFor,
    },
    /// Nothing was written; close the connection.
    Close,
    /// Nothing was written and nothing may be sent.
    NoReply,
}
