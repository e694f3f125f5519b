//! The metrics that the studies published, as data: the workload and the layout of each table.
//!
//! Promises: each table names its source; a missing cell stays missing. The files are in
//! `lab/published/`.

use serde::Deserialize;

const FILES: [&str; 3] = [
    include_str!("../../published/point-queries.toml"),
    include_str!("../../published/inserts.toml"),
    include_str!("../../published/patterns.toml"),
];

/// The layout of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A row per configuration, a column per number of clients.
    Clients,
    /// A row per step, a column per engine.
    Steps,
    /// A row per configuration and round, a column per metric.
    Rounds,
    /// A row per metric of one step, a column per engine.
    Measurements,
}

/// A published table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Identifier.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Author, date and title of the study.
    pub source: String,
    /// The workload that reproduces the table.
    pub workload: String,
    /// The layout.
    pub layout: Layout,
    /// The metric (`metric::ALL`) that it shows, or `mixed`.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The step, if the table is about one.
    #[serde(default)]
    pub step: Option<String>,
    /// A remark on the comparison with new metrics.
    #[serde(default)]
    pub remark: String,
    /// Headings of columns.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its heading.
    pub name: String,
    /// A value per column; NaN if none was published.
    pub values: Vec<f64>,
}

impl Row {
    /// The value of a column.
    pub fn value(&self, column: usize) -> Option<f64> {
        self.values
            .get(column)
            .copied()
            .filter(|value| value.is_finite())
    }
}

#[derive(Deserialize)]
struct File {
    table: Vec<Table>,
}

/// The tables of a workload. A file that cannot be parsed gives none; a test parses all files.
pub fn of_workload(workload: &str) -> Vec<Table> {
    let files = FILES
        .iter()
        .filter_map(|text| toml::from_str::<File>(text).ok());
    files
        .flat_map(|file| file.table)
        .filter(|table| table.workload == workload)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_whole_and_names_things_that_exist() {
        let workloads = crate::workload::Workload::all().unwrap();
        let mut seen = 0;
        for file in FILES {
            for table in toml::from_str::<File>(file).unwrap().table {
                seen += 1;
                let workload = workloads
                    .iter()
                    .find(|workload| workload.name == table.workload);
                let workload = workload
                    .unwrap_or_else(|| panic!("{}: no workload {}", table.id, table.workload));
                let has_step = |name: &str| workload.steps.iter().any(|step| step.name == name);
                assert!(
                    table.step.as_deref().is_none_or(has_step),
                    "{}: {:?}",
                    table.id,
                    table.step
                );
                assert!(
                    table.metric == "mixed" || crate::metric::find(&table.metric).is_some(),
                    "{}",
                    table.id
                );
                for row in &table.rows {
                    assert_eq!(
                        row.values.len(),
                        table.columns.len(),
                        "{}: {}",
                        table.id,
                        row.name
                    );
                    assert!(
                        table.layout != Layout::Steps || has_step(&row.name),
                        "{}: {}",
                        table.id,
                        row.name
                    );
                }
            }
        }
        assert_eq!(seen, 34);
        let point = of_workload("point");
        assert_eq!(
            point[0].rows[6].value(6),
            Some(151_555.0),
            "{:?}",
            point[0].rows[6]
        );
    }
}
