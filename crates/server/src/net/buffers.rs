//! Buffers that belong to a thread, not to a connection: an idle connection keeps none, and a busy thread's stay warm.

/// One receive of this size takes any ordinary request whole.
const RECEIVE_LEN: usize = 64 * 1024;
/// What a buffer may keep between two connections.
const KEEP_LEN: usize = 1024 * 1024;

/// The buffers of one thread.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Bytes from the socket. Only what the last receive returned is ever looked at.
    pub(super) receive: Vec<u8>,
    pub(super) out: Outgoing,
}

/// What the thread is about to send, and scratch space for building it.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    pub(super) decompressed: Vec<u8>,
    pub(super) compressed: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            receive: vec![0; RECEIVE_LEN],
            out: Outgoing::default(),
        }
    }

    /// Gives back what one large message made them grow to.
    pub(super) fn shrink(&mut self) {
        let Outgoing {
            bytes,
            decompressed,
            compressed,
        } = &mut self.out;
        for buffer in [bytes, decompressed, compressed] {
            buffer.clear();
            if buffer.capacity() > KEEP_LEN {
                *buffer = Vec::new();
            }
        }
    }
}
