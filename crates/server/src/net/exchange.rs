//! From frames to replies. Promises: exactly one reply per request that wants one, whatever the
//! handler does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use memory::Charge;
use wire::{Recovery, ReplyContext, ReservedHeader, WireError};

use super::conn::report_broken;
use super::conn::{Conn, DriveContext, release_reply};
use super::handler::{Class, Handler, NextAction};
use super::set::Pollable;
use super::state::{PendingReply, Phase, State, StepOutcome};
use super::stats::add;

const INTERNAL_ERROR: i32 = 1;
/// Most requests of one receive that are answered in one step.
const FRAME_BUDGET: usize = 32;
/// Replies are collected up to this size before they are sent, even if more requests of the
/// pipeline are at hand.
const SEND_EARLY_LEN: usize = 256 * 1024;

impl<H: Handler> Conn<H> {
    /// Answers the whole frames at the start of `bytes`. Returns the number of bytes consumed.
    pub(super) fn answer_frames(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        bytes: &[u8],
    ) -> (usize, StepOutcome) {
        let mut used = 0;
        for _ in 0..FRAME_BUDGET {
            let rest = bytes.get(used..).unwrap_or_default();
            let frame = match wire::frame_len(rest) {
                Ok(Some(len)) if self.is_too_long(env, state, rest, len) => {
                    add(&env.set.counters.refused_messages, 1);
                    state.phase = Phase::Closing;
                    return (bytes.len(), StepOutcome::Go);
                }
                Ok(Some(len)) => match rest.get(..len) {
                    Some(frame) => frame,
                    None => return (used, StepOutcome::Idle),
                },
                Ok(None) => return (used, StepOutcome::Idle),
                Err(_) => {
                    add(&env.set.counters.refused_messages, 1);
                    state.phase = Phase::Closing;
                    return (bytes.len(), StepOutcome::Go);
                }
            };
            match self.answer_frame(env, state, frame) {
                StepOutcome::HandOff => return (used, StepOutcome::HandOff),
                StepOutcome::Idle => used += frame.len(),
                other => return (used + frame.len(), other),
            }
            if env.buffers.out.bytes.len() > SEND_EARLY_LEN
                && let Some(step) = self.send_out(env, state)
            {
                return (used, step);
            }
        }
        (used, StepOutcome::Go)
    }

    /// Whether a message is longer, as received or decompressed, than its client may send now.
    fn is_too_long(
        &self,
        env: &DriveContext<'_, H>,
        state: &State<H::Conn>,
        frame: &[u8],
        len: usize,
    ) -> bool {
        let Some(user) = &state.user else { return true };
        let most = env.server.handler.message_limit(user);
        most < wire::MAX_MESSAGE_LEN
            && (len > most || wire::uncompressed_len(frame).is_some_and(|n| n > most))
    }

    /// `Idle`: answered, take the next frame. Anything else ends the run of frames.
    fn answer_frame(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        frame: &[u8],
    ) -> StepOutcome {
        let _charge = match self.charge_decompressed(env, frame) {
            Ok(charge) => charge,
            Err(step) => return step,
        };
        let mut decompressed = std::mem::take(&mut env.buffers.out.decompressed);
        let step = match wire::decode(frame, &env.server.decode, &mut decompressed) {
            Ok(request) => self.answer_request(env, state, &request),
            Err(error) => refuse(env, state, &error),
        };
        env.buffers.out.decompressed = decompressed;
        step
    }

    /// Charges the decompressed message for as long as it is in use. Without memory for it the
    /// connection is closed: the flag that says whether a reply is wanted is inside.
    fn charge_decompressed(
        &self,
        env: &DriveContext<'_, H>,
        frame: &[u8],
    ) -> Result<Option<Charge>, StepOutcome> {
        let Some(len) = wire::uncompressed_len(frame) else {
            return Ok(None);
        };
        let charge = env.server.memory.charge();
        // While a buffer grows its content exists twice, except at the last growth.
        let bytes = len.saturating_add(len.min(2 * wire::BELIEVED_LEN));
        if charge.try_set(bytes).is_err() {
            add(&env.set.counters.refused_messages, 1);
            return Err(StepOutcome::Close);
        }
        Ok(Some(charge))
    }

    fn answer_request(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        request: &wire::Request<'_>,
    ) -> StepOutcome {
        let handler = &env.server.handler;
        let Some(user) = state.user.as_mut() else {
            return StepOutcome::Close;
        };
        if !env.may_block && handler.class(user, request) == Class::Long {
            add(&env.set.counters.long_requests, 1);
            return StepOutcome::HandOff;
        }
        add(&env.set.counters.requests, 1);
        let reply = PendingReply {
            context: request.reply,
            exhaust: request.exhaust_allowed,
        };
        let out = &mut env.buffers.out.bytes;
        let reserved = wire::begin_reply(out, &reply.context);
        env.driver.enter();
        let result = catch_unwind(AssertUnwindSafe(|| handler.handle(user, request, out)));
        env.driver.leave();
        let next = result.map_err(|panic| {
            handler.report_panic(request.command_name(), panic_text(&*panic));
        });
        self.settle(env, state, reserved, reply, next)
    }

    /// Whether the request that waited needs a thread of its own.
    pub(super) fn resumes_long(&self, env: &DriveContext<'_, H>, state: &State<H::Conn>) -> bool {
        let user = state.user.as_ref();
        user.is_some_and(|user| env.server.handler.class_of_waiting(user) == Class::Long)
    }

