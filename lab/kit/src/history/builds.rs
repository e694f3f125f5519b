//! Series by build: the result of each build of a target, compared with the build before it.

use super::series::Series;
use crate::metric::MetricDirection;
use crate::statistics::{Estimate, mean, ratio_of_groups};

/// Smaller differences do not count as a change.
const CHANGE_MIN: f64 = 0.01;

/// The runs of one build in a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Build {
    /// Its name.
    pub name: String,
    /// When the build was first measured.
    pub at: String,
    /// Its runs.
    pub runs: usize,
    /// The mean of the runs.
    pub mean: f64,
    /// The ratio to the build before it, with an interval of 95 %; `None` for the first, and if
    /// either has too few runs.
    pub ratio: Option<Estimate>,
    /// Whether the build is better (`true`) or worse (`false`) than the one before; `None` if the
    /// interval includes the ratio 1.
    pub verdict: Option<bool>,
}

/// The builds of a series, in the order in which they were measured first.
pub fn builds(series: &Series) -> Vec<Build> {
    let mut names: Vec<&str> = Vec::new();
    for entry in &series.entries {
        if !names.contains(&entry.build.as_str()) {
            names.push(&entry.build);
        }
    }
    let mut out: Vec<Build> = Vec::new();
    let mut before: Vec<f64> = Vec::new();
    for name in names {
        let entries = series.entries.iter().filter(|entry| entry.build == name);
        let values: Vec<f64> = entries.clone().map(|entry| entry.value).collect();
        let ratio = ratio_of_groups(&before, &values);
        let is_higher = ratio.and_then(|ratio| {
            let excludes_one = ratio.low > 1.0 || ratio.high < 1.0;
            let is_large = (ratio.mean - 1.0).abs() >= CHANGE_MIN;
            (excludes_one && is_large).then_some(ratio.mean > 1.0)
        });
        out.push(Build {
            name: name.to_owned(),
            at: entries
                .clone()
                .map(|entry| entry.at.clone())
                .min()
                .unwrap_or_default(),
            runs: values.len(),
            mean: mean(&values).unwrap_or_default(),
            ratio,
            verdict: is_higher
                .map(|higher| higher == (series.metric.better == MetricDirection::Higher)),
        });
        before = values;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::series::{Entry, Value, series_of};
    use super::*;

    fn value(number: usize, build: &str, value: f64) -> Value {
        Value {
            name: "point on Quarry".to_owned(),
            conditions: "1".to_owned(),
            workload: "point".to_owned(),
            target: "Quarry".to_owned(),
            step: "point".to_owned(),
            unit: "queries".to_owned(),
            metric: crate::metric::find("rate").unwrap(),
            entry: Entry {
                run: format!("run-{number}"),
                at: format!("2026-11-{number:02}"),
                version: "Quarry 1".to_owned(),
                build: build.to_owned(),
                value,
            },
        }
    }

    #[test]
    fn a_build_stands_beside_the_one_before_it() {
        let all = series_of(vec![
            value(1, "a", 100.0),
            value(2, "b", 90.0),
            value(3, "a", 101.0),
            value(4, "b", 91.0),
            value(5, "a", 99.0),
            value(6, "b", 89.0),
            value(7, "c", 90.5),
            value(8, "c", 89.5),
            value(9, "c", 90.1),
            value(10, "d", 200.0),
        ]);
        let found = builds(&all[0]);
        let names: Vec<(&str, usize)> = found
            .iter()
            .map(|one| (one.name.as_str(), one.runs))
            .collect();
        assert_eq!(names, [("a", 3), ("b", 3), ("c", 3), ("d", 1)]);
        let verdicts: Vec<Option<bool>> = found.iter().map(|one| one.verdict).collect();
        // One run has no interval.
        assert_eq!(verdicts, [None, Some(false), None, None]);
        assert!((found[1].ratio.unwrap().mean - 0.9).abs() < 0.01);
    }
}
