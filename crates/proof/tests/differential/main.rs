//! The same random commands on every engine of this build: with every index, without any, with
//! pipelines as written and rewritten, on one thread and on several. Replies and documents must be
//! the same (ADR 0078). The documents selected by a predicate and the others are all documents
//! (TLP), and a count equals the number found by evaluating the predicate on each document (NoREC).
//! Queries of one shape come with several values, so that plans are taken from the plan cache.
//! A difference is reduced by removing documents, changes and indexes, and printed with its seed.
//! The log by reference is compared with one by copies (ADR 0051).
//! `QUARRY_ROUNDS=n` runs n rounds, `QUARRY_SEED=n` begins with another seed.

mod generate;
mod references;
mod scenario;
mod servers;

use generate::Generator;
use scenario::{QuestionCounts, Scenario};
use servers::Servers;
use std::time::Instant;

const ROUNDS: u64 = 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn engines_plans_and_threads_agree() {
    let (first, rounds) = (
        number("QUARRY_SEED").unwrap_or(1),
        number("QUARRY_ROUNDS").unwrap_or(ROUNDS),
    );
    let begun = Instant::now();
    let mut servers = Servers::new();
    let mut asked = QuestionCounts::default();
    for seed in first..first + rounds {
        let scenario = Generator::of(seed).scenario();
        if let Err(wrong) = scenario.run(&mut servers, &mut asked) {
            let small = scenario.reduce(&mut servers);
            let again = small.run(&mut servers, &mut QuestionCounts::default());
            panic!(
                "QUARRY_SEED={seed}: {wrong}\nmade smaller:\n{small}\n{}",
                again.err().unwrap_or_default()
            );
        }
    }
    let total: usize = asked.compared.values().sum();
    println!(
        "differential, seeds {first} to {}: {total} comparisons {:?} on {}, stages {:?}, {} cached \
         plans, {:.1} s",
        first + rounds - 1,
        asked.compared,
        servers.names().join(", "),
        asked.stages,
        asked.cached_plans,
        begun.elapsed().as_secs_f64()
    );
    for kind in ["engines", "hints", "threads", "TLP", "NoREC", "documents"] {
        assert!(
            asked.compared.contains_key(kind),
            "nothing was compared by {kind}"
        );
    }
    for stage in [
        "IXSCAN",
        "COLLSCAN",
        "COLUMN_SCAN",
        "PROJECTION_COVERED",
        "COUNT_SCAN",
        "DISTINCT_SCAN",
    ] {
        assert!(asked.stages.contains_key(stage), "no plan has {stage}");
    }
    assert!(asked.cached_plans > 0, "no plan was cached");
}

/// The search works: it reports a scenario whose servers have different documents, and reduces it.
#[test]
fn a_disagreement_is_found_and_made_smaller() {
    let mut servers = Servers::new();
    let scenario = Scenario::with_a_difference(Generator::of(5).scenario());
    let wrong = scenario.run(&mut servers, &mut QuestionCounts::default());
    assert!(wrong.is_err());
    let small = scenario.reduce(&mut servers);
    assert!(small.len() <= 2, "{small}");
}
