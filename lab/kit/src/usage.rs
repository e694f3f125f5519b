//! Resources that processes, the device and the machine used in a step, per operation and per time,
//! from the sums over its intervals.
//!
//! Promises: a metric is absent if its divisor is zero or its source was not observed. Must not
//! know: where samples come from.

use std::collections::BTreeMap;

use metrics::{DirectorySize, DiskUse, Interval, MemoryParts, ProcessUse, ThreadUse};

use crate::result::{
    CostSummary, DeviceSummary, HostSummary, PressureSummary, Sizes, StepResult, ThreadGroup,
};

/// The possible error of a CPU time: user and system time are read in ticks of 10 ms at both ends
/// of a step, so the difference may be wrong by up to two ticks.
const CPU_ERROR_US: f64 = 20_000.0;
/// The size of a page, the kernel's unit for reads of mapped files.
const PAGE_KB: f64 = 4.0;
/// Prefixes of the names of threads that serve clients: the lab's own (engines run on them),
/// mongod's, MariaDB's, Quarry's.
const FOREGROUND: [&str; 4] = [CLIENT_THREAD, "conn", "one_connection", "quarry-net"];
/// The name of the lab's threads for clients whose calls block.
pub const CLIENT_THREAD: &str = "lab-client";

/// Computes the write amplification of a step from the bytes that clients wrote.
pub fn amplification(step: &mut StepResult, user_bytes: u64) {
    let bytes = user_bytes as f64;
    let written = |kb_per_op: Option<f64>| ratio(kb_per_op? * step.ops as f64 * 1_024.0, bytes);
    step.more.user_bytes = user_bytes;
    step.more.write_amplification = step
        .server
        .as_ref()
        .and_then(|server| written(server.write_kb_per_op));
    step.more.device_write_amplification = step
        .device
        .as_ref()
        .and_then(|device| written(device.write_kb_per_op));
}

pub(crate) fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0)
        .then(|| above / below)
        .filter(|value| value.is_finite())
}

/// The use of a process.
pub(crate) fn process(used: &ProcessUse, ops: u64, seconds: f64) -> CostSummary {
    let per_op = |value: f64| ratio(value, ops as f64);
    let cpu = used.cpu().as_secs_f64();
    CostSummary {
        cpu_cores: ratio(cpu, seconds).unwrap_or(0.0),
        cpu_us_per_op: per_op(cpu * 1e6),
        cpu_us_per_op_error: per_op(CPU_ERROR_US),
        cpu_system_percent: ratio(used.cpu_system.as_secs_f64() * 100.0, cpu),
        switches_per_op: per_op((used.switches_voluntary + used.switches_involuntary) as f64),
        switches_voluntary_per_op: per_op(used.switches_voluntary as f64),
        read_kb_per_op: per_op(used.read_bytes as f64 / 1024.0),
        write_kb_per_op: per_op(used.write_bytes as f64 / 1024.0),
        read_calls_per_op: per_op(used.read_calls as f64),
        write_calls_per_op: per_op(used.write_calls as f64),
        rss_bytes_max: used.rss_bytes,
        rss_bytes_end: used.rss_bytes_end,
        faults_minor_per_op: per_op(used.faults_minor as f64),
        faults_major_per_op: per_op(used.faults_major as f64),
        threads_max: used.threads,
        ..CostSummary::default()
    }
}

/// The use of the device, if it was observed.
pub(crate) fn device(total: &Interval, name: Option<String>) -> Option<DeviceSummary> {
    let DiskUse {
        reads,
        read_bytes,
        writes,
        write_bytes,
        read_ms,
        write_ms,
        busy_ms,
        queue_ms,
        flushes,
    } = total.disk?;
    let per_op = |value: f64| ratio(value, total.ops as f64);
    let ms = total.length.as_secs_f64() * 1e3;
    Some(DeviceSummary {
        name: name.unwrap_or_default(),
        reads_per_op: per_op(reads as f64),
        read_kb_per_op: per_op(read_bytes as f64 / 1024.0),
        writes_per_op: per_op(writes as f64),
        write_kb_per_op: per_op(write_bytes as f64 / 1024.0),
        flushes_per_op: per_op(flushes as f64),
        read_await_ms: ratio(read_ms as f64, reads as f64),
        write_await_ms: ratio(write_ms as f64, writes as f64),
        queue_depth: ratio(queue_ms as f64, ms),
        busy_percent: ratio(busy_ms as f64 * 100.0, ms),
        read_size_kb: ratio(read_bytes as f64 / 1024.0, reads as f64),
        write_size_kb: ratio(write_bytes as f64 / 1024.0, writes as f64),
    })
}

