//! The state that a connection keeps between two steps. Must not know: sockets, threads, the
//! handler.

use std::time::{Duration, Instant};

use memory::Charge;
use wire::{ReplyContext, WireError};

use super::tls::Channel;
use super::unfinished::ProgressDeadline;

pub(super) struct State<C> {
    /// Plain or TLS.
    pub(super) channel: Channel,
    /// The handler's own state; `None` once closed.
    pub(super) user: Option<C>,
    /// Received but not yet handled.
    pub(super) input: Vec<u8>,
    /// Bytes the socket has not taken yet, or a reply held back until the journal is durable.
    pub(super) output: Vec<u8>,
    pub(super) phase: Phase,
    /// `request_id` of the next reply.
    pub(super) next_id: i32,
    /// The socket may hold bytes: cleared by a short read, set by an event.
    pub(super) readable: bool,
    /// The message that is being discarded for lack of memory.
    pub(super) refused: Option<RefusedMessage>,
    /// Since when a message waits for memory, unread.
    pub(super) waits_since: Option<Instant>,
    /// Size of the input that is being answered and is no longer in `input`.
    pub(super) in_hand: usize,
    /// Charges the memory of `input`, `in_hand` and `output`.
    pub(super) charge: Charge,
    pub(super) woken: bool,
    /// The client has announced the end of its stream; reads go on until they see that end.
    pub(super) half_closed: bool,
    pub(super) watching_writable: bool,
    pub(super) unfinished: ProgressDeadline,
}

/// What the connection waits for. Unsent output comes first: except in `Wait`, the connection goes
/// on only when all of it was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// The next request.
    Ready,
    /// Durability of the journal up to this position; the reply is in `output`.
    Durable(u64),
    /// A wake-up or the deadline.
    Wait(Instant, PendingReply),
    /// Its turn to produce the next reply of an exhaust stream.
    Stream(PendingReply),
    /// Close once everything was sent.
    Closing,
    /// Close now.
    Closed,
}

/// A reply that was not sent yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PendingReply {
    pub(super) context: ReplyContext,
    pub(super) exhaust: bool,
}

/// The outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// Something was done; take the next step.
    Go,
    /// Nothing to do until the next event.
    Idle,
    /// The next request is long and must move to a thread of its own.
    HandOff,
    /// The step budget is used up.
    Yield,
    /// Close now.
    Close,
}

/// A message that got no memory and is discarded as it arrives.
#[derive(Debug)]
pub(super) struct RefusedMessage {
    /// Bytes still to be received.
    pub(super) missing: usize,
    /// The reply to send after them.
    pub(super) answer: WireError,
}

impl<C> State<C> {
    /// Whether it has waited for memory for longer than `most`.
    pub(super) fn has_waited(&mut self, most: Duration) -> bool {
        self.waits_since.get_or_insert_with(Instant::now).elapsed() > most
    }

    /// Charges the present size of the buffers. They are allocated already, so nothing is refused.
    pub(super) fn account(&self) {
        let bytes = self.input.capacity() + self.in_hand + self.output.capacity();
        if bytes != self.charge.bytes() {
            self.charge.set(bytes);
        }
    }
}
