//! Tests: ticks of several generators become one series, and the work of lost generators is
//! counted.

use super::*;

fn tick(number: u64, ops: u64) -> Tick {
    let mut latency = LatencyHistogram::default();
    latency.record(Duration::from_micros(ops));
    let role = RoleTick {
        ops,
        effect: Effect {
            added: ops * number,
            ..Effect::default()
        },
        completions: Some((ops, number * 100_000 - 90_000, number * 100_000 - 10_000)),
        latency: number
            .is_multiple_of(TICKS_PER_INTERVAL)
            .then(|| Buckets::of(&latency)),
        ..RoleTick::default()
    };
    Tick {
        number,
        at_us: number * 100_000 + ops,
        roles: vec![role],
        ..Tick::default()
    }
}

fn generator(address: &str) -> GeneratorState {
    GeneratorState::new(address.to_owned(), 1)
}

#[test]
fn a_tick_counts_when_all_generators_have_reached_it_and_an_interval_has_ten() {
    let mut merge = Merge::new(1, Duration::ZERO);
    let mut all = [generator("a:1"), generator("b:1")];
    for number in 1..=10 {
        merge.take(0, &mut all[0], tick(number, 2)).unwrap();
    }
    assert!(merge.next_tick(0).is_none(), "b has told nothing");
    // A generator that was late reports several ticks at once.
    for number in [1, 2, 7, 10] {
        merge.take(1, &mut all[1], tick(number, 5)).unwrap();
    }
    let mut lines_of = String::new();
    let mut seen = Vec::new();
    while let Some((number, parts)) = merge.next_tick(10) {
        lines("s", &all, number, &parts, &mut lines_of);
        seen.push((number, parts.len()));
    }
    let wanted = (1..=10).map(|number| (number, 1 + usize::from([1, 2, 7, 10].contains(&number))));
    assert_eq!(seen, wanted.collect::<Vec<_>>());
    assert_eq!(lines_of.lines().count(), 14);
    assert!(
        lines_of.contains("s,b:1,0,0.6,0.1000,5,0,0\n"),
        "{lines_of}"
    );
    let sum = merge.close(0);
    assert_eq!((sum.roles[0].ops, sum.roles[0].latency.count()), (40, 2));
    assert_eq!(sum.end(), Some(Duration::from_micros(1_000_003)));
    for wrong in [tick(10, 1), tick(3, 1)] {
        assert!(
            merge.take(1, &mut all[1], wrong).is_err(),
            "a tick came twice"
        );
    }
    let mut foreign = tick(11, 1);
    foreign.roles.push(RoleTick::default());
    assert!(merge.take(1, &mut all[1], foreign).is_err());
}

#[test]
fn the_end_of_a_generator_must_be_the_sum_of_its_ticks() {
    let mut merge = Merge::new(1, Duration::ZERO);
    let mut own = generator("a:1");
    merge.take(0, &mut own, tick(1, 3)).unwrap();
    merge.take(0, &mut own, tick(2, 4)).unwrap();
    let ended = |acknowledged| StepTotals {
        roles: vec![RoleEnd {
            acknowledged,
            ..RoleEnd::default()
        }],
        ..StepTotals::default()
    };
    let wrong = own.end(ended(8)).unwrap_err();
    assert!(wrong.contains("[7]") && wrong.contains("[8]"), "{wrong}");
    assert!(own.is_there());
    own.end(ended(7)).unwrap();
    assert_eq!(own.stage, Stage::Ended);
}

#[test]
fn unreported_calls_of_a_lost_generator_count_as_unknown() {
    let mut merge = Merge::new(1, Duration::ZERO);
    let mut own = generator("a:1");
    merge.take(0, &mut own, tick(1, 3)).unwrap();
    merge.take(0, &mut own, tick(2, 4)).unwrap();
    let words = own.lose("it has closed the connection");
    assert!(
        words.contains("a:1") && words.contains("reported 7 operations"),
        "{words}"
    );
    let mut totals = Totals::default();
    own.add_to(&mut totals, 0, &[Operation::Hot]);
    assert_eq!((totals.acknowledged, totals.effect.added), (7, 8));
    assert_eq!(
        (totals.effect.adds_unknown, totals.effect.inserts_unknown),
        (UNKNOWN, 0)
    );
    let result = own.result(2, 0.5);
    assert_eq!((result.ops, result.rate, result.clients), (7, 14.0, 2));
    assert_eq!(result.lost.as_deref(), Some(words.as_str()));
}

#[test]
fn a_gap_is_where_no_generator_completed_anything() {
    let with = |first: u64, last: u64, free: Vec<(u64, u64)>| {
        let mut out = tick(10, 1);
        out.roles[0].completions = Some((9, first, last));
        out.roles[0].free = free;
        out
    };
    let parts = [
        (0, with(100_000, 900_000, vec![(200_000, 800_000)])),
        (
            1,
            with(
                50_000,
                950_000,
                vec![(100_000, 300_000), (500_000, 900_000)],
            ),
        ),
        (2, Tick::default()),
    ];
    let found = merge_completions(&parts, 0).unwrap();
    assert_eq!((found.count, found.first_s, found.last_s), (18, 0.05, 0.95));
    assert_eq!(found.gaps, [(0.2, 0.3), (0.5, 0.8)]);
    assert!(merge_completions(&parts, 1).is_none());
}
