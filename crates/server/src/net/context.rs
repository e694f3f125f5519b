//! The part of the server that connections use: the handler, the watermark, memory, whether it is
//! stopping. Must not know: poll sets, threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use memory::Budget;
use wire::DecodeOptions;

use super::handler::Handler;
use super::tls::Tls;
use super::watermark::Watermark;

const RUNNING: u8 = 0;
const STOPPING: u8 = 1;
const FINISHED: u8 = 2;

pub(super) struct Context<H: Handler> {
    pub(super) handler: H,
    pub(super) watermark: Arc<Watermark>,
    pub(super) decode: DecodeOptions,
    pub(super) memory: Arc<Budget>,
    pub(super) tls: Option<Arc<Tls>>,
    /// How long a client may leave a message or a handshake unfinished.
    pub(super) patience: Duration,
    /// Connections that are open.
    pub(super) current: AtomicU64,
    state: AtomicU8,
}

impl<H: Handler> Context<H> {
    pub(super) fn new(
        handler: H,
        watermark: Arc<Watermark>,
        decode: DecodeOptions,
        memory: Arc<Budget>,
    ) -> Self {
        Self {
            handler,
            watermark,
            decode,
            memory,
            tls: None,
            patience: Duration::MAX,
            current: AtomicU64::new(0),
            state: AtomicU8::new(RUNNING),
        }
    }

    /// Running requests finish, no new one begins.
    pub(super) fn is_stopping(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUNNING
    }

    /// Threads must end.
    pub(super) fn is_finished(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FINISHED
    }

    pub(super) fn stop(&self) {
        self.state.store(STOPPING, Ordering::SeqCst);
    }

    pub(super) fn finish(&self) {
        self.state.store(FINISHED, Ordering::SeqCst);
    }

    pub(super) fn disconnect_user(&self, user: H::Conn) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.handler.disconnect(user)
        }));
        if result.is_err() {
            self.handler
                .report_panic("(disconnect)", "while a connection was taken down");
        }
        self.current.fetch_sub(1, Ordering::Relaxed);
    }
}
