//! The protocol between agent and lab: short lines of text.
//!
//! The agent begins with a fresh number. The lab answers with its request and the HMAC-SHA-256 of
//! both under the token. From then on the agent answers each `sample` with the process's counters.
//! Must not know: sockets.

use std::fmt;
use std::io::{Error, ErrorKind, Read, Result};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use metrics::ProcessSample;
use sha2::Sha256;

/// The largest length of a line in bytes, without its end.
pub(crate) const LINE_MAX: usize = 512;
/// The beginning of the agent's first line; a number that is never used twice follows.
pub(crate) const GREETING: &str = "quarry-lab agent 1 ";
/// The prefix of the line with the process number.
pub(crate) const PROCESS: &str = "process ";
/// The request for the counters.
pub(crate) const SAMPLE: &str = "sample";
/// The prefix of the request for load; a fresh number and the version follow.
pub(crate) const LOAD: &str = "load ";
/// The prefix of a refusal, before its reason.
pub(crate) const REFUSED: &str = "refused: ";

/// The process that a lab asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessQuery {
    /// The process that listens on a port.
    Port(u16),
    /// The process with this number.
    Process(u32),
}

impl fmt::Display for ProcessQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port {port}"),
            Self::Process(pid) => write!(f, "process {pid}"),
        }
    }
}

impl ProcessQuery {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("port", port) => port.parse().ok().map(Self::Port),
            ("process", pid) => pid.parse().ok().map(Self::Process),
            _ => None,
        }
    }
}

fn mac(token: &[u8], number: &str, wanted: &str) -> Result<Hmac<Sha256>> {
    let mut out = Hmac::<Sha256>::new_from_slice(token).map_err(Error::other)?;
    out.update(number.as_bytes());
    out.update(b" ");
    out.update(wanted.as_bytes());
    Ok(out)
}

/// A key that only a holder of the token can derive, under a label that no proof uses.
pub(crate) fn derive_key(token: &[u8], number: &str, label: &str) -> Result<[u8; 32]> {
    Ok(mac(token, number, label)?.finalize().into_bytes().into())
}

/// The proof that the sender knows the token.
pub(crate) fn proof(token: &[u8], number: &str, wanted: &str) -> Result<String> {
    let bytes = mac(token, number, wanted)?.finalize().into_bytes();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares in constant time.
pub(crate) fn is_proven(token: &[u8], number: &str, wanted: &str, proof: &str) -> bool {
    let is_hex = proof.len() == 64 && proof.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = (0..proof.len())
        .step_by(2)
        .filter_map(|at| proof.get(at..at + 2));
    let bytes: Vec<u8> = pairs
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect();
    let mac = mac(token, number, wanted);
    is_hex && mac.is_ok_and(|mac| mac.verify_slice(&bytes).is_ok())
}

/// The next line; `None` at the end. `wait` is called before each byte with the remaining time.
pub(crate) fn read_line<R: Read>(
    from: &mut R,
    mut wait: impl FnMut(&R) -> Result<()>,
) -> Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        wait(from)?;
        let mut byte = [0];
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        if byte == [b'\n'] {
            let text = String::from_utf8(line);
            return text.map(Some).map_err(|_| ErrorKind::InvalidData.into());
        }
        if line.len() == LINE_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        line.extend(byte);
    }
}

/// Writes the counters as numbers; times are in microseconds.
pub(crate) fn of_sample(sample: &ProcessSample) -> String {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let numbers = [
        us(sample.cpu_user),
        us(sample.cpu_system),
        sample.read_bytes,
        sample.write_bytes,
        sample.read_calls,
        sample.write_calls,
        sample.switches_voluntary,
        sample.switches_involuntary,
        sample.rss_bytes,
        sample.rss_bytes_max,
        sample.threads,
        sample.faults_minor,
        sample.faults_major,
    ];
    numbers.map(|number| number.to_string()).join(" ")
}

/// Reads the counters from numbers.
pub(crate) fn to_sample(text: &str) -> Option<ProcessSample> {
    let numbers: Option<Vec<u64>> = text.split(' ').map(|one| one.parse().ok()).collect();
    let numbers: [u64; 13] = numbers?.try_into().ok()?;
    let [
        user,
        system,
        read_bytes,
        write_bytes,
        read_calls,
        write_calls,
        rest @ ..,
    ] = numbers;
    let [
        switches_voluntary,
        switches_involuntary,
        rss_bytes,
        rss_bytes_max,
        rest @ ..,
    ] = rest;
    let [threads, faults_minor, faults_major] = rest;
    Some(ProcessSample {
        cpu_user: Duration::from_micros(user),
        cpu_system: Duration::from_micros(system),
        read_bytes,
        write_bytes,
        read_calls,
        write_calls,
        switches_voluntary,
        switches_involuntary,
        rss_bytes,
        rss_bytes_max,
        threads,
        faults_minor,
        faults_major,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_comes_back_as_it_was() {
        let sample = ProcessSample {
            cpu_user: Duration::from_micros(1),
            cpu_system: Duration::from_micros(2),
            read_bytes: 3,
            write_bytes: 4,
            read_calls: 5,
            write_calls: 6,
            switches_voluntary: 7,
            switches_involuntary: 8,
            rss_bytes: 9,
            rss_bytes_max: 10,
            threads: 11,
            faults_minor: 12,
            faults_major: u64::MAX,
        };
        assert_eq!(to_sample(&of_sample(&sample)), Some(sample));
        for wrong in ["", "1 2 3", "1 2 3 4 5 6 7 8 9 10 11 12 -1", "x"] {
            assert_eq!(to_sample(wrong), None, "{wrong}");
        }
        assert_eq!(to_sample(&["1"; 14].join(" ")), None);
    }

    #[test]
    fn a_proof_holds_for_one_token_and_one_request() {
        let given = proof(b"a token of some length", "17", "port 1").unwrap();
        let check =
            |token: &[u8], number, wanted, proof: &str| is_proven(token, number, wanted, proof);
        assert!(check(b"a token of some length", "17", "port 1", &given));
        assert!(!check(b"a token of same length", "17", "port 1", &given));
        assert!(!check(b"a token of some length", "18", "port 1", &given));
        assert!(!check(b"a token of some length", "17", "port 2", &given));
        for wrong in [
            "",
            "00",
            &given[1..],
            &format!("{given}00"),
            &"é".repeat(32),
        ] {
            assert!(!check(b"a token of some length", "17", "port 1", wrong));
        }
    }

    #[test]
    fn lines_end_within_their_bound() {
        let line = |bytes: &[u8]| read_line(&mut &bytes[..], |_| Ok(()));
        assert_eq!(line(b"port 1\nmore").unwrap().as_deref(), Some("port 1"));
        assert_eq!(line(b"port 1").unwrap(), None);
        assert!(line(b"\xff\n").is_err());
        assert!(line(&[b'a'; LINE_MAX + 1]).is_err());
        for wrong in ["port", "port 70000", "port -1", "pid 1", "process 1 2"] {
            assert_eq!(ProcessQuery::parse(wrong), None, "{wrong}");
        }
    }
}
