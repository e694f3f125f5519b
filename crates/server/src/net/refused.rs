//! A message for which there is no memory. Promises: the received part is freed at once, the rest
//! is received and discarded without a buffer of its own, then the client gets the error; the
//! connection stays usable.

use wire::{Recovery, ReplyContext, WireError};

use super::conn::{Conn, DriveContext};
use super::exchange::refuse;
use super::handler::Handler;
use super::state::{RefusedMessage, State, StepOutcome};

impl<C> State<C> {
    /// Frees the received part of the message in `input`, of which `missing` bytes have not
    /// arrived. The connection ends if too little has arrived to know how to reply.
    pub(super) fn refuse(&mut self, missing: usize, why: &model::MongoError) -> StepOutcome {
        let context: Option<ReplyContext> = wire::reply_to_start(&self.input);
        self.input = Vec::new();
        self.waits_since = None;
        self.account();
        let Some(context) = context else {
            return StepOutcome::Close;
        };
        let answer = WireError {
            code: why.code(),
            message: why.message().to_owned(),
            recovery: Recovery::Reply(context),
        };
        self.refused = Some(RefusedMessage { missing, answer });
        StepOutcome::Go
    }
}

impl<H: Handler> Conn<H> {
    /// Receives and discards the rest of a refused message; replies after the last byte.
    pub(super) fn discard(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
    ) -> StepOutcome {
        let Some(refused) = &mut state.refused else {
            return StepOutcome::Go;
        };
        if refused.missing == 0 {
            if let Some(refused) = state.refused.take() {
                refuse(env, state, &refused.answer);
            }
            return self.send_out(env, state).unwrap_or(StepOutcome::Go);
        }
        if !state.readable {
            return if env.server.is_stopping() {
                StepOutcome::Close
            } else {
                StepOutcome::Idle
            };
        }
        let room = refused.missing.min(env.buffers.receive.len());
        let mut receive = std::mem::take(&mut env.buffers.receive);
        let into = receive.get_mut(..room).unwrap_or_default();
        let result = self.receive(env, state, into);
        env.buffers.receive = receive;
        match result {
            Ok(received) if received > 0 => {
                if let Some(refused) = &mut state.refused {
                    refused.missing -= received.min(refused.missing);
                }
                StepOutcome::Go
            }
            other => self.handle_receive_error(env, state, other.map(|_| ())),
        }
    }
}
