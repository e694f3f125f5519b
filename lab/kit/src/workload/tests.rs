//! Every workload file parses, has the four presets, and only asks for what exists.

use super::*;

#[test]
fn every_file_parses_and_has_the_four_presets() {
    for workload in Workload::all().unwrap() {
        let name = &workload.name;
        let mut names: Vec<&str> = workload.preset.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["laptop", "paper", "server", "smoke"], "{name}");
        for preset in names {
            let settings = workload.settings(preset, Overrides::default());
            assert!(settings.is_ok(), "{name} {preset}: {settings:?}");
        }
        let steps = &workload.steps;
        assert!(steps.iter().any(|step| step.measured), "{name}");
        let smoke = workload.settings("smoke", Overrides::default()).unwrap();
        for step in steps {
            assert_eq!(
                step.work.operation.is_action(),
                step.stop == Stop::Done,
                "{name} {}",
                step.name
            );
            assert_eq!(
                step.work.operation == Operation::Mix,
                !step.work.mix.is_empty(),
                "{name} {}",
                step.name
            );
            assert!(
                step.stop != Stop::Seconds || smoke.seconds.is_some_and(|seconds| seconds <= 10),
                "{name}"
            );
        }
        assert!(smoke.rows <= 100_000, "{name}");
    }
}

#[test]
fn the_command_line_wins_over_the_preset_and_the_preset_over_defaults() {
    let insert = Workload::load("insert").unwrap();
    let given = Overrides {
        clients: Some(7),
        ..Overrides::default()
    };
    let settings = insert.settings("smoke", given).unwrap();
    assert_eq!(
        (settings.clients, settings.rows, settings.batch),
        (7, 100_000, 100)
    );
    let changed = insert.list_paper_changes(&settings);
    assert!(
        changed.contains(&"clients 7 (paper: 10)".to_owned()),
        "{changed:?}"
    );
    assert!(
        !changed.iter().any(|line| line.starts_with("batch")),
        "{changed:?}"
    );
}

#[test]
fn rows_follow_the_memory_limit_unless_they_are_given() {
    let grow = Workload::load("insert-grow").unwrap();
    let rows = |rows, times_memory, memory_mb| {
        let given = Overrides {
            rows,
            times_memory,
            memory_mb,
            ..Overrides::default()
        };
        grow.settings("laptop", given).unwrap().rows
    };
    let four_times = rows(None, None, None);
    assert_eq!(four_times, 4 * (512 << 20) / grow.row_bytes(0));
    assert_eq!(rows(None, Some(8.0), None) / four_times, 2);
    assert_eq!(rows(None, None, Some(1_024)) / four_times, 2);
    assert_eq!(rows(Some(5), None, None), 5);
}

#[test]
fn rounds_are_written_out_and_tables_share_rows() {
    let rounds = Workload::load("insert-rounds").unwrap();
    let names: Vec<String> = rounds.steps(12).into_iter().map(|step| step.name).collect();
    assert_eq!(
        (names.len(), names[1].as_str(), names[12].as_str()),
        (13, "round.01", "round.12")
    );
    let given = Overrides {
        clients: Some(3),
        rows: Some(100),
        ..Overrides::default()
    };
    let settings = rounds.settings("smoke", given).unwrap();
    assert_eq!(
        (
            settings.tables,
            [0, 1, 2].map(|table| settings.rows_of(table))
        ),
        (3, [33, 33, 34])
    );
}

#[test]
fn wrong_settings_say_what_is_allowed() {
    let insert = Workload::load("insert").unwrap();
    let message = |given| insert.settings("smoke", given).unwrap_err().to_string();
    let base = Overrides::default;
    let cases = [
        (
            Overrides {
                indexes: Some(4),
                ..base()
            },
            "--indexes is 4; allowed is 0 to 3",
        ),
        (
            Overrides {
                clients: Some(0),
                ..base()
            },
            "--clients is 0; allowed is 1 to 4096",
        ),
        (
            Overrides {
                rate: Some(f64::NAN),
                ..base()
            },
            "--rate is NaN; allowed is 0.001 or more per second",
        ),
        (
            Overrides {
                memory_mb: Some(1),
                ..base()
            },
            "--memory-mb is 1; allowed is 16 to 16777216",
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(message(given), expected);
    }
    assert!(
        Workload::load("bogus")
            .unwrap_err()
            .to_string()
            .contains("insert, insert-classic")
    );
    assert!(
        insert
            .settings("huge", base())
            .unwrap_err()
            .to_string()
            .contains("laptop")
    );
}

#[test]
fn the_examples_can_be_read_and_have_settings() {
    let folder = std::path::Path::new("../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let workload = Workload::read(&entry.path()).unwrap();
        let settings = workload.settings("smoke", Overrides::default());
        assert!(settings.is_ok(), "{:?}: {settings:?}", entry.path());
        assert!(!workload.about.is_empty(), "{:?}", entry.path());
        count += 1;
    }
    assert!(count >= 10, "{count}");
}
