//! The recorder: a separate thread that pairs commands with replies and writes them.
//!
//! Promises: the proxy never waits for the recorder. If the recorder is too slow or cannot write,
//! the recording ends with a reason that is printed once; a recording never has unreported gaps.
//! Must not know: sockets.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::anonymise::Anonymiser;
use super::file::{CommandRecord, EndRecord, ReplyRecord, Writer};
use super::frames::{Side, is_handshake};
use super::message;

/// The most bytes that may wait to be recorded.
const WAITING_MAX: usize = 256 * 1_024 * 1_024;
/// The interval at which buffered records are written to the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The polling interval of an idle recorder; waking it for each message would cost the traffic more
/// than the message itself.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The most commands of one connection that may wait for their replies; drivers have only one.
const OPEN_MAX: usize = 10_000;
/// The largest number of names of omitted commands that are counted separately.
const NAMES_MAX: usize = 50;
/// Commands that contain secrets or do not belong to the load.
const SECRET_COMMANDS: [&str; 9] = [
    "saslStart",
    "saslContinue",
    "authenticate",
    "getnonce",
    "logout",
    "createUser",
    "updateUser",
    "copydbgetnonce",
    "copydbsaslstart",
];

/// An event of a connection for the recorder.
#[derive(Debug)]
enum Event {
    Message(u64, Side, Instant, Instant, Vec<u8>),
    Lost(u64),
    Closed(u64),
    Stop(String),
}

/// The result of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// The last record.
    pub(crate) end: EndRecord,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// Whether the file is complete.
    pub(crate) is_whole: bool,
}

/// The handle through which connections report events.
#[derive(Clone, Debug)]
pub(crate) struct RecorderHandle {
    shared: Arc<Shared>,
    events: Sender<Event>,
}

#[derive(Debug)]
struct Shared {
    is_on: AtomicBool,
    waiting: AtomicUsize,
    waiting_max: usize,
}

impl RecorderHandle {
    /// Starts the thread; the receiver gets its summary.
    pub(crate) fn start(
        writer: Writer<File>,
        anonymiser: Option<Anonymiser>,
    ) -> (Self, Receiver<Summary>) {
        Self::start_with(writer, anonymiser, WAITING_MAX)
    }

