//! The agent's side: runs one at a time, with orders from a sealed connection.
//!
//! Promises: load is generated only if the agent was started with `--load`, and only while the lab
//! sends messages. Neighbours: `agent` has authenticated the lab and provides the code that
//! generates load.

use std::io::{Result, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::{Receiver as Inbox, Sender as Outbox, channel as inbox};

use super::VERSION;
use super::channel::{Receiver, Sender, Side, seal_stream};
use super::message::{AgentMessage, Job, LabMessage};
use crate::counters::lock;
use crate::errors::LabError;
use crate::interrupt::wait_interrupt;
use crate::wire::REFUSED;

/// A lab that sends nothing for this long is gone.
const LAB_SILENT_MAX: Duration = Duration::from_secs(15);
/// The interval of heartbeats in both directions.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// How long a new run waits for the previous run to end.
const BUSY_WAIT: Duration = Duration::from_secs(3);
/// When the agent is told to end, the time that a step under way gets to report this.
const LAST_WORDS: Duration = Duration::from_secs(8);
/// The largest number of waiting orders; the lab sends an order only after the previous one was
/// done.
const ORDERS_MAX: usize = 64;
/// The longest wait of a run that has ended for clients that are stuck in a driver.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
const THREADS_MAX: usize = 8_192;

/// Generates the load of a run until the lab ends it.
pub(crate) type MakeLoad = for<'a> fn(Job, &'a mut Link) -> LoadFuture<'a>;
/// The result of [`MakeLoad`].
pub(crate) type LoadFuture<'a> =
    Pin<Box<dyn Future<Output = std::result::Result<(), LabError>> + 'a>>;

/// The load service of an agent: whether it generates load, and whether it is busy.
#[derive(Debug)]
pub(crate) struct LoadService {
    /// The function that generates load, if the agent was started for it.
    make_load: Option<MakeLoad>,
    is_busy: AtomicBool,
}

/// An incoming message.
type Order = std::result::Result<LabMessage, String>;

/// The connection to the lab, for the run on the agent.
pub(crate) struct Link {
    sender: Arc<Mutex<Sender>>,
    inbox: Inbox<Order>,
    clock: Instant,
}

/// A sender of messages to the lab, for any thread.
#[derive(Clone)]
pub(crate) struct ToLab(Arc<Mutex<Sender>>);

impl ToLab {
    /// Sends a message.
    pub(crate) fn send(&self, what: &AgentMessage) -> std::result::Result<(), String> {
        let sent = lock(&self.0).send(what);
        sent.map_err(|error| format!("the lab cannot be reached: {error}"))
    }
}

impl Link {
    /// The sender of messages to the lab.
    pub(crate) fn to_lab(&self) -> ToLab {
        ToLab(self.sender.clone())
    }

    /// The next order.
    ///
    /// # Errors
    /// No more orders will come; the error says why.
    pub(crate) async fn next(&mut self) -> Order {
        let ended = || Err("the lab has closed the connection".to_owned());
        self.inbox.recv().await.unwrap_or_else(ended)
    }

    /// Converts a time of the agent's own clock.
    pub(crate) fn moment(&self, at_us: u64) -> Instant {
        self.clock + Duration::from_micros(at_us)
    }
}

impl LoadService {
    /// The load service of an agent.
    pub(crate) fn new(make_load: Option<MakeLoad>) -> Arc<Self> {
        let out = Arc::new(Self {
            make_load,
            is_busy: AtomicBool::new(false),
        });
        if make_load.is_some() {
            let service = out.clone();
            std::thread::spawn(move || service.end_when_asked());
        }
        out
    }

    /// Ends the process on a signal. This is necessary because a run that watches for signals
    /// replaces their default action in the whole process.
    fn end_when_asked(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else {
            return;
        };
        runtime.block_on(wait_interrupt());
        let asked = Instant::now();
        while self.is_busy.load(Ordering::Acquire) && asked.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::process::exit(0);
    }

    /// Serves a lab that has proven that it knows the token; `asked` is its fresh number and
    /// version.
    pub(crate) fn serve(
        &self,
        mut stream: &TcpStream,
        token: &[u8],
        number: &str,
        asked: &str,
    ) -> Result<()> {
        let (lab_number, version) = asked.split_once(' ').unwrap_or_default();
        let Some(make_load) = self.make_load else {
            let reason = "it generates no load: start it with --load";
            return stream.write_all(format!("{REFUSED}{reason}\n").as_bytes());
        };
        let refused = if version != VERSION {
            let version: String = version.chars().take(40).collect();
            Some(format!(
                "it has version {VERSION}, but the lab has version {version}: both must be the same"
            ))
        } else if !self.begin() {
            Some("it generates load for another run".to_owned())
        } else {
            None
        };
        if let Some(reason) = refused {
            return stream.write_all(format!("{REFUSED}{reason}\n").as_bytes());
        }
        let _busy = BusyGuard(&self.is_busy);
        stream
            .write_all(b"load\n")
            .and_then(|()| seal_stream(stream, token, number, lab_number, Side::Agent))
            .and_then(|(sender, receiver)| converse(sender, receiver, make_load))
    }

