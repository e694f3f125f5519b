//! Sealed frames on a connection: a length, then a message that is encrypted and authenticated.
//!
//! Promises: a frame that was changed, left out, repeated or sent back is an error; a frame has at
//! most [`FRAME_MAX`] bytes and arrives completely within [`FRAME_TIME`]. Must not know: the
//! meaning of messages.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire;

/// The largest frame in bytes; tables, workload files and recorded arrivals must fit into one.
pub(super) const FRAME_MAX: usize = 16 << 20;
/// The longest time from the first byte of a frame to its last.
const FRAME_TIME: Duration = Duration::from_secs(30);
/// A peer that accepts no bytes for this long is lost.
const WRITE_MAX: Duration = Duration::from_secs(5);
const TO_AGENT: &str = "sealed to-agent ";
const TO_LAB: &str = "sealed to-lab ";

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Lab,
    Agent,
}

/// The sending half of a connection.
pub(super) struct Sender {
    stream: TcpStream,
    key: LessSafeKey,
    number: u64,
}

/// The receiving half of a connection.
pub(super) struct Receiver {
    stream: TcpStream,
    key: LessSafeKey,
    number: u64,
}

/// Both halves of a connection, with keys derived from the fresh numbers of agent and lab.
pub(super) fn seal_stream(
    stream: &TcpStream,
    token: &[u8],
    agent_number: &str,
    lab_number: &str,
    side: Side,
) -> Result<(Sender, Receiver)> {
    let key = |label: &str| {
        let bytes = wire::derive_key(token, agent_number, &format!("{label}{lab_number}"))?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes);
        key.map(LessSafeKey::new)
            .map_err(|_| Error::other("no key can be generated"))
    };
    let (own, other) = match side {
        Side::Lab => (TO_AGENT, TO_LAB),
        Side::Agent => (TO_LAB, TO_AGENT),
    };
    stream.set_write_timeout(Some(WRITE_MAX))?;
    let sender = Sender {
        stream: stream.try_clone()?,
        key: key(own)?,
        number: 0,
    };
    let receiver = Receiver {
        stream: stream.try_clone()?,
        key: key(other)?,
        number: 0,
    };
    Ok((sender, receiver))
}

/// Frames are numbered, so that a missing or repeated frame is detected.
fn nonce(number: &mut u64) -> Nonce {
    let mut bytes = [0; 12];
    let places = bytes.iter_mut().zip(number.to_le_bytes());
    places.for_each(|(place, byte)| *place = byte);
    *number += 1;
    Nonce::assume_unique_for_key(bytes)
}