    fn start_with<W: std::io::Write + Send + 'static>(
        writer: Writer<W>,
        anonymiser: Option<Anonymiser>,
        waiting_max: usize,
    ) -> (Self, Receiver<Summary>) {
        let shared = Arc::new(Shared {
            is_on: AtomicBool::new(true),
            waiting: AtomicUsize::new(0),
            waiting_max,
        });
        let (events, incoming) = channel();
        let (done, summary) = channel();
        let recorder = RecorderThread {
            writer: Some(writer),
            anonymiser,
            shared: shared.clone(),
            begun: Instant::now(),
            open: HashMap::new(),
            end: EndRecord::default(),
            flushed: Instant::now(),
        };
        std::thread::spawn(move || {
            let _ = done.send(recorder.run(&incoming));
        });
        (Self { shared, events }, summary)
    }

    /// Whether the recording still continues.
    pub(crate) fn is_on(&self) -> bool {
        self.shared.is_on.load(Ordering::Relaxed)
    }

    /// Reports a whole message of a connection; `begun` is the time of its first bytes, `whole` the
    /// time of its last.
    pub(crate) fn message(
        &self,
        connection: u64,
        side: Side,
        begun: Instant,
        whole: Instant,
        bytes: Vec<u8>,
    ) {
        if !self.is_on() {
            return;
        }
        let waiting = self
            .shared
            .waiting
            .fetch_add(bytes.len(), Ordering::Relaxed)
            + bytes.len();
        if waiting > self.shared.waiting_max {
            self.stop("messages arrived faster than they could be written");
            return;
        }
        let _ = self
            .events
            .send(Event::Message(connection, side, begun, whole, bytes));
    }

    /// Reports that a connection holds `now` bytes of an incomplete message; `before` bytes are
    /// already counted.
    pub(crate) fn holds(&self, before: usize, now: usize) {
        if now > before {
            let waiting = self
                .shared
                .waiting
                .fetch_add(now - before, Ordering::Relaxed)
                + now
                - before;
            if waiting > self.shared.waiting_max {
                self.stop("more messages arrived than fit into memory");
            }
        } else if now < before {
            self.shared
                .waiting
                .fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Reports a stream that does not consist of messages.
    pub(crate) fn report_lost(&self, connection: u64) {
        let _ = self.events.send(Event::Lost(connection));
    }

    /// Reports that a connection has ended.
    pub(crate) fn report_closed(&self, connection: u64) {
        let _ = self.events.send(Event::Closed(connection));
    }

    /// Ends the recording; the traffic continues. An empty reason means that it ended as requested.
    pub(crate) fn stop(&self, reason: &str) {
        if self.shared.is_on.swap(false, Ordering::Relaxed) {
            let _ = self.events.send(Event::Stop(reason.to_owned()));
        }
    }
}

/// A command that waits for its reply.
struct PendingCommand {
    op: i64,
    at: Instant,
}

struct RecorderThread<W> {
    writer: Option<Writer<W>>,
    anonymiser: Option<Anonymiser>,
    shared: Arc<Shared>,
    begun: Instant,
    open: HashMap<u64, HashMap<i32, PendingCommand>>,
    end: EndRecord,
    flushed: Instant,
}

impl<W: std::io::Write> RecorderThread<W> {
    fn run(mut self, events: &Receiver<Event>) -> Summary {
        loop {
            let result = match events.try_recv() {
                Ok(Event::Stop(reason)) => return self.finish(reason),
                Ok(Event::Message(connection, side, begun, whole, bytes)) => {
                    self.shared
                        .waiting
                        .fetch_sub(bytes.len(), Ordering::Relaxed);
                    match side {
                        Side::Client => self.command(connection, begun, &bytes),
                        Side::Server => self.reply(connection, whole, &bytes),
                    }
                }
                Ok(Event::Lost(connection)) => {
                    self.leave_out("streams that are no messages");
                    self.forget(connection)
                }
                Ok(Event::Closed(connection)) => self.forget(connection),
                Err(TryRecvError::Empty) => {
                    std::thread::sleep(POLL_INTERVAL);
                    Ok(())
                }
                Err(TryRecvError::Disconnected) => return self.finish(String::new()),
            };
            if let Err(error) = result.and_then(|()| self.flush_now_and_then()) {
                self.writer = None;
                self.shared.is_on.store(false, Ordering::Relaxed);
                return self.finish(format!("the file cannot be written: {error}"));
            }
        }
    }

    fn flush_now_and_then(&mut self) -> std::io::Result<()> {
        if self.flushed.elapsed() < FLUSH_EVERY {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    fn leave_out(&mut self, what: &str) {
        let known = self.end.left_out.len() < NAMES_MAX || self.end.left_out.contains_key(what);
        *self
            .end
            .left_out
            .entry(if known { what } else { "others" }.to_owned())
            .or_default() += 1;
    }

    fn command(&mut self, connection: u64, at: Instant, bytes: &[u8]) -> std::io::Result<()> {
        let Some(mut command_record) = message::command(bytes) else {
            self.leave_out("messages that are no command");
            return Ok(());
        };
        if is_handshake(&command_record.name)
            || SECRET_COMMANDS
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&command_record.name))
        {
            self.leave_out(if is_handshake(&command_record.name) {
                "hello"
            } else {
                "logins and users"
            });
            return Ok(());
        }
        if let Some(anonymiser) = &self.anonymiser {
            let mut bytes = command_record.command.into_bytes();
            let changed = anonymiser.apply(&mut bytes);
            match changed.and_then(|()| mongodb::bson::RawDocumentBuf::from_bytes(bytes).ok()) {
                Some(command) => command_record.command = command,
                None => {
                    self.leave_out("commands that could not be anonymised");
                    return Ok(());
                }
            }
        }
        let op = self.end.ops;
        if !command_record.is_unacknowledged {
            let open = self.open.entry(connection).or_default();
            if open.len() >= OPEN_MAX {
                open.clear();
            }
            open.insert(command_record.id, PendingCommand { op, at });
        }
        self.end.ops += 1;
        let record = CommandRecord {
            op,
            connection: i64::try_from(connection).unwrap_or(i64::MAX),
            at_ns: nanoseconds(at.saturating_duration_since(self.begun)),
            database: command_record.database,
            collection: command_record.collection,
            name: command_record.name,
            unacknowledged: command_record.is_unacknowledged,
            command: command_record.command,
        };
        self.writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.push(&record))
    }

    fn reply(&mut self, connection: u64, whole: Instant, bytes: &[u8]) -> std::io::Result<()> {
        // Replies to commands that were left out are dropped.
        let waiting = self.open.get_mut(&connection);
        let Some(open) = waiting.and_then(|open| open.remove(&message::answers(bytes)?)) else {
            return Ok(());
        };
        let Some(facts) = message::reply(bytes) else {
            self.leave_out("replies that cannot be read");
            return Ok(());
        };
        self.end.replies += 1;
        let record = ReplyRecord {
            reply_to: open.op,
            took_ns: nanoseconds(whole.saturating_duration_since(open.at)),
            bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            facts,
        };
        self.writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.push(&record))
    }

    fn forget(&mut self, connection: u64) -> std::io::Result<()> {
        self.open.remove(&connection);
        let connection = i64::try_from(connection).unwrap_or(i64::MAX);
        self.writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.write_close(connection))
    }

    fn finish(mut self, reason: String) -> Summary {
        if !reason.is_empty() {
            note_line!("the recording has ended: {reason}; the proxy forwards traffic");
        }
        self.end.reason = reason;
        let Some(mut writer) = self.writer.take() else {
            return Summary {
                end: self.end,
                ..Summary::default()
            };
        };
        let flushed = writer.flush();
        let bytes = writer.written;
        let is_whole = flushed.is_ok()
            && writer
                .finish(&self.end)
                .and_then(|mut to| to.flush())
                .is_ok();
        Summary {
            end: self.end,
            bytes,
            is_whole,
        }
    }
}

