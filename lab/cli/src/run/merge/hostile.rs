//! Fuzzing of messages of load generators (ADR 0093): each changed line is refused or accepted, and
//! accepted lines can be summed.

use lab_kit::workload::Operation;
use proof::Random;
use proof::fuzz::{Fuzz, Limit, Outcome, change_bytes, number_of};

use super::*;
use crate::load::{AgentMessage, LabMessage};
use crate::wire::{ProcessQuery, read_line, to_sample};

const ROLES: usize = 2;
const GENERATORS: usize = 2;
/// Lines of one generator; the lines of the other follow.
const RUN_LINES: usize = 7;

/// Lines of a run: ticks of two roles, then the end.
fn lines_of_a_run() -> Vec<u8> {
    let mut latency = LatencyHistogram::new();
    (1..50).for_each(|ms| latency.record(Duration::from_millis(ms)));
    let buckets = Some(Buckets::of(&latency));
    let role = RoleTick {
        ops: 49,
        errors: 1,
        rows: 98,
        completions: Some((49, 10, 99_000)),
        free: vec![(20, 30), (50, 90)],
        latency: buckets.clone(),
        ..RoleTick::default()
    };
    let tick = |number| {
        AgentMessage::Tick(Box::new(Tick {
            number,
            at_us: number * 100_000,
            roles: vec![role.clone(); ROLES],
            used: ["7"; 13].join(" "),
            stopping: None,
        }))
    };
    let end = RoleEnd {
        acknowledged: 98,
        errors: BTreeMap::from([("11000".to_owned(), 2)]),
        clients: vec![ClientReport {
            ops: 98,
            active_us: 200_000,
            behind_us: 5,
        }],
        service: buckets.clone(),
        lateness: buckets.clone(),
        by_part: vec![(0, Buckets::of(&latency))],
        outcomes: vec![(0, lab_kit::result::CallCounts::default())],
        ..RoleEnd::default()
    };
    let ended = StepTotals {
        roles: (0..ROLES).map(|_| RoleEnd { ..clone_of(&end) }).collect(),
        program: vec![1, -1],
        ..StepTotals::default()
    };
    let all = [
        AgentMessage::Ready { cpus: 2 },
        AgentMessage::Time {
            own_ns: 5,
            wall_us: -5,
        },
        AgentMessage::Begun { late_us: 3 },
        tick(1),
        tick(2),
        AgentMessage::Done { at_us: 200_000 },
        AgentMessage::Ended(Box::new(ended)),
    ];
    assert_eq!(all.len(), RUN_LINES);
    let lines = all.iter().map(|one| serde_json::to_string(one).unwrap());
    lines.collect::<Vec<_>>().join("\n").into_bytes()
}

fn clone_of(end: &RoleEnd) -> RoleEnd {
    serde_json::from_str(&serde_json::to_string(end).unwrap()).unwrap()
}

/// Replaces a number by another one, or changes bytes.
fn change_lines(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    const NUMBERS: [&str; 9] = [
        "0",
        "1",
        "-1",
        "18446744073709551615",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "0.5",
        "null",
    ];
    let starts: Vec<usize> = (1..text.len())
        .filter(|at| text[*at].is_ascii_digit() && !text[at - 1].is_ascii_digit())
        .collect();
    if starts.is_empty() || random.chance(40) {
        return change_bytes(random, text, other);
    }
    let from = starts[random.below(starts.len())];
    let to = (from..text.len()).find(|at| !text[*at].is_ascii_digit());
    let number = NUMBERS[random.below(NUMBERS.len())].bytes();
    text.splice(from..to.unwrap_or(text.len()), number);
}