impl Sender {
    /// Sends a message.
    pub(super) fn send<M: Serialize>(&mut self, message: &M) -> Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        let tag = CHACHA20_POLY1305.tag_len();
        if bytes.len() + tag > FRAME_MAX {
            let reason = format!(
                "a message has {} bytes; at most {} are allowed",
                bytes.len(),
                FRAME_MAX - tag
            );
            return Err(Error::new(ErrorKind::InvalidInput, reason));
        }
        let sealed =
            self.key
                .seal_in_place_append_tag(nonce(&mut self.number), Aad::empty(), &mut bytes);
        sealed.map_err(|_| Error::other("a message cannot be encrypted"))?;
        let length = u32::try_from(bytes.len()).map_err(Error::other)?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend(bytes);
        self.stream.write_all(&frame)
    }

    /// Closes the connection in both directions.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Receiver {
    /// Receives the next message, which must begin to arrive within `silent`; `None` at the end of
    /// the connection.
    pub(super) fn receive<M: DeserializeOwned>(&mut self, silent: Duration) -> Result<Option<M>> {
        let (mut first, mut rest) = ([0], [0; 3]);
        if self.read(&mut first, Instant::now() + silent)? == 0 {
            return Ok(None);
        }
        let deadline = Instant::now() + FRAME_TIME;
        self.read_all(&mut rest, deadline)?;
        let ([a], [b, c, d]) = (first, rest);
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > FRAME_MAX {
            let reason = format!("a frame has {length} bytes; at most {FRAME_MAX} are allowed");
            return Err(Error::new(ErrorKind::InvalidData, reason));
        }
        let mut bytes = vec![0; length];
        self.read_all(&mut bytes, deadline)?;
        let opened = self
            .key
            .open_in_place(nonce(&mut self.number), Aad::empty(), &mut bytes);
        let opened = opened
            .map_err(|_| Error::new(ErrorKind::InvalidData, "a frame cannot be decrypted"))?;
        Ok(Some(serde_json::from_slice(opened)?))
    }

    fn read(&mut self, into: &mut [u8], deadline: Instant) -> Result<usize> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(ErrorKind::TimedOut.into());
                }
                read => return read,
            }
        }
    }

    fn read_all(&mut self, mut into: &mut [u8], deadline: Instant) -> Result<()> {
        while !into.is_empty() {
            let read = self.read(into, deadline)?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            into = into.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TOKEN: &[u8] = b"a token of some length";
    const SHORT: Duration = Duration::from_millis(200);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    fn frames_come_as_they_were_sent_and_in_both_directions() {
        let (lab, agent) = pair();
        let (mut to_agent, mut from_agent) = seal_stream(&lab, TOKEN, "1", "2", Side::Lab).unwrap();
        let (mut to_lab, mut from_lab) = seal_stream(&agent, TOKEN, "1", "2", Side::Agent).unwrap();
        for number in 0..3_u64 {
            to_agent.send(&number).unwrap();
            to_lab.send(&vec![number; 5]).unwrap();
            assert_eq!(from_lab.receive(SHORT).unwrap(), Some(number));
            assert_eq!(from_agent.receive(SHORT).unwrap(), Some(vec![number; 5]));
        }
        let silent = from_lab.receive::<u64>(SHORT).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::TimedOut);
        to_agent.close();
        assert_eq!(from_lab.receive::<u64>(SHORT).unwrap(), None);
    }

    #[test]
    fn what_was_not_sealed_here_and_now_is_refused() {
        let refused = |bytes: &[u8]| {
            let (mut lab, agent) = pair();
            let (_, mut from_lab) = seal_stream(&agent, TOKEN, "1", "2", Side::Agent).unwrap();
            lab.write_all(bytes).unwrap();
            lab.shutdown(std::net::Shutdown::Write).unwrap();
            let first = from_lab.receive::<u64>(SHORT);
            let second = first.and_then(|_| from_lab.receive::<u64>(SHORT));
            second.unwrap_err().to_string()
        };
        let frame = |agent: &str, lab: &str, side: Side, token: &[u8]| {
            let (one, mut other) = pair();
            seal_stream(&one, token, agent, lab, side)
                .unwrap()
                .0
                .send(&7_u64)
                .unwrap();
            let mut out = vec![0; 4 + 1 + 16];
            other.read_exact(&mut out).unwrap();
            out
        };
        let good = frame("1", "2", Side::Lab, TOKEN);
        let mut changed = good.clone();
        changed[5] ^= 1;
        let twice = [&good[..], &good[..]].concat();
        let other_run = frame("1", "3", Side::Lab, TOKEN);
        let sent_back = frame("1", "2", Side::Agent, TOKEN);
        let other_token = frame("1", "2", Side::Lab, b"another token of a length");
        for bytes in [
            changed,
            twice,
            other_run,
            sent_back,
            other_token,
            vec![0; 4],
        ] {
            assert!(refused(&bytes).contains("cannot be decrypted"), "{bytes:?}");
        }
        assert!(refused(&[0xff; 8]).contains("at most"));
        assert!(refused(&good[..9]).contains("end of file"));
        // A message that is too large to be received is not sent either.
        let (lab, _agent) = pair();
        let (mut sender, _) = seal_stream(&lab, TOKEN, "1", "2", Side::Lab).unwrap();
        let error = sender.send(&"x".repeat(FRAME_MAX)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
