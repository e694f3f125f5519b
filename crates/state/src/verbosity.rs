//! Components of the log, and the parsing of a setting of their verbosity. Must not know: where the
//! setting is kept.

use model::{Doc, Result, Value, bail, code};
use request::args::to_i64;

/// Log components and their children; each has its own verbosity, and -1 inherits that of its
/// parent.
pub(super) const COMPONENTS: &[(&str, &[&str])] = &[
    ("accessControl", &[]),
    ("command", &[]),
    ("control", &[]),
    ("executor", &[]),
    ("geo", &[]),
    ("globalIndex", &[]),
    ("index", &[]),
    ("network", &["asio", "bridge", "connectionPool", "grpc"]),
    ("processHealth", &[]),
    ("query", &["algorithm", "optimizer", "rejected"]),
    ("queryStats", &[]),
    (
        "replication",
        &["election", "heartbeats", "initialSync", "rollback"],
    ),
    (
        "sharding",
        &[
            "shardingCatalogRefresh",
            "migration",
            "migrationPerf",
            "rangeDeleter",
            "shardMigrationPerf",
        ],
    ),
    ("storage", &["recovery", "journal", "wt"]),
    ("write", &[]),
    ("ftdc", &[]),
    ("tracking", &[]),
    ("transaction", &[]),
    ("tenantMigration", &[]),
    ("test", &[]),
    ("resharding", &[]),
    ("migration", &[]),
    ("assert", &[]),
];

/// Collects the verbosities of a setting by component.
///
/// # Errors
/// 2 BadValue for a component that does not exist, or an invalid verbosity.
pub(super) fn collect_verbosity(
    path: &str,
    doc: Doc<'_>,
    out: &mut Vec<(String, i32)>,
) -> Result<()> {
    for (name, value) in doc.iter() {
        if name == "verbosity" {
            out.push((path.to_owned(), level(path, &value)?));
            continue;
        }
        let full = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        let known = match path {
            "" => COMPONENTS.iter().any(|(c, _)| *c == name),
            parent => COMPONENTS
                .iter()
                .any(|(c, children)| *c == parent && children.contains(&name)),
        };
        if !known {
            bail!(
                code::BAD_VALUE,
                "Invalid component name '{full}' in log component verbosity settings"
            );
        }
        match value {
            Value::Document(d) => collect_verbosity(&full, d, out)?,
            v => out.push((full.clone(), level(&full, &v)?)),
        }
    }
    Ok(())
}

fn level(path: &str, value: &Value<'_>) -> Result<i32> {
    match to_i64(value) {
        Some(n) if (i64::from(i32::MIN)..i64::from(i32::MAX)).contains(&n) => Ok(n.max(-1) as i32),
        Some(n) => bail!(
            code::BAD_VALUE,
            "Expected a verbosity of -1 or more for component '{path}', given {n}"
        ),
        None => bail!(
            code::BAD_VALUE,
            "Expected a number as the verbosity of component '{path}', given {}",
            value.type_name()
        ),
    }
}
