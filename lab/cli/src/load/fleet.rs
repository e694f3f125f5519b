//! The lab's side: the generators of a run, each an agent on a sealed connection.
//!
//! Promises: a generator that closes its connection, is silent or sends unreadable messages is
//! reported as lost, with the reason; no generator keeps the lab waiting. Must not know: what a
//! step measures.

use std::io::{Error, ErrorKind, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver as Inbox, RecvTimeoutError, Sender as Outbox, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::VERSION;
use super::channel::{Receiver, Sender, Side, seal_stream};
use super::clock::{Clock, ClockSample};
use super::message::{AgentMessage, Job, LabMessage, StepOrder};
use super::server::{ALIVE_EVERY, wall_us};
use crate::counters::lock;
use crate::errors::LabError;
use crate::wire::{self, GREETING, LOAD, REFUSED};

/// A generator that sends nothing for this long is lost.
pub(crate) const SILENT_MAX: Duration = Duration::from_secs(5);
/// The time limit for connecting and for each line of the greeting. An agent waits for its previous
/// run to end.
const GREET_MAX: Duration = Duration::from_secs(6);
/// The number of requests for the time; the fastest answer counts.
const QUESTIONS: usize = 8;
/// Connecting a target or clients may take this much longer than a call.
const PREPARE_SLACK: Duration = Duration::from_secs(10);
/// The time from the order to begin until the common start.
const START_LEAD: Duration = Duration::from_millis(200);
/// The longest wait at the end of the run until agents have closed their connections.
const PART_MAX: Duration = Duration::from_secs(3);

/// A message or event from a generator.
pub(crate) enum Event {
    /// The generator sent a message.
    Said(AgentMessage),
    /// The generator is lost, with the reason.
    Lost(String),
}

/// A generator.
pub(crate) struct Generator {
    /// Where its agent listens.
    pub(crate) address: String,
    /// CPUs of its machine.
    pub(crate) cpus: u32,
    /// Its clocks, as measured before the last step.
    pub(crate) clock: Clock,
    sender: Arc<Mutex<Sender>>,
}

/// All generators of a run.
pub(crate) struct Fleet {
    /// The generators, in the order of the command line.
    pub(crate) generators: Vec<Generator>,
    inbox: Inbox<(usize, Event, Instant)>,
    /// Dropping this ends the heartbeat.
    _alive: Outbox<()>,
    prepare_max: Duration,
}

fn agent_error(address: &str, error: &dyn std::fmt::Display) -> LabError {
    LabError::Agent(format!("{address}: {error}"))
}

impl Fleet {
    /// Connects to all agents and gives them the run.
    ///
    /// # Errors
    /// An agent cannot be reached, refuses, or its clock differs too much.
    pub(crate) fn open(
        addresses: &[String],
        token: &[u8],
        job: impl Fn(u32) -> Job,
        call_timeout: Duration,
    ) -> std::result::Result<Self, LabError> {
        let (outbox, inbox) = channel();
        let (alive, ended) = channel::<()>();
        let mut out = Self {
            generators: Vec::new(),
            inbox,
            _alive: alive,
            prepare_max: call_timeout + PREPARE_SLACK,
        };
        for (number, address) in addresses.iter().enumerate() {
            let (sender, receiver) =
                greet(address, token).map_err(|error| agent_error(address, &error))?;
            let outbox = outbox.clone();
            std::thread::spawn(move || read(number, receiver, &outbox));
            out.generators.push(Generator {
                address: address.clone(),
                cpus: 0,
                clock: Clock::local(),
                sender: Arc::new(Mutex::new(sender)),
            });
        }
        let senders: Vec<_> = out
            .generators
            .iter()
            .map(|generator| generator.sender.clone())
            .collect();
        std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(ALIVE_EVERY) {
                for sender in &senders {
                    // The reader of the connection notices that a generator is lost.
                    let _ = lock(sender).send(&LabMessage::Alive);
                }
            }
        });
        out.measure_clocks()?;
        for number in 0..out.generators.len() {
            let job = job(u32::try_from(number).unwrap_or(u32::MAX));
            out.send(number, &LabMessage::Job(Box::new(job)))?;
        }
        let ready = out.gather(|said| match said {
            AgentMessage::Ready { cpus } => Some(*cpus),
            _ => None,
        })?;
        for (generator, cpus) in out.generators.iter_mut().zip(ready) {
            generator.cpus = cpus;
        }
        Ok(out)
    }

    /// Sends a message to one generator.
    pub(crate) fn send(
        &self,
        number: usize,
        what: &LabMessage,
    ) -> std::result::Result<(), LabError> {
        let Some(generator) = self.generators.get(number) else {
            return Ok(());
        };
        let sent = lock(&generator.sender).send(what);
        sent.map_err(|error| agent_error(&generator.address, &error))
    }

    /// The next event, if one comes within the given time.
    pub(crate) fn next(&self, within: Duration) -> Option<(usize, Event)> {
        let (number, event, _) = self.inbox.recv_timeout(within).ok()?;
        Some((number, event))
    }

    /// Collects one answer of each generator, in the generators' order.
    fn gather<A>(
        &self,
        answer: impl Fn(&AgentMessage) -> Option<A>,
    ) -> std::result::Result<Vec<A>, LabError> {
        let deadline = Instant::now() + self.prepare_max;
        let mut out: Vec<Option<A>> = self.generators.iter().map(|_| None).collect();
        while let Some(missing) = out.iter().position(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some((number, event)) = self.next(left) else {
                let seconds = self.prepare_max.as_secs();
                let reason = format!("no answer within {seconds} s");
                return Err(agent_error(&self.address(missing), &reason));
            };
            match event {
                Event::Said(AgentMessage::Refused { reason }) | Event::Lost(reason) => {
                    return Err(agent_error(&self.address(number), &reason));
                }
                Event::Said(said) => {
                    let found = answer(&said);
                    if let Some(place) = out.get_mut(number)
                        && found.is_some()
                    {
                        *place = found;
                    }
                }
            }
        }
        Ok(out.into_iter().flatten().collect())
    }

    /// The address of a generator.
    pub(crate) fn address(&self, number: usize) -> String {
        let generator = self.generators.get(number);
        generator.map_or_else(String::new, |generator| generator.address.clone())
    }

    fn measure_clocks(&mut self) -> std::result::Result<(), LabError> {
        for number in 0..self.generators.len() {
            let mut answers = Vec::new();
            for _ in 0..QUESTIONS {
                let (asked, asked_us) = (Instant::now(), wall_us());
                self.send(number, &LabMessage::Ask)?;
                let (own_ns, agent_wall_us, came) = self.time_of(number)?;
                let took = came.saturating_duration_since(asked);
                let half = i64::try_from(took.as_micros() / 2).unwrap_or(i64::MAX);
                answers.push(ClockSample {
                    asked,
                    came,
                    wall_us: asked_us.saturating_add(half),
                    agent_ns: own_ns,
                    agent_wall_us,
                });
            }
            let Some(generator) = self.generators.get_mut(number) else {
                continue;
            };
            if let Some(clock) = Clock::of(&answers) {
                let address = &generator.address;
                clock
                    .check()
                    .map_err(|reason| agent_error(address, &reason))?;
                generator.clock = clock;
            }
        }
        Ok(())
    }

    /// Asks one generator for its time.
    fn time_of(&self, number: usize) -> std::result::Result<(u64, i64, Instant), LabError> {
        let deadline = Instant::now() + SILENT_MAX;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok((from, Event::Said(AgentMessage::Time { own_ns, wall_us }), came))
                    if from == number =>
                {
                    return Ok((own_ns, wall_us, came));
                }
                Ok((from, Event::Lost(reason), _)) => {
                    return Err(agent_error(&self.address(from), &reason));
                }
                Ok((from, Event::Said(AgentMessage::Refused { reason }), _)) => {
                    return Err(agent_error(&self.address(from), &reason));
                }
                Ok(_) => {}
                Err(_) => {
                    let reason = "it does not report its time";
                    return Err(agent_error(&self.address(number), &reason));
                }
            }
        }
    }

    /// Lets all generators connect the clients of a step.
    ///
    /// # Errors
    /// A generator cannot connect them.
    pub(crate) fn prepare(
        &mut self,
        order: impl Fn() -> StepOrder,
    ) -> std::result::Result<(), LabError> {
        for number in 0..self.generators.len() {
            self.send(number, &LabMessage::Step(Box::new(order())))?;
        }
        self.gather(|said| matches!(said, AgentMessage::Prepared).then_some(()))?;
        // Clocks drift apart during a load.
        self.measure_clocks()
    }

    /// Lets all generators begin together; returns the moment of the common start.
    ///
    /// # Errors
    /// A generator cannot be reached.
    pub(crate) fn start(&self) -> std::result::Result<Instant, LabError> {
        let errors = self.generators.iter().map(|one| one.clock.error);
        let longest = errors.max().unwrap_or_default();
        let moment = Instant::now() + START_LEAD + longest * 4;
        for (number, generator) in self.generators.iter().enumerate() {
            let at = generator.clock.at(moment).as_micros();
            let at_us = u64::try_from(at).unwrap_or(u64::MAX);
            self.send(number, &LabMessage::Start { at_us })?;
        }
        Ok(moment)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for generator in &self.generators {
            let _ = lock(&generator.sender).send(&LabMessage::End);
        }
        let deadline = Instant::now() + PART_MAX;
        let mut left = self.generators.len();
        while left > 0 {
            let wait = deadline.saturating_duration_since(Instant::now());
            match self.next(wait) {
                Some((_, Event::Lost(_))) => left -= 1,
                Some(_) => {}
                None => break,
            }
        }
        for generator in &self.generators {
            lock(&generator.sender).close();
        }
    }
}

