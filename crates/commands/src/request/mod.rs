//! Requests and outcomes, independent of the wire format and of the engine; what a request says, as
//! checked data: arguments, concerns, and the specification of the command that it names. Must not
//! know: what commands do, the state of the server.

pub mod args;
pub(crate) mod asked;
pub mod concern;
pub mod generic;
pub mod spec;

use model::Doc;

/// A document sequence of OP_MSG: documents sent after the body under one field name.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// The field of the command they stand for.
    pub name: &'a str,
    /// The documents. Framing was checked; contents are checked by `Service::handle`.
    pub documents: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// The documents one by one.
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
    /// The database of a legacy request, which has no `$db`.
    pub legacy_db: Option<&'a str>,
    /// The client takes several replies.
    pub exhaust_allowed: bool,
    /// The client takes no reply.
    pub more_to_come: bool,
    /// All documents were proved to be valid BSON already (see [`model::validate`]).
    pub validated: bool,
    /// The request was answered with [`Outcome::Wait`] before and the wait is over: answer now.
    pub waited: bool,
    /// A later reply of a stream that [`Outcome::Exhaust`] began: the client has had one before.
    pub streamed: bool,
}

impl<'a> Request<'a> {
    /// An ordinary request.
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

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// The end of `fsync` with `lock: true`; handle the request again as if it were new.
    Unlock,
    /// The release of what another transaction or a change of the catalog holds; handle the request
    /// again from its beginning.
    Release,
    /// Its turn to run; handle the request again from its beginning.
    Turn,
    /// Nothing but the time.
    Time,
    /// A change of the topology (see `Service::topology_changed`).
    Topology,
    /// New data in the collection a cursor tails.
    Data {
        /// The cursor.
        cursor: i64,
    },
}

/// What `Service::handle` did. A reply, where there is one, is one document at the end of the
/// buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A reply was written.
    Reply,
    /// A reply was written; send it when the log is durable up to this position.
    Durable(u64),
    /// A reply was written and the client takes more: send it with more-to-come, then handle the
    /// same request again.
    Exhaust,
    /// Nothing was written. Handle the request again with `waited` at this monotonic microsecond,
    /// or before when what is waited for came.
    Wait {
        /// Monotonic microseconds of the service's clock.
        until_us: u64,
        /// What ends the wait earlier.
        on: WaitFor,
    },
    /// Nothing was written; end the connection.
    Close,
    /// Nothing was written and nothing may be sent.
    NoReply,
}