/// Takes the lines of two generators in turn and sums them.
fn take_all(text: &[u8]) -> Outcome {
    let (mut merge, mut refused) = (Merge::new(ROLES, Duration::ZERO), None);
    let named = |n: usize| GeneratorState::new(format!("agent{n}:1"), ROLES);
    let mut states: Vec<GeneratorState> = (0..GENERATORS).map(named).collect();
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let said = match serde_json::from_slice::<AgentMessage>(line) {
            Ok(said) => said,
            Err(error) => {
                refused = Some(error.to_string());
                continue;
            }
        };
        let number = at / RUN_LINES % GENERATORS;
        let state = &mut states[number];
        let taken = match said {
            AgentMessage::Tick(tick) => merge.take(number, state, *tick),
            AgentMessage::Done { at_us } => {
                (state.stage, state.done_us) = (Stage::Done, at_us);
                Ok(())
            }
            AgentMessage::Begun { late_us } => {
                state.late_us = late_us;
                Ok(())
            }
            AgentMessage::Ended(ended) => state.end(*ended),
            AgentMessage::Refused { reason } => Err(reason),
            _ => Ok(()),
        };
        if let Err(reason) = taken {
            state.lose(&reason);
            refused = Some(reason);
        }
    }
    let reached = states.iter().map(|state| state.last.number).max();
    let mut told = String::new();
    while let Some((tick, parts)) = merge.next_tick(reached.unwrap_or(0)) {
        for role in 0..ROLES {
            let done = merge_completions(&parts, role);
            assert!(done.is_none_or(|done| done.gaps.iter().all(|(from, to)| from < to)));
        }
        lines("step", &states, tick, &parts, &mut told);
    }
    let sums: Vec<Sum> = merge.open().into_iter().map(|n| merge.close(n)).collect();
    let ends: Vec<_> = sums.iter().map(Sum::end).collect();
    let mut totals = vec![Totals::default(); ROLES];
    for (role, totals) in totals.iter_mut().enumerate() {
        for state in &states {
            state.add_to(totals, role, &[Operation::Insert]);
        }
    }
    for state in &states {
        assert!(serde_json::to_string(&state.result(1, 1.5)).is_ok());
        let (_, _) = (state.marks(), state.program());
    }
    match refused {
        Some(reason) => Outcome::of(&Err::<(), _>(reason), |()| 0),
        None => Outcome::Accepted(number_of((ends, told.len()))),
    }
}

#[test]
fn whatever_generators_say_is_refused_or_summed() {
    let run = lines_of_a_run();
    let twice = [&run[..], b"\n", &run[..]].concat();
    let fuzz = Fuzz {
        name: "load generators",
        limit: Limit::of(1_500),
        corpus: &[run, twice, br#"{"Refused":{"reason":"x"}}"#.to_vec()],
        change: |random, i, other| change_lines(random, i, other),
        show: |text| String::from_utf8_lossy(text).into_owned(),
    };
    let tried = fuzz.run(|text| take_all(text));
    assert!(tried.accepted > 20, "{tried:?}");
}

#[test]
fn whatever_a_lab_asks_for_is_read_or_refused() {
    let asked: Vec<Vec<u8>> = [
        "port 27017\n",
        "process 1\n",
        "sample\n",
        "7 7 7 7 7 7 7 7 7 7 7 7 7\n",
        r#"{"Start":{"at_us":5}}"#,
        r#"{"Stop":{"reason":"x"}}"#,
        r#""Ask""#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    let fuzz = Fuzz {
        name: "what a lab asks for",
        limit: Limit::of(20_000),
        corpus: &asked,
        change: |random, i, other| change_lines(random, i, other),
        show: |text| String::from_utf8_lossy(text).into_owned(),
    };
    let tried = fuzz.run(|bytes| {
        let order = serde_json::from_slice::<LabMessage>(bytes);
        let line = read_line(&mut &bytes[..], |_| Ok(()));
        let Ok(Some(line)) = line else {
            return Outcome::of(&order, |_| 1);
        };
        let wanted = ProcessQuery::parse(&line);
        if let Some(wanted) = wanted {
            assert_eq!(ProcessQuery::parse(&wanted.to_string()), Some(wanted));
        }
        match (wanted, to_sample(&line)) {
            (None, None) => Outcome::Refused(1),
            (wanted, sample) => {
                let both = sample.map(|sample| sample.delta_since(&sample).cpu());
                Outcome::Accepted(number_of((wanted.is_some(), both)))
            }
        }
    });
    assert!(tried.accepted > 100, "{tried:?}");
}