fn read(number: usize, mut receiver: Receiver, outbox: &Outbox<(usize, Event, Instant)>) {
    loop {
        let event = match receiver.receive(SILENT_MAX) {
            Ok(Some(AgentMessage::Alive)) => continue,
            Ok(Some(said)) => Event::Said(said),
            Ok(None) => Event::Lost("it has closed the connection".to_owned()),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Event::Lost(format!("it sent nothing for {} s", SILENT_MAX.as_secs()))
            }
            Err(error) => Event::Lost(error.to_string()),
        };
        let is_last = matches!(event, Event::Lost(_));
        if outbox.send((number, event, Instant::now())).is_err() || is_last {
            return;
        }
    }
}

/// Proves to an agent that the lab knows the token, and asks it for load.
fn greet(address: &str, token: &[u8]) -> Result<(Sender, Receiver)> {
    let mut addresses = address.to_socket_addrs()?;
    let place = addresses.next().ok_or(ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&place, GREET_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(GREET_MAX))?;
    let line = |mut stream: &TcpStream| {
        let deadline = Instant::now() + GREET_MAX;
        let line = wire::read_line(&mut stream, |stream| {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))
        });
        line?.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))
    };
    let greeting = line(&stream)?;
    let number = greeting.strip_prefix(GREETING);
    let number = number.ok_or_else(|| Error::other("it is not an agent of this version"))?;
    let own = format!("{:032x}", rand::random::<u128>());
    let wanted = format!("{LOAD}{own} {VERSION}");
    let proof = wire::proof(token, number, &wanted)?;
    stream.write_all(format!("{proof} {wanted}\n").as_bytes())?;
    let told = line(&stream)?;
    if let Some(reason) = told.strip_prefix(REFUSED) {
        return Err(Error::other(reason.to_owned()));
    }
    if told != LOAD.trim_end() {
        return Err(Error::other("its answer cannot be parsed"));
    }
    seal_stream(&stream, token, number, &own, Side::Lab)
}
