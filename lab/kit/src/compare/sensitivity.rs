//! The smallest change of the rate that the repeats of a sweep can detect. It decides whether the
//! sweep needs more repeats.

use std::collections::BTreeMap;

use super::comparison::{is_usable, smallest_percent};
use crate::metric;
use crate::result::RunResult;
use crate::statistics;

/// A sweep makes at least this many repeats, because fewer show too little about chance.
pub const REPEATS_MIN: u32 = 3;

/// The keys by which runs are grouped: the settings alone, and everything that repeats must share.
fn keys(run: &RunResult) -> (String, String) {
    let mut settings = run.settings.clone();
    settings.preset.clear();
    let settings = serde_json::to_string(&settings).unwrap_or_default();
    let settings = format!("{} {settings}", run.run.workload);
    let all = format!(
        "{settings} {} {:?} {:?} {:?}",
        run.target.name(),
        run.target.storage_engine,
        run.configuration(),
        run.run.labels
    );
    (settings, all)
}

/// The smallest change of the rate, in percent, that these runs can detect in each measured step
/// between the first configuration and each other one with the same settings. With a single
/// configuration, it is the change between its repeats and as many repeats of another. `None` while
/// a configuration has fewer than [`REPEATS_MIN`] complete and correct runs.
pub fn smallest_change(runs: &[RunResult]) -> Option<f64> {
    let rate = metric::find("rate")?;
    // For each group of equal settings, the configurations in the order of their first runs.
    let mut groups: BTreeMap<String, Vec<(String, Vec<&RunResult>)>> = BTreeMap::new();
    for run in runs.iter().filter(|run| is_usable(run).is_ok()) {
        let (settings, all) = keys(run);
        let own = groups.entry(settings).or_default();
        match own.iter_mut().find(|(known, _)| *known == all) {
            Some((_, runs)) => runs.push(run),
            None => own.push((all, vec![run])),
        }
    }
    let mut largest: Option<f64> = None;
    for own in groups.values() {
        let (_, base) = own.first()?;
        let steps = base.first()?.steps.iter().filter(|step| step.measured);
        for step in steps {
            let values = |runs: &[&RunResult]| -> Vec<f64> {
                let of = |run: &&RunResult| {
                    let found = run.steps.iter().find(|other| other.name == step.name)?;
                    rate.value(found)
                };
                runs.iter().filter_map(of).collect()
            };
            let first = values(base);
            let ratios = own.iter().skip(1).map(|(_, runs)| {
                let other = values(runs);
                let pairs: Vec<(f64, f64)> = first.iter().copied().zip(other).collect();
                (pairs.len(), statistics::ratio(&pairs))
            });
            let alone = own.len() == 1;
            let alone = alone.then(|| {
                let pairs: Vec<(f64, f64)> = first.iter().map(|value| (1.0, *value)).collect();
                let ratio = statistics::ratio(&pairs).map(|ratio| {
                    // The difference of two such means has an interval wider by a factor of √2.
                    let half = (ratio.high / ratio.mean).ln() * std::f64::consts::SQRT_2;
                    statistics::Estimate {
                        mean: 1.0,
                        low: (-half).exp(),
                        high: half.exp(),
                    }
                });
                (pairs.len(), ratio)
            });
            for (count, ratio) in ratios.chain(alone) {
                if count < REPEATS_MIN as usize {
                    return None;
                }
                let found = smallest_percent(ratio?);
                largest = Some(largest.map_or(found, |known| known.max(found)));
            }
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    fn side(name: &str, rates: &[f64]) -> Vec<RunResult> {
        let one = |(number, rate): (usize, &f64)| {
            let mut one = run(&format!("{name}{number}"), *rate);
            one.target.product = name.to_owned();
            one.checks.clear();
            one
        };
        rates.iter().enumerate().map(one).collect()
    }

    #[test]
    fn repeats_are_enough_when_the_change_could_be_found() {
        let calm = [
            side("a", &[100.0, 101.0, 99.0]),
            side("b", &[110.0, 111.0, 109.0]),
        ]
        .concat();
        let found = smallest_change(&calm).unwrap();
        assert!(
            found < 2.0,
            "pairs cancel what both have in common: {found}"
        );
        let noisy = [
            side("a", &[100.0, 110.0, 90.0]),
            side("b", &[100.0, 90.0, 110.0]),
        ]
        .concat();
        assert!(smallest_change(&noisy).unwrap() > 20.0);
        let few = [side("a", &[100.0, 101.0]), side("b", &[110.0, 111.0])].concat();
        assert_eq!(smallest_change(&few), None);
        let alone = smallest_change(&side("a", &[100.0, 110.0, 90.0])).unwrap();
        assert!(alone > 20.0, "{alone}");
        // A wrong run does not count as a repeat.
        let mut wrong = calm;
        wrong[5].run.complete = false;
        assert_eq!(smallest_change(&wrong), None);
    }
}
