//! The imports between crates: compares the table of ARCHITECTURE.md with the manifests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::finding::Finding;

/// The file with the table.
pub(super) const TABLE_FILE: &str = "ARCHITECTURE.md";

/// Crates that any test may use: to build BSON and to open the memory engine.
const FREE_FOR_TESTS: [&str; 2] = ["model", "storage"];

/// One member of the workspace.
#[derive(Debug)]
pub(super) struct Package {
    /// Name as in the table: the package name without `quarry-`.
    pub(super) name: String,
    /// Folder below the root of the repository.
    pub(super) folder: String,
    /// Imports of other members: name, and whether only tests need it.
    pub(super) edges: Vec<(String, bool)>,
}

struct Row {
    folder: String,
    may: BTreeSet<String>,
    line: usize,
}

/// Reads the members and the imports between them from the output of `cargo metadata --no-deps`.
pub(super) fn packages(metadata: &str, root: &str) -> Result<Vec<Package>, String> {
    let parsed: Value =
        serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let members = parsed["packages"]
        .as_array()
        .ok_or("cargo metadata names no packages")?;
    let mut found = Vec::new();
    for member in members {
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or("cargo metadata: a name is missing")
        };
        let manifest = text(&member["manifest_path"])?;
        let folder = manifest
            .strip_prefix(root)
            .unwrap_or(&manifest)
            .trim_start_matches('/')
            .trim_end_matches("/Cargo.toml")
            .to_owned();
        let mut edges = Vec::new();
        for dependency in member["dependencies"]
            .as_array()
            .ok_or("cargo metadata: no dependencies")?
        {
            // Only members have a path: libraries come from the registry.
            if dependency["path"].is_string() {
                edges.push((
                    short(&text(&dependency["name"])?),
                    dependency["kind"] == "dev",
                ));
            }
        }
        found.push(Package {
            name: short(&text(&member["name"])?),
            folder,
            edges,
        });
    }
    Ok(found)
}

/// Compares the table with the members.
pub(super) fn check(architecture: &str, packages: &[Package]) -> Vec<Finding> {
    let table = table(architecture);
    let mut findings = Vec::new();
    if table.is_empty() {
        findings.push(Finding::new(
            TABLE_FILE,
            0,
            "has no table `| crate | folder | promises | may import |`",
        ));
    }
    for (name, row) in &table {
        if !packages.iter().any(|package| package.name == *name) {
            findings.push(Finding::new(
                TABLE_FILE,
                row.line,
                format!("lists `{name}`, which is no member of the workspace"),
            ));
        }
        for unknown in row.may.iter().filter(|import| !table.contains_key(*import)) {
            findings.push(Finding::new(
                TABLE_FILE,
                row.line,
                format!("lets `{name}` import `{unknown}`, which has no row"),
            ));
        }
    }
    for package in packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let Some(row) = table.get(&package.name) else {
            findings.push(Finding::new(
                &manifest,
                0,
                format!("`{}` has no row in {TABLE_FILE}", package.name),
            ));
            continue;
        };
        if row.folder != package.folder {
            let message = format!(
                "says `{}` is in {}, it is in {}",
                package.name, row.folder, package.folder
            );
            findings.push(Finding::new(TABLE_FILE, row.line, message));
        }
        for (import, for_tests) in &package.edges {
            let free = *for_tests
                && (FREE_FOR_TESTS.contains(&import.as_str()) || *import == package.name);
            if free || row.may.contains(import) {
                continue;
            }
            let allowed = row
                .may
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            let allowed = if allowed.is_empty() {
                "nothing of the workspace".to_owned()
            } else {
                allowed
            };
            findings.push(Finding::new(
                &manifest,
                0,
                format!(
                    "`{}` may not import `{import}`; {TABLE_FILE} allows: {allowed}",
                    package.name
                ),
            ));
        }
    }
    findings
}

fn table(architecture: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    let mut inside = false;
    for (index, line) in architecture.lines().enumerate() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if !line.trim_start().starts_with('|') {
            inside = false;
        } else if cells.len() == 4 && cells[0] == "crate" && cells[3] == "may import" {
            inside = true;
        } else if inside && cells.len() == 4 && !cells[0].starts_with("--") {
            let may = cells[3]
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            rows.insert(
                cells[0].to_owned(),
                Row {
                    folder: cells[1].to_owned(),
                    may,
                    line: index + 1,
                },
            );
        }
    }
    rows
}

fn short(package: &str) -> String {
    package
        .strip_prefix("quarry-")
        .unwrap_or(package)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Crates\n\n| crate | folder | promises | may import |\n\
        |---|---|---|---|\n\
        | model | crates/model | BSON. | |\n| storage | crates/storage | bytes. | |\n| query | \
        crates/query | plans. | model |\n";

    fn metadata(query_dependencies: &str) -> String {
        format!(
            r#"{{"packages":[
            {{"name":"quarry-model","manifest_path":"/r/crates/model/Cargo.toml",
             "dependencies":[{{"name":"ryu","path":null,"kind":null}}]}},
            {{"name":"quarry-storage","manifest_path":"/r/crates/storage/Cargo.toml",
             "dependencies":[]}},
            {{"name":"quarry-query","manifest_path":"/r/crates/query/Cargo.toml",
             "dependencies":[{query_dependencies}]}}]}}"#
        )
    }

    fn complaints(table: &str, metadata: &str) -> Vec<String> {
        check(table, &packages(metadata, "/r").unwrap())
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let edge = r#"{"name":"quarry-model","path":"/r/crates/model","kind":null}"#;
        assert_eq!(complaints(TABLE, &metadata(edge)), Vec::<String>::new());
    }

    #[test]
    fn another_edge_fails_except_for_tests() {
        let edge = |kind: &str| {
            metadata(&format!(
                r#"{{"name":"quarry-storage","path":"/r/crates/storage","kind":{kind}}}"#
            ))
        };
        let expected = "crates/query/Cargo.toml: `query` may not import `storage`; ARCHITECTURE.md \
            allows: model";
        assert_eq!(complaints(TABLE, &edge("null")), [expected]);
        assert_eq!(complaints(TABLE, &edge("\"build\"")), [expected]);
        assert_eq!(complaints(TABLE, &edge("\"dev\"")), Vec::<String>::new());
    }

    #[test]
    fn tests_are_not_free_to_import_everything() {
        let table = format!("{TABLE}| wire | crates/wire | frames. | |\n");
        let edge = metadata(r#"{"name":"quarry-wire","path":"/r/crates/wire","kind":"dev"}"#);
        let complaints = complaints(&table, &edge);
        assert!(
            complaints[0].contains("`wire`, which is no member"),
            "{complaints:?}"
        );
        assert!(
            complaints[1].contains("`query` may not import `wire`"),
            "{complaints:?}"
        );
    }

    #[test]
    fn rows_and_members_must_match() {
        let moved = TABLE.replace("crates/model |", "crates/old |");
        assert_eq!(
            complaints(&moved, &metadata("")),
            ["ARCHITECTURE.md:5: says `model` is in crates/old, it is in crates/model"]
        );
        let short = TABLE.replace("| query | crates/query | plans. | model |\n", "");
        assert_eq!(
            complaints(&short, &metadata("")),
            ["crates/query/Cargo.toml: `query` has no row in ARCHITECTURE.md"]
        );
        let wrong = TABLE.replace("plans. | model |", "plans. | modle |");
        assert_eq!(
            complaints(&wrong, &metadata("")),
            ["ARCHITECTURE.md:7: lets `query` import `modle`, which has no row"]
        );
        assert!(complaints("# Nothing", &metadata(""))[0].contains("has no table"));
    }
}
