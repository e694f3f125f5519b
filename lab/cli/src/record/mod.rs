//! The command `record`: a proxy between any driver and any server that records the traffic.
//!
//! Promises: the traffic never waits for the recorder, and a failure of the recording never stops
//! the traffic. Neighbours: `frames` splits streams into messages, `recorder` pairs and writes
//! them, `file` is the format.

pub(crate) mod anonymise;
pub(crate) mod file;
pub(crate) mod frames;
pub(crate) mod message;
pub(crate) mod recorder;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use clap::Args;
use lab_kit::environment;
use lab_kit::format;
use lab_kit::target::TargetError;
use metrics::ProcessSampler;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::errors::LabError;
use crate::interrupt::wait_interrupt;
use anonymise::Anonymiser;
use file::{Header, RecordingError, VERSION, Writer};
use frames::{FrameTap, Side, StreamPart};
use recorder::{RecorderHandle, Summary};

/// The most bytes read from a socket at once.
const CHUNK: usize = 64 * 1_024;
/// The time that the recorder gets at the end to write its buffered records.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `record`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  quarry-lab record --listen 127.0.0.1:27018 --upstream mongodb://127.0.0.1:27017 --out load.qrec \
  --seconds 600
  then let the application connect to mongodb://127.0.0.1:27018/?directConnection=true
  quarry-lab replay load.qrec --target mongodb://other:27017 --out results

The proxy removes the list of compressors from drivers' handshakes, so that messages are not \
compressed, and changes nothing else.
Logins are forwarded but not recorded. Encrypted connections cannot be recorded. After --seconds \
the recording ends; the proxy forwards
traffic until the last client has disconnected or Ctrl-C or SIGTERM ends it.")]
pub(crate) struct RecordArguments {
    /// Address on which the proxy listens for clients; port 0 takes a free port. The address is
    /// printed
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: String,
    /// Server to which the proxy connects: mongodb://HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) upstream: String,
    /// File for the recording; it must not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Seconds to record [default: until Ctrl-C or SIGTERM]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Replace strings and binary values by keyed hashes of equal length; numbers, dates, ids and
    /// field names are kept
    #[arg(long)]
    pub(crate) anonymise: bool,
}

