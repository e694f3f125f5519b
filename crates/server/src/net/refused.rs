//! A message for which there is no memory. Promises: what is there of it is freed at once, the rest
//! is received and thrown away without a buffer of its own, then the client is told; the connection
//! stays usable.

use rustix::net::RecvFlags;
use wire::{Recovery, ReplyContext, WireError};

use super::conn::{Conn, Env, State, Step};
use super::exchange::refuse;
use super::handler::Handler;

/// What is still to come of such a message, and what to answer then.
#[derive(Debug)]
pub(super) struct Refused {
    missing: usize,
    answer: WireError,
}

impl Refused {
    /// Frees what has arrived of the message in `state.input`, of which `missing` bytes are still
    /// to come. Closes the connection when it cannot be known whether and how the message wants to
    /// be answered.
    pub(super) fn begin<C>(state: &mut State<C>, missing: usize, why: &model::MongoError) -> Step {
        let context: Option<ReplyContext> = wire::reply_to_start(&state.input);
        state.input = Vec::new();
        state.account();
        let Some(context) = context else {
            return Step::Close;
        };
        let answer = WireError {
            code: why.code(),
            message: why.message().to_owned(),
            recovery: Recovery::Reply(context),
        };
        state.refused = Some(Refused { missing, answer });
        Step::Go
    }
}

impl<H: Handler> Conn<H> {
    /// Receives what is still to come of a refused message; the answer, when that was all.
    pub(super) fn throw_away(&self, env: &mut Env<'_, H>, state: &mut State<H::Conn>) -> Step {
        let Some(refused) = &mut state.refused else {
            return Step::Go;
        };
        if refused.missing == 0 {
            if let Some(refused) = state.refused.take() {
                refuse(env, state, &refused.answer);
            }
            return self.send_out(env, state).unwrap_or(Step::Go);
        }
        if !state.readable {
            return if env.shared.is_stopping() {
                Step::Close
            } else {
                Step::Idle
            };
        }
        let room = refused.missing.min(env.buffers.receive.len());
        let into = env.buffers.receive.get_mut(..room).unwrap_or_default();
        match rustix::net::recv(&self.stream, into, RecvFlags::empty()) {
            Ok((received, _)) if received > 0 => {
                refused.missing -= received.min(refused.missing);
                self.note_received(env, state, received, room);
                Step::Go
            }
            other => Self::receive_failed(state, other.map(|_| ())),
        }
    }
}
