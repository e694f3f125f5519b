//! The aggregation of `lab/speed/aggregation.py` written by hand: `$match` of half of the
//! documents, `$group` by a field, `$sum` and `$avg`, directly on the raw bytes of a stopped
//! server's RocksDB. The server is measured against this lower bound.
//!
//! ```text
//! cargo run --release -p quarry-engine-rocksdb --example scan_group -- DATA_DIRECTORY [ROUNDS]
//! ```
//! Knows the record and key layout of docs/on-disk.md and the shape of these documents, nothing
//! else of Quarry.

use rust_rocksdb::{DB, Options, ReadOptions};
use rustc_hash::FxHashMap;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Default)]
struct Group {
    amount: f64,
    qty: f64,
    count: u64,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let data = PathBuf::from(
        args.next()
            .expect("DATA_DIRECTORY, the --dbpath of a stopped server"),
    );
    let rounds: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(3);
    let db = DB::open_cf_for_read_only(&Options::default(), data, ["default", "doc"], false)
        .expect("RocksDB opens");
    let cf = db.cf_handle("doc").expect("the table of documents");
    for round in 1..=rounds {
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let mut groups: FxHashMap<i32, Group> = FxHashMap::default();
        let (mut read, mut matched) = (0u64, 0u64);
        let mut options = ReadOptions::default();
        options.set_readahead_size(2 << 20);
        options.set_async_io(false);
        options.set_verify_checksums(true);
        let mut it = db.raw_iterator_cf_opt(&cf, options);
        it.seek_to_first();
        while let Some(value) = it.value() {
            read += 1;
            if let Some(row) = fields(bson(value)).filter(|row| row.status < 50) {
                matched += 1;
                let group = groups.entry(row.g).or_default();
                group.amount += row.amount;
                group.qty += f64::from(row.qty);
                group.count += 1;
            }
            it.next();
        }
        it.status().expect("the scan ends well");
        let check: f64 = groups
            .values()
            .map(|g| g.amount + g.qty / g.count as f64)
            .sum();
        println!(
            "round {round}: {read} documents, {matched} matched, {} groups, check {check:.6}, \
                {:.3} s, CPU {:.3} s",
            groups.len(),
            wall.elapsed().as_secs_f64(),
            cpu_seconds() - cpu
        );
    }
}

struct Row {
    status: i32,
    g: i32,
    amount: f64,
    qty: i32,
}

/// The BSON after two bytes and two variable-length numbers.
fn bson(record: &[u8]) -> &[u8] {
    let mut at = 2;
    for _ in 0..2 {
        while record[at] & 0x80 != 0 {
            at += 1;
        }
        at += 1;
    }
    &record[at..]
}

/// One walk over the fields, which ends when the fourth wanted field is found.
fn fields(doc: &[u8]) -> Option<Row> {
    let (mut status, mut g, mut amount, mut qty) = (None, None, None, None);
    let mut at = 4;
    while doc[at] != 0 {
        let kind = doc[at];
        let name_end = at + 1 + doc[at + 1..].iter().position(|b| *b == 0)?;
        let name = &doc[at + 1..name_end];
        let payload = name_end + 1;
        let four = || {
            Some(i32::from_le_bytes(
                doc.get(payload..payload + 4)?.try_into().ok()?,
            ))
        };
        let eight = || <[u8; 8]>::try_from(doc.get(payload..payload + 8)?).ok();
        match (name, kind) {
            (b"status", 0x10) => status = four(),
            (b"g", 0x10) => g = four(),
            (b"amount", 0x01) => amount = eight().map(f64::from_le_bytes),
            (b"qty", 0x10) => qty = four(),
            _ => {}
        }
        if let (Some(status), Some(g), Some(amount), Some(qty)) = (status, g, amount, qty) {
            return Some(Row {
                status,
                g,
                amount,
                qty,
            });
        }
        at = payload
            + match kind {
                0x01 | 0x09 | 0x11 | 0x12 => 8,
                0x02 => 4 + four()? as usize,
                0x03 | 0x04 => four()? as usize,
                0x07 => 12,
                0x08 => 1,
                0x10 => 4,
                _ => return None,
            };
    }
    None
}

fn cpu_seconds() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable memory of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
