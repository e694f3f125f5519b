//! One connection as a state machine. Promises: one owner at a time, replies in order, no buffer
//! while idle.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use super::buffers::Buffers;
use super::context::Context;
use super::driver_state::DriverState;
use super::handler::Handler;
use super::inbox::{Token, bits};
use super::set::{PollSet, Pollable};
use super::state::{Phase, State, StepOutcome};
use super::stats::add;
use super::tls::{Channel, TlsError};
use super::unfinished::ProgressDeadline;
use super::watermark::Verdict;
use memory::Charge;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Steps a connection may take before others get their turn.
const STEP_BUDGET: usize = 16;
/// A partial message is collected in steps of at least this size, which double: the length that a
/// client declares is not trusted.
const GROW_LEN: usize = 64 * 1024;
/// The memory of messages of this size is reserved as a whole.
const LARGE_LEN: usize = 1024 * 1024;
/// A large message waits unread for memory, as long as other messages free theirs within this time
/// ...
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// ... and no longer than this altogether.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often it looks for free memory.
const ROOM_LOOK: Duration = Duration::from_millis(10);

pub(super) struct Conn<H: Handler> {
    pub(super) stream: OwnedFd,
    token: Token,
    /// [`bits`]; the thread that sets `RUNNING` owns the connection until it clears the bit.
    schedule: AtomicU8,
    hung_up: Arc<AtomicBool>,
    state: Mutex<State<H::Conn>>,
}

/// What a thread needs to drive a connection.
pub(super) struct DriveContext<'a, H: Handler> {
    pub(super) server: &'a Context<H>,
    pub(super) set: &'a PollSet<Conn<H>>,
    pub(super) buffers: &'a mut Buffers,
    pub(super) driver: &'a DriverState,
    /// Long requests may run on this thread.
    pub(super) may_block: bool,
}

impl<H: Handler> Pollable for Conn<H> {
    fn socket(&self) -> &OwnedFd {
        &self.stream
    }

    fn token(&self) -> Token {
        self.token
    }
}

impl<H: Handler> Conn<H> {
    pub(super) fn new(
        stream: OwnedFd,
        token: Token,
        hung_up: Arc<AtomicBool>,
        user: H::Conn,
        channel: Channel,
        charge: Charge,
    ) -> Self {
        let state = State {
            channel,
            user: Some(user),
            input: Vec::new(),
            output: Vec::new(),
            phase: Phase::Ready,
            next_id: 1,
            readable: false,
            refused: None,
            waits_since: None,
            in_hand: 0,
            charge,
            woken: false,
            half_closed: false,
            watching_writable: false,
            unfinished: ProgressDeadline::default(),
        };
        Self {
            stream,
            token,
            schedule: AtomicU8::new(0),
            hung_up,
            state: Mutex::new(state),
        }
    }

    /// Adds a reason why the connection needs a thread. True if the caller has become its owner and
    /// must run it.
    pub(super) fn claim(&self, why: u8) -> bool {
        if why & bits::HUNG_UP != 0 {
            self.hung_up.store(true, Ordering::Relaxed);
        }
        self.schedule
            .fetch_or(why | bits::RUNNING, Ordering::AcqRel)
            & bits::RUNNING
            == 0
    }

    /// The reasons collected so far; the caller stays owner.
    pub(super) fn take_reasons(&self) -> u8 {
        self.schedule.swap(bits::RUNNING, Ordering::AcqRel) & !bits::RUNNING
    }

