//! Writes lines to a target: a thread takes them from a bounded queue. Promises: no caller waits
//! for the device; lines that do not fit are counted, and a line reports the number as soon as
//! there is room.

use crate::entry::{Entry, Severity, component, id};
use crate::files::{self, Rotate, now_ms};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most bytes of lines in the queue.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Name of the file in error messages.
const WHAT: &str = "log file";
/// How long `rotate` waits for the writer thread.
const ROTATE_WAIT: Duration = Duration::from_secs(10);

/// The form of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// mongod's.
    Json,
    /// For a reader at a terminal.
    Readable,
}

/// Where lines are written.
#[derive(Debug)]
pub enum Target {
    /// Standard error.
    Stderr,
    /// Standard output, as mongod.
    Stdout,
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Append to an existing file instead of renaming it.
        append: bool,
        /// See [`Rotate`].
        rotate: Rotate,
    },
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<String>,
    bytes: usize,
    lost: u64,
    lost_told: u64,
    /// The writer has taken lines that are not in the file yet.
    writing: bool,
    /// Lines are held back until [`Release::release`].
    held: bool,
    rotate: bool,
    rotated: Option<Result<Option<PathBuf>, String>>,
    ends: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signals work for the writer.
    work: Condvar,
    /// Signals that the writer has finished some work.
    done: Condvar,
}

/// Sends lines to a target.
#[derive(Debug)]
pub struct Sink {
    shared: Arc<Shared>,
    form: LineFormat,
    rotating: Mutex<()>,
}

impl Sink {
    /// Opens the target. If `held`, lines are held back until [`Release::release`], so that a
    /// failed start prints its error only.
    ///
    /// # Errors
    /// One line: the file cannot be opened, the old one cannot be renamed, or no thread can be
    /// started.
    pub fn open(target: Target, form: LineFormat, held: bool) -> Result<(Sink, Release), String> {
        let mut writer = Writer::open(target)?;
        let shared = Arc::new(Shared::default());
        shared.queue.lock().held = held;
        let of_writer = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || writer.run(&of_writer, form))
            .map_err(|e| format!("the thread of the log cannot be started: {e}"))?;
        let release = Release(Arc::clone(&shared));
        let sink = Sink {
            shared,
            form,
            rotating: Mutex::new(()),
        };
        Ok((sink, release))
    }

    pub(crate) fn write(&self, line: &str, readable: impl FnOnce() -> String) {
        let text = match self.form {
            LineFormat::Json => line.to_owned(),
            LineFormat::Readable => readable(),
        };
        let mut queue = self.shared.queue.lock();
        if queue.bytes + text.len() > QUEUE_BYTES_MAX {
            queue.lost += 1;
            return;
        }
        queue.bytes += text.len() + 1;
        queue.lines.push_back(text);
        let wakes = queue.lines.len() == 1 && !queue.writing;
        drop(queue);
        if wakes {
            self.shared.work.notify_one();
        }
    }

    pub(crate) fn rotate(&self) -> Result<Option<PathBuf>, String> {
        let _one = self.rotating.lock();
        let mut queue = self.shared.queue.lock();
        queue.rotate = true;
        queue.rotated = None;
        self.shared.work.notify_one();
        let until = Instant::now() + ROTATE_WAIT;
        loop {
            if let Some(result) = queue.rotated.take() {
                return result;
            }
            if self.shared.done.wait_until(&mut queue, until).timed_out() {
                return Err("the log's device does not answer".to_owned());
            }
        }
    }

    pub(crate) fn flush(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut queue = self.shared.queue.lock();
        while !queue.held && (queue.writing || !queue.lines.is_empty()) {
            if self.shared.done.wait_until(&mut queue, until).timed_out() {
                return;
            }
        }
    }

    pub(crate) fn lost_lines(&self) -> u64 {
        self.shared.queue.lock().lost
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.queue.lock().ends = true;
        self.shared.work.notify_one();
    }
}

/// Releases lines that were held back.
#[derive(Debug)]
pub struct Release(Arc<Shared>);

impl Release {
    /// See [`Sink::open`].
    pub fn release(&self) {
        self.0.queue.lock().held = false;
        self.0.work.notify_one();
    }
}

/// The open target of the thread.
enum Out {
    Stderr,
    Stdout,
    File(File),
}

struct Writer {
    out: Out,
    path: Option<PathBuf>,
    rotate: Rotate,
}

impl Writer {
    fn of_stream(out: Out) -> Writer {
        Writer {
            out,
            path: None,
            rotate: Rotate::Rename,
        }
    }

    fn open(target: Target) -> Result<Writer, String> {
        let (path, append, rotate) = match target {
            Target::Stderr => return Ok(Writer::of_stream(Out::Stderr)),
            Target::Stdout => return Ok(Writer::of_stream(Out::Stdout)),
            Target::File {
                path,
                append,
                rotate,
            } => (path, append, rotate),
        };
        let mut moved = None;
        if !append && files::is_file(&path) {
            moved = Some(files::move_away(WHAT, &path)?);
        }
        let mut file = files::open(WHAT, &path)?;
        if let Some(moved) = moved {
            let (old, new) = (path.display().to_string(), moved.display().to_string());
            let entry = Entry::info(
                id::RENAMED_OLD,
                component::CONTROL,
                "main",
                "Renamed existing log file",
            )
            .attr(|w| {
                w.put("oldLogPath", &old).put("newLogPath", &new);
            });
            let _ = writeln!(file, "{}", entry.line(now_ms()));
        }
        Ok(Writer {
            out: Out::File(file),
            path: Some(path),
            rotate,
        })
    }

