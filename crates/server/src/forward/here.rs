//! What a server that forwards its connections answers itself: whole messages of a client that
//! waits for no other reply. Must not know: commands, the engine.

use crate::frames::Frames;
use crate::net::PeerAddr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longest message that is examined; longer ones are forwarded.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// How long the holder may take to answer a question of this server.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers messages of clients whose connections are forwarded.
pub trait LocalHandler: Send + Sync {
    /// A client has connected; `socket` is another handle to its connection.
    fn connect(&self, peer: &PeerAddr, socket: OwnedFd) -> Box<dyn LocalClient>;
}

/// Whoever answers messages on this server; empty until that can answer.
pub type LocalHandlerSlot = Arc<OnceLock<Arc<dyn LocalHandler>>>;

/// Asks the holder something on the client's connection to it. That connection must not be waiting
/// for a reply.
pub type HolderQuery<'q> = dyn FnMut(&[u8]) -> std::io::Result<Vec<u8>> + 'q;

/// The part of a client's connection that is answered here.
pub trait LocalClient {
    /// The reply to a whole message; `None` if it has to be forwarded.
    ///
    /// # Errors
    /// Those of `holder`; afterwards the connection to the holder cannot be used any more.
    fn answer(
        &mut self,
        message: &[u8],
        holder: &mut HolderQuery<'_>,
    ) -> std::io::Result<Option<Vec<u8>>>;

    /// Some bytes were forwarded without being examined here.
    fn forget_forwarded(&mut self);
}

/// The length of a message that begins with these bytes.
pub(super) fn length_of(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk().map(|l| u32::from_le_bytes(*l))?;
    usize::try_from(length).ok()
}

/// Sends a message and waits for one in return.
pub(super) fn ask(socket: &mut TcpStream, message: &[u8]) -> std::io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(QUESTION_TIMEOUT))?;
    socket.write_all(message)?;
    let (mut frames, mut reply) = (Frames::default(), Vec::new());
    let mut buffer = [0; 4096];
    while reply.is_empty() || !frames.is_between() {
        let bytes = socket.read(&mut buffer)?;
        let read = buffer.get(..bytes).unwrap_or_default();
        if read.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        frames.see(read);
        reply.extend_from_slice(read);
    }
    socket.set_read_timeout(None)?;
    Ok(reply)
}
