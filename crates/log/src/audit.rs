//! Writes audit events: to a file, to the system's logger, or to standard output.
//!
//! Promises: when `write` returns, the operating system has the whole event, after all earlier
//! ones; if an event cannot be written the owner is told, and ends the process. Must not know:
//! which events there are, which of them are wanted.

use crate::files::{self, Rotate};
use crate::json;
use model::{Binary, Doc, Value};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the file in error messages.
const WHAT: &str = "audit file";
/// How long the system's logger may be unreachable, for example while it restarts.
const SYSLOG_WAIT: Duration = Duration::from_secs(5);
/// Facility `user`, severity `info`, as mongod.
const SYSLOG_PRIORITY: u8 = 8 + 6;
/// Longest message: one that a Linux datagram socket certainly accepts.
const SYSLOG_BYTES_MAX: usize = 128 * 1024;

/// Where events are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// Appended to a file.
    File {
        /// Its path.
        path: PathBuf,
        /// As BSON documents instead of lines of JSON.
        bson: bool,
        /// What happens to the old file when the audit is rotated.
        rotate: Rotate,
    },
    /// The system's logger, by the socket at this path.
    Syslog(PathBuf),
    /// Standard output.
    Console,
}

enum Out {
    File(File),
    Syslog(PathBuf, Option<UnixDatagram>),
    Console,
}

/// Called with the reason if an event could not be written.
type ErrorCallback = Box<dyn Fn(&str) + Send + Sync>;

/// Writes audit events to a target.
pub struct Audit {
    target: AuditTarget,
    out: Mutex<Out>,
    failed: ErrorCallback,
}

impl Audit {
    /// Opens the target. `failed` is called with one line when an event cannot be written; the
    /// audited action must then not continue.
    ///
    /// # Errors
    /// One line: the file cannot be opened, or no process listens on the socket.
    pub fn open(
        target: AuditTarget,
        failed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Audit, String> {
        let out = match &target {
            AuditTarget::File { path, .. } => Out::File(files::open(WHAT, path)?),
            AuditTarget::Console => Out::Console,
            AuditTarget::Syslog(path) => {
                let socket = connect(path).map_err(|e| {
                    let path = path.display();
                    format!("no system logger listens at {path}, the destination of the audit: {e}")
                })?;
                Out::Syslog(path.clone(), Some(socket))
            }
        };
        Ok(Audit {
            target,
            out: Mutex::new(out),
            failed: Box::new(failed),
        })
    }

    /// The target.
    pub fn target(&self) -> &AuditTarget {
        &self.target
    }

    /// Writes an event. `durable` is for events about lasting changes: the file is then flushed to
    /// the device.
    pub fn write(&self, event: Doc<'_>, durable: bool) {
        let bson = matches!(self.target, AuditTarget::File { bson: true, .. });
        let text = match bson {
            true => event.as_bytes().to_vec(),
            false => line(event).into_bytes(),
        };
        let written = self.out.lock().write(&text, durable);
        if let Err(e) = written {
            (self.failed)(&format!("an event of the audit cannot be written: {e}"));
        }
    }

    /// Starts a new file, if the target is a file; returns the new name of the old one.
    ///
    /// # Errors
    /// One line; events are still written to the old file.
    pub fn rotate(&self) -> Result<Option<PathBuf>, String> {
        let AuditTarget::File { path, rotate, .. } = &self.target else {
            return Ok(None);
        };
        // The lock keeps events out between the two steps.
        let mut out = self.out.lock();
        let moved = rotate.make_room(WHAT, path)?;
        match files::open(WHAT, path) {
            Ok(file) => *out = Out::File(file),
            Err(e) => {
                if let Some(moved) = moved {
                    // The old file is kept, under its own name again.
                    let _ = std::fs::rename(moved, path);
                }
                return Err(e);
            }
        }
        Ok(moved)
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Audit").field(&self.target).finish()
    }
}

fn connect(path: &Path) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(SYSLOG_WAIT))?;
    Ok(socket)
}

impl Out {
    fn write(&mut self, text: &[u8], durable: bool) -> std::io::Result<()> {
        match self {
            Out::Console => {
                let mut out = std::io::stdout().lock();
                out.write_all(text)?;
                out.flush()
            }
            Out::File(file) => {
                file.write_all(text)?;
                match durable.then(|| file.sync_data()) {
                    // A pipe or a device cannot be flushed.
                    Some(Err(e)) if e.kind() != ErrorKind::InvalidInput => Err(e),
                    _ => Ok(()),
                }
            }
            Out::Syslog(path, socket) => send(path, socket, text),
        }
    }
}

