//! Commits of members that need the same rows. On a cluster of its own.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use engine_tikv::TikvMember;
use storage::{Durability, Engine, Table, WriteBatch};

use crate::tools::{Cluster, config, key};

const ROUNDS: u32 = 40;

/// Rows of a size that makes the client ask for each lock in a request of its own, so that each of
/// two commits gets some of them.
#[test]
fn commits_that_hold_what_others_need_give_up_soon() {
    let Ok(cluster) = Cluster::open() else {
        return;
    };
    let own = config(&cluster.pd);
    let members: Vec<_> = (0..3)
        .map(|_| TikvMember::join(&own).expect("a member joins"))
        .collect();
    let (together, mut longest) = (Barrier::new(members.len()), Duration::ZERO);
    for round in 0..ROUNDS {
        let write = |member: &TikvMember| {
            let mut batch = WriteBatch::new();
            (0..4).for_each(|n| batch.put(Table::Doc, &key(n), &[round as u8; 20_000]));
            together.wait();
            let begun = Instant::now();
            member.apply(&batch, Durability::Buffered).expect("a write");
            begun.elapsed()
        };
        std::thread::scope(|scope| {
            let writes: Vec<_> = members.iter().map(|m| scope.spawn(|| write(m))).collect();
            let took = writes.into_iter().map(|w| w.join().expect("it ends"));
            longest = took.fold(longest, Duration::max);
        });
    }
    println!("the longest of {ROUNDS} rounds took {longest:?}");
    assert!(longest < Duration::from_secs(4), "{longest:?}");
}
