//! Programs on records in memory: their data pass their own checks, and faults are detected.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::memory::{Fault, Memory};
use super::{Finding, Program, ProgramCall, ProgramState, Scale};
use crate::seed::stream;

const PROGRAMS: [Program; 3] = [Program::Trx, Program::Tpcc, Program::Linkbench];

fn scale(program: Program) -> Scale {
    let (rows, tables) = match program {
        Program::Trx => (300, 1),
        Program::Tpcc => (300, 2),
        Program::Linkbench => (300, 1),
    };
    Scale {
        rows,
        tables,
        seed: 3,
    }
}

/// Runs a future that never waits, because the records are in memory.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// Loads a program, does `calls` of its transactions, and checks; returns the state, and whether
/// each call succeeded.
fn try_program(
    program: Program,
    embeds: bool,
    calls: u64,
    fault: Fault,
) -> (Vec<Finding>, Arc<ProgramState>, u64) {
    let state = Arc::new(ProgramState::new(program, scale(program)));
    let mut memory = Memory::new(embeds);
    while let Some(load) = ProgramCall::load(&state) {
        ready(load.run(&mut memory)).unwrap();
    }
    let most = program.tables(embeds).into_iter();
    assert!(most.map(|table| memory.count(table)).max() >= Some(300));
    memory.fault = fault;
    let mut random = stream(5, "run", "client", 0);
    let procedures = program.procedures().len() as u64;
    let mut failed = 0;
    for call in 0..calls {
        let number = (call / 3 % procedures) as usize;
        let batch = [1, 7, 120][(call % 3) as usize];
        let drawn = ProgramCall::draw(&state, number, &mut random, batch).unwrap();
        failed += u64::from(ready(drawn.run(&mut memory)).is_err());
    }
    memory.fault = Fault::None;
    let (check, findings) = ProgramCall::check(&state);
    ready(check.run(&mut memory)).unwrap();
    let found = findings.lock().unwrap().clone();
    (found, state, failed)
}

fn wrong(findings: &[Finding]) -> Vec<&Finding> {
    let is_wrong = |one: &&Finding| !one.expected.contains(&one.found);
    findings.iter().filter(is_wrong).collect()
}

#[test]
fn data_of_programs_passes_their_checks() {
    for program in PROGRAMS {
        for embeds in [false, true] {
            for fault in [Fault::None, Fault::Conflict(3)] {
                let (findings, state, failed) = try_program(program, embeds, 150, fault);
                assert!(findings.len() >= 3, "{program:?}");
                assert_eq!(
                    wrong(&findings),
                    Vec::<&Finding>::new(),
                    "{program:?} {fault:?}"
                );
                assert_eq!(failed, 0, "{program:?} {fault:?}");
                assert_eq!(
                    state.repeat_count() > 0,
                    fault != Fault::None,
                    "{program:?}"
                );
            }
        }
    }
}

#[test]
fn lost_changes_are_found() {
    for program in PROGRAMS {
        for embeds in [false, true] {
            let (findings, ..) = try_program(program, embeds, 150, Fault::LoseChange(20));
            assert!(
                !wrong(&findings).is_empty(),
                "{program:?} {embeds}: lost changes"
            );
        }
    }
}

#[test]
fn a_reader_that_sees_half_a_transfer_is_reported() {
    let (findings, ..) = try_program(Program::Trx, false, 30, Fault::LoseChange(5));
    let names: Vec<&str> = wrong(&findings)
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert!(
        names.contains(&"states with another sum, seen by readers"),
        "{names:?}"
    );
}