/// Runs the proxy and the recorder.
pub(crate) fn run(arguments: &RecordArguments) -> Result<(), LabError> {
    let upstream = host_and_port(&arguments.upstream)?;
    let failed = |source| RecordingError::Io {
        path: arguments.out.clone(),
        source,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let unreachable = |error: std::io::Error| TargetError::Unreachable {
            address: arguments.upstream.clone(),
            reason: error.to_string(),
        };
        drop(TcpStream::connect(&upstream).await.map_err(unreachable)?);
        let listener = TcpListener::bind(&arguments.listen).await?;
        let to = File::create_new(&arguments.out).map_err(failed)?;
        let header = Header {
            version: VERSION,
            started_at: environment::now(),
            lab_version: env!("CARGO_PKG_VERSION").to_owned(),
            upstream: arguments.upstream.clone(),
            anonymised: arguments.anonymise,
        };
        let writer = Writer::begin(to, &header).map_err(failed)?;
        let (recorder, summary) =
            RecorderHandle::start(writer, arguments.anonymise.then(Anonymiser::new));
        print_line!(
            "mongodb://{}/?directConnection=true",
            listener.local_addr()?
        );
        let mut cpu = ProcessSampler::of_self()?;
        let before = cpu.sample()?;
        let proxy = Arc::new(Proxy {
            upstream,
            recorder: recorder.clone(),
            connections: AtomicU64::new(0),
            stripped: AtomicU64::new(0),
        });
        proxy
            .serve(listener, arguments.seconds.map(Duration::from_secs))
            .await;
        recorder.stop("");
        let used = cpu.sample()?.delta_since(&before).cpu();
        let summary = match summary.recv_timeout(TIMEOUT) {
            Ok(summary) => summary,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(LabError::Recording(format!(
                    "the disk of {} does not answer; the file ends with its last complete block",
                    arguments.out.display()
                )));
            }
        };
        conclude(&proxy, &summary, used, arguments)
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

fn conclude(
    proxy: &Proxy,
    summary: &Summary,
    cpu: Duration,
    arguments: &RecordArguments,
) -> Result<(), LabError> {
    let end = &summary.end;
    let count = |number: i64| format::count(u64::try_from(number).unwrap_or(0));
    print_line!(
        "{} operations and {} replies of {} connections in {}, {}",
        count(end.ops),
        count(end.replies),
        proxy.connections.load(Ordering::Relaxed),
        format::bytes(summary.bytes as f64),
        if end.ops > 0 {
            format!(
                "{} µs CPU per operation",
                format::number(cpu.as_secs_f64() * 1e6 / end.ops as f64)
            )
        } else {
            "nothing passed".to_owned()
        },
    );
    let stripped = proxy.stripped.load(Ordering::Relaxed);
    if stripped > 0 {
        print_line!(
            "compressors were removed from {stripped} handshakes: no message was compressed"
        );
    }
    if end.ops == 0 && end.left_out.contains_key("hello") {
        print_line!(
            "only handshakes were seen: a driver that looks up the members of a replica set \
             bypasses the proxy; give it directConnection=true"
        );
    }
    for (what, times) in &end.left_out {
        print_line!("not recorded: {what} ({})", count(*times));
    }
    if end.reason.is_empty() && summary.is_whole {
        print_line!("{}", arguments.out.display());
        return Ok(());
    }
    let reason = if end.reason.is_empty() {
        "the end could not be written"
    } else {
        &end.reason
    };
    Err(LabError::Recording(format!(
        "{reason}; {} is readable up to its last complete block",
        arguments.out.display()
    )))
}

/// The first server of an address. The rest of the address is for the client only.
fn host_and_port(address: &str) -> Result<String, TargetError> {
    let wrong = |reason: &str| TargetError::Address {
        given: crate::credentials::hide_password(address),
        reason: reason.to_owned(),
    };
    let rest = address
        .strip_prefix("mongodb://")
        .ok_or_else(|| wrong("--upstream must be mongodb://HOST:PORT"))?;
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    if host.is_empty() || host.contains(['@', ',']) {
        return Err(wrong(
            "--upstream must be one server without a login; clients log in through the proxy",
        ));
    }
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        && !host.ends_with(']');
    Ok(if has_port {
        host.to_owned()
    } else {
        format!("{host}:27017")
    })
}

struct Proxy {
    upstream: String,
    recorder: RecorderHandle,
    connections: AtomicU64,
    stripped: AtomicU64,
}

impl Proxy {
    /// Accepts connections until the program is told to end, or until the time is over and all
    /// clients have disconnected.
    async fn serve(self: &Arc<Self>, listener: TcpListener, time: Option<Duration>) {
        let mut clients = tokio::task::JoinSet::new();
        let end = wait_interrupt();
        tokio::pin!(end);
        let over = tokio::time::sleep(time.unwrap_or(Duration::from_secs(86_400 * 365 * 10)));
        tokio::pin!(over);
        let mut is_over = false;
        while !(is_over && clients.is_empty()) {
            tokio::select! {
                () = &mut end => return,
                () = &mut over, if !is_over => {
                    is_over = true;
                    self.recorder.stop("");
                    if !clients.is_empty() {
                        note_line!(
                            "the recording has ended after --seconds; the proxy forwards traffic \
                             until the last of {} connections is closed",
                            clients.len()
                        );
                    }
                }
                Some(_) = clients.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
                        clients.spawn(self.clone().connection(number, client));
                    }
                    // Most likely there is no descriptor left; connections that end release some.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
    }

    async fn connection(self: Arc<Self>, number: u64, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.upstream).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        tokio::join!(
            self.pump(number, Side::Client, from_client, to_server),
            self.pump(number, Side::Server, from_server, to_client),
        );
        self.recorder.report_closed(number);
    }

    /// Forwards one direction of a connection until it ends.
    async fn pump(&self, number: u64, side: Side, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut tap = FrameTap::new(side);
        let mut chunk = vec![0; CHUNK];
        let mut counted = 0;
        while let Ok(length @ 1..) = from.read(&mut chunk).await {
            let Some(bytes) = chunk.get(..length) else {
                break;
            };
            if !self.recorder.is_on()
                && tap.is_looking()
                && to.write_all(&tap.give_up()).await.is_err()
            {
                break;
            }
            let now = Instant::now();
            // The recorder gets a message before its receiver does, so that it never sees a reply
            // before its command.
            let out = tap.pass(bytes, now, &mut |seen| match seen {
                StreamPart::Message(begun, message) => {
                    self.recorder.message(number, side, begun, now, message)
                }
                StreamPart::Lost => self.recorder.report_lost(number),
            });
            self.recorder.holds(counted, tap.incomplete_bytes());
            counted = tap.incomplete_bytes();
            if to.write_all(&out).await.is_err() {
                break;
            }
        }
        self.recorder.holds(counted, 0);
        let _ = to.write_all(&tap.give_up()).await;
        let _ = to.shutdown().await;
        self.stripped.fetch_add(tap.stripped, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_one_server() {
        for (given, meant) in [
            ("mongodb://127.0.0.1:5000", "127.0.0.1:5000"),
            ("mongodb://host/db?x=1", "host:27017"),
            ("mongodb://[::1]:5/", "[::1]:5"),
            ("mongodb://[::1]", "[::1]:27017"),
        ] {
            assert_eq!(host_and_port(given).unwrap(), meant);
        }
        for wrong in [
            "127.0.0.1:1",
            "mongodb://",
            "mongodb://a,b",
            "mongodb://me:secret@a:1",
        ] {
            let message = host_and_port(wrong).unwrap_err().to_string();
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