/// The machine's waiting and page traffic; the caller adds the shares of CPU.
pub(crate) fn host(total: &Interval) -> HostSummary {
    let us = total.length.as_secs_f64() * 1e6;
    let pressure = total.pressure.filter(|_| us > 0.0).map(|waited| {
        let percent = |waited: u64| waited as f64 * 100.0 / us;
        PressureSummary {
            cpu_some_percent: percent(waited.cpu_some_us),
            cpu_full_percent: percent(waited.cpu_full_us),
            io_some_percent: percent(waited.io_some_us),
            io_full_percent: percent(waited.io_full_us),
            memory_some_percent: percent(waited.memory_some_us),
            memory_full_percent: percent(waited.memory_full_us),
        }
    });
    let per_op = |value: Option<f64>| ratio(value?, total.ops as f64);
    HostSummary {
        pressure,
        page_in_kb_per_op: per_op(total.paging.map(|moved| moved.in_bytes as f64 / 1024.0)),
        page_out_kb_per_op: per_op(total.paging.map(|moved| moved.out_bytes as f64 / 1024.0)),
        faults_major_per_op: per_op(total.paging.map(|moved| moved.faults_major as f64)),
        ..HostSummary::default()
    }
}

/// Samples that are taken every few seconds.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// The data directory at the end.
    pub directory: Option<DirectorySize>,
    /// The largest size of the data directory in blocks.
    pub directory_bytes_max: Option<u64>,
    /// Memory of the server at the end.
    pub memory: Option<MemoryParts>,
    /// Most descriptors of the server seen open.
    pub open_files_max: Option<u64>,
    /// Resources that the server's threads used after the warm-up, by name.
    pub threads: BTreeMap<String, ThreadUse>,
}

impl Details {
    /// Fills in the sizes of the directory.
    pub fn fill_sizes(&self, sizes: &mut Sizes) {
        let Some(size) = self.directory else { return };
        sizes.directory_bytes = Some(size.allocated_bytes);
        sizes.directory_bytes_max = self.directory_bytes_max.max(Some(size.allocated_bytes));
        sizes.directory_apparent_bytes = Some(size.apparent_bytes);
        sizes.directory_files = Some(size.files);
        sizes.directory_log_bytes = Some(size.log_bytes);
        sizes.directory_index_bytes = Some(size.index_bytes);
        sizes.directory_blob_bytes = Some(size.blob_bytes);
    }

    /// Fills in the server's memory, files and threads.
    pub fn fill_step(&self, step: &mut StepResult) {
        if let Some(server) = &mut step.server {
            server.open_files_max = self.open_files_max;
            server.pss_bytes = self.memory.map(|operations| operations.pss_bytes);
            server.anonymous_bytes = self.memory.map(|operations| operations.anonymous_bytes);
            server.file_bytes = self.memory.map(|operations| operations.file_bytes);
        }
        let groups: Vec<ThreadGroup> = self
            .threads
            .iter()
            .map(|(name, used)| group(name, used))
            .collect();
        let read = |foreground: bool| -> f64 {
            groups
                .iter()
                .filter(|group| group.is_foreground == foreground)
                .map(|group| group.read_bytes as f64 / 1024.0)
                .sum()
        };
        let ops = step.ops as f64;
        // If no thread is known to serve clients, reads cannot be attributed.
        if groups.iter().any(|group| group.is_foreground) {
            step.more.foreground_reads_per_op = ratio(read(true) / PAGE_KB, ops);
            step.more.background_read_kb_per_op = ratio(read(false), ops);
        }
        step.more.threads = groups;
    }
}

fn group(name: &str, used: &ThreadUse) -> ThreadGroup {
    ThreadGroup {
        name: name.to_owned(),
        threads: used.threads,
        is_foreground: FOREGROUND.iter().any(|known| name.starts_with(known)),
        cpu_s: used.cpu_us as f64 / 1e6,
        read_bytes: used.read_bytes,
        write_bytes: used.write_bytes,
        switches_voluntary: used.switches_voluntary,
        switches_involuntary: used.switches_involuntary,
        faults_major: used.faults_major,
    }
}

