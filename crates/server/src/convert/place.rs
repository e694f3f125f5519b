//! The directory a conversion writes to. Until the copy is complete and verified it lies in one
//! folder of that directory, which no server opens; then its files are moved up, the engine's
//! marker last. Promises: a directory that holds something else is refused and left alone.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use storage::Table;

use super::rows::{Position, TABLES};

/// The folder; a server that is started on this directory names it in its error.
const FOLDER: &str = "QUARRY-CONVERSION";

/// The remaining work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Copy the keys behind this position.
    Copy(Position),
    /// Compare.
    Verify,
    /// Move the files to their place.
    Move,
}

/// A target that belongs to one conversion.
pub(super) struct ConversionTarget {
    target: PathBuf,
    /// Source, target and engine of the conversion; a different conversion is refused.
    job: String,
    pub(super) phase: Phase,
    _lock: File,
}

impl ConversionTarget {
    /// Takes an empty directory, or continues in one in which the same conversion began.
    ///
    /// # Errors
    /// One line.
    pub(super) fn take(target: &Path, job: &str) -> Result<ConversionTarget, String> {
        let fail = |e| step_error("prepare", target, e);
        fs::create_dir_all(target).map_err(fail)?;
        let folder = target.join(FOLDER);
        if !folder.is_dir() {
            refuse_content(target)?;
        }
        fs::create_dir_all(folder.join("data")).map_err(fail)?;
        let lock = File::create(folder.join("lock")).map_err(fail)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another process converts into {}",
                    target.display()
                ));
            }
            Err(TryLockError::Error(e)) => return Err(fail(e)),
        }
        let mut place = ConversionTarget {
            target: target.to_owned(),
            job: job.to_owned(),
            phase: Phase::Copy(Position::START),
            _lock: lock,
        };
        match fs::read_to_string(folder.join("progress")) {
            Ok(text) => place.phase = place.resume(&text)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => place.save()?,
            Err(e) => return Err(fail(e)),
        }
        Ok(place)
    }

    fn resume(&self, text: &str) -> Result<Phase, String> {
        let (job, phase) = text.split_once('\n').unwrap_or((text, ""));
        if job != self.job {
            return Err(format!(
                "{} holds an unfinished conversion {job}; finish it, or remove the directory",
                self.target.display()
            ));
        }
        phase_of(phase).ok_or_else(|| {
            format!(
                "the progress file of the conversion in {} is damaged; remove the directory and \
                 begin again",
                self.target.display()
            )
        })
    }

    /// Where the engine's files lie until they are moved.
    pub(super) fn data(&self) -> PathBuf {
        self.target.join(FOLDER).join("data")
    }

    /// Where a copy of the source may be made for reading.
    pub(super) fn source(&self) -> PathBuf {
        self.target.join(FOLDER).join("source")
    }

    /// Records the start or the progress of a phase; it is durable when this returns.
    ///
    /// # Errors
    /// One line.
    pub(super) fn enter(&mut self, phase: Phase) -> Result<(), String> {
        self.phase = phase;
        self.save()
    }

    fn save(&self) -> Result<(), String> {
        let phase = match &self.phase {
            Phase::Copy(at) => {
                let key: String = at.key.iter().map(|b| format!("{b:02x}")).collect();
                let table = TABLES.get(at.table).map_or("end", |t| t.name());
                format!("copy {table} {key}")
            }
            Phase::Verify => "verify".to_owned(),
            Phase::Move => "move".to_owned(),
        };
        let folder = self.target.join(FOLDER);
        let write = || {
            let fresh = folder.join("progress.new");
            let mut file = File::create(&fresh)?;
            write!(file, "{}\n{phase}\n", self.job)?;
            file.sync_all()?;
            fs::rename(&fresh, folder.join("progress"))?;
            File::open(&folder)?.sync_all()
        };
        write().map_err(|e| step_error("write the progress of the conversion in", &self.target, e))
    }

    /// Moves the files of a closed engine to their place. May be repeated.
    ///
    /// # Errors
    /// One line.
    pub(super) fn finish(self) -> Result<(), String> {
        let fail = |e| step_error("move the converted files in", &self.target, e);
        crate::moving::move_up(&self.data(), &self.target).map_err(fail)?;
        fs::remove_dir_all(self.target.join(FOLDER)).map_err(fail)
    }
}

fn phase_of(line: &str) -> Option<Phase> {
    let mut words = line.split_whitespace();
    match (words.next()?, words.next()) {
        ("verify", _) => Some(Phase::Verify),
        ("move", _) => Some(Phase::Move),
        ("copy", Some(table)) => {
            let of = |t: &Table| t.name() == table;
            let index = TABLES.iter().position(of);
            let hex = words.next().unwrap_or("").as_bytes();
            let byte = |pair: &[u8]| {
                let text = std::str::from_utf8(pair).ok()?;
                u8::from_str_radix(text, 16).ok()
            };
            Some(Phase::Copy(Position {
                table: index.or((table == "end").then_some(TABLES.len()))?,
                key: hex.chunks(2).map(byte).collect::<Option<_>>()?,
            }))
        }
        _ => None,
    }
}

/// Refuses a directory with content. Hidden files are allowed, and so is the `lost+found` of a new
/// file system.
fn refuse_content(target: &Path) -> Result<(), String> {
    let fail = |e| step_error("read", target, e);
    for entry in fs::read_dir(target).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        let name = name.to_string_lossy();
        if name != "lost+found" && !name.starts_with('.') {
            return Err(format!(
                "{} is not empty: it holds {name:?}; choose an empty directory for --to",
                target.display()
            ));
        }
    }
    Ok(())
}

fn step_error(step: &str, target: &Path, e: std::io::Error) -> String {
    format!("cannot {step} {}: {e}", target.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::MARKER;

    #[test]
    fn a_conversion_goes_on_where_it_was() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("to");
        let mut place = ConversionTarget::take(&target, "a to b").unwrap();
        assert_eq!(place.phase, Phase::Copy(Position::START));
        let phases = [
            Phase::Copy(Position {
                table: 1,
                key: vec![0, 255, 16],
            }),
            Phase::Copy(Position {
                table: TABLES.len(),
                key: vec![],
            }),
            Phase::Verify,
            Phase::Move,
        ];
        for phase in phases {
            place.enter(phase.clone()).unwrap();
            drop(place);
            place = ConversionTarget::take(&target, "a to b").unwrap();
            assert_eq!(place.phase, phase);
        }
        let busy = ConversionTarget::take(&target, "a to b").err().unwrap();
        assert!(busy.contains("another process"), "{busy}");
        drop(place);
        let other = ConversionTarget::take(&target, "c to b").err().unwrap();
        assert!(other.contains("unfinished conversion a to b"), "{other}");
    }

    #[test]
    fn the_marker_is_moved_last_and_moving_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("to");
        let mut place = ConversionTarget::take(&target, "a to b").unwrap();
        for name in [MARKER, "file", "other"] {
            fs::write(place.data().join(name), name).unwrap();
        }
        place.enter(Phase::Move).unwrap();
        // The state after an interruption in the middle of the move.
        fs::rename(place.data().join("other"), target.join("other")).unwrap();
        drop(place);
        ConversionTarget::take(&target, "a to b")
            .unwrap()
            .finish()
            .unwrap();
        for name in [MARKER, "file", "other"] {
            assert_eq!(fs::read_to_string(target.join(name)).unwrap(), name);
        }
        assert!(!target.join(FOLDER).exists());
        let taken = ConversionTarget::take(&target, "a to b").err().unwrap();
        assert!(taken.contains("is not empty"), "{taken}");
    }
}
