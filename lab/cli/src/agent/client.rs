//! The lab's side of an agent: samples of a process on another machine.

use std::io::{Error, ErrorKind, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use metrics::ProcessSample;

use super::token;
use crate::errors::LabError;
use crate::wire::{self, GREETING, PROCESS, ProcessQuery, REFUSED, SAMPLE};

/// An agent that does not answer within this time is lost, because the lab's samples must not wait
/// for it.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The address of an agent, its token, and the process that it samples.
#[derive(Clone)]
pub(crate) struct Agent {
    address: String,
    token: Vec<u8>,
    wanted: ProcessQuery,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token is not printed.
        write!(f, "Agent({}, {})", self.address, self.wanted)
    }
}

/// A process on another machine, sampled through its agent.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    stream: TcpStream,
    agent: Agent,
    pid: u32,
}

impl Agent {
    /// The agent at an address, for the process that listens on the port of `target`.
    pub(crate) fn new(address: &str, token_file: &Path, target: &str) -> AgentResult<Self> {
        let wanted = ProcessQuery::Port(port(target).ok_or_else(|| {
            LabError::Agent(format!("{address}: the target's address has no port"))
        })?);
        Ok(Self {
            address: address.to_owned(),
            token: token(token_file)?,
            wanted,
        })
    }

    /// Connects.
    pub(crate) fn open(&self) -> AgentResult<AgentProcess> {
        self.connect()
            .map_err(|error| LabError::Agent(format!("{}: {error}", self.address)))
    }

    fn connect(&self) -> Result<AgentProcess> {
        let mut addresses = self.address.to_socket_addrs()?;
        let address = addresses.next().ok_or(ErrorKind::AddrNotAvailable)?;
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        let greeting = answer(&stream)?;
        let number = greeting.strip_prefix(GREETING);
        let number = number.ok_or_else(|| Error::other("it is not an agent of this version"))?;
        let wanted = self.wanted.to_string();
        let proof = wire::proof(&self.token, number, &wanted)?;
        stream.write_all(format!("{proof} {wanted}\n").as_bytes())?;
        let told = answer(&stream)?;
        let pid = told.strip_prefix(PROCESS).and_then(|pid| pid.parse().ok());
        Ok(AgentProcess {
            stream,
            agent: self.clone(),
            pid: pid.ok_or_else(|| parse_refusal(&told))?,
        })
    }
}

/// The result of an action that may fail before a run begins.
type AgentResult<T> = std::result::Result<T, LabError>;

impl AgentProcess {
    /// The agent, for connecting again.
    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// A sample of the process's counters so far.
    pub(crate) fn sample(&mut self) -> Result<ProcessSample> {
        self.stream.write_all(format!("{SAMPLE}\n").as_bytes())?;
        let told = answer(&self.stream)?;
        wire::to_sample(&told).ok_or_else(|| parse_refusal(&told))
    }

    /// Describes process and agent.
    pub(crate) fn name(&self) -> String {
        format!(
            "process {} by the agent at {}",
            self.pid, self.agent.address
        )
    }
}

fn answer(mut stream: &TcpStream) -> Result<String> {
    let deadline = Instant::now() + ANSWER_MAX;
    let line = wire::read_line(&mut stream, |stream| {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))
    });
    line?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}

fn parse_refusal(answer: &str) -> Error {
    match answer.strip_prefix(REFUSED) {
        Some(reason) => Error::other(reason.to_owned()),
        None => Error::other("its answer cannot be parsed"),
    }
}

/// The port of the first host of an address.
fn port(target: &str) -> Option<u16> {
    let (scheme, rest) = target.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let hosts = authority
        .rsplit_once('@')
        .map_or(authority, |(_, hosts)| hosts);
    let first = hosts.split(',').next()?;
    let after = first.rsplit_once(']').map_or(first, |(_, after)| after);
    match (after.rsplit_once(':'), scheme) {
        (Some((_, port)), _) => port.parse().ok(),
        (None, "mongodb") => Some(27_017),
        (None, "mysql") => Some(3_306),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_that_of_the_first_host() {
        for (target, wanted) in [
            ("mongodb://h:1/db", Some(1)),
            ("mongodb://me:2@h:3,i:4/?a=b", Some(3)),
            ("mongodb://[::1]:5/", Some(5)),
            ("mongodb://[::1]/", Some(27_017)),
            ("mongodb://h", Some(27_017)),
            ("mysql://root@h/x?y=z:1", Some(3_306)),
            ("mongodb://h:70000", None),
            ("redb:dir", None),
        ] {
            assert_eq!(port(target), wanted, "{target}");
        }
    }
}