    fn run(&mut self, shared: &Shared, form: LineFormat) {
        let mut queue = shared.queue.lock();
        loop {
            if queue.rotate {
                queue.rotate = false;
                self.take(shared, &mut queue, form);
                let result = parking_lot::MutexGuard::unlocked(&mut queue, || self.begin_anew());
                queue.rotated = Some(result);
                shared.done.notify_all();
            } else if !queue.held && (!queue.lines.is_empty() || queue.lost > queue.lost_told) {
                self.take(shared, &mut queue, form);
            } else if queue.ends {
                return;
            } else {
                shared.work.wait(&mut queue);
            }
        }
    }

    /// Takes the queued lines and writes them without holding the lock.
    fn take(
        &mut self,
        shared: &Shared,
        queue: &mut parking_lot::MutexGuard<'_, Queue>,
        form: LineFormat,
    ) {
        let lines = std::mem::take(&mut queue.lines);
        queue.bytes = 0;
        let total = queue.lost;
        let lost = total - std::mem::replace(&mut queue.lost_told, total);
        queue.writing = true;
        parking_lot::MutexGuard::unlocked(queue, || self.write(lines, lost, form));
        queue.writing = false;
        shared.done.notify_all();
    }

    /// Errors are ignored: the latest lines are in memory, too.
    fn write(&mut self, lines: VecDeque<String>, lost: u64, form: LineFormat) {
        let mut text = String::with_capacity(lines.iter().map(|l| l.len() + 1).sum());
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        if lost > 0 {
            let message = "Lines of the log were left out because its device was too slow";
            let entry = Entry::info(id::LOST_LINES, component::CONTROL, "log", message)
                .severity(Severity::Warning)
                .attr(|w| {
                    w.put("lines", i64::try_from(lost).unwrap_or(i64::MAX));
                });
            text.push_str(&match form {
                LineFormat::Json => entry.line(now_ms()),
                LineFormat::Readable => entry.readable(now_ms()),
            });
            text.push('\n');
        }
        let _ = match &mut self.out {
            Out::Stderr => std::io::stderr().write_all(text.as_bytes()),
            Out::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            Out::File(file) => file.write_all(text.as_bytes()),
        };
    }

    fn begin_anew(&mut self) -> Result<Option<PathBuf>, String> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let moved = self.rotate.make_room(WHAT, path)?;
        self.out = Out::File(files::open(WHAT, path)?);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Log;
    use std::path::Path;

    fn say(log: &Log, message: &str) {
        log.write(&Entry::info(1, "CONTROL", "main", message));
    }

    fn file(path: &Path, append: bool, rotate: Rotate) -> Target {
        Target::File {
            path: path.to_owned(),
            append,
            rotate,
        }
    }

    fn list_other_files(dir: &Path) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e != "log"))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_file_is_moved_away_or_continued_and_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let read = || std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, "old\n").unwrap();
        let log = Log::new();
        log.to(
            Sink::open(file(&path, true, Rotate::Rename), LineFormat::Json, false)
                .unwrap()
                .0,
        );
        say(&log, "first");
        log.flush(Duration::from_secs(10));
        assert!(read().starts_with("old\n{"), "{}", read());
        assert!(read().contains("first"));
        let to = log.rotate().unwrap().unwrap();
        say(&log, "second");
        log.flush(Duration::from_secs(10));
        assert!(std::fs::read_to_string(&to).unwrap().contains("first"));
        assert!(read().contains("second") && !read().contains("first"));
        drop(log);

        let log = Log::new();
        log.to(
            Sink::open(file(&path, false, Rotate::Reopen), LineFormat::Json, false)
                .unwrap()
                .0,
        );
        assert!(read().contains("Renamed existing log file"), "{}", read());
        let before = list_other_files(dir.path()).len();
        std::fs::rename(&path, dir.path().join("mine.1")).unwrap();
        assert_eq!(log.rotate().unwrap(), None);
        say(&log, "third");
        log.flush(Duration::from_secs(10));
        assert!(read().contains("third"));
        assert_eq!(list_other_files(dir.path()).len(), before + 1);
    }

    #[test]
    fn lines_are_held_back_until_they_are_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let log = Log::new();
        let (sink, release) = Sink::open(
            file(&path, true, Rotate::Rename),
            LineFormat::Readable,
            true,
        )
        .unwrap();
        log.to(sink);
        say(&log, "early");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        release.release();
        log.flush(Duration::from_secs(10));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("Z I  CONTROL  [main] early\n"), "{text}");
    }

    #[test]
    fn a_blocked_log_device_delays_no_operation_and_the_loss_is_logged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let log = Log::new();
        // From outside, held-back lines look like a device that does not answer.
        let (sink, release) =
            Sink::open(file(&path, true, Rotate::Rename), LineFormat::Json, true).unwrap();
        log.to(sink);
        let long = "x".repeat(10_000);
        let began = Instant::now();
        for _ in 0..1000 {
            say(&log, &long);
        }
        assert!(began.elapsed() < Duration::from_secs(5));
        assert!(
            (100..300).contains(&log.lost_lines()),
            "{}",
            log.lost_lines()
        );
        release.release();
        log.flush(Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(50));
        log.flush(Duration::from_secs(10));
        let text = std::fs::read_to_string(&path).unwrap();
        let told = format!("\"attr\":{{\"lines\":{}}}", log.lost_lines());
        assert!(text.contains(&told), "{}", text.len());
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such.log");
        let failed =
            Sink::open(file(&path, true, Rotate::Rename), LineFormat::Json, false).unwrap_err();
        assert!(failed.contains("no/such.log"), "{failed}");
    }
}