/// Sends to the system's logger; waits for one that is restarting.
fn send(path: &Path, socket: &mut Option<UnixDatagram>, text: &[u8]) -> std::io::Result<()> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let mut message = format!("<{SYSLOG_PRIORITY}>quarry[{}]: ", std::process::id()).into_bytes();
    message.extend_from_slice(text.get(..SYSLOG_BYTES_MAX).unwrap_or(text));
    let until = Instant::now() + SYSLOG_WAIT;
    loop {
        let sent = match socket {
            Some(open) => open.send(&message).map(|_| ()),
            None => connect(path).and_then(|new| {
                let sent = new.send(&message).map(|_| ());
                *socket = Some(new);
                sent
            }),
        };
        match sent {
            Ok(()) => return Ok(()),
            Err(e) if Instant::now() >= until => return Err(e),
            Err(_) => {
                *socket = None;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// An event as mongod writes it: extended JSON, with the older form for UUIDs at the top level.
fn line(event: Doc<'_>) -> String {
    let mut out = String::with_capacity(event.len_bytes() * 2 + 64);
    out.push('{');
    for (i, (name, value)) in event.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        json::string(&mut out, name);
        out.push(':');
        match value {
            Value::Binary(Binary { subtype, bytes }) => json::old_binary(&mut out, subtype, bytes),
            other => json::value(&mut out, &other),
        }
    }
    out.push_str("}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};
    use std::sync::Arc;

    fn event(atype: &str) -> DocBuf {
        let uuid = Binary {
            subtype: 4,
            bytes: &[7; 16],
        };
        doc! { "atype": atype, "ts": Value::Date(0), "uuid": uuid, "param": { "n": 1i32 },
        "result": 0i32 }
    }

    fn never(e: &str) {
        panic!("{e}");
    }

    fn to_file(path: &Path, bson: bool) -> Audit {
        let target = AuditTarget::File {
            path: path.to_owned(),
            bson,
            rotate: Rotate::Rename,
        };
        Audit::open(target, never).unwrap()
    }

    #[test]
    fn a_line_is_mongods() {
        assert_eq!(
            line(event("x").doc()),
            concat!(
                r#"{"atype":"x","ts":{"$date":"1970-01-01T00:00:00.000+00:00"},"#,
                r#""uuid":{"$binary":"BwcHBwcHBwcHBwcHBwcHBw==","$type":"04"},"#,
                r#""param":{"n":1},"result":0}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_file_is_continued_and_rotated_without_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.json");
        std::fs::write(&path, "old\n").unwrap();
        let audit = Arc::new(to_file(&path, false));
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let audit = Arc::clone(&audit);
                std::thread::spawn(move || {
                    (0..250).for_each(|_| audit.write(event("w").doc(), false));
                })
            })
            .collect();
        let moved: Vec<PathBuf> = (0..3).filter_map(|_| audit.rotate().unwrap()).collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        audit.write(event("last").doc(), true);
        let now = std::fs::read_to_string(&path).unwrap();
        assert!(now.lines().last().unwrap().contains("\"last\""));
        let all: String = moved
            .iter()
            .map(|p| std::fs::read_to_string(p).unwrap())
            .chain([now])
            .collect();
        assert!(all.starts_with("old\n"));
        assert_eq!(all.lines().count(), 1 + 1000 + 1);
        assert!(all.lines().skip(1).all(|l| l.ends_with("\"result\":0}")));
    }

    #[test]
    fn bson_is_read_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.bson");
        let audit = to_file(&path, true);
        audit.write(event("a").doc(), true);
        audit.write(event("b").doc(), false);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            bytes,
            [event("a").into_bytes(), event("b").into_bytes()].concat()
        );
    }

    #[test]
    fn the_systems_logger_gets_events_also_after_it_was_started_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let none = Audit::open(AuditTarget::Syslog(path.clone()), never).unwrap_err();
        assert!(none.contains("no system logger listens at"), "{none}");
        let logger = UnixDatagram::bind(&path).unwrap();
        let audit = Audit::open(AuditTarget::Syslog(path.clone()), never).unwrap();
        let received = |logger: &UnixDatagram| {
            let mut bytes = [0; 1024];
            let n = logger.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..n]).into_owned()
        };
        audit.write(event("one").doc(), true);
        let text = received(&logger);
        assert!(text.starts_with("<14>quarry["), "{text}");
        assert!(text.ends_with("\"result\":0}"), "{text}");
        drop(logger);
        std::fs::remove_file(&path).unwrap();
        let anew = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            let logger = UnixDatagram::bind(&path).unwrap();
            received(&logger)
        });
        audit.write(event("two").doc(), true);
        assert!(anew.join().unwrap().contains("\"two\""));
    }

    #[test]
    fn a_full_device_is_reported() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let target = AuditTarget::File {
            path: "/dev/full".into(),
            bson: false,
            rotate: Rotate::Rename,
        };
        let audit = Audit::open(target, |e| TOLD.lock().push(e.to_owned())).unwrap();
        audit.write(event("x").doc(), false);
        let told = TOLD.lock();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("cannot be written: No space left"),
            "{told:?}"
        );
    }
}
