//! Buffers that belong to a thread, not to a connection: an idle connection keeps none, and the
//! buffers of a busy thread stay in its caches. Growth through large messages is charged to the
//! memory of messages and freed at the end of the connection's turn.

use memory::{Budget, Charge};
use std::sync::Arc;

/// One receive of this size takes any ordinary request whole.
const RECEIVE_LEN: usize = 64 * 1024;
/// Most bytes that a buffer keeps between two connections.
const KEEP_LEN: usize = 1024 * 1024;

/// The buffers of one thread.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Bytes from the socket. Only the bytes of the last receive are ever read.
    pub(super) receive: Vec<u8>,
    /// Bytes from the socket of a TLS connection, before decryption. Empty until needed.
    pub(super) records: Vec<u8>,
    pub(super) out: SendBuffers,
}

/// The bytes that the thread is about to send, and scratch space for building them.
#[derive(Debug)]
pub(super) struct SendBuffers {
    pub(super) bytes: Vec<u8>,
    pub(super) decompressed: Vec<u8>,
    pub(super) compressed: Vec<u8>,
    charge: Charge,
}

impl SendBuffers {
    /// Charges the size of the buffers, small ones excepted. The bytes are allocated already, so
    /// nothing is refused.
    pub(super) fn account(&self) {
        let large = |buffer: &Vec<u8>| {
            Some(buffer.capacity())
                .filter(|n| *n > KEEP_LEN)
                .unwrap_or(0)
        };
        let bytes = large(&self.bytes) + large(&self.decompressed) + large(&self.compressed);
        if bytes != self.charge.bytes() {
            self.charge.set(bytes);
        }
    }
}

impl Buffers {
    pub(super) fn new(memory: &Arc<Budget>) -> Self {
        Self {
            receive: vec![0; RECEIVE_LEN],
            records: Vec::new(),
            out: SendBuffers {
                bytes: Vec::new(),
                decompressed: Vec::new(),
                compressed: Vec::new(),
                charge: memory.charge(),
            },
        }
    }

    /// Frees the memory that one large message made the buffers take.
    pub(super) fn shrink(&mut self) {
        let SendBuffers {
            bytes,
            decompressed,
            compressed,
            charge: _,
        } = &mut self.out;
        for buffer in [bytes, decompressed, compressed] {
            buffer.clear();
            if buffer.capacity() > KEEP_LEN {
                *buffer = Vec::new();
            }
        }
        self.out.account();
    }
}
