//! Receives bytes, through TLS if the connection uses it. Promises: the caller gets exactly the
//! bytes that the client sent inside TLS records; a connection that ends because of TLS is reported
//! once, with the reason.

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::conn::{Conn, DriveContext, report_broken};
use super::handler::Handler;
use super::state::{State, StepOutcome};
use super::stats::add;
use super::tls::{Channel, RECORD_LEN, TlsError};

impl<H: Handler> Conn<H> {
    /// Receives into `into`; 0 at the end of the stream and on an error. Notes whether the socket
    /// may hold more.
    pub(super) fn receive(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        if matches!(state.channel, Channel::Plain | Channel::Undecided(None)) {
            let (received, _) = recv(&self.stream, &mut *into, RecvFlags::empty())?;
            if received > 0 {
                self.note_received(env, state, received, into.len());
            }
            let bytes = into.get(..received).unwrap_or_default();
            return match state.channel.decide(bytes) {
                Ok(_) => Ok(received),
                Err(broken) => {
                    report_broken(env, state, &broken);
                    Ok(0)
                }
            };
        }
        let mut records = std::mem::take(&mut env.buffers.records);
        records.resize(RECORD_LEN, 0);
        let result = self.receive_records(env, state, &mut records, into);
        env.buffers.records = records;
        result
    }

    fn receive_records(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        records: &mut [u8],
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        loop {
            if let Some(n) = state.channel.session().and_then(|s| s.read_decrypted(into)) {
                // More bytes may be decrypted already or in the socket; the next receive shows
                // that.
                state.readable = true;
                return Ok(n);
            }
            let received = match recv(&self.stream, &mut *records, RecvFlags::empty()) {
                Ok((received, _)) => received,
                Err(e @ (Errno::AGAIN | Errno::INTR)) => return Err(e),
                Err(e) => {
                    tell_of_end(env, state);
                    return Err(e);
                }
            };
            let bytes = records.get(..received).unwrap_or_default();
            if bytes.is_empty() {
                tell_of_end(env, state);
                return Ok(0);
            }
            add(&env.set.counters.bytes_in, received);
            match state.channel.decide(bytes) {
                Err(broken) => {
                    report_broken(env, state, &broken);
                    return Ok(0);
                }
                Ok(true) => {}
                Ok(false) => {
                    // The connection is plain after all. `into` is longer than a record.
                    let n = bytes.len().min(into.len());
                    let (to, from) = (into.get_mut(..n), bytes.get(..n));
                    if let (Some(to), Some(from)) = (to, from) {
                        to.copy_from_slice(from);
                    }
                    state.readable = true;
                    return Ok(n);
                }
            }
            if !self.open(env, state, bytes) {
                return Ok(0);
            }
        }
    }

    /// Decrypts records. False if they are invalid or the handshake has failed; the client is then
    /// told why, if it is still connected.
    fn open(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        bytes: &[u8],
    ) -> bool {
        let Some(session) = state.channel.session() else {
            return false;
        };
        let opened = session.open(bytes);
        let entered = session.take_handshake_result();
        if let Err(broken) = opened {
            let mut alert = Vec::new();
            if session.drain(&mut alert).is_ok() && state.output.is_empty() {
                let _ = self.send(env, &alert);
            }
            report_broken(env, state, &broken);
            return false;
        }
        if let (Some(entered), Some(user)) = (entered, state.user.as_mut()) {
            env.server.handler.complete_handshake(user, &entered);
        }
        // The handshake continues when both sides have sent; its bytes must not wait for a request.
        self.send_out(env, state).is_none()
    }

    /// Receives more of a message that comes in TLS records; `have` bytes of it have arrived.
    pub(super) fn receive_more_sealed(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        have: usize,
    ) -> StepOutcome {
        let mut input = std::mem::take(&mut state.input);
        input.resize(input.capacity(), 0);
        let result = self.receive(env, state, input.get_mut(have..).unwrap_or_default());
        input.truncate(have + result.unwrap_or(0));
        state.input = input;
        match result {
            Ok(n) if n > 0 => StepOutcome::Go,
            other => self.handle_receive_error(env, state, other.map(|_| ())),
        }
    }

    /// The bytes for the socket, after the bytes that TLS itself has to send.
    pub(super) fn seal_bytes(
        &self,
        state: &mut State<H::Conn>,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, TlsError> {
        let mut sealed = Vec::new();
        if let Some(session) = state.channel.session() {
            session.drain(&mut sealed)?;
        }
        if sealed.is_empty() {
            return state.channel.seal(bytes);
        }
        sealed.extend_from_slice(&state.channel.seal(bytes)?);
        Ok(sealed)
    }
}

/// The client has disconnected: this is reported if it had begun a handshake.
fn tell_of_end<H: Handler>(env: &DriveContext<'_, H>, state: &mut State<H::Conn>) {
    let session = state.channel.session();
    if session.is_some_and(|s| s.is_in_handshake()) {
        let why = "the client ended the connection within the handshake";
        report_broken(env, state, &TlsError(why.to_owned()));
    }
}
