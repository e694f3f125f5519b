//! The folder of one run: `intervals.csv` as it happens, `result.json` and `report.html` at the
//! end.
//!
//! Promises: rows reach the file each second, so a killed run leaves its rows behind; whole files
//! appear at once (written under another name, then renamed); a disk that is full or unwritable at
//! the beginning is one clear error; on a disk that fills later the result and its page still fit,
//! because space is reserved for them, and no partial row is left.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use metrics::Interval;

use crate::result::{RunResult, SCHEMA, VERSION};

/// A result folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Writing failed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file is not a result.
    #[error("{} is not a result of the lab that this version reads: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
}

/// A run's folder, open for writing.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    intervals: File,
    /// Bytes of whole rows in the interval file.
    written: u64,
}

/// The file that keeps room for the result and its page until they are written.
pub const RESERVE: &str = "reserve";
/// Larger than the results and pages of the longest workloads together.
const RESERVE_BYTES: u64 = 4 << 20;

const COLUMNS: &str = "\
    step,phase,start_s,seconds,ops,ops_per_s,cumulative_ops_per_s,calls,errors,latency_us_mean,\
    latency_us_p50,latency_us_p95,latency_us_p99,latency_us_p999,latency_us_max,server_cpu_ms,\
    server_switches_voluntary,server_switches_involuntary,server_read_bytes,server_write_bytes,\
    server_read_calls,server_write_calls,server_rss_bytes,client_cpu_ms,disk_reads,\
    disk_read_bytes,disk_writes,disk_write_bytes,host_busy_percent,host_steal_percent,\
    host_io_wait_percent,directory_bytes,directory_apparent_bytes,server_faults_minor,\
    server_faults_major,server_threads,disk_read_ms,disk_write_ms,disk_busy_ms,disk_queue_ms,\
    disk_flushes,host_page_in_bytes,host_page_out_bytes,host_faults_major,pressure_cpu_some_us,\
    pressure_cpu_full_us,pressure_io_some_us,pressure_io_full_us,pressure_memory_some_us,\
    pressure_memory_full_us,server_throttled_us,latency_hdr";

impl RunFolder {
    /// Makes `out/id` and the header of its interval file.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn create(out: &Path, id: &str) -> Result<Self, FolderError> {
        let path = out.join(id);
        let failed = |path: &Path, source| FolderError::Write {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(&path).map_err(|source| failed(&path, source))?;
        let file = path.join("intervals.csv");
        let mut intervals = File::create(&file).map_err(|source| failed(&file, source))?;
        let head = format!("{COLUMNS}\n");
        intervals
            .write_all(head.as_bytes())
            .map_err(|source| failed(&file, source))?;
        keep_room(&path).inspect_err(|_| {
            let _ = fs::remove_file(&file);
            let _ = fs::remove_dir(&path);
        })?;
        Ok(Self {
            path,
            intervals,
            written: head.len() as u64,
        })
    }

