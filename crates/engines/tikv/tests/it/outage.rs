//! A store that does not answer for a while, on a cluster of its own.

use std::sync::Arc;
use std::time::Duration;

use engine_tikv::Config;
use rustix::process::{Pid, Signal, kill_process};

use crate::tools::{Cluster, config, open};
use crate::writer::{self, LEASE, Writer};

fn cluster() -> Option<(Cluster, i32)> {
    match Cluster::start() {
        Ok(cluster) => {
            let store = cluster.store?;
            Some((cluster, store))
        }
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// Stops the store for a while.
fn silence(store: i32, duration: Duration) {
    let store = Pid::from_raw(store).unwrap();
    kill_process(store, Signal::STOP).unwrap();
    std::thread::sleep(duration);
    kill_process(store, Signal::CONT).unwrap();
}

#[test]
fn a_short_silence_is_waited_for_and_a_long_one_ends_the_server() {
    let Some((cluster, store)) = cluster() else {
        return;
    };
    let own = config(&cluster.pd);
    let writer = Writer::start("one", &own);
    let before = writer.acknowledged(20);
    silence(store, Duration::from_secs(4));
    // The lease has run out meanwhile; nobody has taken it, so it is renewed.
    assert!(LEASE < Duration::from_secs(4));
    let during = writer.acknowledged(before + 50);
    silence(store, Duration::from_secs(25));
    let said = writer.end();
    let last = said
        .iter()
        .filter_map(|line| writer::acknowledged(line))
        .next_back();
    let refused = said.iter().any(|line| line.starts_with("refused "));
    assert!(refused, "{said:?}");
    let engine = open(&Config {
        standby: Some(Arc::default()),
        ..own
    });
    writer::check(&engine, last.unwrap_or(during));
}
