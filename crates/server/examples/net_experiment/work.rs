//! The work for one request, the same in every model, and the counters of a process.

use rustix::time::{ClockId, clock_gettime};

/// Rounds of dependent arithmetic in place of the engine: about 5 us on the machine of the ADR.
const ROUNDS: u32 = 5_000;

/// Answers every whole frame in `input`, appending to `out`. Returns the number of bytes consumed.
pub(crate) fn answer(input: &[u8], out: &mut Vec<u8>) -> usize {
    let mut used = 0;
    let mut scratch = Vec::new();
    while let Some(len) = wire::frame_len(&input[used..]).unwrap() {
        let Some(frame) = input.get(used..used + len) else {
            break;
        };
        let request = wire::decode(frame, &wire::DecodeOptions::default(), &mut scratch).unwrap();
        let reserved = wire::begin_reply(out, &request.reply);
        append_reply(request.body, out);
        wire::finish_reply(out, reserved, &request.reply, 1, false, &mut Vec::new()).unwrap();
        used += len;
    }
    used
}

/// The work, and the document of the reply.
pub(crate) fn append_reply(body: &[u8], out: &mut Vec<u8>) {
    let mut reply = [0u8; 179];
    let digest = burn_cpu(body.len() as u64);
    reply[..4].copy_from_slice(&179i32.to_le_bytes());
    // One binary field of 166 bytes that starts with the digest.
    reply[4..12].copy_from_slice(b"\x05r\0\xa6\0\0\0\0");
    reply[12..20].copy_from_slice(&digest.to_le_bytes());
    out.extend_from_slice(&reply);
}

fn burn_cpu(seed: u64) -> u64 {
    let mut x = seed;
    for _ in 0..ROUNDS {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    x
}

/// The cost of a request without the network, in microseconds.
pub(crate) fn calibrate_us() -> f64 {
    let frame = request();
    let mut out = Vec::new();
    let mut best = f64::MAX;
    for _ in 0..20 {
        let before = cpu_us();
        for _ in 0..1000 {
            out.clear();
            answer(&frame, &mut out);
        }
        best = best.min((cpu_us() - before) / 1000.0);
    }
    best
}

/// A request of 100 bytes.
pub(crate) fn request() -> Vec<u8> {
    // One binary field of 63 bytes.
    let mut body = vec![0u8; 79];
    body[..4].copy_from_slice(&79i32.to_le_bytes());
    body[4..15].copy_from_slice(b"\x05find\0\x3f\0\0\0\0");
    wire::MessageBuilder::new(1).body(&body).build()
}

/// Length of every reply.
pub(crate) const REPLY_LEN: usize = 200;

fn cpu_us() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

/// Counters of a process since its start.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) cpu_us: f64,
    pub(crate) user_us: f64,
    pub(crate) sys_us: f64,
    pub(crate) switches: f64,
    pub(crate) rss_kib: f64,
}

impl Sample {
    pub(crate) fn take() -> Self {
        // Ticks are 10 ms: precise enough for the split; the sum comes from the precise clock.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap() * 10_000.0;
        let mut switches = 0.0;
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            if let Ok(status) = std::fs::read_to_string(task.path().join("status")) {
                switches += field(&status, "voluntary_ctxt_switches:")
                    + field(&status, "nonvoluntary_ctxt_switches:");
            }
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        Self {
            cpu_us: cpu_us(),
            user_us: ticks(11),
            sys_us: ticks(12),
            switches,
            rss_kib: field(&status, "VmRSS:"),
        }
    }

    pub(crate) fn print(&self) {
        println!(
            "{} {} {} {} {}",
            self.cpu_us, self.user_us, self.sys_us, self.switches, self.rss_kib
        );
    }

    pub(crate) fn parse(line: &str) -> Self {
        let mut v = line.split(' ').map(|f| f.parse().unwrap());
        let mut next = || v.next().unwrap();
        Self {
            cpu_us: next(),
            user_us: next(),
            sys_us: next(),
            switches: next(),
            rss_kib: next(),
        }
    }
}

fn field(text: &str, name: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(name))
        .unwrap_or("0");
    line.split_whitespace()
        .next()
        .unwrap_or("0")
        .parse()
        .unwrap()
}

/// Kernel stacks of the whole machine; the difference around a case shows what its threads cost.
pub(crate) fn kernel_stack_kib() -> f64 {
    field(
        &std::fs::read_to_string("/proc/meminfo").unwrap(),
        "KernelStack:",
    )
}
