//! A decoded request. Must not know: how it was decoded, commands.

use crate::context::ReplyContext;
use crate::document::{DocumentIter, first_key};
use crate::header::Header;
use smallvec::SmallVec;

/// A document sequence (section kind 1): many documents beside the body under one field name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// The command field the sequence stands for, such as `documents`.
    pub name: &'a str,
    /// The documents, back to back, each valid BSON.
    pub documents: &'a [u8],
    /// How many documents there are.
    pub count: usize,
}

impl<'a> Sequence<'a> {
    /// The documents one by one.
    pub fn iter(&self) -> DocumentIter<'a> {
        DocumentIter::new(self.documents)
    }
}

/// One request, borrowing the buffer it was received (or decompressed) in.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Header of the message; for a compressed message the header of the message inside.
    pub header: Header,
    /// The command document, valid BSON.
    pub body: &'a [u8],
    /// Document sequences in the order sent; at most two.
    pub sequences: SmallVec<[Sequence<'a>; 1]>,
    /// The namespace of a legacy `OP_QUERY`, such as `admin.$cmd`; an `OP_MSG` body holds `$db`
    /// instead.
    pub legacy_namespace: Option<&'a str>,
    /// The client accepts several replies to this request.
    pub exhaust_allowed: bool,
    /// How the reply must look on the wire.
    pub reply: ReplyContext,
}

impl<'a> Request<'a> {
    /// The first key of the body, which names the command. Empty when the body has no (readable)
    /// first key.
    pub fn command_name(&self) -> &'a str {
        first_key(self.body).unwrap_or("")
    }

    /// Database of a legacy request (`admin` of `admin.$cmd`).
    pub fn legacy_database(&self) -> Option<&'a str> {
        self.legacy_namespace
            .and_then(|ns| ns.strip_suffix(".$cmd"))
    }

    /// The sequence under `name`, if sent.
    pub fn sequence(&self, name: &str) -> Option<&Sequence<'a>> {
        self.sequences.iter().find(|s| s.name == name)
    }
}