    /// Opens the folder of an interrupted run. Drops the rows of steps other than `steps`: those
    /// steps begin again.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn reopen(path: &Path, steps: &[&str]) -> Result<Self, FolderError> {
        let file = path.join("intervals.csv");
        let text = fs::read_to_string(&file).map_err(|source| FolderError::Read {
            path: file.clone(),
            source,
        })?;
        let mut kept = format!("{COLUMNS}\n");
        for line in text.lines().skip(1) {
            let step = line.split([',', ':']).next().unwrap_or_default();
            if steps.contains(&step) {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        write_whole(&file, &kept)?;
        let intervals = File::options()
            .append(true)
            .open(&file)
            .map_err(|source| FolderError::Write { path: file, source })?;
        keep_room(path)?;
        Ok(Self {
            path: path.to_owned(),
            intervals,
            written: kept.len() as u64,
        })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one whole row or nothing.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn push(
        &mut self,
        step: &str,
        interval: &Interval,
        cumulative_rate: f64,
    ) -> Result<(), FolderError> {
        let row = row(step, interval, cumulative_rate);
        if let Err(source) = self.intervals.write_all(row.as_bytes()) {
            // A partial row could be read back as a different number.
            let _ = self.intervals.set_len(self.written);
            let _ = self.intervals.seek(SeekFrom::Start(self.written));
            let path = self.path.join("intervals.csv");
            return Err(FolderError::Write { path, source });
        }
        self.written += row.len() as u64;
        Ok(())
    }

    /// Reads the measured rates of a step back: begin, length, operations per second.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn for_each_rate(
        &self,
        step: &str,
        mut see: impl FnMut(f64, f64, f64),
    ) -> Result<(), FolderError> {
        let path = self.path.join("intervals.csv");
        let failed = |source| FolderError::Read {
            path: path.clone(),
            source,
        };
        for line in BufReader::new(File::open(&path).map_err(failed)?).lines() {
            let line = line.map_err(failed)?;
            let mut fields = line.split(',');
            if fields.next() != Some(step) || fields.next() != Some("measure") {
                continue;
            }
            let mut number = || fields.next().and_then(|field| field.parse::<f64>().ok());
            if let (Some(start), Some(seconds), Some(_), Some(rate)) =
                (number(), number(), number(), number())
            {
                see(start, seconds, rate);
            }
        }
        Ok(())
    }

    /// Writes the result and its page. `draw` makes the page from the stored result, because a
    /// number read back may differ in its last bit and a page drawn again later must equal the
    /// first.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn finish(
        &self,
        result: &RunResult,
        draw: impl FnOnce(&RunResult) -> String,
    ) -> Result<(), FolderError> {
        let path = self.path.join("result.json");
        let failed = |error: serde_json::Error| FolderError::Write {
            path: path.clone(),
            source: io::Error::other(error),
        };
        give_up_room(&self.path);
        let json = serde_json::to_string_pretty(result).map_err(failed)?;
        write_whole(&path, &json)?;
        let stored: RunResult = serde_json::from_str(&json).map_err(failed)?;
        write_whole(&self.path.join("report.html"), &draw(&stored))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        give_up_room(&self.path);
    }
}

/// Reserves the space that the result and its page will need.
fn keep_room(folder: &Path) -> Result<(), FolderError> {
    let path = folder.join(RESERVE);
    let written = File::create(&path)
        .and_then(|mut file| io::copy(&mut io::repeat(0).take(RESERVE_BYTES), &mut file));
    if let Err(source) = written {
        give_up_room(folder);
        return Err(FolderError::Write { path, source });
    }
    Ok(())
}

fn give_up_room(folder: &Path) {
    // If the file does not exist, the space was released before.
    let _ = fs::remove_file(folder.join(RESERVE));
}

/// Reads a result back.
///
/// # Errors
/// The file does not exist, is not a result, or has a later version.
pub fn read_result(folder: &Path) -> Result<RunResult, FolderError> {
    let path = if folder.is_dir() {
        folder.join("result.json")
    } else {
        folder.to_owned()
    };
    let text = fs::read_to_string(&path).map_err(|source| FolderError::Read {
        path: path.clone(),
        source,
    })?;
    let wrong = |reason: String| FolderError::Format {
        path: path.clone(),
        reason,
    };
    let raw: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if raw.get("schema").and_then(serde_json::Value::as_str) != Some(SCHEMA) {
        return Err(wrong(format!("its schema is not {SCHEMA}")));
    }
    match raw.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        version => {
            return Err(wrong(format!(
                "its version is {version:?}, this program reads {VERSION}"
            )));
        }
    }
    serde_json::from_value(raw).map_err(|error| wrong(error.to_string()))
}

/// Writes `text` to another file, then renames it to `path`, so that nobody ever sees a partial
/// file under that name.
///
/// # Errors
/// The disk is full or gone.
pub fn write_whole(path: &Path, text: &str) -> Result<(), FolderError> {
    let failed = |source| FolderError::Write {
        path: path.to_owned(),
        source,
    };
    let partial = path.with_extension("partial");
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if let Err(source) = written {
        let _ = fs::remove_file(&partial);
        return Err(failed(source));
    }
    fs::rename(&partial, path).map_err(failed)
}

