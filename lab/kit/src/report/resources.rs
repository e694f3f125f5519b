//! A step's use of the device, the machine, memory, files and threads: cards of numbers beside its
//! latency.

use super::html::{row, write_card};
use crate::format;
use crate::result::{StepResult, ThreadGroup};

type Rows = Vec<(String, String)>;

/// Threads that used less than this are left out.
const GROUPS_MAX: usize = 12;

/// The cards; one without numbers is left out.
pub(super) fn write(out: &mut String, step: &StepResult) {
    for (title, rows) in [
        ("Device", device(step)),
        ("Waiting and paging of the machine", machine(step)),
        ("Memory and files", memory(step)),
        ("Space and writes", space(step)),
        ("Threads: CPU, switches, reads, writes", threads(step)),
    ] {
        if !rows.is_empty() {
            write_card(out, title, "right", &rows);
        }
    }
}

fn push(rows: &mut Rows, name: &str, value: Option<f64>, unit: &str) {
    rows.extend(value.map(|value| {
        row(
            name,
            format!("{} {unit}", format::number(value))
                .trim()
                .to_owned(),
        )
    }));
}

fn push_bytes(rows: &mut Rows, name: &str, value: Option<u64>) {
    rows.extend(value.map(|bytes| row(name, format::bytes(bytes as f64))));
}

fn device(step: &StepResult) -> Rows {
    let mut rows = Vec::new();
    let Some(device) = &step.device else {
        return rows;
    };
    let per_second = |per_op: Option<f64>| per_op.map(|value| value * step.rate.average);
    push(&mut rows, "reads", per_second(device.reads_per_op), "/s");
    push(&mut rows, "mean size of a read", device.read_size_kb, "KB");
    push(&mut rows, "mean time of a read", device.read_await_ms, "ms");
    push(&mut rows, "writes", per_second(device.writes_per_op), "/s");
    push(
        &mut rows,
        "mean size of a write",
        device.write_size_kb,
        "KB",
    );
    push(
        &mut rows,
        "mean time of a write",
        device.write_await_ms,
        "ms",
    );
    push(
        &mut rows,
        "flushes",
        per_second(device.flushes_per_op),
        "/s",
    );
    push(&mut rows, "requests under way", device.queue_depth, "");
    push(&mut rows, "busy", device.busy_percent, "%");
    rows
}

fn machine(step: &StepResult) -> Rows {
    let mut rows = Vec::new();
    let host = &step.host;
    if let Some(waited) = &host.pressure {
        let both =
            |some: f64, full: f64| format!("{}, {} %", format::number(some), format::number(full));
        rows.push(row(
            "some task, all tasks waited for storage",
            both(waited.io_some_percent, waited.io_full_percent),
        ));
        rows.push(row(
            "for memory",
            both(waited.memory_some_percent, waited.memory_full_percent),
        ));
        rows.push(row(
            "some task waited for a CPU",
            format!("{} %", format::number(waited.cpu_some_percent)),
        ));
    }
    let one = step.operation.unit_one();
    push(
        &mut rows,
        &format!("read into the page cache per {one}"),
        host.page_in_kb_per_op,
        "KB",
    );
    push(
        &mut rows,
        &format!("written from memory per {one}"),
        host.page_out_kb_per_op,
        "KB",
    );
    push(
        &mut rows,
        &format!("page faults from storage per {one}"),
        host.faults_major_per_op,
        "",
    );
    push(
        &mut rows,
        "of the server",
        step.server
            .as_ref()
            .and_then(|server| server.faults_major_per_op),
        "",
    );
    push(
        &mut rows,
        "server without CPU quota",
        step.server
            .as_ref()
            .and_then(|server| server.throttled_percent),
        "%",
    );
    rows
}

fn memory(step: &StepResult) -> Rows {
    let mut rows = Vec::new();
    let Some(server) = &step.server else {
        return rows;
    };
    push_bytes(
        &mut rows,
        "server memory, highest",
        Some(server.rss_bytes_max),
    );
    push_bytes(
        &mut rows,
        "at the end",
        Some(server.rss_bytes_end).filter(|bytes| *bytes > 0),
    );
    push_bytes(&mut rows, "shared pages in part", server.pss_bytes);
    push_bytes(&mut rows, "of that without files", server.anonymous_bytes);
    push_bytes(&mut rows, "of that mapped files", server.file_bytes);
    rows.extend(
        server
            .open_files_max
            .map(|files| row("open files, most", format::count(files))),
    );
    rows.extend(
        (server.threads_max > 0).then(|| row("threads, most", format::count(server.threads_max))),
    );
    rows
}

fn space(step: &StepResult) -> Rows {
    let mut rows = Vec::new();
    let (sizes, more) = (&step.sizes, &step.more);
    push_bytes(&mut rows, "live documents", sizes.live_bytes);
    push_bytes(&mut rows, "data directory, blocks", sizes.directory_bytes);
    push_bytes(
        &mut rows,
        "largest during the step",
        sizes.directory_bytes_max,
    );
    push_bytes(
        &mut rows,
        "lengths of its files",
        sizes.directory_apparent_bytes,
    );
    push_bytes(
        &mut rows,
        "of its blocks, logs",
        sizes.directory_log_bytes.filter(|bytes| *bytes > 0),
    );
    push_bytes(
        &mut rows,
        "indexes in files of their own",
        sizes.directory_index_bytes.filter(|bytes| *bytes > 0),
    );
    push_bytes(
        &mut rows,
        "large values in files of their own",
        sizes.directory_blob_bytes.filter(|bytes| *bytes > 0),
    );
    push(
        &mut rows,
        "space amplification",
        sizes.space_amplification,
        "×",
    );
    push(
        &mut rows,
        "write amplification at the end of the step",
        more.write_amplification.filter(|times| *times > 0.0),
        "×",
    );
    push(
        &mut rows,
        "after it came to rest",
        more.settled_write_amplification,
        "×",
    );
    push(
        &mut rows,
        "of the device",
        more.device_write_amplification.filter(|times| *times > 0.0),
        "×",
    );
    push(
        &mut rows,
        "of the device, at rest",
        more.settled_device_write_amplification,
        "×",
    );
    push_bytes(&mut rows, "work left over at the end", more.debt_bytes);
    rows.extend(
        more.quiesce_seconds
            .map(|seconds| row("time to come to rest", format::seconds(seconds))),
    );
    rows
}

fn threads(step: &StepResult) -> Rows {
    let mut groups: Vec<&ThreadGroup> = step.more.threads.iter().collect();
    groups.sort_by(|left, right| right.cpu_s.total_cmp(&left.cpu_s));
    let mut rows: Rows = groups
        .into_iter()
        .take(GROUPS_MAX)
        .map(|group| {
            let name = format!(
                "{}{} × {}",
                group.name,
                if group.is_foreground {
                    " (serves clients)"
                } else {
                    ""
                },
                group.threads
            );
            let switches = group.switches_voluntary + group.switches_involuntary;
            let text = format!(
                "{}, {}, {}, {}",
                format::seconds(group.cpu_s),
                format::count(switches),
                format::bytes(group.read_bytes as f64),
                format::bytes(group.write_bytes as f64)
            );
            row(name, text)
        })
        .collect();
    let one = step.operation.unit_one();
    push(
        &mut rows,
        &format!("pages read by client threads per {one}"),
        step.more.foreground_reads_per_op,
        "",
    );
    push(
        &mut rows,
        &format!("read by the others per {one}"),
        step.more.background_read_kb_per_op,
        "KB",
    );
    rows
}
