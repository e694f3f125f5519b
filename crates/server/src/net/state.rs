//! What a connection keeps between two steps. Must not know: sockets, threads, the handler.

use std::time::{Duration, Instant};

use memory::Charge;
use wire::{ReplyContext, WireError};

use super::tls::Channel;
use super::unfinished::Unfinished;

pub(super) struct State<C> {
    /// How its bytes are carried.
    pub(super) channel: Channel,
    /// The handler's own state; `None` once closed.
    pub(super) user: Option<C>,
    /// Received but not yet handled.
    pub(super) input: Vec<u8>,
    /// Not yet taken by the socket, or held back until durable.
    pub(super) output: Vec<u8>,
    pub(super) phase: Phase,
    /// `request_id` of the next reply.
    pub(super) next_id: i32,
    /// The socket may hold bytes: cleared by a short read, set by an event.
    pub(super) readable: bool,
    /// The message that is being received and discarded.
    pub(super) refused: Option<Refused>,
    /// Since when the rest of a message is not read for want of room.
    pub(super) waits_since: Option<Instant>,
    /// Bytes of what was `input` and is being answered.
    pub(super) in_hand: usize,
    /// For `input`, `in_hand` and `output`.
    pub(super) charge: Charge,
    pub(super) woken: bool,
    /// The end of the stream has been announced; from then on reads go on until they see it.
    pub(super) half_closed: bool,
    pub(super) watching_writable: bool,
    pub(super) unfinished: Unfinished,
}

/// What the connection waits for. Output that the socket did not take comes first: except in
/// `Wait`, the connection goes on only when all of it was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// The next request.
    Ready,
    /// The journal; the reply lies ready in `output`.
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
pub(super) enum Step {
    /// Something was done; take the next step.
    Go,
    /// Nothing to do until an event.
    Idle,
    /// The next request is long and must move to a thread of its own.
    HandOff,
    /// The budget is used up.
    Yield,
    /// Close now.
    Close,
}

/// A message that was refused memory and is being discarded as it arrives.
#[derive(Debug)]
pub(super) struct Refused {
    /// Bytes still to be received.
    pub(super) missing: usize,
    /// The reply after them.
    pub(super) answer: WireError,
}

impl<C> State<C> {
    /// Whether it has waited for room for so long.
    pub(super) fn has_waited(&mut self, most: Duration) -> bool {
        self.waits_since.get_or_insert_with(Instant::now).elapsed() > most
    }

    /// Charges what the buffers hold now. It is there already, so nothing is refused.
    pub(super) fn account(&self) {
        let bytes = self.input.capacity() + self.in_hand + self.output.capacity();
        if bytes != self.charge.bytes() {
            self.charge.set(bytes);
        }
    }
}