    /// Continues a request that waited or streams.
    pub(super) fn resume(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        reply: PendingReply,
    ) -> StepOutcome {
        let handler = &env.server.handler;
        let Some(user) = state.user.as_mut() else {
            return StepOutcome::Close;
        };
        state.phase = Phase::Ready;
        let out = &mut env.buffers.out.bytes;
        let reserved = wire::begin_reply(out, &reply.context);
        env.driver.enter();
        let result = catch_unwind(AssertUnwindSafe(|| handler.resume(user, out)));
        env.driver.leave();
        let next = result.map_err(|panic| handler.report_panic("(resumed)", panic_text(&*panic)));
        match self.settle(env, state, reserved, reply, next) {
            StepOutcome::Idle => StepOutcome::Go,
            other => other,
        }
    }

    /// Makes a message of what the handler appended to the output buffer, and sets the next phase.
    fn settle(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        reserved: ReservedHeader,
        reply: PendingReply,
        next: Result<NextAction, ()>,
    ) -> StepOutcome {
        let start = reserved.start();
        let context = reply.context;
        let out = &mut env.buffers.out.bytes;
        let next = next.unwrap_or_else(|()| {
            add(&env.set.counters.panics, 1);
            out.truncate(reserved.document());
            internal_error(
                "the command failed inside the server, its log has the details",
                context,
            )
            .append_document(context.protocol, out);
            NextAction::Reply
        });
        if let NextAction::Wait { until } = next {
            out.truncate(start);
            state.phase = Phase::Wait(until, reply);
            env.set.add_deadline(until, self.token());
            return StepOutcome::Go;
        }
        let empty = out.len() == reserved.document();
        let more = next == NextAction::Stream && reply.exhaust && !context.suppressed;
        if context.suppressed || (next == NextAction::Close && empty) {
            out.truncate(start);
        } else {
            finish(env, state, reserved, &context, more);
        }
        env.buffers.out.account();
        match next {
            NextAction::Close => {
                state.phase = Phase::Closing;
                StepOutcome::Go
            }
            NextAction::Stream if more => {
                let context = ReplyContext {
                    response_to: state.next_id.wrapping_sub(1),
                    ..context
                };
                state.phase = Phase::Stream(PendingReply { context, ..reply });
                StepOutcome::Go
            }
            NextAction::Durable(position) if env.server.watermark.position() < position => {
                self.hold_back(env, state, start, position)
            }
            NextAction::Durable(_) => {
                release_reply(env, state);
                StepOutcome::Idle
            }
            _ => StepOutcome::Idle,
        }
    }

    /// Holds the newest reply back until the journal has reached `position`; earlier replies leave
    /// now.
    fn hold_back(
        &self,
        env: &mut DriveContext<'_, H>,
        state: &mut State<H::Conn>,
        start: usize,
        position: u64,
    ) -> StepOutcome {
        let held = env
            .buffers
            .out
            .bytes
            .split_off(start.min(env.buffers.out.bytes.len()));
        if held.is_empty() {
            // This request gets no reply, so it need not wait.
            release_reply(env, state);
            return StepOutcome::Idle;
        }
        if let Some(broken) = self.send_out(env, state) {
            return broken;
        }
        let held = match self.seal_bytes(state, held) {
            Ok(held) => held,
            Err(broken) => {
                report_broken(env, state, &broken);
                return StepOutcome::Close;
            }
        };
        if state.output.is_empty() {
            state.output = held;
        } else {
            state.output.extend_from_slice(&held);
        }
        state.account();
        state.phase = Phase::Durable(position);
        env.set.durable.add(position, self.token());
        StepOutcome::Go
    }
}

fn finish<H: Handler>(
    env: &mut DriveContext<'_, H>,
    state: &mut State<H::Conn>,
    reserved: ReservedHeader,
    context: &ReplyContext,
    more: bool,
) {
    let id = state.next_id;
    state.next_id = id.wrapping_add(1);
    let out = &mut env.buffers.out;
    let (start, document) = (reserved.start(), reserved.document());
    let bad = match wire::finish_reply(
        &mut out.bytes,
        reserved,
        context,
        id,
        more,
        &mut out.compressed,
    ) {
        Ok(()) => return,
        Err(error) => error,
    };
    // A handler that appends no document, or two, is a bug of this server; the client still needs a
    // reply.
    debug_assert!(out.bytes.len() == start && document > start);
    write_error(env, state, &bad, context);
}

pub(super) fn refuse<H: Handler>(
    env: &mut DriveContext<'_, H>,
    state: &mut State<H::Conn>,
    error: &WireError,
) -> StepOutcome {
    add(&env.set.counters.refused_messages, 1);
    match error.recovery {
        Recovery::Reply(context) if context.suppressed => StepOutcome::Idle,
        Recovery::Reply(context) => {
            write_error(env, state, error, &context);
            StepOutcome::Idle
        }
        Recovery::Close => {
            state.phase = Phase::Closing;
            StepOutcome::Go
        }
    }
}

fn write_error<H: Handler>(
    env: &mut DriveContext<'_, H>,
    state: &mut State<H::Conn>,
    error: &WireError,
    context: &ReplyContext,
) {
    let id = state.next_id;
    state.next_id = id.wrapping_add(1);
    let out = &mut env.buffers.out;
    let reserved = wire::begin_reply(&mut out.bytes, context);
    error.append_document(context.protocol, &mut out.bytes);
    // An error document is one small document, so this cannot fail; if it did, the message would be
    // truncated to its start.
    let _ = wire::finish_reply(
        &mut out.bytes,
        reserved,
        context,
        id,
        false,
        &mut out.compressed,
    );
}

fn internal_error(message: &str, context: ReplyContext) -> WireError {
    WireError {
        code: INTERNAL_ERROR,
        message: message.to_owned(),
        recovery: Recovery::Reply(context),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}