fn nanoseconds(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::file::{Header, VERSION};
    use super::super::frames::tests::message;
    use super::*;
    use mongodb::bson::doc;

    fn writer<W: std::io::Write>(to: W) -> Writer<W> {
        Writer::begin(
            to,
            &Header {
                version: VERSION,
                ..Header::default()
            },
        )
        .unwrap()
    }

    #[test]
    fn commands_find_their_replies_and_handshakes_stay_out() {
        let (recorder, summary) = RecorderHandle::start_with(writer(Vec::new()), None, WAITING_MAX);
        let now = Instant::now();
        let say = |connection, side, bytes| recorder.message(connection, side, now, now, bytes);
        say(
            1,
            Side::Client,
            message(1, 0, &doc! { "hello": 1, "$db": "admin" }),
        );
        say(1, Side::Server, message(50, 1, &doc! { "ok": 1 }));
        say(
            1,
            Side::Client,
            message(2, 0, &doc! { "find": "c", "$db": "d" }),
        );
        say(
            2,
            Side::Client,
            message(2, 0, &doc! { "count": "c", "$db": "d" }),
        );
        say(
            1,
            Side::Client,
            message(
                9,
                0,
                &doc! { "saslStart": 1, "payload": "secret", "$db": "admin" },
            ),
        );
        say(2, Side::Server, message(51, 2, &doc! { "n": 1, "ok": 1 }));
        say(
            1,
            Side::Server,
            message(52, 2, &doc! { "ok": 0, "code": 13 }),
        );
        say(1, Side::Server, message(53, 2, &doc! { "ok": 1 }));
        say(3, Side::Client, vec![1, 2, 3]);
        recorder.report_closed(1);
        recorder.stop("");
        let summary = summary.recv().unwrap();
        assert_eq!(
            (summary.end.ops, summary.end.replies, summary.is_whole),
            (2, 2, true)
        );
        let left_out: Vec<(&str, i64)> = summary
            .end
            .left_out
            .iter()
            .map(|(what, count)| (what.as_str(), *count))
            .collect();
        assert_eq!(
            left_out,
            [
                ("hello", 1),
                ("logins and users", 1),
                ("messages that are no command", 1)
            ]
        );
        assert!(!recorder.is_on());
    }

    /// A disk that hangs until the test lets it continue.
    struct Slow(Receiver<()>);

    impl std::io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_hangs_or_is_full_ends_the_recording_and_nobody_waits() {
        let (go_on, gate) = channel();
        for _ in 0..3 {
            go_on.send(()).unwrap();
        }
        let (recorder, summary) = RecorderHandle::start_with(writer(Slow(gate)), None, 1_000_000);
        let begun = Instant::now();
        let insert = message(
            1,
            0,
            &doc! { "insert": "c", "documents": [{ "pad": "x".repeat(100_000) }], "$db": "d" },
        );
        for _ in 0..100 {
            recorder.message(1, Side::Client, begun, begun, insert.clone());
        }
        assert!(begun.elapsed() < Duration::from_secs(5) && !recorder.is_on());
        drop(go_on);
        assert_eq!(
            summary.recv().unwrap().end.reason,
            "messages arrived faster than they could be written"
        );

        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(Writer::begin(full, &Header::default()).is_err());
        struct Full(u32);
        impl std::io::Write for Full {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 += 1;
                if self.0 > 3 {
                    Err(std::io::Error::from_raw_os_error(28))
                } else {
                    Ok(bytes.len())
                }
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (recorder, summary) = RecorderHandle::start_with(writer(Full(0)), None, WAITING_MAX);
        for _ in 0..10 {
            recorder.message(1, Side::Client, begun, begun, insert.clone());
        }
        let summary = summary.recv().unwrap();
        assert!(
            summary.end.reason.contains("No space left") && !summary.is_whole,
            "{summary:?}"
        );
        assert!(!recorder.is_on());
    }
}
