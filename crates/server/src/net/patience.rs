//! How long a client that has not logged in may leave something unfinished.
//!
//! Promises: the TLS handshake, the first byte, and each message of a client that must log in
//! arrive in time or the connection is closed; bytes that trickle in do not extend the time.

use super::conn::{Conn, DriveContext};
use super::handler::Handler;
use super::set::Pollable;
use super::state::{Phase, State};
use super::tls::Channel;

impl<C> State<C> {
    /// The TLS handshake is not complete, or no byte has arrived.
    fn is_beginning(&mut self) -> bool {
        match &mut self.channel {
            Channel::Plain => false,
            Channel::Undecided(_) => true,
            Channel::Sealed(session) => session.is_in_handshake(),
        }
    }
}

impl<H: Handler> Conn<H> {
    /// Whether the client has left something unfinished for too long. Called when the connection
    /// waits for bytes.
    pub(super) fn is_out_of_patience(
        &self,
        env: &DriveContext<'_, H>,
        state: &mut State<H::Conn>,
    ) -> bool {
        let is_partial = !state.input.is_empty() || state.refused.is_some();
        let is_beginning = state.is_beginning();
        let is_unknown = |user: &H::Conn| env.server.handler.must_log_in(user);
        let is_sealing = matches!(state.channel, Channel::Sealed(_)) && is_beginning;
        let is_unfinished = state.phase == Phase::Ready
            && (is_partial || is_beginning)
            && (is_sealing || state.user.as_ref().is_some_and(is_unknown));
        let patience = env.server.patience;
        let (is_over, look) = state.unfinished.judge(is_unfinished, patience);
        if let Some(look) = look {
            env.set.add_deadline(look, self.token());
        }
        is_over
    }
}