fn row(step: &str, interval: &Interval, cumulative_rate: f64) -> String {
    let latency = &interval.latency;
    let mut fields = vec![
        step.to_owned(),
        if interval.warmup { "warmup" } else { "measure" }.to_owned(),
        format!("{:.3}", interval.start.as_secs_f64()),
        format!("{:.3}", interval.length.as_secs_f64()),
        interval.ops.to_string(),
        format!("{:.1}", interval.rate()),
        format!("{cumulative_rate:.1}"),
        latency.count().to_string(),
        interval.errors.to_string(),
        format!("{:.1}", latency.mean_us()),
    ];
    fields.extend(
        [50.0, 95.0, 99.0, 99.9]
            .map(|percentile| format!("{:.1}", latency.percentile_us(percentile))),
    );
    fields.push(format!("{:.1}", latency.max_us()));
    match &interval.server {
        Some(server) => fields.extend([
            server.cpu().as_millis().to_string(),
            server.switches_voluntary.to_string(),
            server.switches_involuntary.to_string(),
            server.read_bytes.to_string(),
            server.write_bytes.to_string(),
            server.read_calls.to_string(),
            server.write_calls.to_string(),
            server.rss_bytes.to_string(),
        ]),
        None => fields.extend(std::iter::repeat_n(String::new(), 8)),
    }
    fields.push(interval.client.cpu().as_millis().to_string());
    match &interval.disk {
        Some(disk) => fields.extend(
            [disk.reads, disk.read_bytes, disk.writes, disk.write_bytes]
                .map(|value| value.to_string()),
        ),
        None => fields.extend(std::iter::repeat_n(String::new(), 4)),
    }
    let host = &interval.host;
    fields.extend(
        [host.busy_percent, host.steal_percent, host.io_wait_percent]
            .map(|value| format!("{value:.1}")),
    );
    push_details(&mut fields, interval);
    fields.push(latency.to_base64());
    let mut out = fields.join(",");
    out.push('\n');
    out
}

/// Columns added later; a value that could not be observed is empty.
fn push_details(fields: &mut Vec<String>, interval: &Interval) {
    let mut push = |values: Option<&[u64]>, count: usize| match values {
        Some(values) => fields.extend(values.iter().map(u64::to_string)),
        None => fields.extend(std::iter::repeat_n(String::new(), count)),
    };
    let directory = interval
        .directory
        .map(|size| [size.allocated_bytes, size.apparent_bytes]);
    push(directory.as_ref().map(|values| &values[..]), 2);
    let server = interval
        .server
        .map(|used| [used.faults_minor, used.faults_major, used.threads]);
    push(server.as_ref().map(|values| &values[..]), 3);
    let disk = interval.disk.map(|used| {
        [
            used.read_ms,
            used.write_ms,
            used.busy_ms,
            used.queue_ms,
            used.flushes,
        ]
    });
    push(disk.as_ref().map(|values| &values[..]), 5);
    let paging = interval
        .paging
        .map(|moved| [moved.in_bytes, moved.out_bytes, moved.faults_major]);
    push(paging.as_ref().map(|values| &values[..]), 3);
    let pressure = interval.pressure.map(|waited| {
        [
            waited.cpu_some_us,
            waited.cpu_full_us,
            waited.io_some_us,
            waited.io_full_us,
            waited.memory_some_us,
            waited.memory_full_us,
        ]
    });
    push(pressure.as_ref().map(|values| &values[..]), 6);
    push(
        interval
            .throttled_us
            .map(|us| [us])
            .as_ref()
            .map(|values| &values[..]),
        1,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_field_for_each_column() {
        let columns = COLUMNS.split(',').count();
        let bare = Interval::default();
        let full = Interval {
            server: Some(Default::default()),
            disk: Some(Default::default()),
            directory: Some(Default::default()),
            pressure: Some(Default::default()),
            paging: Some(Default::default()),
            throttled_us: Some(1),
            ..Interval::default()
        };
        for interval in [bare, full] {
            assert_eq!(row("l.i0", &interval, 1.0).split(',').count(), columns);
        }
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_one_clear_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let message = RunFolder::create(&file, "run").unwrap_err().to_string();
        assert!(
            message.starts_with("cannot write ")
                && message.contains("file/run: ")
                && !message.contains('\n'),
            "{message}"
        );
    }

    #[test]
    fn a_full_disk_is_one_clear_line() {
        let intervals = File::options().write(true).open("/dev/full").unwrap();
        let mut folder = RunFolder {
            path: PathBuf::from("run"),
            intervals,
            written: 0,
        };
        let message = folder
            .push("l.i0", &Interval::default(), 0.0)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("cannot write run/intervals.csv: No space left on device"),
            "{message}"
        );
    }

    #[test]
    fn foreign_files_are_refused_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        for (text, reason) in [
            ("{}", "schema"),
            ("[1", "EOF"),
            (r#"{"schema":"quarry-lab/result","version":99}"#, "99"),
        ] {
            fs::write(&path, text).unwrap();
            let message = read_result(dir.path()).unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
