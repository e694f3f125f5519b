//! Reads a recording ahead, so that each operation comes with its recorded reply, and selects the
//! requested operations.
//!
//! Promises: operations come in the order in which they were sent; memory is constant, so a reply
//! that came long after its command may be missed.

use std::collections::{HashMap, VecDeque};

use crate::record::file::{CommandRecord, Reader, Record, RecordingError, ReplyRecord};

use super::arguments::ReplayArguments;
use super::command;

/// The most records and bytes that are read ahead to find a reply.
const AHEAD_MAX: usize = 50_000;
const AHEAD_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// An item of the recording.
#[derive(Debug)]
pub(crate) enum Item {
    /// An operation and its recorded reply.
    Op(Box<CommandRecord>, Option<ReplyRecord>),
    /// The reply of an operation came here.
    Reply(i64),
    /// A connection was closed here.
    Closed(i64),
}

/// A recording with the records that were read ahead.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) reader: Reader,
    ahead: VecDeque<Item>,
    ahead_bytes: usize,
    replies: HashMap<i64, ReplyRecord>,
    is_over: bool,
}

impl Source {
    /// A source at the start of a recording.
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            reader,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            replies: HashMap::new(),
            is_over: false,
        }
    }

    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, RecordingError> {
        loop {
            let is_ready = match self.ahead.front() {
                Some(Item::Op(command_record, _)) => {
                    command_record.unacknowledged || self.replies.contains_key(&command_record.op)
                }
                Some(_) => true,
                None => false,
            };
            let is_full = self.ahead.len() >= AHEAD_MAX || self.ahead_bytes >= AHEAD_BYTES_MAX;
            if is_ready || self.is_over || is_full && !self.ahead.is_empty() {
                break;
            }
            self.read()?;
        }
        let mut item = self.ahead.pop_front();
        match &mut item {
            Some(Item::Op(command_record, reply)) => {
                self.ahead_bytes -= command_record.command.as_bytes().len();
                *reply = self.replies.remove(&command_record.op);
            }
            // A reply that came too late is not used.
            Some(Item::Reply(op)) => {
                self.replies.remove(op);
            }
            _ => {}
        }
        Ok(item)
    }

    fn read(&mut self) -> Result<(), RecordingError> {
        match self.reader.next()? {
            Some(Record::Command(command_record)) => {
                self.ahead_bytes += command_record.command.as_bytes().len();
                self.ahead.push_back(Item::Op(command_record, None));
            }
            Some(Record::Reply(replied)) => {
                self.ahead.push_back(Item::Reply(replied.reply_to));
                self.replies.insert(replied.reply_to, replied);
            }
            Some(Record::Closed(connection)) => self.ahead.push_back(Item::Closed(connection)),
            Some(Record::End(_)) | None => self.is_over = true,
        }
        Ok(())
    }
}

/// Selects the operations that are replayed.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    kinds: Vec<String>,
    skip: u64,
    ops_max: u64,
    start_ns: i64,
    seen: u64,
    /// Operations taken so far.
    pub(crate) taken: u64,
}

impl Selection {
    /// The selection of the command line.
    pub(crate) fn of(arguments: &ReplayArguments) -> Self {
        Self {
            kinds: arguments.ops.clone(),
            skip: arguments.skip,
            ops_max: arguments.max_ops.unwrap_or(u64::MAX),
            start_ns: (arguments.start * 1e9) as i64,
            seen: 0,
            taken: 0,
        }
    }

    /// Whether no further operation will be taken.
    pub(crate) fn is_over(&self) -> bool {
        self.taken >= self.ops_max
    }

    /// Begins the recording again.
    pub(crate) fn begin_again(&mut self) {
        self.seen = 0;
    }

    /// The kind of a selected operation, or the reason why it is not replayed; the reason is `None`
    /// if the user did not select it.
    pub(crate) fn take(
        &mut self,
        command_record: &CommandRecord,
    ) -> Result<&'static str, Option<String>> {
        self.seen += 1;
        let kind = command::kind(&command_record.name);
        let is_wanted = kind.is_some_and(|kind| {
            self.kinds.is_empty() || self.kinds.iter().any(|given| command::is_kind(kind, given))
        });
        if self.seen <= self.skip
            || command_record.at_ns < self.start_ns
            || self.is_over()
            || !is_wanted && kind.is_some()
        {
            return Err(None);
        }
        let Some(kind) = kind else {
            return Err(Some(format!(
                "not part of a load: {}",
                command_record.name.chars().take(40).collect::<String>()
            )));
        };
        self.taken += 1;
        Ok(kind)
    }
}