    fn begin(&self) -> bool {
        let asked = Instant::now();
        loop {
            let free =
                self.is_busy
                    .compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
            if free.is_ok() || asked.elapsed() > BUSY_WAIT {
                return free.is_ok();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Marks the agent as busy. Dropping this makes it free again, also after a panic in the load.
struct BusyGuard<'a>(&'a AtomicBool);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn converse(sender: Sender, receiver: Receiver, make_load: MakeLoad) -> Result<()> {
    let clock = Instant::now();
    let sender = Arc::new(Mutex::new(sender));
    let (orders, inbox) = inbox(ORDERS_MAX);
    let reader = std::thread::spawn({
        let to_lab = ToLab(sender.clone());
        move || read(receiver, &to_lab, &orders, clock)
    });
    let (alive, ended) = channel::<()>();
    let heart = std::thread::spawn({
        let to_lab = ToLab(sender.clone());
        move || {
            let silent = |wait| matches!(wait, Err(RecvTimeoutError::Timeout));
            while silent(ended.recv_timeout(ALIVE_EVERY))
                && to_lab.send(&AgentMessage::Alive).is_ok()
            {}
        }
    });
    let mut link = Link {
        sender: sender.clone(),
        inbox,
        clock,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()?;
    let done = runtime.block_on(take_job(&mut link, make_load));
    if let Err(error) = &done {
        let reason = error.to_string();
        let _ = link.to_lab().send(&AgentMessage::Refused { reason });
    }
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    drop(alive);
    let _ = heart.join();
    lock(&sender).close();
    // This also ends the reader, which may be waiting to deliver an order.
    drop(link);
    let _ = reader.join();
    done.map_err(std::io::Error::other)
}

async fn take_job(link: &mut Link, make_load: MakeLoad) -> std::result::Result<(), LabError> {
    match link.next().await {
        Ok(LabMessage::Job(job)) => make_load(*job, link).await,
        Ok(LabMessage::End) => Ok(()),
        Ok(_) => Err(LabError::Agent(
            "the first message must be the run".to_owned(),
        )),
        Err(reason) => Err(LabError::Agent(reason)),
    }
}

/// Reads until the end of the connection; requests for the time are answered immediately.
fn read(mut receiver: Receiver, to_lab: &ToLab, orders: &Outbox<Order>, clock: Instant) {
    loop {
        let order = match receiver.receive(LAB_SILENT_MAX) {
            Ok(Some(LabMessage::Alive)) => continue,
            Ok(Some(LabMessage::Ask)) => {
                let time = AgentMessage::Time {
                    own_ns: u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX),
                    wall_us: wall_us(),
                };
                match to_lab.send(&time) {
                    Ok(()) => continue,
                    Err(reason) => Err(reason),
                }
            }
            Ok(Some(order)) => Ok(order),
            Ok(None) => Err("the lab has closed the connection".to_owned()),
            Err(error) => Err(format!("the connection to the lab failed: {error}")),
        };
        let is_last = order.is_err();
        if orders.blocking_send(order).is_err() || is_last {
            return;
        }
    }
}

/// The time, in microseconds since 1970.
pub(super) fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn job() -> Job {
        let settings = r#"{"preset":"smoke","rows":1,"clients":1,"batch":1,"warmup_seconds":0,
            "indexes":0,"placement":"shared"}"#;
        Job {
            workload: String::new(),
            name: String::new(),
            settings: serde_json::from_str(settings).unwrap(),
            seed: 1,
            target: String::new(),
            db: String::new(),
            databases: None,
            write_concern: None,
            journal: None,
            call_timeout_seconds: 1,
            generator: 0,
            generators: 1,
        }
    }

    #[test]
    fn an_agent_whose_load_panicked_takes_the_next_run() {
        const TOKEN: &[u8] = b"a token of some length";
        let service = LoadService {
            make_load: Some(|_, _| panic!("a defect of a client")),
            is_busy: AtomicBool::new(false),
        };
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let lab = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let agent = listener.accept().unwrap().0;
            std::thread::scope(|scope| {
                let asked = format!("2 {VERSION}");
                let served = scope.spawn({
                    let service = &service;
                    move || service.serve(&agent, TOKEN, "1", &asked)
                });
                let mut line = [0; 5];
                std::io::Read::read_exact(&mut &lab, &mut line).unwrap();
                assert_eq!(&line, b"load\n", "the agent takes the run");
                let (mut sender, _) = seal_stream(&lab, TOKEN, "1", "2", Side::Lab).unwrap();
                sender.send(&LabMessage::Job(Box::new(job()))).unwrap();
                drop((sender, lab));
                assert!(
                    served.join().is_err(),
                    "the panic ends the run's thread only"
                );
            });
        }
    }
}
