//! Clients that are refused because there are too many connections: each gets an error as the
//! answer to its first message, with the labels that make drivers back off and try again, and is
//! closed.
//!
//! Promises: their sockets are bounded in number and in time, whatever they send; one thread serves
//! all of them. Must not know: commands, which clients are accepted.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use wire::DecodeOptions;

/// Longest time in which a refused client must send its first message and take the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest first message; those of drivers are far shorter.
const FIRST_MESSAGE_BYTES_MAX: usize = 16 * 1024;

pub(super) struct RejectedClients {
    arrived: Mutex<Vec<RejectedClient>>,
    /// Most sockets held at a time; further clients are closed without an answer.
    places: usize,
    held: AtomicUsize,
    wake: OwnedFd,
}

struct RejectedClient {
    stream: OwnedFd,
    until: Instant,
    /// The answer was sent. Further bytes are discarded: closing a socket with unread bytes could
    /// destroy the answer.
    is_answered: bool,
}

impl RejectedClients {
    pub(super) fn new(places: usize) -> std::io::Result<RejectedClients> {
        Ok(RejectedClients {
            arrived: Mutex::default(),
            places,
            held: AtomicUsize::new(0),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Takes the socket of a refused client.
    pub(super) fn take(&self, stream: OwnedFd) {
        if self.held.fetch_add(1, Ordering::Relaxed) >= self.places {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.arrived.lock().push(RejectedClient {
            stream,
            until: Instant::now() + PATIENCE,
            is_answered: false,
        });
        self.wake();
    }

    /// Wakes the thread that serves them.
    pub(super) fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Serves them on this thread until `is_finished`, which is called after each [`Self::wake`].
    pub(super) fn run(&self, is_finished: impl Fn() -> bool) {
        let mut waiting: Vec<RejectedClient> = Vec::new();
        let mut message = vec![0; FIRST_MESSAGE_BYTES_MAX];
        while !is_finished() {
            waiting.append(&mut self.arrived.lock());
            let mut is_ready = self.wait(&waiting).into_iter();
            let before = waiting.len();
            let now = Instant::now();
            waiting.retain_mut(|client| {
                let goes_on = !is_ready.next().unwrap_or(false) || client.serve(&mut message);
                goes_on && client.until > now
            });
            self.held
                .fetch_sub(before - waiting.len(), Ordering::Relaxed);
        }
    }

    /// Sleeps until a client sends something, the time of one has passed, or the thread is woken.
    /// Returns which clients have sent something.
    fn wait(&self, waiting: &[RejectedClient]) -> Vec<bool> {
        let sockets = waiting.iter().map(|client| client.stream.as_fd());
        let mut polled: Vec<PollFd<'_>> = sockets
            .chain([self.wake.as_fd()])
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let first = waiting.iter().map(|client| client.until).min();
        let left = first.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let _ = poll(&mut polled, left.as_ref());
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let ready = polled.iter().map(|fd| !fd.revents().is_empty());
        ready.take(waiting.len()).collect()
    }
}

impl RejectedClient {
    /// Answers the first message. False when the connection is over.
    fn serve(&mut self, message: &mut [u8]) -> bool {
        let received = match rustix::net::recv(&self.stream, &mut *message, RecvFlags::empty()) {
            Ok((0, _)) => return false,
            Ok((received, _)) => received,
            Err(e) => return e == rustix::io::Errno::AGAIN || e == rustix::io::Errno::INTR,
        };
        if self.is_answered {
            return true;
        }
        let Some(answer) = answer(message.get(..received).unwrap_or_default()) else {
            return false;
        };
        self.is_answered = true;
        rustix::net::send(&self.stream, &answer, SendFlags::NOSIGNAL).is_ok()
            && rustix::net::shutdown(&self.stream, Shutdown::Write).is_ok()
    }
}

/// The answer to a first message; `None` if the message is incomplete, wants no reply or cannot be
/// read.
fn answer(message: &[u8]) -> Option<Vec<u8>> {
    let len = wire::frame_len(message).ok()??;
    let frame = message.get(..len)?;
    let mut scratch = Vec::new();
    let options = DecodeOptions::default();
    let context = wire::decode(frame, &options, &mut scratch).ok()?.reply;
    if context.suppressed {
        return None;
    }
    let code = model::code::INGRESS_REQUEST_RATE_LIMIT_EXCEEDED;
    let name = model::code::name(code);
    let document = model::doc! {
        "ok": 0.0,
        "errmsg": "connection refused because there are too many open connections",
        "code": code,
        "codeName": name.as_str(),
        "errorLabels": ["SystemOverloadedError", "RetryableError"]
    };
    let mut out = Vec::new();
    let reserved = wire::begin_reply(&mut out, &context);
    out.extend_from_slice(document.as_bytes());
    wire::finish_reply(&mut out, reserved, &context, 1, false, &mut scratch).ok()?;
    Some(out)
}
