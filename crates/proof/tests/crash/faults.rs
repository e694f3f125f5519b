//! Failing calls of the file system: input and output errors, a full device, no free descriptor,
//! once or permanently, while opening, reading, writing, syncing, allocating and renaming. The
//! process may continue or refuse; data reported as durable must be there when the directory is
//! opened again, after the end of the process and after a loss of power.

use crate::check::{
    LogEntries, OpenFn, check_store, folder, number, open_store, start_system_anew,
};
use crate::history::{History, HistoryRecorder};
use crate::recorder::{self, Fault, FaultCount, Kind};
use crate::workload::Client;
use proof::{Event, Image, Loss, Random};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use storage::{Engine, ObservedEngine};

const FAULTS: usize = 18;
const STEPS: usize = 30;
const KINDS: [Kind; 6] = [
    Kind::Open,
    Kind::Read,
    Kind::Write,
    Kind::Sync,
    Kind::Allocate,
    Kind::Name,
];

/// The result of a run with a fault.
struct Run {
    events: Vec<Event>,
    history: History,
    met: FaultCount,
}

/// Runs a workload while a call fails. Opening may fail, too.
fn run(live: &Path, open: OpenFn, seed: u64, fault: Fault) -> Run {
    std::fs::create_dir(live).expect("a folder");
    recorder::begin(live);
    recorder::plan(Some(fault));
    let mut historian = None;
    if let Ok(engine) = open(live) {
        let observed = Arc::new(ObservedEngine::new(engine, HistoryRecorder::default()));
        historian = Some(observed.clone());
        if let Ok(store) = open_store(observed.clone()) {
            let store = Arc::new(store);
            let mut client = Client::of(store.clone(), seed);
            for _ in 0..STEPS {
                client.step();
            }
            drop(client);
            let _ = store.close();
        } else {
            let _ = observed.close();
        }
    }
    let met = recorder::plan(None);
    let events = recorder::end();
    let empty = HistoryRecorder::default();
    let history = History::of(historian.as_ref().map_or(&empty, |h| h.observer()));
    Run {
        events,
        history,
        met,
    }
}

/// Opens the remaining files and checks that they contain the data reported as durable.
fn check(left: &Path, open: OpenFn, run: &Run) -> Result<(), String> {
    let engine = open(left).map_err(|e| format!("does not open: {e}"))?;
    let states = run.history.find(&*engine).map_err(|e| e.to_string())?;
    let (least, most) = (run.history.durable(&run.events), run.history.len());
    if !states.iter().any(|n| (least..=most).contains(n)) {
        return Err(format!(
            "holds the rows of commits {states:?}, not of one from {least} to {most}"
        ));
    }
    check_store(engine, &LogEntries::new())
}

/// Number of calls of a kind in a run without faults.
fn calls(open: OpenFn, seed: u64, kind: Kind) -> usize {
    let folder = folder();
    let never = Fault {
        kind,
        after: usize::MAX,
        errno: libc::EIO,
        lasts: false,
    };
    run(&folder.path().join("live"), open, seed, never)
        .met
        .calls
}

/// Tries faults of every kind by seed.
pub(crate) fn search(engine: &str, open: OpenFn) {
    let faults = number("QUARRY_FAULTS").map_or(FAULTS, |n| usize::try_from(n).unwrap_or(FAULTS));
    let first = number("QUARRY_SEED").unwrap_or(1);
    let calls = KINDS.map(|kind| calls(open, first, kind));
    let mut told: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for n in 0..faults {
        let seed = first + n as u64;
        let mut random = Random::new(seed);
        let kind = KINDS[n % KINDS.len()];
        let most = calls[n % KINDS.len()];
        let errno = match (random.chance(50), kind) {
            (true, _) => libc::EIO,
            (false, Kind::Open) => libc::EMFILE,
            (false, _) => libc::ENOSPC,
        };
        let fault = Fault {
            kind,
            after: random.below(most),
            errno,
            lasts: random.chance(40),
        };
        let folder = folder();
        let run = run(&folder.path().join("live"), open, seed, fault);
        let what = format!(
            "{engine}, QUARRY_SEED={seed}, {fault:?}, {} failed",
            run.met.struck
        );
        for loss in [Loss::Nothing, Loss::Unsynced] {
            let left = folder.path().join(format!("{loss:?}"));
            let mut image = Image::after_loss(&run.events, run.events.len(), loss, &mut random);
            if loss != Loss::Nothing {
                start_system_anew(&mut image);
            }
            image.write_to(&left).expect("a folder");
            if let Err(wrong) = check(&left, open, &run) {
                panic!("{what}, {loss:?}: {wrong}");
            }
        }
        let name = format!("{kind:?}");
        let counts = told.entry(name).or_default();
        counts[0] += 1;
        counts[1] += usize::from(run.met.struck > 0);
    }
    println!("{engine}: {faults} faults, [planned, met] by kind {told:?}");
    assert!(
        told.values().map(|c| c[1]).sum::<usize>() * 2 > faults,
        "few are met"
    );
}