    /// Gives ownership up; false if a new reason has come in.
    pub(super) fn release(&self) -> bool {
        self.schedule
            .compare_exchange(bits::RUNNING, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Closes the connection after a panic in this layer.
    pub(super) fn abandon(&self, env: &mut DriveContext<'_, H>) {
        self.close(env, &mut self.state.lock());
    }

    /// Advances the connection as far as possible. Only the owner may call this.
    pub(super) fn drive(&self, env: &mut DriveContext<'_, H>, why: u8) -> StepOutcome {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.readable |= why & (bits::READABLE | bits::HUNG_UP) != 0;
        state.half_closed |= why & bits::HUNG_UP != 0;
        state.woken |= why & bits::WOKEN != 0;
        if why & bits::CLOSE != 0 {
            state.phase = Phase::Closed;
        }
        for _ in 0..STEP_BUDGET {
            match self.step(env, state) {
                StepOutcome::Go => {}
                StepOutcome::Idle if !self.is_out_of_patience(env, state) => {
                    return StepOutcome::Idle;
                }
                StepOutcome::Idle | StepOutcome::Close => {
                    self.close(env, state);
                    return StepOutcome::Close;
                }
                other => return other,
            }
        }
        StepOutcome::Yield
    }

    fn step(&self, env: &mut DriveContext<'_, H>, state: &mut State<H::Conn>) -> StepOutcome {
        if let Phase::Durable(position) = state.phase {
            match env.server.watermark.verdict(position) {
                Verdict::Send => release_reply(env, state),
                Verdict::Wait => return StepOutcome::Idle,
                Verdict::GiveUp => return StepOutcome::Close,
            }
        }
        if !state.output.is_empty() && state.phase != Phase::Closed {
            match self.flush(env, state) {
                StepOutcome::Idle if !matches!(state.phase, Phase::Wait(..)) => {
                    return StepOutcome::Idle;
                }
                StepOutcome::Close => return StepOutcome::Close,
                _ => {}
            }
        }
        let nobody_waits = state.half_closed || env.server.is_stopping();
        match state.phase {
            Phase::Closed | Phase::Closing => StepOutcome::Close,
            Phase::Ready => self.step_ready(env, state),
            Phase::Durable(_) => {
                state.phase = Phase::Ready;
                StepOutcome::Go
            }
            Phase::Wait(..) | Phase::Stream(_) if nobody_waits => StepOutcome::Close,
            Phase::Wait(until, _) if !state.woken && Instant::now() < until => StepOutcome::Idle,
            Phase::Wait(..) if !env.may_block && self.resumes_long(env, state) => {
                StepOutcome::HandOff
            }
            Phase::Wait(_, reply) | Phase::Stream(reply) => {
                state.woken = false;
                let step = self.resume(env, state, reply);
                self.send_out(env, state).unwrap_or(step)
            }
        }
    }

    fn step_ready(&self, env: &mut DriveContext<'_, H>, state: &mut State<H::Conn>) -> StepOutcome {
        if state.refused.is_some() {
            return self.discard(env, state);
        }
        if !state.input.is_empty() {
            let owned = std::mem::take(&mut state.input);
            state.in_hand = owned.capacity();
            let (used, step) = self.answer_frames(env, state, &owned);
            state.in_hand = 0;
            if used < owned.len() {
                state.input = owned;
                state.input.drain(..used);
            } else {
                drop(owned);
                state.account();
            }
            match self.send_out(env, state).unwrap_or(step) {
                StepOutcome::Idle => {}
                other => return other,
            }
        }
        if !state.readable {
            return if env.server.is_stopping() {
                StepOutcome::Close
            } else {
                StepOutcome::Idle
            };
        }
        if state.input.is_empty() {
            self.receive_fresh(env, state)
        } else {
            self.receive_more(env, state)
        }
    }

    /// Receives into the thread's buffer and answers requests straight from it.
    fn receive_fresh(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
    ) -> StepOutcome {
        let mut receive = std::mem::take(&mut env.buffers.receive);
        let step = match self.receive(env, state, &mut receive[..]) {
            Ok(received) if received > 0 => {
                let bytes = receive.get(..received).unwrap_or_default();
                let (used, step) = self.answer_frames(env, state, bytes);
                state
                    .input
                    .extend_from_slice(bytes.get(used..).unwrap_or_default());
                state.account();
                match self.send_out(env, state).unwrap_or(step) {
                    StepOutcome::Idle if state.readable => StepOutcome::Go,
                    other => other,
                }
            }
            other => self.handle_receive_error(env, state, other.map(|_| ())),
        };
        env.buffers.receive = receive;
        step
    }

    /// Receives more of a message of which a part has arrived.
    fn receive_more(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
    ) -> StepOutcome {
        let have = state.input.len();
        let missing = match wire::frame_len(&state.input) {
            Ok(Some(len)) => len.saturating_sub(have),
            Ok(None) => wire::HEADER_LEN,
            Err(_) => return StepOutcome::Close,
        };
        // A large message is charged as a whole before its body is read: otherwise many messages of
        // which half has arrived would wait for each other.
        let step = match have + missing {
            LARGE_LEN.. if have >= GROW_LEN => missing,
            _ => missing.min(have.max(GROW_LEN)),
        };
        // The old buffer is freed only after its bytes were copied to the new one.
        if have + step > state.input.capacity() {
            let bytes = state.output.capacity() + 2 * have + step;
            let patience = match state.has_waited(ROOM_WAIT_MAX) || env.server.is_stopping() {
                true => Duration::ZERO,
                false => ROOM_PATIENCE,
            };
            match state.charge.set_or_wait(bytes, patience) {
                Ok(true) => state.waits_since = None,
                Ok(false) => {
                    env.set
                        .add_deadline(Instant::now() + ROOM_LOOK, self.token());
                    return StepOutcome::Idle;
                }
                Err(why) => return state.refuse(missing, &why),
            }
        }
        state.input.reserve_exact(step);
        state.account();
        if !matches!(state.channel, Channel::Plain) {
            return self.receive_more_sealed(env, state, have);
        }
        let room = state.input.capacity() - have;
        let spare = rustix::buffer::spare_capacity(&mut state.input);
        match rustix::net::recv(&self.stream, spare, RecvFlags::empty()) {
            Ok((received, _)) if received > 0 => {
                self.note_received(env, state, received, room);
                StepOutcome::Go
            }
            other => self.handle_receive_error(env, state, other.map(|_| ())),
        }
    }

    pub(super) fn note_received(
        &self,
        env: &DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        received: usize,
        room: usize,
    ) {
        add(&env.set.counters.bytes_in, received);
        // A short read shows that the socket is empty, except that an announced end must still be
        // read.
        state.readable = received == room || state.half_closed;
    }

    pub(super) fn handle_receive_error(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        result: Result<(), Errno>,
    ) -> StepOutcome {
        match result {
            Err(Errno::AGAIN) => {
                state.readable = false;
                // During a handshake there may be something to send.
                self.send_out(env, state).unwrap_or(StepOutcome::Idle)
            }
            Err(Errno::INTR) => StepOutcome::Go,
            // End of the stream, or a reset.
            Ok(()) | Err(_) => StepOutcome::Close,
        }
    }

    /// Sends the replies that this thread has built, behind bytes that the socket has not taken
    /// yet. `Some` if the connection is broken.
    pub(super) fn send_out(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
    ) -> Option<StepOutcome> {
        let mut bytes = std::mem::take(&mut env.buffers.out.bytes);
        let mut broken = false;
        if !matches!(state.channel, Channel::Plain) {
            match self.seal_bytes(state, bytes) {
                Ok(sealed) => bytes = sealed,
                Err(broken) => {
                    report_broken(env, state, &broken);
                    return Some(StepOutcome::Close);
                }
            }
        }
        if !bytes.is_empty() {
            let sent = if state.output.is_empty() {
                self.send(env, &bytes)
            } else {
                Ok(0)
            };
            match sent {
                Ok(sent) => {
                    if state.output.is_empty() && bytes.len() - sent > GROW_LEN {
                        // A large buffer is moved, not copied.
                        state.output = std::mem::take(&mut bytes);
                        state.output.drain(..sent);
                    } else {
                        state
                            .output
                            .extend_from_slice(bytes.get(sent..).unwrap_or_default());
                    }
                    state.account();
                    broken =
                        !state.output.is_empty() && self.watch_writable(env, state, true).is_err();
                }
                Err(_) => broken = true,
            }
            bytes.clear();
        }
        env.buffers.out.bytes = bytes;
        env.buffers.out.account();
        broken.then_some(StepOutcome::Close)
    }

    /// `Idle`: the socket is full. `Go`: everything was sent.
    fn flush(&self, env: &mut DriveContext<'_, H>, state: &mut State<H::Conn>) -> StepOutcome {
        let more = match self.send(env, &state.output) {
            Err(_) => return StepOutcome::Close,
            Ok(sent) => {
                sent < state.output.len() && {
                    state.output.drain(..sent);
                    true
                }
            }
        };
        if !more {
            state.output = Vec::new();
            state.account();
        }
        match self.watch_writable(env, state, more) {
            Err(_) => StepOutcome::Close,
            Ok(()) if more => StepOutcome::Idle,
            Ok(()) => StepOutcome::Go,
        }
    }

    /// The watch is edge-triggered; it begins with an event if the socket can take bytes already.
    fn watch_writable(
        &self,
        env: &DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        on: bool,
    ) -> std::io::Result<()> {
        if state.watching_writable != on {
            state.watching_writable = on;
            env.set.watch_writable(self, on)?;
        }
        Ok(())
    }

    /// The number of bytes the socket took; fewer than all if it is full.
    pub(super) fn send(&self, env: &DriveContext<'_, H>, mut bytes: &[u8]) -> Result<usize, Errno> {
        let len = bytes.len();
        while !bytes.is_empty() {
            match rustix::net::send(&self.stream, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        let sent = len - bytes.len();
        add(&env.set.counters.bytes_out, sent);
        Ok(sent)
    }

    fn close(&self, env: &mut DriveContext<'_, H>, state: &mut State<H::Conn>) {
        state.phase = Phase::Closed;
        state.input = Vec::new();
        state.output = Vec::new();
        state.refused = None;
        state.account();
        env.buffers.out.bytes.clear();
        self.hung_up.store(true, Ordering::Relaxed);
        let _ = rustix::net::shutdown(&self.stream, rustix::net::Shutdown::Both);
        env.set.remove(self);
        if let Some(user) = state.user.take() {
            env.server.disconnect_user(user);
        }
    }
}

/// The reply is held back no longer, or nobody waits for it.
pub(super) fn release_reply<H: Handler>(env: &DriveContext<'_, H>, state: &mut State<H::Conn>) {
    if let Some(user) = &mut state.user {
        env.server.handler.release_reply(user);
    }
}

/// Tells the handler why the connection ends.
pub(super) fn report_broken<H: Handler>(
    env: &DriveContext<'_, H>,
    state: &State<H::Conn>,
    broken: &TlsError,
) {
    if let Some(user) = &state.user {
        env.server.handler.report_tls_failure(user, &broken.0);
    }
}