/// Adds the bytes of live documents to the sizes; `row_bytes` is their average size, and `rows` the
/// number that the lab knows.
pub fn space(sizes: &mut Sizes, rows: u64, row_bytes: u64) {
    let counted = sizes.documents.unwrap_or(rows);
    let live = sizes
        .data_bytes
        .filter(|bytes| *bytes > 0)
        .or_else(|| counted.checked_mul(row_bytes));
    sizes.live_bytes = live.filter(|bytes| *bytes > 0);
    sizes.space_amplification = sizes
        .directory_bytes
        .zip(sizes.live_bytes)
        .and_then(|(taken, live)| ratio(taken as f64, live as f64));
}

/// The last of `steps` is a settle step. Divides its writes among the steps since the previous
/// settle step in proportion to their user bytes, and notes its duration there.
pub fn divide_settle_writes(steps: &mut [StepResult], came_to_rest: bool) {
    let Some((settle, before)) = steps.split_last_mut() else {
        return;
    };
    let kb = |step: &StepResult, per_op: Option<f64>| per_op.map(|kb| kb * step.ops as f64);
    let written = (
        kb(
            settle,
            settle.server.as_ref().and_then(|used| used.write_kb_per_op),
        ),
        kb(
            settle,
            settle.device.as_ref().and_then(|used| used.write_kb_per_op),
        ),
    );
    let since = before
        .iter()
        .rposition(|step| step.operation == settle.operation)
        .map_or(0, |at| at + 1);
    let Some(busy) = before.get_mut(since..) else {
        return;
    };
    let user: u64 = busy.iter().map(|step| step.more.user_bytes).sum();
    for step in busy {
        step.more.quiesce_seconds = came_to_rest.then_some(settle.seconds);
        let with =
            |burst: Option<f64>, kb: Option<f64>| Some(burst? + ratio(kb? * 1_024.0, user as f64)?);
        if step.more.user_bytes > 0 && came_to_rest {
            step.more.settled_write_amplification = with(step.more.write_amplification, written.0);
            step.more.settled_device_write_amplification =
                with(step.more.device_write_amplification, written.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics::{Paging, Pressure};

    use crate::workload::Operation;

    use super::*;

    fn example_step() -> StepResult {
        let run: crate::result::RunResult =
            serde_json::from_str(include_str!("../tests/data/point.json")).unwrap();
        run.main_step().unwrap().clone()
    }

    #[test]
    fn settle_writes_are_charged_to_the_preceding_steps() {
        let step = |operation: Operation, user_bytes: u64, kb: f64| {
            let mut out = example_step();
            (out.operation, out.ops, out.seconds) = (operation, 1, 4.0);
            let server = out.server.get_or_insert_default();
            server.write_kb_per_op = Some(kb);
            out.device.get_or_insert_default().write_kb_per_op = None;
            amplification(&mut out, user_bytes);
            (
                out.more.settled_write_amplification,
                out.more.quiesce_seconds,
            ) = (None, None);
            out
        };
        let of = |step: &StepResult| {
            (
                step.more.write_amplification,
                step.more.settled_write_amplification,
            )
        };
        let mut steps = vec![
            step(Operation::Insert, 1_024, 1.0),
            step(Operation::Settle, 0, 1.0),
        ];
        divide_settle_writes(&mut steps, true);
        steps.extend([
            step(Operation::Insert, 3_072, 6.0),
            step(Operation::UpdateInc, 1_024, 4.0),
            step(Operation::Point, 0, 0.0),
            step(Operation::Settle, 0, 8.0),
        ]);
        divide_settle_writes(&mut steps, true);
        let [first, _, insert, update, point, settle] = &steps[..] else {
            panic!()
        };
        assert_eq!(of(first), (Some(1.0), Some(2.0)));
        assert_eq!(of(insert), (Some(2.0), Some(4.0)));
        assert_eq!(of(update), (Some(4.0), Some(6.0)));
        assert_eq!((of(point), of(settle).1), ((None, None), None));
        assert_eq!(
            (update.more.quiesce_seconds, settle.more.quiesce_seconds),
            (Some(4.0), None)
        );
        // A target that did not become idle has no settled metrics.
        let mut steps = vec![
            step(Operation::Insert, 1_024, 1.0),
            step(Operation::Settle, 0, 1.0),
        ];
        divide_settle_writes(&mut steps, false);
        assert_eq!(
            (of(&steps[0]).1, steps[0].more.quiesce_seconds),
            (None, None)
        );
    }

    #[test]
    fn the_figures_of_iostat() {
        let total = Interval {
            length: Duration::from_secs(10),
            ops: 1_000,
            disk: Some(DiskUse {
                reads: 2_000,
                read_bytes: 2_000 * 8_192,
                writes: 100,
                write_bytes: 100 * 65_536,
                read_ms: 3_000,
                write_ms: 500,
                busy_ms: 4_000,
                queue_ms: 35_000,
                flushes: 10,
            }),
            ..Interval::default()
        };
        let device = device(&total, None).unwrap();
        assert_eq!(
            (device.reads_per_op, device.read_kb_per_op),
            (Some(2.0), Some(16.0))
        );
        assert_eq!(
            (device.read_await_ms, device.write_await_ms),
            (Some(1.5), Some(5.0))
        );
        assert_eq!(
            (device.queue_depth, device.busy_percent),
            (Some(3.5), Some(40.0))
        );
        assert_eq!(
            (
                device.read_size_kb,
                device.write_size_kb,
                device.flushes_per_op
            ),
            (Some(8.0), Some(64.0), Some(0.01))
        );
    }

    #[test]
    fn no_request_has_no_mean_time() {
        let total = Interval {
            disk: Some(DiskUse::default()),
            length: Duration::from_secs(1),
            ..Interval::default()
        };
        let device = device(&total, None).unwrap();
        assert_eq!(
            (
                device.read_await_ms,
                device.read_size_kb,
                device.busy_percent
            ),
            (None, None, Some(0.0))
        );
    }

    #[test]
    fn waiting_is_a_share_of_the_time() {
        let total = Interval {
            length: Duration::from_secs(2),
            ops: 10,
            pressure: Some(Pressure {
                io_some_us: 500_000,
                memory_full_us: 20_000,
                ..Pressure::default()
            }),
            paging: Some(Paging {
                in_bytes: 40_960,
                out_bytes: 0,
                faults_major: 5,
            }),
            ..Interval::default()
        };
        let host = host(&total);
        assert_eq!(
            host.pressure
                .map(|waited| (waited.io_some_percent, waited.memory_full_percent)),
            Some((25.0, 1.0))
        );
        assert_eq!(
            (host.page_in_kb_per_op, host.faults_major_per_op),
            (Some(4.0), Some(0.5))
        );
    }

    #[test]
    fn reads_of_clients_stand_apart_from_those_of_compaction() {
        let threads = [("lab-client", 40 * 4_096), ("rocksdb:low", 1_024_000)];
        let details = Details {
            threads: threads
                .into_iter()
                .map(|(name, read_bytes)| {
                    (
                        name.to_owned(),
                        ThreadUse {
                            read_bytes,
                            ..ThreadUse::default()
                        },
                    )
                })
                .collect(),
            ..Details::default()
        };
        let mut step = example_step();
        step.ops = 1_000;
        details.fill_step(&mut step);
        assert_eq!(step.more.foreground_reads_per_op, Some(0.04));
        assert_eq!(step.more.background_read_kb_per_op, Some(1.0));
        // Threads of unknown names are not counted as serving clients.
        let details = Details {
            threads: [("worker".to_owned(), ThreadUse::default())].into(),
            ..Details::default()
        };
        step.more.foreground_reads_per_op = None;
        details.fill_step(&mut step);
        assert_eq!(step.more.foreground_reads_per_op, None);
    }

    #[test]
    fn space_uses_reported_or_estimated_live_bytes() {
        let mut sizes = Sizes {
            directory_bytes: Some(3_000),
            data_bytes: Some(1_000),
            ..Sizes::default()
        };
        space(&mut sizes, 7, 500);
        assert_eq!(
            (sizes.live_bytes, sizes.space_amplification),
            (Some(1_000), Some(3.0))
        );
        sizes.data_bytes = None;
        space(&mut sizes, 2, 500);
        assert_eq!(
            (sizes.live_bytes, sizes.space_amplification),
            (Some(1_000), Some(3.0))
        );
        space(&mut sizes, 0, 500);
        assert_eq!(sizes.space_amplification, None);
    }
}
